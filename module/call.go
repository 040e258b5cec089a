package module

import (
	"context"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module/reply"
)

// Call is one run of a command. A handler must not use it after it has returned.
type Call struct {
	Context context.Context
	DB      *kv.DB
	Host    *Host // the modules of DB
	Session *Session
	Command *Command
	Args    [][]byte // the words after the name; valid during the call

	// Transaction is the transaction that the command is part of, nil if there is none. Handlers that use Read, Write
	// and Update need not look at it.
	Transaction *kv.Transaction
}

// Write runs a change as kv.DB.Write does, at the session's level of durability, or as part of the call's transaction.
func (c *Call) Write(keys [][]byte, change func(*kv.Writer) error) error {
	if c.Transaction != nil {
		return c.Transaction.Write(change)
	}
	return c.DB.Write(c.Level(), keys, change)
}

// Read runs a lookup as kv.DB.Read does, or as part of the call's transaction.
func (c *Call) Read(look func(kv.Reader) error) error {
	look = c.charging(look)
	if c.Transaction != nil {
		return c.Transaction.ReadWith(kv.ReadOptions{Large: c.Session.large}, look)
	}
	return c.DB.ReadWith(kv.ReadOptions{Large: c.Session.large}, look)
}

// ReadLong is Read for lookups that take long: they see the store as of one moment, and no writer waits for them.
func (c *Call) ReadLong(look func(kv.Reader) error) error {
	if c.Transaction != nil {
		return c.Read(look)
	}
	return c.DB.ReadWith(kv.ReadOptions{Large: c.Session.large, Long: true}, c.charging(look))
}

// charging returns a lookup that may run several times. What it charges when it runs counts in place of what it charged
// before.
func (c *Call) charging(look func(kv.Reader) error) func(kv.Reader) error {
	s := c.Session
	if s.Charge == nil {
		return look
	}
	before := s.charged
	return func(r kv.Reader) error {
		if again := s.charged - before; again != 0 {
			_ = s.charge(-again) // giving memory back cannot fail
		}
		return look(r)
	}
}

// Now returns the time of the command in Unix milliseconds: in a transaction, the transaction's. Inside Write, use
// Writer.Now instead.
func (c *Call) Now() int64 {
	now := c.DB.Now()
	if c.Transaction != nil {
		// If the transaction has ended, the command itself will fail.
		_ = c.Transaction.Read(func(r kv.Reader) error { now = r.Now(); return nil })
	}
	return now
}

// ReadKeys is Read for lookups that read keys and strings, and nothing else, as of one moment.
func (c *Call) ReadKeys(look func(kv.Reader) error) error {
	if c.Transaction != nil || len(c.Args) == 1 {
		return c.Read(look)
	}
	return c.DB.ReadWith(kv.ReadOptions{Large: c.Session.large, Keys: true}, c.charging(look))
}

// Update runs a change and returns the reply of f once the change is committed. If f fails, nothing is written and
// the reply is the error.
func (c *Call) Update(keys [][]byte, f func(*kv.Writer) (reply.Reply, error)) reply.Reply {
	var answer reply.Reply
	err := c.Write(keys, func(w *kv.Writer) (err error) {
		answer, err = f(w)
		return err
	})
	if err != nil {
		return ErrorReply(err)
	}
	return answer
}

// elementBytes is roughly the memory of an element of a reply, besides its bytes.
const elementBytes = 64

// Charge counts the memory of a string that becomes part of the reply.
func (c *Call) Charge(bytes int) error {
	return c.Session.charge(bytes + elementBytes)
}

// Grow appends an element to the list of a reply, and counts its memory.
func (c *Call) Grow(list []reply.Reply, element reply.Reply) ([]reply.Reply, error) {
	return append(list, element), c.Session.charge(element.Size())
}

// keptBytes is the most memory for a string that a session keeps.
const keptBytes = 1 << 10

// Memory returns an empty slice for a short string that is the whole reply; nil if the reply may be needed for longer
// than until the next command. The handler appends to it, and passes the result to Remember.
func (c *Call) Memory() []byte {
	if !c.Session.ShortLived {
		return nil
	}
	return c.Session.memory[:0]
}

// Remember keeps the memory of a string for the next call of Memory, and returns the string.
func (c *Call) Remember(value []byte) []byte {
	if c.Session.ShortLived && cap(value) <= keptBytes && cap(value) > 0 {
		c.Session.memory = value[:0]
	}
	return value
}

// Borrow counts memory that the command uses until it calls give.
func (c *Call) Borrow(bytes int) (give func(), err error) {
	if c.Session.Charge == nil {
		return func() {}, nil
	}
	give = func() { _ = c.Session.charge(-bytes) } // giving memory back cannot fail
	if err := c.Session.charge(bytes); err != nil {
		give()
		return nil, err
	}
	return give, nil
}

// Level returns the durability of the session's writes.
func (c *Call) Level() kv.Durability { return c.Session.Durability }
