package tests_test

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/sievekv/sievekv/module/reply"
)

// keyFamily is the commands on keys of every type.
type keyFamily struct{}

// globs are patterns with what they mean as regular expressions.
var globs = map[string]string{
	"*": ".*", "a": "a", "[ab]": "[ab]", "?": ".", "[^a]": "[^a]", "e*": "e.*",
	"*:?": ".*:.", `\a`: "a", "": "", "[c-e]*": "[c-e].*",
}

func drawGlob(t *rapid.T) string {
	return drawOne(t, "*", "a", "[ab]", "?", "[^a]", "e*", "*:?", `\a`, "", "[c-e]*")
}

func (f keyFamily) draw(t *rapid.T, m *model) [][]string {
	one := func(words ...string) [][]string { return [][]string{words} }
	switch rapid.IntRange(0, 16).Draw(t, "which") {
	case 0, 1:
		return [][]string{append([]string{drawOne(t, "DEL", "UNLINK")}, drawKeys(t)...)}
	case 2, 3, 4:
		return one(drawOne(t, "RENAME", "RENAME", "RENAMENX"), drawKey(t), drawKey(t))
	case 5, 6, 7:
		words := []string{"COPY", drawKey(t), drawKey(t)}
		if chance(t, 2) {
			words = append(words, drawOne(t, "REPLACE", "replace"))
		}
		if chance(t, 4) {
			words = append(words, "DB", drawOne(t, "0", "1", "abc", "99999999999"))
		}
		if chance(t, 10) {
			words = append(words, drawOne(t, "DB", "bad"))
		}
		return [][]string{words}
	case 8, 9, 10, 11:
		return [][]string{drawExpire(t, m)}
	case 12, 13:
		return one("PERSIST", drawKey(t))
	case 14:
		if chance(t, 3) {
			return one(drawOne(t, "FLUSHALL", "FLUSHDB"))
		}
	}
	return [][]string{f.look(t, m)}
}

func drawExpire(t *rapid.T, m *model) []string {
	words := []string{drawOne(t, "EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"), drawKey(t)}
	switch words[0] {
	case "EXPIRE":
		words = append(words, drawSeconds(t))
	case "PEXPIRE":
		words = append(words, drawMilliseconds(t))
	case "EXPIREAT":
		words = append(words, drawInstant(t, m, 1000))
	case "PEXPIREAT":
		words = append(words, drawInstant(t, m, 1))
	}
	for range max(0, rapid.IntRange(0, 4).Draw(t, "options")-2) {
		words = append(words, drawOne(t, "NX", "XX", "GT", "LT", "gt", "bad"))
	}
	return words
}

func (keyFamily) look(t *rapid.T, _ *model) []string {
	switch rapid.IntRange(0, 6).Draw(t, "which") {
	case 0:
		return append([]string{drawOne(t, "EXISTS", "TOUCH")}, drawKeys(t)...)
	case 1:
		return []string{"TYPE", drawKey(t)}
	case 2, 3:
		return []string{drawOne(t, "TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"), drawKey(t)}
	case 4:
		return []string{"KEYS", drawGlob(t)}
	case 5:
		words := []string{"SCAN", "0", "COUNT", "1000"}
		if chance(t, 2) {
			words = append(words, "MATCH", drawGlob(t))
		}
		if chance(t, 2) {
			words = append(words, "TYPE", drawOne(t, "string", "STRING", "MBbloom--", "hash"))
		}
		return words
	}
	return []string{drawOne(t, "DBSIZE", "RANDOMKEY")}
}

func (f keyFamily) answer(m *model, name string, args []string) want {
	switch name {
	case "DEL", "UNLINK", "EXISTS", "TOUCH":
		n := 0
		for _, key := range args {
			if m.keys[key] == nil {
				continue
			}
			n++
			if name == "DEL" || name == "UNLINK" {
				m.remove(key)
			}
		}
		return exactly(reply.Int(int64(n)))
	case "RENAME", "RENAMENX":
		return m.rename(args[0], args[1], name == "RENAMENX")
	case "COPY":
		return m.copyKey(args[0], args[1], args[2:])
	case "EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT":
		return m.expire(name, args[0], args[1], args[2:])
	case "PERSIST":
		return exactly(zeroOne(m.persist(args[0])))
	case "FLUSHALL", "FLUSHDB":
		for _, key := range m.names() {
			m.remove(key)
		}
		clear(m.gone)
		return exactly(reply.OK)
	case "TYPE":
		if k := m.keys[args[0]]; k != nil {
			return exactly(reply.Status(k.value.typeName()))
		}
		return exactly(reply.Status("none"))
	case "TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME":
		return m.timeLeft(name, args[0])
	case "KEYS":
		return inAnyOrder(m.matching(args[0], ""))
	case "SCAN":
		return m.scan(args[1:])
	case "RANDOMKEY":
		return m.randomKey()
	case "DBSIZE":
		return m.size()
	}
	return nil
}

func zeroOne(yes bool) reply.Reply {
	if yes {
		return reply.Int(1)
	}
	return reply.Int(0)
}

func (m *model) rename(from, to string, ifFree bool) want {
	k := m.keys[from]
	switch {
	case k == nil:
		return fails("ERR no such key")
	case ifFree && m.keys[to] != nil:
		return exactly(reply.Int(0))
	case from != to:
		m.remove(from)
		m.set(to, k.value, k.expiry)
	}
	if ifFree {
		return exactly(reply.Int(1))
	}
	return exactly(reply.OK)
}

func (m *model) copyKey(from, to string, options []string) want {
	replace := false
	for i := 0; i < len(options); i++ {
		switch word := strings.ToUpper(options[i]); {
		case word == "REPLACE":
			replace = true
		case word == "DB" && i+1 < len(options):
			i++
			switch n, ok := integer(options[i]); {
			case !ok:
				return fails(notInteger)
			case n != int64(int32(n)):
				return fails("ERR value is out of range, value must between -2147483648 and 2147483647")
			case n != 0:
				return fails("ERR DB index is out of range")
			}
		default:
			return fails(syntax)
		}
	}
	if from == to {
		return fails("ERR source and destination objects are the same")
	}
	k := m.keys[from]
	if k == nil || m.keys[to] != nil && !replace {
		return exactly(reply.Int(0))
	}
	m.set(to, k.value.clone(), k.expiry)
	return exactly(reply.Int(1))
}

func (m *model) persist(key string) bool {
	k := m.keys[key]
	if k == nil || k.expiry == 0 {
		return false
	}
	m.set(key, k.value, 0)
	return true
}

func (m *model) expire(name, key, value string, options []string) want {
	has := make(map[string]bool)
	for _, o := range options {
		word := strings.ToUpper(o)
		if !slices.Contains([]string{"NX", "XX", "GT", "LT"}, word) {
			return fails("ERR Unsupported option " + o)
		}
		has[word] = true
	}
	switch {
	case has["NX"] && len(has) > 1:
		return fails("ERR NX and XX, GT or LT options at the same time are not compatible")
	case has["GT"] && has["LT"]:
		return fails("ERR GT and LT options at the same time are not compatible")
	}
	n, ok := integer(value)
	if !ok {
		return fails(notInteger)
	}
	sum := big.NewInt(n)
	if name[0] == 'E' {
		sum.Mul(sum, big.NewInt(1000))
	}
	inRange := sum.IsInt64()
	if !strings.HasSuffix(name, "AT") {
		sum.Add(sum, big.NewInt(m.now))
	}
	if !inRange || !sum.IsInt64() {
		return fails("ERR invalid expire time in '" + strings.ToLower(name) + "' command")
	}
	at, k := sum.Int64(), m.keys[key]
	if k == nil || has["NX"] && k.expiry != 0 || has["XX"] && k.expiry == 0 ||
		has["GT"] && (k.expiry == 0 || at <= k.expiry) || has["LT"] && k.expiry != 0 && at >= k.expiry {
		return exactly(reply.Int(0))
	}
	if at <= m.now {
		m.remove(key)
	} else {
		m.set(key, k.value, at)
	}
	return exactly(reply.Int(1))
}

func (m *model) timeLeft(name, key string) want {
	k := m.keys[key]
	switch {
	case k == nil:
		return exactly(reply.Int(-2))
	case k.expiry == 0:
		return exactly(reply.Int(-1))
	}
	n := big.NewInt(k.expiry)
	if strings.HasSuffix(name, "TTL") {
		n.Sub(n, big.NewInt(m.now))
	}
	if name[0] != 'P' {
		if half := new(big.Int).Add(n, big.NewInt(500)); half.IsInt64() {
			n = half // to the nearest second, but at the end of time
		}
		n.Div(n, big.NewInt(1000))
	}
	return exactly(reply.Int(n.Int64()))
}

// matching returns the keys that match a pattern and are of a type, "" for any.
func (m *model) matching(glob, typ string) (list []string) {
	form := regexp.MustCompile("^" + globs[glob] + "$")
	for _, key := range m.names() {
		if form.MatchString(key) && (typ == "" || strings.EqualFold(typ, m.keys[key].value.typeName())) {
			list = append(list, key)
		}
	}
	return list
}

func (m *model) scan(options []string) want {
	glob, typ := "*", ""
	for i := 0; i < len(options); i += 2 {
		switch options[i] {
		case "MATCH":
			glob = options[i+1]
		case "TYPE":
			typ = options[i+1]
		}
	}
	return each(exactly(reply.BulkString("0")), inAnyOrder(m.matching(glob, typ)))
}

func (m *model) randomKey() want {
	names := m.names()
	if len(names) == 0 {
		return exactly(reply.Nil)
	}
	return func(got reply.Reply) error {
		if got.Kind() != reply.KindBulk || !slices.Contains(names, string(got.Bytes())) {
			return fmt.Errorf("want one of %q", names)
		}
		return nil
	}
}

// size is DBSIZE, which counts keys that have expired until they are removed.
func (m *model) size() want {
	least, most := int64(len(m.keys)), int64(len(m.keys)+len(m.gone))
	return func(got reply.Reply) error {
		if got.Kind() != reply.KindInt || got.Int() < least || got.Int() > most {
			return fmt.Errorf("want an integer from %d to %d", least, most)
		}
		return nil
	}
}
