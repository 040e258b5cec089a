// Package resp speaks the wire protocol of Redis, for a server and for its clients.
//
// # Terminology
//
//	command    what a client sends: words, the first of which is the command's name
//	multibulk  the usual form of a command: *2, then $3 GET, $1 k, each on its own line
//	inline     the other form, for people at telnet: a line of words as at a prompt
//	bulk       a string of any bytes, sent with its length
//	RESP2      the protocol that clients speak until they ask for another
//	RESP3      the protocol after HELLO 3, with maps, sets, booleans, doubles and pushes
//	push       a message of RESP3 that answers no command
//
// # How it works
//
// A server finds commands with a Decoder and writes replies with Append. A client writes commands with AppendCommand
// and reads replies with a Reader.
//
// Input is not trusted. Memory grows with the bytes received, never with the lengths that they announce. Malformed
// input is an error, never a panic. The Decoder has the limits and the error texts of Redis by default.
//
// # Concurrency
//
// A Decoder or a Reader may be used by one goroutine at a time.
package resp
