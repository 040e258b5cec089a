package storage

import (
	"errors"
	"time"
)

const (
	sidecarEvery    = 3 * time.Second
	compactionEvery = 100 * time.Millisecond
)

// backgroundLoop writes the sidecar, lets the ballast grow, and starts compactions that wait.
func (s *Store) backgroundLoop() {
	defer s.loops.Done()
	sidecars, compactions := time.NewTicker(sidecarEvery), time.NewTicker(compactionEvery)
	defer sidecars.Stop()
	defer compactions.Stop()
	told := "" // the last error logged; the same one is not logged again
	for {
		select {
		case <-s.stop:
			return
		case <-sidecars.C:
			s.work(func() {
				err := s.storeSidecar()
				if err != nil && err.Error() != told && !errors.Is(err, ErrFailed) {
					told = err.Error()
					s.opts.Logger.Error("sievekv: background work failed", "dir", s.Dir, "error", told)
				}
				s.sizeBallast()
			})
		case <-compactions.C:
			s.startCompactions() // also when the store has failed, see mayCompact
		}
	}
}

// work runs f, which uses Pebble, for one of the loops. It does nothing if the store has failed.
func (s *Store) work(f func()) {
	s.working.Add(1)
	defer s.working.Add(-1)
	if s.failure() == nil {
		f()
	}
}

// End prepares the end of the store. It gives up the compactions that Compact asked for. Busy reports whether an
// operation still uses the store; once it reports false, the caller calls Close.
func (s *Store) End(busy func() bool) {
	s.closing.Store(true)
	// This must come before end, which makes the calls of Compact return, so that they are no longer counted.
	s.gaveUp.Store(s.scheduler.reclaims())
	s.end()
	go func() {
		defer close(s.reliefEnded)
		s.relieve(busy)
	}()
}

// Close brings everything written to stable storage, unless the store has failed, and closes the store. The caller has
// called End before. In a group, Close forgets pending commits.
func (s *Store) Close() error {
	close(s.stop)
	s.loops.Wait()
	s.working.Add(1) // so that relieve helps this flush too
	if s.Group == nil {
		s.Flush()
	}
	s.working.Add(-1)
	close(s.relief)
	<-s.reliefEnded
	err := s.failure()
	if err == nil && !s.opts.ReadOnly {
		if s.Group == nil {
			err = s.syncLog()
		} else {
			_, err = s.Group.SyncStore()
		}
		if err == nil {
			err = s.storeSidecar()
		}
	}
	return errors.Join(err, s.closeAll())
}

// relieve makes sure that Close can end. Writers, loops and services may be waiting for a flush that fails again and
// again, and would wait for ever. Then relieve freezes the directory, so that they end with ErrFailed. No write that
// was acknowledged under Always is lost.
func (s *Store) relieve(busy func() bool) {
	const patience = 200 * time.Millisecond
	ticker := time.NewTicker(patience)
	defer ticker.Stop()
	before := s.stats.backgroundErrors.Load()
	for {
		select {
		case <-s.relief:
			return
		case <-ticker.C:
		}
		s.startCompactions() // the background loop, which did this, may have ended
		failures := s.stats.backgroundErrors.Load()
		if failures != before && (busy() || s.working.Load() != 0) && s.failure() == nil {
			_ = s.Fail(errors.New("closed while operations waited for flushes that fail"))
		}
		before = failures
	}
}
