package freeze

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options configure NewSpace. The zero value watches nothing and keeps no ballast.
type Options struct {
	// Ballast is the size of the ballast file, in bytes. It should hold what Pebble still writes after writers have
	// stopped, above all its memtables. 0 means no ballast.
	Ballast int64

	// Wanted, if set, returns how much of the ballast is enough for now, in bytes. When that grows the ballast is
	// made larger. Wanted is called at every look at the free space, and must not wait for anything.
	Wanted func() int64

	// Low is the free space, in bytes, below which Full becomes true. 0 means never.
	Low uint64

	// High is the free space, in bytes, above which Full becomes false again. It is raised to Low if it is less. The
	// distance between the two keeps Full from flapping.
	High uint64

	// Floor is the free space, in bytes, below which Exhausted is true once the ballast is gone. It should leave room
	// for the log of the writes that are accepted between two looks. 0 means never.
	Floor uint64

	// Interval is the time between two looks at the free space. 0 means one second.
	Interval time.Duration

	// Logger gets a line when the disk becomes full or has room again, when the ballast is removed or cannot be made,
	// and when the free space cannot be read. nil means no lines.
	Logger *slog.Logger
}

// ballastPause is how many looks pass after a failed attempt to make the ballast before the next attempt. Only looks
// that see enough room count. An attempt may write most of the ballast.
const ballastPause = 60

// Space watches the free space of the file system that a store is on. Pebble needs this because it does not stop when
// the disk is full: it repeats failing flushes and compactions without a pause, lets writers hang, and dies if a
// write to the log fails.
//
// Space does not refuse writes itself: writers ask Full first. When a write meets ENOSPC in spite of that, Space
// removes the ballast, and Pebble's write is repeated once. Readers and flushes then have the ballast's room until
// the writers have stopped. A failed sync is not repeated, since the data that it was to write may be lost.
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
	total     atomic.Uint64 // of the file system, at the last look

	struck  chan struct{} // tells the watcher of an ENOSPC; of capacity 1
	stop    chan struct{}
	stopped sync.Once
	watcher sync.WaitGroup

	// Only Start uses the rest, and then only the watcher.

	pause   int   // looks that must pass before the next attempt to make the ballast
	failure error // of the last attempt to make the ballast; it was logged
	blind   bool  // the free space cannot be read; that was logged
}

// NewSpace returns a Space for the store in directory dir of base, the real file system. It touches no file before
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
		ballast: ballast{fs: base, path: base.PathJoin(dir, BallastName), most: opts.Ballast, wanted: opts.Wanted},
		struck:  make(chan struct{}, 1),
		stop:    make(chan struct{}),
	}
	s.fs = vfs.OnDiskFull(base, s.diskFull)
	return s
}

// FS returns the file system to stack FS on. It is base, except that when a write meets ENOSPC the ballast is removed
// and the write repeated.
func (s *Space) FS() vfs.FS { return s.fs }

// Start makes the ballast and begins to watch. It is called once, when the directory exists and is locked: only the
// process that owns the store may touch its ballast. It should be called before pebble.Open, which may need the
// ballast. What goes wrong here is no error, but is logged. When Start has returned, Full tells the truth. If the
// file system cannot tell its free space, nothing is watched and Full stays false.
func (s *Space) Start() {
	if err := s.ballast.adopt(); err != nil {
		s.log.Warn("sievekv: the reserve of an earlier process cannot be removed", "error", err)
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

// Measure takes the place of Start in a process that only reads: it finds out how large the ballast is.
func (s *Space) Measure() {
	if info, err := s.base.Stat(s.ballast.path); err == nil {
		s.ballast.size.Store(info.Size())
	}
}

// Full reports whether the disk is so full that writes should be refused. It is one atomic load.
func (s *Space) Full() bool { return s.full.Load() }

// Exhausted reports whether there is so little room, the ballast included, that even writes which make room should be
// refused. Full is true then as well. It is one atomic load.
func (s *Space) Exhausted() bool { return s.exhausted.Load() }

// Free returns the free space, in bytes, at the last look. It is one atomic load.
func (s *Space) Free() uint64 { return s.free.Load() }

// Total returns the size of the file system, in bytes, at the last look.
func (s *Space) Total() uint64 { return s.total.Load() }

// Enough returns above which free space, in bytes, Full becomes false again: Options.High, with room for a ballast if there
// is none.
func (s *Space) Enough() uint64 {
	if s.ballast.size.Load() == 0 {
		return s.opts.High + uint64(s.ballast.want())
	}
	return s.opts.High
}

// TooSmall reports whether the whole file system has too little space for Full to become false again.
func (s *Space) TooSmall() bool { return s.Full() && s.Total() <= s.Enough() }

// Ballast returns the size, in bytes, of the ballast that is on the disk. It is one atomic load.
func (s *Space) Ballast() int64 { return s.ballast.size.Load() }

// Shrink makes the ballast as small as Options.Wanted says. It does nothing while the disk is full.
func (s *Space) Shrink() {
	if s.Full() || s.ballast.size.Load() <= s.ballast.want() {
		return
	}
	if err := s.ballast.create(s.stop); err != nil && !errors.Is(err, errInterrupted) {
		s.log.Warn("sievekv: the reserve cannot be made smaller", "bytes", s.ballast.want(), "error", err)
	}
}

// Close stops the watcher and waits until it has ended. The ballast stays for the next process. Full keeps its last
// answer.
func (s *Space) Close() {
	s.stopped.Do(func() { close(s.stop) })
	s.watcher.Wait()
}

// diskFull is called by vfs.OnDiskFull when a write has met ENOSPC. All writes wait for it.
func (s *Space) diskFull() {
	removed, err := s.ballast.release()
	switch {
	case err != nil:
		s.log.Warn("sievekv: the disk is full and the reserve cannot be removed", "error", err)
	case removed > 0:
		s.log.Warn("sievekv: the disk is full, the reserve was removed", "bytes", removed)
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
			// This does not call check. That could find that the room just made is enough for a new ballast, and take
			// it from the write that is being repeated.
			s.refuseIfLow()
		}
	}
}

// check looks at the free space. It makes the ballast if it can, and accepts writes again if there is room.
func (s *Space) check() {
	free, low := s.refuseIfLow()
	if low || free <= s.opts.High || !s.ensureBallast(free) {
		return
	}
	if s.full.CompareAndSwap(true, false) {
		s.log.Warn("sievekv: the disk has room again, writes are accepted", "free", free, "high", s.opts.High)
	}
}

// refuseIfLow reads the free space, and makes Full true if it is below Low. If the free space cannot be read it
// reports low, and changes nothing.
func (s *Space) refuseIfLow() (free uint64, low bool) {
	usage, err := s.base.GetDiskUsage(s.dir)
	if err != nil {
		if !s.blind {
			s.blind = true
			s.log.Warn("sievekv: the free disk space cannot be read", "error", err)
		}
		return 0, true
	}
	s.blind = false
	s.free.Store(usage.AvailBytes)
	s.total.Store(usage.TotalBytes)
	floor := min(s.opts.Floor, s.opts.Low)
	if want := s.ballast.want(); want > 0 {
		floor = min(floor, uint64(want)/2) // so that removing even a small ballast leaves room for some writes
	}
	s.exhausted.Store(usage.AvailBytes < floor && s.ballast.size.Load() == 0)
	if usage.AvailBytes >= s.opts.Low {
		return usage.AvailBytes, false
	}
	if s.full.CompareAndSwap(false, true) {
		s.log.Warn("sievekv: the disk is almost full, writes are refused", "free", usage.AvailBytes, "low", s.opts.Low)
	}
	return usage.AvailBytes, true
}

// ensureBallast makes the ballast if it is missing and there is room for it above High. It reports whether writes may
// go on. If the ballast is missing for another reason than lack of space, they may: a file name that is taken must
// not stop a store for ever.
func (s *Space) ensureBallast(free uint64) bool {
	if !s.ballast.missing() {
		return true
	}
	if free-s.opts.High <= uint64(s.ballast.want()) {
		return s.ballast.size.Load() > 0 // a ballast that is too small will do until there is room
	}
	if s.pause > 0 {
		s.pause--
		return !vfs.IsNoSpaceError(s.failure)
	}
	return s.makeBallast()
}

// makeBallast makes the ballast, and reports whether writes may go on, as ensureBallast does.
func (s *Space) makeBallast() bool {
	err := s.ballast.create(s.stop)
	if errors.Is(err, errInterrupted) {
		return false
	}
	if err != nil {
		s.pause = ballastPause
		if s.failure == nil {
			s.log.Warn("sievekv: the reserve cannot be made", "bytes", s.ballast.want(), "error", err)
		}
	}
	s.failure = err
	return !vfs.IsNoSpaceError(err)
}
