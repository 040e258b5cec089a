package kv

import (
	"context"
	"fmt"

	"github.com/sievekv/sievekv/kv/reply"
)

// sieveCommands are the store's own commands, which Redis has nothing like: what is known of
// keys and of the whole, and work on all of it. That ends with the call's context.
func sieveCommands() []Command {
	return []Command{{
		Name: "SIEVE.CHECK", Arity: 1, Flags: Admin | NoMulti, Group: "server",
		Summary:    "Reads and checks all of the store; answers what it counted, and the problems it found.",
		Complexity: "O(N) for N bytes stored", Example: "BF.MADD seen a b\nSIEVE.CHECK", Handler: sieveCheck,
	}, {
		Name: "SIEVE.COMPACT", Arity: 1, Flags: Admin | NoMulti, Group: "server",
		Summary: "Brings the store to the form it comes to by itself when nothing is written; " +
			"answers its bytes on disk before and after.",
		Complexity: "O(N) for N bytes stored", Example: "BF.MADD seen a b\nSIEVE.COMPACT", Handler: sieveCompact,
	}, {
		Name: "SIEVE.STATS", Arity: -1, Flags: ReadOnly, Group: "server", Syntax: "[key [key ...] | LIMIT count]",
		Summary: "Answers figures of the store, of keys (nil for one that is missing), or of so many keys that are not strings; " +
			"LIMIT with one word behind it is no key.",
		Complexity: "O(N) for N keys", Example: "BF.MADD seen a b\nSIEVE.STATS seen", Handler: sieveStats,
	}}
}

func sieveCheck(c *Call) reply.Reply {
	report, err := c.DB.Check(c.Context)
	if err != nil {
		return ErrorReply(err)
	}
	notes := make([]reply.Reply, len(report.Notes))
	for i, note := range report.Notes {
		notes[i] = reply.BulkString(note)
	}
	problems := make([]reply.Reply, len(report.Problems))
	for i, problem := range report.Problems {
		problems[i] = reply.BulkString(problem.Error())
	}
	return reply.Map(
		reply.IntField("keys", report.Keys), reply.IntField("blocks", report.Blocks), reply.IntField("bytes", report.Bytes),
		reply.Field("notes", reply.Array(notes...)), reply.Field("problems", reply.Array(problems...)),
	)
}

func sieveCompact(c *Call) reply.Reply {
	before, err := c.DB.DiskBytes()
	if err == nil {
		err = c.DB.compactWhole(c.Context)
	}
	if err != nil {
		return ErrorReply(err)
	}
	after, err := c.DB.DiskBytes()
	if err != nil {
		return ErrorReply(err)
	}
	return reply.Map(reply.IntField("disk_bytes_before", before), reply.IntField("disk_bytes", after))
}

// compactWhole does all that services would do in the course of time, and compacts the store.
func (db *DB) compactWhole(ctx context.Context) error {
	steps := []func(context.Context) (more bool, err error){
		func(ctx context.Context) (bool, error) { return db.CompactQueued(ctx, db.MaxCommit()/2) },
		db.Reclaim,
	}
	for _, step := range steps {
		for more := true; more; {
			var err error
			if more, err = step(ctx); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return db.CompactAll(ctx)
}

// maxStats is the most keys that SIEVE.STATS answers for of itself.
const maxStats = 1_000_000

func sieveStats(c *Call) reply.Reply {
	if len(c.Args) == 0 {
		return c.DB.stats.figures(c.DB)
	}
	if len(c.Args) != 2 || Fold(c.Args[0]) != "LIMIT" {
		list := make([]reply.Reply, len(c.Args))
		for i, key := range c.Args {
			var err error
			if list[i], err = c.figures(key); err != nil {
				return ErrorReply(err)
			}
		}
		return reply.Array(list...)
	}
	limit, ok := ParseInt(c.Args[1])
	if !ok || limit < 1 || limit > maxStats {
		return reply.Errorf("ERR LIMIT is '%.128s', want an integer between 1 and %d", c.Args[1], maxStats)
	}
	list, err := c.someFigures(int(limit))
	if err != nil {
		return ErrorReply(err)
	}
	return reply.Array(list...)
}

// someFigures returns figures of some keys that are not strings.
func (c *Call) someFigures(limit int) (list []reply.Reply, err error) {
	const batch = 100
	for cursor := uint64(0); ; {
		var keys []string
		err := c.Read(func(r Reader) (err error) {
			keys, cursor, err = r.ScanFrom(c.Context, cursor, batch, ScanOptions{Objects: true})
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			figures, err := c.figures([]byte(key))
			switch {
			case err != nil:
				return nil, err
			case figures.Kind() != reply.KindNil: // it is still there
				list = append(list, figures)
			}
			if len(list) == limit {
				return list, nil
			}
		}
		if cursor == 0 {
			return list, nil
		}
	}
}

// figures answers what is known of a key, nil if it is missing.
func (c *Call) figures(key []byte) (answer reply.Reply, err error) {
	if err = c.Context.Err(); err == nil {
		err = c.Read(func(r Reader) (err error) { answer, err = r.figures(key); return err })
	}
	if err == nil {
		err = c.Charge(answer.Size())
	}
	return answer, err
}

// figures answers what is known of a key, nil if it is missing.
func (r Reader) figures(key []byte) (reply.Reply, error) {
	o, err := r.lookup(key)
	if o == nil || err != nil {
		return reply.Nil, err
	}
	var d Description
	var disk, resident uint64
	switch {
	case o.inline():
		value, err := stringIn(key, o.header)
		if err != nil {
			return reply.Nil, err
		}
		d.Bytes = uint64(len(value))
	default:
		for _, l := range o.layers {
			d.Bytes += l.spec.Bytes()
		}
		if disk, resident, err = r.db.ObjectBytes(o); err != nil {
			return reply.Nil, err
		}
	}
	if o.typ != nil && o.typ.Describe != nil {
		if d, err = o.typ.Describe(r, o); err != nil {
			return reply.Nil, fmt.Errorf("describe %q: %w", key, err)
		}
	}
	return reply.Map(append([]reply.Pair{
		reply.Field("key", reply.BulkString(o.key)), reply.Field("type", reply.BulkString(o.TypeName())),
		reply.IntField("bytes", d.Bytes), reply.IntField("disk_bytes", disk), reply.IntField("resident_bytes", resident),
		reply.IntField("expires_at_ms", o.Expiry()),
	}, d.Facts...)...), nil
}

// figures answers what is known of the store. The counts are since it was opened, or since
// they were reset.
func (s *stats) figures(db *DB) reply.Reply {
	if err := db.enter(); err != nil {
		return ErrorReply(err)
	}
	defer db.exit()
	m, cache := db.disk.Metrics(), db.residency.cache
	return reply.Map(
		reply.Field("directory", reply.BulkString(db.dir)),
		reply.IntField("keys", db.keys.Load()),
		reply.IntField("disk_bytes", diskUsage(m)),
		reply.IntField("table_bytes", m.Table.Local.LiveSize),
		reply.IntField("log_bytes", logSize(m)),
		reply.IntField("reserve_bytes", db.space.Ballast()),
		reply.Field("durability", reply.BulkString(db.opts.Durability.String())),
		reply.IntField("commits", s.commits.Load()),
		reply.IntField("syncs", s.syncs.Load()),
		reply.Field("cache", reply.Map(
			reply.IntField("used_bytes", cache.MaxCost()-cache.RemainingCost()),
			reply.IntField("budget_bytes", cache.MaxCost()),
			reply.IntField("evictions", db.residency.evicted.Load()),
			reply.IntField("blocks_read", s.blocksRead.Load()),
		)),
		reply.Field("pebble", reply.Map(
			reply.IntField("memtable_bytes", m.MemTable.Size),
			reply.IntField("log_bytes_written", m.WAL.BytesWritten),
			reply.IntField("flushes", m.Flush.Count),
			reply.IntField("compactions", m.Compact.Count),
			reply.IntField("read_amplification", m.ReadAmp()),
		)),
		reply.Field("compaction", reply.Map(
			reply.IntField("folds", s.folds.Load()),
			reply.IntField("fold_backlog", db.FoldBacklog()),
			reply.IntField("reclaimed", s.reclaimed.Load()),
		)),
	)
}
