package kv

import (
	"errors"
	"time"
)

// Acknowledge waits until an answer based on the object's present state may be reported at the level: under Always,
// until all of that state is on stable storage. Commands flagged write call it for answers that wrote nothing, such
// as "already there": without it, a crash could take back the commit that the answer rests on. The answer must have
// come from resident blocks alone.
func (db *DB) Acknowledge(o *Object, level Durability) error {
	if db.opts.ReadOnly || db.level(level) != Always {
		return db.readOnly()
	}
	// If the object has ended, its layers may be those of a later incarnation, and the bits that the answer came from
	// may have come by a later commit than changed tells.
	if _, durable := db.store.Numbers(); !o.memory.Ended() && durable >= o.changed.Load() {
		return nil
	}
	return db.Sync()
}

// Settle waits until an answer based on anything in the store's present state may be reported at the level: under
// Always, until all of that state is on stable storage.
func (db *DB) Settle(level Durability) error {
	if db.opts.ReadOnly || db.level(level) != Always {
		return db.readOnly()
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
	return db.store.Sync()
}

const (
	syncEvery   = time.Second
	sampleEvery = 50 * time.Millisecond
	tidyEvery   = 100 * time.Millisecond
)

// keep is the store's background loop. It syncs for EverySec, changes which lookups are sampled as touches, and
// closes objects that could not be closed when they were evicted.
func (db *DB) keep() {
	defer close(db.keeperDone)
	syncs, samples, tidies := time.NewTicker(syncEvery), time.NewTicker(sampleEvery), time.NewTicker(tidyEvery)
	defer syncs.Stop()
	defer samples.Stop()
	defer tidies.Stop()
	told := "" // the last error logged: an error that stays is logged once
	for {
		select {
		case <-db.stopKeeper:
			return
		case <-syncs.C:
			if db.opts.Durability != EverySec && !db.everySec.Swap(false) {
				continue
			}
			err := db.Sync()
			if err != nil && err.Error() != told && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrFailed) {
				told = err.Error()
				db.opts.Logger.Error("sievekv: background work failed", "dir", db.dir, "error", told)
			}
		case <-samples.C:
			db.residency.Resample()
		case <-tidies.C:
			db.releaseEnded()
		}
	}
}
