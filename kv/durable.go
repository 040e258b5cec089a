package kv

import (
	"errors"
	"time"
)

// Acknowledge waits until an answer based on the object's present state may be reported at the level: under Always,
// until all of that state is on stable storage. Commands flagged write call it for answers that wrote nothing, such
// as "already there": without it, a crash could take back the commit that the answer rests on. The answer must have
// come from resident blocks alone.
//
// In a group, at any level, it waits until that state is applied, so that the group has it.
func (db *DB) Acknowledge(o *Object, level Durability) error {
	if g := db.store.Group; g != nil {
		if o.memory.Ended() {
			return g.SettleAll(o.epoch)
		}
		return g.Settle(o.changed.Load(), o.epoch)
	}
	if db.opts.ReadOnly || db.level(level) != Always {
		return db.readOnly()
	}
	// If the object has ended, its layers may belong to a later incarnation, and a later commit than changed tells may
	// have set the bits of the answer.
	if _, durable := db.store.Numbers(); !o.memory.Ended() && durable >= o.changed.Load() {
		return nil
	}
	return db.Sync()
}

// Settle waits until an answer based on anything in the store's present state may be reported at the level: under
// Always, until all of that state is on stable storage.
// In a group see EndAnswer, which also tells if the store has ceased to lead since the answer was read.
func (db *DB) Settle(level Durability) error {
	if db.store.Group != nil {
		return db.EndAnswer(db.BeginAnswer())
	}
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

// Sync returns when every commit reported before it is on stable storage; in a group, when it is applied, or ErrOutcomeUnknown.
func (db *DB) Sync() error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.exit()
	if db.store.Group != nil {
		return db.EndAnswer(db.BeginAnswer())
	}
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
			if db.store.Group != nil || db.opts.Durability != EverySec && !db.everySec.Swap(false) {
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
