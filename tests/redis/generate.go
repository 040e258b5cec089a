package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// generator makes random commands on a few keys, which mostly have the right form and often are at an edge.
type generator struct {
	random *rand.Rand
	prefix string // of the sequence's keys
	runs   int    // of the sequence under other names
}

// renamed returns a sequence with keys that were not used yet.
func (g *generator) renamed(sequence [][]string) [][]string {
	g.runs++
	again := make([][]string, len(sequence))
	for i, words := range sequence {
		again[i] = slices.Clone(words)
		for j := range again[i] {
			again[i][j] = strings.ReplaceAll(again[i][j], g.prefix, fmt.Sprintf("%sr%d:", g.prefix, g.runs))
		}
	}
	return again
}

func (g *generator) one(of ...string) string { return of[g.random.IntN(len(of))] }

func (g *generator) key() string { return g.prefix + g.one("a", "b", "c", "d") }

func (g *generator) value() string {
	return g.one("", "a", "hello", "hello world", "0", "10", "-5", "3.25", "0.1", "1e3", "9223372036854775807", "-9223372036854775808",
		"9223372036854775808", " 1", "1 ", "01", "+1", "-0", "0x10", "inf", "-inf", "nan", "1e400", "1e-400", "\x00\xff\r\n", strings.Repeat("x", 100))
}

func (g *generator) integer() string {
	return g.one("0", "1", "-1", "2", "5", "-3", "100", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "abc", "", "01", "1.5", "-100")
}

func (g *generator) float() string {
	return g.one("0.1", "0.2", "-0.3", "1e2", "1e-5", "3", "1e17", "12345678.9", "0x1p-3", ".5", "5.", "1e4000", "inf", "nan", "abc", "", " 1", "-0", "1_0")
}

// seconds is a time to live, or none; short ones could end between two replies.
func (g *generator) seconds() string {
	return g.one("100", "1000", "100000", "0", "-1", "-100", "abc", "", "9223372036854775807", "9223372036854775", "9223370000000000", "1.5")
}

func (g *generator) unixSeconds() string {
	return g.one("4102444800", "5000000000", "4102444801", "1", "0", "-5", "abc", "9223372036854775807", "9223372036854775")
}

func (g *generator) milliseconds() string {
	return g.one("100000", "1000499", "1000500", "900000000", "0", "-1", "abc", "9223372036854775807", "9223370000000000000")
}

func (g *generator) unixMilliseconds() string {
	return g.one("4102444800000", "4102444800500", "5000000000123", "1", "0", "-5", "abc", "9223372036854775807")
}

// expiry is how SET and GETEX say when a key expires.
func (g *generator) expiry() []string {
	switch g.random.IntN(6) {
	case 0:
		return []string{g.one("EX", "ex"), g.seconds()}
	case 1:
		return []string{"PX", g.milliseconds()}
	case 2:
		return []string{"EXAT", g.unixSeconds()}
	case 3:
		return []string{g.one("PXAT", "pxat"), g.unixMilliseconds()}
	case 4:
		return []string{"KEEPTTL"}
	}
	return []string{"PERSIST"}
}

func (g *generator) setOptions() (words []string) {
	for range g.random.IntN(4) {
		switch g.random.IntN(8) {
		case 0, 1, 2:
			words = append(words, g.expiry()...)
		case 3:
			words = append(words, g.one("NX", "nx"))
		case 4:
			words = append(words, "XX")
		case 5, 6:
			words = append(words, g.one("GET", "get"))
		default:
			words = append(words, g.one("", "bad", "EX", "NX XX"))
		}
	}
	return words
}

func (g *generator) expireOptions() (words []string) {
	for range max(0, g.random.IntN(5)-2) {
		words = append(words, g.one("NX", "XX", "GT", "LT", "gt", "lt", "bad"))
	}
	return words
}

func (g *generator) keys(most int) (words []string) {
	for range 1 + g.random.IntN(most) {
		words = append(words, g.key())
	}
	return words
}

func (g *generator) pairs() (words []string) {
	for range 1 + g.random.IntN(3) {
		words = append(words, g.key(), g.value())
	}
	return words
}

// command returns a random command. Now and then it lacks a word or has one more.
func (g *generator) command() []string {
	words := g.wellFormed()
	switch g.random.IntN(40) {
	case 0:
		words = append(words, g.one("", "x", "1", g.key()))
	case 1:
		if len(words) > 1 {
			words = words[:len(words)-1]
		}
	}
	if words[0] != "SADD" && g.random.IntN(10) == 0 {
		words[0] = strings.ToLower(words[0])
	}
	if words[0] == "SADD" && len(words) != 3 {
		words = []string{"SADD", g.key(), "x"} // other words mean other things to BF.ADD
	}
	if strings.EqualFold(words[0], "KEYS") && len(words) > 1 && !strings.HasPrefix(words[1], g.prefix) {
		words = []string{"KEYS", g.prefix + "*"}
	}
	return words
}

func (g *generator) wellFormed() []string {
	join := func(name string, parts ...[]string) []string {
		words := []string{name}
		for _, p := range parts {
			words = append(words, p...)
		}
		return words
	}
	if g.random.IntN(3) == 0 {
		return g.bitmaps()
	}
	switch g.random.IntN(37) {
	case 0, 1, 2, 3:
		return join("SET", []string{g.key(), g.value()}, g.setOptions())
	case 4, 5:
		return []string{"GET", g.key()}
	case 6:
		return []string{g.one("GETSET", "SETNX", "APPEND"), g.key(), g.value()}
	case 7:
		return []string{"GETDEL", g.key()}
	case 8:
		words := []string{"GETEX", g.key()}
		for range g.random.IntN(3) {
			words = append(words, g.expiry()...)
		}
		return words
	case 9:
		return []string{"SETEX", g.key(), g.seconds(), g.value()}
	case 10:
		return []string{"PSETEX", g.key(), g.milliseconds(), g.value()}
	case 11:
		return join(g.one("MSET", "MSETNX"), g.pairs())
	case 12:
		return join("MGET", g.keys(4))
	case 13:
		return []string{"STRLEN", g.key()}
	case 14:
		return []string{"GETRANGE", g.key(), g.index(), g.index()}
	case 15:
		return []string{"SETRANGE", g.key(), g.one("0", "1", "5", "200", "-1", "abc", "536870912", "9223372036854775807"), g.value()}
	case 16:
		return []string{g.one("INCR", "DECR"), g.key()}
	case 17:
		return []string{g.one("INCRBY", "DECRBY"), g.key(), g.integer()}
	case 18:
		return []string{"INCRBYFLOAT", g.key(), g.float()}
	case 19:
		return join(g.one("DEL", "UNLINK", "EXISTS", "TOUCH"), g.keys(4))
	case 20:
		return []string{"TYPE", g.key()}
	case 21, 22:
		switch g.random.IntN(4) {
		case 0:
			return join("EXPIRE", []string{g.key(), g.seconds()}, g.expireOptions())
		case 1:
			return join("PEXPIRE", []string{g.key(), g.milliseconds()}, g.expireOptions())
		case 2:
			return join("EXPIREAT", []string{g.key(), g.unixSeconds()}, g.expireOptions())
		}
		return join("PEXPIREAT", []string{g.key(), g.unixMilliseconds()}, g.expireOptions())
	case 23, 24:
		return []string{g.one("TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"), g.key()}
	case 25:
		return []string{"PERSIST", g.key()}
	case 26:
		return []string{g.one("RENAME", "RENAMENX"), g.key(), g.key()}
	case 27:
		words := []string{"COPY", g.key(), g.key()}
		for range g.random.IntN(3) {
			words = append(words, g.one("REPLACE", "replace", "DB", "DB 0", "bad"))
		}
		if g.random.IntN(3) == 0 {
			words = append(words, "DB", g.one("0", "0", "abc", "99", "-1", "99999999999"))
		}
		return words
	case 28:
		return []string{"KEYS", g.prefix + g.one("*", "?", "[ab]", "[^ab]", "[a-c]", "a", "\\a", "[", "[a", "*[cd]", "**")}
	case 29, 30:
		return []string{"SADD", g.key(), "x"}
	case 33, 34:
		return []string{g.one("MULTI", "MULTI", "EXEC", "EXEC", "EXEC", "DISCARD", "UNWATCH")}
	case 35:
		return join("WATCH", g.keys(2))
	case 31:
		return join("MGET", g.keys(3))
	case 32:
		return join("EXISTS", g.keys(4))
	}
	return []string{"GET", g.key()}
}

// bit is the number of a bit, often at an edge: of a byte, of the bytes that stay in a header, of a block, or of a layer
// of blocks.
func (g *generator) bit() string {
	switch g.random.IntN(12) {
	case 0:
		return g.one("-1", "abc", "", "4294967296", "9223372036854775808", "01", "1.5")
	case 1, 2:
		edge := []int{1024, 8192, 64 * 8192}[g.random.IntN(3)]
		if edge > 8192 && g.random.IntN(4) > 0 {
			edge = 8192 // copies of strings of 512 KiB take long
		}
		return fmt.Sprint(8*edge + g.random.IntN(20) - 10)
	case 3:
		return fmt.Sprint(g.random.IntN(100_000))
	}
	return fmt.Sprint(g.random.IntN(40))
}

// index is an end of a range of bytes or bits.
func (g *generator) index() string {
	switch g.random.IntN(8) {
	case 0:
		return g.integer()
	case 1, 2:
		return fmt.Sprint(-1 - g.random.IntN(20))
	case 3:
		return g.bit()
	}
	return fmt.Sprint(g.random.IntN(20))
}

func (g *generator) indexRange() []string {
	switch g.random.IntN(8) {
	case 0, 1:
		return nil
	case 2:
		return []string{g.index()}
	case 3:
		return []string{g.index(), g.index(), g.one("BYTE", "bit", "x", "")}
	case 4, 5:
		return []string{g.index(), g.index(), g.one("BIT", "BYTE")}
	}
	return []string{g.index(), g.index()}
}

func (g *generator) field(ops ...string) []string {
	op := g.one(ops...)
	if op == "OVERFLOW" {
		return []string{op, g.one("WRAP", "SAT", "FAIL", "sat", "fail", "bad")}
	}
	encoding := g.one("u1", "u2", "i1", "i2", "i5", "u7", "u8", "i8", "u13", "i16", "u31", "i32", "i33", "u63", "i63", "i64", "i64", "u64", "i65", "u0", "x8", "i", "", "I8")
	words := []string{op, encoding, g.one("", "", "#") + g.bit()}
	if op != "GET" && op != "get" {
		words = append(words, g.one(g.integer(), g.integer(), "127", "-128", "128", "255", "256", "-129", "32767", "65536", "2147483648", "-9223372036854775807"))
	}
	return words
}

// bitmaps returns a command on bits, or one that writes a longer string.
func (g *generator) bitmaps() []string {
	switch g.random.IntN(15) {
	case 0, 1, 2, 3:
		return []string{"SETBIT", g.key(), g.bit(), g.one("0", "1", "1", "1", "1", "2", "x")}
	case 4:
		return []string{"GETBIT", g.key(), g.bit()}
	case 5, 6:
		return append([]string{"BITCOUNT", g.key()}, g.indexRange()...)
	case 7, 8:
		return append([]string{"BITPOS", g.key(), g.one("0", "1", "0", "1", "0", "1", "2", "x")}, g.indexRange()...)
	case 9, 10:
		return append([]string{"BITOP", g.one("AND", "OR", "XOR", "NOT", "and", "bad"), g.key()}, g.keys(3)...)
	case 11:
		words := []string{"BITFIELD", g.key()}
		for range g.random.IntN(4) {
			words = append(words, g.field("GET", "SET", "INCRBY", "OVERFLOW", "INCRBY", "SET", "bad")...)
		}
		return words
	case 12:
		words := []string{"BITFIELD_RO", g.key()}
		for range 1 + g.random.IntN(3) {
			words = append(words, g.field("GET", "GET", "GET", "get", "GET", "GET", "GET", "SET")...)
		}
		return words
	case 13:
		return []string{"WATCH", g.key()}
	}
	n := []int{1020, 1024, 1025, 8190, 8192, 8193, 70_000}[g.random.IntN(7)]
	long := strings.Repeat(g.one("a", "\x00", "\xff", "\x01\x80"), n)[:n]
	if g.random.IntN(2) == 0 {
		return []string{"SET", g.key(), long}
	}
	if g.random.IntN(2) == 0 {
		return []string{"APPEND", g.key(), long}
	}
	return []string{"SETRANGE", g.key(), g.one("0", "1", "1000", "1023", "8190", "20000"), long}
}
