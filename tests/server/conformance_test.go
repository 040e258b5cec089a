package server_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/tests/wire"
)

// The files of testdata have what RedisBloom does, sentence by sentence, and where this server differs. A paragraph
// begins with an empty store and its settings as they are without being set, and each line of it is a command and,
// after "=>", the reply in RESP2, and after "|" that in RESP3 if it is another. Replies are in the notation of
// package wire, in which different bytes are different text; ... stands for any text. Words in quotes are Go strings,
// item{1..5} is five words, k*100 a hundred times k. "@store MemTableSize n" begins with an empty store of another
// size. A paragraph "differs BF name" is about an entry of docs/DIFFERENCES.md.
//
// Each paragraph runs twice: with the settings as they are, and with bf-layout and cf-layout compatible. A line
// "@compatible => reply" has the reply of the command before it with these, and "@native" begins a paragraph about filters
// with the native layout alone.

type paragraph struct {
	title string
	lines []string
}

func readParagraphs(t *testing.T, file string) (list []paragraph) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		title, begins := strings.CutPrefix(line, "## ")
		switch {
		case line == "" || strings.HasPrefix(line, "# "):
		case begins:
			list = append(list, paragraph{title: title})
		case len(list) == 0:
			t.Fatalf("%s: %q before the first title", file, line)
		default:
			p := &list[len(list)-1]
			p.lines = append(p.lines, line)
		}
	}
	return list
}

func conformanceFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	return files
}

func TestConformance(t *testing.T) {
	for _, file := range conformanceFiles(t) {
		for _, p := range readParagraphs(t, file) {
			t.Run(filepath.Base(file)+"/"+p.title, func(t *testing.T) {
				if len(p.lines) == 0 {
					t.Fatal("no commands")
				}
				for _, protocol := range []int{2, 3} {
					p.run(t, protocol, false)
					if p.lines[0] != "@native" {
						p.run(t, protocol, true)
					}
				}
			})
		}
	}
}

// run runs the commands in a protocol, with the compatible layout or the native one.
func (p *paragraph) run(t *testing.T, protocol int, compatible bool) {
	var c *wire.Conn
	start := func(o kv.Options) {
		if c = begin(t, protocol, o); compatible {
			if got, err := c.Do("CONFIG", "SET", "bf-layout", "compatible", "cf-layout", "compatible"); err != nil || got != "+OK" {
				t.Fatalf("CONFIG SET: %s, %v", got, err)
			}
		}
	}
	start(kv.Options{})
	for i, line := range p.lines {
		if size, ok := strings.CutPrefix(line, "@store MemTableSize "); ok {
			n, err := strconv.Atoi(size)
			if err != nil {
				t.Fatal(err)
			}
			start(kv.Options{MemTableSize: n})
			continue
		}
		if strings.HasPrefix(line, "@") {
			continue
		}
		command, want, ok := strings.Cut(line, " => ")
		if !ok {
			t.Fatalf("%s: no =>", line)
		}
		if other, ok := strings.CutPrefix(p.after(i), "@compatible => "); ok && compatible {
			want = other
		}
		if resp2, resp3, differ := strings.Cut(want, " | "); differ {
			want = map[int]string{2: resp2, 3: resp3}[protocol]
		}
		got, err := c.Do(words(t, command)...)
		if err != nil {
			t.Fatalf("%s in RESP%d: %v", line, protocol, err)
		}
		if !like(got, want) {
			t.Errorf("%s in RESP%d, compatible layout: %v\n got %s\nwant %s", command, protocol, compatible, got, want)
		}
	}
}

// after returns the line after another, or nothing.
func (p *paragraph) after(i int) string {
	if i+1 == len(p.lines) {
		return ""
	}
	return p.lines[i+1]
}

// begin returns a client of a protocol, of a store of its own.
func begin(t *testing.T, protocol int, store kv.Options) *wire.Conn {
	t.Helper()
	c := dial(t, serve(t, store, nil))
	if got, err := c.Do("HELLO", fmt.Sprint(protocol)); err != nil || !strings.Contains(got, fmt.Sprintf(`"proto" :%d`, protocol)) {
		t.Fatalf("HELLO %d = %s, %v", protocol, got, err)
	}
	return c
}

func dial(t *testing.T, address string) *wire.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return wire.New(nc)
}

// like compares text with one in which ... stands for anything.
func like(got, want string) bool {
	parts := strings.Split(want, "...")
	rest, ok := strings.CutPrefix(got, parts[0])
	for _, part := range parts[1:] {
		var found bool
		_, rest, found = strings.Cut(rest, part)
		ok = ok && found
	}
	return ok && (rest == "" || len(parts) > 1 && strings.HasSuffix(got, parts[len(parts)-1]))
}

var (
	wordRange  = regexp.MustCompile(`^(.*)\{(\d+)\.\.(\d+)\}$`)
	wordRepeat = regexp.MustCompile(`^(.+)\*(\d+)$`)
)

// words returns the words of a line.
func words(t *testing.T, line string) (list []string) {
	t.Helper()
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for rest := strings.TrimLeft(line, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			word, err := strconv.Unquote(quoted)
			if err != nil {
				t.Fatal(err)
			}
			list, rest = append(list, word), rest[len(quoted):]
			continue
		}
		word, after, _ := strings.Cut(rest, " ")
		rest = after
		if m := wordRepeat.FindStringSubmatch(word); m != nil {
			list = append(list, strings.Repeat(m[1], number(m[2])))
			continue
		}
		m := wordRange.FindStringSubmatch(word)
		if m == nil {
			list = append(list, word)
			continue
		}
		for i := number(m[2]); i <= number(m[3]); i++ {
			list = append(list, m[1]+strconv.Itoa(i))
		}
	}
	return list
}

// unseen are the differences that no reply shows, and where they are tested.
var unseen = map[string]string{
	"BF hash":               "bloomext/differences_test.go",
	"BF hash-option":        "bloomext/differences_test.go",
	"BF one-commit":         "bloomext/differences_test.go",
	"BF known-items":        "bloomext/differences_test.go",
	"CF hash":               "cuckooext/differences_test.go",
	"CF hash-option":        "cuckooext/differences_test.go",
	"CF one-commit":         "cuckooext/differences_test.go",
	"CF nothing-to-do":      "cuckooext/differences_test.go",
	"CF max-iterations":     "cuckooext/differences_test.go",
	"CF compact-itself":     "cuckooext/differences_test.go",
	"CF compatible-compact": "cuckooext/differences_test.go",
	"CF compatible-kicks":   "cuckooext/differences_test.go",
}

// Each entry of docs/DIFFERENCES.md about RedisBloom has a paragraph, except entries that no reply shows, and each
// paragraph about a difference has an entry.
func TestConformance_differences(t *testing.T) {
	text, err := os.ReadFile("../../docs/DIFFERENCES.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]bool)
	for _, family := range []string{"BF", "CF"} {
		_, section, ok := strings.Cut(string(text), "\n## "+family+" commands\n")
		if !ok {
			t.Fatalf("docs/DIFFERENCES.md has no section on %s commands", family)
		}
		section, _, _ = strings.Cut(section, "\n## ")
		for _, m := range regexp.MustCompile("(?m)^- `([a-z-]+)`: ").FindAllStringSubmatch(section, -1) {
			listed[family+" "+m[1]] = true
		}
	}
	shown := make(map[string]bool)
	for _, file := range conformanceFiles(t) {
		for _, p := range readParagraphs(t, file) {
			if name, ok := strings.CutPrefix(p.title, "differs "); ok {
				name, _, _ = strings.Cut(name, ":")
				shown[name] = true
			}
		}
	}
	for name := range listed {
		if shown[name] == (unseen[name] != "") {
			t.Errorf("%s is an entry of docs/DIFFERENCES.md, shown here: %v, said to be seen nowhere: %v", name, shown[name], unseen[name] != "")
		}
	}
	for name := range shown {
		if !listed[name] {
			t.Errorf("%s differs, and docs/DIFFERENCES.md has no entry", name)
		}
	}
	for name, file := range unseen {
		test, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		if _, entry, _ := strings.Cut(name, " "); !listed[name] || !strings.Contains(string(test), strconv.Quote(entry)+":") {
			t.Errorf("%s has no test in %s, or no entry in docs/DIFFERENCES.md", name, file)
		}
	}
}
