package reply_test

import (
	"math"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/module/reply"
)

// allEscapes has every escape of a quoted string, and bytes next to them.
var allEscapes = reply.BulkString("a\"b\\c\n\r\t\a\b\x00\x1b\x7f\xc3\xa9\xff'\v\f~ /0aGg")

var nested = reply.Array(
	reply.Array(),
	reply.Array(reply.OK, reply.Array(reply.Nil)),
	reply.BulkString("b"),
)

// tenth is an array whose numbers need two digits, nested in another one.
var tenth = reply.Array(append(repeat(reply.Int(7), 9),
	reply.Array(reply.BulkString("a"), reply.Array(repeat(reply.BulkString("x"), 10)...)))...)

// oneItem is the answer of BF.INFO key ITEMS.
var oneItem = reply.Either(
	reply.Array(reply.Int(3)),
	reply.Map(reply.Label("Number of items inserted", reply.Int(3))),
)

func repeat(r reply.Reply, n int) []reply.Reply {
	elems := make([]reply.Reply, n)
	for i := range elems {
		elems[i] = r
	}
	return elems
}

func lines(l ...string) string { return strings.Join(l, "\n") + "\n" }

type rendering struct {
	name string
	r    reply.Reply
	want string
}

func checkRenderings(t *testing.T, appendReply func([]byte, reply.Reply) []byte, tests []rendering) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(appendReply(nil, tt.r)); got != tt.want {
				t.Errorf("got\n%s(%q), want\n%s(%q)", got, got, tt.want, tt.want)
			}
			if got := string(appendReply([]byte("> "), tt.r)); got != "> "+tt.want {
				t.Errorf("appended to %q: %q", "> ", got)
			}
		})
	}
}

// The expected texts are the outputs of redis-cli 7.0.15 --no-raw for these replies in RESP2. There are two
// exceptions: "or more", which redis-cli does not have, and bytes that a terminal takes for commands, which it
// escapes only in strings.
func TestAppendText(t *testing.T) {
	checkRenderings(t, reply.AppendText, []rendering{
		{"nil", reply.Nil, "(nil)\n"},
		{"status", reply.OK, "OK\n"},
		{"status with any bytes", reply.Status("a \"q\" \xff"), "a \"q\" \\xff\n"},
		{"status that moves the cursor", reply.Status("a\x1b[2J\x07\x7f\tb\u009b1m é \u202e"), `a\x1b[2J\x07\x7f\x09b\xc2\x9b1m é \xe2\x80\xae` + "\n"},
		{"error that sets a title", reply.Error("ERR \x1b]0;x\x07"), `(error) ERR \x1b]0;x\x07` + "\n"},
		{"verbatim that clears the screen", reply.Verbatim("a\t\x1b[2J\rb\r\n"), "a\t" + `\x1b[2J\x0db` + "\r\n"},
		{"error", reply.Error("ERR not found"), "(error) ERR not found\n"},
		{"error with quotes", reply.Error(`ERR "q" \ x`), `(error) ERR "q" \ x` + "\n"},
		{"integer", reply.Int(-42), "(integer) -42\n"},
		{"at least", reply.Array(reply.AtLeast(15), reply.Int(15)), lines("1) (integer) 15 or more", "2) (integer) 15")},
		{"bulk", reply.BulkString("hello"), "\"hello\"\n"},
		{"empty bulk", reply.Bulk(nil), "\"\"\n"},
		{"escapes", allEscapes,
			`"a\"b\\c\n\r\t\a\b\x00\x1b\x7f\xc3\xa9\xff'\x0b\x0c~ /0aGg"` + "\n"},
		{"empty array", reply.Array(), "(empty array)\n"},
		{"array with an error", reply.Array(reply.Int(1), reply.Int(0), reply.Error("ERR non scaling filter is full")),
			lines("1) (integer) 1", "2) (integer) 0", "3) (error) ERR non scaling filter is full")},
		{"nested", nested, lines("1) (empty array)", "2) 1) OK", "   2) 1) (nil)", `3) "b"`)},
		{"only nested", reply.Array(reply.Array(reply.Array(reply.Int(1)))), "1) 1) 1) (integer) 1\n"},
		{"aligned numbers", tenth, lines(
			" 1) (integer) 7", " 2) (integer) 7", " 3) (integer) 7", " 4) (integer) 7", " 5) (integer) 7",
			" 6) (integer) 7", " 7) (integer) 7", " 8) (integer) 7", " 9) (integer) 7",
			`10) 1) "a"`, `    2)  1) "x"`, `        2) "x"`, `        3) "x"`, `        4) "x"`, `        5) "x"`,
			`        6) "x"`, `        7) "x"`, `        8) "x"`, `        9) "x"`, `       10) "x"`)},
		{"booleans", reply.Array(reply.Bool(true), reply.Bool(false)), lines("1) (integer) 1", "2) (integer) 0")},
		{"double", reply.Double(3.25), "\"3.25\"\n"},
		{"map", reply.Map(reply.Field("Size", reply.Int(1)), reply.Field("Expansion rate", reply.Nil)),
			lines(`1) "Size"`, "2) (integer) 1", `3) "Expansion rate"`, "4) (nil)")},
		{"empty map", reply.Map(), "(empty array)\n"},
		{"set", reply.Set(reply.BulkString("a"), reply.Int(2)), lines(`1) "a"`, "2) (integer) 2")},
		{"either", oneItem, "1) (integer) 3\n"},
		{"either of verbatims", reply.Either(reply.Verbatim("a"), reply.Verbatim("b")), "a\n"},
		// redis-cli shows INFO's reply so.
		{"verbatim", reply.Verbatim("# Server\r\na:\"1\"\r\n"), "# Server\r\na:\"1\"\r\n"},
		{"verbatim without a last line break", reply.Verbatim("a\nb"), "a\nb\n"},
		// redis-cli does so for RESP3, the only protocol in which an array can hold one.
		{"verbatim in an array", reply.Array(reply.Verbatim("a\nb"), reply.Int(1)), lines("1) a", "b", "2) (integer) 1")},
	})
}

// Expected are the outputs of redis-cli 7.0.15 --raw for these replies in RESP2.
func TestAppendRaw(t *testing.T) {
	checkRenderings(t, reply.AppendRaw, []rendering{
		{"nil", reply.Nil, "\n"},
		{"status", reply.OK, "OK\n"},
		{"error", reply.Error("ERR not found"), "ERR not found\n\n"},
		{"integer", reply.Int(-42), "-42\n"},
		{"at least", reply.AtLeast(15), "15\n"},
		{"empty bulk", reply.Bulk(nil), "\n"},
		{"any bytes", allEscapes, string(allEscapes.Bytes()) + "\n"},
		{"bulk with a line break", reply.BulkString("ab\r\n"), "ab\r\n\n"},
		{"empty array", reply.Array(), "\n"},
		{"nested", nested, lines("", "OK", "", "b")},
		{"array with an error", reply.Array(reply.Int(1), reply.Error("ERR x"), reply.Int(0)), lines("1", "ERR x", "", "0")},
		{"booleans", reply.Array(reply.Bool(true), reply.Bool(false)), lines("1", "0")},
		{"double", reply.Double(3.25), "3.25\n"},
		{"map", reply.Map(reply.Field("Size", reply.Int(1)), reply.Field("Expansion rate", reply.Nil)),
			lines("Size", "1", "Expansion rate", "")},
		{"either", oneItem, "3\n"},
		{"verbatim", reply.Verbatim("# Server\r\na:1\r\n"), "# Server\r\na:1\r\n"},
		{"verbatim without a last line break", reply.Verbatim("a\nb"), "a\nb\n"},
		{"verbatim in an array", reply.Array(reply.Verbatim("a\nb"), reply.Int(1)), lines("a", "b", "1")},
	})
}

// Expected are the outputs of redis-cli 7.0.15 --csv for these replies in RESP2.
func TestAppendCSV(t *testing.T) {
	checkRenderings(t, reply.AppendCSV, []rendering{
		{"nil", reply.Nil, "NULL\n"},
		{"status", reply.OK, "\"OK\"\n"},
		{"error", reply.Error(`ERR "q"`), `ERROR,"ERR \"q\""` + "\n"},
		{"integer", reply.Int(-42), "-42\n"},
		{"at least", reply.AtLeast(15), "15\n"},
		{"empty bulk", reply.Bulk(nil), "\"\"\n"},
		{"escapes", allEscapes,
			`"a\"b\\c\n\r\t\a\b\x00\x1b\x7f\xc3\xa9\xff'\x0b\x0c~ /0aGg"` + "\n"},
		{"empty array", reply.Array(), "\n"},
		{"nested", nested, `,"OK",NULL,"b"` + "\n"},
		{"array with an error", reply.Array(reply.Int(1), reply.Error("ERR x"), reply.Int(0)), `1,ERROR,"ERR x",0` + "\n"},
		{"booleans", reply.Array(reply.Bool(true), reply.Bool(false)), "1,0\n"},
		{"double", reply.Double(3.25), "\"3.25\"\n"},
		{"map", reply.Map(reply.Field("Size", reply.Int(1)), reply.Field("Expansion rate", reply.Nil)),
			`"Size",1,"Expansion rate",NULL` + "\n"},
		{"either", oneItem, "3\n"},
		{"verbatim", reply.Verbatim("a\nb\n"), `"a\nb\n"` + "\n"},
	})
}

// The forms are as with C's %.17g, with no more digits than needed.
func TestAppendRaw_doubles(t *testing.T) {
	tests := []struct {
		f    float64
		want string
	}{
		{0, "0"},
		{math.Copysign(0, -1), "-0"},
		{1, "1"},
		{-2.5, "-2.5"},
		{0.1, "0.1"},
		{1e6, "1000000"},
		{0.0001, "0.0001"},
		{0.00001, "1e-05"},
		{-1.5e-7, "-1.5e-07"},
		{1e16, "10000000000000000"},
		{1e17, "1e+17"},
		{1e100, "1e+100"},
		{math.MaxFloat64, "1.7976931348623157e+308"},
		{math.Inf(1), "inf"},
		{math.Inf(-1), "-inf"},
		{math.NaN(), "nan"},
	}
	for _, tt := range tests {
		if got := string(reply.AppendRaw(nil, reply.Double(tt.f))); got != tt.want+"\n" {
			t.Errorf("%g is shown as %q, want %q", tt.f, got, tt.want)
		}
	}
}

func TestReply_String(t *testing.T) {
	for want, r := range map[string]reply.Reply{
		"(nil)": reply.Nil, "1) OK\n2) \"a\"": reply.Array(reply.OK, reply.BulkString("a")), "a\nb": reply.Verbatim("a\nb\n"),
	} {
		if got := r.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
