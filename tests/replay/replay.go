package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/storage"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/tests/group"
	"github.com/sievekv/sievekv/txn"
)

// result is what a run has found.
type result struct {
	group.Difference
	commands, refused, records int
	byCommand                  map[string]int
}

func (r result) String() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "commands %d, of them refused %d\n", r.commands, r.refused)
	for _, name := range slices.Sorted(maps.Keys(r.byCommand)) {
		fmt.Fprintf(&b, "  %s %d", name, r.byCommand[name])
	}
	fmt.Fprintf(&b, "\nrecords replayed %d\nkeys compared %d, of them blocks %d\nkeys that differ %d\n", r.records, r.Keys, r.Blocks, r.Differ)
	if r.Differ > 0 {
		fmt.Fprintln(&b, "the first:", r.First)
	}
	return b.String()
}

const storeDir, copyDir = "store", "copy"

// replay runs commands in the store that leads a group of one, applies the messages of its log to a backup, except
// those that lost reports, and compares.
func replay(commands int, seed uint64, lost func(i int) bool) (found result, err error) {
	disk := vfs.NewMem()
	var now atomic.Int64
	now.Store(time.Now().UnixMilli())
	options := func(log storage.Log, more ...module.Module) *kv.Options {
		return &kv.Options{
			FS: disk, Log: log, CacheSize: 1 << 20, MemTableSize: 2 << 20, BallastSize: -1, MinFreeSpace: -1, Logger: slog.New(slog.DiscardHandler),
			Clock:   func() time.Time { return time.UnixMilli(now.Load()) },
			Modules: coreext.With(append(more, bloomext.Module(), countingext.Module(), cuckooext.Module(), txn.Module())...),
		}
	}
	g := group.New(seed)
	g.Millis = now.Load
	leader := g.Join()
	db, err := kv.Open(storeDir, options(leader, compaction.Module()))
	if err != nil {
		return found, err
	}
	if err := leader.Run(db); err != nil {
		return found, err
	}
	g.Move(leader)
	w := group.NewWorkload(seed, &now)
	w.On(db)
	for i := range commands {
		if i == commands/10 {
			if err := db.Backup(context.Background(), copyDir, kv.BackupOptions{}, func(string) error { return nil }); err != nil {
				return found, errors.Join(err, db.Close())
			}
		}
		w.Step()
	}
	if err := errors.Join(w.Err, db.Compact(context.Background()), g.Settle(), g.Stop(), db.Close()); err != nil {
		return found, err
	}
	found.commands, found.refused, found.byCommand = commands, w.Refused, w.ByCommand

	other, err := kv.Open(copyDir, options(leader)) // which leads no more
	if err != nil {
		return found, err
	}
	read := module.NewSession(other)
	applied, _, err := other.Applied()
	if err != nil {
		return found, errors.Join(err, other.Close())
	}
	for i, message := range g.Log(applied.Index) {
		if lost(i) {
			message.Record = nil
		}
		if err := other.ApplyMessage(&message); err != nil {
			return found, errors.Join(fmt.Errorf("message %d: %w", i, err), other.Close())
		}
		if i%16 == 0 { // lookups of what goes on in memory
			read.Do(context.Background(), w.Lookup())
		}
		found.records++
	}
	if err := other.Close(); err != nil {
		return found, err
	}
	found.Difference, err = group.Compare(disk, storeDir, disk, copyDir)
	return found, err
}
