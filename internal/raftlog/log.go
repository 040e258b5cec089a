package raftlog

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sievekv/sievekv/internal/freeze"
)

// Options configure Open. The zero value has the defaults.
type Options struct {
	// FS is the file system. Default: the operating system's.
	FS vfs.FS

	// MustExist makes Open refuse a directory without a log, with ErrNotExist. Default: a log is made there.
	MustExist bool

	// MemTableSize is the size of a memtable of Pebble, in bytes. Up to four are in memory. About that many bytes of
	// truncated entries stay on the disk before they are given back. Default 16 MiB.
	MemTableSize int

	// Recent is how much of the newest entries is kept in memory, in bytes as Size counts them, so that sending and
	// applying them reads nothing. Default 8 MiB.
	Recent int64

	// Space says when the disk counts as full, and how large a reserve is kept; see freeze.Options. Default: never, and none.
	Space freeze.Options

	// Logger gets what Pebble has to say, and the error that ends the log. Default: nobody.
	Logger *slog.Logger

	// Failed, if set, is called once, with the error that ends the log, by the goroutine that met it. The goroutine may
	// hold locks of the log: Failed must not call the log, or wait for a goroutine that does.
	Failed func(error)
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.MemTableSize == 0 {
		o.MemTableSize = 16 << 20
	}
	if o.Recent == 0 {
		o.Recent = 8 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Log is an open log. Any goroutine may call its methods.
type Log struct {
	dir    string
	opts   Options
	space  *freeze.Space
	files  *freeze.FS
	lock   *pebble.Lock
	disk   *pebble.DB
	synced synced // only with writing held

	// writing is held by calls that change the log, from before they look at it until their sync has returned. It is taken
	// before mu.
	writing sync.Mutex

	// mu guards what follows. A call that holds writing also takes it for writing, and never holds it while it waits
	// for the disk. Readers hold it while they look at what follows and make their iterator, so that both are of one
	// moment.
	mu     sync.RWMutex
	state  state
	terms  terms
	recent recent
	marks  map[string][]byte

	// using is held for reading by every call that uses Pebble, and for writing to close it.
	using  sync.RWMutex
	closed bool // guarded by using

	failure atomic.Pointer[error]

	reclaiming reclaiming
}

// fail ends the log, and returns the error that ended it: err, or an earlier one.
func (l *Log) fail(err error) error {
	l.files.Freeze(err) // which calls frozen, once
	return *l.failure.Load()
}

// frozen is called when the directory is frozen, by fail or because an operation on a file failed.
func (l *Log) frozen(err error) {
	err = failedError{l.dir, err}
	l.failure.Store(&err)
	l.opts.Logger.Error("sievekv: the log of the group has failed", "dir", l.dir, "error", err)
	if l.opts.Failed != nil {
		l.opts.Failed(err)
	}
}

// failedError is ErrFailed with its cause.
type failedError struct {
	dir   string
	cause error
}

func (e failedError) Error() string   { return ErrFailed.Error() + ": " + e.dir + ": " + e.cause.Error() }
func (e failedError) Unwrap() []error { return []error{ErrFailed, e.cause} }

// Failed returns the error that ended the log, nil if it goes on. It is one atomic load.
func (l *Log) Failed() error {
	if err := l.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// use begins a call. If it returns nil the caller calls l.using.RUnlock at its end.
func (l *Log) use() error {
	l.using.RLock()
	err := l.Failed()
	if l.closed {
		err = ErrClosed
	}
	if err != nil {
		l.using.RUnlock()
	}
	return err
}

// Full reports whether the disk is so full that entries should be refused, though votes still have room: see
// Options.Space. It is one atomic load.
func (l *Log) Full() bool { return l.space.Full() }

// HardState returns the hard state, all zero if none was stored. The caller owns it. It is also known when the log has failed
// or is closed.
func (l *Log) HardState() *pb.HardState {
	l.mu.RLock()
	defer l.mu.RUnlock()
	hs := l.state.hard
	return &pb.HardState{Term: &hs.term, Vote: &hs.vote, Commit: &hs.commit}
}

// Installed returns what Installing has noted last, 0 if nothing. It is also known when the log has failed or is closed.
func (l *Log) Installed() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.state.installing
}

// FirstIndex implements raft.Storage: the index of the first entry, or of the next one if there is none.
func (l *Log) FirstIndex() (uint64, error) {
	s, err := l.current()
	return s.base.index + 1, err
}

// LastIndex implements raft.Storage: the index of the last entry, or of the base if there is none.
func (l *Log) LastIndex() (uint64, error) {
	s, err := l.current()
	return s.last.index, err
}

// Size returns the size of the entries, in bytes: their data, and 34 for each.
func (l *Log) Size() (uint64, error) {
	s, err := l.current()
	return s.last.position - s.base.position, err
}

// DiskSize returns how much room the log takes on the disk, in bytes, with truncated entries that are not given back
// yet, and logs of Pebble.
func (l *Log) DiskSize() (uint64, error) {
	if err := l.use(); err != nil {
		return 0, err
	}
	defer l.using.RUnlock()
	return l.disk.Metrics().DiskSpaceUsage(), nil
}

// current returns a copy of the state.
func (l *Log) current() (state, error) {
	if err := l.use(); err != nil {
		return state{}, err
	}
	defer l.using.RUnlock()
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.state, nil
}

// Close syncs what is not synced yet, unless the log has failed, and closes the log. It waits for calls under way. It
// returns the error of a log that has failed.
func (l *Log) Close() error {
	l.reclaiming.stop()
	err := l.Append(nil, nil, true)
	if err == ErrClosed {
		return nil
	}
	l.using.Lock()
	defer l.using.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	return l.closeAll(err)
}

// reclaiming is the goroutine that gives back truncated entries.
type reclaiming struct {
	wake    chan struct{} // of capacity 1
	ctx     context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	reclaimed atomic.Uint64 // position up to which everything was given back
}

func (r *reclaiming) stop() {
	r.end()
	r.running.Wait()
}
