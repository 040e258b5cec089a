package storage

import (
	"errors"
	"time"
)

const (
	sidecarEvery    = 3 * time.Second
	compactionEvery = 100 * time.Millisecond
)

// keep is the store's background loop: it writes the sidecar, has the ballast grow, and starts compactions that wait.
func (s *Store) keep() {
	defer s.loops.Done()
	sidecars, compactions := time.NewTicker(sidecarEvery), time.NewTicker(compactionEvery)
	defer sidecars.Stop()
	defer compactions.Stop()
	told := "" // the last error logged: one that stays is logged once
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
			s.startCompactions() // also of a store that has failed, see mayCompact
		}
	}
}

// work has a loop use Pebble, unless the store has failed.
func (s *Store) work(f func()) {
	s.working.Add(1)
	defer s.working.Add(-1)
	if s.failure() == nil {
		f()
	}
}

// End begins the end of the store: compactions that somebody asked for are given up. Busy reports whether somebody
// still uses the store; when nobody does any more, Close follows.
func (s *Store) End(busy func() bool) {
	s.closing.Store(true)
	// Before those who have asked for compactions go.
	s.gaveUp.Store(s.scheduler.reclaims())
	s.end()
	go func() {
		defer close(s.reliefEnded)
		s.relieve(busy)
	}()
}

// Close brings everything written to stable storage, unless the store has failed, and closes it. It follows End.
func (s *Store) Close() error {
	close(s.stop)
	s.loops.Wait()
	s.working.Add(1) // so that relieve helps here too
	s.Flush()
	s.working.Add(-1)
	close(s.relief)
	<-s.reliefEnded
	err := s.failure()
	if err == nil {
		if err = s.syncLog(); err == nil {
			err = s.storeSidecar()
		}
	}
	return errors.Join(err, s.closeAll())
}

// relieve helps Close to its end. Operations that wait for a flush which fails again and again, be it writers, a loop
// or a service, would wait for ever: then the directory is frozen, which lets them end with ErrFailed and loses
// nothing acknowledged under Always.
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
		s.startCompactions() // the background loop, who did, may have ended
		failures := s.stats.backgroundErrors.Load()
		if failures != before && (busy() || s.working.Load() != 0) && s.failure() == nil {
			_ = s.Fail(errors.New("closed while operations waited for flushes that fail"))
		}
		before = failures
	}
}
