package expiry

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/sievekv/sievekv/internal/format"
)

// written are notes in their order. After the last one they end with err.
type written struct {
	notes []Note
	err   error
	at    int
}

func (w *written) First() bool { w.at = 0; return len(w.notes) > 0 }

func (w *written) Next() bool { w.at++; return w.at < len(w.notes) }

func (w *written) Key() []byte { return w.notes[w.at].Stored() }

func (w *written) ValueAndErr() ([]byte, error) {
	if w.notes[w.at].Object {
		return []byte{1}, nil
	}
	return nil, nil
}

func (w *written) Error() error { return w.err }

func note(at int64, key string) Note { return Note{At: at, Key: []byte(key)} }

func keysOf(notes []Note) (keys []string) {
	for _, n := range notes {
		keys = append(keys, string(n.Key))
	}
	return keys
}

func TestHint_Take(t *testing.T) {
	filter := Note{At: 3, Key: []byte("filter"), Object: true}
	all := []Note{note(1, "a"), note(2, "locked"), filter, note(5, "b"), note(9, "later")}
	tests := map[string]struct {
		batch Batch
		want  []string
		next  []byte
		more  bool
	}{
		"all that has expired": {Batch{Now: 5, Notes: 9, Bytes: 1 << 20}, []string{"a", "filter", "b"}, all[4].Stored(), false},
		"not a moment early":   {Batch{Now: 4, Notes: 9, Bytes: 1 << 20}, []string{"a", "filter"}, all[3].Stored(), false},
		"some":                 {Batch{Now: 5, Notes: 2, Bytes: 1 << 20}, []string{"a", "filter"}, all[3].Stored(), true},
		"what fits":            {Batch{Now: 5, Notes: 9, Bytes: 1100}, []string{"a"}, all[2].Stored(), true},
		"one at least":         {Batch{Now: 5, Notes: 9}, []string{"a"}, all[2].Stored(), true},
		"to the end":           {Batch{Now: 9, Notes: 9, Bytes: 1 << 20}, []string{"a", "filter", "b", "later"}, End, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var h Hint
			h.Raise()
			tt.batch.Free = func(key []byte) bool { return string(key) != "locked" }
			notes, next, more, err := h.Take(&written{notes: all}, tt.batch)
			if err != nil || !slices.Equal(keysOf(notes), tt.want) || string(next) != string(tt.next) || more != tt.more {
				t.Fatalf("%q, %x, %v, %v, want %q, %x, %v", keysOf(notes), next, more, err, tt.want, tt.next, tt.more)
			}
			for _, n := range notes {
				if n.Object != (string(n.Key) == "filter") {
					t.Errorf("%q has an object: %v", n.Key, n.Object)
				}
			}
			h.Leave(next)
			if len(tt.want) > 1 && string(h.First()) != string(all[1].Stored()) {
				t.Errorf("the hint is %x, not the note of the locked key", h.First())
			}
		})
	}
}

func TestHint_Take_unreadable(t *testing.T) {
	var h Hint
	bad := errors.New("bad disk")
	batch := Batch{Now: 5, Notes: 9, Bytes: 1 << 20, Free: func([]byte) bool { return true }}
	if notes, _, _, err := h.Take(&written{notes: []Note{note(1, "a")}, err: bad}, batch); !errors.Is(err, bad) || notes != nil {
		t.Errorf("%v, %v", notes, err)
	}
}

func TestOf(t *testing.T) {
	all := []Note{note(1, "a"), note(2, "ab"), note(3, "a")}
	got, err := Of([]byte("a"), &written{notes: all})
	if want := [][]byte{all[0].Stored(), all[2].Stored()}; err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%x, %v, want %x", got, err, want)
	}
}

// A note's key is what commits write.
func TestNote_Stored(t *testing.T) {
	if n := note(5, "k"); string(n.Stored()) != string(format.AppendExpiryKey(nil, 5, []byte("k"))) {
		t.Errorf("%x", n.Stored())
	}
}

// A locked key that has not expired ends a batch like any other.
func TestHint_Take_lockedLater(t *testing.T) {
	notes := &written{notes: []Note{note(9, "locked"), note(10, "z")}}
	h := Hint{from: End}
	taken, next, more, err := h.Take(notes, Batch{Now: 5, Notes: 9, Bytes: 1 << 20, Free: func([]byte) bool { return false }})
	if len(taken) != 0 || string(next) != string(notes.notes[0].Stored()) || more || err != nil {
		t.Errorf("Take() = %v, %q, %v, %v", taken, next, more, err)
	}
	if string(h.from) != string(End) {
		t.Errorf("the hint is lowered to %q", h.from)
	}
}

// While sweeps are under way, the first note may be one that they have begun with.
func TestHint_First(t *testing.T) {
	var h Hint
	at := func(when int64) []byte { return note(when, "k").Stored() }
	want := func(when string, first []byte) {
		t.Helper()
		if got := h.First(); string(got) != string(first) {
			t.Errorf("%s, First() = %q, want %q", when, got, first)
		}
	}
	h.Raise()
	h.Leave(at(5))
	want("after a sweep that left a note", at(5))
	h.Raise()
	want("during a sweep", at(5))
	h.Lower(at(3))
	want("after a commit during a sweep", at(3))
	h.Raise()
	want("during two sweeps", at(3))
	h.Leave(at(8))
	want("after one of two sweeps", at(3))
	h.Leave(End)
	want("after both", at(8))
	h.Raise()
	want("during a later sweep", at(8))
}
