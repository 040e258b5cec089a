package history

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

// Command is a command on keys of a group, given by their numbers.
type Command struct {
	Type Type // whose command it is; nil for commands of any key
	Name string
	Keys []int
	Args []string // as the type has them, not always as they are on the wire
}

// Value is what is under a key: data that only its type can read. The zero value stands for a missing key. Values with
// equal content are equal.
type Value struct{ Type, Data string }

// Type is a type of values: what its commands do, and how to give them to a store.
type Type interface {
	// Name is what TYPE answers.
	Name() string

	// Keys are the numbers of the keys it is used under. Commands of any key move values to others of the same group.
	Keys() []int

	// Read and Write return random commands.
	Read(random *rand.Rand) Command
	Write(random *rand.Rand) Command

	// Apply returns what a command makes of a value, the reply, and whether it counts as a change for watchers of the
	// key.
	Apply(v Value, c Command) (after Value, reply string, touched bool)

	// Split returns the commands in place of one outside of a transaction that others, or the lookup itself, may see
	// happening one after the other, in any order, with their replies; nil for one that happens at once. They need
	// not be commands of the store.
	Split(c Command, reply string) []Part

	// Describe returns a value in words.
	Describe(v Value) string

	// Words returns a command as a session takes it.
	Words(c Command, key string) []string

	// Handle returns a handle on a key.
	Handle(db *kv.DB, key string) Handle
}

// Part is a part of a command.
type Part struct {
	Command
	Reply string
}

// Handle does commands by the calls that Go programs use.
type Handle interface {
	// Do returns the reply; false if there is no such call. Scope is nil outside of transactions and views.
	Do(c Command, level kv.Durability, scope kv.Scope) (reply string, ok bool)
}

// Types are the types in use, filters first.
var Types = []Type{bloom{}, counting{}, cuckoo{}, text{}}

// typesOf returns Types for a store, whose settings say which layout new filters have.
func typesOf(db *kv.DB) []Type {
	types := slices.Clone(Types)
	types[slices.Index(types, Type(cuckoo{}))] = cuckoo{compatible: scalableext.LayoutOf(db, "cf-layout") == scalableext.LayoutCompatible}
	return types
}

const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"

// Replies of integers and of commands without a result.
const (
	none = "nil"
	ok   = "OK"
)

// digit returns the reply that stands for a truth.
func digit(yes bool) string {
	if yes {
		return "1"
	}
	return "0"
}

func digits(yes []bool) []string {
	list := make([]string, len(yes))
	for i := range yes {
		list[i] = digit(yes[i])
	}
	return list
}

// list and unlist turn several replies into an array, and back.
func list(elems []string) string   { return "[" + strings.Join(elems, " ") + "]" }
func unlist(reply string) []string { return strings.Fields(strings.Trim(reply, "[]")) }

// textOf returns a reply as the model has it.
func textOf(r reply.Reply) string {
	switch r = r.RESP2(); r.Kind() {
	case reply.KindNil:
		return none
	case reply.KindInt:
		return decimal(r.Int())
	case reply.KindArray:
		elems := make([]string, len(r.Elems()))
		for i, e := range r.Elems() {
			elems[i] = textOf(e)
		}
		return list(elems)
	case reply.KindBulk:
		return unpad(string(r.Bytes()))
	}
	return string(r.Bytes())
}

// errorText returns the reply for an error.
func errorText(err error) string { return textOf(module.ErrorReply(err)) }
