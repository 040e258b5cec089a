package edit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/edit/screentest"
)

// tester is a *testing.T or a *rapid.T.
type tester interface {
	Helper()
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

// typist types into an editor, and looks at what it shows.
type typist struct {
	t       tester
	e       *Editor
	screen  *screentest.Screen
	width   int
	height  int
	written int
}

const promptText = "db> "

// at begins a line on a screen of a size.
func at(t tester, width, height int, history ...string) *typist {
	p := &typist{t: t, width: width, height: height, screen: screentest.New(width, height)}
	p.e = &Editor{
		Helper: words{}, Styles: Styles{Hint: "\x1b[90m", Selected: "\x1b[7m"},
		keyboard: &keyboard{}, out: p, mode: noMode{}, history: history, size: func() (int, int) { return p.width, p.height },
	}
	p.e.start(promptText)
	p.types("")
	return p
}

type noMode struct{}

func (noMode) edit()    {}
func (noMode) run()     {}
func (noMode) restore() {}

// words is a helper that knows two commands.
type words struct{}

var known = []string{"ADD ", "ADDALL ", "CARD ", "COUNT ", "漢字 "}

func (words) Complete(left, tail string) (head string, found []string) {
	head, word := "", left
	if i := strings.LastIndexByte(left, ' '); i >= 0 {
		head, word = left[:i+1], left[i+1:]
	}
	for _, w := range known {
		if strings.HasPrefix(w, word) && word != "" {
			found = append(found, w)
		}
	}
	if len(found) > 1 {
		for i := range found {
			found[i] = strings.TrimSpace(found[i])
		}
	}
	return head, found
}

func (words) Describe(left string) string {
	if strings.HasPrefix(left, "ADD ") {
		return "ADD key item"
	}
	return ""
}

func (words) Hint(line string) string {
	if line == "ADD " {
		return "key item"
	}
	return ""
}

func (p *typist) Write(b []byte) (int, error) {
	p.written += len(b)
	return p.screen.Write(b)
}

// types types keys. It is done when the line is.
func (p *typist) types(keys string) (done bool, err error) {
	p.e.keyboard.in = append(p.e.keyboard.in, keys...)
	done, err = p.e.step()
	if len(p.screen.Unknown) > 0 {
		p.t.Fatalf("after %q the terminal got %q", keys, p.screen.Unknown)
	}
	return done, err
}

// text returns the text that is edited.
func (p *typist) text() string { return strings.Join(p.e.text, "") }

// shows checks the screen, and where the cursor is: behind what is shown before it in its row.
func (p *typist) shows(screen, cursor string) {
	p.t.Helper()
	if got := p.screen.Text(); got != screen {
		p.t.Errorf("the screen has\n%s\nwant\n%s", got, screen)
	}
	if got := p.screen.Cursor(); got != cursor {
		p.t.Errorf("the cursor is behind %q, want %q", got, cursor)
	}
}

const (
	left, right, up, down = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B"

	begin, end = "\x1b[200~", "\x1b[201~" // of a paste
)

func ctrl(c byte) string { return string(c & 31) }

func TestEditor_keys(t *testing.T) {
	for _, tt := range []struct{ name, keys, text, before string }{
		{"text", "abc", "abc", "abc"},
		{"left and right", "abc" + left + left + right + "x", "abxc", "abx"},
		{"beyond the ends", left + "a" + right + "b", "ab", "ab"},
		{"home and end", "bc" + ctrl('A') + "a" + ctrl('E') + "d", "abcd", "abcd"},
		{"other names of these", "b" + "\x1b[H" + "a" + "\x1b[F" + "c" + "\x1b[1~" + "0" + "\x1bOF" + "d", "0abcd", "0abcd"},
		{"backspace", "abc" + left + "\x7f", "ac", "a"},
		{"delete", "abc" + ctrl('B') + ctrl('B') + "\x1b[3~" + ctrl('D'), "a", "a"},
		{"delete at the ends", "\x7fa\x1b[3~" + ctrl('A') + "\x7f", "a", ""},
		{"words", "one two.three" + "\x1bb" + "\x1bb" + "x" + "\x1bf" + "y", "one xtwoy.three", "one xtwoy"},
		{"words by Ctrl and arrows", "one two" + "\x1b[1;5D" + "x" + "\x1b[1;5C" + "y", "one xtwoy", "one xtwoy"},
		{"kill a word", "one two.three" + ctrl('W'), "one ", "one "},
		{"kill a part of a word", "one two.three" + "\x1b\x7f", "one two.", "one two."},
		{"kill the next word", "one two" + ctrl('A') + "\x1bd", " two", ""},
		{"kill the end", "one two" + "\x1bb" + ctrl('K'), "one ", "one "},
		{"kill the beginning, and yank it", "one two" + "\x1bb" + ctrl('U') + ctrl('E') + " " + ctrl('Y'), "two one ", "two one "},
		{"transpose", "ba" + ctrl('T'), "ab", "ab"},
		{"transpose within", "bac" + left + left + ctrl('T'), "abc", "ab"},
		{"wide characters", "漢字" + left + "a" + "\x7f" + "\x7f", "字", ""},
		{"an emoji of several runes", "a👩‍👩‍👧b" + left + "\x7f", "ab", "a"},
		{"a mark that joins a letter", "e" + "\u0301" + "\x7f", "", ""},
		{"a flag", "🇩🇪" + "\x7f", "", ""},
		{"bytes that are no UTF-8", "a\xffb", "a\ufffdb", "a\ufffdb"},
		{"unknown keys", "a\x1b[15~\x1b[[A\x1bOP\x1b[99Xb\x1b[2;3;4~", "ab", "ab"},
		{"a sequence that is none", "a\x1b[\x01x", "xa[", "x"},
		{"a letter behind a bracket", "a\x1b[äb", "a[äb", "a[äb"},
		{"a key with the number of a paste", "a\x1b[200Cb", "ab", "ab"},
		{"an arrow with Ctrl", begin + "one\ntwo" + end + "\x1b[1;5A" + "x", "onex\ntwo", "onex"},
		{"an Escape loses no key", "a\x1bxb", "axb", "axb"},
		{"paste", begin + "a\tb" + end + "c", "a\tbc", "a\tbc"},
		{"paste of lines", begin + "a\r\nb\rc\nd\n" + end, "a\nb\nc\nd", "a\nb\nc\nd"},
		{"paste of an escape", begin + "a\x1b[Ab\x03\x1b" + end, "a\x1b[Ab\x03\x1b", "a\x1b[Ab\x03\x1b"},
		{"lines", begin + "one\ntwo\nthree" + end + up + "x" + ctrl('A') + "y" + up + "z" + down + down + down + "!", "ozne\nytwox\nth!ree", "ozne\nytwox\nth!"},
		{"the ends of a line among others", begin + "one\ntwo" + end + up + ctrl('E') + ctrl('U') + "x" + ctrl('A') + ctrl('K'), "\ntwo", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := at(t, 40, 10)
			if done, err := p.types(tt.keys); done || err != nil {
				t.Fatal("the line ended", err)
			}
			if got := p.text(); got != tt.text {
				t.Errorf("the text is %q, want %q", got, tt.text)
			}
			if got := strings.Join(p.e.text[:p.e.pos], ""); got != tt.before {
				t.Errorf("the cursor is behind %q, want %q", got, tt.before)
			}
			// However slowly the keys come, they are the same.
			slow := at(t, 40, 10)
			for i := range len(tt.keys) {
				slow.types(tt.keys[i : i+1])
			}
			if slow.text() != p.text() || slow.e.pos != p.e.pos {
				t.Errorf("byte by byte the text is %q, with the cursor at %d; want %q, %d", slow.text(), slow.e.pos, p.text(), p.e.pos)
			}
			if slow.screen.Text() != p.screen.Text() || slow.screen.Cursor() != p.screen.Cursor() {
				t.Errorf("byte by byte the screen is\n%s\nwant\n%s", slow.screen.Text(), p.screen.Text())
			}
		})
	}
}

func TestEditor_ends(t *testing.T) {
	for _, tt := range []struct {
		keys, shown string
		err         error
	}{
		{"ADD \r", "db> ADD\n", nil},
		{"ab" + left + "\n", "db> ab\n", nil},
		{"ab" + left + ctrl('C'), "db> ab^C\n", ErrAborted},
		{ctrl('D'), "db>\n", io.EOF},
	} {
		p := at(t, 40, 10)
		done, err := p.types(tt.keys)
		if !done || err != tt.err {
			t.Errorf("%q: %v, %v, want %v", tt.keys, done, err, tt.err)
		}
		if got := p.screen.Text(); got != tt.shown {
			t.Errorf("%q shows %q, want %q", tt.keys, got, tt.shown)
		}
	}
}

// The hint is behind the text, in its style, and no part of the text. It never takes another row.
func TestEditor_hint(t *testing.T) {
	p := at(t, 40, 10)
	p.types("ADD ")
	p.shows("db> ADD key item\n", "db> ADD ")
	if got := p.screen.Styled("90"); got != "key item" {
		t.Errorf("%q is grey", got)
	}
	p.types(left)
	p.shows("db> ADD\n", "db> ADD")
	p.types(right)
	p.shows("db> ADD key item\n", "db> ADD ")
	p.types("k")
	p.shows("db> ADD k\n", "db> ADD k")
	p = at(t, 14, 10)
	p.types("ADD ")
	p.shows("db> ADD key …\n", "db> ADD ")
	p = at(t, 8, 10)
	p.types("ADD ")
	p.shows("db> ADD key it…\n", "")
}

// A long text goes on in the next rows, which the terminal wraps itself.
func TestEditor_rows(t *testing.T) {
	p := at(t, 10, 4)
	p.types("123456")
	p.shows("db> 123456\n", "")
	p.types("7")
	p.shows("db> 1234567\n", "7")
	p.types(left + left + "x")
	p.shows("db> 12345x67\n", "")
	p.types(ctrl('A'))
	p.shows("db> 12345x67\n", "db> ")
	p.types(ctrl('E') + strings.Repeat("\x7f", 4))
	p.shows("db> 1234\n", "db> 1234")
	p.types("5漢字")
	p.shows("db> 12345\n漢字\n", "漢字")
	p.types(ctrl('U') + strings.Repeat("0123456789", 5)) // 6 rows on a screen of 4
	if text := p.screen.Text(); !strings.HasSuffix(text, "0123456789\n") || strings.Contains(text, "db>") {
		t.Errorf("the screen has\n%s", text)
	}
	if _, err := p.types("\r"); err != nil || !strings.HasSuffix(p.screen.Text(), "db> "+strings.Repeat("0123456789", 5)+"\n") {
		t.Errorf("at the end the screen has\n%s", p.screen.Text())
	}
}

// In the last column a terminal waits with the next row until there is something for it: the cursor moves on from there.
func TestEditor_lastColumn(t *testing.T) {
	p := at(t, 10, 4)
	p.types("12345678" + ctrl('A') + right + right + right + right)
	p.types(ctrl('T'))
	p.shows("db> 12354678\n", "db> 12354")
	p = at(t, 10, 4)
	p.types("a👍1234" + ctrl('A'))
	p.types("x")
	p.shows("db> xa👍1234\n", "db> x")
}

// A terminal that shows the emoji of a cluster beside each other has the cursor in its place all the same.
func TestEditor_separate(t *testing.T) {
	p := at(t, 40, 4)
	p.screen.Separate = true
	p.types("a👩‍👩‍👧b")
	p.types(left)
	p.types("x")
	p.shows("db> a👩‍👩‍👧xb\n", "db> a👩‍👩‍👧x")
	p.types(ctrl('A'))
	p.types(right)
	p.types("yz" + ctrl('E') + "\x7f")
	p.shows("db> ayz👩‍👩‍👧x\n", "db> ayz👩‍👩‍👧x")
	p.types(ctrl('U') + ctrl('K') + begin + "a👩‍👩‍👧b\nabcd" + end)
	p.types(up)
	p.types("x")
	p.shows("db> a👩‍👩‍👧bx\n... abcd\n", "db> a👩‍👩‍👧bx")
}

func TestEditor_history(t *testing.T) {
	p := at(t, 40, 10, "one", "two")
	for _, line := range []string{"two", "three"} {
		p.e.AddHistory(line)
	}
	p.types(down + "x" + up + up)
	p.shows("db> two\n", "db> two")
	p.types(up + up + up)
	p.shows("db> one\n", "db> one")
	p.types(down + ctrl('N') + ctrl('N') + down)
	p.shows("db> x\n", "db> x")
	p.types(ctrl('U') + ctrl('R'))
	p.shows("(search \"\")\n", "(search \"\") ")
	p.types("o")
	p.shows("(search \"o\") two\n", "(search \"o\") two")
	p.types(ctrl('R') + ctrl('R'))
	p.shows("(not found \"o\") one\n", "(not found \"o\") one")
	p.types(ctrl('S') + "漢")
	p.shows("(not found \"o漢\") two\n", "(not found \"o漢\") two")
	p.types("\x7f\x7fee" + left + "x")
	p.shows("db> threxe\n", "db> threx")
	p.types(ctrl('U') + ctrl('K') + "new" + ctrl('R') + "one" + ctrl('G'))
	p.shows("db> new\n", "db> new")
	p.types(ctrl('R') + "one" + up + down + down)
	if p.text() != "three" {
		t.Errorf("from the line that was found the history goes on to %q", p.text())
	}
	if done, err := p.types(ctrl('R') + "on\r"); !done || err != nil || p.text() != "one" {
		t.Errorf("Enter in a search: %v, %v, %q", done, err, p.text())
	}
}

func TestEditor_menu(t *testing.T) {
	p := at(t, 16, 6)
	p.types("CA\t")
	p.shows("db> CARD\n", "db> CARD ")
	p.types(ctrl('U') + "AD\t") // as far as it is sure
	p.shows("db> ADD\n", "db> ADD")
	p.types("\t")
	p.shows("db> ADD\nADD     ADDALL\n", "db> ADD")
	p.types("\t\t")
	p.shows("db> ADDALL\nADD     ADDALL\n", "db> ADDALL")
	if got := p.screen.Styled("7"); got != "ADDALL" {
		t.Errorf("%q is selected", got)
	}
	p.types(left)
	p.shows("db> ADD\nADD     ADDALL\n", "db> ADD")
	if done, _ := p.types("\r"); done {
		t.Error("Enter in the menu ended the line")
	}
	p.shows("db> ADD\n", "db> ADD")
	p.types("\t\t\tx") // a key that is not for the menu takes the word, and is typed
	p.shows("db> ADDALLx\n", "db> ADDALLx")
	p.types(ctrl('U') + "C\t\t")
	p.shows("db> CARD\nCARD   COUNT\n", "db> CARD")
	p.types(ctrl('G'))
	p.shows("db> C\n", "db> C")
	p.types("\t\x1b[Z") // backwards
	p.shows("db> COUNT\nCARD   COUNT\n", "db> COUNT")
	p.types("\x1b" + "x")
	p.shows("db> Cx\n", "db> Cx")
	p.types(ctrl('U') + "ADD \t")
	p.shows("db> ADD\nADD key item\ndb> ADD key it…\n", "db> ADD ")
	if done, err := p.types(ctrl('U') + "C\t" + ctrl('C')); !done || err != ErrAborted {
		t.Error("Ctrl-C in the menu:", done, err)
	}
}

// A menu that does not fit shows the rows around the word that is selected, and no menu hides the line.
func TestEditor_menuIsLong(t *testing.T) {
	before := known
	defer func() { known = before }()
	for i := range 100 {
		known = append(known, fmt.Sprintf("word%02d ", i))
	}
	p := at(t, 20, 6)
	p.types("w\t\t")
	p.types(strings.Repeat("\t", 50))
	if text := p.screen.Text(); !strings.Contains(text, "word48  word49") || strings.Count(text, "\n") > 6 {
		t.Errorf("the screen has\n%s", text)
	}
	p.height = 1
	p.e.resize()
	p.types("\t")
	if text := p.screen.Text(); !strings.HasSuffix(text, "db> word50\n") {
		t.Errorf("on a screen of one row there is\n%s", text)
	}
}

// Lines that were pasted are edited as one text, and then read one by one.
func TestEditor_block(t *testing.T) {
	p := at(t, 30, 10)
	p.types(begin + "ADD k 1\nADD k 2\n" + end)
	p.shows("db> ADD k 1\n... ADD k 2\n", "... ADD k 2")
	p.types(up + "!")
	p.shows("db> ADD k 1!\n... ADD k 2\n", "db> ADD k 1!")
	p.types(ctrl('C'))
	p.shows("db> ADD k 1!\n... ADD k 2^C\n", "")
}

// A block that is larger than the screen is edited in a window of it.
func TestEditor_largeBlock(t *testing.T) {
	var block strings.Builder
	for i := range 200 {
		fmt.Fprintf(&block, "line %d\n", i)
	}
	p := at(t, 30, 6)
	p.types(begin + block.String() + end)
	if text := p.screen.Text(); !strings.HasSuffix(text, "... line 198\n... line 199\n") || strings.Count(text, "\n") > 6 {
		t.Errorf("the screen has\n%s", text)
	}
	for range 150 {
		p.types(up)
	}
	p.types("!")
	if got := p.screen.Cursor(); got != "... line 49!" {
		t.Errorf("the cursor is behind %q", got)
	}
	p.types("\r")
	if text := p.screen.Text(); text != "\n" {
		t.Errorf("after Enter the screen has\n%s", text)
	}
}

// reading is a typist whose keys are read from a channel, as from a terminal.
func reading(t *testing.T, keys ...string) *typist {
	p := at(t, 40, 10)
	p.screen = screentest.New(40, 10)
	r, w := io.Pipe()
	p.e.keyboard = newKeyboard(r)
	go func() {
		for _, k := range keys {
			if _, err := io.WriteString(w, k); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		if err := errors.Join(r.Close(), w.Close()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// readLine reads a line without interrupts.
func (p *typist) readLine() (string, error) {
	return p.e.ReadLine(context.Background(), promptText, nil)
}

func TestEditor_ReadLine(t *testing.T) {
	p := reading(t, "one\rtw", "o\r", begin+"three\nfour\n\nfive"+end+"\r", "typed\r")
	for _, want := range []string{"one", "two", "three", "four", "", "five", "typed"} {
		if got, err := p.readLine(); err != nil || got != want {
			t.Errorf("read %q, %v, want %q", got, err, want)
		}
	}
	if got, want := p.screen.Text(), "db> one\ndb> two\ndb> three\ndb> four\ndb>\ndb> five\ndb> typed\n"; got != want {
		t.Errorf("the screen has\n%s\nwant\n%s", got, want)
	}
}

// Lines that were not run can be edited again.
func TestEditor_Recall(t *testing.T) {
	p := reading(t, begin+"one\ntwo\nthree"+end+"\r", ctrl('E')+"!\r")
	if got, err := p.readLine(); got != "one" || err != nil {
		t.Fatal(got, err)
	}
	if n := p.e.Recall(); n != 2 {
		t.Errorf("%d lines are recalled, want 2", n)
	}
	for _, want := range []string{"two", "three!"} {
		if got, err := p.readLine(); err != nil || got != want {
			t.Errorf("read %q, %v, want %q", got, err, want)
		}
	}
	if n := p.e.Recall(); n != 0 {
		t.Errorf("%d lines are recalled, want none", n)
	}
}

// An answer is what was typed: nothing that was pasted is one, and nothing of that is lost.
func TestEditor_Confirm(t *testing.T) {
	for _, tt := range []struct {
		name  string
		keys  []string
		yes   bool
		lines []string
	}{
		{"y", []string{"y\r", "next\r"}, true, []string{"next"}},
		{"Yes", []string{"Yes\r", "next\r"}, true, []string{"next"}},
		{"n", []string{"n\r", "next\r"}, false, []string{"next"}},
		{"No", []string{"No\r", "next\r"}, false, []string{"next"}},
		{"nothing", []string{"\r", "next\r"}, false, []string{"next"}},
		{"Ctrl-C", []string{"y" + ctrl('C'), "next\r"}, false, []string{"next"}},
		{"Ctrl-D", []string{ctrl('D'), "next\r"}, false, []string{"next"}},
		{"another line", []string{"next\ry\r"}, false, []string{"next", "y"}},
		{"a block", []string{begin + "one\ny\nthree" + end + "\r", "y\r", "next\r"}, true, []string{"y", "three", "next"}},
		{"a block, and no", []string{begin + "one\ny\nthree" + end + "\r", "n\r", "!\r"}, false, []string{"y", "three!"}},
		{"a block, and another line", []string{begin + "one\ny" + end + "\r", "two\r", "!\r"}, false, []string{"y", "two!"}},
		{"a block, and lines that wait", []string{begin + "one\ntwo" + end + "\ry\r"}, false, []string{"two", "y"}},
		{"pasted as the answer", []string{begin + "y\n" + end, "!\r"}, false, []string{"y!"}},
		{"pasted lines as the answer", []string{begin + "y\nnext" + end, "\r"}, false, []string{"y", "next"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := reading(t, tt.keys...)
			if strings.HasPrefix(tt.name, "a block") {
				if line, err := p.readLine(); line != "one" || err != nil {
					t.Fatal(line, err)
				}
			}
			if yes, err := p.e.Confirm(context.Background(), "sure? ", nil); yes != tt.yes || err != nil {
				t.Errorf("the answer is %v, %v, want %v", yes, err, tt.yes)
			}
			for _, want := range tt.lines {
				if got, err := p.readLine(); err != nil || got != want {
					t.Errorf("read %q, %v, want %q", got, err, want)
				}
			}
			if text := p.screen.Text(); strings.Count(text, "sure?") > 1 || strings.Count(text, promptText) < len(tt.lines) || strings.Contains(text, "sure? db>") ||
				strings.HasPrefix(tt.name, "pasted") && !strings.Contains(text, "sure?\n") {
				t.Errorf("the screen has\n%s", text)
			}
		})
	}
}

// After each key the screen has the text, on a screen of any size, and the cursor is in its place. Nothing above the line is
// touched, and a screen that was drawn in parts is as one that was drawn at once.
func TestEditor_screen(t *testing.T) {
	keys := []string{
		"a", "ADD ", "漢", "👩‍👩‍👧", "e\u0301", "\x7f", left, right, up, down, ctrl('A'), ctrl('E'), ctrl('K'), ctrl('U'), ctrl('W'), ctrl('Y'),
		"\t", "\x1b[Z", ctrl('G'), ctrl('R'), "C", begin + "one\ntwo\n" + end, begin + "long long long\t\x1b" + end, "0123456789", "resize",
	}
	rapid.Check(t, func(t *rapid.T) {
		p := at(t, rapid.IntRange(8, 50).Draw(t, "width"), rapid.IntRange(2, 12).Draw(t, "height"))
		const above = "what was there before\n"
		p.screen = screentest.New(p.width, p.height)
		fmt.Fprint(p.screen, strings.ReplaceAll(above, "\n", "\r\n"))
		p.e.history = []string{"CARD", "two words"}
		p.e.start(promptText)
		p.types("")
		wasResized, told := false, false
		for _, k := range rapid.SliceOfN(rapid.SampledFrom(keys), 0, 25).Draw(t, "keys") {
			if k == "resize" {
				p.width, p.height = rapid.IntRange(8, 50).Draw(t, "width"), rapid.IntRange(2, 12).Draw(t, "height")
				p.screen.Resize(p.width, p.height)
				p.e.resize()
				wasResized, k = true, ""
			}
			told = told || k == "\t" && p.e.Helper.Describe(p.e.line()) != ""
			p.types(k)
			if !strings.HasPrefix(strings.ReplaceAll(p.screen.Text(), "\n", ""), strings.TrimSpace(above)) {
				t.Fatalf("after %q the screen has\n%s", k, p.screen.Text())
			}
		}
		if wasResized {
			return
		}
		again := screentest.New(p.width, p.height)
		fmt.Fprint(again, strings.ReplaceAll(above, "\n", "\r\n"))
		p.e.out, p.e.screen = again, screen{}
		p.e.screen.begin(p.width)
		p.e.draw()
		if err := p.e.flush(); err != nil {
			t.Fatalf("%v", err)
		}
		if got, want := p.screen.Rows(), again.Rows(); !told && got != want {
			t.Fatalf("drawn in parts the screen has\n%s\nat once\n%s", got, want)
		}
		if got, want := p.screen.Cursor(), again.Cursor(); got != want {
			t.Fatalf("drawn in parts the cursor is behind %q, at once %q", got, want)
		}
	})
}

// A key costs few bytes on a slow connection.
func TestEditor_writesLittle(t *testing.T) {
	p := at(t, 80, 24)
	p.types(strings.Repeat("x", 200))
	for _, tt := range []struct {
		keys string
		most int
	}{{ctrl('A'), 10}, {ctrl('E'), 10}, {"y", 1}, {"\x7f", 4}, {left, 1}, {right, 6}, {"漢", 3}} {
		p.written = 0
		p.types(tt.keys)
		if p.written > tt.most {
			t.Errorf("%q writes %d bytes, want %d at most", tt.keys, p.written, tt.most)
		}
	}
}

func TestSplit(t *testing.T) {
	for text, want := range map[string][]string{
		"":         {},
		"ab":       {"a", "b"},
		"e\u0301x": {"e\u0301", "x"},
		"a\nb":     {"a", "\n", "b"},
		"漢👩‍👩‍👧🇩🇪": {"漢", "👩‍👩‍👧", "🇩🇪"},
	} {
		if got := split(text); !slices.Equal(got, want) {
			t.Errorf("%q is split into %q", text, got)
		}
	}
}

func TestRows(t *testing.T) {
	for text, want := range map[string][]string{
		"":                 nil,
		"abcd\nefghi\n\nj": {"abcd\n", "efgh", "i\n", "\n", "j"},
		"漢字漢字":             {"漢字", "漢字"},
		"a漢字b\n":           {"a漢", "字b\n"},
	} {
		if got := Rows(text, 4); !slices.Equal(got, want) {
			t.Errorf("%q has the rows %q, want %q", text, got, want)
		}
	}
}

// What a terminal would take for a command is spelled out.
func TestCellOf(t *testing.T) {
	for cluster, want := range map[string]cell{
		"a": {"a", 1, ""}, "\t": {"␉", 1, ""}, "\x1b": {"^[", 2, ""}, "\x7f": {"^?", 2, ""}, "漢": {"漢", 2, ""}, "é": {"é", 1, ""},
		"\u202e": {"<U+202E>", 8, ""}, "\u200b": {"<U+200B>", 8, ""}, "\u200d": {"<U+200D>", 8, ""}, "\u009b": {"<U+009B>", 8, ""}, "👩‍👧": {"👩‍👧", 2, ""},
	} {
		if got := cellOf(cluster, ""); got != want {
			t.Errorf("%q is shown as %v, want %v", cluster, got, want)
		}
	}
}
