package guard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/sievekv/sievekv"
)

// Rebuild fills a new filter with the ids of all rows, in any order, and then replaces the one in use by it, in one
// commit. Lookups go on with the old filter meanwhile, or are all let through if there is none. Ids that are Put
// meanwhile go into both filters. So after Rebuild the filter has all ids whose rows were there, and none that went
// away before it began.
//
// ids must read the source when Rebuild ranges over it, not before. An error that it yields ends Rebuild, which returns it.
//
// A Rebuild that was ended, by an error, its context or a crash, is continued by the next one: the filter so far is
// kept, and goes on taking what is Put. The next call needs all ids again, but known ones cost little; RebuildFrom need
// not read them again. Every commit has up to 1000 ids; Guard.Progress counts them. Ids that went away between the two
// calls may be in the filter: ids that were taken before and whose rows went away without a Remove, and in a Bloom
// filter also ids that were removed.
//
// If the ids outgrow the new filter, Rebuild drops it and returns an error that says so and names Capacity. The filter in
// use stays. The error is sievekv.ErrFull or sievekv.ErrCannotGrow.
//
// The other errors are ErrRebuilding, ErrClosed, sievekv.ErrConfig, the context's, and errors of the store.
func (g *Guard) Rebuild(ctx context.Context, ids iter.Seq2[string, error]) error {
	return g.rebuild(ctx, false, func(string) iter.Seq2[string, error] { return ids })
}

// RebuildFrom is Rebuild for a source whose ids have an order that never changes, such as a primary key's. from returns
// the ids behind an id in that order, all of them for "". If an earlier RebuildFrom was ended, from gets the last id
// that it has taken: rows with smaller ids that another program has written since are not seen. After such writes, and
// after a PutVia that failed, call Rebuild.
func (g *Guard) RebuildFrom(ctx context.Context, from func(after string) iter.Seq2[string, error]) error {
	return g.rebuild(ctx, true, from)
}

// rebuildBatch is the number of ids in a commit of Rebuild. Tests change it.
var rebuildBatch = 1000

// batchBytes is about the most bytes of the ids in a commit.
const batchBytes = 256 << 10

func (g *Guard) rebuild(ctx context.Context, ordered bool, from func(after string) iter.Seq2[string, error]) error {
	if err := g.use(); err != nil {
		return err
	}
	defer g.uses.Done()
	if !g.rebuilding.TryLock() {
		return ErrRebuilding
	}
	defer g.rebuilding.Unlock()
	m, err := g.beginRebuild(ctx, ordered)
	if err != nil {
		return err
	}
	g.opts.Logger.Info("guard: rebuild begins", "guard", g.name, "taken", m.Taken)
	if err := g.awaitVia(ctx); err != nil {
		return err
	}
	err = g.batches(ctx, from(string(m.After)), rebuildBatch, func(ids []string) error {
		return g.take(ctx, m.Next, ids, ordered)
	})
	if err != nil {
		return g.dropNext(ctx, m.Next, err)
	}
	err = g.db.With(sievekv.Always).Update(ctx, func(tx *sievekv.Tx) error {
		now, err := g.readNext(tx, m.Next)
		if err != nil {
			return err
		}
		if err := tx.Rename(g.keys.next, g.keys.filter); err != nil {
			return err
		}
		m = now
		now.InUse, now.Next, now.After = now.Next, 0, nil
		return g.writeMeta(tx, &now)
	})
	if err != nil {
		return g.dropNext(ctx, m.Next, err)
	}
	g.passing.begin()
	g.opts.Logger.Info("guard: rebuild ends", "guard", g.name, "taken", m.Taken)
	return g.forgetRecords(ctx)
}

// dropNext removes the next filter if the error that ended its rebuild says that it has no room: later rebuilds would
// only continue it. It returns the error.
func (g *Guard) dropNext(ctx context.Context, number uint64, err error) error {
	if !hasNoRoom(err) {
		return err
	}
	dropped := g.db.Update(context.WithoutCancel(ctx), func(tx *sievekv.Tx) error {
		m, err := g.readMeta(tx)
		if err != nil || m.Next != number {
			return err
		}
		if err := g.dropFull(tx, &m, generation{number, g.keys.next}); err != nil {
			return err
		}
		return g.writeMeta(tx, &m)
	})
	return errors.Join(fmt.Errorf("guard %q: the ids outgrew Options.Capacity %d: set a larger one and Rebuild: %w", g.name, g.opts.Capacity, err), dropped)
}

// beginRebuild makes the next filter, unless there is one with the parameters of the options.
func (g *Guard) beginRebuild(ctx context.Context, ordered bool) (m meta, err error) {
	err = g.db.Update(ctx, func(tx *sievekv.Tx) error {
		if m, err = g.readMeta(tx); err != nil {
			return err
		}
		if m.Next != 0 {
			there, err := tx.Exists(g.keys.next)
			if err != nil {
				return err
			}
			if there == 1 {
				err = g.reserve(tx, g.keys.next)
			} else {
				err = sievekv.ErrMismatch // somebody has removed it
			}
			if !errors.Is(err, sievekv.ErrMismatch) {
				if !ordered {
					m.After = nil // the order of what comes is another one
				}
				return errors.Join(err, g.writeMeta(tx, &m))
			}
		}
		if _, err := tx.Delete(g.keys.next); err != nil {
			return err
		}
		m.Last++
		m.Next, m.Taken, m.After = m.Last, 0, nil
		if err := g.reserve(tx, g.keys.next); err != nil {
			return err
		}
		return g.writeMeta(tx, &m)
	})
	return m, err
}

// awaitVia waits for the calls of PutVia that began before the next filter was there. Such a call may have added its id to
// the filter in use alone, and may write its row after Rebuild has read the source.
func (g *Guard) awaitVia(ctx context.Context) error {
	g.mu.Lock()
	before := slices.Collect(maps.Keys(g.via))
	g.mu.Unlock()
	for _, ended := range before {
		select {
		case <-ended:
		case <-ctx.Done():
			return ctx.Err()
		case <-g.ctx.Done():
			return ErrClosed
		}
	}
	return nil
}

// batches calls take with up to size ids at a time. The slice is only valid during the call.
func (g *Guard) batches(ctx context.Context, ids iter.Seq2[string, error], size int, take func(ids []string) error) error {
	batch, bytes := make([]string, 0, size), 0
	flush := func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if g.ctx.Err() != nil {
			return ErrClosed
		}
		err := take(batch)
		batch, bytes = batch[:0], 0
		return err
	}
	for id, err := range ids {
		if err != nil {
			return err
		}
		batch, bytes = append(batch, id), bytes+len(id)
		if len(batch) == size || bytes >= batchBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// readNext returns the meta record if it has the next filter of this number.
func (g *Guard) readNext(tx *sievekv.Tx, number uint64) (m meta, err error) {
	m, err = g.readMeta(tx)
	switch {
	case err != nil || m.Next == number:
	case m.Full == number: // a Put has found it so
		err = sievekv.ErrCannotGrow
	default:
		err = fmt.Errorf("%w: the keys of guard %q were changed during its rebuild", sievekv.ErrNotFound, g.name)
	}
	return m, err
}

// take adds ids to the next filter in one commit, or in two if they are too many for one. A crash may lose the last
// commits of a rebuild, which its next run makes again: the last commit is durable, and with it all before.
func (g *Guard) take(ctx context.Context, number uint64, ids []string, ordered bool) error {
	if len(ids) == 0 {
		return nil
	}
	err := g.db.With(sievekv.NoSync).Update(ctx, func(tx *sievekv.Tx) error {
		m, err := g.readNext(tx, number)
		if err != nil {
			return err
		}
		if err := g.addMany(tx, &m, ids); err != nil {
			return err
		}
		m.Taken += uint64(len(ids))
		if ordered {
			m.After = []byte(ids[len(ids)-1])
		}
		return g.writeMeta(tx, &m)
	})
	if half := len(ids) / 2; half > 0 && errors.Is(err, sievekv.ErrTooLarge) {
		if err := g.take(ctx, number, ids[:half], ordered); err != nil {
			return err
		}
		return g.take(ctx, number, ids[half:], ordered)
	}
	return err
}

// addMany adds ids to the next filter.
func (g *Guard) addMany(tx *sievekv.Tx, m *meta, ids []string) error {
	if !g.deletes() {
		_, err := tx.Bloom(g.keys.next).AddManyString(ids, nil)
		return err
	}
	of := g.generations(m)
	for _, id := range ids {
		if err := g.add(tx, id, of, []generation{{m.Next, g.keys.next}}); err != nil {
			return err
		}
	}
	return nil
}

// forgetRecords removes the records of ids that no filter has: those that Rebuild was not given. Nothing but space depends
// on it.
func (g *Guard) forgetRecords(ctx context.Context) error {
	if !g.deletes() {
		return nil
	}
	pattern := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(g.keys.id) + "*"
	records := func(yield func(string, error) bool) {
		for key, err := range g.db.Scan(ctx, sievekv.ScanOptions{Match: pattern}) {
			if !yield(strings.TrimPrefix(key, g.keys.id), err) {
				return
			}
		}
	}
	return g.batches(ctx, records, rebuildBatch, func(ids []string) error {
		return g.db.Update(ctx, func(tx *sievekv.Tx) error {
			m, err := g.readMeta(tx)
			if err != nil {
				return err
			}
			of := g.generations(&m)
			for _, id := range ids {
				has, err := g.record(tx, id, of)
				if err == nil && len(has) == 0 {
					_, err = tx.Delete(g.keys.id + id)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// Progress tells how far a guard's filter is.
type Progress struct {
	Filled     bool   // there is a filter in use: it refuses ids
	Rebuilding bool   // a Rebuild has begun and not come to its end; it may run, or wait to be continued
	Taken      uint64 // ids that it was given so far, or if none is under way, that the last one was given; counting those that were given again
	After      string // the last id that RebuildFrom has taken
	Warmed     uint64 // ids that all Warms since New are done with, counting those whose values were fresh
}

// Progress returns how far the guard's filter is, also when Rebuild or Warm runs in another goroutine.
func (g *Guard) Progress() (Progress, error) {
	m, err := g.readMeta(g.db)
	return Progress{Filled: m.InUse != 0, Rebuilding: m.Next != 0, Taken: m.Taken, After: string(m.After), Warmed: g.warmed.Load()}, err
}

// warmBatch is the number of ids that Warm loads at a time.
const warmBatch = 100

// Warm loads the values of ids, unless they are fresh, and returns how many it has loaded. Ids that are absent in the
// source are remembered as such. Warm keeps to the limits of loads, and waits for its turn as long as its context
// lasts. It ends at the first load that fails, and returns its error, or the context's, or the error that ids yields.
// If its turn would come after the context's deadline, the error is context.DeadlineExceeded at once.
//
// To continue it, call it again with the same ids, or with the remaining ones: it skips values that are fresh and ids
// remembered as absent, which costs one lookup each. Progress counts the finished ids.
func (g *Guard) Warm(ctx context.Context, ids iter.Seq2[string, error]) (loaded int, err error) {
	if err := g.use(); err != nil {
		return 0, err
	}
	defer g.uses.Done()
	err = g.batches(ctx, ids, warmBatch, func(batch []string) error {
		var cold []string
		for _, id := range batch {
			if _, is := g.read(ctx, id); is != fresh && is != absent && !slices.Contains(cold, id) {
				cold = append(cold, id)
			}
		}
		for len(cold) > 0 {
			n, again, err := g.warm(ctx, cold)
			if loaded += n; err != nil {
				return err
			}
			cold = again
		}
		g.warmed.Add(uint64(len(batch)))
		return nil
	})
	return loaded, err
}

// warm loads values of ids. It returns how many, and the ids whose loads other callers began, for which no load was free.
func (g *Guard) warm(ctx context.Context, ids []string) (loaded int, again []string, err error) {
	size := 1
	if g.opts.LoadMany != nil {
		size = len(ids)
	}
	since := g.moment()
	var all, own []*load
	for part := range slices.Chunk(ids, size) {
		there, isNew, err := g.beginWarm(ctx, part)
		if err != nil {
			return 0, nil, err
		}
		all, own = append(all, there...), append(own, isNew...)
	}
	for _, l := range all {
		ended, err := g.wait(ctx, l, since)
		if err == nil {
			err = ended.err
		}
		late := err == nil && ended.stale || errors.Is(err, ErrUnavailable)
		switch {
		case late && !slices.Contains(own, l):
			again = append(again, l.id)
		case late && err == nil:
			return loaded, nil, fmt.Errorf("%w: %q has a stale value", ErrUnavailable, l.id)
		case err == nil:
			loaded++
		case !errors.Is(err, ErrNotFound):
			return loaded, nil, err
		}
	}
	return loaded, again, nil
}

// beginWarm joins or starts the loads of ids, which are one call of the source, when it is their turn. It returns them, and
// those that it has started.
func (g *Guard) beginWarm(ctx context.Context, ids []string) (all, own []*load, err error) {
	enters := slices.ContainsFunc(ids, func(id string) bool { loading, _ := g.isLoading(id); return !loading })
	if enters {
		if err := g.awaitTurn(ctx); err != nil {
			return nil, nil, err
		}
	}
	all, own, err = g.joinMany(ids)
	if enters && len(own) == 0 {
		g.atOnce.Release(1)
	}
	g.runMany(ctx, own, enters)
	return all, own, err
}

// awaitTurn waits until the limits allow a load, however long that takes. It returns the errors of Warm.
func (g *Guard) awaitTurn(ctx context.Context) error {
	if g.isOpen() {
		return fmt.Errorf("%w: the breaker is open", ErrUnavailable)
	}
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	switch err := g.turn(both); {
	case err == nil:
		return nil
	case g.ctx.Err() != nil:
		return ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("%w: the limits allow no load before it", context.DeadlineExceeded)
}
