package tests_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/kv"
)

// camera is a disk that takes shots of what a crash would leave of it.
type camera struct {
	disk *vfs.MemFS
	w    *workload // what goes on

	mu    sync.Mutex
	rng   *rand.Rand   // guarded by mu
	calls int          // guarded by mu
	at    map[int]bool // the calls before which a shot is taken; guarded by mu
	shots []*shot      // guarded by mu
}

func (c *camera) fs() vfs.FS {
	return &spyFS{FS: c.disk, before: func(s site, _ string) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.calls++
		if c.at[c.calls] {
			c.take(fmt.Sprintf("before call %d, %s", c.calls, s))
		}
		return nil
	}}
}

// plan has n shots taken before random ones of the next calls.
func (c *camera) plan(n, calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = make(map[int]bool)
	for range n {
		c.at[c.calls+1+c.rng.IntN(calls)] = true
	}
}

func (c *camera) shoot(taken string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.take(taken)
}

// take takes a shot. What must be in it is noted before, what may be after. The caller holds mu.
func (c *camera) take(taken string) {
	s := &shot{taken: taken}
	switch c.rng.IntN(4) {
	case 0:
		s.unsynced = 0
	case 1:
		s.unsynced = 100
	default:
		s.unsynced = c.rng.IntN(101)
	}
	for _, h := range c.w.histories() {
		s.least = append(s.least, int(h.acked.Load()))
	}
	s.disk = c.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: s.unsynced, RNG: c.rng})
	for _, h := range c.w.histories() {
		s.most = append(s.most, h.len())
	}
	c.shots = append(c.shots, s)
}

// takeDuring takes n shots at random moments of a run of so many calls to the store.
func (c *camera) takeDuring(n, calls int, done <-chan struct{}) {
	for _, m := range c.moments(n, calls) {
		for c.w.calls.Load() < m {
			select {
			case <-done:
				return
			default:
				runtime.Gosched()
			}
		}
		c.shoot(fmt.Sprintf("after %d calls", m))
	}
}

// moments returns n numbers of calls, in order.
func (c *camera) moments(n, calls int) []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	moments := make([]int64, n)
	for i := range moments {
		moments[i] = int64(c.rng.IntN(calls))
	}
	slices.Sort(moments)
	return moments
}

// crashOptions add what goes on in the background, under a level that every commit replaces by its own.
func crashOptions(fs vfs.FS) *kv.Options {
	opts := tinyOptions(fs)
	opts.Modules = append(opts.Modules, compaction.Module())
	return opts
}

const (
	workers      = 3
	actions      = 150 // of each worker between Open and Close
	shotsPerRun  = 20
	callsOfOpen  = 150 // of the file system, about
	callsOfClose = 25
)

// crasher crashes one store again and again: it opens it on what the last crash has left, works, and crashes.
type crasher struct {
	rng   *rand.Rand
	disk  *vfs.MemFS
	start []contents
	taken map[string]int // shots verified, by phase
}

// round opens the store, works and closes it, takes shots all the while, and verifies them.
func (c *crasher) round() error {
	cam := &camera{disk: c.disk, rng: rand.New(rand.NewPCG(c.rng.Uint64(), c.rng.Uint64()))}
	w := newWorkload(nil, c.rng, workers, c.start)
	cam.w = w
	cam.plan(2, callsOfOpen)
	db, err := kv.Open(storeDir, crashOptions(cam.fs()))
	if err != nil {
		return err
	}
	w.db = db
	done := make(chan struct{})
	var taking sync.WaitGroup
	taking.Go(func() { cam.takeDuring(shotsPerRun, workers*actions, done) })
	w.run(actions)
	close(done)
	taking.Wait()
	cam.plan(2, callsOfClose)
	if err := errors.Join(w.err(), db.Close()); err != nil {
		return err
	}
	next := c.rng.IntN(len(cam.shots))
	for i, s := range cam.shots {
		at, err := c.verify(w, s, 0)
		if err != nil {
			return fmt.Errorf("shot %d of %d, %s, with %d %% of what was not synced: %w", i, len(cam.shots), s.taken, s.unsynced, err)
		}
		if i == next {
			c.disk, c.start = s.disk, nil
			for i, h := range w.histories() {
				c.start = append(c.start, h.state(at.least[i]))
			}
		}
	}
	return nil
}

// verify opens the store on a shot, as often crashing once more while it does, and writes to it.
func (c *crasher) verify(w *workload, s *shot, depth int) (at span, err error) {
	cam := &camera{disk: s.disk, w: w, rng: c.rng}
	if depth < 2 && c.rng.IntN(5) == 0 {
		cam.plan(1, callsOfOpen)
	}
	db, err := kv.Open(storeDir, crashOptions(cam.fs()))
	if err != nil {
		return at, fmt.Errorf("open: %w", err)
	}
	cam.plan(0, 1)
	at, err = w.verify(db, s)
	err = errors.Join(err, writeAndForget(db), db.Close())
	c.taken[fmt.Sprintf("depth %d", depth)]++
	if err != nil {
		return at, err
	}
	for _, again := range cam.shots {
		// Opening must not change what is there.
		again.span = at
		if _, err := c.verify(w, again, depth+1); err != nil {
			return at, fmt.Errorf("while that was opened, %s, with %d %%: %w", again.taken, again.unsynced, err)
		}
	}
	return at, nil
}

// writeAndForget writes to a store and leaves no trace.
func writeAndForget(db *kv.DB) error {
	f := bloomext.New(db, "after")
	if err := f.Reserve(bloomext.Config{Capacity: 10, ErrorRate: rate}); err != nil {
		return err
	}
	added, err := f.AddString("x")
	if err = errors.Join(err, expect(added, "a new filter has an item")); err != nil {
		return err
	}
	_, err = db.Delete(kv.Always, []byte("after"))
	return err
}

// TestCrash_clones crashes stores at random points of a random workload, of opening and of closing, with any share of
// what was not synced. Opening always works, every acknowledged write is there, what else is there is a prefix of the
// commits, each whole, and a check of the store finds nothing.
func TestCrash_clones(t *testing.T) {
	shots := 2000
	if raceEnabled {
		shots = 150
	}
	const stores = 2
	for i := range stores {
		t.Run(fmt.Sprint("store ", i), func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			c := &crasher{rng: rand.New(rand.NewPCG(seed, uint64(i))), disk: vfs.NewCrashableMem(), taken: make(map[string]int)}
			makeDir(t, c.disk)
			total, rounds := 0, 0
			for ; total < shots/stores; rounds++ {
				if err := c.round(); err != nil {
					t.Fatalf("seed %d, round %d: %v", seed, rounds, err)
				}
				total = 0
				for _, n := range c.taken {
					total += n
				}
			}
			t.Logf("%d crashes in %d rounds: %v", total, rounds, c.taken)
		})
	}
}

// makeDir makes the store's directory, and has it survive a crash.
func makeDir(t *testing.T, fs vfs.FS) {
	t.Helper()
	must(t, fs.MkdirAll(storeDir, 0o755))
	for dir := storeDir; dir != "."; dir = fs.PathDir(dir) {
		d, err := fs.OpenDir(fs.PathDir(dir))
		must(t, err)
		must(t, errors.Join(d.Sync(), d.Close()))
	}
}
