// Package module is what extends a store: modules with data types, commands, services and settings,
// and sessions that run commands.
//
// A Table is made of modules, without a store. A store is opened with it:
//
//	table := module.New(coreext.Module(), bloomext.Module())
//	db, err := kv.Open("data", &kv.Options{Modules: table})
//	...
//	session := module.NewSession(db)
//	answer := session.Do(ctx, words)
//
// Of returns the modules of an open store, with the values of its settings.
package module

import "github.com/sievekv/sievekv/kv"

// Module is an extension of a store: data types, commands that work on them, services
// that run beside it, and settings.
type Module struct {
	// Name, 1 to 64 bytes, is stored in the header of every object of the
	// module's types: a program without the module can tell what is missing.
	Name     string
	Types    []*kv.Type
	Commands []Command
	Services []Service
	Settings []Setting

	// Version is what MODULE LIST says, 10000 for 1.0.0. Modules with 0 are not listed.
	Version int

	// ResetStats, if set, sets counts back to 0 that INFO shows, for CONFIG RESETSTAT.
	ResetStats func(db *kv.DB)
}

// Service runs beside an open store.
type Service interface {
	// Start begins the work and returns; it must not write before it returns.
	Start(db *kv.DB) error
	// Stop ends the work and waits for it. It is called only after Start.
	Stop()
	// Info returns lines for INFO: a section name and its fields, which come
	// behind those that others have in the section; without fields, none. It may
	// be called at any time after Start, from any goroutine, also after Stop.
	Info() (section string, fields []InfoField)
}

// InfoField is a line of INFO.
type InfoField struct {
	Name  string
	Value any
}
