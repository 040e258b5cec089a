package kv

import (
	"context"
	"errors"
	"fmt"

	"github.com/sievekv/sievekv/kv/format"
)

// Modules are what a store is opened with beside the engine: data types, and all that works on
// them. Package module has them; the engine knows no more of them than this.
type Modules interface {
	// Types returns the data types by the name of the module they belong to, which is 1 to 64
	// bytes and stored with each object, or what is wrong with the modules.
	Types() (map[string][]*Type, error)

	// Attach returns the modules of one store, which is about to be opened. DB.Modules returns the same.
	Attach(db *DB) Running
}

// Running is the modules of one open store.
type Running interface {
	// Start begins what runs beside the store. Open calls it once, when the store can be used; it
	// must not write before it returns.
	Start() error

	// Stop ends what Start has started, and waits for it. Close calls it once.
	Stop()
}

// Type is a data type.
type Type struct {
	// Name is what TYPE prints, 1 to 64 bytes. It is stored; never reuse one.
	Name string

	// Version is the format version of new objects' parameters. Objects of a
	// later version are refused with ErrUnsupportedVersion before Open sees them.
	Version uint8

	// Open decodes the parameters of an object just opened or created, and returns what Object.Body gives to the
	// module's code. An error refuses the object: ErrCorrupt for parameters that do not decode.
	Open func(o *Object) (any, error)

	// Verify checks what only the module knows, for a check of the whole store:
	// it is given every block of every layer, and then, once, ok by Done.
	Verify func(o *Object) Verifier

	// Compact stages changes that make an object smaller, for a commit of about budget bytes at most, and reports
	// whether there is more to do. Lookups see the commit as one, and answer as before. It is called for keys given
	// to DB.QueueCompact; nil if the type has no use for that.
	Compact func(w *Writer, o *Object, budget int) (more bool, err error)

	// Describe returns what SIEVE.STATS answers of an object, besides what it knows of
	// every key. It must not read blocks. Nil if there is nothing to add.
	Describe func(r Reader, o *Object) (Description, error)
}

// Description is what a type has to say of an object.
type Description struct {
	Bytes uint64 // of what its layers have room for
	Facts FactList
}

// Fact is one thing that a type has to say of an object.
type Fact struct {
	Name  string // in lower case
	Value any    // string, bool, uint64, int64, float64, or []FactList
}

// FactList is what a type has to say of a part of an object, such as a layer.
type FactList []Fact

// NewFact returns a fact. See Fact for the types of values.
func NewFact(name string, value any) Fact { return Fact{name, value} }

// IntFact returns a fact whose value is an integer.
func IntFact[N ~int | ~int64 | ~uint32 | ~uint64](name string, n N) Fact {
	return Fact{name, uint64(n)}
}

// Verifier checks one object.
type Verifier interface {
	// Block is given each stored block in order; words are valid during the call.
	Block(l *Layer, blk uint64, words []uint64) error
	// Done is called after the last block. It returns an error for what cannot
	// be, and a note for what is unlikely: a statistical remark, or "".
	Done() (note string, err error)
}

// registry is the types of the modules that a store was opened with.
type registry struct {
	types    map[string]*Type
	moduleOf map[string]string // by type name
}

// newRegistry returns the registry of modules, or what is wrong with them.
func newRegistry(m Modules) (*registry, error) {
	r := &registry{types: make(map[string]*Type), moduleOf: make(map[string]string)}
	if m == nil {
		return r, nil
	}
	byModule, err := m.Types()
	errs := []error{err}
	for module, types := range byModule {
		if len(module) < 1 || len(module) > maxName {
			errs = append(errs, fmt.Errorf("module name %q: 1 to %d bytes", module, maxName))
		}
		for _, t := range types {
			switch {
			case len(t.Name) < 1 || len(t.Name) > maxName:
				errs = append(errs, fmt.Errorf("type name %q: 1 to %d bytes", t.Name, maxName))
			case r.types[t.Name] != nil:
				errs = append(errs, fmt.Errorf("type %q is registered twice", t.Name))
			case t.Open == nil || t.Name == format.StringType:
				errs = append(errs, fmt.Errorf("type %q: needs an Open and a name other than %q", t.Name, format.StringType))
			}
			r.types[t.Name], r.moduleOf[t.Name] = t, module
		}
	}
	return r, errors.Join(errs...)
}

// maxName is the most bytes of the name of a module, and of a type.
const maxName = 64

// Modules returns the modules of Options.Modules as this store has them; nil if the options had none.
func (db *DB) Modules() Running { return db.running }

// GivenUp returns the error of a context that has ended: what goes through many keys or items asks it for each,
// counted by i from 0, so that nobody waits for the rest of a command that is given up. It looks for every 1024th. A
// write asks while it stages, so that there is all of it or nothing.
func GivenUp(ctx context.Context, i int) error {
	const few = 1024
	if i%few != 0 {
		return nil
	}
	return ctx.Err()
}
