package bloomext_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

// timed is a store with a clock that the test sets.
type timed struct {
	*kv.DB
	t     *testing.T
	clock *atomic.Int64

	during func() // runs when the time is asked for the next time
}

func openTimed(t *testing.T, o kv.Options) *timed {
	t.Helper()
	s := &timed{t: t, clock: new(atomic.Int64)}
	s.clock.Store(1_700_000_000_000)
	o.InMemory = true
	o.Clock = func() time.Time {
		if during := s.during; during != nil {
			s.during = nil
			during()
		}
		return time.UnixMilli(s.clock.Load())
	}
	s.DB = open(t, "", &o)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *timed) pass(d time.Duration) { s.clock.Add(d.Milliseconds()) }

func (s *timed) reserve(c bloomext.Config) *bloomext.Filter {
	s.t.Helper()
	f := bloomext.New(s.DB, "f")
	if err := f.Reserve(c); err != nil {
		s.t.Fatal(err)
	}
	return f
}

// adds adds items, and reports whether all were new or, with the other value, none.
func (s *timed) adds(f *bloomext.Filter, isNew bool, items ...string) {
	s.t.Helper()
	for _, item := range items {
		if got, err := f.Add([]byte(item)); got != isNew || err != nil {
			s.t.Fatalf("add of %q: new %t, %v, want %t", item, got, err, isNew)
		}
	}
}

func (s *timed) has(f *bloomext.Filter, item string, want bool) {
	s.t.Helper()
	one, err := f.MayContain([]byte(item))
	many := make([]bool, 1)
	merr := f.MayContainMany(scalableext.BytesOfAll([]string{item}), many)
	if one != want || many[0] != want || err != nil || merr != nil {
		s.t.Fatalf("%q: found %t and %t, want %t: %v", item, one, many[0], want, errors.Join(err, merr))
	}
}

// While a lookup is under way, an item is added again, to another slice, and the slice expires in which the lookup has seen it.
func TestWindow_addedMeanwhile(t *testing.T) {
	s := openTimed(t, kv.Options{})
	f := s.reserve(bloomext.Config{Capacity: 1000, ErrorRate: 1e-9, Window: 8 * time.Second, Slices: 8})
	s.adds(f, true, "a")
	s.has(f, "a", true)
	s.pass(9*time.Second - time.Millisecond)
	s.during = func() {
		s.adds(bloomext.New(s.DB, "f"), false, "a")
		s.pass(time.Millisecond)
	}
	s.has(f, "a", true)
	if s.during != nil {
		t.Error("nobody asked for the time")
	}
}

// An item is found until its slice expires, whether anybody writes or not, and an add of it keeps it.
func TestWindow(t *testing.T) {
	s := openTimed(t, kv.Options{})
	f := s.reserve(bloomext.Config{Capacity: 1000, ErrorRate: 1e-9, Window: 8 * time.Second})
	s.adds(f, true, "a") // the slice begins
	s.pass(time.Second - time.Millisecond)
	s.adds(f, true, "b") // the last moment at which it takes adds
	s.pass(time.Millisecond)
	s.adds(f, true, "c")  // the next slice
	s.has(f, "b", true)   // from now on the handle answers from memory, but not for adds
	s.adds(f, false, "b") // which has b from now on
	s.pass(8*time.Second - time.Millisecond)
	s.has(f, "a", true) // 9 s after its start less 1 ms
	s.pass(time.Millisecond)
	s.has(f, "a", false)
	s.has(f, "b", true)
	s.has(f, "c", true)
	s.pass(time.Second)
	s.has(f, "b", false)
	s.has(f, "c", false)
	s.adds(f, true, "b")
	if info, err := f.Info(); err != nil || len(info.Slices) != 1 || info.Items != 1 || info.Layers[0].Items != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	if o, err := s.Lookup([]byte("f")); err != nil || len(o.Layers()) != 1 {
		t.Errorf("%d layers are stored, want 1, %v", len(o.Layers()), err)
	}
}

// A batch is answered as single adds are: an item that only an older slice has is not new, and is kept.
func TestWindow_batch(t *testing.T) {
	s := openTimed(t, kv.Options{})
	f := s.reserve(bloomext.Config{Capacity: 100, ErrorRate: 1e-9, Window: 8 * time.Second})
	items := func(from, to int) (list []string) {
		for i := from; i < to; i++ {
			list = append(list, fmt.Sprint(i))
		}
		return list
	}
	add := func(from, to, want int) {
		t.Helper()
		added := make([]bool, to-from)
		n, err := f.AddMany(scalableext.BytesOfAll(items(from, to)), added)
		if n != want || err != nil {
			t.Fatalf("%d of the items %d to %d are new, want %d: %v", n, from, to, want, err)
		}
	}
	add(0, 1000, 1000) // the slice grows
	s.pass(time.Second)
	add(500, 1500, 500)
	s.pass(8 * time.Second)
	s.has(f, "499", false)
	s.has(f, "500", true)
	add(0, 1500, 500)
	info, err := f.Info()
	if err != nil || len(info.Slices) != 2 || info.Slices[0].Layers != 1 {
		t.Errorf("%+v, %v: the slice that follows one of 1000 items has room for as many", info.Slices, err)
	}
}

// A transaction adds and finds items by its own time, and a view looks at its own.
func TestWindow_transaction(t *testing.T) {
	s := openTimed(t, kv.Options{})
	f := s.reserve(bloomext.Config{Capacity: 100, ErrorRate: 1e-9, Window: 8 * time.Second})
	s.adds(f, true, "a")
	s.pass(time.Second)
	failed := errors.New("failed")
	err := s.Update(t.Context(), kv.NoSync, func(tx *kv.Transaction) error {
		in := f.In(tx)
		s.adds(in, false, "a") // begins a slice
		s.adds(in, true, "b")
		s.has(in, "b", true)
		return failed
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	s.has(f, "b", false)
	if info, err := f.Info(); err != nil || len(info.Slices) != 1 {
		t.Errorf("after the transaction was rolled back: %+v, %v", info.Slices, err)
	}
	err = s.View(t.Context(), func(v *kv.Transaction) error {
		in := f.In(v)
		s.pass(10 * time.Second)
		s.has(f, "a", false)
		s.adds(f, true, "c")
		s.has(in, "a", true)
		s.has(in, "c", false)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(t.Context(), kv.NoSync, func(tx *kv.Transaction) error {
		in := f.In(tx)
		s.adds(in, true, "d")
		s.pass(20 * time.Second)
		s.adds(in, false, "d")
		s.has(in, "d", true)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.has(f, "d", false) // it was added 20 seconds ago
}

// The slices that have expired are removed by the service, also while nobody uses the filter. Then nothing is left to do.
func TestWindow_unused(t *testing.T) {
	s := openTimed(t, kv.Options{})
	f := s.reserve(bloomext.Config{Capacity: 100_000, ErrorRate: 0.01, Window: 8 * time.Second})
	layers := func() int {
		t.Helper()
		o, err := s.Lookup([]byte("f"))
		if err != nil {
			t.Fatal(err)
		}
		return len(o.Layers())
	}
	wake := func() {
		t.Helper()
		if next, err := s.Wake(t.Context(), nil, 1<<20); next != nil || err != nil {
			t.Fatal(next, err)
		}
	}
	for range 3 {
		s.adds(f, true, fmt.Sprint("x", s.Now()))
		s.pass(time.Second)
	}
	if n := layers(); n != 3 {
		t.Fatalf("%d layers, want 3", n)
	}
	for i, want := range []int{3, 2, 1, 1} {
		if i == 0 {
			s.pass(6*time.Second - time.Millisecond)
		} else {
			s.pass(time.Second)
		}
		wake()
		if n := layers(); n != want {
			t.Fatalf("step %d: %d layers, want %d", i, n, want)
		}
	}
	o, err := s.Lookup([]byte("f"))
	if err != nil || o.Layers()[0].Counter(0) != 0 {
		t.Errorf("the layer that is left has %d items, %v", o.Layers()[0].Counter(0), err)
	}
	if info, err := f.Info(); err != nil || len(info.Slices) != 0 || info.Items != 0 || info.ExpectedRate != 0 {
		t.Errorf("%+v, %v", info, err)
	}
	commits, err := s.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	s.pass(time.Hour)
	wake()
	if now, err := s.Metrics(); err != nil || now.Commits != commits.Commits {
		t.Errorf("%d commits for a filter without items, %v", now.Commits-commits.Commits, err)
	}
	s.adds(f, true, "x")
	if report, err := s.Check(context.Background()); err != nil || len(report.Problems) > 0 {
		t.Error(report, err)
	}
}

// The note of a key that is renamed, copied or deleted goes with the filter.
func TestWindow_keys(t *testing.T) {
	s := openTimed(t, kv.Options{})
	f := s.reserve(bloomext.Config{Capacity: 100, ErrorRate: 1e-9, Window: 8 * time.Second})
	s.adds(f, true, "a")
	err := s.Write(kv.NoSync, [][]byte{[]byte("f"), []byte("g"), []byte("h")}, func(w *kv.Writer) error {
		if _, err := w.Copy(t.Context(), []byte("f"), []byte("h"), false); err != nil {
			return err
		}
		return w.Rename([]byte("f"), []byte("g"))
	})
	if err != nil {
		t.Fatal(err)
	}
	g, h := bloomext.New(s.DB, "g"), bloomext.New(s.DB, "h")
	s.pass(9*time.Second - time.Millisecond)
	s.has(g, "a", true)
	s.has(h, "a", true)
	s.pass(time.Millisecond)
	s.has(g, "a", false)
	s.has(h, "a", false)
	for range 2 {
		if _, err := s.Wake(t.Context(), nil, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []*bloomext.Filter{g, h} {
		info, err := f.Info()
		if err != nil || len(info.Layers) != 0 {
			t.Errorf("%+v, %v", info, err)
		}
	}
	if m, err := s.Metrics(); err != nil || m.Compactions < 2 {
		t.Errorf("%d filters were woken, want 2, %v", m.Compactions, err)
	}
}

// A dump is loaded with its slices, which expire when they would have, and are removed then.
func TestWindow_dump(t *testing.T) {
	s := openTimed(t, kv.Options{})
	f := s.reserve(bloomext.Config{Capacity: 100, ErrorRate: 1e-9, Window: 8 * time.Second})
	s.adds(f, true, "a")
	s.pass(time.Second)
	s.adds(f, true, "b")
	session := module.NewSession(s.DB)
	do := func(words ...string) []reply.Reply {
		t.Helper()
		args := make([][]byte, len(words))
		for i, word := range words {
			args[i] = []byte(word)
		}
		r := session.Do(t.Context(), args)
		if r.IsError() {
			t.Fatalf("%.50q: %v", words, r.Err())
		}
		if words[0] == "BF.LOADCHUNK" {
			return nil
		}
		return r.Elems()
	}
	for iter := "0"; ; {
		chunk := do("BF.SCANDUMP", "f", iter)
		if chunk[0].Int() == 0 {
			break
		}
		iter = fmt.Sprint(chunk[0].Int())
		do("BF.LOADCHUNK", "g", iter, string(chunk[1].Bytes()))
	}
	g := bloomext.New(s.DB, "g")
	if _, err := f.Drop(); err != nil {
		t.Fatal(err)
	}
	s.pass(8 * time.Second)
	s.has(g, "a", false)
	s.has(g, "b", true)
	before, err := s.Lookup([]byte("g"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Wake(t.Context(), nil, 1<<20); err != nil {
		t.Fatal(err)
	}
	after, err := s.Lookup([]byte("g"))
	if err != nil || len(before.Layers()) != 2 || len(after.Layers()) != 1 {
		t.Errorf("%d layers, then %d, want 2 and 1: %v", len(before.Layers()), len(after.Layers()), err)
	}
	s.has(g, "b", true)
}

// A clock that is set back forgets nothing early, and makes no more slices than there may be.
func TestWindow_clockBack(t *testing.T) {
	s := openTimed(t, kv.Options{})
	f := s.reserve(bloomext.Config{Capacity: 100, ErrorRate: 1e-9, Window: 8 * time.Second})
	s.adds(f, true, "a")
	s.pass(-time.Hour)
	s.has(f, "a", true)
	s.adds(f, true, "b")
	s.pass(time.Second)
	s.adds(f, true, "c")
	if info, err := f.Info(); err != nil || len(info.Slices) != 1 {
		t.Errorf("%+v, %v", info.Slices, err)
	}
	s.pass(8 * time.Second)
	for _, item := range []string{"a", "b", "c"} {
		s.has(f, item, true)
	}
	s.pass(time.Hour)
	s.has(f, "a", false)
	s.has(f, "c", false)
}

// With Last, at least the last items are found, and at most a slice more.
func TestWindow_last(t *testing.T) {
	for _, slices := range []int{2, 8, 32} {
		s := openTimed(t, kv.Options{})
		const last = 320
		c := bloomext.Config{Capacity: last, ErrorRate: 1e-9, Last: last, Slices: slices}
		f := s.reserve(c)
		if err := f.OpenOrReserve(c); err != nil {
			t.Fatal(err)
		}
		item := func(i int) string { return fmt.Sprint(i) }
		for i := range 5 * last {
			if i%100 < 50 {
				s.adds(f, true, item(i))
			} else if added := []bool{false}; i%100 == 50 {
				for j := range 50 {
					if _, err := f.AddMany(scalableext.BytesOfAll([]string{item(i + j)}), added); err != nil || !added[0] {
						t.Fatal(added, err)
					}
				}
			}
			if i%100 > 50 || i < 2*last || i%7 != 0 {
				continue
			}
			end := i
			if i%100 == 50 {
				end = i + 49
			}
			for j := range last {
				s.has(f, item(end-j), true)
			}
			for j := range last {
				s.has(f, item(end-last-last/slices-j), false)
			}
		}
	}
}

// The bounds of Last hold also if slices cannot have equal shares, after each add.
func TestWindow_lastShares(t *testing.T) {
	s := openTimed(t, kv.Options{})
	for _, c := range []struct{ last, slices int }{{2, 2}, {3, 2}, {8, 8}, {9, 8}, {15, 8}, {33, 32}, {63, 32}, {100, 8}, {100, 7}, {101, 32}} {
		key := fmt.Sprint(c)
		f := bloomext.New(s.DB, key)
		if err := f.Reserve(bloomext.Config{Capacity: uint64(c.last), ErrorRate: 1e-9, Last: uint64(c.last), Slices: c.slices}); err != nil {
			t.Fatal(err)
		}
		least, most := c.last, 0
		for i := range 4 * c.last {
			if added, err := f.Add(scalableext.Uint64(uint64(i))); err != nil || !added {
				t.Fatalf("%v: item %d: added %t, %v", c, i, added, err)
			}
			found := 0
			for found <= i {
				if there, err := f.MayContain(scalableext.Uint64(uint64(i - found))); err != nil {
					t.Fatal(err)
				} else if !there {
					break
				}
				found++
			}
			if most = max(most, found); i+1 >= c.last {
				least = min(least, found)
			}
		}
		if least < c.last || most > c.last+c.last/c.slices {
			t.Errorf("%v: the last %d to %d items are found, want %d to %d", c, least, most, c.last, c.last+c.last/c.slices)
		}
	}
}

// The rate is kept when all slices are full: Slices+1 of them, each with its share of the capacity.
func TestWindow_rate(t *testing.T) {
	for _, slices := range []int{2, 8, 32} {
		for _, rate := range []float64{0.1, 0.01, 0.001} {
			t.Run(fmt.Sprint(slices, rate), func(t *testing.T) {
				t.Parallel()
				s := openTimed(t, kv.Options{})
				const capacity = 32_000
				f := s.reserve(bloomext.Config{Capacity: capacity, ErrorRate: rate, Window: time.Duration(slices) * time.Second, Slices: slices})
				n := uint64(0)
				for range slices + 1 { // each is filled to its layer's capacity
					if _, err := f.Add(scalableext.Uint64(n)); err != nil { // it begins the slice
						t.Fatal(err)
					}
					info, err := f.Info()
					if err != nil {
						t.Fatal(err)
					}
					items := make([]uint64, info.Slices[len(info.Slices)-1].Capacity-1)
					for i := range items {
						n++
						items[i] = n
					}
					n++
					if _, err := f.AddMany(scalableext.Uint64s(items...), nil); err != nil {
						t.Fatal(err)
					}
					s.pass(time.Second)
				}
				s.pass(-time.Millisecond)
				info, err := f.Info()
				if err != nil || len(info.Slices) != slices+1 {
					t.Fatalf("%d slices, want %d: %v", len(info.Slices), slices+1, err)
				}
				asked, hits := make([]uint64, 200_000), 0
				for i := range asked {
					asked[i] = 1<<40 + uint64(i)
				}
				present := make([]bool, len(asked))
				if err := f.MayContainMany(scalableext.Uint64s(asked...), present); err != nil {
					t.Fatal(err)
				}
				for _, yes := range present {
					if yes {
						hits++
					}
				}
				measured := float64(hits) / float64(len(asked))
				t.Logf("rate %.6f of %g, expected %.6f; %.2f bits an item, %d layers", measured, rate, info.ExpectedRate, float64(8*info.Bytes)/float64(n), len(info.Layers))
				if measured > rate || info.ExpectedRate > rate {
					t.Errorf("rate %v and %v, want at most %v", measured, info.ExpectedRate, rate)
				}
			})
		}
	}
}

// Values out of range are refused by their names.
func TestWindow_config(t *testing.T) {
	s := openTimed(t, kv.Options{MaxFilterBytes: 1 << 20})
	f := bloomext.New(s.DB, "f")
	good := bloomext.Config{Capacity: 1000, ErrorRate: 0.01, Window: time.Hour}
	for _, tt := range []struct {
		want   string
		change func(c *bloomext.Config)
	}{
		{"slices are 1, want 2 to 32", func(c *bloomext.Config) { c.Slices = 1 }},
		{"slices are 33, want 2 to 32", func(c *bloomext.Config) { c.Slices = 33 }},
		{"slices are 8 without a window", func(c *bloomext.Config) { c.Window, c.Slices = 0, 8 }},
		{"window is 799ms, want 800ms", func(c *bloomext.Config) { c.Window = 799 * time.Millisecond }},
		{"window is -1s", func(c *bloomext.Config) { c.Window = -time.Second }},
		{"whole milliseconds", func(c *bloomext.Config) { c.Window += time.Microsecond }},
		{"window is 1h0m0s and last 1000", func(c *bloomext.Config) { c.Last = 1000 }},
		{"capacity is 1000 with last 999", func(c *bloomext.Config) { c.Window, c.Last = 0, 999 }},
		{"last is 7, want 8", func(c *bloomext.Config) { c.Window, c.Last, c.Capacity = 0, 7, 7 }},
		{"expansion is 4 with last 1000", func(c *bloomext.Config) { c.Window, c.Last, c.Expansion = 0, 1000, 4 }},
		{"does not grow", func(c *bloomext.Config) { c.NonScaling = true }},
		{"layout is compatible with a window", func(c *bloomext.Config) { c.Layout = 1 }},
		{"bits are 512 and hashes 0 with a window", func(c *bloomext.Config) { c.Bits = 512 }},
	} {
		c := good
		tt.change(&c)
		err := f.Reserve(c)
		if !errors.Is(err, scalableext.ErrConfig) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
		if _, perr := c.Planned(100); perr == nil || perr.Error() != err.Error() {
			t.Errorf("Planned: %v, want %v", perr, err)
		}
	}
	large := good
	large.Capacity = 1_000_000
	if err := f.Reserve(large); !errors.Is(err, kv.ErrTooLarge) {
		t.Error(err)
	}
	if err := f.Reserve(good); err != nil {
		t.Fatal(err)
	}
	other := good
	other.Slices = 4
	for _, c := range []bloomext.Config{other, {Capacity: 1000, ErrorRate: 0.01}} {
		if err := f.OpenOrReserve(c); !errors.Is(err, scalableext.ErrMismatch) || !strings.Contains(err.Error(), "window is 1h0m0s in 8 slices") {
			t.Errorf("%v", err)
		}
	}
	if err := f.OpenOrReserve(good); err != nil {
		t.Error(err)
	}
	if err := bloomext.New(s.DB, "plain").Merge(t.Context(), f); !errors.Is(err, scalableext.ErrUnequal) || !strings.Contains(err.Error(), "has a window") {
		t.Error(err)
	}
}

// A window with more items than its capacity is as planned, once all of its slices began behind one that had its share of them.
func TestPlanned_overfullWindow(t *testing.T) {
	for _, share := range []int{100, 113, 300, 1000} { // of a slice; made for 100
		s := openTimed(t, kv.Options{Durability: kv.NoSync, Seed: 1})
		c := bloomext.Config{Capacity: 800, ErrorRate: 1e-7, Window: 8 * time.Second, Slices: 8}
		f := s.reserve(c)
		for turn := range 20 {
			items := make([][]byte, share)
			for i := range items {
				items[i] = fmt.Appendf(nil, "%d of turn %d", i, turn)
			}
			if n, err := f.AddMany(items, nil); n != share || err != nil {
				t.Fatalf("AddMany = %d, %v, want %d", n, err, share)
			}
			if turn < 19 {
				s.pass(time.Second)
			}
		}
		planned, err := c.Planned(uint64(8 * share))
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if planned.Bytes != info.Bytes || len(planned.Slices) != len(info.Slices) || len(planned.Layers) != len(info.Layers) || planned.Items != info.Items {
			t.Fatalf("%d items in a slice: planned %d items in %d bytes, %d slices, %d layers, made %d in %d, %d, %d", share, planned.Items, planned.Bytes, len(planned.Slices),
				len(planned.Layers), info.Items, info.Bytes, len(info.Slices), len(info.Layers))
		}
		for i, p := range planned.Layers {
			if l := info.Layers[i]; p.Capacity != l.Capacity || p.Bits != l.Bits || p.Hashes != l.Hashes || p.Items != l.Items || p.ErrorRate != l.ErrorRate {
				t.Errorf("%d items in a slice: planned is a layer %+v, made %+v", share, p, l)
			}
		}
	}
}
