package crash

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
)

// What can be wrong with a store after a crash. Every error of this package that is about one is one of these, or
// nothing that a crash explains.
var (
	ErrLost          = errors.New("an acknowledged write is lost")
	ErrTorn          = errors.New("part of a commit is there")
	ErrFalseNegative = errors.New("an item that was added is not there")
	ErrRefused       = errors.New("the store cannot be opened")
)

// span is how far each history had got, in steps: at least and at most.
type span struct{ least, most []int }

// shot is what a crash left of a disk, and the steps that must and may be in it.
type shot struct {
	span
	disk     *kvtest.Disk
	unsynced int   // percent
	now      int64 // the store's time, or later
	taken    string
}

// verify finds out how far the histories had got in a store opened after a crash, at the time of the workload: the
// first steps of each after which its keys held what they hold now, and the last. A crash leaves a prefix of the
// commits, in the order they were made in.
func (w *workload) verify(db *kv.DB, must span) (at span, err error) {
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
		if first[i], last[i], err = w.find(db, h, found, must.least[i], must.most[i]); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return at, err
	}
	size, err := sweptSize(db)
	if err != nil || size != uint64(keys) {
		errs = append(errs, errors.Join(fmt.Errorf("size is %d, with %d keys", size, keys), err))
	}
	at = span{first, last}
	return at, errors.Join(append(errs, verifyWhole(histories, at), verifyOrder(histories, at), checkStore(db))...)
}

// find returns the first and the last number of steps of a history that leave what was found.
func (w *workload) find(db *kv.DB, h *history, found observation, least, most int) (first, last int, err error) {
	now := w.now.Load()
	var possible []int
	var wrong []error // with states that match at first sight
	for n := least; n <= most; n++ {
		c := h.state(n).at(now)
		if !found.matches(c) {
			continue
		}
		if err := h.verifyItems(db, c, n, most); err != nil {
			wrong = append(wrong, err)
		} else {
			possible = append(possible, n)
		}
	}
	switch {
	case len(possible) > 0:
		return possible[0], possible[len(possible)-1], nil
	case len(wrong) > 0:
		err = errors.Join(wrong...)
	default:
		err = fmt.Errorf("%w: no number of commits leaves this", ErrTorn)
		for n := range least {
			if found.matches(h.state(n).at(now)) {
				err = fmt.Errorf("%w: %d commits are there, %d were acknowledged", ErrLost, n, least)
			}
		}
	}
	return 0, 0, fmt.Errorf("%w\n%s", err, h.describe(found, least, most))
}

func checkStore(db *kv.DB) error {
	report, err := db.Check(background)
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	return errors.Join(report.Problems...)
}

// observed is what can be seen of a key at once.
type observed struct {
	typ    string
	expiry int64
	value  string
	items  int
}

type observation map[string]observed

func observe(db *kv.DB, keys []string) (observation, error) {
	found := make(observation)
	for _, key := range keys {
		o, err := observeKey(db, key)
		if errors.Is(err, kv.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found[key] = o
	}
	return found, nil
}

func observeKey(db *kv.DB, key string) (o observed, err error) {
	if o.expiry, err = db.ExpiryOf([]byte(key)); err != nil {
		return o, err
	}
	name, err := db.TypeOf([]byte(key))
	if err != nil {
		return o, err
	}
	if name == "string" {
		value, err := db.Get([]byte(key))
		o.typ, o.value = stringType, string(value)
		return o, err
	}
	for _, t := range types {
		if t.typeName == name {
			o.typ = t.name
			if o.items, err = t.items(db, key); err != nil {
				return o, err
			}
		}
	}
	if o.typ == "bloom" {
		object, err := db.Lookup([]byte(key))
		if err != nil {
			return o, err
		}
		position, err := db.Attribute(object, "position")
		o.value = string(position)
		return o, err
	}
	return o, nil
}

func (o observation) matches(c contents) bool {
	if len(o) != len(c) {
		return false
	}
	for key, have := range c {
		if o[key] != (observed{have.Type, have.Expiry, have.Value, len(have.Items)}) {
			return false
		}
	}
	return true
}

func (h *history) describe(found observation, least, most int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "found %v\n", found)
	for n := max(0, least-3); n <= most; n++ {
		what := "start"
		if n > 0 {
			what = h.steps[n-1].what
		}
		fmt.Fprintf(&b, "%d (%s):", n, what)
		for key, d := range h.state(n) {
			fmt.Fprintf(&b, " %s:{%s %d %.40s %d}", key, d.Type, d.Expiry, d.Value, len(d.Items))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// verifyItems checks that every item of the state after n steps is there, and none that was deleted or that a later step
// added.
func (h *history) verifyItems(db *kv.DB, c contents, n, most int) error {
	var later [][]byte
	for _, s := range h.steps[n:most] {
		later = append(later, s.added...)
	}
	for key, d := range c {
		t := types[d.Type]
		if t == nil {
			continue
		}
		f := t.open(api{db: db}, key)
		if err := has(f, d.Items); err != nil {
			return fmt.Errorf("key %s, which has %d items: %w", key, len(d.Items), err)
		}
		present := make([]bool, len(later))
		if err := f.MayContainMany(later, present); err != nil {
			return err
		}
		if i := slices.Index(present, true); i >= 0 {
			return fmt.Errorf("%w: key %s has %s, of a later one", ErrTorn, key, later[i])
		}
		present = make([]bool, len(d.Deleted))
		if err := f.MayContainMany(d.Deleted, present); err != nil {
			return err
		}
		if i := slices.Index(present, true); i >= 0 {
			return fmt.Errorf("%w: key %s has %s, which was deleted", ErrTorn, key, d.Deleted[i])
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
				return fmt.Errorf("%w: %s", ErrTorn, what)
			}
		}
	}
	return nil
}

// verifyOrder checks that no commit is lost that had returned when one that is there began.
func verifyOrder(histories []*history, at span) error {
	var latest step
	for i, h := range histories {
		if n := at.least[i]; n > 0 && (latest.commit == nil || h.steps[n-1].id > latest.id) {
			latest = h.steps[n-1]
		}
	}
	for i, h := range histories {
		if latest.commit == nil || at.most[i] == len(h.steps) {
			continue
		}
		lost := h.steps[at.most[i]]
		if ended := lost.ended.Load(); ended != 0 && ended < latest.id {
			return fmt.Errorf("%w: %s is not there, and %s, which began later, is", ErrTorn, lost.what, latest.what)
		}
	}
	return nil
}

// sweptSize returns the number of keys when those that have expired are removed. Sweep leaves a key whose lock is taken, as it is
// for a moment when an object is closed to save memory.
func sweptSize(db *kv.DB) (size uint64, err error) {
	for left := 1; left > 0; runtime.Gosched() {
		for more := true; more; {
			if more, err = db.Sweep(background); err != nil {
				return 0, err
			}
		}
		m, err := db.Metrics()
		if err != nil {
			return 0, err
		}
		left = m.ExpiryBacklog
	}
	return db.Size()
}

// WriteAndForget writes to a store and leaves no trace.
func WriteAndForget(db *kv.DB) error {
	f := bloomext.New(db, "after")
	if err := f.Reserve(bloomConfig(db, 10, 0)); err != nil {
		return err
	}
	added, err := f.Add([]byte("x"))
	if err = errors.Join(err, expect(added, "a new filter has an item")); err != nil {
		return err
	}
	_, err = db.Delete(kv.Always, []byte("after"))
	return err
}

// RefusesAll checks that a failed store answers nothing.
func RefusesAll(db *kv.DB) error {
	f := bloomext.New(db, "w0/0")
	var errs []error
	refused := func(what string, err error) {
		if !errors.Is(err, kv.ErrFailed) {
			errs = append(errs, fmt.Errorf("%s in a failed store: %w", what, err))
		}
	}
	_, err := f.Add([]byte("x"))
	refused("add", err)
	present, err := f.MayContain([]byte("x"))
	refused("lookup", err)
	errs = append(errs, expect(present, "an error reads as absent"))
	_, err = f.Info()
	refused("info", err)
	c := cuckooext.New(db, "w0/0")
	_, err = c.Add([]byte("x"))
	refused("add", err)
	present, err = c.MayContain([]byte("x"))
	refused("lookup", err)
	errs = append(errs, expect(present, "an error reads as absent"))
	_, err = c.Delete([]byte("x"))
	refused("deletion of an item", err)
	_, err = c.Count([]byte("x"))
	refused("count", err)
	refused("compaction", c.Compact())
	n := countingext.New(db, "w0/0")
	_, err = n.Add([]byte("x"))
	refused("add", err)
	present, err = n.MayContain([]byte("x"))
	refused("lookup", err)
	errs = append(errs, expect(present, "an error reads as absent"))
	_, err = n.Delete([]byte("x"))
	refused("deletion of an item", err)
	_, err = n.Count([]byte("x"))
	refused("count", err)
	_, err = db.Delete(kv.NoSync, []byte("w0/0"))
	refused("delete", err)
	_, err = db.Exists([]byte("w0/0"))
	refused("exists", err)
	_, err = db.Check(background)
	refused("check", err)
	refused("sync", db.Sync())
	return errors.Join(errs...)
}
