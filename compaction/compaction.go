// Package compaction is the service that maintains a store in the background. It folds blocks with many operands,
// compacts objects whose types ask for it, removes expired keys and what has expired in filters with a window, and reclaims
// the disk space of dropped objects.
//
// The work is bounded. In a second the service folds at most FoldBytes of blocks, and reclaims one large dropped object or
// many small ones. It spends at most half of the time on compacting objects, about CompactBytes in each commit, and at most
// half on removing expired keys, 16 in each. While Pebble's compactions are behind, the service folds and compacts
// nothing: commits would wait for what that writes. INFO shows what it has done and what is waiting.
package compaction

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

const (
	// FoldBytes is the most bytes of folded blocks that the service writes in a second.
	FoldBytes = 8 << 20

	// CompactBytes is roughly the most bytes of a commit that compacts an object.
	CompactBytes = 100 << 10

	foldEvery    = 100 * time.Millisecond
	compactEvery = 100 * time.Millisecond
	sweepEvery   = 100 * time.Millisecond
	reclaimEvery = time.Second
	wakeEvery    = time.Second
)

// Module returns a module with the service. Stores that are open at the same time need a module each.
func Module() module.Module {
	return module.Module{Name: "compaction", Services: []module.Service{&service{}}}
}

type service struct {
	db     *kv.DB
	behind func() bool // see kv.Metrics
	log    *slog.Logger
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// Start begins the work.
func (s *service) Start(db *kv.DB) error {
	ctx, cancel := context.WithCancel(context.Background())
	s.db, s.cancel, s.log = db, cancel, db.Logger()
	s.behind = func() bool {
		m, err := db.Metrics()
		return err == nil && m.Behind
	}
	s.done.Go(func() { s.every(ctx, foldEvery, s.fold) })
	s.done.Go(func() { s.every(ctx, compactEvery, s.compact) })
	s.done.Go(func() { s.every(ctx, sweepEvery, s.sweep) })
	s.done.Go(func() { s.every(ctx, reclaimEvery, s.reclaim) })
	s.done.Go(func() { s.every(ctx, wakeEvery, s.wake) })
	return nil
}

// Stop ends the work and waits for it.
func (s *service) Stop() {
	s.cancel()
	s.done.Wait()
}

// Info returns the service's section of INFO.
func (s *service) Info() (string, []module.InfoField) {
	m, err := s.db.Metrics()
	if err != nil {
		return "Compaction", nil // the store is closed
	}
	return "Compaction", []module.InfoField{
		{Name: "folds", Value: m.Folds},
		{Name: "fold_backlog", Value: m.FoldBacklog},
		{Name: "fold_requests_dropped", Value: m.FoldsDropped},
		{Name: "fold_bytes_per_second_limit", Value: FoldBytes},
		{Name: "objects_reclaimed", Value: m.Reclaimed},
		{Name: "reclaim_backlog", Value: m.ReclaimBacklog},
		{Name: "object_compactions", Value: m.Compactions},
		{Name: "object_compaction_backlog", Value: m.CompactBacklog},
		{Name: "put_off", Value: m.PutOff},
		{Name: "expired_keys_removed", Value: m.ExpiredKeys},
		{Name: "expiry_backlog", Value: m.ExpiryBacklog},
	}
}

// most is how many intervals work that fails on damage rests at most.
const most = 64

// every calls work at an interval. It logs an error only if it differs from the last one, so that a full disk does
// not fill the log too. Each time that work fails on damage, which is not going to heal, the rest before the next attempt is
// doubled.
func (s *service) every(ctx context.Context, interval time.Duration, work func(context.Context) error) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	last, rest := "", interval
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := work(ctx)
		if next := restAfter(err, rest, interval); next != rest {
			rest = next
			ticker.Reset(rest)
		}
		switch {
		case err == nil, errors.Is(err, kv.ErrNotLeader), errors.Is(err, kv.ErrOutcomeUnknown): // the store that leads goes on with it
			last = ""
		case ctx.Err() != nil || errors.Is(err, kv.ErrClosed) || errors.Is(err, kv.ErrFailed):
			return // the store has logged the reason
		case err.Error() != last:
			last = err.Error()
			s.log.Warn("sievekv: compaction", "dir", s.db.Dir(), "error", err)
		}
	}
}

// restAfter returns how long work that is done at an interval rests before the next attempt.
func restAfter(err error, last, interval time.Duration) time.Duration {
	if errors.Is(err, kv.ErrCorrupt) {
		return min(2*last, most*interval)
	}
	return interval
}

// putOff reports whether work has to wait.
func (s *service) putOff() bool {
	if !s.behind() {
		return false
	}
	s.db.CountPutOff()
	return true
}

func (s *service) fold(ctx context.Context) error {
	if s.db.FoldBacklog() == 0 || s.putOff() {
		return nil
	}
	const perTick = FoldBytes * int(foldEvery) / int(time.Second)
	_, err := s.db.Fold(ctx, perTick)
	return err
}

func (s *service) compact(ctx context.Context) error {
	return resting(ctx, func() (more bool, err error) {
		if s.db.CompactBacklog() == 0 || s.putOff() {
			return false, nil
		}
		return s.db.CompactQueued(ctx, CompactBytes)
	})
}

// sweep removes expired keys.
func (s *service) sweep(ctx context.Context) error {
	return resting(ctx, func() (bool, error) { return s.db.Sweep(ctx) })
}

// resting works until there is no more to do. After each commit it rests as long as the commit took, so that other goroutines
// get the processor at once.
func resting(ctx context.Context, work func() (more bool, err error)) error {
	for {
		begin := time.Now()
		if more, err := work(); err != nil || !more {
			return err
		}
		select {
		case <-time.After(time.Since(begin)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wake calls the types that asked for it, such as filters with a window, which free the slices that have expired. An object
// that cannot be compacted keeps none from being called. wake returns the first error.
func (s *service) wake(ctx context.Context) error {
	var from []byte
	var first error
	err := resting(ctx, func() (more bool, err error) {
		if from, err = s.db.Wake(ctx, from, CompactBytes); first == nil {
			first = err
		}
		return from != nil, nil
	})
	return cmp.Or(first, err)
}

func (s *service) reclaim(ctx context.Context) error {
	_, err := s.db.Reclaim(ctx)
	return err
}
