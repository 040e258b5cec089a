package freeze

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options are the options of NewSpace. The zero value watches nothing and keeps no ballast.
type Options struct {
	// Ballast is the size of the ballast file in bytes. It should hold what Pebble still writes when writers have
	// stopped, above all its memtables. 0 means no ballast.
	Ballast int64

	// Wanted, if set, says how much of the ballast is enough for now, in bytes: it is made larger when that grows. It is
	// asked at every look, and must not wait for anything.
	Wanted func() int64

	// Low is the free space, in bytes, below which Full turns true. 0 means never.
	Low uint64

	// High is the free space, in bytes, above which Full turns false again. It is raised to Low if it is less; the
	// distance between the two keeps Full from flapping.
	High uint64

	// Floor is the free space, in bytes, below which Exhausted is true once the ballast is gone. It should leave room
	// for the log of what is accepted until then, between two looks. 0 means never.
	Floor uint64

	// Interval is the time between two looks at the free space. 0 means one second.
	Interval time.Duration

	// Logger gets one line whenever something changes: the disk becomes full, has room again, the ballast is removed,
	// cannot be made, the free space cannot be read. nil means none.
	Logger *slog.Logger
}

// ballastPause is how many looks that see enough room for the ballast pass before one that could not be made is tried
// again. An attempt may write most of it.
const ballastPause = 60

// Space watches the free space of the file system under a store. It exists because Pebble does not stop when the disk
// is full: it repeats failing flushes and compactions without pause, lets writers hang, and dies if the log is hit.
//
// Space refuses nothing itself: writers ask Full first. When a write meets ENOSPC in spite of that, the ballast
// is removed and Pebble's write is repeated once; readers and flushes then have that much room until writes have
// stopped. A failed sync is not repeated, since the data that it was to write may be lost.
type Space struct {
	opts    Options
	base    vfs.FS
	dir     string
	fs      vfs.FS
	log     *slog.Logger
	ballast ballast
	full    atomic.Bool

	exhausted atomic.Bool
	free      atomic.Uint64 // at the last look

	struck  chan struct{} // tells the watcher of an ENOSPC; holds one
	stop    chan struct{}
	stopped sync.Once
	watcher sync.WaitGroup

	// The rest belongs to Start, then to the watcher.

	pause   int   // looks to let pass before the ballast is tried again
	failure error // of the last attempt to make the ballast, which was logged, or nil
	blind   bool  // the free space could not be read, which was logged
}

// NewSpace returns a Space for the store in directory dir of base, the real file system. It touches nothing before
// Start.
func NewSpace(base vfs.FS, dir string, opts Options) *Space {
	opts.High = max(opts.High, opts.Low)
	if opts.Interval == 0 {
		opts.Interval = time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Space{
		opts:    opts,
		base:    base,
		dir:     dir,
		log:     opts.Logger.With("dir", dir),
		ballast: ballast{fs: base, path: base.PathJoin(dir, ballastName), most: opts.Ballast, wanted: opts.Wanted},
		struck:  make(chan struct{}, 1),
		stop:    make(chan struct{}),
	}
	s.fs = vfs.OnDiskFull(base, s.diskFull)
	return s
}

// FS returns the file system to stack FS on: base, with the ballast removed and the operation repeated when a write
// meets ENOSPC.
func (s *Space) FS() vfs.FS { return s.fs }

// Start makes the ballast and begins to watch. It is called once, when the directory exists and is locked, since a
// process that does not own the store must not touch its ballast, and best before pebble.Open, which may need it.
// Nothing that goes wrong here is an error; it is logged. When Start returns, Full tells the truth. If the file system
// cannot tell its free space, nothing is watched and Full stays false.
func (s *Space) Start() {
	if err := s.ballast.adopt(); err != nil {
		s.log.Warn("freeze: the ballast of an earlier process cannot be removed", "err", err)
	}
	if s.opts.Low == 0 && s.opts.Ballast == 0 {
		return
	}
	if _, err := s.base.GetDiskUsage(s.dir); errors.Is(err, vfs.ErrUnsupported) {
		if s.ballast.missing() {
			s.makeBallast()
		}
		return
	}
	s.check()
	s.watcher.Go(s.watch)
}

// Full reports whether the disk is so full that writes should be refused. It is one atomic load.
func (s *Space) Full() bool { return s.full.Load() }

// Exhausted reports whether there is so little room, the ballast included, that not even writes which make room should be
// accepted: Full is then true as well. It is one atomic load.
func (s *Space) Exhausted() bool { return s.exhausted.Load() }

// Free returns the free space, in bytes, at the last look. It is one atomic load.
func (s *Space) Free() uint64 { return s.free.Load() }

// Ballast returns the size, in bytes, of the ballast that is on the disk. It is one atomic load.
func (s *Space) Ballast() int64 { return s.ballast.size.Load() }

// Close stops watching and waits until the watcher has ended. The ballast stays for the next process. Full keeps its
// last answer.
func (s *Space) Close() {
	s.stopped.Do(func() { close(s.stop) })
	s.watcher.Wait()
}

// diskFull is called by vfs.OnDiskFull, while it holds up all writes, when one of them has met ENOSPC.
func (s *Space) diskFull() {
	removed, err := s.ballast.release()
	switch {
	case err != nil:
		s.log.Warn("freeze: the disk is full and the ballast cannot be removed", "err", err)
	case removed > 0:
		s.log.Warn("freeze: the disk is full, the ballast was removed", "bytes", removed)
	}
	select {
	case s.struck <- struct{}{}:
	default:
	}
}

func (s *Space) watch() {
	ticker := time.NewTicker(s.opts.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
			s.check()
		case <-s.struck:
			// Not check: it could find that the room just made is enough for a new ballast, and take it from the
			// write that is being repeated.
			s.refuseIfLow()
		}
	}
}

// check looks at the free space once.
func (s *Space) check() {
	free, low := s.refuseIfLow()
	if low || free <= s.opts.High || !s.ensureBallast(free) {
		return
	}
	if s.full.CompareAndSwap(true, false) {
		s.log.Info("freeze: the disk has room again, writes are accepted", "free", free, "high", s.opts.High)
	}
}

// refuseIfLow reads the free space and turns Full true if it is below the low mark. If it cannot be read it counts as
// low, which changes nothing.
func (s *Space) refuseIfLow() (free uint64, low bool) {
	usage, err := s.base.GetDiskUsage(s.dir)
	if err != nil {
		if !s.blind {
			s.blind = true
			s.log.Warn("freeze: the free disk space cannot be read", "err", err)
		}
		return 0, true
	}
	s.blind = false
	s.free.Store(usage.AvailBytes)
	floor := min(s.opts.Floor, s.opts.Low)
	if want := s.ballast.want(); want > 0 {
		floor = min(floor, uint64(want)/2) // the ballast alone has room for some
	}
	s.exhausted.Store(usage.AvailBytes < floor && s.ballast.size.Load() == 0)
	if usage.AvailBytes >= s.opts.Low {
		return usage.AvailBytes, false
	}
	if s.full.CompareAndSwap(false, true) {
		s.log.Warn("freeze: the disk is almost full, writes are refused", "free", usage.AvailBytes, "low", s.opts.Low)
	}
	return usage.AvailBytes, true
}

// ensureBallast makes the ballast if it is missing and leaves more than High free. It reports whether writes may go on,
// which they may without a ballast if space is not what it lacks: a name that is taken must not stop a store for ever.
func (s *Space) ensureBallast(free uint64) bool {
	if !s.ballast.missing() {
		return true
	}
	if free-s.opts.High <= uint64(s.ballast.want()) {
		return s.ballast.size.Load() > 0 // one that is too small will do until there is room
	}
	if s.pause > 0 {
		s.pause--
		return !vfs.IsNoSpaceError(s.failure)
	}
	return s.makeBallast()
}

// makeBallast makes the ballast and reports what ensureBallast does.
func (s *Space) makeBallast() bool {
	err := s.ballast.create(s.stop)
	if errors.Is(err, errInterrupted) {
		return false
	}
	if err != nil {
		s.pause = ballastPause
		if s.failure == nil {
			s.log.Warn("freeze: the ballast cannot be made", "bytes", s.ballast.want(), "err", err)
		}
	}
	s.failure = err
	return !vfs.IsNoSpaceError(err)
}
