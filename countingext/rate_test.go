package countingext_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// The measured rate is at most the one asked for, for filters of the right size and for chains, at every fill. The
// bound is five standard deviations of the hits above it.
func TestFilter_rate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		config countingext.Config
		to     int
		layers int // at the end
	}{
		{"1e-1", countingext.Config{Capacity: 20_000, ErrorRate: 0.1, NonScaling: true}, 20_000, 1},
		{"1e-2", countingext.Config{Capacity: 20_000, ErrorRate: 0.01, NonScaling: true}, 20_000, 1},
		{"1e-2 small", countingext.Config{Capacity: 100, ErrorRate: 0.01, NonScaling: true}, 100, 1},
		{"1e-3", countingext.Config{Capacity: 20_000, ErrorRate: 1e-3, NonScaling: true}, 20_000, 1},
		{"1e-4", countingext.Config{Capacity: 20_000, ErrorRate: 1e-4, NonScaling: true}, 20_000, 1},
		{"chain at 1e-1", countingext.Config{Capacity: 100, ErrorRate: 0.1}, 20_000, 8},
		{"chain at 1e-2", countingext.Config{Capacity: 100, ErrorRate: 0.01}, 20_000, 8},
		{"chain at 1e-2, expansion 1", countingext.Config{Capacity: 1000, ErrorRate: 0.01, Expansion: 1}, 20_000, 20},
		{"chain at 1e-3, expansion 4", countingext.Config{Capacity: 100, ErrorRate: 1e-3, Expansion: 4}, 20_000, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db := open(t, kv.Options{Seed: 1, Durability: kv.NoSync})
			f := countingext.New(db, "f")
			must(t, f.Reserve(tt.config))
			rate, done := tt.config.ErrorRate, 0
			items := itemsFrom("", 0, tt.to)
			asked := 200_000
			if raceEnabled {
				asked /= 10
			}
			for _, share := range []float64{0.25, 0.6, 1} {
				next := int(share * float64(tt.to))
				n := float64(next - done)
				if known := addMany(t, f, items[done:next]); float64(known) > n*rate+5*math.Sqrt(n*rate)+1 {
					t.Errorf("%d of %.0f new items seemed known", known, n)
				}
				done = next
				mustContain(t, f, items[:done])
				info, measured := infoOf(t, f), rateOf(t, f, asked)
				t.Logf("%d items: %d layers, %.1f counters per item, rate %.4g, by formula %.4g",
					done, len(info.Layers), 2*float64(info.Bytes)/float64(done), measured, info.ExpectedRate)
				if most := rate + 5*math.Sqrt(rate/float64(asked)); measured > most {
					t.Errorf("at %d items the rate is %.4g, above %g", done, measured, rate)
				}
				// For a filter of few blocks the formula of the mean is not exact.
				if info.ExpectedRate > 1.05*rate {
					t.Errorf("at %d items the rate by formula is %.4g, above %g", done, info.ExpectedRate, rate)
				}
				if off := math.Abs(float64(info.Distinct)/float64(done) - 1); off > 0.05 {
					t.Errorf("%d distinct items are estimated, %d were added", info.Distinct, done)
				}
			}
			if n := len(infoOf(t, f).Layers); n != tt.layers {
				t.Errorf("%d layers, want %d", n, tt.layers)
			}
			check(t, db)
		})
	}
}

// When half of the items are deleted, nothing of them is left: the others are present, and the rate is that of a
// filter that never had the deleted items.
func TestFilter_rateAfterDeletes(t *testing.T) {
	const capacity, rate = 20_000, 0.01
	db := open(t, kv.Options{Seed: 1, Durability: kv.NoSync})
	f := countingext.New(db, "f")
	must(t, f.Reserve(countingext.Config{Capacity: capacity, ErrorRate: rate, NonScaling: true}))
	items := itemsFrom("", 0, capacity)
	added := make([]bool, len(items))
	if _, err := f.AddMany(items, added); err != nil {
		t.Fatalf("AddMany = %v", err)
	}
	deleteMany(t, f, items[:capacity/2])
	rest := items[capacity/2:]
	mustContain(t, f, rest)
	layout, err := probe.SizeCounters(capacity, rate)
	must(t, err)
	const asked = 1_000_000
	want, got := layout.ExpectedRate(capacity/2), rateOf(t, f, asked)
	// Four standard deviations of the hits, and the 5 % by which single filters differ.
	if math.Abs(got-want) > 4*math.Sqrt(want/asked)+0.05*want {
		t.Errorf("the rate is %.4g, want %.4g", got, want)
	}
	info := infoOf(t, f)
	if info.Items != capacity/2 || info.DeletesKept != 0 || info.Stuck != 0 || math.Abs(info.ExpectedRate-want) > 0.05*want {
		t.Errorf("Info = %+v, want a rate of %.4g", info, want)
	}
	check(t, db)

	// As many new items as were deleted have room. Then only present items can be added.
	fresh := itemsFrom("fresh/", 0, capacity/2)
	addMany(t, f, fresh)
	if _, err := f.Add([]byte("one too many, and absent")); err == nil {
		t.Error("an item more than the capacity was added")
	}
	if absent, err := f.Add(rest[0]); absent || err != nil {
		t.Errorf("Add of an item that is there = %t, %v", absent, err)
	}
	deleteMany(t, f, append(append(rest, rest[0]), fresh...))
	if info := infoOf(t, f); info.Items != 0 || info.Fill != 0 || info.ExpectedRate != 0 {
		t.Errorf("after all is deleted: %+v", info)
	}
	check(t, db)
}

// In a chain some deletions are kept. What is left of the deleted items is not more than these.
func TestFilter_chainAfterDeletes(t *testing.T) {
	for _, expansion := range []uint32{1, 2} {
		t.Run(fmt.Sprint("expansion ", expansion), func(t *testing.T) {
			const rate, n = 0.05, 20_000
			db := open(t, kv.Options{Seed: 1, Durability: kv.NoSync})
			f := countingext.New(db, "f")
			must(t, f.Reserve(countingext.Config{Capacity: 1000, ErrorRate: rate, Expansion: expansion}))
			items := itemsFrom("", 0, n)
			addMany(t, f, items)
			full := infoOf(t, f)
			deleteMany(t, f, items[:n/2])
			mustContain(t, f, items[n/2:])
			half := infoOf(t, f)
			if half.Items != n/2 || half.Distinct > n/2+half.DeletesKept+n/100 || half.DeletesKept > n*rate {
				t.Errorf("%d items, %d distinct by estimate, %d deletions kept", half.Items, half.Distinct, half.DeletesKept)
			}
			if got := rateOf(t, f, 200_000); got > rate || half.ExpectedRate > full.ExpectedRate/2 {
				t.Errorf("the rate is %.4g, by formula %.4g, with all items %.4g", got, half.ExpectedRate, full.ExpectedRate)
			}
			// Room that deletions have made is used before the filter grows.
			addMany(t, f, itemsFrom("fresh/", 0, n/4))
			if info := infoOf(t, f); len(info.Layers) != len(full.Layers) {
				t.Errorf("the filter grew from %d layers to %d", len(full.Layers), len(info.Layers))
			}
			t.Logf("%d deletions kept", half.DeletesKept)
			check(t, db)
		})
	}
}

// A filter that does not grow has at most the rate asked for when it is full, also if items are added only when they
// are absent, and those that seem present do not count. The bound is four standard deviations of the hits.
func TestFilter_fullRate(t *testing.T) {
	for _, rate := range []float64{0.25, 0.1, 0.01} {
		for _, ifAbsent := range []bool{false, true} {
			t.Run(fmt.Sprintf("%g, if absent %t", rate, ifAbsent), func(t *testing.T) {
				t.Parallel()
				const capacity, asked = 20_000, 100_000
				db := open(t, kv.Options{Seed: 1, Durability: kv.NoSync})
				f := countingext.New(db, "f")
				must(t, f.Reserve(countingext.Config{Capacity: capacity, ErrorRate: rate, NonScaling: true}))
				n := 0
				for full := false; !full; {
					add := f.AddStaged
					if ifAbsent {
						add = f.AddIfAbsentStaged
					}
					items := itemsFrom("", n, n+200)
					added := make([]bool, len(items))
					must(t, db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error {
						m, err := add(w, items, added)
						if full = errors.Is(err, scalableext.ErrFull); full {
							err = nil
						}
						if slices.Contains(added[m:], true) {
							t.Errorf("items after the %dth of a batch, which had no room, are added", m)
						}
						n += m
						return err
					}))
				}
				mustContain(t, f, itemsFrom("", 0, n))
				if n < capacity {
					t.Errorf("full after %d items, want %d", n, capacity)
				}
				info, measured := infoOf(t, f), rateOf(t, f, asked)
				deviation := math.Sqrt(rate / asked)
				if measured > rate+4*deviation || math.Abs(measured-info.ExpectedRate) > 4*deviation+0.03*rate {
					t.Errorf("full after %d items at a rate of %.4g, by the counters %.4g, want at most %g", n, measured, info.ExpectedRate, rate)
				}
				check(t, db)
			})
		}
	}
}

// Filters that together hold three quarters of the items each was made for can be merged, whatever chance does, and an empty
// one can be merged into any. For 10,000 items so can those that hold nineteen of twenty, and a twentieth more than the
// capacity is refused.
func TestMerge_full(t *testing.T) {
	for _, config := range []countingext.Config{
		{Group: "g", Capacity: 100, ErrorRate: 0.05, NonScaling: true}, // has few counters to spare
		{Group: "g", Capacity: 1000, ErrorRate: 0.1},
		{Group: "g", Capacity: 10_000, ErrorRate: 0.01, NonScaling: true},
	} {
		db := open(t, kv.Options{Durability: kv.NoSync})
		reserve := func(key string, i int) *countingext.Filter {
			f := countingext.New(db, fmt.Sprint(key, i))
			must(t, f.Reserve(config))
			return f
		}
		capacity, empty := int(config.Capacity), reserve("empty", 0)
		for i := range 60 {
			if capacity == 10_000 && i == 5 {
				break
			}
			c, d, prefix := reserve("c", i), reserve("d", i), fmt.Sprint(i, "/")
			addMany(t, c, itemsFrom(prefix, 0, capacity/2))
			most := capacity * 3 / 4
			if capacity == 10_000 {
				most = capacity * 19 / 20
			}
			addMany(t, d, itemsFrom(prefix, capacity/2, most))
			must(t, c.Merge(t.Context(), d))
			must(t, c.Merge(t.Context(), empty))
			mustContain(t, c, itemsFrom(prefix, 0, most))
			if capacity == 10_000 {
				more := reserve("more", i)
				addMany(t, more, itemsFrom(prefix, most, capacity*21/20))
				if err := c.Merge(t.Context(), more); !errors.Is(err, scalableext.ErrRate) {
					t.Errorf("Merge of a twentieth more than the capacity = %v, want scalableext.ErrRate", err)
				}
			}
		}
		check(t, db)
	}
}

// Ids that come and go leave nothing behind, although ids of a filter that has grown seem to be in several layers:
// after 500 operations for each id, deleted ids are found as seldom as ids never added. With an expansion of 1, where
// new items go to older layers too, deletions are kept, and Info says how many deleted ids seem to be present: to
// five standard deviations.
func TestFilter_idsThatComeBack(t *testing.T) {
	for _, expansion := range []uint32{1, 2, 4} {
		t.Run(fmt.Sprint("expansion ", expansion), func(t *testing.T) {
			t.Parallel()
			const rate, ids = 0.1, 600
			rounds := 1000
			if raceEnabled {
				rounds /= 10
			}
			db := open(t, kv.Options{Seed: 1, Durability: kv.NoSync})
			f := countingext.New(db, "f")
			must(t, f.Reserve(countingext.Config{Capacity: 50, ErrorRate: rate, Expansion: expansion}))
			absent, live := itemsFrom("id", 0, ids), [][]byte(nil)
			random := rand.New(rand.NewPCG(1, 1))
			shuffle := func(list [][]byte) {
				random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			}
			for range rounds {
				shuffle(absent)
				shuffle(live)
				come, gone := absent[:len(absent)/2], live[:len(live)/2]
				deleteMany(t, f, gone)
				addMany(t, f, come)
				absent, live = slices.Concat(absent[len(come):], gone), slices.Concat(live[len(gone):], come)
			}
			mustContain(t, f, live)
			present := make([]bool, len(absent))
			must(t, f.MayContainMany(absent, present))
			found := 0.0
			for _, p := range present {
				if p {
					found++
				}
			}
			info := infoOf(t, f)
			found /= float64(len(absent))
			t.Logf("%d layers; %.4g of deleted ids are found, by Info %.4g; %d deletions kept, %d adds left over of %d items",
				len(info.Layers), found, info.DeletedRate, info.DeletesKept, info.Leftover, info.Items)
			if ordered := expansion > 1; ordered != info.Ordered || ordered != (info.DeletesKept == 0) || ordered != (info.Leftover == 0) {
				t.Errorf("Info = %+v", info)
			}
			want := info.DeletedRate
			if off := math.Abs(found - want); off > 5*math.Sqrt(want/float64(len(absent)))+1/float64(len(absent)) {
				t.Errorf("%.4g of deleted ids are found, Info says %.4g", found, want)
			}
			if expansion > 1 && (want != info.ExpectedRate || len(info.Layers) > 5) {
				t.Errorf("%d layers, %.4g of deleted ids are expected, %.4g of others", len(info.Layers), want, info.ExpectedRate)
			}
			check(t, db)
		})
	}
}

// A filter that was merged, or has layers of a program that added new items to all of them, does not know which layer
// has an item: no deletion removes another item, though some are kept.
func TestFilter_mixedLayers(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 1))
		db := open(t, kv.Options{Durability: kv.NoSync, MaxFilterBytes: 4000})
		config := countingext.Config{Group: "g", Capacity: 20, ErrorRate: 0.25}
		if seed%2 == 1 {
			config.Expansion = 1
		}
		f, other := countingext.New(db, "f"), countingext.New(db, "other")
		must(t, f.Reserve(config))
		must(t, other.Reserve(config))
		copies := make(map[string]int)
		change := func(f *countingext.Filter, item []byte) {
			if copies[string(item)] > 0 && random.IntN(2) == 0 {
				deleted, err := f.Delete(item)
				must(t, err)
				if !deleted {
					t.Fatalf("seed %d: %s, there %d times, is not found by a deletion", seed, item, copies[string(item)])
				}
				copies[string(item)]--
				return
			}
			if _, err := f.Add(item); err == nil {
				copies[string(item)]++
			} else if !errors.Is(err, scalableext.ErrCannotGrow) {
				t.Fatal(err)
			}
		}
		for n := range 6000 {
			if n == 1000 {
				for _, item := range itemsFrom("other", 0, 30) {
					change(other, item)
				}
				if err := f.Merge(t.Context(), other); err != nil && !errors.Is(err, scalableext.ErrRate) {
					t.Fatal(err)
				} else if err != nil {
					for _, item := range itemsFrom("other", 0, 30) {
						delete(copies, string(item))
					}
				}
			}
			change(f, fmt.Appendf(nil, "%d", random.IntN(300)))
			if n%500 != 499 {
				continue
			}
			for item, want := range copies {
				if got, err := f.Count([]byte(item)); n >= 1000 && (err != nil || got < min(want, countingext.MaxCount)) {
					t.Fatalf("seed %d: %s is there %d times, Count = %d, %v", seed, item, want, got, err)
				}
			}
		}
		check(t, db)
	}
}

// A union of two filters that both have items is not ordered: items of one may seem to be in older layers that the
// other has filled. If only one has items, the union is ordered if that one is.
func TestMerge_ordered(t *testing.T) {
	db := open(t, kv.Options{Durability: kv.NoSync})
	config := countingext.Config{Group: "g", Capacity: 100, ErrorRate: 0.1}
	f, other, empty := countingext.New(db, "f"), countingext.New(db, "other"), countingext.New(db, "empty")
	for _, f := range []*countingext.Filter{f, other, empty} {
		must(t, f.Reserve(config))
	}
	items := itemsFrom("", 0, 200)
	addMany(t, f, items)
	deleteMany(t, f, items[:90])
	addMany(t, other, itemsFrom("other", 0, 20))
	must(t, f.Merge(t.Context(), empty))
	if info := infoOf(t, f); !info.Ordered || len(info.Layers) != 2 {
		t.Errorf("with an empty filter: %+v", info)
	}
	must(t, f.Merge(t.Context(), other))
	if infoOf(t, f).Ordered {
		t.Error("the union of two filters is ordered")
	}
	must(t, empty.Merge(t.Context(), f))
	if infoOf(t, empty).Ordered {
		t.Error("a copy of what is not ordered is")
	}
	check(t, db)
}

// firstLeft returns the number of items of a batch before the first that was not added.
func firstLeft(t *testing.T, err error) int {
	t.Helper()
	var left *scalableext.ItemError
	if !errors.As(err, &left) {
		t.Fatalf("%v does not tell the item", err)
	}
	return left.Item
}

// If there can be no further layer, deletions make room in older ones.
func TestFilter_room(t *testing.T) {
	db := open(t, kv.Options{Durability: kv.NoSync, MaxFilterBytes: 2500}) // two layers
	f := countingext.New(db, "f")
	must(t, f.Reserve(countingext.Config{Capacity: 100, ErrorRate: 0.1}))
	items, added := itemsFrom("", 0, 500), make([]bool, 500)
	_, err := f.AddMany(items, added)
	n := firstLeft(t, err)
	if !errors.Is(err, scalableext.ErrCannotGrow) || n < 300 {
		t.Fatalf("AddMany = %v after %d items", err, n)
	}
	if info := infoOf(t, f); len(info.Layers) != 2 || !info.Ordered {
		t.Fatalf("%+v", info)
	}
	deleteMany(t, f, items[:90]) // the older layer may have some of the items that were added after it was full
	addMany(t, f, items[n:n+40])
	mustContain(t, f, items[90:n+40])
	if info := infoOf(t, f); len(info.Layers) != 2 || info.Ordered {
		t.Errorf("%+v", info)
	}
	check(t, db)
}

// Items of older layers seem to be in the newest at its rate, and deleting them removes nothing there.
func TestFilter_deletesFromOldest(t *testing.T) {
	db := open(t, kv.Options{Durability: kv.NoSync, Seed: 1}) // many items of this seed seem to be in a newer layer, too
	f := countingext.New(db, "f")
	must(t, f.Reserve(countingext.Config{Capacity: 100, ErrorRate: 0.25, Expansion: 8})) // 0.0075 for each layer but the first
	items := itemsFrom("", 0, 7000)
	addMany(t, f, items)
	if info := infoOf(t, f); len(info.Layers) != 3 {
		t.Fatalf("%+v", info)
	}
	deleteMany(t, f, items[:2000])
	mustContain(t, f, items[2000:])
	// A present item is added once more in the layer that has it.
	addMany(t, f, items[2000:])
	deleteMany(t, f, items[2000:])
	mustContain(t, f, items[2000:])
	if info := infoOf(t, f); !info.Ordered || len(info.Layers) != 3 {
		t.Errorf("%+v", info)
	}
	check(t, db)
}
