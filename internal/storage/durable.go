package storage

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/internal/text"
)

// The durable watermark. Store.durable is a commit number: all commits up to it are on stable storage. A sync raises
// it, as follows.
//
//   - A shared sync reads the number of the last commit first, then flushes what is pending, then syncs the log.
//     Afterwards it raises the watermark to the number that it read. A number read later could belong to a commit
//     that the sync did not cover. Such a commit would be acknowledged although a crash can still take it back.
//   - The sync of one commit's own batch covers that commit, and all commits up to the last number before it began.
//     It raises the watermark to the commit's own number if no other commit got a number in between, else to the last
//     number before it began.
//
// In a group the group's log is synced, and applying commits raises the watermark, see group.go.
//
// Store.durableSeq says the same in Pebble's sequences: everything in the log up to it is on stable storage. The
// sidecar needs it.

// syncer lets all goroutines that wait for the disk share one sync. A round serves every goroutine that asks while
// the round before it is at the disk.
type syncer struct {
	mu      sync.Mutex
	running bool       // a round is at the disk, or about to go there; guarded by mu
	waiting *syncRound // the round that new callers join; guarded by mu
}

type syncRound struct {
	done chan struct{} // closed when err is set
	lead chan struct{} // gets one value if one of the waiters has to run the round
	err  error
}

// Await returns when a commit is on stable storage. The only error is ErrFailed: then the outcome is unknown.
func (s *Store) Await(r Receipt) error {
	if r.own != nil {
		defer func() { _ = r.own.Close() }() // releases memory, cannot fail
		begin := time.Now()
		if err := r.own.SyncWait(); err != nil {
			return s.Fail(text.After(err, "kv: sync of the log"))
		}
		s.stats.synced(begin)
		return s.synced(r.covered, r.last)
	}
	return s.awaitDurable(r.Number)
}

// Sync returns when every commit made before the call, pending or not, is on stable storage.
func (s *Store) Sync() error {
	if s.opts.ReadOnly {
		return nil
	}
	return s.awaitDurable(s.last.Load())
}

func (s *Store) awaitDurable(number uint64) error {
	if s.durable.Load() >= number {
		return s.failure()
	}
	s.pauseAt("durable: waiting")
	return s.shareSync()
}

// shareSync returns when every commit made before the call is on stable storage.
func (s *Store) shareSync() error {
	y := &s.syncer
	y.mu.Lock()
	if y.waiting == nil {
		y.waiting = &syncRound{done: make(chan struct{}), lead: make(chan struct{}, 1)}
	}
	r := y.waiting
	if !y.running {
		y.running, y.waiting = true, nil
		y.mu.Unlock()
		s.runRound(r)
		return r.err
	}
	y.mu.Unlock()
	select {
	case <-r.done:
	case <-r.lead:
		s.runRound(r)
	}
	return r.err
}

func (s *Store) runRound(r *syncRound) {
	r.err = s.syncLog()
	y := &s.syncer
	y.mu.Lock()
	if next := y.waiting; next != nil {
		y.waiting = nil
		next.lead <- struct{}{}
	} else {
		y.running = false
	}
	y.mu.Unlock()
	close(r.done)
}

// syncLog flushes what is pending and syncs Pebble's log.
func (s *Store) syncLog() error {
	if s.Group != nil {
		return s.Group.round()
	}
	number := s.last.Load() // before the flush, see above
	s.Flush()
	seq, err := s.syncDisk()
	if err != nil {
		return err
	}
	return s.synced(number, seq)
}

// syncDisk syncs Pebble's log, and returns the last sequence in it. It does so with a batch that holds a log record but no
// operation: Pebble does not sync for a batch that is quite empty.
func (s *Store) syncDisk() (seq uint64, err error) {
	b := s.disk.NewBatch()
	defer func() { _ = b.Close() }() // releases memory, cannot fail
	if err := b.LogData(nil, nil); err != nil {
		return 0, text.After(err, "kv: sync of the log")
	}
	begin := time.Now()
	if err := s.disk.Apply(b, pebble.Sync); err != nil {
		return 0, s.Fail(text.After(err, "kv: sync of the log"))
	}
	s.stats.synced(begin)
	return uint64(b.SeqNum()) - 1, s.failure()
}

// synced raises the watermarks after a sync that covered all commits up to number, and everything in the log up to
// seq. It raises nothing if the store has failed: then the sync did not reach the disk.
func (s *Store) synced(number, seq uint64) error {
	if err := s.failure(); err != nil {
		return err
	}
	Raise(&s.durable, number)
	Raise(&s.durableSeq, seq)
	return nil
}
