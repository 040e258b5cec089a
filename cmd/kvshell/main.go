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
//	hint      text beside a reply, on standard error, that helps the person who typed the command
//	executor  what carries out commands: a store in this process, or a server
//
// # The files
//
// Each own word has a file, which is called like it: dedup.go, load.go, stats.go, plan.go, check.go, compact.go, serve.go,
// help.go, version.go. The commands of a store are in command.go, for one, script.go, for many, and prompt.go, where they are
// typed. All of these are methods of the shell: shell.go has it and the flags, store.go opens the store, executor.go
// tells a store from a server, format.go shows replies, hint.go has hints.
//
// # The packages below
//
//	client      a server: its address, the connection, its command table
//	input       lines that are read ahead, from a file or a pipe
//	filters     the types of filter as load, dedup and plan see them
//	dedup, load one run of these words over an input
//	serve       one run of this word
//	reference   docs/COMMANDS.md, with the replies to its examples
//	report      what stats and plan print
//	prompt      a line at the prompt: the editor, completion, the history
//	tty         the terminal: text a screen at a time
//	progress    the bar, and counts of lines
//	exit        exit codes, and errors with one
//	cliflags    types of flags, and their errors
//	cmdline     words of a command line, and quotes
//	suggest     names that a mistyped one is close to
//	system      what differs between operating systems
//	crashpoint  where tests crash a run
//	servertest  servers for tests
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
