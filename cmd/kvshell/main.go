// Command kvshell is to a store's directory what redis-cli is to a host: it runs one command and prints
// the reply, runs a script of commands, or commands as they are typed at a prompt, and has words of its own
// for work on files. It does the same on a server, also one of Redis.
//
// # Terminology
//
//	word      a part of the command line; all after the first word belongs to it
//	own word  a lower-case word that kvshell itself carries out: dedup, plan, check, help
//	command   anything else: a command of the store, such as BF.ADD, in any case
//	prompt    where commands are typed one after the other, without words on the command line
//	hint      what is said beside a reply, on standard error, to help the person who typed the command
//	input     what dedup reads: a file or standard input, plain or gzipped
//	OUT       the file dedup appends new lines to
//	batch     lines of the input that are one commit
//	record    what a commit of dedup says about the run: see record.go
//
//	executor  what carries out commands: a store in this process, or a server
//
// # How it works
//
// Each file is one of the parts: shell.go the flags, store.go opening, command.go and script.go the
// store's commands, hint.go and suggest.go what helps with a reply, exit.go what the process answers its caller.
// docs.go makes docs/COMMANDS.md of the command table, plan.go tells the size of a filter.
//
// The prompt is in prompt.go; complete.go has what Tab offers there, by the command table, syntax.go the options in a
// command's syntax, history.go the lines of earlier sessions. dedup is made of the input, which is
// read ahead into batches (input.go), the record (record.go), OUT (out.go) and the pass that brings them
// together (pass.go), where the argument stands why each line is in OUT exactly once.
//
// Of a server, address.go has the flags, connection.go the bytes, client.go what is known of a connection, and when it
// is made again, table.go what the server tells of its commands, serverload.go load.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// programName stands before messages.
const programName = "kvshell: "

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	sh := &shell{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, name: programName}
	os.Exit(sh.run(ctx, os.Args[1:]))
}
