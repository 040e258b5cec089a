package acl_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/internal/acl"
)

// words makes names, rules and commands by chance, of all that rules are made of and of bytes that mean something in a
// file.
type words struct {
	*rand.Rand
	commands, categories []string
}

// strange are texts that a line, a selector or a rule could end at or be read otherwise with.
var strange = []string{
	"a", "b", "k:1", "*", "?", "[a-c]", "\\", "%", "~", "&", "+", "-", "|", "@", "#", ">", "(", ")", "\"", "'", " ", "\t", "\n", "\v",
	"\f", "\r", "\x00", "\x1c", "\u0085", "\u00a0", "\u2028", "\ufeff", "\xff", "\xfe", "\xc3", "K", "\u212a", "\u0130",
	"\nuser evil on nopass +@all ~*\n", " +@all", "~*", "on", "user",
}

func (w words) of(list ...string) string { return list[w.IntN(len(list))] }

// text joins a few texts, mostly harmless ones.
func (w words) text() string {
	var b strings.Builder
	for range w.IntN(4) {
		if w.IntN(3) == 0 {
			b.WriteString(w.of(strange...))
		} else {
			b.WriteString(w.of("a", "b", "c", "*"))
		}
	}
	return b.String()
}

func (w words) rule() string {
	sign := w.of("+", "-")
	switch w.IntN(14) {
	case 0, 1:
		return w.of("~", "%R~", "%W~", "%RW~", "%rw~") + w.text()
	case 2:
		return "&" + w.text()
	case 3, 4:
		return sign + w.of(w.commands...)
	case 5:
		return sign + "@" + w.of(w.categories...)
	case 6:
		return "+" + w.of("select", "get", "set") + "|" + w.text()
	case 7:
		return w.of(">", "<") + w.text()
	case 8:
		return w.of("on", "off", "nopass", "resetpass", "sanitize-payload", "skip-sanitize-payload")
	case 9:
		return w.of("reset", "clearselectors", "resetkeys", "resetchannels", "allkeys", "allchannels", "~*", "&*", "%RW~*")
	case 10:
		return w.of("+@all", "-@all", "allcommands", "nocommands")
	case 11:
		return sign + w.text()
	}
	return "(" + strings.Join([]string{w.selectorRule(), w.selectorRule(), w.selectorRule()}, " ") + ")"
}

func (w words) selectorRule() string {
	return w.of(w.of("~", "%R~", "%W~")+w.text(), "+"+w.of(w.commands...), "+@"+w.of(w.categories...), "+select|"+w.text(), "&"+w.text())
}

// call is a command with its arguments, as many as it takes.
func (w words) call(l *acl.Lists) [][]byte {
	line := [][]byte{[]byte(w.of("select", "get", "set", "del", "copy", "config", "ping", "bf.add", "sieve.stats"))}
	for range w.IntN(4) {
		line = append(line, []byte(w.of("get", "set", w.text(), w.text())))
	}
	if cmd, _ := l.Command(line); cmd == nil || !cmd.Takes(len(line)) {
		return w.call(l)
	}
	return line
}

// What is saved makes the same users when it is loaded: 10,000 of them, made by rules that are tried by chance, have the
// same lines and decide the same.
func TestSave_identity(t *testing.T) {
	saved, loaded := newLists(t), newLists(t)
	w := words{Rand: rand.New(rand.NewPCG(42, 1)), categories: saved.Categories()}
	for _, category := range w.categories {
		w.commands = append(w.commands, saved.InCategory(category)...)
	}
	made, refused := make(map[string]bool), 0
	for len(made) < 10_000 {
		name := fmt.Sprint(w.text(), len(made))
		if w.IntN(100) == 0 {
			name = w.text()
		}
		for range 1 + w.IntN(6) {
			if saved.Set(name, []string{w.rule(), w.rule()}) == nil {
				made[name] = true
			} else {
				refused++
			}
		}
	}
	var file strings.Builder
	if err := saved.Save(&file); err != nil {
		t.Fatal(err)
	}
	if err := loaded.Load("f", strings.NewReader(file.String())); err != nil {
		t.Fatalf("%.1000s", err)
	}
	before, after := shown(saved), shown(loaded)
	if !slices.Equal(before, after) {
		i := slices.IndexFunc(before, func(line string) bool { return !slices.Contains(after, line) })
		t.Fatalf("%d users became %d; one is not the same: %q", len(before), len(after), before[max(i, 0)])
	}
	allowed := 0
	for _, u := range saved.Users() {
		same := loaded.User(u.Name())
		for range 10 {
			call := w.call(saved)
			want, got := u.Check(saved.Command(call)), same.Check(loaded.Command(call))
			if (want == nil) != (got == nil) || want != nil && want.Verbose() != got.Verbose() {
				t.Fatalf("%q decides %v about %q, and %v after it was loaded", u, want, call, got)
			}
			if want == nil {
				allowed++
			}
		}
	}
	if allowed < 1000 || refused < 1000 {
		t.Errorf("%d commands were allowed, %d rules refused: the test tells little", allowed, refused)
	}
}
