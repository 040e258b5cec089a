package kv

import (
	"context"
	"errors"
	"fmt"

	"github.com/sievekv/sievekv/internal/format"
)

// Modules are the data types, and what works on them, that a store is opened with. Package module implements it; the
// engine knows only this interface.
type Modules interface {
	// Types returns the data types by the name of their module, which is 1 to 64 bytes and is stored with each
	// object. The error says what is wrong with the modules.
	Types() (map[string][]*Type, error)

	// Attach returns the modules of one store that is about to be opened. DB.Modules returns the same value.
	Attach(db *DB) Running
}

// Running is the modules of one open store.
type Running interface {
	// Start starts the services. Open calls it once, when the store can be used. A service must not write before
	// Start returns.
	Start() error

	// Stop ends the services and waits for them. Close calls it once.
	Stop()
}

// Type is a data type.
type Type struct {
	// Name is what TYPE prints, 1 to 64 bytes. It is stored; never reuse one.
	Name string

	// Version is the format version of new objects' parameters. Objects of a
	// later version are refused with ErrUnsupportedVersion before Open sees them.
	Version uint8

	// Open decodes the parameters of an object that is being opened or created, and returns the body that Object.Body
	// gives to the module's code. An error refuses the object: ErrCorrupt for parameters that do not decode.
	Open func(o *Object) (any, error)

	// BodyBytes is how much memory a body takes that does not follow from the object, such as the key of its hash.
	BodyBytes int64

	// Check returns an error that wraps ErrCorrupt if a counter of an object's layers is out of range. It is called whenever
	// counters come from outside of this program: for an object that is read from disk, imported, loaded from a dump, or
	// checked. So whatever uses a counter as a length, an index or a size may rely on it. Open does the same for the
	// parameters, which are all that is known when it is called. Nil if any counters will do.
	Check func(o *Object, counter func(l *Layer, i int) uint64) error

	// Verify returns a verifier for an object, when the whole store is checked. The verifier is given every block of
	// every layer, and then Done is called once.
	Verify func(o *Object) Verifier

	// Compact stages changes that make an object smaller, for a commit of about budget bytes at most, and reports
	// whether there is more to do. Lookups see the commit as a whole and answer as before. It is called for keys
	// given to DB.QueueCompact. Nil if the type has nothing to compact.
	Compact func(w *Writer, o *Object, budget int) (more bool, err error)

	// Prepare does what Compact needs and takes long, without the lock of the key, before Compact is called for an
	// object. It returns the work that needs the lock, nil if there is none: step stages changes for a commit as
	// Compact does, and is called again as long as it reports that there is more. Prepare reads by DB.ReadWith. By the
	// time of a step the object may have changed, and the key may have another one: step is given the object that is
	// there. A store prepares one object at a time. Nil if the type has nothing to prepare.
	Prepare func(db *DB, o *Object, budget int) (step func(w *Writer, o *Object) (more bool, err error), err error)

	// Wake returns when to call Compact next, in Unix milliseconds, 0 for never. It follows from the header alone. A
	// service calls DB.Wake for that, soon after the time. Nil if the type needs no such call.
	Wake func(o *Object) int64

	// Describe returns what the type adds to the facts that SIEVE.STATS knows of every key. It must not read blocks.
	// Nil if it adds nothing.
	Describe func(r Reader, o *Object) (Description, error)
	// Value returns a copy of the bytes of an object whose type is "string": a string that is stored in blocks. Nil for other
	// types.
	Value func(r Reader, o *Object) ([]byte, error)
}

// Description is what a type tells of an object.
type Description struct {
	Bytes uint64 // that its layers have room for
	Facts FactList
}

// Fact is one thing that a type tells of an object.
type Fact struct {
	Name  string // in lower case
	Value any    // string, bool, uint64, int64, float64, or []FactList
}

// FactList is what a type tells of a part of an object, such as a layer.
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
	// Done is called after the last block. It returns an error for what cannot be true of a sound object, and a note
	// for what is unlikely, such as a statistical remark; "" for none.
	Done() (note string, err error)
}

// registry has the types of the modules that a store was opened with.
type registry struct {
	types    map[string]*Type
	moduleOf map[string]string // by type name
}

// newRegistry returns the registry of the modules, or an error that lists what is wrong with them.
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
			case t.Open == nil || t.Name == format.StringType && (t.Value == nil || t.Describe == nil):
				errs = append(errs, fmt.Errorf("type %q: needs an Open, and if its name is %q, a Value and a Describe", t.Name, format.StringType))
			}
			r.types[t.Name], r.moduleOf[t.Name] = t, module
		}
	}
	return r, errors.Join(errs...)
}

// maxName is the most bytes of the name of a module, and of a type.
const maxName = 64

// Modules returns this store's modules, nil if Options.Modules was nil.
func (db *DB) Modules() Running { return db.running }

// GivenUp returns the error of a context that has ended. A loop over many keys or items calls it with the index of
// each, from 0, so that a command that is given up ends soon. It looks at the context for every 1024th index. A write
// calls it while it stages, so that a commit is whole or does not happen.
func GivenUp(ctx context.Context, i int) error {
	const few = 1024
	if i%few != 0 {
		return nil
	}
	return ctx.Err()
}
