package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/edit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/edit/screentest"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/prompt"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
)

// typist is a person at a terminal who runs kvshell in it.
type typist struct {
	t       *testing.T
	cmd     *exec.Cmd
	tty     *os.File
	shown   chan []byte
	pending string             // shown, and not looked at yet
	screen  *screentest.Screen // with all that was shown
}

// These are the size of the terminal at first.
const rows, columns = 24, 200

// at starts kvshell with a terminal of its own, in which Ctrl-C is a signal. Env is added to an environment without a
// store and without a history.
func at(t *testing.T, env []string, args ...string) *typist {
	t.Helper()
	return atTerminal(t, env, "kvshell", args...)
}

// atTerminal is at for any program.
func atTerminal(t *testing.T, env []string, program string, args ...string) *typist {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=1", dirVariable+"=", prompt.HistoryVariable+"=", pagerVariable+"=")
	cmd.Env = append(cmd.Env, env...)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: rows, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	p := &typist{t: t, cmd: cmd, tty: tty, shown: make(chan []byte), screen: screentest.New(columns, rows)}
	var reading sync.WaitGroup
	stop := make(chan struct{})
	reading.Go(func() {
		defer close(p.shown)
		for {
			b := make([]byte, 4096)
			n, err := tty.Read(b)
			if n == 0 && err != nil {
				return // EIO when the process has ended
			}
			select {
			case p.shown <- b[:n]:
			case <-stop:
				return
			}
		}
	})
	t.Cleanup(func() {
		if cmd.ProcessState == nil { // the test failed
			if err := errors.Join(cmd.Process.Kill(), ignoreExit(cmd.Wait())); err != nil {
				t.Error(err)
			}
		}
		close(stop)
		if err := tty.Close(); err != nil {
			t.Error(err)
		}
		reading.Wait()
	})
	return p
}

func ignoreExit(err error) error {
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return nil
	}
	return err
}

func (p *typist) types(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.tty, text); err != nil {
		p.t.Fatal(err)
	}
}

// sees waits until a text is shown, and returns what was shown before it.
func (p *typist) sees(text string) (before string) {
	p.t.Helper()
	for {
		before, after, found := strings.Cut(p.pending, text)
		if found {
			p.pending = after
			return before
		}
		p.more(text)
	}
}

// shows waits until the screen ends in a text: the line that is edited, and what is below it.
func (p *typist) shows(text string) {
	p.t.Helper()
	for !strings.HasSuffix(p.screen.Text(), text+"\n") {
		p.more(text)
	}
}

// edits waits until the cursor is behind a text in its row.
func (p *typist) edits(text string) {
	p.t.Helper()
	for p.screen.Cursor() != text {
		p.more(text)
	}
}

// more waits until more is shown.
func (p *typist) more(wanted string) {
	p.t.Helper()
	select {
	case b, more := <-p.shown:
		if !more {
			p.t.Fatalf("ended without showing %q after\n%s", wanted, p.pending)
		}
		p.show(b)
	case <-time.After(patience):
		p.t.Fatalf("waited for %q; the screen has\n%s", wanted, p.screen.Text())
	}
}

// patience is how long a test waits for what must come.
const patience = 4 * time.Minute

// show makes what the terminal got pending, with plain line breaks.
func (p *typist) show(b []byte) {
	p.pending = strings.ReplaceAll(p.pending+string(b), "\r\n", "\n")
	if _, err := p.screen.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

// resize changes the size of the terminal.
func (p *typist) resize(columns, rows int) {
	p.t.Helper()
	if err := pty.Setsize(p.tty, &pty.Winsize{Rows: uint16(rows), Cols: uint16(columns)}); err != nil {
		p.t.Fatal(err)
	}
	p.screen.Resize(columns, rows)
}

// ends waits for the end, and returns what was shown until then.
func (p *typist) ends(code int) string {
	p.t.Helper()
	for b := range p.shown {
		p.show(b)
	}
	if err := ignoreExit(p.cmd.Wait()); err != nil {
		p.t.Fatal(err)
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("exit code %d, want %d, after\n%s", got, code, p.pending)
	}
	return p.pending
}

const ctrlC, ctrlD, tab, enter = "\x03", "\x04", "\t", "\r"

// Without a store there is one in memory: its banner's commands work, and so do the own words.
func TestPrompt_scratch(t *testing.T) {
	p := at(t, nil)
	banner := p.sees("(scratch)> ")
	for line := range strings.Lines(banner) {
		if command, ok := strings.CutPrefix(line, "  "); ok {
			p.types(strings.TrimSpace(command) + enter)
			if strings.HasPrefix(command, "help") {
				p.sees(tty.PagerStatus)
				p.types("q")
			}
			if said := p.sees("(scratch)> "); strings.Contains(said, "rror") && !strings.HasPrefix(command, "help") {
				t.Errorf("%s: %s", command, said)
			}
		}
	}
	p.types("check" + enter)
	p.sees("keys    1\n")
	p.types("dedup seen2 " + urlList + " -o " + filepath.Join(t.TempDir(), "out") + enter)
	p.sees("new                  30072\n")
	p.types("DBSIZE" + enter)
	p.sees("(integer) 2\n")
	urls := filepath.Join(t.TempDir(), "urls")
	if err := os.WriteFile(urls, []byte("a\nb\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	p.types("load loaded " + urls + enter)
	p.sees("added                2\n")
	p.types("stats loaded" + enter)
	p.sees("\nitems       2 of ")
	p.types("DBSIZE" + enter) // the words have left the store open
	p.sees("(integer) 3\n")
	p.types("CONFIG SET bf-layout compatible" + enter) // which own words heed
	p.sees("OK\n")
	p.types("load like " + urls + enter)
	p.sees("added                2\n")
	p.types("stats like" + enter)
	p.sees("\nhash        murmur64a")
	p.types("plan --capacity 1000 --error 0.01" + enter)
	p.sees("\nlayout         compatible\n")
	p.types("exit now" + enter)
	p.sees("usage: exit\n")
	p.types("exit" + enter)
	p.ends(exit.OK)
}

// A session as a newcomer has it: a store that is made, a mistyped name, help, and the same store again.
func TestPrompt_store(t *testing.T) {
	store := filepath.Join(t.TempDir(), "demo")
	p := at(t, nil, "-d", store)
	p.sees("created store " + store + "\n")
	p.sees("demo> ")
	p.types("BF.RESERV seen 0.01 1000" + enter)
	p.sees("(error) ERR unknown command 'BF.RESERV', with args beginning with: 'seen' '0.01' '1000' \n")
	p.sees("unknown command 'BF.RESERV'; did you mean BF.RESERVE?\n")
	p.types("chek" + enter)
	p.sees("unknown command 'chek'; did you mean the word check?\n")
	p.types("bf.reserve seen 0.01 1000" + enter)
	p.sees("OK\n")
	p.types("BF.ADD seen" + enter)
	p.sees("(error) ERR wrong number of arguments for 'bf.add' command\n")
	p.sees("usage: BF.ADD key item\n")
	p.types("BF.EXISTS absent x" + enter)
	p.sees("(integer) 0\n(no key \"absent\")\n")
	p.types("BF.ADD seen \"unclosed" + enter)
	p.sees("(error) ERR unbalanced quotes")
	p.types("# a comment, and a blank line" + enter + enter)
	p.types("ECHO \xff" + enter)
	p.sees("(error) ERR not UTF-8: ")
	p.types(`ECHO "\xff"` + enter)
	p.sees("\n\"\\xff\"\n")
	p.types("HELP bf.add" + enter)
	p.sees("BF.ADD key item\n  Adds an item")
	p.types("help @nosuch" + enter)
	p.sees("no commands are in the group @nosuch: there are @bitmap, @bloom, ")
	p.types("help check" + enter)
	p.sees("Usage:\n  check [flags]\n")
	p.types("dedup seen" + enter)
	p.sees("usage: dedup KEY FILE|- ")
	p.types("dedup seen -" + enter)
	p.sees("dedup: at the prompt - cannot be standard input: name a file\n")
	p.types("-- check" + enter)
	p.sees("(error) ERR unknown command 'check'")
	p.types("output json" + enter + "BF.MADD seen a a" + enter)
	p.sees("[true,false]\n")
	p.types("output xml" + enter)
	p.sees("output xml: must be text, raw, json or csv\n")
	p.types("output text" + enter + "ECHO done" + enter)
	p.sees("\"done\"\n")
	p.types(ctrlD)
	p.ends(exit.OK)

	p = at(t, []string{dirVariable + "=" + store})
	p.sees("demo> ")
	p.types("BF.CARD seen" + enter)
	p.sees("(integer) 1\n")
	p.types("QUIT" + enter)
	p.ends(exit.OK)
}

func TestPrompt_completes(t *testing.T) {
	p := at(t, nil)
	p.sees("(scratch)> ")
	p.types("bf.madd articles x" + enter)
	p.sees("1) (integer) 1\n")
	p.types("bf.res" + tab + "k 0.01 100 nons" + tab)
	p.edits("(scratch)> bf.reserve k 0.01 100 nonscaling ")
	p.types(enter)
	p.sees("OK\n")
	p.types("BF.CARD art" + tab)
	p.shows("(scratch)> BF.CARD articles")
	p.types(enter)
	p.sees("(integer) 1\n")
	p.types("BF.ADD k " + tab) // nothing to complete
	p.shows("\nBF.ADD key item\n(scratch)> BF.ADD k item")
	if got := p.screen.Styled("2"); got != "item" { // the hint, which is faint without colours
		t.Errorf("%q is faint", got)
	}
	p.types("x" + enter)
	p.sees("(integer) 1\n")
	p.types("BF.M" + tab)
	p.shows("(scratch)> BF.M\nBF.MADD     BF.MERGE    BF.MEXISTS")
	p.types(tab + tab)
	p.shows("(scratch)> BF.MERGE\nBF.MADD     BF.MERGE    BF.MEXISTS")
	p.types(ctrlC + ctrlD)
	p.ends(exit.OK)
}

// Ctrl-C drops the line, and the prompt goes on.
func TestPrompt_cancelsLine(t *testing.T) {
	p := at(t, nil)
	p.sees("(scratch)> ")
	p.types("BF.ADD seen x")
	p.shows("(scratch)> BF.ADD seen x")
	p.types(ctrlC)
	p.sees("^C")
	p.types("DBSIZE" + enter)
	p.sees("(integer) 0\n")
	p.types(ctrlD)
	p.ends(exit.OK)
}

// The end of the prompt discards a transaction, and says so.
func TestPrompt_endsTransaction(t *testing.T) {
	for _, end := range []string{ctrlD, "exit" + enter} {
		p := at(t, nil)
		p.sees("(scratch)> ")
		p.types("MULTI" + enter)
		p.sees("(scratch)(TX)> ")
		p.types("SET k v" + enter)
		p.sees("(scratch)(TX)> ")
		p.types(end)
		p.sees("the transaction is discarded: nothing after MULTI was run")
		p.ends(exit.OK)
	}
}

// Ctrl-C cancels what runs, and the prompt goes on. The input of dedup is a pipe that does not end by itself.
func TestPrompt_cancelsCommand(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	p := at(t, nil)
	p.sees("(scratch)> ")
	for range 2 {
		p.types("dedup seen --restart " + fifo + enter)
		writer, err := os.OpenFile(fifo, os.O_WRONLY, 0) // once kvshell reads it
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(writer, "a line that is new: "+t.Name()+"\n"); err != nil {
			t.Fatal(err)
		}
		p.sees("a line that is new")
		p.types(ctrlC)
		p.sees("interrupted after ")
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		p.types("DEL seen" + enter)
		p.sees("(integer) 1\n")
	}
	p.types(ctrlD)
	p.ends(exit.OK)
}

// A paste of 1,000 lines is 1,000 commands, in order, also if one is longer than a terminal's buffer.
func TestPrompt_paste(t *testing.T) {
	const lines = 1000
	p := at(t, nil)
	p.sees("(scratch)> ")
	var paste strings.Builder
	item := func(i int) string {
		if i == lines/2 {
			return strings.Repeat("y", 10_000)
		}
		return fmt.Sprintf("line-%d-%s", i, strings.Repeat("x", i%100))
	}
	for i := range lines {
		fmt.Fprintln(&paste, "ECHO", item(i))
	}
	pasted := make(chan error, 1)
	go func() {
		_, err := io.WriteString(p.tty, paste.String())
		pasted <- err
	}()
	for i := range lines {
		p.sees(fmt.Sprintf("\n%q\n", item(i)))
	}
	if err := <-pasted; err != nil {
		t.Fatal(err)
	}
	p.types(ctrlD)
	p.ends(exit.OK)
}

// Lines that are pasted are one text that can be edited. Enter runs them one after another, and Ctrl-C gives those that were not
// run back.
func TestPrompt_block(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	p := at(t, nil)
	p.sees("(scratch)> ")
	p.types(pasted("ECHO one\n# a comment\nECHO thre\n"))
	p.shows("(scratch)> ECHO one\n... # a comment\n... ECHO thre")
	p.types("e" + "\x1b[A\x1b[A" + "!" + enter)
	p.sees("\"three\"")
	p.shows("(scratch)> ECHO one!\n\"one!\"\n(scratch)> # a comment\n(scratch)> ECHO three\n\"three\"\n(scratch)>")

	var paste, want strings.Builder
	for i := range 200 {
		fmt.Fprintf(&paste, "ECHO line-%d\r\n", i)
		fmt.Fprintf(&want, "(scratch)> ECHO line-%d\n\"line-%d\"\n", i, i)
	}
	p.types(pasted(paste.String()))
	p.edits("... ECHO line-199")
	p.types(enter)
	p.shows(want.String() + "(scratch)>")

	p.types(pasted("ECHO first\ndedup seen "+fifo+"\nECHO last\nECHO after") + enter)
	writer, err := os.OpenFile(fifo, os.O_WRONLY, 0) // once kvshell reads it
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(writer, "a line that is new\n"); err != nil {
		t.Fatal(err)
	}
	p.sees("a line that is new\n")
	p.types(ctrlC)
	p.sees("not run: 2 more of the lines")
	p.shows("(scratch)> ECHO last\n... ECHO after")
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	p.types(enter)
	p.shows("\"last\"\n(scratch)> ECHO after\n\"after\"\n(scratch)>")
	p.types(ctrlD)
	p.ends(exit.OK)
}

// pasted returns a text as a terminal sends it when it is pasted.
func pasted(text string) string { return "\x1b[200~" + text + "\x1b[201~" }

// Ctrl-Z gives the terminal to the shell as it was, at the prompt and while a command runs; then the prompt goes on with its line.
func TestPrompt_stops(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	p := atTerminal(t, nil, "sh", "-m", "-c", "kvshell; stty -a; fg >/dev/null; stty -a; fg; echo ended")
	isAsItWas := func() {
		t.Helper()
		p.sees("speed ")
		mode := strings.Fields(p.sees("-extproc"))
		for _, word := range []string{"icanon", "isig", "icrnl", "echo"} {
			if !slices.Contains(mode, word) {
				t.Errorf("the mode is %s", mode)
			}
		}
	}
	p.sees("(scratch)> ")
	p.types("ECHO lin")
	p.shows("(scratch)> ECHO lin")
	p.types("\x1a")
	p.sees(edit.UnmarkPastes)
	isAsItWas()
	p.sees(edit.MarkPastes)
	p.shows("(scratch)> ECHO lin")
	p.types("e" + enter)
	p.sees("\"line\"\n(scratch)> ")
	p.types("dedup seen " + fifo + enter)
	writer, err := os.OpenFile(fifo, os.O_WRONLY, 0) // once kvshell reads it
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(writer, "a line that is new\n"); err != nil {
		t.Fatal(err)
	}
	p.sees("a line that is new\n")
	p.types("\x1a")
	isAsItWas()
	p.sees(edit.MarkPastes)
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	p.sees("new                  1\n")
	p.sees("(scratch)> ")
	p.types(ctrlD)
	p.sees("ended\n")
	p.ends(exit.OK)
}

// A question comes before what cannot be taken back. Only what is typed is an answer; nothing that was pasted is.
func TestPrompt_asks(t *testing.T) {
	p := at(t, nil)
	p.sees("(scratch)> ")
	p.types("FLUSHALL" + enter) // nothing is there
	p.sees("OK\n(scratch)> ")
	p.types("CF.ADD k x" + enter + "CF.ADDNX k y" + enter)
	p.shows("(integer) 1\n(scratch)>")
	p.types("cf.del k x" + enter) // it was added here
	p.shows("cf.del k x\n(integer) 1\n(scratch)>")
	p.types("CF.DEL k z" + enter) // it is not there
	p.shows("CF.DEL k z\n(integer) 0\n(scratch)>")
	p.types("CF.INSERT k ITEMS z" + enter)
	p.shows("1) (integer) 1\n(scratch)>")
	p.types("CF.DEL k z" + enter)
	p.shows("Was \"z\" added? If not, CF.DEL can delete another item. Run it? [y/N]")
	p.types("n" + enter)
	p.shows("not run\n(scratch)>")
	p.types("MULTI" + enter)
	p.shows("(scratch)(TX)>")
	p.types("CF.DEL k z" + enter)
	p.shows("Run it? [y/N]")
	p.types("y" + enter)
	p.shows("QUEUED\n(scratch)(TX)>")
	p.types("EXEC" + enter)
	p.shows("1) (integer) 1\n(scratch)>")

	p.types(pasted("flushdb\ny\nSET after 1\n") + enter)
	p.shows("FLUSHDB removes all keys, which are 1. Run it? [y/N]")
	p.types(pasted("y\n"))
	p.shows("not run\n(scratch)> y\n... SET after 1\n... y")
	p.types(ctrlC + "DBSIZE" + enter)
	p.shows("(integer) 1\n(scratch)>")
	p.types("ask never" + enter)
	p.sees("ask never: must be on or off")
	p.types("ask off" + enter + "FLUSHDB" + enter)
	p.shows("FLUSHDB\nOK\n(scratch)>")
	p.types(ctrlD)
	p.ends(exit.OK)

	p = at(t, []string{"TERM=dumb"})
	p.sees("(scratch)> ")
	p.types("SET k v\n")
	p.sees("OK\n(scratch)> ")
	p.types("FLUSHALL\n")
	p.sees("Run it? [y/N] ")
	p.types("ECHO next\n") // which is no answer
	p.sees("not run\n")
	p.sees("\"next\"\n(scratch)> ")
	p.types("FLUSHALL\n")
	p.sees("Run it? [y/N] ")
	p.types("y\n")
	p.sees("OK\n(scratch)> ")
	p.types(ctrlD)
	p.ends(exit.OK)

	p = at(t, nil, "--yes")
	p.sees("(scratch)> ")
	p.types("SET k v" + enter + "FLUSHALL" + enter)
	p.shows("FLUSHALL\nOK\n(scratch)>")
	p.types(ctrlD)
	p.ends(exit.OK)
}

// A reply goes to a program, or is shown a page at a time, and nothing that is typed meanwhile is lost.
func TestPrompt_replies(t *testing.T) {
	p := at(t, []string{"LC_ALL=C", "PAGER=sed s/^/page:/"})
	p.sees("(scratch)> ")
	p.types("MSET k2 v k1 漢 k3 |" + enter)
	p.sees("a command must stand before | and a program after it")
	p.types(`MSET k2 v k1 漢 k3 "|"` + enter)
	p.sees("OK\n(scratch)> ")
	p.types("KEYS * | sort -r | head -n 2" + enter)
	p.shows("| sort -r | head -n 2\nk3\nk2\n(scratch)>")
	p.types("-- MGET k1 | k3" + enter)
	p.shows("1) \"\\xe6\\xbc\\xa2\"\n2) (nil)\n3) \"|\"\n(scratch)>")
	p.types("help KEYS | grep -c KEYS" + enter)
	p.shows("grep -c KEYS\n2\n(scratch)>")
	p.types("KEYS * | exit 3" + enter)
	p.shows("| exit 3: exit status 3\n(scratch)>")
	p.types(".timer on" + enter + "ECHO timed" + enter)
	p.sees("\"timed\"\n(")
	p.sees(" ms)\n(scratch)> ")
	p.types("timer off" + enter)
	p.resize(60, 5)
	p.types("MGET 1 2 3 4" + enter)
	p.shows("\n4) (nil)\n(scratch)>")
	p.types("MGET 1 2 3 4 5" + enter)
	p.shows("page:4) (nil)\npage:5) (nil)\n(scratch)>")
	p.types(ctrlD)
	p.ends(exit.OK)

	cmd := []string{"-u", pagerVariable, "kvshell"}
	p = atTerminal(t, nil, "env", cmd...)
	p.sees("(scratch)> ")
	p.resize(60, 5)
	p.types("MGET 1 2 3 4 5 6 7 8" + enter)
	p.shows("MGET 1 2 3 4 5 6 7 8\n1) (nil)\n2) (nil)\n3) (nil)\n4) (nil)\n" + tty.PagerStatus)
	p.types(enter)
	p.shows("4) (nil)\n5) (nil)\n" + tty.PagerStatus)
	p.types("DBSIZE" + enter) // ends the page, and is run
	p.shows("5) (nil)\n(scratch)> DBSIZE\n(integer) 0\n(scratch)>")
	p.types(pasted("MGET 1 2 3 4 5 6\nECHO next") + enter) // no page while lines wait
	p.shows("6) (nil)\n(scratch)> ECHO next\n\"next\"\n(scratch)>")
	p.types(ctrlD)
	p.ends(exit.OK)
}

// A narrow terminal, one that changes its size, a slow one, and characters of any script: the line is whole on the screen and
// when it is run.
func TestPrompt_narrow(t *testing.T) {
	p := at(t, []string{"TERM=xterm-256color", "LC_ALL=C.UTF-8"})
	p.sees("(scratch)> ")
	p.resize(40, 10)
	p.types("BF.RESERVE ") // the hint ends where the row does
	p.shows("(scratch)> BF.RESERVE key error_rate c…")
	for _, b := range []byte("k 0.01 10 EXP\t4 \x1b[A\x1b[B\x1b[D\x1b[C漢字") { // one byte after another
		p.types(string([]byte{b}))
	}
	p.shows("(scratch)> BF.RESERVE k 0.01 10 EXPANSION 4 漢字")
	p.resize(60, 10)
	p.shows("(scratch)> BF.RESERVE k 0.01 10 EXPANSION 4 漢字")
	p.resize(25, 4)
	p.types("\x17" + "ttl 999")
	p.shows("(scratch)> BF.RESERVE k 0.01 10 EXPANSION 4 ttl 999 [NONSCALING] [HASH KE…")
	p.types(enter)
	p.sees("OK\n")
	p.types("SET 漢 👩‍👩‍👧é" + "\x7f\x7f" + "👍" + enter)
	p.sees("OK\n")
	p.types("GET 漢" + enter)
	p.sees("\n\"👍\"\n")
	p.types("\x12" + "RESERVE")
	p.shows("(search \"RESERVE\") BF.RESERVE k 0.01 10 EXPANSION 4 ttl 999")
	p.types(enter)
	p.sees("(error) ERR item exists")
	p.types(ctrlD)
	p.ends(exit.OK)
}

// SIGTERM ends a session as it ends anything else.
func TestPrompt_terminated(t *testing.T) {
	store := filepath.Join(t.TempDir(), "demo")
	p := at(t, nil, "-d", store)
	p.sees("demo> ")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.ends(exit.Interrupted)
}

// On a terminal that cannot edit lines, Ctrl-C cancels the line all the same.
func TestPrompt_dumb(t *testing.T) {
	p := at(t, []string{"TERM=dumb", "NO_COLOR="})
	p.sees("(scratch)> ")
	p.types("FLUSH" + ctrlC)
	p.sees("\n(scratch)> ")
	p.types("NOSUCH\n")
	p.sees("\n(error) ERR unknown command 'NOSUCH'") // not in red
	p.sees("(scratch)> ")
	p.types("SET k " + strings.Repeat("y", 5000) + "\n") // which the terminal cuts
	p.sees("the line is too long for this terminal")
	p.sees("(scratch)> ")
	p.types("DBSIZE\n")
	p.sees("(integer) 0\n(scratch)> ")
	p.types(ctrlD)
	p.ends(exit.OK)
}

func TestPrompt_colors(t *testing.T) {
	p := at(t, []string{"NO_COLOR="})
	p.sees("(scratch)> ")
	p.types("NOSUCH" + enter)
	p.sees("\x1b[31m(error) ERR unknown command 'NOSUCH'")
	p.types("DBSIZE" + enter)
	p.sees("\x1b[90m(integer)\x1b[0m 0\n")
	p.types("BF.ADD seen ")
	p.shows("(scratch)> BF.ADD seen item")
	if prompts, hint := p.screen.Styled("36"), p.screen.Styled("90"); !strings.HasSuffix(prompts, "(scratch)> ") || !strings.HasSuffix(hint, "item") {
		t.Errorf("%q is cyan, and %q grey", prompts, hint)
	}
	p.types(ctrlC)
	p.types("output xml" + enter)
	p.sees("\x1b[31moutput xml: ")
	p.types(ctrlD)
	p.ends(exit.OK)
}

// If the file of the history cannot be made, the history has the session alone, and the user is told.
func TestPrompt_historyNotKept(t *testing.T) {
	p := at(t, []string{prompt.HistoryVariable + "=/dev/null/history"})
	p.sees("the history is not kept: mkdir /dev/null: ")
	p.sees("(scratch)> ")
	p.types("ECHO first" + enter)
	p.sees("\"first\"\n")
	p.types("\x10" + enter)
	p.sees("\"first\"\n")
	p.types(ctrlD)
	p.ends(exit.OK)
}

// A terminal whose output goes elsewhere has a script typed into it, without a prompt and without hints.
func TestPrompt_outputElsewhere(t *testing.T) {
	store := filepath.Join(t.TempDir(), "demo")
	at(t, nil, "-d", store, "BF.ADD", "seen", "x").ends(exit.OK)
	term := openTerminal(t)
	cmd := exec.Command("kvshell", "-d", store)
	cmd.Stdin = term.slave
	var piped bytes.Buffer
	cmd.Stdout, cmd.Stderr = &piped, &piped
	if _, err := io.WriteString(term.master, "BF.EXISTS absent x\n"+ctrlD); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	term.close(t)
	if piped.String() != "0\n" {
		t.Errorf("the pipe has %q", piped.String())
	}
}

// A single command on a terminal has the hint too.
func TestCommand_missingKey(t *testing.T) {
	store := filepath.Join(t.TempDir(), "demo")
	at(t, nil, "-d", store, "BF.ADD", "seen", "x").ends(exit.OK)
	p := at(t, nil, "-d", store, "BF.EXISTS", "absent", "x")
	if shown := p.ends(exit.OK); shown != "(integer) 0\n(no key \"absent\")\n" {
		t.Errorf("shows %q", shown)
	}
	p = at(t, nil, "-d", store, "BF.EXISTS", "seen", "y")
	if shown := p.ends(exit.OK); shown != "(integer) 0\n" {
		t.Errorf("shows %q", shown)
	}
}

// What is typed is in the file at once, without secrets, and comes back in the next session.
func TestPrompt_history(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "history")
	env := []string{prompt.HistoryVariable + "=" + file}
	p := at(t, env)
	p.sees("(scratch)> ")
	p.types("ECHO first" + enter)
	p.sees("\"first\"\n")
	p.types(" ECHO blank" + enter)
	p.sees("\"blank\"\n")
	p.types("AUTH secret" + enter)
	p.sees("(error) ")
	p.types("ECHO second")
	p.sees("ECHO second")
	p.types(ctrlC + "ECHO third" + enter)
	p.sees("\"third\"\n")
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.ends(-1)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != "ECHO first\nECHO third\n" {
		t.Errorf("the file has %q", b)
	}
	p = at(t, env)
	p.sees("(scratch)> ")
	p.types("\x10\x10" + enter) // Ctrl-P twice
	p.sees("\"first\"\n")
	p.types(ctrlD)
	p.ends(exit.OK)
}

// Help fits the screen: it is broken between words, and shown a page at a time.
func TestPrompt_pager(t *testing.T) {
	p := at(t, nil)
	p.sees("(scratch)> ")
	const rows, columns = 20, 70
	p.resize(columns, rows)
	p.types("help" + enter)
	shown := strings.SplitAfter(p.sees(tty.PagerStatus), "\n")[1:] // behind the line typed
	if len(shown) != rows || shown[rows-1] != "" {
		t.Errorf("the first page has %d lines, want %d:\n%s", len(shown)-1, rows-1, shown)
	}
	for _, line := range shown {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > columns {
			t.Errorf("%q has %d characters", line, n)
		}
	}
	if words := strings.Fields(strings.Join(shown, "")); !strings.HasPrefix(promptHelp, strings.Join(words[:50], " ")[:90]) {
		t.Errorf("the first page is\n%s", shown)
	}
	p.types(enter)
	if line := p.sees(tty.PagerStatus); strings.Count(line, "\n") != 1 {
		t.Errorf("Enter shows %q, want a line", line)
	}
	p.types(" ")
	if page := p.sees(tty.PagerStatus); strings.Count(page, "\n") != rows-1 {
		t.Errorf("a blank shows %d lines, want %d", strings.Count(page, "\n"), rows-1)
	}
	p.types(ctrlC)
	p.sees("(scratch)> ")
	mode, err := unix.IoctlGetTermios(int(p.tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if mode.Oflag&unix.OPOST == 0 {
		t.Error("the terminal is left as it was while the pager waited")
	}
	p.types("? plan" + enter)
	p.sees("plan tells how large")
	p.sees(tty.PagerStatus)
	p.types("q")
	p.sees("(scratch)> ")
	p.types("? ping" + enter)
	p.sees("PING [message]\n")
	p.sees("(scratch)> ")
	p.types("clear" + enter)
	p.sees("\x1b[H\x1b[2J")
	p.types("help" + enter)
	p.sees(tty.PagerStatus)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.ends(exit.Interrupted)
}

// Help on the command line has the pager too, and leaves the terminal as it was.
func TestHelp_pager(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"--help"}, {"help", "dedup"}} {
		p := at(t, nil, args...)
		p.sees(tty.PagerStatus)
		p.types("q")
		if rest := p.ends(exit.OK); strings.TrimSpace(rest) != "\x1b[K" {
			t.Errorf("%s: %q is shown behind q", args, rest)
		}
	}
	p := at(t, []string{"TERM=dumb"}, "help")
	if text := p.ends(exit.OK); strings.Contains(text, "more") && strings.Contains(text, tty.PagerStatus) {
		t.Error("there is a pager on a dumb terminal")
	}
}

// A tab in pasted text is a tab: it completes nothing, separates words, and is in a quoted one.
func TestPrompt_pastedTab(t *testing.T) {
	p := at(t, nil)
	p.sees(edit.MarkPastes)
	p.sees("(scratch)> ")
	p.types("\x1b[200~BF.RES\tk\x1b[201~" + enter)
	p.sees("ERR unknown command 'BF.RES', with args beginning with: 'k'")
	p.types("\x1b[200~ECHO\t\"a\tb\"\rECHO\tc\x1b[201~")
	p.shows("(scratch)> ECHO␉\"a␉b\"\n... ECHO␉c")
	p.types(enter)
	p.sees("\n\"a\\tb\"\n")
	p.sees("\n\"c\"\n")
	p.types("BF.RESER" + tab + "k 0.01 10" + enter)
	p.sees("OK\n")
	p.types(ctrlD)
	if last := p.ends(exit.OK); !strings.Contains(last, edit.UnmarkPastes) {
		t.Errorf("pastes go on to be marked: %q", last)
	}
}

// A line that is longer than the screen is wide goes on in the next row.
func TestPrompt_longLine(t *testing.T) {
	p := at(t, nil)
	p.sees("(scratch)> ")
	p.resize(40, 24)
	long := strings.Repeat("0123456789", 12)
	p.types("ECHO " + long)
	p.shows("(scratch)> ECHO " + long)
	p.types(enter)
	p.sees("\n\"" + long + "\"\n")
	p.types(ctrlD)
	p.ends(exit.OK)
}
