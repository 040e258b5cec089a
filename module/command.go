package module

import (
	"strings"

	"github.com/sievekv/sievekv/module/reply"
)

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

	// Refusal, if set, is the error reply to a wrong number of words, in place of WrongArity.
	// Refused, if set, is called then.
	Refusal string
	Refused func(c *Call)

	module    string     // by which it was registered
	arguments []Argument // of a command that a server tells of; nil of others, whose Syntax says them
}

// Module returns the name of the module that the command is of.
func (c *Command) Module() string { return c.module }

// LowerName is the command's name as error texts have it.
func (c *Command) LowerName() string { return strings.ToLower(c.Name) }

// Takes reports whether the command can have so many words, its name included.
func (c *Command) Takes(words int) bool {
	if c.Arity < 0 {
		return words >= -c.Arity
	}
	return words == c.Arity
}
