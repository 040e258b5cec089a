package tests_test

import (
	"bytes"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"pgregory.net/rapid"

	"github.com/sievekv/sievekv/module/reply"
)

// stringFamily is the commands on strings.
type stringFamily struct{}

// modelString is a string under a key.
type modelString string

func (modelString) typeName() string { return "string" }

func (s modelString) clone() modelValue { return s }

func (modelString) questions(key string) [][]string {
	return [][]string{{"GET", key}, {"STRLEN", key}, {"MGET", key}, {"BITCOUNT", key}}
}

func drawValue(t *rapid.T) string {
	return drawOne(t, "", "a", "10", "-5", "hello world", "3.25", "9223372036854775807", "-9223372036854775808",
		"01", " 1", "inf", "\x00\xff\r\n", strings.Repeat("x", 100))
}

func drawInteger(t *rapid.T) string {
	return drawOne(t, "0", "1", "-1", "2", "-3", "100", "abc", "01",
		"9223372036854775807", "-9223372036854775808", "9223372036854775808")
}

func drawSeconds(t *rapid.T) string {
	return drawOne(t, "1", "5", "10", "100", "0", "-1", "abc", "9223372036854775807", "9223372036854775", "1.5")
}

func drawMilliseconds(t *rapid.T) string {
	return drawOne(t, "1", "499", "1500", "10000", "0", "-1", "abc", "9223372036854775807", "9223370000000000000")
}

// drawInstant is a time near to now, in units of the given number of milliseconds.
func drawInstant(t *rapid.T, m *model, unit int64) string {
	if chance(t, 5) {
		return drawOne(t, "0", "-5", "abc", "9223372036854775807", "9223372036854775")
	}
	fromNow := rapid.SampledFrom([]int64{1000, 1, 0, -1, 1500, 10_000, 100_000}).Draw(t, "from now")
	return strconv.FormatInt((m.now+fromNow)/unit, 10)
}

func drawExpiry(t *rapid.T, m *model) []string {
	switch drawOne(t, "EX", "PX", "EXAT", "PXAT", "KEEPTTL", "PERSIST") {
	case "EX":
		return []string{"EX", drawSeconds(t)}
	case "PX":
		return []string{"PX", drawMilliseconds(t)}
	case "EXAT":
		return []string{"exat", drawInstant(t, m, 1000)}
	case "PXAT":
		return []string{"PXAT", drawInstant(t, m, 1)}
	case "KEEPTTL":
		return []string{"KEEPTTL"}
	}
	return []string{"PERSIST"}
}

func drawSet(t *rapid.T, m *model) []string {
	words := []string{"SET", drawKey(t), drawValue(t)}
	for range rapid.IntRange(0, 3).Draw(t, "options") {
		switch rapid.IntRange(0, 7).Draw(t, "option") {
		case 0, 1, 2:
			words = append(words, drawExpiry(t, m)...)
		case 3, 4:
			words = append(words, drawOne(t, "NX", "XX"))
		case 5, 6:
			words = append(words, drawOne(t, "GET", "get"))
		default:
			words = append(words, drawOne(t, "bad", "EX", ""))
		}
	}
	return words
}

func (f stringFamily) draw(t *rapid.T, m *model) [][]string {
	one := func(words ...string) [][]string { return [][]string{words} }
	switch rapid.IntRange(0, 15).Draw(t, "which") {
	case 0, 1, 2, 3:
		return [][]string{drawSet(t, m)}
	case 4:
		return one(drawOne(t, "GETSET", "SETNX", "APPEND"), drawKey(t), drawValue(t))
	case 5:
		return one("GETDEL", drawKey(t))
	case 6:
		words := []string{"GETEX", drawKey(t)}
		for range rapid.IntRange(0, 2).Draw(t, "options") {
			words = append(words, drawExpiry(t, m)...)
		}
		return [][]string{words}
	case 7:
		return one("SETEX", drawKey(t), drawSeconds(t), drawValue(t))
	case 8:
		return one("PSETEX", drawKey(t), drawMilliseconds(t), drawValue(t))
	case 9, 10:
		words := []string{drawOne(t, "MSET", "MSETNX")}
		for range rapid.IntRange(1, 3).Draw(t, "pairs") {
			words = append(words, drawKey(t), drawValue(t))
		}
		if chance(t, 10) {
			words = append(words, drawKey(t))
		}
		return [][]string{words}
	case 11:
		return one("SETRANGE", drawKey(t), drawOne(t, "0", "1", "5", "200", "-1", "abc", "536870913"), drawValue(t))
	case 12:
		return one(drawOne(t, "INCR", "DECR"), drawKey(t))
	case 13:
		return one(drawOne(t, "INCRBY", "DECRBY"), drawKey(t), drawInteger(t))
	case 14:
		by := drawOne(t, "0.1", "-0.3", "3", "1e2", "10.50", "12345678.9", ".5", "5.", "inf", "-inf", "nan", "abc", "", " 1")
		return one("INCRBYFLOAT", drawKey(t), by)
	}
	return [][]string{f.look(t, m)}
}

func (stringFamily) look(t *rapid.T, _ *model) []string {
	switch drawOne(t, "GET", "STRLEN", "GETRANGE", "MGET") {
	case "GET":
		return []string{"GET", drawKey(t)}
	case "STRLEN":
		return []string{"STRLEN", drawKey(t)}
	case "GETRANGE":
		return []string{"GETRANGE", drawKey(t), drawInteger(t), drawInteger(t)}
	}
	return append([]string{"MGET"}, drawKeys(t)...)
}

// text returns the string under a key; ok is false if it holds another type.
func (m *model) text(key string) (s string, there, ok bool) {
	k := m.keys[key]
	if k == nil {
		return "", false, true
	}
	v, ok := k.value.(modelString)
	return string(v), true, ok
}

func textOrNil(s string, there bool) reply.Reply {
	if !there {
		return reply.Nil
	}
	return reply.BulkString(s)
}

// change replaces a string that keeps its expiry.
func (m *model) change(key, s string) {
	var expiry int64
	if k := m.keys[key]; k != nil {
		expiry = k.expiry
	}
	m.set(key, modelString(s), expiry)
}

// integer reads a number of 64 bits in the one form it is printed in.
func integer(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && s == strconv.FormatInt(n, 10)
}

func (f stringFamily) answer(m *model, name string, args []string) want {
	switch name {
	case "MGET":
		list := make([]reply.Reply, len(args))
		for i, key := range args {
			s, there, ok := m.text(key)
			list[i] = textOrNil(s, there && ok)
		}
		return exactly(reply.Array(list...))
	case "MSET", "MSETNX":
		return m.setMany(name, args)
	case "SET":
		return m.setWith(args[0], args[1], args[2:])
	case "SETEX", "PSETEX":
		at, bad := m.instant(map[string]string{"SETEX": "EX", "PSETEX": "PX"}[name], args[1], name)
		if bad != "" {
			return fails(bad)
		}
		m.set(args[0], modelString(args[2]), at)
		return exactly(reply.OK)
	case "SETNX":
		if m.keys[args[0]] != nil {
			return exactly(reply.Int(0))
		}
		m.set(args[0], modelString(args[1]), 0)
		return exactly(reply.Int(1))
	case "GET", "STRLEN", "GETRANGE", "GETSET", "GETDEL", "GETEX",
		"APPEND", "SETRANGE", "INCR", "DECR", "INCRBY", "DECRBY", "INCRBYFLOAT":
		return f.onString(m, name, args)
	}
	return nil
}

// onString answers the commands that take a string and nothing else. What is wrong with the words is told first.
func (f stringFamily) onString(m *model, name string, args []string) want {
	key := args[0]
	var n1, n2 int64
	switch name {
	case "INCRBY", "DECRBY", "SETRANGE", "GETRANGE":
		var ok1, ok2 = false, true
		if n1, ok1 = integer(args[1]); name == "GETRANGE" {
			n2, ok2 = integer(args[2])
		}
		switch {
		case !ok1 || !ok2:
			return fails(notInteger)
		case name == "DECRBY" && n1 == math.MinInt64:
			return fails("ERR decrement would overflow")
		case name == "SETRANGE" && n1 < 0:
			return fails("ERR offset is out of range")
		}
	case "GETEX":
		if _, ok := getexOption(args[1:]); !ok {
			return fails(syntax)
		}
	}
	s, there, ok := m.text(key)
	if !ok {
		return fails(wrongType)
	}
	switch name {
	case "GET":
		return exactly(textOrNil(s, there))
	case "STRLEN":
		return exactly(reply.Int(int64(len(s))))
	case "GETRANGE":
		return exactly(reply.BulkString(part(s, n1, n2)))
	case "GETSET":
		m.set(key, modelString(args[1]), 0)
		return exactly(textOrNil(s, there))
	case "GETDEL":
		m.remove(key)
		return exactly(textOrNil(s, there))
	case "GETEX":
		return m.getex(key, s, there, args[1:])
	case "APPEND":
		m.change(key, s+args[1])
		return exactly(reply.Int(int64(len(s) + len(args[1]))))
	case "SETRANGE":
		return m.setRange(key, s, n1, args[2])
	case "INCR":
		return m.incr(key, s, there, big.NewInt(1))
	case "DECR":
		return m.incr(key, s, there, big.NewInt(-1))
	case "INCRBY":
		return m.incr(key, s, there, big.NewInt(n1))
	case "DECRBY":
		return m.incr(key, s, there, new(big.Int).Neg(big.NewInt(n1)))
	}
	return m.incrFloat(key, s, there, args[1])
}

func (m *model) setMany(name string, args []string) want {
	if len(args)%2 != 0 {
		return fails("ERR wrong number of arguments for '" + strings.ToLower(name) + "' command")
	}
	for i := 0; i < len(args) && name == "MSETNX"; i += 2 {
		if m.keys[args[i]] != nil {
			return exactly(reply.Int(0))
		}
	}
	for i := 0; i < len(args); i += 2 {
		m.set(args[i], modelString(args[i+1]), 0)
	}
	if name == "MSETNX" {
		return exactly(reply.Int(1))
	}
	return exactly(reply.OK)
}

// instant returns the time that an option of a command says.
func (m *model) instant(option, value, command string) (at int64, bad string) {
	n, ok := integer(value)
	if !ok {
		return 0, notInteger
	}
	sum := big.NewInt(n)
	if option[0] == 'E' {
		sum.Mul(sum, big.NewInt(1000))
	}
	if !strings.HasSuffix(option, "AT") {
		sum.Add(sum, big.NewInt(m.now))
	}
	if n <= 0 || !sum.IsInt64() {
		return 0, "ERR invalid expire time in '" + strings.ToLower(command) + "' command"
	}
	return sum.Int64(), ""
}

// setWith is SET.
func (m *model) setWith(key, value string, options []string) want {
	var cond, timed, amount string
	get := false
	for i := 0; i < len(options); i++ {
		switch word := strings.ToUpper(options[i]); word {
		case "NX", "XX":
			if cond != "" && cond != word {
				return fails(syntax)
			}
			cond = word
		case "GET":
			get = true
		case "KEEPTTL", "EX", "PX", "EXAT", "PXAT":
			if timed != "" && timed != word {
				return fails(syntax)
			}
			if timed = word; word != "KEEPTTL" {
				if i++; i == len(options) {
					return fails(syntax)
				}
				amount = options[i]
			}
		default:
			return fails(syntax)
		}
	}
	var expiry int64
	if timed != "" && timed != "KEEPTTL" {
		var bad string
		if expiry, bad = m.instant(timed, amount, "set"); bad != "" {
			return fails(bad)
		}
	}
	old, there, ok := m.text(key)
	if get && !ok {
		return fails(wrongType)
	}
	answer := reply.OK
	do := cond == "" || (cond == "XX") == there
	if get {
		answer = textOrNil(old, there)
	} else if !do {
		answer = reply.Nil
	}
	if do && timed == "KEEPTTL" {
		m.change(key, value)
	} else if do {
		m.set(key, modelString(value), expiry)
	}
	return exactly(answer)
}

func getexOption(words []string) (option []string, ok bool) {
	for len(words) > 0 {
		word := strings.ToUpper(words[0])
		if option != nil && option[0] != word {
			return nil, false
		}
		n := 2
		switch word {
		case "PERSIST":
			n = 1
		case "EX", "PX", "EXAT", "PXAT":
		default:
			return nil, false
		}
		option = append([]string{word}, words[1:n]...)
		words = words[n:]
	}
	return option, true
}

func (m *model) getex(key, s string, there bool, words []string) want {
	option, _ := getexOption(words)
	switch {
	case !there || option == nil:
	case option[0] == "PERSIST":
		m.persist(key)
	default:
		at, bad := m.instant(option[0], option[1], "getex")
		if bad != "" {
			return fails(bad)
		}
		m.set(key, m.keys[key].value, at)
	}
	return exactly(textOrNil(s, there))
}

// part is what GETRANGE answers.
func part(s string, start, end int64) string {
	n := int64(len(s))
	if start < 0 && end < 0 && start > end {
		return ""
	}
	if start < 0 {
		start = max(0, start+n)
	}
	if end < 0 {
		end = max(0, end+n)
	}
	if end = min(end, n-1); start > end {
		return ""
	}
	return s[start : end+1]
}

func (m *model) setRange(key, s string, offset int64, over string) want {
	if over == "" {
		return exactly(reply.Int(int64(len(s))))
	}
	if offset+int64(len(over)) > 512<<20 {
		return fails("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
	}
	b := []byte(s)
	if gap := int(offset) + len(over) - len(b); gap > 0 {
		b = append(b, bytes.Repeat([]byte{0}, gap)...)
	}
	copy(b[offset:], over)
	m.change(key, string(b))
	return exactly(reply.Int(int64(len(b))))
}

func (m *model) incr(key, s string, there bool, n *big.Int) want {
	old := int64(0)
	if there {
		var ok bool
		if old, ok = integer(s); !ok {
			return fails(notInteger)
		}
	}
	sum := n.Add(n, big.NewInt(old))
	if !sum.IsInt64() {
		return fails("ERR increment or decrement would overflow")
	}
	m.change(key, sum.String())
	return exactly(reply.Int(sum.Int64()))
}

var (
	decimal  = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?$`)
	infinity = regexp.MustCompile(`^[+-]?inf$`)
)

// long reads a number with the 64 bits that a long double of x86 has for its digits.
func long(s string) (*big.Float, bool) {
	switch {
	case infinity.MatchString(s):
		return new(big.Float).SetInf(s[0] == '-'), true
	case !decimal.MatchString(s):
		return nil, false
	}
	f, _, err := big.ParseFloat(s, 10, 64, big.ToNearestEven)
	return f, err == nil
}

func (m *model) incrFloat(key, s string, there bool, by string) want {
	if !there {
		s = "0"
	}
	a, ok1 := long(s)
	b, ok2 := long(by)
	switch {
	case !ok1 || !ok2:
		return fails(notFloat)
	case a.IsInf() || b.IsInf():
		return fails("ERR increment would produce NaN or Infinity")
	}
	sum := strings.TrimSuffix(strings.TrimRight(a.Add(a, b).Text('f', 17), "0"), ".")
	if sum == "-0" {
		sum = "0"
	}
	m.change(key, sum)
	return exactly(reply.BulkString(sum))
}
