package bitmapext

import (
	"errors"
	"math/bits"

	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// Commands returns the commands on bitmaps, with Redis' replies and errors. The module that has them must have Type.
func Commands() []module.Command {
	const (
		read  = module.ReadOnly
		write = module.Write | module.DenyOOM
	)
	row := func(name string, arity int, flags module.Flags, keyFlags, syntax, summary, complexity, example string, f func(*module.Call) reply.Reply) module.Command {
		return module.Command{
			Name: name, Arity: arity, Flags: flags, FirstKey: 1, LastKey: 1, KeyStep: 1, KeyFlags: []string{keyFlags}, Group: "bitmap",
			Summary: summary, Syntax: syntax, Complexity: complexity, Example: example, Handler: f,
		}
	}
	const perByte = "O(N) for N bytes looked at"
	bitop := row("BITOP", -4, write, "OW update", "AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE destkey key [key ...]",
		"Combines bitmaps bit by bit and stores the result; answers its length in bytes.", "O(N) for N bytes of bitmaps",
		"SETBIT mon 7 1\nSETBIT tue 7 1\nBITOP AND both mon tue", bitOp)
	bitop.FirstKey, bitop.LastKey = 2, -1
	bitop.KeyFlags = []string{"OW update", "RO access"}
	countOp := row("SIEVE.BITCOUNTOP", -3, read, "RO access", "AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE key [key ...]",
		"Answers how many bits are set in the combination of bitmaps, which is not stored.", "O(N) for N bytes of bitmaps",
		"SETBIT mon 7 1\nSETBIT tue 7 1\nSIEVE.BITCOUNTOP AND mon tue", bitCountOp)
	countOp.FirstKey, countOp.LastKey = 2, -1
	bitfield := row("BITFIELD", -2, write|module.Brief, "RW access update",
		"key [GET encoding offset | [OVERFLOW WRAP | SAT | FAIL] SET encoding offset value | INCRBY encoding offset increment ...]",
		"Reads, sets and increments integers of any width in a string.", "O(1) for each operation",
		"BITFIELD stats INCRBY u8 0 1 GET u4 4", bitField)
	bitfield.KeyFlagsOf = bitFieldKeyFlags
	return []module.Command{
		row("BITCOUNT", -2, read, "RO access", "key [start end [BYTE | BIT]]",
			"Answers how many bits of a string are set, in all of it or in a range; negative indices count from the end.", perByte,
			"SETBIT active 7 1\nBITCOUNT active", bitCount),
		bitfield,
		row("BITFIELD_RO", -2, read|module.Fast, "RO access", "key [GET encoding offset [GET encoding offset ...]]",
			"Reads integers of any width in a string.", "O(1) for each operation", "SET name ann\nBITFIELD_RO name GET u8 0", bitFieldRO),
		bitop,
		row("BITPOS", -3, read, "RO access", "key bit [start [end [BYTE | BIT]]]",
			"Answers the first bit of a string that is set (1) or clear (0), -1 if there is none.", perByte,
			"SETBIT active 7 1\nBITPOS active 1", bitPos),
		row("GETBIT", 3, read|module.Fast, "RO access", "key offset", "Answers a bit of a string; 0 beyond its end.", "O(1)",
			"SETBIT active 7 1\nGETBIT active 7", getBit),
		row("SETBIT", 4, write|module.Brief, "RW access update", "key offset value",
			"Sets or clears a bit of a string, which is extended by zeros; answers the old bit.", "O(1)", "SETBIT active 7 1", setBit),
		countOp,
		row("SIEVE.STREAK", 3, read, "RO access", "key end",
			"Answers how many bits in a row are set up to bit end, itself included.", "O(N) for N bits in a row",
			"SETBIT signin 6 1\nSETBIT signin 7 1\nSIEVE.STREAK signin 7", streakCommand),
	}
}

var (
	errSyntax    = reply.Error("ERR syntax error")
	errBitOffset = reply.Error("ERR bit offset is not an integer or out of range")
	errBit       = reply.Error("ERR bit is not an integer or out of range")
)

// bitNumber parses the number of a bit.
func bitNumber(arg []byte) (uint64, bool) {
	n, ok := text.ParseInt(arg)
	return uint64(n), ok && n >= 0 && n <= MaxBit
}

// Answer answers a command that reads the string under the first key, or a part of it. It does not copy the rest of a
// large string.
func Answer(c *module.Call, f func(*String) (reply.Reply, error)) reply.Reply {
	var answer reply.Reply
	missing := 0
	err := c.Read(func(r kv.Reader) error {
		return Look(r, c.Args[0], func(s *String) (err error) {
			s.ctx = c.Context
			if missing = 1; s.there {
				missing = 0
			}
			answer, err = f(s)
			return err
		})
	})
	if err != nil {
		return module.ErrorReply(err)
	}
	c.Missing(missing)
	return answer
}

func bit(on bool) reply.Reply {
	if on {
		return reply.Int(1)
	}
	return reply.Int(0)
}

func getBit(c *module.Call) reply.Reply {
	n, ok := bitNumber(c.Args[1])
	if !ok {
		return errBitOffset
	}
	return Answer(c, func(s *String) (reply.Reply, error) {
		on, err := s.Bit(n)
		return bit(on), err
	})
}

func setBit(c *module.Call) reply.Reply {
	n, ok := bitNumber(c.Args[1])
	if !ok {
		return errBitOffset
	}
	on, ok := text.ParseInt(c.Args[2])
	if !ok || on < 0 || on > 1 {
		return errBit
	}
	return c.Update(c.Args[:1], func(w *kv.Writer) (reply.Reply, error) {
		was, err := SetBit(c.Context, w, c.Args[0], n, on == 1)
		return bit(was), err
	})
}

// unit parses BYTE or BIT.
func unit(arg []byte) (inBits, ok bool) {
	switch text.FoldCase(arg) {
	case "BIT":
		return true, true
	case "BYTE":
		return false, true
	}
	return false, false
}

func bitCount(c *module.Call) reply.Reply {
	return Answer(c, func(s *String) (reply.Reply, error) {
		if !s.Exists() { // as in Redis, whatever the other words are
			return reply.Int(0), nil
		}
		from, end := uint64(0), 8*s.Len()
		switch len(c.Args) {
		case 1:
		case 3, 4:
			start, ok1 := text.ParseInt(c.Args[1])
			last, ok2 := text.ParseInt(c.Args[2])
			if !ok1 || !ok2 {
				return reply.Nil, kv.ErrNotInteger
			}
			if start < 0 && last < 0 && start > last {
				return reply.Int(0), nil
			}
			inBits := false
			if len(c.Args) == 4 {
				var ok bool
				if inBits, ok = unit(c.Args[3]); !ok {
					return errSyntax, nil
				}
			}
			if inBits {
				from, end = text.Range(8*s.Len(), start, last)
			} else {
				from, end = text.Range(s.Len(), start, last)
				from, end = 8*from, 8*end
			}
		default:
			return errSyntax, nil
		}
		n, err := s.Count(from, end)
		return reply.Int(int64(n)), err
	})
}

func bitPos(c *module.Call) reply.Reply {
	on, ok := text.ParseInt(c.Args[1])
	if !ok {
		return module.ErrorReply(kv.ErrNotInteger)
	}
	if on != 0 && on != 1 {
		return reply.Error("ERR The bit argument must be 1 or 0.")
	}
	return Answer(c, func(s *String) (reply.Reply, error) {
		if !s.Exists() { // as in Redis, whatever the other words are
			return reply.Int(-on), nil
		}
		return positionIn(s, on == 1, c.Args[2:])
	})
}

// positionIn answers BITPOS for the range that the last words give.
func positionIn(s *String, on bool, args [][]byte) (reply.Reply, error) {
	var start, last int64
	inBits, ok := false, true
	switch len(args) {
	case 0:
	case 1, 2, 3:
		if start, ok = text.ParseInt(args[0]); !ok {
			return reply.Nil, kv.ErrNotInteger
		}
		if len(args) == 3 {
			if inBits, ok = unit(args[2]); !ok {
				return errSyntax, nil
			}
		}
		if len(args) > 1 {
			if last, ok = text.ParseInt(args[1]); !ok {
				return reply.Nil, kv.ErrNotInteger
			}
		}
	default:
		return errSyntax, nil
	}
	n, scale := int64(s.Len()), int64(8)
	if inBits {
		n, scale = 8*n, 1
	}
	given := len(args) > 1
	if !given {
		last = n - 1
	}
	inside := func(i int64) int64 {
		if i < 0 {
			i += n
		}
		return max(0, i)
	}
	start, last = inside(start), min(inside(last), n-1)
	if !given {
		last = n - 1
	}
	if start > last {
		return reply.Int(-1), nil
	}
	from, end := uint64(start*scale), uint64((last+1)*scale)
	at, found, err := s.Find(on, from, end)
	switch {
	case err != nil:
		return reply.Nil, err
	case found:
		return reply.Int(int64(at)), nil
	case !on && !given: // the zeros behind the string count
		return reply.Int(int64(end)), nil
	}
	return reply.Int(-1), nil
}

// opNamed returns the operation with a name.
func opNamed(name []byte) (Op, bool) {
	for i, known := range opNames {
		if text.FoldCase(name) == known {
			return Op(i), true
		}
	}
	return 0, false
}

// operation parses an operation on n bitmaps. The error is an error reply.
func operation(c *module.Call, bitmaps int) (Op, *reply.Reply) {
	op, ok := opNamed(c.Args[0])
	if !ok {
		return 0, &errSyntax
	}
	if err := op.check(bitmaps); err != nil {
		what := "BITOP " + op.String()
		text := "ERR " + what + " must be called with at least two source keys."
		if op == Not {
			text = "ERR " + what + " must be called with a single source key."
		}
		refused := reply.Error(text)
		return 0, &refused
	}
	return op, nil
}

func bitOp(c *module.Call) reply.Reply {
	keys := c.Args[1:]
	op, refused := operation(c, len(keys)-1)
	if refused != nil {
		return *refused
	}
	return c.Update(keys, func(w *kv.Writer) (reply.Reply, error) {
		charge, give := borrower(c)
		defer give()
		n, err := store(c.Context, w, op, keys[0], keys[1:], charge)
		return reply.Int(int64(n)), err
	})
}

// borrower returns a function that counts memory, until give is called.
func borrower(c *module.Call) (charge func(bytes int) error, give func()) {
	var gives []func()
	charge = func(bytes int) error {
		back, err := c.Borrow(bytes)
		if err == nil {
			gives = append(gives, back)
		}
		return err
	}
	return charge, func() {
		for _, back := range gives {
			back()
		}
	}
}

func bitCountOp(c *module.Call) reply.Reply {
	keys := c.Args[1:]
	op, refused := operation(c, len(keys))
	if refused != nil {
		return *refused
	}
	var n uint64
	err := c.ReadLong(func(r kv.Reader) (err error) {
		charge, give := borrower(c)
		defer give()
		n, err = countOf(c.Context, r, op, keys, charge)
		return err
	})
	if err != nil {
		return module.ErrorReply(err)
	}
	return reply.Int(int64(n))
}

func streakCommand(c *module.Call) reply.Reply {
	end, ok := bitNumber(c.Args[1])
	if !ok {
		return errBitOffset
	}
	return Answer(c, func(s *String) (reply.Reply, error) {
		n, err := s.Streak(end)
		return reply.Int(int64(n)), err
	})
}

// errReadOnly is for a BITFIELD_RO that would write.
var errReadOnly = errors.New("BITFIELD_RO only supports the GET subcommand")

// bitFieldKeyFlags returns what a BITFIELD does with its key: it only reads if it has no operation but GET. As in Redis, that
// does not depend on the encodings and offsets.
func bitFieldKeyFlags(args [][]byte) []string {
	for args = args[1:]; len(args) > 0; {
		switch word := text.FoldCase(args[0]); {
		case word == "GET" && len(args) > 2:
			args = args[3:]
		case word == "OVERFLOW" && len(args) > 1:
			args = args[2:]
		default:
			return []string{"RW access update"}
		}
	}
	return []string{"RO access"}
}

func bitField(c *module.Call) reply.Reply {
	ops, writes, refused := fields(c.Args[1:])
	if refused != nil {
		return *refused
	}
	if !writes {
		return readFields(c, ops)
	}
	return c.Update(c.Args[:1], func(w *kv.Writer) (reply.Reply, error) {
		answers, err := editFields(c.Context, w, c.Args[0], ops)
		return integers(answers), err
	})
}

func bitFieldRO(c *module.Call) reply.Reply {
	ops, writes, refused := fields(c.Args[1:])
	switch {
	case refused != nil:
		return *refused
	case writes:
		return module.ErrorReply(errReadOnly)
	}
	return readFields(c, ops)
}

func readFields(c *module.Call, ops []field) reply.Reply {
	return Answer(c, func(s *String) (reply.Reply, error) {
		answers, err := fieldsIn(s, ops)
		return integers(answers), err
	})
}

func integers(values []*int64) reply.Reply {
	list := make([]reply.Reply, len(values))
	for i, v := range values {
		list[i] = reply.Nil
		if v != nil {
			list[i] = reply.Int(*v)
		}
	}
	return reply.Array(list...)
}

// fields parses the operations of a BITFIELD, and reports whether one writes.
func fields(args [][]byte) (ops []field, writes bool, refused *reply.Reply) {
	mode := wrap
	for len(args) > 0 {
		var f field
		rest := len(args) - 1
		switch word := text.FoldCase(args[0]); {
		case word == "GET" && rest >= 2:
		case word == "SET" && rest >= 3:
			f.op = fieldSet
		case word == "INCRBY" && rest >= 3:
			f.op = fieldIncr
		case word == "OVERFLOW" && rest >= 1:
			switch text.FoldCase(args[1]) {
			case "WRAP":
				mode = wrap
			case "SAT":
				mode = saturate
			case "FAIL":
				mode = fail
			default:
				return nil, false, refuse("ERR Invalid OVERFLOW type specified")
			}
			args = args[2:]
			continue
		default:
			return nil, false, &errSyntax
		}
		f.overflow = mode
		if !f.encoding(args[1]) {
			return nil, false, refuse("ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.")
		}
		if !f.at(args[2]) {
			return nil, false, &errBitOffset
		}
		args = args[3:]
		if f.op != fieldGet {
			var ok bool
			if f.value, ok = text.ParseInt(args[0]); !ok {
				answer := module.ErrorReply(kv.ErrNotInteger)
				return nil, false, &answer
			}
			args, writes = args[1:], true
		}
		ops = append(ops, f)
	}
	return ops, writes, nil
}

func refuse(why string) *reply.Reply {
	r := reply.Error(why)
	return &r
}

// encoding parses a type such as i16 or u8.
func (f *field) encoding(arg []byte) bool {
	if len(arg) == 0 || arg[0] != 'i' && arg[0] != 'u' {
		return false
	}
	f.signed = arg[0] == 'i'
	n, ok := text.ParseInt(arg[1:])
	if !ok || n < 1 || n > 64 || n == 64 && !f.signed {
		return false
	}
	f.width = uint64(n)
	return true
}

// at parses the offset of a field: a number of bits, or after # of widths.
func (f *field) at(arg []byte) bool {
	scale := uint64(1)
	if len(arg) > 0 && arg[0] == '#' {
		arg, scale = arg[1:], f.width
	}
	n, ok := text.ParseInt(arg)
	if !ok || n < 0 {
		return false
	}
	high, low := bits.Mul64(uint64(n), scale)
	f.offset = low
	return high == 0 && low <= MaxBit
}
