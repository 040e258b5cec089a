package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/client"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/cmdline"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/input"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/text"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// scriptFlags are the flags for scripts.
type scriptFlags struct {
	file        string
	stopOnError bool
}

const fileFlag = "file"

func (f *scriptFlags) register(flags *pflag.FlagSet) {
	flags.StringVarP(&f.file, fileFlag, "f", "",
		"run the commands in `FILE`, or on standard input for -, and tell the lines of errors")
	flags.BoolVar(&f.stopOnError, "stop-on-error", false, "end a script at the first error")
}

// runScript runs commands from standard input, or from the file of -f, one on a line, and prints their replies in
// order. It passes over blank lines and lines that begin with #. After an error reply it goes on, unless
// --stop-on-error is given, and the exit code tells of the error; with -f, standard error tells the line.
//
// If there is no store, a write makes it. A read before the first write ends the script with an error.
func (sh *shell) runScript(ctx context.Context) (err error) {
	if sh.address == nil {
		if _, err := sh.dir(); err != nil {
			return err
		}
	}
	s := script{shell: sh, hinted: make(map[string]bool)}
	in := sh.stdin
	switch sh.script.file {
	case "":
	case input.Stdin:
		s.name = "<stdin>"
	default:
		s.name = sh.script.file
		if in, err = openFile(ctx, s.name); err != nil {
			return err
		}
		defer func() { err = exit.JoinLocal(err, in.Close()) }()
	}
	defer func() {
		if s.exec != nil {
			s.exec.Close(&err)
		}
	}()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	lines := readScript(reading, in)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case line, more := <-lines:
			// The end of ctx also ends the reading, so that both cases may be ready.
			if err := ctx.Err(); err != nil {
				return err
			}
			if !more {
				return s.result()
			}
			if err := s.run(ctx, line); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if s.code != exit.OK && sh.script.stopOnError {
				return s.result()
			}
		}
	}
}

// scriptLine is a line of a script, or the error that ended the reading.
type scriptLine struct {
	number int
	text   []byte
	err    error
}

// readScript reads the lines in a goroutine of its own, so that Ctrl-C ends a script that waits for a pipe. The
// goroutine ends with the input or with ctx. If it waits for a pipe then, it ends with the process.
func readScript(ctx context.Context, in io.Reader) <-chan scriptLine {
	lines := make(chan scriptLine)
	go func() {
		defer close(lines)
		r, _, err := text.Decode(bufio.NewReader(in))
		for number := 1; ; number++ {
			var line []byte
			if err == nil {
				line, err = readLine(r)
			}
			ended := err != nil
			if errors.Is(err, io.EOF) {
				err = nil
			}
			select {
			case lines <- scriptLine{number, line, err}:
			case <-ctx.Done():
				return
			}
			if ended {
				return
			}
		}
	}()
	return lines
}

// longestWord is the most bytes of a word of a command, and of a line of a script. Tests lower it.
var longestWord = 512 << 20

// readLine reads a line. One that is too long, as of a device that never ends, is an error.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for err = bufio.ErrBufferFull; err == bufio.ErrBufferFull; {
		var part []byte
		part, err = r.ReadSlice('\n')
		if line = append(line, part...); len(line) > longestWord {
			return nil, fmt.Errorf("it has more than %d bytes: is it a script?", longestWord)
		}
	}
	return line, err
}

// script is a script that runs.
type script struct {
	shell  *shell
	name   string   // for messages that tell the lines of errors; "" for no messages
	exec   executor // nil before the first command
	code   int      // the highest exit code of the replies so far
	queued int      // commands since MULTI

	table  *module.Table   // of hints, nil before the first that needs it
	hinted map[string]bool // hints that were told
}

// maxHints is the most different hints that a script is told.
const maxHints = 20

func (s *script) run(ctx context.Context, line scriptLine) error {
	if line.err != nil {
		return exit.WithCode(exit.Local, fmt.Errorf("line %d of the script: %w", line.number, line.err))
	}
	words, err := cmdline.Split(line.text)
	if err != nil {
		return s.answer(line, reply.Errorf("ERR line %d: %v", line.number, err))
	}
	if len(words) == 0 {
		return nil
	}
	if s.exec != nil {
		return s.do(ctx, s.exec, line, words)
	}
	exec, storeless, err := s.shell.openFor(ctx, words)
	if err != nil {
		return err
	}
	if !storeless {
		s.exec = exec
		return s.do(ctx, exec, line, words)
	}
	// The reply is an error in any new store. Whether the script makes a store is up to the commands after it.
	err = s.do(ctx, exec, line, words)
	exec.Close(&err)
	return err
}

func (s *script) do(ctx context.Context, exec executor, line scriptLine, words [][]byte) error {
	r, err := exec.Do(ctx, words)
	if errors.Is(err, client.ErrNoReply) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("line %d of the script: %w", line.number, err)
	}
	if err := s.answer(line, r); err != nil {
		return err
	}
	s.hint(exec, line, words, r)
	switch {
	case !exec.InTransaction():
		s.queued = 0
	case r.Kind() == reply.KindStatus && string(r.Bytes()) == "QUEUED":
		s.queued++
	}
	return exec.Follow(ctx, words, r, s.shell.print)
}

// answer prints the reply to a line and, if the script has a name, the line of an error.
func (s *script) answer(line scriptLine, r reply.Reply) error {
	if err := s.shell.print(r); err != nil {
		return err
	}
	code := exit.ReplyCode(r)
	s.code = max(s.code, code)
	if code != exit.OK && s.name != "" {
		fmt.Fprintf(s.shell.stderr, "%s%s:%d: %s\n", s.shell.name, s.name, line.number, firstError(r))
	}
	return nil
}

// hint tells, with the line, what may help with a reply. It tells each hint once, and asks a server for its table once.
func (s *script) hint(exec executor, line scriptLine, words [][]byte, r reply.Reply) {
	if len(s.hinted) == maxHints {
		return
	}
	table := func() *module.Table {
		if s.table == nil {
			s.table = exec.Table()
		}
		return s.table
	}
	hint := s.shell.hintText(table, words, r, nil)
	if hint == "" || s.hinted[hint] {
		return
	}
	s.hinted[hint] = true
	place := fmt.Sprintf("line %d", line.number)
	if s.name != "" {
		place = fmt.Sprintf("%s:%d", s.name, line.number)
	}
	fmt.Fprintf(s.shell.stderr, "%s%s: %s\n", s.shell.name, place, hint)
}

// firstError returns the text of the first error in a reply, nil if it has none.
func firstError(r reply.Reply) []byte {
	if r.IsError() {
		return r.Bytes()
	}
	for _, elem := range r.Elems() {
		if text := firstError(elem); text != nil {
			return text
		}
	}
	return nil
}

func (s *script) result() error {
	if s.exec != nil && s.exec.InTransaction() {
		return insideMulti(s.queued, s.code)
	}
	if s.code == exit.OK {
		return nil
	}
	return &exit.Error{Code: s.code} // the replies have told the errors
}

// insideMulti returns the error of input that ended before EXEC. The exit code is the replies' if they had errors.
func insideMulti(queued, code int) error {
	lost := fmt.Sprintf("%d queued commands were not run", queued)
	switch queued {
	case 0:
		lost = "no command was queued"
	case 1:
		lost = "1 queued command was not run"
	}
	return exit.WithCode(max(code, exit.Refused), fmt.Errorf("input ended inside MULTI: %s", lost))
}
