package storage

import (
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// The durable watermark: Store.durable is a number up to which all commits are on stable storage. It is raised after
// a sync, to the number that was the last one before what is pending was flushed and the sync was queued. Never to
// a number read later: that would count commits the sync did not cover, and acknowledge what a crash takes back.
// After the sync of one commit's own batch it is raised to that commit's number if no other number was given
// since the commit began, and else to the last number before it.
//
// Pebble's sequences go beside it: durableSeq is what the log is known to reach, for the sidecar.

// syncer lets everyone who waits for the disk share one sync. A round takes in
// all who ask while the round before it is at the disk.
type syncer struct {
	mu      sync.Mutex
	running bool       // a round is at the disk, or about to go there; guarded by mu
	waiting *syncRound // the round those asking now join; guarded by mu
}

type syncRound struct {
	done chan struct{} // closed when err is set
	lead chan struct{} // receives once, if a waiter has to run the round
	err  error
}

// Await returns when a commit is on stable storage. The only error is ErrFailed: then the outcome is unknown.
func (s *Store) Await(r Receipt) error {
	if r.own != nil {
		if err := r.own.SyncWait(); err != nil {
			return s.Fail(fmt.Errorf("kv: sync of the log: %w", err))
		}
		return s.synced(r.covered, r.last)
	}
	return s.awaitDurable(r.Number)
}

// Sync returns when every commit made before the call, pending or not, is on stable storage.
func (s *Store) Sync() error { return s.awaitDurable(s.last.Load()) }

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

// syncLog flushes what is pending and syncs Pebble's log, by a batch without operations: one that is
// empty altogether would not sync.
func (s *Store) syncLog() error {
	number := s.last.Load() // before the flush
	s.Flush()
	b := s.disk.NewBatch()
	defer func() { _ = b.Close() }() // releases memory, cannot fail
	if err := b.LogData(nil, nil); err != nil {
		return fmt.Errorf("kv: sync of the log: %w", err)
	}
	if err := s.disk.Apply(b, pebble.Sync); err != nil {
		return s.Fail(fmt.Errorf("kv: sync of the log: %w", err))
	}
	return s.synced(number, uint64(b.SeqNum())-1)
}

// synced raises the watermarks after a sync that covered all commits up to number, and
// everything in the log up to seq, unless the store failed: then the sync went nowhere.
func (s *Store) synced(number, seq uint64) error {
	if err := s.failure(); err != nil {
		return err
	}
	raise(&s.durable, number)
	raise(&s.durableSeq, seq)
	s.stats.syncs.Add(1)
	return nil
}
