package kv

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// The durable watermark: db.durable is the highest sequence known to be on
// stable storage. It is raised after a sync by what was in the log when the sync
// was queued: by a batch's own last sequence after that batch's SyncWait, and by
// the sequence before a LogData batch's own after a shared sync. Never by a
// value read after the sync was queued: that would count commits the sync did
// not cover, and acknowledge what a crash takes back.

// syncer lets everyone who waits for the disk share one sync. A round takes in
// all who ask while the round before it is at the disk.
type syncer struct {
	mu      sync.Mutex
	running bool       // a round is at the disk, or about to go there; guarded by mu
	pending *syncRound // the round those asking now join; guarded by mu
}

type syncRound struct {
	done chan struct{} // closed when err is set
	lead chan struct{} // receives once, if a waiter has to run the round
	err  error
}

// awaitDurable returns when everything up to seq is on stable storage.
func (db *DB) awaitDurable(seq uint64) error {
	if db.durable.Load() >= seq {
		return db.failure()
	}
	db.pauseAt("durable: waiting")
	return db.shareSync()
}

// shareSync returns when everything applied before the call is on stable storage.
func (db *DB) shareSync() error {
	s := &db.syncer
	s.mu.Lock()
	if s.pending == nil {
		s.pending = &syncRound{done: make(chan struct{}), lead: make(chan struct{}, 1)}
	}
	r := s.pending
	if !s.running {
		s.running, s.pending = true, nil
		s.mu.Unlock()
		db.runRound(r)
		return r.err
	}
	s.mu.Unlock()
	select {
	case <-r.done:
	case <-r.lead:
		db.runRound(r)
	}
	return r.err
}

func (db *DB) runRound(r *syncRound) {
	r.err = db.syncLog()
	s := &db.syncer
	s.mu.Lock()
	if next := s.pending; next != nil {
		s.pending = nil
		next.lead <- struct{}{}
	} else {
		s.running = false
	}
	s.mu.Unlock()
	close(r.done)
}

// syncLog syncs Pebble's log by a batch without operations: one that is empty
// altogether would not sync.
func (db *DB) syncLog() error {
	b := db.disk.NewBatch()
	defer func() { _ = b.Close() }() // releases memory, cannot fail
	if err := b.LogData(nil, nil); err != nil {
		return fmt.Errorf("kv: sync of the log: %w", err)
	}
	if err := db.disk.Apply(b, pebble.Sync); err != nil {
		return db.fail(fmt.Errorf("kv: sync of the log: %w", err))
	}
	return db.synced(uint64(b.SeqNum()) - 1)
}

// synced raises the watermark after a sync that covered everything up to seq,
// unless the store failed: then the sync went nowhere.
func (db *DB) synced(seq uint64) error {
	if err := db.failure(); err != nil {
		return err
	}
	raise(&db.durable, seq)
	db.stats.syncs.Add(1)
	return nil
}

// Acknowledge returns when an answer based on the object's present state may be
// reported at the level: under Always, when all of that state is on stable
// storage. Commands flagged write call it for answers that wrote nothing, such
// as "already there", which would otherwise rest on a commit that a crash takes
// back. The answer must have come from resident blocks alone.
func (db *DB) Acknowledge(o *Object, level Durability) error {
	if db.level(level) != Always {
		return nil
	}
	// The layers of one that has ended may live on in an incarnation that later commits
	// changed: the bits the answer came from may be theirs. It ended before they began.
	if !o.Ended() && db.gathered.durable.Load() >= o.gathered.Load() && db.durable.Load() >= o.lastSeq.Load() {
		return nil
	}
	return db.Sync()
}

// Settle returns when an answer based on anything in the store's present state may be
// reported at the level: under Always, when all of that state is on stable storage.
func (db *DB) Settle(level Durability) error {
	if db.level(level) != Always {
		return nil
	}
	return db.Sync()
}

func (db *DB) level(level Durability) Durability {
	if level == DurabilityDefault {
		return db.opts.Durability
	}
	return level
}

// Sync returns when every commit reported before it is on stable storage.
func (db *DB) Sync() error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.exit()
	return db.awaitAll()
}

// awaitAll returns when every commit applied or gathered before it is on stable storage.
func (db *DB) awaitAll() error {
	db.drain()
	gathered := db.gathered.applied.Load()
	if err := db.awaitDurable(db.lastSeq.Load()); err != nil {
		return err
	}
	raise(&db.gathered.durable, gathered)
	return nil
}

const (
	syncEvery    = time.Second
	sidecarEvery = 3 * time.Second
	sampleEvery  = 50 * time.Millisecond
	tidyEvery    = 100 * time.Millisecond
)

// keepHouse is the store's own background goroutine: it syncs for EverySec,
// writes the sidecar, moves the sampling of touches on, closes objects that could
// not be closed when they had to go, and starts compactions that wait.
func (db *DB) keepHouse() {
	defer close(db.housekeeperDone)
	syncs, sidecars := time.NewTicker(syncEvery), time.NewTicker(sidecarEvery)
	samples, tidies := time.NewTicker(sampleEvery), time.NewTicker(tidyEvery)
	defer syncs.Stop()
	defer sidecars.Stop()
	defer samples.Stop()
	defer tidies.Stop()
	told := "" // the last error logged: one that stays is logged once
	for {
		var err error
		select {
		case <-db.stopHousekeeper:
			return
		case <-syncs.C:
			if db.opts.Durability == EverySec || db.everySec.Swap(false) {
				err = db.Sync()
			}
		case <-sidecars.C:
			err = db.writeSidecar()
			db.sizeBallast()
		case <-samples.C:
			db.residency.sample.Store(mix64(uint64(time.Now().UnixNano())))
		case <-tidies.C:
			db.tidy()
			db.startCompactions()
		}
		if err != nil && err.Error() != told && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrFailed) {
			told = err.Error()
			db.opts.Logger.Error("sievekv: background work failed", "dir", db.dir, "error", told)
		}
	}
}
