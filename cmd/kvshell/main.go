// Command kvshell runs commands of a store in a directory, as redis-cli does for a server: one command, a script of
// commands, or commands that are typed at a prompt. It also has words of its own, such as dedup, for work on files
// and on whole stores. On a server, which may be a Redis, commands, scripts, the prompt and load work in the same way;
// stats, check and compact need a server of a store.
//
// # Terminology
//
//	word      a part of the command line; all words after the first belong to it
//	own word  a lower-case word that kvshell itself carries out: dedup, plan, check, help
//	command   any other first word: a command of the store, such as BF.ADD, in any case
//	prompt    where commands are typed one after the other; kvshell without words has one
//	hint      text on standard error that explains a reply to the person who typed the command
//	executor  what runs commands: a store in this process, or a server
//
// # The files
//
// Each own word has a file of its name: dedup.go, load.go, stats.go, top.go, plan.go, check.go, compact.go, backup.go,
// export.go, serve.go, bench.go, help.go, completion.go, man.go, version.go; info.go describes a file of export,
// pull.go has pull, push and import-rdb, whose work internal/migrate does. The store's commands are run by command.go, which has one command,
// script.go, which has many, and prompt.go, where they are typed; watch.go has the flags in place of a command. All of these are methods of the shell. shell.go
// has the shell and its flags, pipe.go opens, reads and writes what may be a pipe, store.go opens the store, executor.go
// hides whether commands go to a store or to a server, format.go shows replies, hint.go has hints.
//
// # The packages below
//
//	client      the client of a server: address, connection, command table
//	input       reads lines ahead, from a file or a pipe
//	filters     the types of filter as load, dedup and plan see them
//	dedup       one run of dedup over its input
//	load        one run of load over its input
//	serve       one run of serve
//	bench       one run of bench
//	reference   makes docs/COMMANDS.md, and runs the examples in it
//	report      what stats and plan print
//	prompt      the line that is typed: editor, completion, history
//	tty         the terminal: shows long text a screen at a time, and messages without what would command it
//	progress    the progress bar, and counts of lines
//	exit        exit codes, and errors that have one
//	cliflags    types of flags, and errors about flags
//	cmdline     splits command lines into words, and quotes words
//	suggest     finds the names that a mistyped name is close to
//	system      what differs between operating systems
//	crashpoint  marks where tests crash a run
//	servertest  servers for tests
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
)

// programName stands before messages.
const programName = "kvshell: "

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	sh := &shell{stdin: os.Stdin, stdout: os.Stdout, stderr: tty.NewMessages(os.Stderr), name: programName}
	os.Exit(sh.run(ctx, os.Args[1:]))
}
