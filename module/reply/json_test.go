package reply_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/module/reply"
)

// Up to the marked line, expected are the outputs of redis-cli 7.0.15 --json for these replies in RESP3.
func TestAppendJSON(t *testing.T) {
	checkRenderings(t, reply.AppendJSON, []rendering{
		{"nil", reply.Nil, "null\n"},
		{"status", reply.OK, "\"OK\"\n"},
		{"integer", reply.Int(math.MinInt64), "-9223372036854775808\n"},
		{"at least", reply.AtLeast(15), "15\n"},
		{"bulk", reply.BulkString("hello"), "\"hello\"\n"},
		{"empty bulk", reply.Bulk(nil), "\"\"\n"},
		{"escapes", reply.BulkString("a\"b\\c\n\r\t\a\b\x00\x1b\x7fé'\v\f~ /<&>\u2028"),
			`"a\"b\\c\n\r\t\u0007\b\u0000\u001b\u007fé'\u000b\f~ /<&>\u2028"` + "\n"},
		{"empty array", reply.Array(), "[]\n"},
		{"nested", nested, `[[],["OK",[null]],"b"]` + "\n"},
		{"booleans", reply.Array(reply.Bool(true), reply.Bool(false)), "[true,false]\n"},
		{"doubles", reply.Array(reply.Double(3.25), reply.Double(1e100)), "[3.25,1e+100]\n"},
		{"map", reply.Map(reply.Field("b", reply.Int(1)), reply.Field("a", reply.Array(reply.Nil))), `{"b":1,"a":[null]}` + "\n"},
		{"empty map", reply.Map(), "{}\n"},
		{"map with an integer as key", reply.Map(reply.Pair{Key: reply.Int(5), Value: reply.Int(6)}), `{"5":6}` + "\n"},
		{"map with a status as key", reply.Map(reply.Pair{Key: reply.Status("k"), Value: reply.OK}), `{"k":"OK"}` + "\n"},
		{"set", reply.Set(reply.BulkString("a"), reply.Int(2)), `["a",2]` + "\n"},
		{"verbatim", reply.Verbatim("a\nb\""), `"a\nb\""` + "\n"},
		{"either", oneItem, `{"Number of items inserted":3}` + "\n"},
		// For these redis-cli prints invalid JSON.
		{"error", reply.Error(`ERR "q"`), `{"error":"ERR \"q\""}` + "\n"},
		{"array with an error", reply.Array(reply.Bool(true), reply.Error("ERR x")), `[true,{"error":"ERR x"}]` + "\n"},
		{"not finite", reply.Array(reply.Double(math.Inf(1)), reply.Double(math.Inf(-1)), reply.Double(math.NaN())),
			`["inf","-inf","nan"]` + "\n"},
		{"any bytes", reply.BulkString("é\xff\x00\xc3\"\\"), `"é\\xff\u0000\\xc3\"\\\\"` + "\n"},
		{"text like an escape", reply.BulkString(`\xff`), `"\\\\xff"` + "\n"},
		{"any bytes in a key", reply.Map(reply.Field("\xff", reply.Nil)), `{"\\xff":null}` + "\n"},
		{"any bytes in an error", reply.Error("ERR \xff"), `{"error":"ERR \\xff"}` + "\n"},
		{"map with a map as key", reply.Map(reply.Pair{Key: reply.Map(reply.Field("a", reply.Int(1))), Value: reply.OK}),
			`{"a\n1":"OK"}` + "\n"},
	})
}

// readJSONString decodes a line that AppendJSON wrote for a string, by the rule in AppendJSON's comment.
func readJSONString(t *testing.T, line []byte) []byte {
	t.Helper()
	var s string
	if err := json.Unmarshal(line, &s); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if !strings.Contains(s, `\x`) {
		return []byte(s)
	}
	var out []byte
	for len(s) > 0 {
		switch {
		case strings.HasPrefix(s, `\\`):
			out, s = append(out, '\\'), s[2:]
		case strings.HasPrefix(s, `\x`) && len(s) >= 4:
			c, err := strconv.ParseUint(s[2:4], 16, 8)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			out, s = append(out, byte(c)), s[4:]
		case s[0] == '\\':
			t.Fatalf("%s: %q is no escape", line, s)
		default:
			out, s = append(out, s[0]), s[1:]
		}
	}
	return out
}

func TestAppendJSON_stringsReadBack(t *testing.T) {
	for _, s := range []string{
		"", "a", "é", `\`, `\\`, `\x`, `\\x`, `\x41`, `x\`, "\xff", "\xff\\", "\\\xff", `\x` + "\xff", "\xff" + `\x41`,
		"\xed\xa0\x80", "\xf0\x9f\x98", "\ufffd", "\ufffd\xff",
	} {
		line := reply.AppendJSON(nil, reply.BulkString(s))
		if got := readJSONString(t, line); string(got) != s {
			t.Errorf("%q is written as %s and read as %q", s, line, got)
		}
	}
}

// FuzzRender builds a reply from the input and checks properties that all renderings have.
func FuzzRender(f *testing.F) {
	f.Add([]byte("a3\x00\x01\x02"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if line := reply.AppendJSON(nil, reply.Bulk(data)); !bytes.Equal(readJSONString(t, line), data) {
			t.Errorf("%q is written as %s", data, line)
		}
		b := builder{data}
		r := b.reply(20)
		j := reply.AppendJSON(nil, r)
		if !json.Valid(j) || bytes.IndexByte(j, '\n') != len(j)-1 {
			t.Errorf("not a line of JSON: %s", j)
		}
		csv := reply.AppendCSV(nil, r)
		if bytes.IndexByte(csv, '\n') != len(csv)-1 {
			t.Errorf("not a line: %s", csv)
		}
		for _, out := range [][]byte{reply.AppendText(nil, r), reply.AppendRaw(nil, r)} {
			if !bytes.HasSuffix(out, []byte("\n")) {
				t.Errorf("does not end in a line break: %s", out)
			}
		}
	})
}

// builder makes a reply from the remaining bytes, which it consumes. When there are none left, it makes nils.
type builder struct{ left []byte }

func (b *builder) byte() byte {
	if len(b.left) == 0 {
		return 0
	}
	c := b.left[0]
	b.left = b.left[1:]
	return c
}

func (b *builder) bytes() []byte {
	n := min(int(b.byte()%32), len(b.left))
	s := b.left[:n]
	b.left = b.left[n:]
	return s
}

func (b *builder) int() int64 {
	var n int64
	for range 8 {
		n = n<<8 | int64(b.byte())
	}
	return n
}

func (b *builder) replies(depth int) []reply.Reply {
	var elems []reply.Reply
	for range b.byte() % 12 {
		elems = append(elems, b.reply(depth))
	}
	return elems
}

func (b *builder) reply(depth int) reply.Reply {
	if depth == 0 {
		return reply.Nil
	}
	switch kind := reply.Kind(b.byte() % 12); kind {
	case reply.KindStatus:
		return reply.Status(string(b.bytes()))
	case reply.KindError:
		return reply.Error(string(b.bytes()))
	case reply.KindInt:
		return reply.Int(b.int())
	case reply.KindBulk:
		return reply.Bulk(b.bytes())
	case reply.KindArray:
		return reply.Array(b.replies(depth - 1)...)
	case reply.KindBool:
		return reply.Bool(b.byte()%2 == 1)
	case reply.KindDouble:
		return reply.Double(math.Float64frombits(uint64(b.int())))
	case reply.KindMap:
		var pairs []reply.Pair
		for range b.byte() % 6 {
			pairs = append(pairs, reply.Pair{Key: b.reply(depth - 1), Value: b.reply(depth - 1)})
		}
		return reply.Map(pairs...)
	case reply.KindSet:
		return reply.Set(b.replies(depth - 1)...)
	case reply.KindVerbatim:
		return reply.Verbatim(string(b.bytes()))
	case reply.KindEither:
		return reply.Either(b.reply(depth-1), b.reply(depth-1))
	default:
		return reply.Nil
	}
}
