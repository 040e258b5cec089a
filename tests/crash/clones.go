package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// camera is a disk that takes shots of what a crash would leave of it.
type camera struct {
	disk *kvtest.Disk
	w    *workload // what goes on

	mu    sync.Mutex
	rng   *rand.Rand   // guarded by mu
	calls int          // guarded by mu
	at    map[int]bool // the calls before which a shot is taken; guarded by mu
	shots []*shot      // guarded by mu
}

func (c *camera) fs() vfs.FS {
	return &faultfs.FS{FS: c.disk, Before: func(s faultfs.Site, _ string) error {
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

// shootSeldom takes a shot one time in n.
func (c *camera) shootSeldom(taken string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rng.IntN(8) == 0 {
		c.take(taken)
	}
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
	s.now = c.w.now.Load()
	c.shots = append(c.shots, s)
}

// takeDuring takes n shots at random moments of a run of the given number of calls to the store.
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

const (
	workers      = 3
	actions      = 150 // of each worker between Open and Close
	shotsPerRun  = 20
	callsOfOpen  = 150 // of the file system, about
	callsOfClose = 25
)

// Clones crashes one store in memory again and again: it opens it on what the last crash has left, works, and crashes.
type Clones struct {
	rng   *rand.Rand
	disk  *kvtest.Disk
	start []contents
	now   int64
	taken map[string]int // shots verified, by phase
}

// firstMoment is the time at which workloads begin, in Unix milliseconds.
const firstMoment = 1_700_000_000_000

// NewClones returns a store that is not there yet.
func NewClones(rng *rand.Rand) (*Clones, error) {
	c := &Clones{rng: rng, disk: kvtest.NewDisk(), now: firstMoment, taken: make(map[string]int)}
	return c, faultfs.MakeDir(c.disk)
}

// Count returns how many crashes were verified: of stores, of opening what a crash had left, and so on.
func (c *Clones) Count() (n int) {
	for _, some := range c.taken {
		n += some
	}
	return n
}

// Round opens the store, works and closes it, crashes it all the while, and verifies what each crash left. It returns
// all that is wrong.
func (c *Clones) Round() error {
	cam := &camera{disk: c.disk, rng: rand.New(rand.NewPCG(c.rng.Uint64(), c.rng.Uint64()))}
	w := newWorkload(c.rng, workers, c.start, c.now)
	cam.w = w
	w.moment = cam.shootSeldom
	cam.plan(2, callsOfOpen)
	db, err := kv.Open(faultfs.StoreDir, w.options(cam.fs()))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	w.use(db)
	done := make(chan struct{})
	var taking sync.WaitGroup
	taking.Go(func() { cam.takeDuring(shotsPerRun, workers*actions, done) })
	w.run(actions)
	close(done)
	taking.Wait()
	cam.plan(2, callsOfClose)
	errs := []error{w.err(), db.Close()}
	next := c.rng.IntN(len(cam.shots))
	for i, s := range cam.shots {
		at, err := c.verify(w, s, 0)
		if err != nil {
			errs = append(errs, fmt.Errorf("shot %d of %d, %s, with %d %% of what was not synced: %w", i, len(cam.shots), s.taken, s.unsynced, err))
			continue
		}
		if i == next {
			c.disk, c.start, c.now = s.disk, nil, s.now
			for i, h := range w.histories() {
				c.start = append(c.start, h.state(at.least[i]).at(c.now))
			}
		}
	}
	return errors.Join(errs...)
}

// verify opens the store on a shot, as often crashing once more while it does, and writes to it.
func (c *Clones) verify(w *workload, s *shot, depth int) (at span, err error) {
	cam := &camera{disk: s.disk, w: w, rng: c.rng}
	if depth < 2 && c.rng.IntN(5) == 0 {
		cam.plan(1, callsOfOpen)
	}
	w.now.Store(s.now) // all that went on before has ended
	c.taken[fmt.Sprintf("depth %d", depth)]++
	db, err := kv.Open(faultfs.StoreDir, w.options(cam.fs()))
	if err != nil {
		return at, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	cam.plan(0, 1)
	at, err = w.verify(db, s.span)
	if err := errors.Join(err, WriteAndForget(db), db.Close()); err != nil {
		return at, err
	}
	if depth == 0 && c.rng.IntN(4) == 0 {
		if err := openAgain(w.options(s.disk)); err != nil {
			return at, err
		}
	}
	for _, again := range cam.shots {
		// Opening must not change what is there.
		again.span, again.now = at, s.now
		if _, err := c.verify(w, again, depth+1); err != nil {
			return at, fmt.Errorf("while that was opened, %s, with %d %%: %w", again.taken, again.unsynced, err)
		}
	}
	return at, nil
}

// openAgain opens the store twice more. What the first open after a crash writes must not make a later one fail.
func openAgain(o *kv.Options) error {
	for range 2 {
		db, err := kv.Open(faultfs.StoreDir, o)
		if err == nil {
			err = db.Close()
		}
		if err != nil {
			return fmt.Errorf("%w: opened once, not again: %w", ErrRefused, err)
		}
	}
	return nil
}
