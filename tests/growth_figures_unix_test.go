//go:build unix

package tests_test

import (
	"flag"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
)

var growthItems = flag.Uint64("growthitems", 100_000, "items of each filter in TestGrowth_figures")

// TestGrowth_figures prints what a filter costs that was made for 100 items at 1 % and grows, by single adds, by
// batches and as kvshell load adds lines, with a log and without one, and fails if that is more than is promised. The
// figures of docs/GROWTH.md come from
//
//	go test ./tests -run TestGrowth_figures -growthitems 1000000 -v
func TestGrowth_figures(t *testing.T) {
	for _, way := range []growthWay{{"single adds", 1, addOne}, {"batches of 1000", 1000, addBatch}, {"load", loadLines, loadCommit}} {
		for _, log := range []string{"0", "67108864"} {
			t.Run(fmt.Sprintf("%s, log of at most %s bytes", way.name, log), func(t *testing.T) { growthFigures(t, way, log) })
		}
	}
}

// growthWay is a way of adding items, at most the given number at a time.
type growthWay struct {
	name string
	most uint64
	add  func(f *bloomext.Filter, db *kv.DB, from, to uint64) error
}

func addOne(f *bloomext.Filter, _ *kv.DB, from, _ uint64) error {
	_, err := f.Add(scalableext.Uint64(from))
	return err
}

func addBatch(f *bloomext.Filter, _ *kv.DB, from, to uint64) error {
	list := make([]uint64, to-from)
	for i := range list {
		list[i] = from + uint64(i)
	}
	_, err := f.AddMany(scalableext.Uint64s(list...), nil)
	return err
}

// loadLines is the most lines that kvshell load reads before it makes a commit. If they do not all fit, it makes several.
const loadLines = 1 << 18

func loadCommit(f *bloomext.Filter, db *kv.DB, from, to uint64) error {
	lines := make([][]byte, to-from)
	for i := range lines {
		b := scalableext.Uint64(from + uint64(i))
		lines[i] = b[:]
	}
	for len(lines) > 0 {
		n := 0
		if err := db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) (err error) {
			n, err = f.AddFitting(w, lines, make([]bool, len(lines)), 1)
			return err
		}); err != nil {
			return err
		}
		f.Added(n)
		lines = lines[n:]
	}
	return nil
}

// cpuTime returns the time that the processors have worked for this process.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func growthFigures(t *testing.T, way growthWay, log string) {
	const points, asked, rate = 100, 20_000, 0.01
	o := &kv.Options{BallastSize: -1, MinFreeSpace: -1, Durability: kv.NoSync, CacheSize: 256 << 20, Modules: coreext.With(bloomext.Module(), compaction.Module())}
	db := open(t, t.TempDir(), o)
	must(t, module.Of(db).SetSetting("growth-log-bytes", log))
	f := bloomext.New(db, "f")
	must(t, f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: rate}))
	items := *growthItems
	var sum, resident, worst float64
	var took []time.Duration
	layers, all, worked := 0, time.Duration(0), time.Duration(0)
	for n := uint64(0); n < items; {
		to := min(items, n+items/points)
		cpu := cpuTime(t)
		for n < to {
			next := min(to, n+way.most)
			begin := time.Now()
			must(t, way.add(f, db, n, next))
			took = append(took, time.Since(begin))
			all += took[len(took)-1]
			n = next
		}
		worked += cpuTime(t) - cpu
		info, err := f.Info()
		must(t, err)
		sum += float64(info.Bytes) * 8 / float64(n) / points
		resident += float64(info.ResidentBytes) * 8 / float64(n) / points
		layers = max(layers, len(info.Layers))
		absent, present := make([]uint64, asked), make([]bool, asked)
		for i := range absent {
			absent[i] = 1<<50 + uint64(i)
		}
		must(t, f.MayContainMany(scalableext.Uint64s(absent...), present))
		found := 0
		for _, p := range present {
			if p {
				found++
			}
		}
		worst = max(worst, float64(found)/asked)
	}
	before, err := db.LogBytesWritten()
	must(t, err)
	for {
		info, err := f.Info()
		must(t, err)
		if info.Filling == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	after, err := f.Info()
	must(t, err)
	slices.Sort(took)
	worked /= time.Duration(items)
	room, cpu := after.Layers[len(after.Layers)-1], cpuTime(t)
	still := uint64(0) // adds during which the filter does not grow; none if the layer is nearly full already
	for ; still+1 < (room.Capacity-min(room.Capacity, room.Items))/2; still++ {
		_, err := f.Add(scalableext.Uint64(items + still))
		must(t, err)
	}
	calm := (cpuTime(t) - cpu) / time.Duration(max(still, 1))
	var x uint64 = 1
	begin := time.Now()
	const lookups = 1_000_000
	for range lookups {
		x = x*6364136223846793005 + 1442695040888963407
		_, _ = f.MayContain(scalableext.Uint64(x | 1<<60))
	}
	absent := time.Since(begin)
	t.Logf("%d items: %.1f bits an item on average, %.1f in memory, %.1f at the end in %d layers, %d at most; highest measured rate %.4f of %v",
		items, sum, resident, float64(after.Bytes)*8/float64(items), len(after.Layers), layers, worst, rate)
	t.Logf("an add takes %v on average, p99.9 %v, %v of the processors, %v while the filter does not grow; %.1f bytes in Pebble's log; a log of %d bytes, the filter takes %d on disk; an absent item %v",
		all/time.Duration(items), took[len(took)*999/1000], worked, calm, float64(before)/float64(items), after.LogBytes, after.DiskBytes, absent/lookups)
	if worst > rate*1.3 { // of 20,000 items
		t.Errorf("measured rate %v, asked for %v", worst, rate)
	}
	mostAtEnd := 14.0
	if after.GrowthLog == 0 { // the log has ended
		mostAtEnd = 20
	}
	if end := float64(after.Bytes) * 8 / float64(items); log != "0" && (end > mostAtEnd || sum > 16 || layers > 3) {
		t.Errorf("%.1f bits an item at the end, %.1f on average, %d layers, want at most %v, 16 and 3", end, sum, layers, mostAtEnd)
	}
}
