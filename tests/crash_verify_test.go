package tests_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
)

// span is how far each history had got, in steps: at least and at most.
type span struct{ least, most []int }

// shot is what a crash left of a disk, and the steps that must and may be in it.
type shot struct {
	span
	disk     *vfs.MemFS
	unsynced int // percent
	taken    string
}

// verify finds out how far the histories had got in a store opened on a shot: the first steps of each after which its
// keys held what they hold now, and the last. A crash leaves a prefix of the commits, in the order they were made in.
func (w *workload) verify(db *kv.DB, s *shot) (at span, err error) {
	histories := w.histories()
	first, last := make([]int, len(histories)), make([]int, len(histories))
	var errs []error
	keys := 0
	for i, h := range histories {
		found, err := observe(db, h.keys)
		if err != nil {
			return at, err
		}
		keys += len(found)
		var possible []int
		var wrong []error // with states that match at first sight
		for n := s.least[i]; n <= s.most[i]; n++ {
			if !found.matches(h.state(n)) {
				continue
			}
			if err := h.verifyItems(db, n, s.most[i]); err != nil {
				wrong = append(wrong, err)
			} else {
				possible = append(possible, n)
			}
		}
		if len(possible) == 0 {
			errs = append(errs, fmt.Errorf("no state matches: %w\n%s", errors.Join(wrong...), h.describe(found, s.least[i], s.most[i])))
			continue
		}
		first[i], last[i] = possible[0], possible[len(possible)-1]
	}
	if err := errors.Join(errs...); err != nil {
		return at, err
	}
	size, err := db.Size()
	if err != nil || size != uint64(keys) {
		errs = append(errs, fmt.Errorf("size is %d, with %d keys (%v)", size, keys, err))
	}
	at = span{first, last}
	return at, errors.Join(append(errs, verifyWhole(histories, at), verifyOrder(histories, at), checkStore(db))...)
}

// observed is what can be seen of a key at once.
type observed struct {
	items    int
	position string
}

type observation map[string]observed

func observe(db *kv.DB, keys []string) (observation, error) {
	found := make(observation)
	for _, key := range keys {
		o, err := db.Lookup([]byte(key))
		if err != nil {
			return nil, err
		}
		if o == nil {
			continue
		}
		info, err := bloomext.New(db, key).Info()
		if err != nil {
			return nil, err
		}
		position, err := db.Attribute(o, "position")
		if err != nil {
			return nil, err
		}
		found[key] = observed{int(info.Items), string(position)}
	}
	return found, nil
}

func (o observation) matches(c contents) bool {
	if len(o) != len(c) {
		return false
	}
	for key, have := range c {
		if seen, ok := o[key]; !ok || seen.items != len(have.items) || seen.position != have.position {
			return false
		}
	}
	return true
}

func (h *history) describe(found observation, least, most int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "found %v\n", found)
	for n := least; n <= most; n++ {
		what := "start"
		if n > 0 {
			what = h.steps[n-1].what
		}
		fmt.Fprintf(&b, "%d (%s):", n, what)
		for key, c := range h.state(n) {
			fmt.Fprintf(&b, " %s:{%d %s}", key, len(c.items), c.position)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// verifyItems checks that every item of the first n steps is there, and none that a later step added.
func (h *history) verifyItems(db *kv.DB, n, most int) error {
	var later [][]byte
	for _, s := range h.steps[n:most] {
		later = append(later, s.added...)
	}
	for key, c := range h.state(n) {
		present := make([]bool, len(c.items)+len(later))
		if err := bloomext.New(db, key).MayContainMany(slices.Concat(c.items, later), present); err != nil {
			return err
		}
		if i := slices.Index(present[:len(c.items)], false); i >= 0 {
			return fmt.Errorf("key %s, which has %d items, has lost %s", key, len(c.items), c.items[i])
		}
		if i := slices.Index(present[len(c.items):], true); i >= 0 {
			return fmt.Errorf("key %s has %s, of a commit that is not there", key, later[i])
		}
	}
	return nil
}

// verifyWhole checks that a commit to several histories is in all of them or in none.
func verifyWhole(histories []*history, at span) error {
	in := make(map[*commit]string)
	for i, h := range histories {
		for _, s := range h.steps[:at.least[i]] {
			in[s.commit] = s.what
		}
	}
	for i, h := range histories {
		for _, s := range h.steps[at.most[i]:] {
			if what, ok := in[s.commit]; ok {
				return fmt.Errorf("%s is there by half", what)
			}
		}
	}
	return nil
}

// verifyOrder checks that no commit is lost that had returned when one that is there began.
func verifyOrder(histories []*history, at span) error {
	var latest step
	for i, h := range histories {
		if n := at.least[i]; n > 0 && (latest.commit == nil || h.steps[n-1].begin > latest.begin) {
			latest = h.steps[n-1]
		}
	}
	for i, h := range histories {
		if latest.commit == nil || at.most[i] == len(h.steps) {
			continue
		}
		if lost := h.steps[at.most[i]]; lost.end.Load() != 0 && lost.end.Load() < latest.begin {
			return fmt.Errorf("%s is lost, %s, which began later, is there", lost.what, latest.what)
		}
	}
	return nil
}
