package resp_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/module/reply"
)

// wireForms are replies as redis-server 7.0.15 sends them, RESP2 and RESP3.
var wireForms = []struct {
	name         string
	r            reply.Reply
	resp2, resp3 string
}{
	{"nil", reply.Nil, "$-1\r\n", "_\r\n"},
	{"status", reply.OK, "+OK\r\n", "+OK\r\n"},
	{"empty status", reply.Status(""), "+\r\n", "+\r\n"},
	{"error", reply.Error("ERR a"), "-ERR a\r\n", "-ERR a\r\n"},
	{"integer", reply.Int(math.MinInt64), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"},
	{"bulk", reply.BulkString("a\r\nb\x00"), "$5\r\na\r\nb\x00\r\n", "$5\r\na\r\nb\x00\r\n"},
	{"empty bulk", reply.Bulk(nil), "$0\r\n\r\n", "$0\r\n\r\n"},
	{"array", reply.Array(reply.Int(1), reply.Array(), reply.Nil), "*3\r\n:1\r\n*0\r\n$-1\r\n", "*3\r\n:1\r\n*0\r\n_\r\n"},
	{"true", reply.Bool(true), ":1\r\n", "#t\r\n"},
	{"false", reply.Bool(false), ":0\r\n", "#f\r\n"},
	{"booleans", reply.Bools([]bool{true, false}), "*2\r\n:1\r\n:0\r\n", "*2\r\n#t\r\n#f\r\n"},
	{"no booleans", reply.Bools(nil), "*0\r\n", "*0\r\n"},
	{"double", reply.Double(3.25), "$4\r\n3.25\r\n", ",3.25\r\n"},
	{"large double", reply.Double(1e100), "$6\r\n1e+100\r\n", ",1e+100\r\n"},
	{"infinity", reply.Double(math.Inf(1)), "$3\r\ninf\r\n", ",inf\r\n"},
	{"minus infinity", reply.Double(math.Inf(-1)), "$4\r\n-inf\r\n", ",-inf\r\n"},
	{"not a number", reply.Double(math.NaN()), "$3\r\nnan\r\n", ",nan\r\n"},
	{"map", reply.Map(reply.Field("a", reply.Bool(true)), reply.Field("b", reply.Map())),
		"*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n*0\r\n", "%2\r\n$1\r\na\r\n#t\r\n$1\r\nb\r\n%0\r\n"},
	{"set", reply.Set(reply.Int(1), reply.Double(2)), "*2\r\n:1\r\n$1\r\n2\r\n", "~2\r\n:1\r\n,2\r\n"},
	{"verbatim", reply.Verbatim("a\nb"), "$3\r\na\nb\r\n", "=7\r\ntxt:a\nb\r\n"},
	{"empty verbatim", reply.Verbatim(""), "$0\r\n\r\n", "=4\r\ntxt:\r\n"},
	{"either", reply.Array(reply.Either(reply.Int(1), reply.Map())), "*1\r\n:1\r\n", "*1\r\n%0\r\n"},
}

func TestAppend(t *testing.T) {
	for _, tt := range wireForms {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(resp.Append([]byte("> "), tt.r, 2)); got != "> "+tt.resp2 {
				t.Errorf("RESP2: %q, want %q", got, tt.resp2)
			}
			if got := string(resp.Append([]byte("> "), tt.r, 3)); got != "> "+tt.resp3 {
				t.Errorf("RESP3: %q, want %q", got, tt.resp3)
			}
		})
	}
}

func TestAppendCommand(t *testing.T) {
	got := resp.AppendCommand([]byte("> "), [][]byte{[]byte("SET"), []byte("k\r\n"), nil})
	if want := "> *3\r\n$3\r\nSET\r\n$3\r\nk\r\n\r\n$0\r\n\r\n"; string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestReader(t *testing.T) {
	one := reply.Int(1)
	tests := []struct {
		name, input string
		want        reply.Reply
	}{
		{"array that is nil", "*-1\r\n", reply.Nil},
		{"error with its length", "!5\r\nERR a\r\n", reply.Error("ERR a")},
		{"big number", "(-123456789012345678901234567890\r\n", reply.BulkString("-123456789012345678901234567890")},
		{"push first", ">2\r\n+message\r\n:5\r\n:1\r\n", one},
		{"attributes first", "|1\r\n+ttl\r\n:5\r\n:1\r\n", one},
		{"attributes twice", "|0\r\n|1\r\n+ttl\r\n*1\r\n:5\r\n:1\r\n", one},
		{"attributes inside", "*1\r\n|1\r\n+ttl\r\n:5\r\n:1\r\n", reply.Array(one)},
		{"verbatim in Markdown", "=5\r\nmkd:a\r\n", reply.Verbatim("a")},
		{"map with any key", "%1\r\n*1\r\n:1\r\n:1\r\n", reply.Map(reply.Pair{Key: reply.Array(one), Value: one})},
		{"long line", "-" + strings.Repeat("a", 100000) + "\r\n", reply.Error(strings.Repeat("a", 100000))},
		{"long string", "$300000\r\n" + strings.Repeat("a", 300000) + "\r\n", reply.BulkString(strings.Repeat("a", 300000))},
		{"as deep as allowed", strings.Repeat("*1\r\n", 128) + ":1\r\n", nest(one, 128)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, in := range []io.Reader{strings.NewReader(tt.input), iotest.OneByteReader(strings.NewReader(tt.input))} {
				r := resp.NewReader(in)
				if got, err := r.Read(); err != nil || !reflect.DeepEqual(got, tt.want) {
					t.Fatalf("%v, %v; want %v", got, err, tt.want)
				}
				if got, err := r.Read(); err != io.EOF {
					t.Errorf("after the reply: %v, %v", got, err)
				}
			}
		})
	}
}

func nest(r reply.Reply, depth int) reply.Reply {
	for range depth {
		r = reply.Array(r)
	}
	return r
}

func TestReader_ReadAny(t *testing.T) {
	r := resp.NewReader(strings.NewReader(">1\r\n+invalidate\r\n:1\r\n"))
	want := reply.Array(reply.Status("invalidate"))
	if got, push, err := r.ReadAny(); err != nil || !push || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v, %v", got, push, err)
	}
	if got, push, err := r.ReadAny(); err != nil || push || !reflect.DeepEqual(got, reply.Int(1)) {
		t.Errorf("%v, %v, %v", got, push, err)
	}
}

func TestReader_malformed(t *testing.T) {
	tests := []struct{ name, input, err string }{
		{"another protocol", "HTTP/1.1 400 Bad Request\r\n", `Protocol error, got "H" as reply type byte`},
		{"LF only", "+OK\n", "Protocol error, a line does not end in CRLF"},
		{"number with letters", ":1a\r\n", `Protocol error, got "1a" in a reply of type ':'`},
		{"number of 20 digits", ":10000000000000000000\r\n",
			`Protocol error, got "10000000000000000000" in a reply of type ':'`},
		{"no boolean", "#x\r\n", `Protocol error, got "x" in a reply of type '#'`},
		{"no double", ",1,5\r\n", `Protocol error, got "1,5" in a reply of type ','`},
		{"no big number", "(-\r\n", `Protocol error, got "-" in a reply of type '('`},
		{"nil with a text", "_x\r\n", `Protocol error, got "x" in a reply of type '_'`},
		{"length of -2", "$-2\r\n", `Protocol error, got "-2" in a reply of type '$'`},
		{"map of -1", "%-1\r\n", `Protocol error, got "-1" in a reply of type '%'`},
		{"verbatim without a format", "=2\r\nab\r\n", `Protocol error, got "ab" in a reply of type '='`},
		{"string longer than its length", "$1\r\nabc\r\n", "Protocol error, a string is not followed by CRLF"},
		{"too deep", strings.Repeat("*1\r\n", 129), "Protocol error, more than 128 arrays within each other"},
		{"maps too deep", strings.Repeat("%1\r\n+k\r\n", 129), "Protocol error, more than 128 arrays within each other"},
		{"attributes too deep", strings.Repeat("|1\r\n", 129), "Protocol error, more than 128 arrays within each other"},
		{"endless line", "+" + strings.Repeat("a", 1<<20+1), "Protocol error, a line of more than 1048576 bytes"},
		{"long line without end", "+" + strings.Repeat("a", 100000), "unexpected EOF"},
		{"no reply complete", "*2\r\n:1\r\n", "unexpected EOF"},
		{"string not complete", "$5\r\nabc", "unexpected EOF"},
		{"string without end", "$3\r\nabc\r", "unexpected EOF"},
		{"string announced only", "$536870912\r\nabc", "unexpected EOF"},
		{"string longer than any", "$536870913\r\nabc", "Protocol error, a string of 536870913 bytes, at most 536870912"},
		{"error longer than any", "!9223372036854775807\r\nabc", "Protocol error, a string of 9223372036854775807 bytes, at most 536870912"},
		{"array announced only", "*9223372036854775807\r\n", "unexpected EOF"},
		{"map announced only", "%9223372036854775807\r\n:1\r\n", "unexpected EOF"},
		{"nothing", "", "EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := resp.NewReader(strings.NewReader(tt.input)).Read()
			if errorText(err) != tt.err {
				t.Errorf("%v, %q; want %q", got, errorText(err), tt.err)
			}
		})
	}
}

// A server cannot make a client take more memory than a reply may, whatever it sends, and what it announces takes none.
func TestReader_memory(t *testing.T) {
	const most, endless = 1 << 20, 1 << 30
	for name, input := range map[string]string{
		"a string": "$1000000\r\n", "strings": "$1000\r\n" + strings.Repeat("a", 1000) + "\r\n", "numbers": ":1\r\n", "lines": "+" + strings.Repeat("a", 1000) + "\r\n",
		"nils": "_\r\n", "arrays": "*0\r\n", "maps": "%0\r\n", "attributes": "|1\r\n:1\r\n:1\r\n",
	} {
		for _, head := range []string{"*9223372036854775807\r\n", "%9223372036854775807\r\n", "~9223372036854775807\r\n", ">9223372036854775807\r\n", "|9223372036854775807\r\n"} {
			r := resp.NewReader(io.MultiReader(strings.NewReader(head), io.LimitReader(&repeating{text: input}, endless)))
			r.LimitReply(most)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, err := r.ReadAny()
			runtime.ReadMemStats(&after)
			const want = "the reply takes more than 1048576 bytes of memory: ask for less at a time"
			if name == "a string" && err == nil || name != "a string" && errorText(err) != want {
				t.Errorf("%.10q and %s: %v", head, name, err)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 4*most {
				t.Errorf("%.10q and %s: %d bytes allocated", head, name, n)
			}
		}
	}
	r := resp.NewReader(strings.NewReader("*2\r\n$3\r\nabc\r\n:1\r\n$2\r\nab\r\n"))
	for _, want := range []int64{3*128 + 4, 128 + 2} {
		if _, err := r.Read(); err != nil || r.Size() != want {
			t.Errorf("a reply of %d bytes, want %d: %v", r.Size(), want, err)
		}
	}
}

// repeating is a text again and again.
type repeating struct {
	text string
	at   int
}

func (r *repeating) Read(b []byte) (n int, err error) {
	for n < len(b) {
		m := copy(b[n:], r.text[r.at:])
		n, r.at = n+m, (r.at+m)%len(r.text)
	}
	return n, nil
}

// FuzzReader checks that no input breaks a reader, and that the replies it finds are written and read again.
func FuzzReader(f *testing.F) {
	for _, tt := range wireForms {
		f.Add([]byte(tt.resp2 + tt.resp3))
	}
	f.Add([]byte("|1\r\n+a\r\n:1\r\n>1\r\n:1\r\n!3\r\nERR\r\n(12\r\n*-1\r\n*2\r\n*1000000\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		whole, slow := resp.NewReader(bytes.NewReader(data)), resp.NewReader(iotest.OneByteReader(bytes.NewReader(data)))
		for {
			r, err := whole.Read()
			again, errAgain := slow.Read()
			if errorText(err) != errorText(errAgain) || !sameReply(r, again, 3) {
				t.Fatalf("byte by byte %v, %v; want %v, %v", again, errAgain, r, err)
			}
			if err != nil {
				if !errors.As(err, new(resp.ProtocolError)) && err != io.EOF && err != io.ErrUnexpectedEOF {
					t.Fatalf("error %v", err)
				}
				return
			}
			checkRoundTrip(t, r, 3)
		}
	})
}

func sameReply(a, b reply.Reply, protocol int) bool {
	return bytes.Equal(resp.Append(nil, a, protocol), resp.Append(nil, b, protocol))
}

// checkRoundTrip checks that r is written as one reply, which is read as r again.
func checkRoundTrip(t *testing.T, r reply.Reply, protocol int) {
	t.Helper()
	wire := resp.Append(nil, r, protocol)
	in := resp.NewReader(bytes.NewReader(wire))
	got, err := in.Read()
	if want := received(r, protocol); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("protocol %d: %q is read as %v, %v; want %v", protocol, wire, got, err, want)
	}
	if rest, err := in.Read(); err != io.EOF {
		t.Fatalf("protocol %d: after %q: %v, %v", protocol, wire, rest, err)
	}
}

// received returns what a client gets of a reply.
func received(r reply.Reply, protocol int) reply.Reply {
	if protocol == 2 {
		r = r.RESP2()
	} else {
		r = r.RESP3()
	}
	var elems []reply.Reply
	for _, e := range r.Elems() {
		elems = append(elems, received(e, protocol))
	}
	switch r.Kind() {
	case reply.KindArray:
		return reply.Array(elems...)
	case reply.KindSet:
		return reply.Set(elems...)
	case reply.KindMap:
		var pairs []reply.Pair
		for i := 0; i < len(elems); i += 2 {
			pairs = append(pairs, reply.Pair{Key: elems[i], Value: elems[i+1]})
		}
		return reply.Map(pairs...)
	default:
		return r
	}
}

// FuzzAppend builds a reply from the input, and checks that clients of either protocol read it.
func FuzzAppend(f *testing.F) {
	f.Add([]byte("a3\x00\x01\x02"))
	f.Add([]byte("\x05\x06\x00\x01\x02abcdef\x06\x07\x08\x03"))
	f.Fuzz(func(t *testing.T, data []byte) {
		b := builder{data}
		r := b.reply(20)
		checkRoundTrip(t, r, 2)
		checkRoundTrip(t, r, 3)
	})
}

// builder makes a reply of the bytes left, which it consumes; once there are none it makes nils.
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
		if f := math.Float64frombits(uint64(b.int())); f == f {
			return reply.Double(f)
		}
		return reply.Double(math.NaN()) // the others of its kind are written alike
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

func BenchmarkAppend(b *testing.B) {
	buf := make([]byte, 0, 1024)
	r := reply.Array(reply.Bool(true), reply.BulkString("value"), reply.Int(12345))
	b.ReportAllocs()
	for b.Loop() {
		buf = resp.Append(buf[:0], r, 2)
	}
}
