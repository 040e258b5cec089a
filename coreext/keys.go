package coreext

import (
	"errors"
	"math"
	"strconv"

	"github.com/sievekv/sievekv/internal/glob"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// keyCommands are the commands on keys of every type, with Redis' replies and errors.
func keyCommands() []module.Command {
	row := rowsOf("generic")
	keys := func(c module.Command, first, last int) module.Command {
		c.FirstKey, c.LastKey = first, last
		if first == 0 {
			c.KeyStep = 0
		}
		return c
	}
	dangerous := func(c module.Command) module.Command {
		c.Categories = []string{"dangerous"}
		return c
	}
	does := func(c module.Command, flags ...string) module.Command {
		c.KeyFlags = flags
		return c
	}
	const (
		perKey   = "O(N) for N keys"
		constant = "O(1)"
		options  = " [NX | XX | GT | LT]"
		when     = "Sets when a key expires; answers 1, or 0 if the key is missing or the condition does not hold."
	)
	return []module.Command{
		does(keys(row("COPY", -3, module.Write|module.DenyOOM, "source destination [DB 0] [REPLACE]",
			"Copies a key with its value and expiry; answers 1, or 0 if source is missing or destination exists.",
			"O(N) for N bytes stored", "SET user:1 ann\nCOPY user:1 user:2", copyCommand), 1, 2), "RO access", "OW update"),
		does(keys(row("DEL", -2, module.Write|module.Brief, "key [key ...]",
			"Removes keys, all or none, and answers how many existed.", "O(N) for N keys, whatever their size", "SET user:1 ann\nDEL user:1 user:2", del), 1, -1), "RM delete"),
		does(keys(row("EXISTS", -2, module.ReadOnly|module.Fast, "key [key ...]",
			"Counts the keys that exist; a key given twice counts twice.", perKey, "SET user:1 ann\nEXISTS user:1 user:2", exists), 1, -1), "RO"),
		does(row("EXPIRE", -3, module.Write|module.Fast, "key seconds"+options, when, constant, "SET user:1 ann\nEXPIRE user:1 3600", expireIn(1000)), "RW update"),
		does(row("EXPIREAT", -3, module.Write|module.Fast, "key unix-seconds"+options, when, constant, "SET user:1 ann\nEXPIREAT user:1 4102444800", expireAt(1000)), "RW update"),
		row("EXPIRETIME", 2, module.ReadOnly|module.Fast, "key",
			"Answers when a key expires, in Unix seconds; -1 if never, -2 if the key is missing.", constant, "SET user:1 ann EXAT 4102444800\nEXPIRETIME user:1", expireTime),
		dangerous(keys(row("KEYS", 2, module.ReadOnly, "pattern",
			"Answers all keys that match a pattern: * any bytes, ? one byte, [a-c] one of a set.", perKey, "MSET user:1 ann item:1 book\nKEYS user:*", keysCommand), 0, 0)),
		does(row("PERSIST", 2, module.Write|module.Fast, "key", "Removes the expiry of a key; answers 1 if it had one.", constant, "SET user:1 ann EX 60\nPERSIST user:1", persist), "RW update"),
		does(row("PEXPIRE", -3, module.Write|module.Fast, "key milliseconds"+options, when, constant, "SET user:1 ann\nPEXPIRE user:1 90000", expireIn(1)), "RW update"),
		does(row("PEXPIREAT", -3, module.Write|module.Fast, "key unix-milliseconds"+options, when, constant, "SET user:1 ann\nPEXPIREAT user:1 4102444800000", expireAt(1)), "RW update"),
		row("PEXPIRETIME", 2, module.ReadOnly|module.Fast, "key",
			"Answers when a key expires, in Unix milliseconds; -1 if never, -2 if the key is missing.", constant, "SET user:1 ann EXAT 4102444800\nPEXPIRETIME user:1", pexpireTime),
		row("PTTL", 2, module.ReadOnly|module.Fast, "key",
			"Answers the time to live of a key in milliseconds; -1 if it does not expire, -2 if it is missing.", constant, "SET user:1 ann PX 90000\nPTTL user:1", pttl),
		keys(row("RANDOMKEY", 1, module.ReadOnly, "", "Answers a random key, nil if there are none.", constant, "SET user:1 ann\nRANDOMKEY", randomKey), 0, 0),
		does(keys(row("RENAME", 3, module.Write|module.Brief, "key newkey",
			"Renames a key, replacing an existing newkey.", "O(1), whatever the size", "SET user:1 ann\nRENAME user:1 user:2", rename), 1, 2), "RW access delete", "OW update"),
		does(keys(row("RENAMENX", 3, module.Write|module.Fast, "key newkey",
			"Renames a key if newkey does not exist; answers 1 if so, otherwise 0.", "O(1), whatever the size", "MSET user:1 ann user:2 bob\nRENAMENX user:1 user:2", renamenx), 1, 2), "RW access delete", "OW insert"),
		keys(row("SCAN", -2, module.ReadOnly, "cursor [MATCH pattern] [COUNT count] [TYPE type]",
			"Answers some of the keys and the cursor for the next call; start with 0, stop at 0.",
			"O(N) for COUNT N, 10 if not given", "MSET user:1 ann item:1 book\nSCAN 0 MATCH user:* COUNT 100", scan), 0, 0),
		does(keys(row("TOUCH", -2, module.ReadOnly|module.Fast, "key [key ...]", "Counts the keys that exist.", perKey, "SET user:1 ann\nTOUCH user:1 user:2", exists), 1, -1), "RO"),
		row("TTL", 2, module.ReadOnly|module.Fast, "key",
			"Answers the time to live of a key in seconds; -1 if it does not expire, -2 if it is missing.", constant, "SET user:1 ann EX 60\nTTL user:1", ttl),
		does(row("TYPE", 2, module.ReadOnly|module.Fast, "key", "Answers the type of a key, none if it is missing.", constant, "SET user:1 ann\nTYPE user:1", typeOf), "RO"),
		does(keys(row("UNLINK", -2, module.Write|module.Fast, "key [key ...]", "Removes keys, as DEL does.", "O(N) for N keys, whatever their size", "SET user:1 ann\nUNLINK user:1", del), 1, -1), "RM delete"),
	}
}

func del(c *module.Call) reply.Reply {
	return c.Update(c.Args, func(w *kv.Writer) (reply.Reply, error) {
		n, err := w.DeleteKeys(c.Context, c.Args)
		return reply.Int(int64(n)), err
	})
}

func exists(c *module.Call) reply.Reply {
	var n int
	if err := c.ReadKeys(func(r kv.Reader) (err error) { n, err = r.Count(c.Context, c.Args); return err }); err != nil {
		return module.ErrorReply(err)
	}
	c.Missing(len(c.Args) - n)
	return reply.Int(int64(n))
}

// lookup answers a command about one key. It calls f with the object, nil if the key is missing, and the time of the
// lookup.
func lookup(c *module.Call, f func(o *kv.Object, now int64) reply.Reply) reply.Reply {
	var o *kv.Object
	var now int64
	if err := c.Read(func(r kv.Reader) (err error) { o, err = r.Lookup(c.Args[0]); now = r.Now(); return err }); err != nil {
		return module.ErrorReply(err)
	}
	if o == nil {
		c.Missing(1)
	}
	return f(o, now)
}

func typeOf(c *module.Call) reply.Reply {
	return lookup(c, func(o *kv.Object, _ int64) reply.Reply {
		if o == nil {
			return reply.Status("none")
		}
		return reply.Status(o.TypeName())
	})
}

// untilExpiry answers when a key expires, or, if left, how long that is from the time of the lookup.
func untilExpiry(c *module.Call, left bool, f func(milliseconds int64) int64) reply.Reply {
	return lookup(c, func(o *kv.Object, from int64) reply.Reply {
		if !left {
			from = 0
		}
		switch {
		case o == nil:
			return reply.Int(-2)
		case o.Expiry() == 0:
			return reply.Int(-1)
		}
		return reply.Int(f(max(0, o.Expiry()-from)))
	})
}

// inSeconds rounds to the nearest second, as Redis does.
func inSeconds(milliseconds int64) int64 {
	if milliseconds > math.MaxInt64-500 {
		return milliseconds / 1000
	}
	return (milliseconds + 500) / 1000
}

func inMilliseconds(milliseconds int64) int64 { return milliseconds }

func ttl(c *module.Call) reply.Reply         { return untilExpiry(c, true, inSeconds) }
func pttl(c *module.Call) reply.Reply        { return untilExpiry(c, true, inMilliseconds) }
func expireTime(c *module.Call) reply.Reply  { return untilExpiry(c, false, inSeconds) }
func pexpireTime(c *module.Call) reply.Reply { return untilExpiry(c, false, inMilliseconds) }

func expireIn(unit int64) handler {
	return func(c *module.Call) reply.Reply { return expire(c, unit, c.Now()) }
}

func expireAt(unit int64) handler {
	return func(c *module.Call) reply.Reply { return expire(c, unit, 0) }
}

var expireConditions = map[string]kv.ExpireIf{
	"NX": kv.ExpireIfUnset, "XX": kv.ExpireIfSet, "GT": kv.ExpireIfLater, "LT": kv.ExpireIfSooner,
}

func expire(c *module.Call, unit, base int64) reply.Reply {
	cond := kv.ExpireAlways
	for _, arg := range c.Args[2:] {
		one, ok := expireConditions[text.FoldCase(arg)]
		if !ok {
			return reply.Errorf("ERR Unsupported option %s", arg)
		}
		cond |= one
	}
	switch {
	case cond&kv.ExpireIfUnset != 0 && cond != kv.ExpireIfUnset:
		return reply.Error("ERR NX and XX, GT or LT options at the same time are not compatible")
	case cond&kv.ExpireIfLater != 0 && cond&kv.ExpireIfSooner != 0:
		return reply.Error("ERR GT and LT options at the same time are not compatible")
	}
	at, ok := text.ParseInt(c.Args[1])
	if !ok {
		return module.ErrorReply(kv.ErrNotInteger)
	}
	if at > math.MaxInt64/unit || at < math.MinInt64/unit || at*unit > math.MaxInt64-base {
		return module.ErrorReply(badExpireTime(c))
	}
	at = at*unit + base
	return c.Update(c.Args[:1], func(w *kv.Writer) (reply.Reply, error) {
		done, err := w.Expire(c.Args[0], at, cond)
		return one(done), err
	})
}

func persist(c *module.Call) reply.Reply {
	return c.Update(c.Args[:1], func(w *kv.Writer) (reply.Reply, error) {
		done, err := w.Persist(c.Args[0])
		return one(done), err
	})
}

func rename(c *module.Call) reply.Reply {
	return c.Update(c.Args[:2], func(w *kv.Writer) (reply.Reply, error) {
		return reply.OK, noSuchKey(w.Rename(c.Args[0], c.Args[1]))
	})
}

func renamenx(c *module.Call) reply.Reply {
	return c.Update(c.Args[:2], func(w *kv.Writer) (reply.Reply, error) {
		done, err := w.RenameIfFree(c.Args[0], c.Args[1])
		return one(done), noSuchKey(err)
	})
}

func noSuchKey(err error) error {
	if errors.Is(err, kv.ErrNotFound) {
		return reply.TextError("ERR no such key")
	}
	return err
}

func copyCommand(c *module.Call) reply.Reply {
	replace := false
	for args := c.Args[2:]; len(args) > 0; args = args[1:] {
		switch word := text.FoldCase(args[0]); {
		case word == "REPLACE":
			replace = true
		case word == "DB" && len(args) > 1:
			args = args[1:]
			switch n, ok := text.ParseInt(args[0]); {
			case !ok:
				return module.ErrorReply(kv.ErrNotInteger)
			case n != int64(int32(n)):
				return reply.Error("ERR value is out of range, value must between -2147483648 and 2147483647")
			case n != 0:
				return reply.Error("ERR DB index is out of range")
			}
		default:
			return errSyntax
		}
	}
	if string(c.Args[0]) == string(c.Args[1]) {
		return reply.Error("ERR source and destination objects are the same")
	}
	return c.Update(c.Args[:2], func(w *kv.Writer) (reply.Reply, error) {
		done, err := w.Copy(c.Context, c.Args[0], c.Args[1], replace)
		return one(done), err
	})
}

func keysCommand(c *module.Call) reply.Reply {
	var keys []string
	o := kv.ScanOptions{Charge: c.Charge}
	give, err := match(c, &o, c.Args[0])
	if err != nil {
		return module.ErrorReply(err)
	}
	defer give()
	err = c.Read(func(r kv.Reader) (err error) { // a single scan sees one moment
		keys, _, err = r.ScanFrom(c.Context, 0, math.MaxInt, o)
		return err
	})
	if err != nil {
		return module.ErrorReply(err)
	}
	return bulks(keys)
}

// match sets the pattern of a scan. The empty pattern matches only the empty key. The session counts the pattern's
// memory until give is called.
func match(c *module.Call, o *kv.ScanOptions, pattern []byte) (give func(), err error) {
	give, err = c.Borrow(glob.Bytes(string(pattern)))
	if err != nil {
		return nil, err
	}
	if o.Pattern, err = newPattern(string(pattern)); err != nil {
		give()
		return nil, err
	}
	return give, nil
}

func bulks(keys []string) reply.Reply {
	list := make([]reply.Reply, len(keys))
	for i, key := range keys {
		list[i] = reply.BulkString(key)
	}
	return reply.Array(list...)
}

func scan(c *module.Call) reply.Reply {
	cursor, ok := parseCursor(c.Args[0])
	if !ok {
		return reply.Error("ERR invalid cursor")
	}
	var pattern []byte // nil if there is no MATCH
	count, o := int64(10), kv.ScanOptions{Charge: c.Charge}
	for args := c.Args[1:]; len(args) > 0; args = args[2:] {
		if len(args) == 1 {
			return errSyntax
		}
		switch text.FoldCase(args[0]) {
		case "COUNT":
			n, ok := text.ParseInt(args[1])
			if !ok {
				return module.ErrorReply(kv.ErrNotInteger)
			}
			if n < 1 {
				return errSyntax
			}
			count = n
		case "MATCH":
			pattern = args[1]
		case "TYPE":
			o.Type = string(args[1])
			if o.Type == "" {
				o.Type = "none" // no type has this name, so nothing matches
			}
		default:
			return errSyntax
		}
	}
	if pattern != nil {
		give, err := match(c, &o, pattern)
		if err != nil {
			return module.ErrorReply(err)
		}
		defer give()
	}
	var keys []string
	var next uint64
	err := c.Read(func(r kv.Reader) (err error) {
		keys, next, err = r.ScanFrom(c.Context, cursor, int(min(count, math.MaxInt32)), o)
		return err
	})
	if err != nil {
		return module.ErrorReply(err)
	}
	return reply.Array(reply.BulkString(strconv.FormatUint(next, 10)), bulks(keys))
}

// parseCursor parses a cursor as strtoul does.
func parseCursor(b []byte) (uint64, bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative || len(b) > 0 && b[0] == '+' {
		b = b[1:]
	} else if len(b) == 0 {
		return 0, true
	}
	n, err := strconv.ParseUint(string(b), 10, 64)
	if negative {
		n = -n
	}
	return n, err == nil
}

func randomKey(c *module.Call) reply.Reply {
	var key string
	var ok bool
	err := c.Read(func(r kv.Reader) (err error) {
		key, ok, err = r.RandomKey(c.Context)
		return err
	})
	switch {
	case err != nil:
		return module.ErrorReply(err)
	case !ok:
		return reply.Nil
	}
	return reply.BulkString(key)
}
