package tests_test

import (
	"math/big"
	"slices"
	"strconv"
	"strings"

	"pgregory.net/rapid"

	"github.com/sievekv/sievekv/module/reply"
)

// bitmapFamily is the commands on the bits of strings.
type bitmapFamily struct{}

// drawBit is the number of a bit, often at the end of what a header holds, or of a block.
func drawBit(t *rapid.T) string {
	return drawOne(t, "0", "7", "8", "100", "8183", "8184", "8191", "8192", "8199", "65535", "65536", "65543", "131072", "200000", "-1", "4294967296")
}

func drawBitOp(t *rapid.T) []string {
	words := []string{drawOne(t, "AND", "OR", "XOR", "NOT", "DIFF", "DIFF1", "ANDOR", "ONE", "or", "bad")}
	return append(words, drawKeys(t)...)
}

func drawFields(t *rapid.T, ops ...string) (words []string) {
	for range rapid.IntRange(0, 3).Draw(t, "operations") {
		op := drawOne(t, ops...)
		if op == "OVERFLOW" {
			words = append(words, op, drawOne(t, "WRAP", "SAT", "FAIL"))
			continue
		}
		words = append(words, op, drawOne(t, "u1", "u8", "i8", "i5", "u13", "i16", "i1"), drawOne(t, "0", "3", "#2", "8180", "8188", "65530", "65532", "100000"))
		if op != "GET" {
			words = append(words, drawOne(t, "1", "0", "-1", "100", "-300", "5000"))
		}
	}
	return words
}

func (f bitmapFamily) draw(t *rapid.T, m *model) [][]string {
	switch rapid.IntRange(0, 9).Draw(t, "which") {
	case 0, 1, 2, 3:
		return [][]string{{"SETBIT", drawKey(t), drawBit(t), drawOne(t, "1", "1", "0", "2")}}
	case 4:
		// over the border of a block, or beyond what a header holds
		return [][]string{{"SETRANGE", drawKey(t), drawOne(t, "1000", "1020", "8100", "8190", "16380"), drawValue(t)}}
	case 5, 6:
		op := drawBitOp(t)
		return [][]string{append([]string{"BITOP", op[0], drawKey(t)}, op[1:]...)}
	case 7, 8:
		return [][]string{append([]string{"BITFIELD", drawKey(t)}, drawFields(t, "SET", "INCRBY", "GET", "OVERFLOW")...)}
	}
	return [][]string{f.look(t, m)}
}

func (bitmapFamily) look(t *rapid.T, _ *model) []string {
	limits := []string{drawOne(t, "0", "-1", "1", "5", "-9", "1024", "8191", "8192", "70000"), drawOne(t, "-1", "0", "6", "-5", "1023", "8192", "65536")}
	if chance(t, 2) {
		limits = append(limits, drawOne(t, "BIT", "BYTE"))
	}
	switch drawOne(t, "GETBIT", "BITCOUNT", "BITPOS", "BITFIELD_RO", "SIEVE.STREAK", "SIEVE.BITCOUNTOP") {
	case "GETBIT":
		return []string{"GETBIT", drawKey(t), drawBit(t)}
	case "BITCOUNT":
		return append([]string{"BITCOUNT", drawKey(t)}, limits[:rapid.SampledFrom([]int{0, len(limits)}).Draw(t, "limits")]...)
	case "BITPOS":
		return append([]string{"BITPOS", drawKey(t), drawOne(t, "0", "1")}, limits[:rapid.IntRange(0, len(limits)).Draw(t, "limits")]...)
	case "BITFIELD_RO":
		return append([]string{"BITFIELD_RO", drawKey(t)}, drawFields(t, "GET")...)
	case "SIEVE.STREAK":
		return []string{"SIEVE.STREAK", drawKey(t), drawBit(t)}
	}
	return append([]string{"SIEVE.BITCOUNTOP"}, drawBitOp(t)...)
}

// bitsOf returns the bits of a string in words.
func bitsOf(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteString(strconv.FormatUint(uint64(s[i])+256, 2)[1:])
	}
	return b.String()
}

// stringOfBits is the other way round.
func stringOfBits(bits string) string {
	b := make([]byte, 0, len(bits)/8)
	for ; bits != ""; bits = bits[8:] {
		n, _ := strconv.ParseUint(bits[:8], 2, 8)
		b = append(b, byte(n))
	}
	return string(b)
}

// extended returns a string with zeros behind it, if it is shorter than n.
func extended(s string, n int) string { return s + strings.Repeat("\x00", max(0, n-len(s))) }

const badBitOffset = "ERR bit offset is not an integer or out of range"

func (f bitmapFamily) answer(m *model, name string, args []string) want {
	switch name {
	case "BITOP", "SIEVE.BITCOUNTOP":
		return f.combine(m, name, args)
	case "GETBIT", "SETBIT", "SIEVE.STREAK":
		if n, ok := integer(args[1]); !ok || n < 0 || n > 1<<32-1 {
			return fails(badBitOffset)
		}
	case "BITCOUNT", "BITPOS", "BITFIELD", "BITFIELD_RO":
	default:
		return nil
	}
	if name == "SETBIT" && args[2] == "2" {
		return fails("ERR bit is not an integer or out of range")
	}
	key := args[0]
	s, there, ok := m.text(key)
	if !ok {
		return fails(wrongType)
	}
	switch name {
	case "BITFIELD", "BITFIELD_RO":
		return m.bitField(key, s, there, args[1:])
	case "BITCOUNT":
		return exactly(reply.Int(int64(strings.Count(limited(s, args[1:]), "1"))))
	case "BITPOS":
		return exactly(reply.Int(bitPosition(s, there, args[1], args[2:])))
	}
	n, _ := integer(args[1])
	bits := bitsOf(extended(s, int(n/8+1)))
	switch name {
	case "GETBIT":
		return exactly(reply.Int(int64(bits[n] - '0')))
	case "SIEVE.STREAK":
		return exactly(reply.Int(n - int64(strings.LastIndex(bits[:n+1], "0"))))
	}
	if args[2][0] != bits[n] || int(n/8) >= len(s) {
		m.change(key, stringOfBits(bits[:n]+args[2]+bits[n+1:]))
	}
	return exactly(reply.Int(int64(bits[n] - '0')))
}

// limited returns the bits of a part of a string, given as BITCOUNT takes it.
func limited(s string, limits []string) string {
	if len(limits) == 0 {
		return bitsOf(s)
	}
	start, _ := integer(limits[0])
	end, _ := integer(limits[1])
	if len(limits) == 3 && limits[2] == "BIT" {
		return part(bitsOf(s), start, end)
	}
	return bitsOf(part(s, start, end))
}

func bitPosition(s string, there bool, bit string, limits []string) int64 {
	if !there {
		return map[string]int64{"0": 0, "1": -1}[bit]
	}
	all := bitsOf(s)
	given := len(limits) > 1
	switch len(limits) {
	case 0:
		limits = []string{"0", "-1"}
	case 1:
		limits = []string{limits[0], "-1"}
	}
	scale := int64(8)
	if len(limits) == 3 && limits[2] == "BIT" {
		scale = 1
	}
	// Limits before the beginning are the beginning, also if the first is behind the second. BITCOUNT counts nothing then.
	limits = slices.Clone(limits)
	for i, limit := range limits[:2] {
		if n, _ := integer(limit); n < 0 {
			limits[i] = strconv.FormatInt(max(0, n+int64(len(all))/scale), 10)
		}
	}
	bits := limited(s, limits)
	if bits == "" {
		return -1
	}
	start, _ := integer(limits[0])
	at := strings.Index(bits, bit)
	switch {
	case at >= 0:
		return start*scale + int64(at)
	case bit == "0" && !given:
		return int64(len(all))
	}
	return -1
}

// combine is BITOP and SIEVE.BITCOUNTOP.
func (bitmapFamily) combine(m *model, name string, args []string) want {
	op, keys := strings.ToUpper(args[0]), args[1:]
	if name == "BITOP" {
		keys = args[2:]
	}
	switch {
	case op == "BAD":
		return fails(syntax)
	case op == "NOT" && len(keys) != 1:
		return fails("ERR BITOP NOT must be called with a single source key.")
	case (op == "DIFF" || op == "DIFF1" || op == "ANDOR") && len(keys) < 2:
		return fails("ERR BITOP " + op + " must be called with at least two source keys.")
	}
	var list []string
	length := 0
	for _, key := range keys {
		s, _, ok := m.text(key)
		if !ok {
			return fails(wrongType)
		}
		list, length = append(list, s), max(length, len(s))
	}
	for i, s := range list {
		list[i] = extended(s, length)
	}
	result := make([]byte, length)
	for i := range result {
		for bit := byte(1); bit != 0; bit <<= 1 {
			first, n := list[0][i]&bit != 0, 0
			for _, s := range list {
				if s[i]&bit != 0 {
					n++
				}
			}
			is := map[string]bool{
				"AND": n == len(list), "OR": n > 0, "XOR": n%2 == 1, "NOT": n == 0, "ONE": n == 1,
				"DIFF": first && n == 1, "DIFF1": !first && n > 0, "ANDOR": first && n > 1,
			}
			if is[op] {
				result[i] |= bit
			}
		}
	}
	if name == "SIEVE.BITCOUNTOP" {
		return exactly(reply.Int(int64(strings.Count(bitsOf(string(result)), "1"))))
	}
	if m.remove(args[1]); length > 0 {
		m.set(args[1], modelString(result), 0)
	}
	return exactly(reply.Int(int64(length)))
}

// bitField is BITFIELD.
func (m *model) bitField(key, s string, there bool, words []string) want {
	type field struct {
		op, overflow  string
		signed        bool
		width, offset int64
		value         *big.Int
	}
	var fields []field
	overflow, least := "WRAP", 0
	for len(words) > 0 {
		if words[0] == "OVERFLOW" {
			overflow, words = words[1], words[2:]
			continue
		}
		f := field{op: words[0], overflow: overflow, signed: words[1][0] == 'i'}
		f.width, _ = integer(words[1][1:])
		offset, times := strings.CutPrefix(words[2], "#")
		if f.offset, _ = integer(offset); times {
			f.offset *= f.width
		}
		words = words[3:]
		if f.op != "GET" {
			n, _ := integer(words[0])
			f.value, words = big.NewInt(n), words[1:]
			least = max(least, int((f.offset+f.width+7)/8))
		}
		fields = append(fields, f)
	}
	wrote := least > len(s) || least > 0 && !there
	s = extended(s, least)
	answers := make([]reply.Reply, len(fields))
	for i, f := range fields {
		bits := bitsOf(extended(s, int((f.offset+f.width+7)/8)))
		raw, _ := new(big.Int).SetString(bits[f.offset:f.offset+f.width], 2)
		span := new(big.Int).Lsh(big.NewInt(1), uint(f.width))
		lowest, highest := new(big.Int), new(big.Int).Sub(span, big.NewInt(1))
		if f.signed {
			lowest.Rsh(span, 1).Neg(lowest)
			highest.Add(highest, lowest)
		}
		old := new(big.Int).Set(raw)
		if old.Cmp(highest) > 0 {
			old.Sub(old, span)
		}
		if answers[i] = reply.Int(old.Int64()); f.op == "GET" {
			continue
		}
		now := new(big.Int).Set(f.value)
		if f.op == "INCRBY" {
			now.Add(now, old)
		}
		over, under := now.Cmp(highest) > 0, now.Cmp(lowest) < 0
		if f.op == "SET" && !f.signed && under { // as in Redis, a negative number is a very large one
			over, under = true, false
		}
		switch {
		case (over || under) && f.overflow == "FAIL":
			answers[i] = reply.Nil
			continue
		case over && f.overflow == "SAT":
			now = highest
		case under && f.overflow == "SAT":
			now = lowest
		}
		now = new(big.Int).Mod(now, span)
		digits := now.Text(2)
		digits = strings.Repeat("0", int(f.width)-len(digits)) + digits
		s = stringOfBits(bits[:f.offset] + digits + bits[f.offset+f.width:])[:len(s)]
		wrote = wrote || now.Cmp(raw) != 0 // as in Redis, it is no change for WATCH if the field has that value
		if f.op == "INCRBY" {
			if now.Cmp(highest) > 0 {
				now.Sub(now, span)
			}
			answers[i] = reply.Int(now.Int64())
		}
	}
	if wrote {
		m.change(key, s)
	}
	return exactly(reply.Array(answers...))
}
