package coreext

import (
	"fmt"

	"github.com/sievekv/sievekv/internal/check"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// sieveCommands are the store's own commands, which Redis does not have: statistics, and work on the whole store.
// They stop when the call's context ends.
func sieveCommands() []module.Command {
	return []module.Command{backupCommand(), {
		Name: "SIEVE.CHECK", Arity: -1, Flags: module.Admin | module.NoMulti, Group: "server", Syntax: "[DEEP] [REPAIR]",
		Summary: "Reads and checks the whole store; answers counts, the problems it found, and the keys concerned. " +
			"With DEEP it reads all of every table. With REPAIR it mends what needs no guessing, while writers wait.",
		Complexity: "O(N) for N bytes stored", Example: "BF.MADD seen a b\nSIEVE.CHECK", Handler: sieveCheck,
	}, {
		Name: "SIEVE.COMPACT", Arity: 1, Flags: module.Admin | module.NoMulti, Group: "server",
		Summary: "Does the store's background work at once, and makes the store as small as it can be; " +
			"answers its bytes on disk before and after.",
		Complexity: "O(N) for N bytes stored", Example: "BF.MADD seen a b\nSIEVE.COMPACT", Handler: sieveCompact,
	}, {
		Name: "SIEVE.STATS", Arity: -1, Flags: module.ReadOnly, Group: "server", Syntax: "[key [key ...] | LIMIT count]",
		FirstKey: 1, LastKey: -1, KeyStep: 1, EveryKey: limited,
		Summary: "Answers statistics of the store, of keys (nil for a missing key), or, with LIMIT, of at most count keys that are not strings; " +
			"LIMIT followed by one word is never a key.",
		Complexity: "O(N) for N keys", Example: "BF.MADD seen a b\nSIEVE.STATS seen", Handler: sieveStats,
	}}
}

func sieveCheck(c *module.Call) reply.Reply {
	var o kv.CheckOptions
	for _, word := range c.Args {
		switch text.FoldCase(word) {
		case "DEEP":
			o.Deep = true
		case "REPAIR":
			o.Repair = true
		default:
			return reply.Errorf("ERR syntax error: %.60q is neither DEEP nor REPAIR", word)
		}
	}
	report, err := c.DB.CheckWith(c.Context, o)
	if err != nil {
		return module.ErrorReply(err)
	}
	problems := make([]reply.Reply, len(report.Problems))
	for i, problem := range report.Problems {
		problems[i] = reply.BulkString(text.Plain(problem.Error()))
	}
	fields := []reply.Pair{
		reply.IntField("keys", report.Keys), reply.IntField("blocks", report.Blocks), reply.IntField("bytes", report.Bytes),
		reply.Field("notes", bulkStrings(report.Notes)), reply.Field("problems", reply.Array(problems...)),
	}
	if len(report.Damaged) > 0 {
		fields = append(fields, reply.Field("damaged", damagedReply(report.Damaged)))
	}
	if o.Repair {
		fields = append(fields, reply.Field("repaired", bulkStrings(report.Repaired)))
	}
	return reply.Map(fields...)
}

func bulkStrings(list []string) reply.Reply {
	replies := make([]reply.Reply, len(list))
	for i, s := range list {
		replies[i] = reply.BulkString(s)
	}
	return reply.Array(replies...)
}

func damagedReply(keys []check.Key) reply.Reply {
	list := make([]reply.Reply, len(keys))
	for i, k := range keys {
		list[i] = reply.Map(
			reply.Field("key", reply.BulkString(k.Key)), reply.Field("type", reply.BulkString(k.Type)),
			reply.Field("lost", bulkStrings(k.Lost)),
		)
	}
	return reply.Array(list...)
}

func sieveCompact(c *module.Call) reply.Reply {
	before, err := c.DB.DiskBytes()
	if err == nil {
		err = c.DB.Compact(c.Context)
	}
	if err != nil {
		return module.ErrorReply(err)
	}
	after, err := c.DB.DiskBytes()
	if err != nil {
		return module.ErrorReply(err)
	}
	return reply.Map(reply.IntField("disk_bytes_before", before), reply.IntField("disk_bytes", after))
}

// maxStats is the most keys that SIEVE.STATS LIMIT answers.
const maxStats = 1_000_000

// limited reports whether SIEVE.STATS is asked for some of all keys.
func limited(args [][]byte) bool { return len(args) == 2 && text.FoldCase(args[0]) == "LIMIT" }

func sieveStats(c *module.Call) reply.Reply {
	if len(c.Args) == 0 {
		return storeStats(c.DB)
	}
	if !limited(c.Args) {
		list := make([]reply.Reply, len(c.Args))
		for i, key := range c.Args {
			var err error
			if list[i], err = keyStats(c, key); err != nil {
				return module.ErrorReply(err)
			}
			if list[i].Kind() == reply.KindNil {
				c.Missing(1)
			}
		}
		return reply.Array(list...)
	}
	limit, ok := text.ParseInt(c.Args[1])
	if !ok || limit < 1 || limit > maxStats {
		return reply.Errorf("ERR LIMIT is '%.128s', want an integer between 1 and %d", c.Args[1], maxStats)
	}
	list, err := someStats(c, int(limit))
	if err != nil {
		return module.ErrorReply(err)
	}
	return reply.Array(list...)
}

// someStats returns statistics of some keys that are not strings.
func someStats(c *module.Call, limit int) (list []reply.Reply, err error) {
	const batch = 100
	for cursor := uint64(0); ; {
		var keys []string
		from := cursor // Read may call the function again
		err := c.Read(func(r kv.Reader) (err error) {
			keys, cursor, err = r.ScanFrom(c.Context, from, batch, kv.ScanOptions{NoStrings: true})
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			stats, err := keyStats(c, []byte(key))
			switch {
			case err != nil:
				return nil, err
			case stats.Kind() != reply.KindNil: // the key still exists
				list = append(list, stats)
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

// keyStats returns the statistics of a key, nil if it is missing.
func keyStats(c *module.Call, key []byte) (answer reply.Reply, err error) {
	if err = c.Context.Err(); err == nil {
		err = c.Read(func(r kv.Reader) error {
			give, err := borrowStats(c, r, key)
			if err != nil {
				return err
			}
			defer give()
			s, err := r.Stats(key)
			if answer = reply.Nil; err == nil && s != nil {
				answer = statsReply(s)
			}
			return err
		})
	}
	if err == nil {
		err = c.Charge(answer.Size())
	}
	return answer, err
}

// borrowStats counts the memory for the statistics of a key while they are made: then the reply is counted.
func borrowStats(c *module.Call, r kv.Reader, key []byte) (give func(), err error) {
	const layerBytes = 2 << 10 // roughly
	o, err := r.Lookup(key)
	if o == nil || err != nil {
		return func() {}, err
	}
	return c.Borrow(len(o.Layers()) * layerBytes)
}

func statsReply(s *kv.KeyStats) reply.Reply {
	return reply.Map(append([]reply.Pair{
		reply.Field("key", reply.BulkString(s.Key)), reply.Field("type", reply.BulkString(s.Type)),
		reply.IntField("bytes", s.Bytes), reply.IntField("disk_bytes", s.Disk), reply.IntField("resident_bytes", s.Resident),
		reply.IntField("expires_at_ms", s.Expiry),
	}, facts(s.Facts)...)...)
}

func facts(list []kv.Fact) []reply.Pair {
	pairs := make([]reply.Pair, len(list))
	for i, f := range list {
		pairs[i] = reply.Field(f.Name, factReply(f.Value))
	}
	return pairs
}

// factReply returns the reply for the value of a fact.
func factReply(value any) reply.Reply {
	switch v := value.(type) {
	case string:
		return reply.BulkString(v)
	case bool:
		return reply.Bool(v)
	case float64:
		return reply.Double(v)
	case uint64:
		return reply.Int(int64(v))
	case int64:
		return reply.Int(v)
	case []kv.FactList:
		list := make([]reply.Reply, len(v))
		for i := range v {
			list[i] = reply.Map(facts(v[i])...)
		}
		return reply.Array(list...)
	}
	return reply.BulkString(fmt.Sprint(value))
}

// storeStats returns the statistics of the store. Its counters start when the store is opened or they are reset.
func storeStats(db *kv.DB) reply.Reply {
	m, err := db.Metrics()
	if err != nil {
		return module.ErrorReply(err)
	}
	about := db.About()
	return reply.Map(
		reply.Field("directory", reply.BulkString(about.Directory)),
		reply.IntField("keys", m.Keys),
		reply.IntField("disk_bytes", m.DiskBytes),
		reply.IntField("table_bytes", m.TableBytes),
		reply.IntField("log_bytes", m.LogBytes),
		reply.IntField("reserve_bytes", m.ReserveBytes),
		reply.Field("durability", reply.BulkString(about.Durability.String())),
		reply.IntField("commits", m.Commits),
		reply.IntField("syncs", m.Syncs),
		reply.Field("cache", reply.Map(
			reply.IntField("used_bytes", m.CacheUsed),
			reply.IntField("budget_bytes", m.CacheBudget),
			reply.IntField("evictions", m.CacheEvictions),
			reply.IntField("blocks_read", m.BlocksRead),
		)),
		reply.Field("pebble", reply.Map(
			reply.IntField("memtable_bytes", m.MemTableBytes),
			reply.IntField("log_bytes_written", m.LogBytesWritten),
			reply.IntField("flushes", m.Flushes),
			reply.IntField("compactions", m.TableCompactions),
			reply.IntField("read_amplification", m.ReadAmp),
		)),
		reply.Field("compaction", reply.Map(
			reply.IntField("folds", m.Folds),
			reply.IntField("fold_backlog", m.FoldBacklog),
			reply.IntField("reclaimed", m.Reclaimed),
			reply.IntField("reclaim_backlog", m.ReclaimBacklog),
			reply.IntField("compaction_backlog", m.CompactBacklog),
			reply.IntField("expiry_backlog", m.ExpiryBacklog),
		)),
	)
}
