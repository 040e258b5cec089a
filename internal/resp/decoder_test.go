package resp_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sievekv/sievekv/internal/resp"
)

// decodeAll returns all commands that r holds, and the error that ends them: nil if r ends.
func decodeAll(t testing.TB, d *resp.Decoder, r io.Reader) (commands [][]string, err error) {
	t.Helper()
	for {
		words, ok, err := d.Next()
		switch {
		case err != nil:
			if _, again, err2 := d.Next(); again || err2 != err {
				t.Errorf("after the error %v: %v, %v", err, again, err2)
			}
			return commands, err
		case ok:
			commands = append(commands, toStrings(words))
			continue
		}
		if _, err := d.Fill(r); errors.Is(err, io.EOF) {
			return commands, nil
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func toStrings(words [][]byte) []string {
	s := make([]string, len(words))
	for i, w := range words {
		s[i] = string(w)
	}
	return s
}

// decoded is an input, and what becomes of it.
type decoded struct {
	name     string
	input    string
	commands [][]string
	err      string
	left     int // bytes of an incomplete command
}

func words(w ...string) []string { return w }

func commands(c ...[]string) [][]string { return c }

// Expected is what redis-server 7.0.15 answers to these bytes: a command's reply, an error, or nothing.
var conformance = []decoded{
	{name: "multibulk", input: "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", commands: commands(words("GET", "k"))},
	{name: "empty word", input: "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", commands: commands(words("ECHO", ""))},
	{name: "word of any bytes", input: "*2\r\n$4\r\nECHO\r\n$4\r\n\r\n\x00\xff\r\n",
		commands: commands(words("ECHO", "\r\n\x00\xff"))},
	{name: "two commands", input: "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n",
		commands: commands(words("PING"), words("PING"))},
	{name: "no words", input: "*0\r\n*-1\r\n*-9223372036854775808\r\nPING\r\n", commands: commands(words("PING"))},
	{name: "any byte after CR", input: "*1\rX$4\rYPING\r\n", commands: commands(words("PING"))},
	{name: "any bytes after a word", input: "*1\r\n$4\r\nPINGXY*1\r\n$4\r\nPING\r\n",
		commands: commands(words("PING"), words("PING"))},

	{name: "count without digits", input: "*\r\n", err: "Protocol error: invalid multibulk length"},
	{name: "count with a letter", input: "*x\r\n", err: "Protocol error: invalid multibulk length"},
	{name: "count with a plus", input: "*+1\r\n", err: "Protocol error: invalid multibulk length"},
	{name: "count with a zero in front", input: "*01\r\n", err: "Protocol error: invalid multibulk length"},
	{name: "count of minus zero", input: "*-0\r\n", err: "Protocol error: invalid multibulk length"},
	{name: "count with a blank", input: "* 1\r\n", err: "Protocol error: invalid multibulk length"},
	{name: "count over 31 bits", input: "*2147483648\r\n", err: "Protocol error: invalid multibulk length"},
	{name: "count over 63 bits", input: "*9223372036854775808\r\n", err: "Protocol error: invalid multibulk length"},
	{name: "count over 64 bits", input: "*36893488147419103233\r\n", err: "Protocol error: invalid multibulk length"},
	{name: "count with LF only", input: "*1\n$4\r\nPING\r\n", err: "Protocol error: invalid multibulk length"},
	{name: "no bulk", input: "*1\r\nPING\r\n", err: "Protocol error: expected '$', got 'P'"},
	{name: "empty line for a bulk", input: "*1\r\n\r\n", err: "Protocol error: expected '$', got ' '"},
	{name: "line feed for a bulk", input: "*1\r\n\n\r\n", err: "Protocol error: expected '$', got ' '"},
	{name: "no bulk later", input: "*2\r\n$4\r\nECHO\r\n:1\r\n", err: "Protocol error: expected '$', got ':'"},
	{name: "no bulk, line not complete", input: "*1\r\nPING", left: 8},
	{name: "no bulk, CR only", input: "*1\r\nPING\r", left: 9},
	{name: "bulk length without digits", input: "*1\r\n$\r\n", err: "Protocol error: invalid bulk length"},
	{name: "bulk length with a letter", input: "*1\r\n$4x\r\n", err: "Protocol error: invalid bulk length"},
	{name: "bulk length of -1", input: "*1\r\n$-1\r\n", err: "Protocol error: invalid bulk length"},
	{name: "bulk length over 512 MiB", input: "*1\r\n$536870913\r\n", err: "Protocol error: invalid bulk length"},
	{name: "bulk length of 512 MiB", input: "*1\r\n$536870912\r\n", left: 16},
	{name: "error after a command", input: "PING\r\n*x\r\n", commands: commands(words("PING")),
		err: "Protocol error: invalid multibulk length"},
	{name: "count not complete", input: "*1", left: 2},
	{name: "word not complete", input: "*1\r\n$4\r\nPING\r", left: 13},
	{name: "long count", input: "*" + strings.Repeat("1", 65536), err: "Protocol error: too big mbulk count string"},
	{name: "count as long as allowed", input: "*" + strings.Repeat("1", 65535), left: 65536},
	{name: "long length", input: "*1\r\n$" + strings.Repeat("1", 65536),
		err: "Protocol error: too big bulk count string"},
	{name: "length as long as allowed", input: "*1\r\n$" + strings.Repeat("1", 65535), left: 65540},

	{name: "inline", input: "GET k\r\n", commands: commands(words("GET", "k"))},
	{name: "inline with LF", input: "GET k\nPING\n", commands: commands(words("GET", "k"), words("PING"))},
	{name: "inline with blanks", input: " \t\v GET \t k  \r\n", commands: commands(words("GET", "k"))},
	{name: "inline with CR inside", input: "ECHO\ra\r\r\n", commands: commands(words("ECHO", "a"))},
	{name: "inline with vertical tab", input: "ECHO a\vb\n", commands: commands(words("ECHO", "a\vb"))},
	{name: "blank lines", input: "\r\n\n  \r\nPING\r\n", commands: commands(words("PING"))},
	{name: "inline with quotes", input: `ECHO "a b\x41\n\t\q\"" ` + "\r\n",
		commands: commands(words("ECHO", "a bA\n\tq\""))},
	{name: "inline with single quotes", input: `ECHO 'a "\n\'b'` + "\r\n", commands: commands(words("ECHO", `a "\n'b`))},
	{name: "inline with a quote in a word", input: `ECHO ab"c d"` + "\r\n", commands: commands(words("ECHO", "abc d"))},
	{name: "inline with an empty word", input: "ECHO ''\r\n", commands: commands(words("ECHO", ""))},
	{name: "inline, quote not closed", input: "ECHO \"a\r\n", err: "Protocol error: unbalanced quotes in request"},
	{name: "inline, single quote not closed", input: "ECHO 'a\r\n", err: "Protocol error: unbalanced quotes in request"},
	{name: "inline, no blank after a quote", input: "ECHO \"a\"b\r\n",
		err: "Protocol error: unbalanced quotes in request"},
	{name: "inline and multibulk", input: "PING\r\n*1\r\n$4\r\nPING\r\nPING\r\n",
		commands: commands(words("PING"), words("PING"), words("PING"))},
	{name: "inline not complete", input: "PING\r", left: 5},
	{name: "long inline", input: strings.Repeat("a", 65537), err: "Protocol error: too big inline request"},
	{name: "inline as long as allowed", input: strings.Repeat("a", 65536), left: 65536},
}

func TestDecoder(t *testing.T) {
	for _, tt := range conformance {
		t.Run(tt.name, func(t *testing.T) {
			for _, split := range []struct {
				name string
				r    func(io.Reader) io.Reader
			}{
				{"whole", func(r io.Reader) io.Reader { return r }},
				{"byte by byte", iotest.OneByteReader},
				{"half by half", iotest.HalfReader},
			} {
				d := resp.NewDecoder(resp.Limits{})
				got, err := decodeAll(t, d, split.r(strings.NewReader(tt.input)))
				if !slices.EqualFunc(got, tt.commands, slices.Equal) {
					t.Errorf("%s: commands %q, want %q", split.name, got, tt.commands)
				}
				if tt.err != errorText(err) {
					t.Errorf("%s: error %q, want %q", split.name, errorText(err), tt.err)
				}
				if err == nil && (d.Buffered() != tt.left || d.Partial() != (tt.left > 0)) {
					t.Errorf("%s: %d bytes left, partial %v, want %d", split.name, d.Buffered(), d.Partial(), tt.left)
				}
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestDecoder_limits(t *testing.T) {
	small := resp.Limits{Args: 2, Bulk: 5, Command: 8, Inline: 9}
	tests := []struct {
		name   string
		limits resp.Limits
		input  string
		n      int // commands
		err    string
	}{
		{"words as allowed", small, "*2\r\n$3\r\nabc\r\n$5\r\nabcde\r\n", 1, ""},
		{"too many words", small, "*3\r\n", 0, "Protocol error: invalid multibulk length"},
		{"too long a word", small, "*2\r\n$6\r\n", 0, "Protocol error: invalid bulk length"},
		{"too long a command", small, "*2\r\n$4\r\nabcd\r\n$5\r\n", 0, "Protocol error: command of 9 bytes, at most 8"},
		{"the next command counts anew", small, "*1\r\n$5\r\nabcde\r\n*1\r\n$5\r\nabcde\r\n", 2, ""},
		{"inline as allowed", small, "abcdefghi\n", 1, ""},
		{"too long a line", small, "abcdefghij\n", 0, "Protocol error: too big inline request"},
		{"before the password", resp.UnauthenticatedLimits, "*10\r\n$2048\r\n", 0, ""},
		{"before the password, too many words", resp.UnauthenticatedLimits, "*11\r\n", 0,
			"Protocol error: unauthenticated multibulk length"},
		{"before the password, too long a word", resp.UnauthenticatedLimits, "*1\r\n$2049\r\n", 0,
			"Protocol error: unauthenticated bulk length"},
		{"before the password, no length", resp.UnauthenticatedLimits, "*1\r\n$-1\r\n", 0,
			"Protocol error: invalid bulk length"},
		{"default of words", resp.Limits{}, "*1048577\r\n", 0, "Protocol error: invalid multibulk length"},
		{"default of words, as allowed", resp.Limits{}, "*1048576\r\n", 0, ""},
		{"as large as numbers are", resp.Limits{Args: 1 << 30, Bulk: 1<<63 - 1, Command: 1<<63 - 1},
			"*2\r\n$9223372036854775805\r\n", 0, "Protocol error: command of 9223372036854775805 bytes, at most 2147483648"},
		{"the most words", resp.Limits{Args: 1 << 30}, "*67108864\r\n", 0, ""},
		{"more words", resp.Limits{Args: 1 << 30}, "*67108865\r\n", 0, "Protocol error: invalid multibulk length"},
		{"the most bytes", resp.Limits{Bulk: 1 << 40, Command: 1 << 40}, "*1\r\n$2147483648\r\n", 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decodeAll(t, resp.NewDecoder(tt.limits), strings.NewReader(tt.input))
			if len(got) != tt.n || errorText(err) != tt.err {
				t.Errorf("%d commands, error %q; want %d, %q", len(got), errorText(err), tt.n, tt.err)
			}
			if err != nil && !errors.As(err, new(resp.ProtocolError)) {
				t.Errorf("the error is a %T", err)
			}
		})
	}
}

// A client that has given its password may send more in the same packet.
func TestDecoder_SetLimits(t *testing.T) {
	d := resp.NewDecoder(resp.UnauthenticatedLimits)
	many := "*11\r\n" + strings.Repeat("$1\r\na\r\n", 11)
	if _, err := d.Fill(strings.NewReader("AUTH secret\r\n" + many + many)); err != nil {
		t.Fatal(err)
	}
	if words, ok, err := d.Next(); !ok || err != nil || string(words[0]) != "AUTH" {
		t.Fatalf("%q %v %v", words, ok, err)
	}
	d.SetLimits(resp.Limits{})
	if words, ok, err := d.Next(); !ok || err != nil || len(words) != 11 {
		t.Fatalf("%q %v %v", words, ok, err)
	}
	d.SetLimits(resp.UnauthenticatedLimits)
	if words, ok, err := d.Next(); ok || errorText(err) != "Protocol error: unauthenticated multibulk length" {
		t.Fatalf("%q %v %v", words, ok, err)
	}
}

// A buffer that is to be small stays so, whatever comes, and how: a command that does not fit in is refused, and what is
// right is read as by others.
func TestDecoder_buffer(t *testing.T) {
	l := resp.UnauthenticatedLimits
	word := strings.Repeat("p", int(l.Bulk))
	pipeline := strings.Repeat("*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$500\r\n"+strings.Repeat("s", 500)+"\r\nPING\r\n\r\n", 100)
	tests := []struct {
		name, input string
		n           int
		err         string
	}{
		{"a pipeline", pipeline, 200, ""},
		{"the longest word", "*2\r\n$4\r\nAUTH\r\n$2048\r\n" + word + "\r\n", 1, ""},
		{"two of them", "*2\r\n$2048\r\n" + word + "\r\n$2048\r\n" + word + "\r\n", 0, "Protocol error: command of more than 4096 bytes with its lengths"},
		{"half of two", "*2\r\n$2048\r\n" + word + "\r\n$2048\r\n" + word[:1500], 0, ""},
		{"a line", strings.Repeat("a ", 1023) + "\r\n", 1, ""},
		{"a longer line", strings.Repeat("a ", 1025) + "\r\n", 0, "Protocol error: too big inline request"},
		{"no line at all", strings.Repeat("a", 5000), 0, "Protocol error: too big inline request"},
		{"a length without end", "*2\r\n$2048\r\n" + word + "\r\n$" + strings.Repeat("1", 5000), 0, "Protocol error: command of more than 4096 bytes with its lengths"},
		{"blank lines", strings.Repeat("\r\n", 5000) + "PING\r\n", 1, ""},
	}
	for _, tt := range tests {
		for _, piece := range []int{1, 7, 511, 4096, 1 << 20} {
			d := resp.NewDecoder(l)
			n, err := 0, error(nil)
			for in := strings.NewReader(tt.input); err == nil; {
				if _, err := d.Fill(io.LimitReader(in, int64(piece))); err != nil {
					break
				}
				if size := d.Size() - 32*20; size > l.Buffer {
					t.Fatalf("%s by %d bytes: the decoder has %d bytes", tt.name, piece, size)
				}
				for ok := true; ok; {
					if _, ok, err = d.Next(); ok {
						n++
					}
				}
			}
			if n != tt.n || errorText(err) != tt.err {
				t.Errorf("%s by %d bytes: %d commands, error %q; want %d, %q", tt.name, piece, n, errorText(err), tt.n, tt.err)
			}
		}
	}
}

// A buffer grows when it may, and one that is larger than it may be is given back.
func TestDecoder_buffer_changes(t *testing.T) {
	d := resp.NewDecoder(resp.UnauthenticatedLimits)
	large := "*1\r\n$10000\r\n" + strings.Repeat("v", 10_000) + "\r\n" // which no Shrink gives back otherwise
	in := strings.NewReader("AUTH p\r\n" + large + "RESET\r\n")
	want := []string{"AUTH", "v", "RESET"}
	for len(want) > 0 {
		words, ok, err := d.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			if _, err := d.Fill(in); err != nil {
				t.Fatalf("before %s: %v", want[0], err)
			}
			continue
		}
		if !strings.HasPrefix(string(words[0]), want[0]) {
			t.Fatalf("%.20q in place of %s", words[0], want[0])
		}
		want = want[1:]
		d.SetLimits(resp.Limits{})
	}
	d.SetLimits(resp.UnauthenticatedLimits)
	d.Shrink()
	if got := d.Size(); got > resp.UnauthenticatedLimits.Buffer {
		t.Errorf("the decoder keeps %d bytes", got)
	}
}

// Lengths that are only announced take no memory.
func TestDecoder_memory(t *testing.T) {
	for _, input := range []string{"*1048576\r\n$536870912\r\n", "*1048576\r\n", "*1\r\n$536870912\r\nabc"} {
		d := resp.NewDecoder(resp.Limits{})
		if _, err := decodeAll(t, d, strings.NewReader(input)); err != nil {
			t.Fatal(err)
		}
		if d.Size() > 32<<10 {
			t.Errorf("%q takes %d bytes", input, d.Size())
		}
	}
}

func TestDecoder_Shrink(t *testing.T) {
	d := resp.NewDecoder(resp.Limits{})
	large := fmt.Sprintf("*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", 1<<20, bytes.Repeat([]byte("a"), 1<<20))
	for range 2 {
		input := io.MultiReader(strings.NewReader(large), strings.NewReader("*1"))
		got, err := decodeAll(t, d, input)
		if err != nil || len(got) != 1 || len(got[0][1]) != 1<<20 {
			t.Fatalf("%d commands, error %v", len(got), err)
		}
		if before := d.Size(); before < 1<<20 || before > 4<<20 {
			t.Errorf("%d bytes held", before)
		} else if d.Shrink(); d.Size() != before {
			t.Error("Shrink with a command begun gave memory back")
		}
		if got, err = decodeAll(t, d, strings.NewReader("\r\n$4\r\nPING\r\n")); err != nil || len(got) != 1 {
			t.Fatalf("%q, error %v", got, err)
		}
		if d.Shrink(); d.Size() > 32<<10 {
			t.Errorf("%d bytes held after Shrink", d.Size())
		}
	}
}

// The errors of the connection come through.
func TestDecoder_Fill_errors(t *testing.T) {
	d := resp.NewDecoder(resp.Limits{})
	broken := errors.New("broken")
	if n, err := d.Fill(iotest.ErrReader(broken)); n != 0 || err != broken {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := d.Fill(iotest.DataErrReader(strings.NewReader("PING\r\n"))); n != 6 || err != io.EOF {
		t.Errorf("%d, %v", n, err)
	}
	if got, ok, err := d.Next(); !ok || err != nil || len(got) != 1 {
		t.Errorf("%q, %v, %v", got, ok, err)
	}
}

// pieces returns data in reads of one byte and of all that is left.
type pieces struct {
	data []byte
	at   int // where the second piece begins
}

func (p *pieces) Read(b []byte) (int, error) {
	end := len(p.data)
	if p.at > 0 {
		end = p.at
	}
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.data[:end])
	p.data, p.at = p.data[n:], max(p.at-n, 0)
	return n, nil
}

// FuzzDecoder checks that commands and errors do not depend on how the input comes, and that it takes memory
// in proportion to it.
func FuzzDecoder(f *testing.F) {
	for _, tt := range conformance {
		if len(tt.input) < 100 {
			f.Add([]byte(tt.input), false)
		}
	}
	f.Add([]byte("*2\r\n$1\r\na\r\n$1\r\nb\r\n*2\r\n$100\r\n"), true)
	f.Add([]byte("*7\r0$0\r000"), false) // there is room for seven words when the first has come
	f.Fuzz(func(t *testing.T, data []byte, small bool) {
		var limits resp.Limits
		if small {
			limits = resp.Limits{Args: 4, Bulk: 20, Command: 30, Inline: 25}
		}
		want, wantErr := decodeAll(t, resp.NewDecoder(limits), bytes.NewReader(data))
		check := func(how string, r io.Reader) {
			d := resp.NewDecoder(limits)
			got, err := decodeAll(t, d, r)
			if err != wantErr || !slices.EqualFunc(got, want, slices.Equal) {
				t.Fatalf("%s: %q, %v; want %q, %v", how, got, err, want, wantErr)
			}
			const least = 16<<10 + 8*(8+24) // the first buffer, and the first words
			if most := least + 16*len(data); d.Size() > most {
				t.Fatalf("%s: %d bytes of memory for %d received", how, d.Size(), len(data))
			}
		}
		check("byte by byte", iotest.OneByteReader(bytes.NewReader(data)))
		for at := 1; at < min(len(data), 300); at++ {
			check(fmt.Sprintf("in two at byte %d", at), &pieces{data: data, at: at})
		}
	})
}

// setCommands is a pipeline of n SETs.
func setCommands(n int) []byte {
	var input []byte
	for i := range n {
		key := fmt.Appendf(nil, "key:%012d", i)
		input = resp.AppendCommand(input, [][]byte{[]byte("SET"), key, []byte("value of this key")})
	}
	return input
}

// loop gives the same bytes over and over.
type loop struct {
	data []byte
	pos  int
}

func (l *loop) Read(b []byte) (int, error) {
	n := copy(b, l.data[l.pos:])
	l.pos = (l.pos + n) % len(l.data)
	return n, nil
}

func nextCommand(t testing.TB, d *resp.Decoder, r io.Reader) [][]byte {
	for {
		words, ok, err := d.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			return words
		}
		if _, err := d.Fill(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDecoder_allocations(t *testing.T) {
	d, input := resp.NewDecoder(resp.Limits{}), &loop{data: setCommands(1000)}
	if n := testing.AllocsPerRun(5000, func() { nextCommand(t, d, input) }); n != 0 {
		t.Errorf("%g allocations per command", n)
	}
}

func BenchmarkDecoder(b *testing.B) {
	const pipelined = 1000
	data := setCommands(pipelined)
	d, input := resp.NewDecoder(resp.Limits{}), &loop{data: data}
	b.SetBytes(int64(len(data) / pipelined))
	b.ReportAllocs()
	for b.Loop() {
		if len(nextCommand(b, d, input)) != 3 {
			b.Fatal("no SET")
		}
	}
}

// A decoder that rests holds little, and reads as much as before at its second Fill.
func TestDecoder_rest(t *testing.T) {
	d := resp.NewDecoder(resp.Limits{})
	command := "*1\r\n$4\r\nPING\r\n"
	fill := func(text string) int {
		t.Helper()
		n, err := d.Fill(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	take := func() (n int) {
		t.Helper()
		for {
			_, ok, err := d.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				return n
			}
			n++
		}
	}
	fill(command[:5])
	take()
	if d.Rest() {
		t.Error("it rests with half a command")
	}
	fill(command[5:])
	if n := take(); n != 1 {
		t.Fatalf("%d commands, want 1", n)
	}
	if !d.Rest() || d.Rest() || d.Size() > 512 {
		t.Errorf("at rest it holds %d bytes, want 512", d.Size())
	}
	rest := strings.Repeat(command, 1000)
	got := fill(rest)
	first := take()
	if got != 512 || first != 512/len(command) {
		t.Errorf("%d bytes and %d commands at first, want 512 and %d", got, first, 512/len(command))
	}
	if n := fill(rest[got:]); n != len(rest)-got {
		t.Errorf("%d bytes at the second Fill, want %d", n, len(rest)-got)
	}
	if n := first + take(); n != 1000 {
		t.Errorf("%d commands, want 1000", n)
	}
}
