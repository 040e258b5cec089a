package raftlog

import (
	"context"

	"github.com/cockroachdb/pebble/v2"
)

// An excise gives back truncated entries: Pebble drops the tables that have nothing else, and reads only the index of
// the one that has. A range deletion would be a key in the way of every table, and compactions would rewrite all
// entries that stay to get rid of it.
//
// An excise is not part of a batch, and there is no way back from it. So a flush comes first, after which the state record that
// no longer needs the entries is in a table. A crash between the two leaves entries below the base, which nobody reads, and which
// the next excise drops. The flush also keeps appends from waiting: the memtable that they go to has no entry that the excise
// would have to wait for.
//
// Pebble could also write the excise to its log, and do it later. Then a damaged table could make Open repeat it without end.
//
// Excises wait until a memtable's worth of entries was truncated, because each one ends a memtable.

// reclaimSome gives back truncated entries, in the background, if they are enough.
func (l *Log) reclaimSome() {
	s, err := l.current()
	if err != nil || s.base.position-l.reclaiming.reclaimed.Load() < uint64(l.opts.MemTableSize) {
		return
	}
	select {
	case l.reclaiming.wake <- struct{}{}:
	default:
	}
}

// reclaimLoop gives back truncated entries whenever it is woken.
func (l *Log) reclaimLoop() {
	for {
		select {
		case <-l.reclaiming.ctx.Done():
			return
		case <-l.reclaiming.wake:
			_ = l.reclaim() // an error has ended the log, and every call answers it
		}
	}
}

// reclaim drops the entries up to the base.
func (l *Log) reclaim() error {
	s, err := l.current()
	if err != nil {
		return err
	}
	if err := l.use(); err != nil {
		return err
	}
	defer l.using.RUnlock()
	if err := l.disk.Flush(); err != nil {
		return l.fail(err)
	}
	if err := l.Failed(); err != nil {
		return err
	}
	if err := l.excise(s.base.index); err != nil {
		return l.fail(err)
	}
	l.reclaiming.reclaimed.Store(s.base.position)
	return l.Failed()
}

// excise drops the entries below the base's entry, which stays: the state record behind it may be the newest.
func (l *Log) excise(base uint64) error {
	if base == 0 {
		return nil
	}
	return l.disk.Excise(context.Background(), pebble.KeyRange{Start: appendEntryKey(nil, 0), End: appendEntryKey(nil, base)})
}
