package module

import (
	"strings"

	"github.com/sievekv/sievekv/module/reply"
)

// Flags describe a command, as COMMAND reports them.
type Flags uint16

// The flags. A command is Write or ReadOnly, or neither if it uses no keys, or only watches them.
const (
	Write Flags = 1 << iota
	ReadOnly
	DenyOOM // may make the store larger; COMMAND and the reference tell it, nothing else uses it
	Fast    // takes constant time, or nearly, such as a look at each layer of a filter
	Admin
	ModuleFlag // from a module, not built in
	NoMulti    // cannot be part of a transaction
	Brief      // its time depends only on how long its words are; COMMAND does not report it
)

var flagNames = []string{"write", "readonly", "denyoom", "fast", "admin", "module", "no_multi"}

// Names returns the names of the flags as COMMAND prints them.
func (f Flags) Names() []string {
	var names []string
	for i, name := range flagNames {
		if f>>i&1 != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Command is an entry of the command table. Help, hints, arity errors and COMMAND are made from it.
type Command struct {
	Name  string // as documented, in upper case
	Arity int    // number of words with the name; if negative, the least number
	Flags Flags

	// FirstKey, LastKey and KeyStep say which words are keys, as COMMAND reports them. FirstKey 0 means no keys; a
	// negative LastKey counts from the end.
	FirstKey, LastKey, KeyStep int

	// EveryKey, if set, reports whether the command, with these arguments, tells of every key, and names none. Its
	// users need permission to read all keys.
	EveryKey func(args [][]byte) bool

	// KeyFlags say what the command does with the first key, the second and so on, in the words of Redis' key
	// specifications, such as "OW update". The last one also holds for all following keys. The default is "RO access"
	// for a ReadOnly command, otherwise "RW access update".
	KeyFlags []string

	// KeyFlagsOf, if set, returns KeyFlags for a command whose arguments decide them.
	KeyFlagsOf func(args [][]byte) []string

	// Categories are the command's categories for access control lists, without the @, besides those that follow from
	// Group and Flags.
	Categories []string

	Group      string // for HELP @group
	Summary    string // one sentence
	Syntax     string // the words after the name
	Complexity string
	Example    string // command lines that run in an empty store; the last one runs this command

	Handler func(c *Call) reply.Reply

	// Series, if set, does what Handler does for several calls, none of them in a transaction. c is the first one.
	Series func(c *Call, calls *Series)

	// Subcommands are the choices for the second word of a command such as CONFIG. A subcommand's Name is that word.
	// Its Arity and its positions of keys count from the first word; its Args come after both words. HELP is added to
	// them, and if the command's Syntax is "", it is made from theirs. The command's own Handler runs without a second
	// word, and may be nil if the Arity does not allow that.
	Subcommands []Command

	// Refusal, if set, is the error reply to a wrong number of words, instead of WrongArity. Refused, if set, is
	// called then.
	Refusal string
	Refused func(c *Call)

	module    string     // the name of its module
	number    int        // its place among Table.Commands; 0 for a subcommand
	lower     string     // see LowerName; "" if the command is not in a Table
	arguments []Argument // from a server's COMMAND DOCS, see ReadTable; nil if Syntax has them
}

// Module returns the name of the command's module.
func (c *Command) Module() string { return c.module }

// Number returns the command's place among Table.Commands, from 0 on. It is not for subcommands.
func (c *Command) Number() int { return c.number }

// LowerName returns the command's name as in error texts.
func (c *Command) LowerName() string {
	if c.lower != "" {
		return c.lower
	}
	return strings.ToLower(c.Name)
}

// Takes reports whether the command may have n words, with its name.
func (c *Command) Takes(words int) bool {
	if c.Arity < 0 {
		return words >= -c.Arity
	}
	return words == c.Arity
}
