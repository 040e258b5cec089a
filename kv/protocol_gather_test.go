package kv_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

func openGathered(t *testing.T) *store {
	t.Helper()
	return openGathering(t, kv.Gathering(inMemory()), newStops())
}

func openGatheredCrash(t *testing.T) *crashStore {
	t.Helper()
	held, mem := newStops(), kvtest.NewDisk()
	return &crashStore{openGathering(t, kv.Gathering(&kv.Options{FS: logFS{mem, held}}), held), mem}
}

// wantGathered checks that n commits are not in Pebble: else a test is about nothing.
func (s *store) wantGathered(n uint64) {
	s.t.Helper()
	if got := s.Gathered(); got != n {
		s.t.Fatalf("%d commits are gathered, want %d", got, n)
	}
}

// holdDrain begins to put what is gathered into Pebble, and holds that before it is there.
func (s *store) holdDrain() (draining *task, taken *stop) {
	s.t.Helper()
	taken = s.next("flush: taken")
	draining = s.begin(func() error { s.Drain(); return nil })
	draining.reaches(taken)
	return draining, taken
}

func (s *store) mustAdd(level kv.Durability, key, item string, want bool) {
	s.t.Helper()
	added, err := bloomext.New(s.DB, key).With(level).Add([]byte(item))
	s.must(err)
	if added != want {
		s.t.Errorf("adding %q: %t, want %t", item, added, want)
	}
}

func (s *store) wantItem(key, item string) {
	s.t.Helper()
	there, err := bloomext.New(s.DB, key).MayContain([]byte(item))
	s.must(err)
	if !there {
		s.t.Errorf("item %q is lost", item)
	}
}

// A block that is read has what is gathered, before it is put into Pebble, while it is, and
// after; and nobody waits for that.
func TestGather_load(t *testing.T) {
	s := openGathered(t)
	s.create("k")
	s.set("k", 1, 7)
	s.wantGathered(1)
	look := func(when string) {
		t.Helper()
		s.forget("k")
		if !s.has("k", 1, 7) {
			t.Errorf("%s a bit that is gathered is not seen", when)
		}
	}
	look("before it is in Pebble")
	applied := s.next("flush: applied")
	draining, taken := s.holdDrain()
	look("while it is put into Pebble")
	s.set("k", 1, 8)
	s.forget("k")
	if !s.has("k", 1, 7) || !s.has("k", 1, 8) {
		t.Error("bits of two gatherings are not seen")
	}
	taken.release()
	draining.reaches(applied)
	look("just when it is in Pebble")
	applied.release()
	draining.wait()
	s.wantGathered(1)
	look("when it is in Pebble")
	s.wantConsistent()
}

// A loader that has looked at what is gathered finds in Pebble what goes there meanwhile.
func TestGather_drainedWhileLoading(t *testing.T) {
	s := openGathered(t)
	s.create("k")
	s.set("k", 1, 7)
	s.forget("k")
	asked := s.next("load: pending")
	find := s.beginFind("k", 1, 7)
	find.reaches(asked)
	s.Drain()
	asked.release()
	find.wait()
	s.wantConsistent()
}

// A block that was read before a commit was gathered is not put in its way.
func TestGather_whileLoading(t *testing.T) {
	s := openGathered(t)
	s.create("k")
	s.set("k", 1, 7)
	s.Drain()
	w := s.stage(kv.NoSync, "k", 1, 8)
	s.forget("k")
	read := s.next("load: read")
	find := s.beginFind("k", 1, 7)
	find.reaches(read)
	s.must(w.Commit())
	s.wantGathered(1)
	read.release()
	find.wait()
	if !s.has("k", 1, 8) {
		t.Error("a bit that was gathered during a load is lost")
	}
	s.wantConsistent()
}

// An object that is opened has the counters of commits that are gathered, in whatever
// incarnation, before they are put into Pebble, while they are, and after.
func TestGather_open(t *testing.T) {
	s := openGathered(t)
	newFilter(t, s.DB, "f")
	items := 0
	add := func() {
		t.Helper()
		s.mustAdd(kv.NoSync, "f", fmt.Sprint("item ", items), true)
		items++
	}
	look := func(when string) {
		t.Helper()
		s.closeObject("f")
		info, err := bloomext.New(s.DB, "f").Info()
		s.must(err)
		if info.Items != uint64(items) {
			t.Errorf("%s %d items are counted, want %d", when, info.Items, items)
		}
	}
	add()
	s.wantGathered(1)
	look("gathered,")
	add()
	s.wantGathered(2)
	look("gathered in two incarnations,")
	draining, taken := s.holdDrain()
	look("going to Pebble,")
	add()
	look("gathered and going to Pebble,")
	taken.release()
	draining.wait()
	look("gathered and in Pebble,")

	s.closeObject("f")
	asked := s.next("open: pending")
	s.Drain()
	opening := s.begin(func() error { _, err := s.Lookup([]byte("f")); return err })
	opening.reaches(asked)
	asked.release()
	opening.wait()
	look("in Pebble,")
	s.wantConsistent()
}

// The counters of an object that are put into Pebble while it is opened are found there.
func TestGather_drainedWhileOpening(t *testing.T) {
	s := openGathered(t)
	newFilter(t, s.DB, "f")
	s.mustAdd(kv.NoSync, "f", "x", true)
	s.closeObject("f")
	w, err := s.Begin(kv.NoSync, []byte("f")) // nobody else opens it
	s.must(err)
	s.each("open: read", s.Drain) // after its counters were read
	_, err = w.Object([]byte("f"))
	s.must(err)
	w.Discard()
	s.wantConsistent()
}

// Folding a block does not write it over what was gathered of it.
func TestGather_fold(t *testing.T) {
	s := openGathered(t)
	s.create("k")
	s.collectOperands("k")
	s.set("k", 1, 200)
	s.wantGathered(1)
	read := s.next("fold: read")
	folding := s.begin(s.fold)
	folding.reaches(read)
	s.Drain()
	read.release()
	folding.wait()
	s.forget("k")
	if !s.has("k", 1, 200) {
		t.Error("a bit that was gathered is lost with the folding of its block")
	}
	s.wantConsistent()
}

// A view has what was gathered before it, and not what was after.
func TestGather_view(t *testing.T) {
	s := openGathered(t)
	newFilter(t, s.DB, "f")
	s.mustAdd(kv.NoSync, "f", "x", true)
	s.wantGathered(1)
	view, err := s.NewView(t.Context())
	s.must(err)
	defer view.Rollback()
	s.mustAdd(kv.NoSync, "f", "y", true)
	for range 2 { // from memory, then from the snapshot
		for item, want := range map[string]bool{"x": true, "y": false} {
			there, err := bloomext.New(s.DB, "f").In(view).MayContain([]byte(item))
			s.must(err)
			if there != want {
				t.Errorf("the view has %q: %t, want %t", item, there, want)
			}
		}
		info, err := bloomext.New(s.DB, "f").In(view).Info()
		s.must(err)
		if info.Items != 1 {
			t.Errorf("the view counts %d items, want 1", info.Items)
		}
		s.forget("f")
	}
}

// What is acknowledged under Always brings what it rests on to the disk, also if that is gathered.
func TestGather_acknowledge(t *testing.T) {
	tests := []struct {
		name string
		do   func(s *crashStore)
	}{
		{"item known", func(s *crashStore) {
			f := bloomext.New(s.DB, "f")
			there, err := f.MayContain([]byte("x")) // the handle finds the filter
			s.must(err)
			added, err := f.With(kv.Always).Add([]byte("x"))
			s.must(err)
			if !there || added {
				t.Errorf("an item that was added: %t, %t", there, added)
			}
		}},
		{"item known to an object opened since", func(s *crashStore) {
			s.closeObject("f")
			f := bloomext.New(s.DB, "f")
			_, err := f.MayContain([]byte("x"))
			s.must(err)
			s.wantGathered(1)
			_, err = f.With(kv.Always).Add([]byte("x"))
			s.must(err)
		}},
		{"filter full", func(s *crashStore) {
			if _, err := bloomext.New(s.DB, "f").With(kv.Always).Add([]byte("y")); !errors.Is(err, scalableext.ErrFull) {
				t.Errorf("adding to a full filter: %v", err)
			}
		}},
		{"key there", func(s *crashStore) {
			if err := bloomext.New(s.DB, "f").Reserve(bloomext.Config{Capacity: 1}); !errors.Is(err, kv.ErrExists) {
				t.Errorf("making a filter that is there: %v", err)
			}
		}},
		{"other key", func(s *crashStore) {
			_, err := s.Set(kv.Always, []byte("row"), []byte("x"), kv.SetOptions{})
			s.must(err)
		}},
		{"sync", func(s *crashStore) { s.must(s.Sync()) }},
		{"close", func(s *crashStore) { s.must(s.Close()) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := openGatheredCrash(t)
			s.must(bloomext.New(s.DB, "f").Reserve(bloomext.Config{Capacity: 1, ErrorRate: 0.01, NonScaling: true}))
			s.mustAdd(kv.NoSync, "f", "x", true)
			s.wantGathered(1)
			tt.do(s)
			after := s.crash()
			after.wantItem("f", "x")
			after.wantConsistent()
		})
	}
}

// Nothing of a removed object gets into Pebble after its removal.
func TestGather_remove(t *testing.T) {
	for name, remove := range map[string]func(s *store) error{
		"delete": func(s *store) error { _, err := s.Delete(kv.NoSync, []byte("f")); return err },
		"flush":  func(s *store) error { return s.DeleteAll(kv.NoSync) },
		"replace": func(s *store) error {
			_, err := s.Set(kv.NoSync, []byte("f"), nil, kv.SetOptions{})
			return err
		},
		"rename": func(s *store) error {
			newFilter(t, s.DB, "g")
			return s.Rename(kv.NoSync, []byte("g"), []byte("f"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openGathered(t)
			newFilter(t, s.DB, "f")
			s.mustAdd(kv.NoSync, "f", "x", true)
			s.wantGathered(1)
			s.must(remove(s))
			s.Drain()
			s.wantConsistent()
		})
	}
}

// A commit that no other follows gets into Pebble by itself.
func TestGather_byItself(t *testing.T) {
	s := openGathering(t, inMemory(), newStops())
	newFilter(t, s.DB, "f")
	for i := range 3 {
		s.mustAdd(kv.NoSync, "f", fmt.Sprint("item ", i), true)
		until(func() bool { return s.Gathered() == 0 })
	}
	s.wantConsistent()
}

// However many commits there are, of however many filters: few are gathered, and what they
// become is a batch that the smallest memtable takes.
func TestGather_many(t *testing.T) {
	o := inMemory()
	o.MemTableSize = 256 << 10
	s := openGathering(t, o, newStops())
	const filters, items = 50, 100
	most := uint64(0)
	for i := range filters {
		newFilter(t, s.DB, fmt.Sprint("f", i))
	}
	for i := range items {
		for j := range filters {
			s.mustAdd(kv.EverySec, fmt.Sprint("f", j), fmt.Sprintf("item %d.%d", i, j), true)
			most = max(most, s.Gathered())
		}
	}
	if most == 0 || most > 2*kv.MaxGathered {
		t.Errorf("%d commits were gathered at most, want 1 to %d", most, 2*kv.MaxGathered)
	}
	// Each into a block of its own, more or less.
	large := bloomext.New(s.DB, "large")
	s.must(large.Reserve(bloomext.Config{Capacity: 1e7, ErrorRate: 0.01}))
	for i := range 2000 {
		s.mustAdd(kv.NoSync, "large", fmt.Sprint("item ", i), true)
	}
	for i := range items {
		for j := range filters {
			s.wantItem(fmt.Sprint("f", j), fmt.Sprintf("item %d.%d", i, j))
		}
	}
	s.wantConsistent()
}

// Writers do not gather without end while what they gathered cannot be put into Pebble: they wait for it.
func TestGather_held(t *testing.T) {
	const each = 2 * kv.MaxGathered
	s := openGathered(t)
	var filters [2]*bloomext.Filter
	for i := range filters {
		filters[i] = bloomext.New(s.DB, fmt.Sprint("f", i))
		s.must(filters[i].Reserve(bloomext.Config{Capacity: 1e5, ErrorRate: 0.01}))
	}
	s.mustAdd(kv.NoSync, "f0", "first", true)
	draining, taken := s.holdDrain()
	var adding [2]*task
	for i, f := range filters {
		adding[i] = s.begin(func() error {
			for item := range uint64(each) {
				if _, err := f.Add(scalableext.Uint64(item)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	until(func() bool { return s.Gathered() > kv.MaxGathered })
	for range 10_000 {
		runtime.Gosched()
	}
	if n := s.Gathered(); n > 1+kv.MaxGathered {
		t.Errorf("%d commits are gathered, want %d at most", n, 1+kv.MaxGathered)
	}
	taken.release()
	draining.wait()
	for i, f := range filters {
		adding[i].wait()
		for item := range uint64(each) {
			if there, err := f.MayContain(scalableext.Uint64(item)); !there || err != nil {
				t.Fatalf("item %d of filter %d: %t, %v", item, i, there, err)
			}
		}
	}
	s.wantConsistent()
}

// The commit that completes a gathering finds nothing to do if somebody was faster.
func TestGather_drainedMeanwhile(t *testing.T) {
	s := openGathered(t)
	f := bloomext.New(s.DB, "f").With(kv.NoSync)
	s.must(f.Reserve(bloomext.Config{Capacity: 1e5, ErrorRate: 0.01}))
	for i := uint64(0); s.Gathered() < kv.ManyGathered-1; i++ {
		_, err := f.Add([]byte(fmt.Sprint("item ", i))) // one that seems known is no commit: the next one is
		s.must(err)
	}
	gathered := s.next("commit: applied")
	last := s.begin(func() error {
		_, err := bloomext.New(s.DB, "f").With(kv.NoSync).Add([]byte("last"))
		return err
	})
	last.reaches(gathered)
	s.Drain()
	s.wantGathered(0)
	gathered.release()
	last.wait()
	s.wantItem("f", "last")
	s.wantConsistent()
}

// A check sees what is gathered.
func TestGather_check(t *testing.T) {
	s := openGathered(t)
	newFilter(t, s.DB, "f")
	s.Drain()
	for i := range 10 {
		s.mustAdd(kv.NoSync, "f", fmt.Sprint("item ", i), true)
	}
	s.wantGathered(10)
	report, err := s.Check(t.Context())
	s.must(err)
	if len(report.Problems) > 0 || report.Blocks != 2 {
		t.Errorf("check of what is gathered: %+v, want two blocks, one of the log, and no problem", report)
	}
}

// A transaction reads what is gathered, also if it has to be read from Pebble.
func TestGather_transaction(t *testing.T) {
	s := openGathered(t)
	newFilter(t, s.DB, "f")
	s.mustAdd(kv.NoSync, "f", "x", true)
	s.wantGathered(1)
	tx, err := s.BeginExclusive(t.Context(), kv.NoSync)
	s.must(err)
	defer tx.Rollback()
	s.forget("f")
	added, err := bloomext.New(s.DB, "f").In(tx).Add([]byte("x"))
	s.must(err)
	if added {
		t.Error("a transaction does not know an item that is gathered")
	}
	s.must(tx.Commit())
	s.wantConsistent()
}
