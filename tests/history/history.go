// Package history records what several clients do to one live store at the same time, and has porcupine look for an
// order in which all of their answers are right: one that keeps to what was over before something else began. There
// is one if, and only if, the store is linearizable as far as the history shows.
//
// # What is documented to be weaker
//
//   - A batch of adds outside of a transaction is one commit, but lookups may see it
//     happen item by item, and the number of items change before or after.
//   - A lookup of several items outside of a view is of one moment as to everything
//     but such adds.
//   - EXEC may answer nil for a change that the client saw before its WATCH returned.
//
// Such operations are checked in parts that no other commit to the same filter, and no
// commit that replaces something, comes in between of: see Type.Split.
package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
	"github.com/sievekv/sievekv/txn"
)

// caches are the sizes of the stores' caches: with the first a block hardly stays in memory, with the last all do.
var caches = []int64{16 << 10, 80 << 10, 4 << 20}

// stringCaches are the sizes of the caches of strings: none, one that a large string empties, and one that keeps all.
var stringCaches = []int64{-1, 4 << 10, 1 << 20}

// Open opens a store in memory, with the smallest memtable, some of several caches, and one of two layouts of the
// filters that commands make, by seed.
func Open(seed uint64) (*kv.DB, error) {
	db, err := kv.Open("store", &kv.Options{
		FS: vfs.NewMem(), CacheSize: caches[seed%uint64(len(caches))], TableCacheSize: 1 << 20, MemTableSize: 256 << 10,
		StringCacheSize: stringCaches[seed/3%uint64(len(stringCaches))],
		BallastSize:     -1, MinFreeSpace: -1, Logger: slog.New(slog.DiscardHandler),
		Modules: coreext.With(
			yielding(bloomext.Module()), yielding(countingext.Module()), yielding(cuckooext.Module()), compaction.Module(),
			txn.Module(),
		),
	})
	if err == nil && seed/uint64(len(caches)*len(stringCaches))%2 == 1 {
		layout := scalableext.LayoutCompatible.String()
		err = errors.Join(module.Of(db).SetSetting("bf-layout", layout), module.Of(db).SetSetting("cf-layout", layout))
	}
	return db, err
}

// yielding returns a module whose types let other goroutines run whenever an object is
// opened or put in the place of another: in the middle of commits that replace something.
func yielding(m module.Module) module.Module {
	m.Types = slices.Clone(m.Types)
	for i, t := range m.Types {
		slow := *t
		slow.Open = func(o *kv.Object) (any, error) {
			yield()
			return t.Open(o)
		}
		m.Types[i] = &slow
	}
	return m
}

// yield lets others run, now and then for as long as they need for some operations.
func yield() {
	if rand.IntN(2) == 0 {
		time.Sleep(time.Duration(rand.IntN(100)) * time.Microsecond)
		return
	}
	runtime.Gosched()
}

// Record empties the store and returns what 3 to 6 clients then did, in the order they
// began. Seed chooses their operations, but not how these overlap.
func Record(ctx context.Context, db *kv.DB, seed uint64, operations int) ([]*Operation, error) {
	if err := db.DeleteAll(kv.NoSync); err != nil {
		return nil, err
	}
	var clock atomic.Int64
	clients := make([]*client, 3+seed%(maxClients-2))
	errs := make([]error, len(clients))
	var wg sync.WaitGroup
	for i := range clients {
		c := newClient(i, db, &clock, seed)
		clients[i] = c
		share := (operations + len(clients) - 1) / len(clients)
		if i == 0 {
			share *= 5 // of lookups, which are fast
		}
		wg.Go(func() {
			for len(c.history) < share && errs[i] == nil {
				errs[i] = c.step(ctx)
			}
		})
	}
	wg.Wait()
	var history []*Operation
	for _, c := range clients {
		history = append(history, c.history...)
	}
	slices.SortFunc(history, func(a, b *Operation) int { return int(a.Call - b.Call) })
	return history, errors.Join(errs...)
}

// ErrUndecided is returned for a history that takes too long to check.
var ErrUndecided = errors.New("history: no order found, and none ruled out, in the time given")

// A Violation is a history that no order explains.
type Violation struct {
	Group int
	info  porcupine.LinearizationInfo
}

func (v *Violation) Error() string {
	return fmt.Sprintf("history: no order of the operations on group %d explains their answers", v.Group)
}

// Save writes a page that shows the history, and how far orders were found.
func (v *Violation) Save(path string) error { return porcupine.VisualizePath(model, v.info, path) }

// limit bounds the search for an order; histories are made such that it takes a small part of that.
const limit = time.Minute

// Check looks for an order of the operations on each group. The error is a *Violation
// if there is none, or ErrUndecided.
func Check(history []*Operation) error {
	for group := range groups {
		var steps []porcupine.Operation
		for _, op := range history {
			if op.Group != group && op.Group >= 0 {
				continue
			}
			for _, st := range split(op) {
				steps = append(steps, porcupine.Operation{ClientId: op.Client, Input: st, Call: op.Call, Return: op.Return})
			}
		}
		switch result := porcupine.CheckOperationsTimeout(model, steps, limit); result {
		case porcupine.Ok:
		case porcupine.Illegal:
			_, info := porcupine.CheckOperationsVerbose(model, steps, limit)
			return &Violation{group, info}
		default:
			return fmt.Errorf("%w: group %d", ErrUndecided, group)
		}
	}
	return nil
}
