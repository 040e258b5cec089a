package kv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/sievekv/sievekv/kv/reply"
)

// Module is an extension of a store: data types, commands that work on them, services
// that run beside it, and settings. It is passed to Open in Options.Modules.
type Module struct {
	// Name, 1 to 64 bytes, is stored in the header of every object of the
	// module's types: a program without the module can tell what is missing.
	Name     string
	Types    []*Type
	Commands []Command
	Services []Service
	Settings []Setting

	// Version is what MODULE LIST says, 10000 for 1.0.0. Modules with 0 are not listed.
	Version int

	// ResetStats, if set, sets counts back to 0 that INFO shows, for CONFIG RESETSTAT.
	ResetStats func(db *DB)
}

// Type is a data type.
type Type struct {
	// Name is what TYPE prints, 1 to 64 bytes. It is stored; never reuse one.
	Name string

	// Version is the format version of new objects' parameters. Objects of a
	// later version are refused with ErrUnsupportedVersion before Open sees them.
	Version uint8

	// Open decodes the parameters of an object just opened or created, and
	// returns what Object.Body gives to the module's code. An error refuses the
	// object: ErrCorrupt for parameters that do not decode.
	Open func(o *Object) (any, error)

	// Verify checks what only the module knows, for a check of the whole store:
	// it is given every block of every layer, and then, once, ok by Done.
	Verify func(o *Object) Verifier

	// Compact stages changes that make an object smaller, for a commit of about
	// budget bytes at most, and reports whether there is more to do. Lookups see
	// the commit as one, and answer as before. It is called for keys given to
	// DB.QueueCompact; nil if the type has no use for that.
	Compact func(w *Writer, o *Object, budget int) (more bool, err error)

	// Describe returns what SIEVE.STATS answers of an object, besides what it knows of
	// every key. It must not read blocks. Nil if there is nothing to add.
	Describe func(r Reader, o *Object) (Description, error)
}

// Description is what a type has to say of an object.
type Description struct {
	Bytes uint64       // of what its layers have room for
	Facts []reply.Pair // names in lower case, and values
}

// Verifier checks one object.
type Verifier interface {
	// Block is given each stored block in order; words are valid during the call.
	Block(l *Layer, blk uint64, words []uint64) error
	// Done is called after the last block. It returns an error for what cannot
	// be, and a note for what is unlikely: a statistical remark, or "".
	Done() (note string, err error)
}

// Service runs beside an open store.
type Service interface {
	// Start begins the work and returns; it must not write before it returns.
	Start(db *DB) error
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

// Flags of a command, as COMMAND reports them.
type Flags uint16

// The flags. A command is Write or ReadOnly, or neither if it does not touch keys.
const (
	Write Flags = 1 << iota
	ReadOnly
	DenyOOM // may make the store larger
	Fast    // does not depend on the size of anything
	Admin
	ModuleFlag // of a module, not built in
	NoMulti    // cannot be part of a transaction
)

var flagNames = []string{"write", "readonly", "denyoom", "fast", "admin", "module", "no_multi"}

// Names returns the flags' names as COMMAND prints them.
func (f Flags) Names() []string {
	var names []string
	for i, name := range flagNames {
		if f>>i&1 != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Command is an entry of the command table, from which help, hints, arity errors
// and COMMAND are made.
type Command struct {
	Name  string // as documented, in upper case
	Arity int    // words with the name; negative: at least that many
	Flags Flags

	// FirstKey, LastKey and KeyStep say which words are keys, as COMMAND
	// reports them: 0 for none, a negative LastKey counts from the end.
	FirstKey, LastKey, KeyStep int

	// KeyFlags say what is done with the first key, the second and so on, in the words of
	// Redis' key specifications, such as "OW update"; the last also of all keys behind it.
	// By default "RO access" if the command is ReadOnly, and else "RW access update".
	KeyFlags []string

	// KeyFlagsOf, if set, is KeyFlags of a command whose other arguments decide that.
	KeyFlagsOf func(args [][]byte) []string

	// Categories are those of access control lists, without the @, beside those that Group
	// and Flags stand for.
	Categories []string

	Group      string // for HELP @group
	Summary    string // one sentence
	Syntax     string // the words after the name
	Complexity string
	Example    string // command lines that run in an empty store, the last of this command

	Handler func(c *Call) reply.Reply

	// Subcommands are what the second word chooses from, as that of CONFIG does. The
	// name of each is that word; Arity and the places of keys count from the first
	// word, Args are those behind both. HELP is added, and a Syntax that is "" is made
	// of theirs. With them, the Handler is for the command without a second word, and
	// may be nil if the Arity does not allow that.
	Subcommands []Command

	// Refuse, if set, answers in place of Handler where the number of words is wrong,
	// and not with WrongArity.
	Refuse func(c *Call) reply.Reply

	module string // by which it was registered
}

// Call is one command on its way.
type Call struct {
	Context context.Context
	DB      *DB
	Session *Session
	Command *Command
	Args    [][]byte // the words after the name; valid during the call

	// Transaction is what the command is part of; nil if it is by itself. A
	// handler that uses Read, Write and Update need not look.
	Transaction *Transaction
}

// Write runs a change, as DB.Write does, at the session's level of durability.
func (c *Call) Write(keys [][]byte, change func(*Writer) error) error {
	if c.Transaction != nil {
		return c.Transaction.Write(change)
	}
	return c.DB.Write(c.Level(), keys, change)
}

// Read runs a lookup, as DB.Read does.
func (c *Call) Read(look func(Reader) error) error {
	if c.Transaction != nil {
		return c.Transaction.read(c.Session.large, look)
	}
	return c.DB.read(c.Session.large, look)
}

// now returns the time at which the command is run, in Unix milliseconds: that of the
// transaction it is part of. It is not for what the command does inside Write.
func (c *Call) now() int64 {
	now := c.DB.Now()
	if c.Transaction != nil {
		// Of a transaction that has ended the command will be told by what it does.
		_ = c.Transaction.Read(func(r Reader) error { now = r.now(); return nil })
	}
	return now
}

// readKeys is Read of the headers of several keys, as of one moment.
func (c *Call) readKeys(look func(Reader) error) error {
	if c.Transaction != nil || len(c.Args) == 1 {
		return c.Read(look)
	}
	return c.DB.readKeys(c.Session.large, look)
}

// Update answers a command that writes to keys: with what f returns, once that is
// committed, or with its error and nothing written.
func (c *Call) Update(keys [][]byte, f func(*Writer) (reply.Reply, error)) reply.Reply {
	var answer reply.Reply
	err := c.Write(keys, func(w *Writer) (err error) {
		answer, err = f(w)
		return err
	})
	if err != nil {
		return ErrorReply(err)
	}
	return answer
}

// elementBytes is what an element of a reply takes beside its bytes.
const elementBytes = 64

// Charge tells the session of a string that becomes part of the reply.
func (c *Call) Charge(bytes int) error {
	if c.Session.Charge == nil {
		return nil
	}
	return c.Session.Charge(bytes + elementBytes)
}

// borrow tells the session of memory that the command takes for a while, until give is called.
func (c *Call) borrow(bytes int) (give func(), err error) {
	if c.Session.Charge == nil {
		return func() {}, nil
	}
	give = func() { _ = c.Session.Charge(-bytes) } // which is less, and so no matter of room
	if err := c.Session.Charge(bytes); err != nil {
		give()
		return nil, err
	}
	return give, nil
}

// GivenUp returns the error of a context that has ended: what goes through many keys or
// items asks it for each, counted by i from 0, so that nobody waits for the rest of a
// command that is given up. It looks for every 1024th. A write asks while it stages, so that
// there is all of it or nothing.
func GivenUp(ctx context.Context, i int) error {
	const few = 1024
	if i%few != 0 {
		return nil
	}
	return ctx.Err()
}

// Level returns the durability of the session's writes.
func (c *Call) Level() Durability { return c.Session.Durability }

// registry is what the modules of a store registered. But for the values of settings it
// never changes after Open.
type registry struct {
	modules  []Module
	types    map[string]*Type
	moduleOf map[string]string // by type name
	commands map[string]*Command
	names    []string // of commands, sorted
	started  []Service

	settings     map[string]*setting
	settingNames []string   // sorted
	settingsMu   sync.Mutex // held while values change
}

// newRegistry returns the registry of a store in a directory. The options have their defaults.
func newRegistry(o *Options, dir string) *registry {
	r := &registry{
		types: make(map[string]*Type), moduleOf: make(map[string]string), commands: make(map[string]*Command),
		settings: make(map[string]*setting),
	}
	r.modules = append([]Module{builtIn(o, dir)}, o.Modules...)
	for _, m := range r.modules {
		for _, t := range m.Types {
			r.types[t.Name], r.moduleOf[t.Name] = t, m.Name
		}
		for i := range m.Commands {
			cmd := m.Commands[i].withSubcommands(m.Name)
			r.commands[fold(cmd.Name)] = cmd
			r.names = append(r.names, fold(cmd.Name))
		}
		r.addSettings(m.Settings)
	}
	slices.Sort(r.names)
	slices.Sort(r.settingNames)
	return r
}

// validateModules finds what would make two modules get in each other's way.
func (o *Options) validateModules() error {
	var errs []error
	seen := make(map[string]bool)
	once := func(what, name string) {
		if len(name) < 1 || len(name) > 64 {
			errs = append(errs, fmt.Errorf("%s name %q: 1 to 64 bytes", what, name))
		}
		if seen[what+name] {
			errs = append(errs, fmt.Errorf("%s %q is registered twice", what, name))
		}
		seen[what+name] = true
	}
	for _, m := range append([]Module{builtIn(o, "")}, o.Modules...) {
		once("module", m.Name)
		for _, t := range m.Types {
			once("type", t.Name)
			if t.Open == nil || t.Name == stringType {
				errs = append(errs, fmt.Errorf("type %q: needs an Open and a name other than %q", t.Name, stringType))
			}
		}
		for _, c := range m.Commands {
			once("command", fold(c.Name))
			errs = append(errs, validateCommand(&c, "command "+strconv.Quote(c.Name)))
			for _, sub := range c.Subcommands {
				once("subcommand", fold(c.Name+"|"+sub.Name))
				errs = append(errs, validateCommand(&sub, "subcommand "+strconv.Quote(c.Name+"|"+sub.Name)))
			}
		}
		for i := range m.Settings {
			once("setting", m.Settings[i].Name)
			if err := validateSetting(&m.Settings[i]); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

func validateCommand(c *Command, what string) error {
	needed := len(c.Subcommands) == 0 || c.Takes(1)
	if c.Handler == nil && needed || c.Arity == 0 || c.Summary == "" {
		return fmt.Errorf("%s: needs a Handler, an Arity other than 0 and a Summary", what)
	}
	return nil
}

func (r *registry) typeNamed(name string) *Type { return r.types[name] }

func (r *registry) command(name []byte) *Command {
	if c := r.commands[string(name)]; c != nil {
		return c // upper case already
	}
	return r.commands[fold(string(name))]
}

func (r *registry) start(db *DB) error {
	for _, m := range r.modules {
		for _, s := range m.Services {
			if err := s.Start(db); err != nil {
				return fmt.Errorf("kv: start a service of module %s: %w", m.Name, err)
			}
			r.started = append(r.started, s)
		}
	}
	return nil
}

// stop ends the services, the last started first. It is called once.
func (r *registry) stop() {
	for _, s := range slices.Backward(r.started) {
		s.Stop()
	}
}

// Command returns the command of a name, in any case; nil if there is none.
func (db *DB) Command(name []byte) *Command { return db.registry.command(name) }

// Commands returns the command table, sorted by name, without subcommands.
func (db *DB) Commands() []*Command {
	list := make([]*Command, len(db.registry.names))
	for i, name := range db.registry.names {
		list[i] = db.registry.commands[name]
	}
	return list
}
