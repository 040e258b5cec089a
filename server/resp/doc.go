// Package resp speaks the wire protocol of Redis, for a server and for its clients.
//
// # Terminology
//
//	command    what a client sends: words, the first of which is the command's name
//	multibulk  the usual form of a command: *2, then $3 GET, $1 k, each on lines of their own
//	inline     the other form, for people at telnet: a line of words as at a prompt
//	bulk       a word or a string of any bytes, with its length before it
//	RESP2      the protocol that clients speak until they ask for another
//	RESP3      the protocol after HELLO 3, with maps, sets, booleans, doubles and pushes
//	push       a message of RESP3 that answers no command
//
// # How it works
//
// A Decoder finds the commands in what a client sent, and Append writes the replies to them. A client
// writes its commands with AppendCommand and reads the replies with a Reader.
//
// What is read may come from anybody. Memory grows with the bytes that were received, never with the
// lengths that they announce, and malformed input is an error, never a panic. Where Redis has limits, the
// Decoder has the same ones by default, and its errors are worded as those of Redis.
//
// # Concurrency
//
// A Decoder and a Reader are for one goroutine at a time.
package resp
