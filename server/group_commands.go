package server

import (
	"context"
	"time"

	"github.com/sievekv/sievekv/internal/cluster"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// sieveRead is SIEVE.READ.
const sieveRead = "SIEVE.READ"

// GroupModule returns the module that a store of a group needs beside Module: the commands of Redis Cluster, and SIEVE.READ.
// Without Options.Group they answer the error of a Redis that is no cluster.
func GroupModule() module.Module {
	row := func(name string, arity int, syntax, summary, example string, f func(*conn, *module.Call) reply.Reply) module.Command {
		return module.Command{
			Name: name, Arity: arity, Flags: module.Fast | module.ModuleFlag, Group: "cluster", Categories: []string{"connection"},
			Summary: summary, Syntax: syntax, Complexity: "O(1)", Example: example, Handler: inGroup(f),
		}
	}
	family := row("CLUSTER", -2, "", "Answers what clients need to know of the group's members and slots.", "CLUSTER KEYSLOT user:1", nil)
	family.Flags, family.Categories = module.ModuleFlag, nil
	family.Complexity, family.Subcommands = "O(N) for N members; O(N) for N keys with COUNTKEYSINSLOT and GETKEYSINSLOT", clusterCommands()
	role := row("ROLE", 1, "", "Answers whether this node leads, and with which followers, or whom it follows.", "ROLE", role)
	role.Categories = []string{"admin", "dangerous"}
	read := row(sieveRead, -2, "LINEARIZABLE | AFTER index",
		"Makes the next command, or the transaction that it begins, read here, on any node: everything that was acknowledged anywhere before, or at least what had happened at an index.",
		"SIEVE.READ LINEARIZABLE\nSIEVE.READ AFTER 12", sieveReads)
	read.Flags |= module.NoMulti
	return module.Module{Name: "group", Commands: []module.Command{
		row("ASKING", 1, "", "Accepted for compatibility; has no effect, because no slot is ever moved.", "ASKING", accepted),
		family,
		row("READONLY", 1, "", "Lets this node answer the connection's reads itself, even if it does not lead.", "READONLY",
			func(c *conn, _ *module.Call) reply.Reply { return c.setReadOnly(true) }),
		row("READWRITE", 1, "", "Ends READONLY: only the leader answers reads.", "READWRITE",
			func(c *conn, _ *module.Call) reply.Reply { return c.setReadOnly(false) }),
		role,
		read,
	}}
}

// inGroup makes a command handler from a function that needs the connection, for a server of a group.
func inGroup(f func(*conn, *module.Call) reply.Reply) func(*module.Call) reply.Reply {
	return onConn(func(c *conn, call *module.Call) reply.Reply {
		if c.server.group == nil {
			return reply.Error("ERR This instance has cluster support disabled")
		}
		return f(c, call)
	})
}

// ofStatus makes such a function from one that needs only the present Status.
func ofStatus(f func(*cluster.Status) reply.Reply) func(*conn, *module.Call) reply.Reply {
	return func(c *conn, _ *module.Call) reply.Reply { return f(c.server.group.Status()) }
}

func clusterCommands() []module.Command {
	sub := func(name string, arity int, syntax, summary string, f func(*conn, *module.Call) reply.Reply) module.Command {
		return module.Command{Name: name, Arity: arity, Flags: module.ModuleFlag, Syntax: syntax, Summary: summary, Handler: inGroup(f)}
	}
	id := func(of func(*cluster.Status) string) func(*conn, *module.Call) reply.Reply {
		return ofStatus(func(s *cluster.Status) reply.Reply { return reply.BulkString(of(s)) })
	}
	replicas := func(c *conn, call *module.Call) reply.Reply {
		return cluster.Replicas(c.server.group.Status(), cut(string(call.Args[0])))
	}
	return []module.Command{
		sub("COUNTKEYSINSLOT", 3, "slot", "Counts the keys of a slot. All keys are looked at.", countKeysInSlot),
		sub("GETKEYSINSLOT", 4, "slot count", "Answers at most count keys of a slot. All keys may be looked at.", getKeysInSlot),
		sub("INFO", 2, "", "Answers the state of the group, as lines of names and values.",
			ofStatus(func(s *cluster.Status) reply.Reply { return reply.Verbatim(cluster.Info(s)) })),
		sub("KEYSLOT", 3, "key", "Answers the slot of a key.", func(_ *conn, call *module.Call) reply.Reply {
			return reply.Int(int64(cluster.Slot(call.Args[0])))
		}),
		sub("MYID", 2, "", "Answers the id of this node.", id(func(s *cluster.Status) string { return s.Self })),
		sub("MYSHARDID", 2, "", "Answers the id of the group.", id(func(s *cluster.Status) string { return s.Shard })),
		sub("NODES", 2, "", "Answers a line for each member.",
			ofStatus(func(s *cluster.Status) reply.Reply { return reply.Verbatim(cluster.Nodes(s)) })),
		sub("REPLICAS", 3, "node-id", "Answers the lines of the members that follow the leader, whose id is given.", replicas),
		sub("SHARDS", 2, "", "Answers the slots, which all belong to one shard, and its members.", ofStatus(cluster.Shards)),
		sub("SLAVES", 3, "node-id", "The older name of REPLICAS.", replicas),
		sub("SLOTS", 2, "", "Answers which members have the slots, the leader first.", ofStatus(cluster.Slots)),
	}
}

func accepted(*conn, *module.Call) reply.Reply { return reply.OK }

func (c *conn) setReadOnly(on bool) reply.Reply {
	c.grouped.readOnly = on
	c.about.mu.Lock()
	c.about.readOnly = on
	c.about.mu.Unlock()
	return reply.OK
}

func role(c *conn, _ *module.Call) reply.Reply {
	g := c.server.group
	return cluster.Role(g.Status(), g.AppliedIndex())
}

// sieveReads runs SIEVE.READ.
func sieveReads(c *conn, call *module.Call) reply.Reply {
	word, args := text.FoldCase(call.Args[0]), call.Args[1:]
	switch {
	case word == "LINEARIZABLE" && len(args) == 0:
		c.grouped.next = reading{asked: true, linearizable: true}
		return reply.OK
	case word == "AFTER" && len(args) == 1:
		index, ok := text.ParseInt(args[0])
		if !ok || index < 0 {
			return reply.Errorf("ERR index '%.32s': must be an integer from 0 to 9223372036854775807", args[0])
		}
		c.grouped.next = reading{asked: true, after: uint64(index)}
		return reply.OK
	}
	return errSyntax
}

// slotOf parses a slot.
func slotOf(word []byte) (slot int64, integer, ok bool) {
	slot, integer = text.ParseInt(word)
	return slot, integer, integer && slot >= 0 && slot < cluster.NumSlots
}

func countKeysInSlot(_ *conn, call *module.Call) reply.Reply {
	slot, integer, ok := slotOf(call.Args[0])
	switch {
	case !integer:
		return errNotInteger
	case !ok:
		return reply.Error("ERR Invalid slot")
	}
	n := int64(0)
	err := keysInSlot(call, int(slot), func(string) (bool, error) { n++; return true, nil })
	if err != nil {
		return module.ErrorReply(err)
	}
	return reply.Int(n)
}

func getKeysInSlot(_ *conn, call *module.Call) reply.Reply {
	slot, integer, ok := slotOf(call.Args[0])
	most, known := text.ParseInt(call.Args[1])
	switch {
	case !integer || !known:
		return errNotInteger
	case !ok || most < 0:
		return reply.Error("ERR Invalid slot or number of keys")
	}
	var keys []reply.Reply
	err := keysInSlot(call, int(slot), func(key string) (more bool, err error) {
		if int64(len(keys)) >= most {
			return false, nil
		}
		keys, err = call.Grow(keys, reply.BulkString(key))
		return true, err
	})
	if err != nil {
		return module.ErrorReply(err)
	}
	return reply.Array(keys...)
}

// keysInSlot calls f with each key of a slot until f returns false. It reads all keys, a thousand at a time.
func keysInSlot(call *module.Call, slot int, f func(key string) (more bool, err error)) error {
	const batch = 1000
	for cursor := uint64(0); ; {
		var keys []string
		err := call.Read(func(r kv.Reader) (err error) {
			keys, cursor, err = r.ScanFrom(call.Context, cursor, batch, kv.ScanOptions{})
			return err
		})
		if err != nil {
			return err
		}
		for _, key := range keys {
			if cluster.Slot([]byte(key)) != slot {
				continue
			}
			if more, err := f(key); err != nil || !more {
				return err
			}
		}
		if cursor == 0 {
			return nil
		}
	}
}

// waitInGroup runs WAIT on a store of a group. In a transaction it does not wait, as in Redis.
func waitInGroup(c *conn, call *module.Call, replicas int64, timeout time.Duration) reply.Reply {
	g := c.server.group
	if !g.Status().Leads() {
		return reply.Error("ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured " +
			"to be writable (which is not the default) writes to replicas are just local and are not propagated.")
	}
	if call.Transaction != nil {
		ended, end := context.WithCancel(call.Context)
		end()
		return reply.Int(int64(g.Replicated(ended, int(replicas))))
	}
	c.endTurn()
	ctx, end := c.waiting(timeout)
	defer end()
	return reply.Int(int64(g.Replicated(ctx, int(replicas))))
}
