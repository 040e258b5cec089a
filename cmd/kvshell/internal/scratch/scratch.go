// Package scratch opens empty stores in memory, to try something in them.
package scratch

import (
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// Opened counts the stores that were opened, for tests.
var Opened atomic.Int64

// Open opens an empty store in memory with the modules of every store, and others.
func Open(others ...module.Module) (*kv.DB, error) {
	Opened.Add(1)
	return kv.Open("", &kv.Options{
		InMemory: true, Modules: module.New(append(sievekv.Modules(), others...)...), Logger: slog.New(slog.DiscardHandler),
	})
}

// Close closes a store at the end of a function, and adds the error to the function's own.
func Close(db *kv.DB, err *error) { *err = errors.Join(*err, db.Close()) }
