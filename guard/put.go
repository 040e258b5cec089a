package guard

import (
	"context"

	"github.com/sievekv/sievekv"
)

var background = context.Background()

// Put tells the guard that an id has a row with this value, and adds the id to the filter. In the same commit, it calls
// row, which may be nil, to change the row in the store. If row returns an error, Put changes nothing and returns it.
//
// A nil value means that the value is not known: the entry is removed, and the next Get loads it. row must write by tx
// alone and be quick, because other writes of the store wait for it. It must not use the guard.
//
// Put is for rows in the guard's store, and for a program that only wants an entry removed or an id added. For rows
// elsewhere use PutVia. Gets that begin after Put has returned find the new value. Calls of Put, PutVia, Remove and
// RemoveVia for the same id run one after the other. If the filter has no room for the id, Put drops the filter, and
// every lookup is let through until Rebuild has made a larger one. It returns errors of sievekv.DB.Update, such as
// sievekv.ErrTooLarge for a value above 7 MiB, of Options.Cache, the context's, and ErrClosed.
func (g *Guard) Put(ctx context.Context, id string, value []byte, row func(tx *sievekv.Tx) error) error {
	return g.change(ctx, id, func() error {
		var e *entry
		if value != nil {
			now := g.newEntry(value, g.store.Now())
			e = &now
		}
		return g.commit(ctx, g.db, id, g.addEverywhere, row, e)
	})
}

// Remove tells the guard that an id has no row any more. It deletes the id from a filter that can delete, remembers it as
// absent, and calls row in the same commit. Otherwise it is as Put.
func (g *Guard) Remove(ctx context.Context, id string, row func(tx *sievekv.Tx) error) error {
	return g.change(ctx, id, func() error {
		e := g.newAbsent(g.store.Now())
		return g.commit(ctx, g.db, id, g.deleteEverywhere, row, &e)
	})
}

// PutVia is Put for a row outside the store, which write writes. It takes three steps:
//
//  1. It adds the id to the filter and removes the entry, in one commit that is on stable storage.
//  2. It calls write.
//  3. It puts the value into the cache.
//
// Until the end the results of loads are not remembered. So whatever step a crash follows, or if write fails, the
// filter has the id and the cache does not have the old value. An error of step 3 only goes to the log: the row is
// written, and the next Get loads it. write must not call Put or Remove for the same id, and must not call Rebuild or
// Close.
//
// If write returns an error, PutVia returns it. If the row may come into being nevertheless, later even, as when the
// connection breaks during a commit, call PutVia again until it succeeds: a Rebuild that begins after the error and
// reads the source before the row is there makes a filter without the id. So does a Rebuild after a crash of this
// program in step 2. Otherwise call Rebuild again once the outcome is settled, not RebuildFrom, which may go on behind
// the row.
func (g *Guard) PutVia(ctx context.Context, id string, value []byte, write func(ctx context.Context) error) error {
	return g.change(ctx, id, func() error {
		defer g.beginVia()()
		if err := g.commit(ctx, g.db.With(sievekv.Always), id, g.addEverywhere, nil, nil); err != nil {
			return err
		}
		born := g.store.Now()
		if err := write(ctx); err != nil || value == nil {
			return err
		}
		e := g.newEntry(value, born)
		g.writeSoon(ctx, id, &e)
		return nil
	})
}

// RemoveVia is Remove for a row outside the store, which erase removes. It removes the entry, calls erase, and if erase
// succeeds it does what Remove does. After a crash in between, the filter may still have the id, until the next Rebuild.
func (g *Guard) RemoveVia(ctx context.Context, id string, erase func(ctx context.Context) error) error {
	return g.change(ctx, id, func() error {
		keep := func(*sievekv.Tx, string) (full, err error) { return nil, nil }
		if err := g.commit(ctx, g.db.With(sievekv.Always), id, keep, nil, nil); err != nil {
			return err
		}
		if err := erase(ctx); err != nil {
			return err
		}
		e := g.newAbsent(g.store.Now())
		return g.commit(context.WithoutCancel(ctx), g.db, id, g.deleteEverywhere, nil, &e)
	})
}

// change runs a write of an id. Loads that have begun before its end remember nothing, and Gets that begin after its end
// do not join them. See load.go.
func (g *Guard) change(ctx context.Context, id string, write func() error) error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return ErrClosed
	}
	g.uses.Add(1)
	defer g.uses.Done()
	s := g.stateOf(id)
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.leave(id, s)
	}()
	select {
	case s.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.begun.Add(1)
	defer func() { // also after an error, whose outcome may be unknown, and a panic
		s.writes.Add(1)
		g.mu.Lock()
		s.load = nil
		g.mu.Unlock()
		<-s.writing
	}()
	return write()
}

// commit changes the filter, the row and the entry of an id in one commit. A nil entry removes it, and so does an entry
// that has already expired. The caller changes the id.
func (g *Guard) commit(ctx context.Context, db *sievekv.DB, id string, filter func(*sievekv.Tx, string) (full, err error), row func(*sievekv.Tx) error, e *entry) error {
	key := g.keys.value + id
	if g.opts.Cache != nil {
		limited, cancel := g.cacheContext(ctx)
		err := g.opts.Cache.Set(limited, key, nil, 0)
		cancel()
		if err != nil {
			return err
		}
	}
	var full error
	err := db.Update(ctx, func(tx *sievekv.Tx) (err error) {
		if full, err = filter(tx, id); err != nil {
			return err
		}
		if row != nil {
			if err := row(tx); err != nil {
				return err
			}
		}
		switch {
		case g.opts.Cache != nil:
			return nil
		case e == nil || e.lifetime(&g.opts) < msec:
			_, err := tx.Delete(key)
			return err
		}
		_, err = tx.SetWith(key, e.append(nil), sievekv.SetOptions{TTL: e.lifetime(&g.opts)})
		return err
	})
	if err == nil && full != nil {
		g.tellFull(full)
	}
	if err == nil && g.opts.Cache != nil && e != nil {
		g.writeSoon(ctx, id, e)
	}
	return err
}

// cacheContext returns a context for a call of Options.Cache, which has to end before writes of the id, and Close, go on.
func (g *Guard) cacheContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, g.opts.LoadTimeout)
}

// writeSoon is write after a change that is made, whatever becomes of the caller's context.
func (g *Guard) writeSoon(ctx context.Context, id string, e *entry) {
	limited, cancel := g.cacheContext(context.WithoutCancel(ctx))
	defer cancel()
	g.write(limited, id, e, false)
}

// beginVia notes that a call of PutVia is under way until the function that it returns is called. Rebuild waits for it.
func (g *Guard) beginVia() (end func()) {
	ended := make(chan struct{})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.via[ended] = struct{}{}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.via, ended)
		close(ended)
	}
}
