package history

import (
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/anishathalye/porcupine"
)

// Kind says how commands were done.
type Kind uint8

// The kinds of operations.
const (
	Plain    Kind = iota // one command, outside of transactions
	Update               // txntest.Update
	Rollback             // txntest.Update that ends with an error of its own
	View                 // txntest.View
	Exec                 // MULTI, the commands, EXEC
	Watch                // WATCH of the keys of one command
)

func (k Kind) String() string {
	return [...]string{"", "Update", "Rollback", "View", "MULTI", "WATCH"}[k]
}

// Operation is what one client did from one moment to another.
type Operation struct {
	Client   int
	Group    int // -1: all
	Kind     Kind
	Commands []Command
	Replies  []string
	Nil      bool  // EXEC answered nil
	Call     int64 // moments are counted, none is given twice
	Return   int64
}

// step is what the checker puts in order: an operation, or a part of it.
type step struct {
	op    *Operation
	parts []Part // all of the operation's; none if it happens at once
	part  int
}

// state is what the commands work on, of one group. It is compared by ==.
type state struct {
	keys [numKeys]Value

	// open are the operations that are partly done, by client.
	open [maxClients]open

	// watch is what each client watches.
	watch [maxClients]watch
}

type open struct {
	left  int // parts
	write keySet
}

type watch struct {
	keys  keySet
	dirty bool
}

// writers returns the keys of writes that are partly done, except one client's.
func (s *state) writers(but int) (keys keySet) {
	for client, o := range s.open {
		if client != but {
			keys |= o.write
		}
	}
	return keys
}

// lookups reports whether there are lookups that are partly done.
func (s *state) lookups() bool {
	for _, o := range s.open {
		if o.left > 0 && o.write == 0 {
			return true
		}
	}
	return false
}

func (s *state) tell(touched keySet) {
	for i := range s.watch {
		if s.watch[i].keys&touched != 0 {
			s.watch[i].dirty = true
		}
	}
}

// apply does a command and reports whether the reply is right.
func (s *state) apply(c Command, reply string) (touched keySet, right bool) {
	var want string
	if c.Type == nil {
		s.keys, want, touched = applyAny(s.keys, c)
		return touched, reply == want
	}
	var changed bool
	key := c.Keys[0]
	s.keys[key], want, changed = c.Type.Apply(s.keys[key], c)
	if changed {
		touched.add(key)
	}
	return touched, reply == want
}

// next returns the state after a step, false if it cannot be taken.
func next(s state, st step) (state, bool) {
	switch op := st.op; {
	case len(st.parts) > 0:
		return s.partial(st)
	case op.Kind == Plain:
		return s.plain(op)
	default:
		return s.together(op)
	}
}

// partial does a part of an operation. What is seen in parts is one commit or one lookup all the same: other commits
// to the same filter, and those that replace what is under a key, come before or after all of them.
func (s state) partial(st step) (state, bool) {
	client, part := st.op.Client, st.parts[st.part]
	o := &s.open[client]
	if o.left == 0 {
		o.left = len(st.parts)
	}
	o.left--
	if st.op.Kind == Watch {
		s.watch[client].keys.add(part.Keys[0])
		return s, true
	}
	before := s.keys
	touched, right := s.apply(part.Command, part.Reply)
	if !right {
		return s, false
	}
	if s.keys == before && touched == 0 && o.write == 0 { // a lookup, or an item already there
		return s, true
	}
	for _, key := range part.Keys {
		o.write.add(key)
	}
	if s.writers(client)&o.write != 0 {
		return s, false
	}
	s.tell(touched)
	if o.left == 0 {
		o.write = 0
	}
	return s, true
}

// plain does a command that happens at once.
func (s state) plain(op *Operation) (state, bool) {
	before := s.keys
	touched, right := s.apply(op.Commands[0], op.Replies[0])
	if !right || !s.between(before, touched, op.Client, false) {
		return s, false
	}
	s.tell(touched)
	return s, true
}

// between reports whether a change may happen at once where the state is: one of
// more than one string does not happen in the middle of others.
func (s *state) between(before [numKeys]Value, touched keySet, client int, together bool) bool {
	changed, replaced := 0, together
	for key, v := range before {
		if !touched.has(key) {
			continue
		}
		changed++
		filter := func(v Value) bool { return v != Value{} && v.Type != (text{}).Name() }
		replaced = replaced || filter(v) || filter(s.keys[key])
	}
	if changed > 1 || changed == 1 && replaced {
		return s.writers(client) == 0 && !s.lookups()
	}
	return true
}

// together does the commands of a transaction or a view.
func (s state) together(op *Operation) (state, bool) {
	if op.Kind == Exec {
		dirty := s.watch[op.Client].dirty
		s.watch[op.Client] = watch{}
		if op.Nil {
			// A client may be told of a change that it has seen just before
			// it began to watch; never is one kept from it.
			return s, true
		}
		if dirty {
			return s, false
		}
	}
	if s.writers(op.Client) != 0 {
		return s, false // transactions and views begin between commits
	}
	begun := s
	var touched keySet
	for i, c := range op.Commands {
		changed, right := s.apply(c, op.Replies[i])
		if !right {
			return s, false
		}
		touched |= changed
	}
	if op.Kind == Rollback || op.Kind == View {
		return begun, op.Kind == Rollback || s.keys == begun.keys
	}
	for key := range numKeys { // made and removed by the same transaction
		if begun.keys[key] == (Value{}) && s.keys[key] == (Value{}) {
			touched &^= 1 << key
		}
	}
	onlyString := len(op.Commands) == 1 && op.Commands[0].Type == Type(text{})
	if !s.between(begun.keys, touched, op.Client, !onlyString) {
		return s, false
	}
	s.tell(touched)
	return s, true
}

// split returns the steps of an operation.
func split(op *Operation) []step {
	var parts []Part
	switch {
	case op.Kind == Watch:
		for _, key := range op.Commands[0].Keys {
			parts = append(parts, Part{Command: Command{Name: "WATCH", Keys: []int{key}}})
		}
	case op.Kind == Plain && op.Commands[0].Type != nil:
		parts = op.Commands[0].Type.Split(op.Commands[0], op.Replies[0])
	}
	if len(parts) == 0 {
		return []step{{op: op}}
	}
	steps := make([]step, len(parts))
	for i := range parts {
		steps[i] = step{op, parts, i}
	}
	return steps
}

var hashSeed = maphash.MakeSeed()

// model is the model of one group.
var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, in, _ any) (bool, any) {
		after, possible := next(s.(state), in.(step))
		return possible, after
	},
	Hash:              func(s any) uint64 { return maphash.Comparable(hashSeed, s.(state)) },
	DescribeOperation: func(in, _ any) string { return in.(step).String() },
	DescribeState:     func(s any) string { return s.(state).String() },
}

func (st step) String() string {
	if len(st.parts) > 0 {
		p := st.parts[st.part]
		return fmt.Sprintf("%v %v -> %s (%d of %d)", st.op.Kind, p.Command, p.Reply, st.part+1, len(st.parts))
	}
	return st.op.String()
}

func (op *Operation) String() string {
	var b strings.Builder
	fmt.Fprint(&b, op.Kind)
	for i, c := range op.Commands {
		fmt.Fprintf(&b, " %v", c)
		if i < len(op.Replies) {
			fmt.Fprintf(&b, " -> %s;", op.Replies[i])
		}
	}
	if op.Nil {
		b.WriteString(" -> nil")
	}
	return b.String()
}

func (c Command) String() string { return fmt.Sprintf("%s %v %v", c.Name, c.Keys, c.Args) }

func (s state) String() string {
	var b strings.Builder
	for key, v := range s.keys {
		if v == (Value{}) {
			continue
		}
		for _, t := range Types {
			if t.Name() == v.Type {
				fmt.Fprintf(&b, "%d=%s ", key, t.Describe(v))
			}
		}
	}
	fmt.Fprintf(&b, "open %v watched %v", s.open, s.watch)
	return b.String()
}
