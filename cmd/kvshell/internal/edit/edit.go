// Package edit reads lines that are typed on a terminal: with hints of what is still missing, a menu of completions, a
// history and its search, and pasted text that is edited as one. It writes only what changes on the screen.
//
// The file edit.go has the editor and its keys, keys.go makes keys of the bytes that a terminal sends, text.go splits text
// into characters and draw.go shows them, menu.go has the menu and search.go the search, lines.go reads a terminal that
// cannot move its cursor, and mode*.go set the terminal's mode.
package edit

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/term"
)

// ErrAborted is the error of a line that Ctrl-C ended.
var ErrAborted = errors.New("aborted")

// Helper knows what the lines mean. Left is the text left of the cursor, tail what is right of it, both within the cursor's line.
type Helper interface {
	// Complete returns what the end of left may become: it stays up to head, and one of the words follows.
	Complete(left, tail string) (head string, words []string)

	// Describe returns what to tell if there is nothing to complete, "" for nothing.
	Describe(left string) string

	// Hint returns what is still missing behind a line, "" if nothing is.
	Hint(line string) string
}

// New returns an editor for a terminal, with the lines of earlier sessions, the oldest first.
func New(in, out *os.File, helper Helper, history []string) (*Editor, error) {
	mode, err := newMode(in)
	if err != nil {
		return nil, err
	}
	e := &Editor{Helper: helper, Suspend: suspend, keyboard: newKeyboard(in), out: out, mode: mode, history: history}
	e.keyboard.more = hasInput(in)
	e.size = func() (width, height int) { return sizeOf(out) }
	if e.cannotMove = !canMove(out); e.cannotMove {
		return e, nil
	}
	resized, noResizes := resizes()
	noStops := e.stops()
	e.resized, e.stop = resized, func() { noResizes(); noStops() }
	mode.run()
	return e, e.open()
}

// sizeOf returns the size of a terminal, the usual one if it does not tell.
func sizeOf(terminal *os.File) (width, height int) {
	width, height, err := term.GetSize(int(terminal.Fd()))
	if err != nil || width < 2 || height < 1 {
		return 80, 24
	}
	return width, height
}

// Styles are escape sequences for what is shown; "" is plain.
type Styles struct{ Prompt, Hint, Selected string }

// Editor reads lines from a terminal.
type Editor struct {
	Helper  Helper
	Styles  Styles
	Suspend func() // stops the process, until it goes on; nil if that cannot be done. The terminal has its first mode then.

	keyboard   *keyboard
	out        io.Writer
	size       func() (width, height int)
	resized    <-chan os.Signal
	mode       mode
	cannotMove bool   // the terminal cannot move its cursor, and edits lines itself
	stop       func() // ends the watch for signals
	lent       atomic.Bool

	history []string
	queue   []string // lines that are to be run before others are typed
	draft   string   // what the next line begins as

	prompt, more []cell
	text         []string // clusters
	pos          int      // of the cursor, in text
	at           int      // where in the history the text is from; len(history) for a new one
	newest       string   // the text that was typed before the history was looked at
	killed       string   // by the last keys, for Ctrl-Y
	menu         *menu
	search       *search
	screen       screen
	first        int  // of the rows of the text that the screen shows
	typedOnly    bool // text that is pasted ends the line
	width        int
	height       int
}

// mode is the terminal's.
type mode interface {
	edit()    // keys are read one by one, and Ctrl-C is one of them
	run()     // Ctrl-C is a signal, and what is typed waits
	restore() // as it was
}

// These ask the terminal to mark pasted text, and to stop that.
const (
	MarkPastes   = "\x1b[?2004h"
	UnmarkPastes = "\x1b[?2004l"
)

// errPasted is the error of a line that must be typed, into which text was pasted. The next line begins as that text.
var errPasted = errors.New("pasted")

// ReadLine shows a prompt and reads a line. If the user has pasted several lines and edited them, it returns them one by one.
// The error is ErrAborted if Ctrl-C ended the line, and io.EOF for Ctrl-D. An interrupt ends the line on a terminal that
// cannot move its cursor, whose keys the editor does not see.
func (e *Editor) ReadLine(ctx context.Context, prompt string, interrupts <-chan os.Signal) (string, error) {
	if len(e.queue) == 0 {
		text, err := e.read(ctx, prompt, interrupts)
		if err != nil || !strings.Contains(text, "\n") {
			return text, err
		}
		e.queue = strings.Split(text, "\n")
	}
	line := e.queue[0]
	e.queue = e.queue[1:]
	e.begin(prompt)
	e.screen.write(slices.Concat(e.prompt, cellsOf(line, "")))
	e.screen.out.WriteString("\r\n")
	return line, e.flush()
}

// Confirm asks a question and reports whether y was typed as the answer. Nothing that was pasted, or waited before the question was
// shown, is an answer, and nothing of it is lost: unless the answer is y, lines that were pasted and not run are in the next line, where
// they can be edited, and a line that is no answer is run.
func (e *Editor) Confirm(ctx context.Context, question string, interrupts <-chan os.Signal) (yes bool, err error) {
	if e.keyboard.waits() {
		return false, nil
	}
	answer, err := e.ask(ctx, question, interrupts)
	switch word := strings.ToLower(strings.TrimSpace(answer)); {
	case errors.Is(err, errPasted), errors.Is(err, ErrAborted):
		err = nil
	case err != nil, word == "y", word == "yes":
		return err == nil, err
	case word != "" && word != "n" && word != "no":
		if e.queue = append(e.queue, answer); len(e.queue) == 1 {
			return false, nil
		}
	}
	e.Recall()
	return false, err
}

// ask reads what is typed as an answer.
func (e *Editor) ask(ctx context.Context, question string, interrupts <-chan os.Signal) (string, error) {
	helper, history := e.Helper, e.history
	e.Helper, e.history, e.typedOnly = noHelp{}, nil, true
	defer func() { e.Helper, e.history, e.typedOnly = helper, history, false }()
	answer, err := e.read(ctx, question, interrupts)
	if errors.Is(err, io.EOF) {
		_, err := io.WriteString(e.out, "\r\n")
		return "", err
	}
	return answer, err
}

// noHelp is for questions.
type noHelp struct{}

func (noHelp) Complete(string, string) (string, []string) { return "", nil }
func (noHelp) Describe(string) string                     { return "" }
func (noHelp) Hint(string) string                         { return "" }

// Recall has the next line begin as the lines that were not run yet. It returns how many they are.
func (e *Editor) Recall() int {
	n := len(e.queue)
	if n > 0 {
		e.draft = strings.TrimSpace(strings.Join(e.queue, "\n") + "\n" + e.draft)
		e.queue = nil
	}
	return n
}

// Waits reports whether something was typed or pasted that no line has yet.
func (e *Editor) Waits() bool { return len(e.queue) > 0 || e.draft != "" || e.keyboard.waits() }

// AddHistory adds a line to the history.
func (e *Editor) AddHistory(line string) {
	if n := len(e.history); n == 0 || e.history[n-1] != line {
		e.history = append(e.history, line)
	}
}

// Keys returns the reader of keys while no line is edited.
func (e *Editor) Keys() io.Reader { return e.keyboard }

// Close leaves the terminal as it was.
func (e *Editor) Close() error {
	if e.cannotMove {
		return nil
	}
	e.stop()
	return e.leave()
}

// leave leaves the terminal as it was, for a while.
func (e *Editor) leave() error {
	e.mode.restore()
	_, err := io.WriteString(e.out, UnmarkPastes)
	return err
}

// Lend gives the terminal to another program until the function that it returns takes it back.
func (e *Editor) Lend() (takeBack func() error, err error) {
	if e.cannotMove {
		return func() error { return nil }, nil
	}
	e.lent.Store(true)
	return func() error {
		e.lent.Store(false)
		e.mode.run()
		return e.open()
	}, e.leave()
}

// open asks for the marks of pasted text.
func (e *Editor) open() error {
	_, err := io.WriteString(e.out, MarkPastes)
	return err
}

// read reads a text, which has several lines if they were pasted.
func (e *Editor) read(ctx context.Context, prompt string, interrupts <-chan os.Signal) (string, error) {
	if e.cannotMove {
		return e.readPlain(ctx, prompt, interrupts)
	}
	e.mode.edit()
	defer e.mode.run()
	e.start(prompt)
	for {
		if done, err := e.step(); done || err != nil {
			return strings.Join(e.text, ""), err
		}
		if err := e.wait(ctx); err != nil {
			return "", err
		}
	}
}

// start begins a text.
func (e *Editor) start(prompt string) {
	e.begin(prompt)
	e.text, e.pos, e.at, e.newest, e.menu, e.search = nil, 0, len(e.history), "", nil, nil
	if !e.typedOnly {
		e.insert(e.draft)
		e.draft = ""
	}
}

// step does what the keys ask for that were read, and shows the text. It is done when the text is.
func (e *Editor) step() (done bool, err error) {
	for {
		k, ok := e.keyboard.next()
		if !ok {
			e.draw()
			return false, e.flush()
		}
		if done, err := e.press(k); done || err != nil {
			if flushed := e.flush(); err == nil {
				err = flushed
			}
			return true, err
		}
	}
}

// wait waits for keys, or for another size of the terminal.
func (e *Editor) wait(ctx context.Context) error {
	select {
	case c := <-e.keyboard.read():
		return e.keyboard.took(c)
	case <-e.resized:
		e.resize()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin begins a line where the cursor is.
func (e *Editor) begin(prompt string) {
	e.width, e.height = e.size()
	e.screen.begin(e.width)
	e.first = 0
	e.prompt, e.more = cellsOf(prompt, e.Styles.Prompt), cellsOf("... ", e.Styles.Hint)
}

// resize has all be drawn again for another size.
func (e *Editor) resize() {
	width, height := e.size()
	if width == e.width && height == e.height {
		return
	}
	before := layOut(e.prompt, e.more, e.text, e.pos, nil, width)
	e.screen.resized(min(before.line-e.first, height-1), width)
	e.width, e.height, e.first = width, height, 0
}

// draw shows the text as it is now.
func (e *Editor) draw() {
	prompt, text, pos := e.prompt, e.text, e.pos
	var hint []cell
	if e.search != nil {
		prompt, text, pos = cellsOf(e.search.prompt(), e.Styles.Prompt), split(e.search.line), 0
		pos = len(text)
	} else if e.menu == nil && e.pos == len(e.text) {
		hint = cellsOf(e.Helper.Hint(e.line()), e.Styles.Hint)
	}
	p := layOut(prompt, e.more, text, pos, hint, e.width)
	room := e.height
	if e.menu != nil {
		room = max(1, e.height-e.menu.height(e.width, e.height))
	}
	e.first = p.window(e.first, room)
	if e.menu != nil && len(p.rows)+1 <= e.height {
		p.rows = append(p.rows, e.menu.rows(e.width, e.height-len(p.rows), e.Styles)...)
	}
	e.screen.draw(p)
}

// finish shows the whole text, and moves behind it. Several lines are shown one by one later, each before it is run.
func (e *Editor) finish() {
	if slices.Contains(e.text, "\n") {
		e.screen.draw(&picture{rows: []row{{}}})
		return
	}
	p := layOut(e.prompt, e.more, e.text, len(e.text), nil, e.width)
	if len(p.rows) > e.height { // not all is on the screen
		e.screen.draw(&picture{rows: []row{{}}})
		e.screen.begin(e.width)
	}
	e.screen.draw(p)
	e.screen.out.WriteString("\r\n")
}

// flush writes what was drawn.
func (e *Editor) flush() error {
	_, err := e.out.Write(e.screen.out.Bytes())
	e.screen.out.Reset()
	return err
}

// press does what a key asks for. It is done when the text is.
func (e *Editor) press(k key) (done bool, err error) {
	if e.search != nil && e.pressInSearch(k) {
		return false, nil
	}
	if e.menu != nil && e.pressInMenu(k) {
		return false, nil
	}
	if k.name == "C-d" && len(e.text) == 0 {
		return true, io.EOF // the caller ends the line
	}
	switch k.name {
	case "enter":
		e.finish()
		return true, nil
	case "C-c":
		e.abort()
		return true, ErrAborted
	case "paste":
		if e.typedOnly {
			e.finish()
			e.draft = strings.TrimRight(k.text, "\n")
			return true, errPasted
		}
		e.insert(strings.TrimRight(k.text, "\n"))
	case "text":
		e.insert(k.text)
	case "tab":
		e.complete()
	case "C-r":
		e.beginSearch()
	case "C-z":
		return false, e.suspend()
	default:
		if act := actions[k.name]; act != nil {
			act(e)
		}
	}
	return false, nil
}

// actions are the keys that move the cursor, and change the text.
var actions map[string]func(*Editor)

func init() {
	actions = map[string]func(*Editor){
		"left":  func(e *Editor) { e.pos = max(0, e.pos-1) },
		"right": func(e *Editor) { e.pos = min(len(e.text), e.pos+1) },
		"home":  func(e *Editor) { e.pos = e.lineStart() },
		"end":   func(e *Editor) { e.pos = e.lineEnd() },
		"up":    (*Editor).up,
		"down":  (*Editor).down,
		"C-p":   func(e *Editor) { e.recall(e.at - 1) },
		"C-n":   func(e *Editor) { e.recall(e.at + 1) },
		"M-b":   func(e *Editor) { e.pos = e.wordStart(isWordRune) },
		"M-f":   func(e *Editor) { e.pos = e.wordEnd() },

		"backspace":   func(e *Editor) { e.remove(e.pos-1, e.pos) },
		"delete":      func(e *Editor) { e.remove(e.pos, e.pos+1) },
		"C-k":         func(e *Editor) { e.kill(e.pos, e.lineEnd()) },
		"C-u":         func(e *Editor) { e.kill(e.lineStart(), e.pos) },
		"C-w":         func(e *Editor) { e.kill(e.wordStart(isNoBlank), e.pos) },
		"M-d":         func(e *Editor) { e.kill(e.pos, e.wordEnd()) },
		"M-backspace": func(e *Editor) { e.kill(e.wordStart(isWordRune), e.pos) },
		"C-y":         func(e *Editor) { e.insert(e.killed) },
		"C-t":         (*Editor).transpose,
		"C-l":         (*Editor).clear,
	}
	for alias, name := range map[string]string{"C-b": "left", "C-f": "right", "C-a": "home", "C-e": "end", "C-d": "delete"} {
		actions[alias] = actions[name]
	}
}

// insert inserts a text at the cursor. The runes of it may join characters that are there.
func (e *Editor) insert(text string) {
	from, to := max(0, e.pos-1), min(len(e.text), e.pos+1)
	left := strings.Join(e.text[from:e.pos], "") + text
	right := strings.Join(e.text[e.pos:to], "")
	both := split(left + right)
	e.text = slices.Replace(e.text, from, to, both...)
	e.pos = from
	for n := 0; n < len(left); e.pos++ {
		n += len(e.text[e.pos])
	}
}

// remove removes a part of the text, as far as it exists.
func (e *Editor) remove(from, to int) {
	from, to = max(0, from), min(to, len(e.text))
	if from >= to {
		return
	}
	e.text = slices.Delete(e.text, from, to)
	e.pos = from
}

// kill removes a part of the text that Ctrl-Y inserts again.
func (e *Editor) kill(from, to int) {
	if from < to {
		e.killed = strings.Join(e.text[from:to], "")
		e.remove(from, to)
	}
}

// transpose swaps the characters around the cursor.
func (e *Editor) transpose() {
	if len(e.text) < 2 || e.pos == 0 {
		return
	}
	e.pos = min(e.pos, len(e.text)-1)
	e.text[e.pos-1], e.text[e.pos] = e.text[e.pos], e.text[e.pos-1]
	e.pos++
}

// clear clears the terminal.
func (e *Editor) clear() {
	e.screen.out.WriteString("\x1b[H\x1b[2J")
	e.screen.begin(e.width)
}

// lineStart returns where the cursor's line begins, and lineEnd where it ends.
func (e *Editor) lineStart() int {
	for i := e.pos; i > 0; i-- {
		if e.text[i-1] == "\n" {
			return i
		}
	}
	return 0
}

func (e *Editor) lineEnd() int {
	if n := slices.Index(e.text[e.pos:], "\n"); n >= 0 {
		return e.pos + n
	}
	return len(e.text)
}

// line returns the cursor's line.
func (e *Editor) line() string { return strings.Join(e.text[e.lineStart():e.lineEnd()], "") }

// up moves to the line before, or to the text before in the history; down moves the other way.
func (e *Editor) up() {
	start := e.lineStart()
	if start == 0 {
		e.recall(e.at - 1)
		return
	}
	column := e.pos - start
	e.pos = start - 1
	e.pos = min(e.lineStart()+column, e.pos)
}

func (e *Editor) down() {
	end := e.lineEnd()
	if end == len(e.text) {
		e.recall(e.at + 1)
		return
	}
	column := e.pos - e.lineStart()
	e.pos = end + 1
	e.pos = min(e.pos+column, e.lineEnd())
}

// recall replaces the text by that at a place in the history.
func (e *Editor) recall(at int) {
	if at < 0 || at > len(e.history) || at == e.at {
		return
	}
	if e.at == len(e.history) {
		e.newest = strings.Join(e.text, "")
	}
	text := e.newest
	if e.at = at; at < len(e.history) {
		text = e.history[at]
	}
	e.setText(text)
}

// setText replaces the text, and moves behind it.
func (e *Editor) setText(text string) {
	e.text = split(text)
	e.pos = len(e.text)
}

// wordStart returns where the word begins that is left of the cursor, and wordEnd where the one ends that is right of it.
func (e *Editor) wordStart(inWord func(string) bool) int {
	i := e.pos
	for i > 0 && !inWord(e.text[i-1]) {
		i--
	}
	for i > 0 && inWord(e.text[i-1]) {
		i--
	}
	return i
}

func (e *Editor) wordEnd() int {
	i := e.pos
	for i < len(e.text) && !isWordRune(e.text[i]) {
		i++
	}
	for i < len(e.text) && isWordRune(e.text[i]) {
		i++
	}
	return i
}

func isNoBlank(cluster string) bool { return cluster != " " && cluster != "\t" && cluster != "\n" }

func isWordRune(cluster string) bool {
	return isNoBlank(cluster) && !strings.ContainsAny(cluster, `.:"'/-_=@`)
}

// suspend stops the process, as Ctrl-Z asks for.
func (e *Editor) suspend() error {
	if e.Suspend == nil {
		return nil
	}
	e.moveBelow()
	if err := errors.Join(e.flush(), e.leave()); err != nil {
		return err
	}
	e.Suspend()
	e.mode.edit()
	e.width, e.height = e.size()
	e.screen.begin(e.width)
	return e.open()
}

// abort leaves the text as it is shown, with a mark that it was not run.
func (e *Editor) abort() {
	e.showEnd()
	e.screen.out.WriteString("^C\r\n")
}

// showEnd shows the text without the hint and the menu, and moves behind it.
func (e *Editor) showEnd() {
	p := layOut(e.prompt, e.more, e.text, len(e.text), nil, e.width)
	e.first = p.window(e.first, e.height)
	e.screen.draw(p)
}

// moveBelow moves to a new row below what is shown, without the hint and the menu.
func (e *Editor) moveBelow() {
	e.showEnd()
	e.screen.out.WriteString("\r\n")
	e.screen.begin(e.width)
	e.first = 0
}
