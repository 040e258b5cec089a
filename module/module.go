// Package module extends a store with modules: data types, commands, services and settings. Its sessions run
// commands.
//
// A Table is made of modules, without a store. A store is opened with a Table:
//
//	table := module.New(coreext.Module(), bloomext.Module())
//	db, err := kv.Open("data", &kv.Options{Modules: table})
//	...
//	session := module.NewSession(db)
//	answer := session.Do(ctx, words)
//
// Of returns the Host of an open store: its modules, with the values of their settings. examples/hll is a program
// with a module of its own.
package module

import "github.com/sievekv/sievekv/kv"

// Module is an extension of a store: data types, commands that use them, services that run while the store is open,
// and settings.
type Module struct {
	// Name, 1 to 64 bytes, is stored in the header of every object of the module's types, so that a program without
	// the module can say which one is missing.
	Name     string
	Types    []*kv.Type
	Commands []Command
	Services []Service
	Settings []Setting

	// Version is the version that MODULE LIST shows, 10000 for 1.0.0. A module with 0 is not listed.
	Version int

	// ResetStats, if set, resets the module's counters in INFO, for CONFIG RESETSTAT.
	ResetStats func(db *kv.DB)
}

// Service runs while a store is open.
type Service interface {
	// Start begins the work and returns. It must not write to the store before it returns.
	Start(db *kv.DB) error
	// Stop ends the work and waits for it. It is called only after Start has returned nil.
	Stop()
	// Info returns a section name and fields for INFO. Fields for the same section from several services follow each
	// other; no fields add no section. Info may be called from any goroutine at any time after Start, also after
	// Stop.
	Info() (section string, fields []InfoField)
}

// ReadingService is a Service that also works for a store that is open read-only, because it writes nothing to the
// store. Other services are not started for such a store.
type ReadingService interface {
	Service
	// OnlyReads does nothing.
	OnlyReads()
}

// InfoField is a line of INFO.
type InfoField struct {
	Name  string
	Value any
}
