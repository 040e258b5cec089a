package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// maxClients is the most clients of a history.
const maxClients = 6

// client does random operations and records them.
type client struct {
	n       int
	db      *kv.DB
	clock   *atomic.Int64 // counts the moments
	random  *rand.Rand
	session *module.Session
	types   []Type
	handles map[string]Handle // by type and key: they live as long as the client
	history []*Operation
}

func newClient(n int, db *kv.DB, clock *atomic.Int64, seed uint64) *client {
	return &client{
		n: n, db: db, clock: clock, random: rand.New(rand.NewPCG(seed, uint64(n))),
		session: module.NewSession(db), types: typesOf(db), handles: make(map[string]Handle),
	}
}

// record records an operation that f does and completes.
func (c *client) record(group int, kind Kind, commands []Command, f func(op *Operation) error) error {
	op := &Operation{Client: c.n, Group: group, Kind: kind, Commands: commands}
	op.Call = c.clock.Add(1)
	err := f(op)
	op.Return = c.clock.Add(1)
	c.history = append(c.history, op)
	return err
}

func (c *client) level() kv.Durability {
	if c.random.IntN(3) == 0 {
		return kv.Always
	}
	return kv.NoSync
}

// step does a random operation, or a few that belong together. The first client only
// looks, as nothing makes it wait for commits that the others are making.
func (c *client) step(ctx context.Context) error {
	group := c.random.IntN(groups)
	if c.n == 0 {
		time.Sleep(time.Duration(c.random.IntN(100)) * time.Microsecond) // the others take longer
		return c.poll(ctx, group)
	}
	switch r := c.random.IntN(200); {
	case r < 1:
		return c.plain(ctx, -1, Command{Name: "FLUSHALL"})
	case r < 30:
		return c.update(ctx, group, Update)
	case r < 34:
		return c.update(ctx, group, Rollback)
	case r < 48:
		return c.view(ctx, group)
	case r < 58:
		return c.exec(ctx, group, c.commands(2+c.random.IntN(3)))
	case r < 66:
		return c.optimistic(ctx, group)
	case r < 72:
		return c.compareAndSet(ctx, group)
	case r < 120:
		return c.plain(ctx, group, c.read())
	case r < 124:
		return c.poll(ctx, group)
	default:
		return c.plain(ctx, group, c.write())
	}
}

func (c *client) read() Command {
	if c.random.IntN(8) == 0 {
		return readAny(c.random)
	}
	return c.filterOrRow().Read(c.random)
}

func (c *client) write() Command {
	if c.random.IntN(3) == 0 {
		return writeAny(c.random)
	}
	return c.filterOrRow().Write(c.random)
}

// filterOrRow returns a type, more often a filter's.
func (c *client) filterOrRow() Type {
	if c.random.IntN(4) == 0 {
		return c.types[len(c.types)-1]
	}
	return c.types[c.random.IntN(len(c.types)-1)]
}

// commands returns reads and writes.
func (c *client) commands(n int) []Command {
	list := make([]Command, n)
	for i := range list {
		if list[i] = c.write(); c.random.IntN(3) == 0 {
			list[i] = c.read()
		}
	}
	return list
}

// plain does a command, by a call or in the session.
func (c *client) plain(ctx context.Context, group int, cmd Command) error {
	level := c.level()
	inSession := c.random.IntN(2) == 0
	return c.record(group, Plain, []Command{cmd}, func(op *Operation) error {
		if !inSession {
			if reply, done := c.call(ctx, group, cmd, level, nil); done {
				op.Replies = []string{reply}
				return nil
			}
		}
		c.session.Durability = level
		op.Replies = []string{textOf(c.do(ctx, words(group, cmd)))}
		return nil
	})
}

// poll does the same lookups again and again, so fast that some fall into the middle of another's commit.
func (c *client) poll(ctx context.Context, group int) error {
	t := c.filterOrRow()
	for range 20 {
		if err := c.plain(ctx, group, t.Read(c.random)); err != nil {
			return err
		}
	}
	return nil
}

// call does a command by a call that Go programs use; false if there is none.
func (c *client) call(ctx context.Context, group int, cmd Command, level kv.Durability, scope kv.Scope) (string, bool) {
	if cmd.Type == nil {
		return doAny(ctx, c.db, cmd, names(group, cmd), level, scope)
	}
	key := keyName(group, cmd.Keys[0])
	id := cmd.Type.Name() + " " + key
	if c.handles[id] == nil {
		c.handles[id] = cmd.Type.Handle(c.db, key)
	}
	return c.handles[id].Do(cmd, level, scope)
}

// do does words in the session.
func (c *client) do(ctx context.Context, words []string) reply.Reply {
	line := make([][]byte, len(words))
	for i, word := range words {
		line[i] = []byte(word)
	}
	return c.session.Do(ctx, line)
}

func names(group int, cmd Command) []string {
	list := make([]string, len(cmd.Keys))
	for i, key := range cmd.Keys {
		list[i] = keyName(group, key)
	}
	return list
}

func words(group int, cmd Command) []string {
	if cmd.Type == nil {
		return append([]string{cmd.Name}, names(group, cmd)...)
	}
	return cmd.Type.Words(cmd, keyName(group, cmd.Keys[0]))
}

// inside does commands in a transaction or view, those there is a call for.
func (c *client) inside(ctx context.Context, op *Operation, group int, commands []Command, scope kv.Scope) {
	for _, cmd := range commands {
		yield() // the others come in between if anything lets them
		if reply, done := c.call(ctx, group, cmd, kv.NoSync, scope); done {
			op.Commands = append(op.Commands, cmd)
			op.Replies = append(op.Replies, reply)
		}
	}
}

var errRollback = errors.New("history: rolled back")

// update changes a filter and what belongs to it together, or anything.
func (c *client) update(ctx context.Context, group int, kind Kind) error {
	commands := c.commands(1 + c.random.IntN(3))
	if c.random.IntN(2) == 0 {
		filter := c.types[c.random.IntN(len(c.types)-1)]
		row := Command{Type: text{}, Name: "SET", Keys: []int{2}, Args: []string{"v" + strconv.Itoa(c.random.IntN(1000))}}
		count := Command{Type: text{}, Name: "INCRBY", Keys: []int{4}, Args: []string{"1"}}
		commands = []Command{filter.Write(c.random), filter.Write(c.random), row, count}
		commands = commands[:2+c.random.IntN(3)]
	}
	level := c.level()
	return c.record(group, kind, nil, func(op *Operation) error {
		err := txntest.Update(ctx, c.db, level, func(tx *txntest.Tx) error {
			c.inside(ctx, op, group, commands, tx)
			if kind == Rollback {
				return errRollback
			}
			return nil
		})
		if kind == Rollback && errors.Is(err, errRollback) {
			return nil
		}
		return err
	})
}

// compareAndSet sets a number to one more than it is.
func (c *client) compareAndSet(ctx context.Context, group int) error {
	level := c.level()
	return c.record(group, Update, nil, func(op *Operation) error {
		return txntest.Update(ctx, c.db, level, func(tx *txntest.Tx) error {
			c.inside(ctx, op, group, []Command{{Type: text{}, Name: "GET", Keys: []int{4}}}, tx)
			c.inside(ctx, op, group, []Command{incremented(op.Replies[0])}, tx)
			return nil
		})
	})
}

// incremented returns a command that sets the number to one more than read.
func incremented(read string) Command {
	n, err := strconv.Atoi(read)
	if err != nil {
		n = 0 // missing, or of another type
	}
	return Command{Type: text{}, Name: "SET", Keys: []int{4}, Args: []string{strconv.Itoa(n + 1)}}
}

func (c *client) view(ctx context.Context, group int) error {
	commands := make([]Command, 2+c.random.IntN(4))
	for i := range commands {
		commands[i] = c.read()
	}
	return c.record(group, View, nil, func(op *Operation) error {
		return txntest.View(ctx, c.db, func(s *txntest.Snapshot) error {
			c.inside(ctx, op, group, commands, s)
			return nil
		})
	})
}

// optimistic watches keys, reads them, and writes by what was read.
func (c *client) optimistic(ctx context.Context, group int) error {
	filter := c.types[c.random.IntN(len(c.types)-1)].Read(c.random)
	number := Command{Type: text{}, Name: "GET", Keys: []int{4}}
	watched := Command{Name: "WATCH", Keys: []int{filter.Keys[0], number.Keys[0]}}
	err := c.record(group, Watch, []Command{watched}, func(op *Operation) error {
		if r := c.do(ctx, words(group, watched)); textOf(r) != ok {
			return fmt.Errorf("WATCH answers %v", r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := c.plain(ctx, group, filter); err != nil {
		return err
	}
	if err := c.plain(ctx, group, number); err != nil {
		return err
	}
	seen := c.history[len(c.history)-1].Replies[0]
	return c.exec(ctx, group, []Command{filter, number, incremented(seen)})
}

// exec does commands as MULTI and EXEC do.
func (c *client) exec(ctx context.Context, group int, commands []Command) error {
	c.session.Durability = c.level()
	return c.record(group, Exec, commands, func(op *Operation) error {
		if r := c.do(ctx, []string{"MULTI"}); textOf(r) != ok {
			return fmt.Errorf("MULTI answers %v", r)
		}
		for _, cmd := range commands {
			if r := c.do(ctx, words(group, cmd)); textOf(r) != "QUEUED" {
				return fmt.Errorf("%v inside MULTI answers %v", cmd, r)
			}
		}
		r := c.do(ctx, []string{"EXEC"})
		if r.Kind() == reply.KindNil {
			op.Nil = true
			return nil
		}
		if r.Kind() != reply.KindArray || len(r.Elems()) != len(commands) {
			return fmt.Errorf("EXEC of %d commands answers %v", len(commands), r)
		}
		for _, e := range r.Elems() {
			op.Replies = append(op.Replies, textOf(e))
		}
		return nil
	})
}
