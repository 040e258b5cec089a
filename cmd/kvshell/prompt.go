package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/client"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/cmdline"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/input"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/prompt"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/system"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
	"github.com/sievekv/sievekv/module/reply"
)

// interactive is the prompt, where commands are typed.
type interactive struct {
	shell      *shell
	exec       executor
	client     *client.Client // exec if that is a server, otherwise nil
	editor     *prompt.Editor
	interrupts chan os.Signal // Ctrl-C while a command runs; while a line is edited the editor reads it as a key
	questions  questions
	timer      bool        // tells how long commands take
	stopped    atomic.Bool // whether Ctrl-C came while the last command ran
}

const scratchBanner = `No -d DIR, no $SIEVEKV_DIR: this is a scratch store in memory, and nothing in it is kept. Try

  BF.RESERVE seen 0.01 1000
  BF.ADD seen apple
  help

`

// runPrompt runs commands that are typed, until Ctrl-D.
func (sh *shell) runPrompt(ctx context.Context) (err error) {
	p := &interactive{shell: sh, interrupts: make(chan os.Signal, 1), questions: questions{off: sh.yes}}
	if sh.address != nil {
		p.client = sh.client()
		p.exec = p.client
	} else {
		store, err := sh.openForPrompt()
		if err != nil {
			return err
		}
		p.exec, sh.lent = store, store.db
	}
	sh.name = ""
	defer func() {
		sh.lent = nil
		p.exec.Close(&err)
		sh.name = programName
	}()
	// From here on Ctrl-C ends a command. Without this it would end the process, by ctx, as other signals do.
	signal.Reset(os.Interrupt)
	signal.Notify(p.interrupts, os.Interrupt)
	defer signal.Stop(p.interrupts)
	if p.editor, err = prompt.NewEditor(sh.stdin, sh.stdout, p.complete()); err != nil {
		return err
	}
	sh.keys, sh.showLong, sh.show.readable = p.editor.Keys(), p.showLong, tty.HasUTF8()
	defer func() {
		sh.keys, sh.showLong = nil, nil
		err = errors.Join(err, p.editor.Close())
	}()
	p.tellHistory(p.editor.HistoryError)
	p.connect(ctx)
	return p.run(ctx)
}

// connect connects to the server, if the prompt is for one. An error is printed and does not end the prompt: the next
// command tries again.
func (p *interactive) connect(ctx context.Context) {
	if p.client == nil {
		return
	}
	ctx, cancel := p.untilInterrupt(ctx)
	defer cancel()
	if err := p.client.Open(ctx); err != nil {
		p.shell.tell(err)
	}
}

// openForPrompt opens the store that -d or $SIEVEKV_DIR names, or without these one in memory.
func (sh *shell) openForPrompt() (*storeExecutor, error) {
	dir, err := sh.dir()
	if err != nil {
		db, err := sh.open("", false)
		if err != nil {
			return nil, err
		}
		store := sh.storeExecutor(db)
		store.title = "(scratch)"
		if _, err = sh.stdout.WriteString(scratchBanner); err != nil {
			store.Close(&err)
			return nil, err
		}
		return store, nil
	}
	db, err := sh.openOrCreate()
	if err != nil {
		return nil, err
	}
	store := sh.storeExecutor(db)
	store.title = storeName(dir)
	return store, nil
}

// maxStoreName is the most characters of a store's name in the prompt, which must leave room for the line.
const maxStoreName = 24

// storeName returns the last part of a directory's path in a form that the prompt can show.
func storeName(dir string) string {
	name := []rune(filepath.Base(system.RealPath(dir)))
	for i, r := range name {
		if !unicode.IsPrint(r) {
			name[i] = '?'
		}
	}
	if len(name) > maxStoreName {
		name = append(name[:maxStoreName-1], '…')
	}
	return string(name)
}

// complete returns the completer of lines.
func (p *interactive) complete() *prompt.Completer {
	return &prompt.Completer{Table: p.exec.Table, Known: p.exec.KnownTable, Keys: p.exec.Keys, Own: p.ownCommands}
}

// tellHistory prints an error of the history. After an error the history is not kept any more.
func (p *interactive) tellHistory(err error) {
	if err != nil {
		fmt.Fprintf(p.shell.stderr, "the history is not kept: %v; $%s names another file for it\n", err, prompt.HistoryVariable)
	}
}

// text returns the text before the line. Between MULTI and EXEC it has (TX).
func (p *interactive) text() string {
	if p.exec.InTransaction() {
		return p.exec.Name() + "(TX)> "
	}
	return p.exec.Name() + "> "
}

// run reads lines and runs them, until Ctrl-D or exit.
func (p *interactive) run(ctx context.Context) error {
	for {
		select {
		case <-p.interrupts: // it came after the end of the last command
			p.recall()
		default:
		}
		if p.client != nil {
			p.client.Learn() // for hints, which do not wait
		}
		line, err := p.editor.ReadLine(ctx, p.text(), p.interrupts)
		switch {
		case errors.Is(err, prompt.ErrAborted):
			continue
		case errors.Is(err, prompt.ErrLong):
			p.shell.tell(err)
			continue
		case errors.Is(err, io.EOF):
			_, err = fmt.Fprintln(p.shell.stdout)
			p.tellDropped()
			return exit.WithCode(exit.Local, err)
		case err != nil:
			return err
		}
		p.tellHistory(p.editor.Keep(line))
		if err := p.carryOut(ctx, line); errors.Is(err, errExit) {
			p.tellDropped()
			return nil
		} else if err != nil {
			p.shell.tell(err)
			if errors.Is(err, context.Canceled) {
				p.connect(ctx) // the connection was closed, as a reply is missing on it
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.stopped.Swap(false) {
			p.recall()
		}
	}
}

// recall has the lines of a paste that were not run be edited again.
func (p *interactive) recall() {
	if n := p.editor.Recall(); n > 0 {
		fmt.Fprintf(p.shell.stderr, "not run: %d more of the lines that were pasted, which are here to be edited\n", n)
	}
}

// tellDropped tells that the commands after MULTI are forgotten, if there is no EXEC after it.
func (p *interactive) tellDropped() {
	if p.exec.InTransaction() {
		fmt.Fprintln(p.shell.stderr, "the transaction is discarded: nothing after MULTI was run, as EXEC did not follow")
	}
}

// carryOut runs a line, until Ctrl-C. The error that it returns has not been printed.
func (p *interactive) carryOut(ctx context.Context, line string) error {
	command, program, piped := cmdline.CutPipe(line)
	words, err := cmdline.Split([]byte(command))
	if len(words) > 0 && string(words[0]) == "--" { // all words after it are the command's
		piped = false
		words, err = cmdline.Split([]byte(line))
	}
	switch {
	case err != nil:
		return p.shell.print(reply.Errorf("ERR %v", err))
	case len(words) == 0 && !piped:
		return nil
	case strings.ContainsRune(line, utf8.RuneError):
		// The editor has put this character in place of bytes that it cannot decode.
		return p.shell.print(reply.Errorf(`ERR not UTF-8: write other bytes as \xHH in double quotes`))
	case piped && (len(words) == 0 || strings.TrimSpace(program) == ""):
		return p.shell.print(reply.Errorf(`ERR a command must stand before | and a program after it: as a word write "|"`))
	}
	isOwn := prompt.FindWord(p.ownCommands(), string(words[0])) != nil
	if !isOwn {
		if run, err := p.allow(ctx, words); err != nil || !run {
			return err
		}
	}
	run := func() error { return p.runWords(ctx, words, isOwn) }
	if piped {
		err = p.into(program, run)
	} else {
		err = run()
	}
	p.took()
	return err
}

// runWords runs an own word, or a command.
func (p *interactive) runWords(ctx context.Context, words [][]byte, isOwn bool) error {
	ctx, cancel := p.untilInterrupt(ctx)
	defer cancel()
	own := p.ownCommands()
	if isOwn {
		p.questions.added = nil // the word may write
		begin := time.Now()
		err := runOwn(ctx, prompt.FindWord(own, string(words[0])), words[1:])
		p.shell.lasted = time.Since(begin)
		return err
	}
	if string(words[0]) == "--" {
		if words, own = words[1:], nil; len(words) == 0 {
			return nil
		}
	}
	r, err := p.shell.do(ctx, p.exec, words, own)
	p.questions.note(words, r)
	if err == nil && r.IsError() {
		err = ctx.Err()
	}
	return err
}

// untilInterrupt returns a context that Ctrl-C cancels, and a function that ends the watch for Ctrl-C.
func (p *interactive) untilInterrupt(ctx context.Context) (context.Context, context.CancelFunc) {
	select {
	case <-p.interrupts: // it was meant for the command before
	default:
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-p.interrupts:
			p.stopped.Store(true)
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// runOwn runs an own word.
func runOwn(ctx context.Context, cmd *cobra.Command, args [][]byte) error {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = string(arg)
	}
	cmd.SetArgs(words)
	return cmd.ExecuteContext(ctx)
}

// errExit ends the prompt.
var errExit = errors.New("exit")

// ownCommands returns the own words of the prompt: most words of the command line, without the flags before the word,
// and some more.
func (p *interactive) ownCommands() []*cobra.Command {
	own := p.shell.ownCommands()
	for _, cmd := range own {
		keepStdin(cmd)
	}
	own = append(own, p.helpCommand(), p.outputCommand(), p.askCommand(), p.timerCommand(), &cobra.Command{
		Use: "clear", Short: "Clears the screen, as Ctrl-L does", Args: exactArgs(0),
		RunE: func(*cobra.Command, []string) error {
			if !tty.HasCursor() {
				return nil
			}
			return p.clear()
		},
	}, &cobra.Command{
		Use: "exit", Aliases: []string{"quit", "EXIT", "QUIT"}, Short: "Ends kvshell, as Ctrl-D does", Args: exactArgs(0),
		RunE: func(*cobra.Command, []string) error { return errExit },
	})
	for _, cmd := range own {
		p.shell.setUp(cmd)
	}
	return own
}

// clear clears the screen.
func (p *interactive) clear() error {
	_, err := p.shell.stdout.WriteString("\x1b[H\x1b[2J")
	return exit.WithCode(exit.Local, err)
}

// keepStdin makes a word refuse - for a file: standard input is where the prompt reads lines.
func keepStdin(cmd *cobra.Command) {
	check, places := cmd.Args, prompt.Places(cmd)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return err
		}
		for i, place := range places {
			if i < len(args) && args[i] == input.Stdin && slices.Contains(strings.Split(place, "|"), input.Stdin) {
				return exit.Usagef("%s: at the prompt - cannot be standard input: name a file", cmd.Name())
			}
		}
		return nil
	}
}

func (p *interactive) outputCommand() *cobra.Command {
	return &cobra.Command{
		Use: "output text|raw|json|csv", Short: "Says how replies are shown from now on", Args: exactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			f, ok := formatNamed(args[0])
			if !ok {
				return exit.Usagef("output %s: must be text, raw, json or csv", args[0])
			}
			f.readable = p.shell.show.readable
			p.shell.show = f
			return nil
		},
	}
}
