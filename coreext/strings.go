package coreext

import (
	"errors"
	"math"
	"slices"

	"github.com/sievekv/sievekv/bitmapext"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// stringCommands are the commands on strings, with Redis' replies and errors.
func stringCommands() []module.Command {
	const (
		read  = module.ReadOnly | module.Fast
		write = module.Write | module.DenyOOM | module.Fast
	)
	row := rowsOf("string")
	keys := func(c module.Command, last, step int) module.Command {
		c.LastKey, c.KeyStep = last, step
		return c
	}
	does := func(c module.Command, flags string) module.Command {
		c.KeyFlags = []string{flags}
		return c
	}
	const perByte = "O(N) for a string of N bytes"
	return []module.Command{
		does(row("APPEND", 3, write, "key value",
			"Appends bytes to a string, which may be missing; answers its new length.", perByte, "SET log one\nAPPEND log ,two", appendCommand), "RW insert"),
		row("DECR", 2, write, "key", "Subtracts 1 from an integer; a missing key counts as 0.", "O(1)", "SET stock 10\nDECR stock", decr),
		row("DECRBY", 3, write, "key decrement", "Subtracts an integer from another; a missing key counts as 0.", "O(1)", "SET stock 10\nDECRBY stock 3", decrBy),
		row("GET", 2, read, "key", "Answers the string under a key, nil if there is none.", perByte, "SET user:1 ann\nGET user:1", get),
		does(row("GETDEL", 2, module.Write|module.Fast, "key", "Answers the string under a key, and removes it.", perByte, "SET ticket A7\nGETDEL ticket", getDel), "RW access delete"),
		row("GETEX", -2, module.Write|module.Fast, "key [EX seconds | PX milliseconds | EXAT unix-seconds | PXAT unix-milliseconds | PERSIST]",
			"Answers the string under a key, and sets when it expires.", perByte, "SET user:1 ann\nGETEX user:1 EX 60", getEx),
		row("GETRANGE", 4, module.ReadOnly, "key start end",
			"Answers a part of a string, given by the indices of its first and last byte; negative ones count from the end.",
			"O(N) for N bytes answered", "SET user:1 annabel\nGETRANGE user:1 0 2", getRange),
		row("GETSET", 3, write, "key value", "Replaces a string, and answers the old one.", perByte, "SET user:1 ann\nGETSET user:1 bob", getSet),
		row("INCR", 2, write, "key", "Adds 1 to an integer; a missing key counts as 0.", "O(1)", "INCR visits", incr),
		row("INCRBY", 3, write, "key increment", "Adds an integer to another; a missing key counts as 0.", "O(1)", "SET visits 10\nINCRBY visits 5", incrBy),
		row("INCRBYFLOAT", 3, write, "key increment", "Adds a number to another; a missing key counts as 0.", "O(1)", "SET price 10.50\nINCRBYFLOAT price 0.1", incrByFloat),
		keys(row("MGET", -2, read, "key [key ...]",
			"Answers the strings under keys, nil for each that is missing or not a string, as of one moment.",
			"O(N) for N keys", "MSET user:1 ann user:2 bob\nMGET user:1 user:2 user:3", mget), -1, 1),
		does(keys(row("MSET", -3, module.Write|module.DenyOOM|module.Brief, "key value [key value ...]",
			"Sets strings in one commit, replacing existing keys.", "O(N) for N keys", "MSET user:1 ann user:2 bob", mset), -1, 2), "OW update"),
		does(keys(row("MSETNX", -3, module.Write|module.DenyOOM|module.Brief, "key value [key value ...]",
			"Sets strings in one commit if none of the keys exists; answers 1 if so, otherwise 0.",
			"O(N) for N keys", "SET user:1 ann\nMSETNX user:1 eve user:2 dan", msetnx), -1, 2), "OW insert"),
		does(row("PSETEX", 4, module.Write|module.DenyOOM|module.Brief, "key milliseconds value", "Sets a string that expires.", perByte, "PSETEX ticket 1500 A7", psetEx), "OW update"),
		setRow(row("SET", -3, module.Write|module.DenyOOM|module.Brief, "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-seconds | PXAT unix-milliseconds | KEEPTTL]",
			"Sets a string, replacing an existing key.", perByte, "SET user:1 ann EX 3600", set)),
		does(row("SETEX", 4, module.Write|module.DenyOOM|module.Brief, "key seconds value", "Sets a string that expires.", perByte, "SETEX ticket 60 A7", setEx), "OW update"),
		does(row("SETNX", 3, write, "key value", "Sets a string if the key is missing; answers 1 if so, otherwise 0.", perByte, "SET lock me\nSETNX lock you", setnx), "OW insert"),
		does(row("SETRANGE", 4, module.Write|module.DenyOOM, "key offset value",
			"Overwrites a part of a string, filling a gap with zero bytes; answers its length.", perByte, "SET greeting hello\nSETRANGE greeting 0 J", setRange), "RW update"),
		does(row("STRLEN", 2, read, "key", "Answers the length of a string in bytes, 0 if there is none.", "O(1)", "SET user:1 ann\nSTRLEN user:1", strlen), "RO"),
	}
}

// setRow completes the entry of SET, which reads the key only with GET.
func setRow(c module.Command) module.Command {
	c.KeyFlags = []string{"RW access update"}
	c.KeyFlagsOf = func(args [][]byte) []string {
		if slices.ContainsFunc(args[2:], func(arg []byte) bool { return text.FoldCase(arg) == "GET" }) {
			return c.KeyFlags
		}
		return []string{"OW update"}
	}
	return c
}

// bulk returns the reply for a string, nil if there is none. Strings never change after they were read, so it need
// not copy them.
func bulk(value []byte) reply.Reply {
	if value == nil {
		return reply.Nil
	}
	return reply.Bulk(value)
}

// before returns the string under the first key, for a command that also writes, and whether there is one. If there
// is no memory for the reply and the copy to send, the error makes the command write nothing.
func before(c *module.Call, w *kv.Writer) (answer reply.Reply, there bool, err error) {
	value, blocks, err := w.String(c.Args[0])
	if err != nil || blocks == nil && value == nil {
		return reply.Nil, false, err
	}
	n := len(value)
	if blocks != nil {
		n = int(bitmapext.InBlocks(w, blocks).Len())
	}
	if n > kv.LargeValue {
		if err := c.Charge(2 * n); err != nil {
			return reply.Nil, true, err
		}
	}
	if blocks != nil {
		value, err = bitmapext.InBlocks(w, blocks).Bytes()
	}
	return bulk(value), true, err
}

// stringUnder returns the string under a key, nil if there is none.
func stringUnder(c *module.Call, r kv.Reader, key []byte) ([]byte, error) {
	value, blocks, err := r.String(key)
	if blocks == nil {
		return value, err
	}
	s := bitmapext.InBlocks(r, blocks)
	if err := c.Charge(int(s.Len())); err != nil {
		return nil, err
	}
	return s.Bytes()
}

// readString answers a command about a single string.
func readString(c *module.Call, f func(value []byte) reply.Reply) reply.Reply {
	var value []byte
	if err := c.Read(func(r kv.Reader) (err error) { value, err = stringUnder(c, r, c.Args[0]); return err }); err != nil {
		return module.ErrorReply(err)
	}
	if value == nil {
		c.Missing(1)
	}
	return f(value)
}

func get(c *module.Call) reply.Reply {
	if c.Transaction == nil {
		if value, known := c.DB.StringInMemory(c.Args[0], c.Memory()); known {
			if value == nil {
				c.Missing(1)
			}
			return bulk(c.Remember(value))
		}
	}
	return readString(c, bulk)
}

func strlen(c *module.Call) reply.Reply {
	return bitmapext.Answer(c, func(s *bitmapext.String) (reply.Reply, error) { return reply.Int(int64(s.Len())), nil })
}

func getRange(c *module.Call) reply.Reply {
	start, ok1 := text.ParseInt(c.Args[1])
	end, ok2 := text.ParseInt(c.Args[2])
	if !ok1 || !ok2 {
		return module.ErrorReply(kv.ErrNotInteger)
	}
	return bitmapext.Answer(c, func(s *bitmapext.String) (reply.Reply, error) {
		from, end := text.Range(s.Len(), start, end)
		if err := c.Charge(int(end - from)); err != nil {
			return reply.Nil, err
		}
		value, err := s.Range(from, end)
		return reply.Bulk(value), err
	})
}

func mget(c *module.Call) reply.Reply {
	list, missing := make([]reply.Reply, 0, len(c.Args)), 0
	err := c.ReadKeys(func(r kv.Reader) error {
		list, missing = list[:0], 0
		for i, key := range c.Args {
			if err := kv.GivenUp(c.Context, i); err != nil {
				return err
			}
			value, err := stringUnder(c, r, key)
			if err != nil && !errors.Is(err, kv.ErrWrongType) {
				return err
			}
			if err := c.Charge(len(value)); err != nil {
				return err
			}
			if value == nil && err == nil {
				missing++
			}
			list = append(list, bulk(value))
		}
		return nil
	})
	if err != nil {
		return module.ErrorReply(err)
	}
	c.Missing(missing)
	return reply.Array(list...)
}

// expireOption is the option that says when a key expires.
type expireOption struct {
	word             string // EX, PX, EXAT, PXAT, KEEPTTL or PERSIST, "" for none
	value            []byte
	seconds, instant bool
}

// timeOptions are the options that have a time.
var timeOptions = map[string]expireOption{
	"EX":   {word: "EX", seconds: true},
	"PX":   {word: "PX"},
	"EXAT": {word: "EXAT", seconds: true, instant: true},
	"PXAT": {word: "PXAT", instant: true},
}

// take parses the option at the start of args, and returns its number of words, 0 if it is not an option, lacks its
// value, or conflicts with an earlier one. flag is the command's own option without a value.
func (o *expireOption) take(args [][]byte, flag string) int {
	word := text.FoldCase(args[0])
	if o.word != "" && o.word != word {
		return 0
	}
	if word == flag {
		o.word = word
		return 1
	}
	timed, ok := timeOptions[word]
	if !ok || len(args) < 2 {
		return 0
	}
	*o = timed
	o.value = args[1]
	return 2
}

// at returns the option's time in Unix milliseconds. now has the same unit.
func (o *expireOption) at(c *module.Call, now int64) (int64, error) {
	n, ok := text.ParseInt(o.value)
	if !ok {
		return 0, kv.ErrNotInteger
	}
	bad := badExpireTime(c)
	if n <= 0 || o.seconds && n > math.MaxInt64/1000 {
		return 0, bad
	}
	if o.seconds {
		n *= 1000
	}
	if !o.instant {
		if n > math.MaxInt64-now {
			return 0, bad
		}
		n += now
	}
	return n, nil
}

func badExpireTime(c *module.Call) error {
	return reply.TextError("ERR invalid expire time in '" + c.Command.LowerName() + "' command")
}

func set(c *module.Call) reply.Reply {
	var (
		o      kv.SetOptions
		expire expireOption
		get    bool
	)
	for args := c.Args[2:]; len(args) > 0; {
		n := 1
		switch word := text.FoldCase(args[0]); {
		case word == "NX" && o.If != kv.SetIfExists:
			o.If = kv.SetIfMissing
		case word == "XX" && o.If != kv.SetIfMissing:
			o.If = kv.SetIfExists
		case word == "GET":
			get = true
		default:
			if n = expire.take(args, "KEEPTTL"); n == 0 {
				return errSyntax
			}
		}
		args = args[n:]
	}
	o.KeepTTL = expire.word == "KEEPTTL"
	return setString(c, c.Args[1], o, expire, get)
}

// setString runs the commands that replace a string.
func setString(c *module.Call, value []byte, o kv.SetOptions, expire expireOption, get bool) reply.Reply {
	if _, timed := timeOptions[expire.word]; timed {
		var err error
		if o.Expiry, err = expire.at(c, c.Now()); err != nil {
			return module.ErrorReply(err)
		}
	}
	return c.Update(c.Args[:1], func(w *kv.Writer) (reply.Reply, error) {
		answer := reply.OK
		if get {
			var err error
			if answer, _, err = before(c, w); err != nil {
				return reply.Nil, err
			}
		}
		done, err := w.Set(c.Args[0], value, o)
		if !done && !get {
			answer = reply.Nil
		}
		return answer, err
	})
}

func setEx(c *module.Call) reply.Reply {
	expire := timeOptions["EX"]
	expire.value = c.Args[1]
	return setString(c, c.Args[2], kv.SetOptions{}, expire, false)
}

func psetEx(c *module.Call) reply.Reply {
	expire := timeOptions["PX"]
	expire.value = c.Args[1]
	return setString(c, c.Args[2], kv.SetOptions{}, expire, false)
}

func getSet(c *module.Call) reply.Reply {
	return setString(c, c.Args[1], kv.SetOptions{}, expireOption{}, true)
}

func setnx(c *module.Call) reply.Reply {
	return c.Update(c.Args[:1], func(w *kv.Writer) (reply.Reply, error) {
		done, err := w.Set(c.Args[0], c.Args[1], kv.SetOptions{If: kv.SetIfMissing})
		return one(done), err
	})
}

// one returns 1 or 0, an integer also in RESP3.
func one(yes bool) reply.Reply {
	if yes {
		return reply.Int(1)
	}
	return reply.Int(0)
}

func getDel(c *module.Call) reply.Reply {
	return c.Update(c.Args[:1], func(w *kv.Writer) (reply.Reply, error) {
		answer, there, err := before(c, w)
		if err == nil && there {
			_, err = w.Delete(c.Args[0])
		}
		return answer, err
	})
}

func getEx(c *module.Call) reply.Reply {
	var expire expireOption
	for args := c.Args[1:]; len(args) > 0; {
		n := expire.take(args, "PERSIST")
		if n == 0 {
			return errSyntax
		}
		args = args[n:]
	}
	return c.Update(c.Args[:1], func(w *kv.Writer) (reply.Reply, error) {
		answer, there, err := before(c, w)
		if err != nil || !there {
			return reply.Nil, err
		}
		switch expire.word {
		case "":
		case "PERSIST":
			_, err = w.Persist(c.Args[0])
		default:
			var at int64
			if at, err = expire.at(c, w.Now()); err == nil {
				_, err = w.Expire(c.Args[0], at, kv.ExpireAlways)
			}
		}
		return answer, err
	})
}

func pairs(c *module.Call, cond kv.SetIf) reply.Reply {
	if len(c.Args)%2 != 0 {
		return module.WrongArity(c.Command)
	}
	var names [][]byte
	for i := 0; i < len(c.Args); i += 2 {
		names = append(names, c.Args[i])
	}
	return c.Update(names, func(w *kv.Writer) (reply.Reply, error) {
		if cond == kv.SetIfMissing {
			for i, key := range names {
				if err := kv.GivenUp(c.Context, i); err != nil {
					return reply.Nil, err
				}
				if o, err := w.Object(key); err != nil || o != nil {
					return reply.Int(0), err
				}
			}
		}
		for i, key := range names {
			if err := kv.GivenUp(c.Context, i); err != nil {
				return reply.Nil, err
			}
			if _, err := w.Set(key, c.Args[2*i+1], kv.SetOptions{}); err != nil {
				return reply.Nil, err
			}
		}
		if cond == kv.SetIfMissing {
			return reply.Int(1), nil
		}
		return reply.OK, nil
	})
}

func mset(c *module.Call) reply.Reply   { return pairs(c, kv.SetAlways) }
func msetnx(c *module.Call) reply.Reply { return pairs(c, kv.SetIfMissing) }

func appendCommand(c *module.Call) reply.Reply {
	return c.Update(c.Args[:1], func(w *kv.Writer) (reply.Reply, error) {
		n, err := bitmapext.Append(c.Context, w, c.Args[0], c.Args[1])
		return reply.Int(int64(n)), err
	})
}

func setRange(c *module.Call) reply.Reply {
	offset, ok := text.ParseInt(c.Args[1])
	switch {
	case !ok:
		return module.ErrorReply(kv.ErrNotInteger)
	case offset < 0:
		return reply.Error("ERR offset is out of range")
	}
	return c.Update(c.Args[:1], func(w *kv.Writer) (reply.Reply, error) {
		n, err := bitmapext.SetRange(c.Context, w, c.Args[0], uint64(offset), c.Args[2])
		return reply.Int(int64(n)), err
	})
}

func addTo(c *module.Call, n int64) reply.Reply {
	return c.Update(c.Args[:1], func(w *kv.Writer) (reply.Reply, error) {
		sum, err := w.Incr(c.Args[0], n)
		return reply.Int(sum), err
	})
}

func incr(c *module.Call) reply.Reply { return addTo(c, 1) }
func decr(c *module.Call) reply.Reply { return addTo(c, -1) }

func incrBy(c *module.Call) reply.Reply {
	n, ok := text.ParseInt(c.Args[1])
	if !ok {
		return module.ErrorReply(kv.ErrNotInteger)
	}
	return addTo(c, n)
}

func decrBy(c *module.Call) reply.Reply {
	n, ok := text.ParseInt(c.Args[1])
	switch {
	case !ok:
		return module.ErrorReply(kv.ErrNotInteger)
	case n == math.MinInt64:
		return reply.Error("ERR decrement would overflow")
	}
	return addTo(c, -n)
}

func incrByFloat(c *module.Call) reply.Reply {
	return c.Update(c.Args[:1], func(w *kv.Writer) (reply.Reply, error) {
		sum, err := w.IncrFloat(c.Args[0], c.Args[1])
		return bulk(sum), err
	})
}
