package prompt

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
)

// However many keys there are, few are offered, and not all are looked at.
func TestFirstKeys_bounded(t *testing.T) {
	looked := 0
	endless := func(yield func(string, error) bool) {
		for yield(fmt.Sprint("k", looked), nil) {
			looked++
		}
		looked++
	}
	if keys := firstKeys(endless, "k"); len(keys) != maxOffered || looked != maxOffered {
		t.Errorf("%d keys offered of %d looked at, want %d of %[3]d", len(keys), looked, maxOffered)
	}
	looked = 0
	if keys := firstKeys(endless, "other"); len(keys) != 0 || looked != maxKeysScanned {
		t.Errorf("%d keys offered of %d looked at, want 0 of %d", len(keys), looked, maxKeysScanned)
	}
	failing := func(yield func(string, error) bool) { yield("", kv.ErrFailed) }
	if keys := firstKeys(failing, ""); len(keys) != 0 {
		t.Errorf("%q offered by a scan that failed", keys)
	}
}

// A key that is offered is read as that key, and begins as what was typed.
func TestCompleter_readsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "word")
		spelled := spell([]string{string(word)}, rapid.Bool().Draw(t, "quoted"), "")[0]
		words, _, ok := splitPartial("GET " + strings.TrimSuffix(spelled, " "))
		if !ok || len(words) != 2 || words[1] != string(word) {
			t.Fatalf("%q is spelled %s, and read as %q", word, spelled, words)
		}
		if strings.ContainsFunc(spelled, func(r rune) bool { return r < ' ' || r == '\x7f' }) {
			t.Fatalf("%q is spelled %q", word, spelled)
		}
	})
}
