package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/reply"
)

// runScript runs the commands that standard input has, one on a line, and prints their replies in order.
// Blank lines and those that begin with # are passed over. An error does not end the script; the exit code
// tells of it.
//
// Where there is no store, the first command has to be a write, which makes it: a script that only reads
// ends like a single read.
func (sh *shell) runScript(ctx context.Context) (err error) {
	if _, err := sh.dir(); err != nil {
		return err
	}
	s := script{shell: sh}
	defer func() {
		if s.db != nil {
			closeStore(s.db, &err)
		}
	}()
	lines := sh.readScript(ctx)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case line, more := <-lines:
			if !more {
				return s.result()
			}
			if err := s.run(ctx, line); err != nil {
				return err
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

// readScript reads the lines in a goroutine of its own, so that Ctrl-C is heard while the pipe is silent.
// It ends with the input, with ctx, or, if the pipe stays silent, with the process.
func (sh *shell) readScript(ctx context.Context) <-chan scriptLine {
	lines := make(chan scriptLine)
	go func() {
		defer close(lines)
		r := bufio.NewReader(sh.stdin)
		for number := 1; ; number++ {
			text, err := r.ReadBytes('\n')
			ended := err != nil
			if errors.Is(err, io.EOF) {
				err = nil
			}
			select {
			case lines <- scriptLine{number, text, err}:
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

// script is a script on its way.
type script struct {
	shell   *shell
	db      *kv.DB // nil before the first command
	session *kv.Session
	code    int // the highest of the replies so far
}

func (s *script) run(ctx context.Context, line scriptLine) error {
	if line.err != nil {
		return withCode(exitLocal, fmt.Errorf("line %d of the script: %w", line.number, line.err))
	}
	text := bytes.TrimLeft(line.text, " \t")
	if bytes.HasPrefix(text, []byte("#")) {
		return nil
	}
	words, err := splitLine(text)
	if err != nil {
		return s.answer(reply.Errorf("ERR line %d: %v", line.number, err))
	}
	if len(words) == 0 {
		return nil
	}
	if s.db != nil {
		return s.answer(s.session.Do(ctx, words))
	}
	db, scratch, err := s.shell.openFor(words)
	if err != nil {
		return err
	}
	session := db.NewSession()
	if !scratch {
		s.db, s.session = db, session
		return s.answer(session.Do(ctx, words))
	}
	// An error whatever the store: it says nothing of whether the script is to make one.
	err = s.answer(session.Do(ctx, words))
	closeStore(db, &err)
	return err
}

func (s *script) answer(r reply.Reply) error {
	s.code = max(s.code, replyCode(r))
	return s.shell.print(r)
}

func (s *script) result() error {
	if s.code == exitOK {
		return nil
	}
	return &codeError{code: s.code} // the replies said it
}
