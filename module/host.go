package module

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/sievekv/sievekv/kv"
)

// Host has the modules of one open store, the values of their settings, and their services.
type Host struct {
	*Table
	db      *kv.DB
	started []Service
	serving bool // it is this store that the Table's services work for

	settings     map[string]*setting
	settingNames []string   // sorted
	settingsMu   sync.Mutex // held while a change checks and stores values
}

// Of returns the Host of a store. If the store was opened without a Table, the Host has no modules.
func Of(db *kv.DB) *Host {
	if h, ok := db.Modules().(*Host); ok {
		return h
	}
	return newHost(New(), db)
}

func newHost(t *Table, db *kv.DB) *Host {
	h := &Host{Table: t, db: db, settings: make(map[string]*setting)}
	for _, s := range t.settings {
		one := &setting{Setting: s}
		if s.Unset == nil {
			one.value.Store(newSettingValue(s.Default))
		}
		h.settings[s.Name] = one
		h.settingNames = append(h.settingNames, s.Name)
	}
	return h
}

// DB returns the store.
func (h *Host) DB() *kv.DB { return h.db }

// Start starts the services; for a store that is open read-only, only services that only read. kv.Open calls it.
func (h *Host) Start() error {
	if h.hasServices(h.runs) {
		if !h.Table.serving.CompareAndSwap(false, true) {
			return errors.New("module: another open store has the same Table, and services work for one store at a time: make a Table, and its modules, for each store")
		}
		h.serving = true
	}
	for _, m := range h.modules {
		for _, s := range m.Services {
			if !h.runs(s) {
				continue
			}
			if err := s.Start(h.db); err != nil {
				return fmt.Errorf("module: start a service of module %s: %w", m.Name, err)
			}
			h.started = append(h.started, s)
		}
	}
	return nil
}

// runs reports whether a service works for the store.
func (h *Host) runs(s Service) bool {
	_, reads := s.(ReadingService)
	return reads || !h.db.ReadOnly()
}

// Stop ends the services, the last started first. DB.Close calls it.
func (h *Host) Stop() {
	for _, s := range slices.Backward(h.started) {
		s.Stop()
	}
	if h.serving {
		h.Table.serving.Store(false)
	}
}

// Services returns the services that have started.
func (h *Host) Services() []Service { return h.started }

// ResetStats, for CONFIG RESETSTAT, resets the counters of INFO: the store's, see kv.DB.ResetStats, and the modules'.
func (h *Host) ResetStats() {
	h.db.ResetStats()
	for _, m := range h.modules {
		if m.ResetStats != nil {
			m.ResetStats(h.db)
		}
	}
}
