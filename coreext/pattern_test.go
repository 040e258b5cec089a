package coreext_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/internal/glob"
	"github.com/sievekv/sievekv/module"
)

// Commands with a pattern refuse one that is too long, and say what is allowed.
func TestPattern_commands(t *testing.T) {
	db := openWith(t, module.Module{Name: "none"})
	long := strings.Repeat("[a]", 15_000)
	for _, command := range []string{"KEYS %s", "SCAN 0 MATCH %s", "CONFIG GET a %s", "COMMAND LIST FILTERBY PATTERN %s"} {
		var words [][]byte
		for _, word := range strings.Fields(command) {
			words = append(words, []byte(strings.Replace(word, "%s", long, 1)))
		}
		r := module.NewSession(db).Do(t.Context(), words)
		if got, want := string(r.Bytes()), "ERR too large: pattern of 45000 bytes, at most 4096"; !r.IsError() || got != want {
			t.Errorf("%s: %.200q, want %q", command, got, want)
		}
	}
}

// The memory of a pattern counts while keys are compared with it, and no longer.
func TestPattern_charged(t *testing.T) {
	db := openWith(t, module.Module{Name: "none"})
	pattern := []byte(strings.Repeat("?*", glob.MaxLen/2))
	full := errors.New("no room")
	for name, words := range map[string][][]byte{
		"SCAN": {[]byte("SCAN"), []byte("0"), []byte("MATCH"), pattern}, "KEYS": {[]byte("KEYS"), pattern},
	} {
		session := module.NewSession(db)
		held, most, room := 0, 0, 1<<20
		session.Charge = func(n int) error {
			if held += n; held > room {
				return full
			}
			most = max(most, held)
			return nil
		}
		if r := session.Do(t.Context(), words); r.IsError() || most < 256*glob.MaxLen/16 || held != 0 {
			t.Errorf("%s: %v, %d bytes were counted, %d are left", name, r, most, held)
		}
		room = 50_000
		if r := session.Do(t.Context(), words); !r.IsError() || !strings.Contains(string(r.Bytes()), "no room") || held != 0 {
			t.Errorf("%s with little room: %v, %d bytes are left", name, r, held)
		}
	}
}
