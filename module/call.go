package module

import (
	"context"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module/reply"
)

// Call is one command on its way.
type Call struct {
	Context context.Context
	DB      *kv.DB
	Host    *Host // the modules of DB
	Session *Session
	Command *Command
	Args    [][]byte // the words after the name; valid during the call

	// Transaction is what the command is part of; nil if it is by itself. A
	// handler that uses Read, Write and Update need not look.
	Transaction *kv.Transaction
}

// Write runs a change, as DB.Write does, at the session's level of durability.
func (c *Call) Write(keys [][]byte, change func(*kv.Writer) error) error {
	if c.Transaction != nil {
		return c.Transaction.Write(change)
	}
	return c.DB.Write(c.Level(), keys, change)
}

// Read runs a lookup, as DB.Read does.
func (c *Call) Read(look func(kv.Reader) error) error {
	if c.Transaction != nil {
		return c.Transaction.ReadWith(kv.ReadOptions{Large: c.Session.large}, look)
	}
	return c.DB.ReadWith(kv.ReadOptions{Large: c.Session.large}, look)
}

// ReadLong is Read of what takes its time: it is of one moment, and keeps nobody waiting.
func (c *Call) ReadLong(look func(kv.Reader) error) error {
	if c.Transaction != nil {
		return c.Read(look)
	}
	return c.DB.ReadWith(kv.ReadOptions{Large: c.Session.large, Long: true}, look)
}

// Now returns the time at which the command is run, in Unix milliseconds: that of the
// transaction it is part of. It is not for what the command does inside Write.
func (c *Call) Now() int64 {
	now := c.DB.Now()
	if c.Transaction != nil {
		// Of a transaction that has ended the command will be told by what it does.
		_ = c.Transaction.Read(func(r kv.Reader) error { now = r.Now(); return nil })
	}
	return now
}

// ReadKeys is Read of the headers of several keys, and of nothing else, as of one moment.
func (c *Call) ReadKeys(look func(kv.Reader) error) error {
	if c.Transaction != nil || len(c.Args) == 1 {
		return c.Read(look)
	}
	return c.DB.ReadWith(kv.ReadOptions{Large: c.Session.large, Keys: true}, look)
}

// Update answers a command that writes to keys: with what f returns, once that is
// committed, or with its error and nothing written.
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

// elementBytes is what an element of a reply takes beside its bytes.
const elementBytes = 64

// Charge tells the session of a string that becomes part of the reply.
func (c *Call) Charge(bytes int) error {
	if c.Session.Charge == nil {
		return nil
	}
	return c.Session.Charge(bytes + elementBytes)
}

// Borrow tells the session of memory that the command takes for a while, until give is called.
func (c *Call) Borrow(bytes int) (give func(), err error) {
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

// Level returns the durability of the session's writes.
func (c *Call) Level() kv.Durability { return c.Session.Durability }
