package input

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
)

func TestInput(t *testing.T) {
	long := strings.Repeat("0123456789", 1<<20)
	tests := []struct {
		name, content string
		want          []string
	}{
		{"empty", "", nil},
		{"one line", "a\n", []string{"a"}},
		{"last line without a line break", "a\nb", []string{"a", "b"}},
		{"CRLF", "a\r\nb\r\n", []string{"a", "b"}},
		{"last line ends in CR", "a\r\nb\r", []string{"a", "b"}},
		{"only one CR belongs to the line break", "a\r\r\nb\rc\n", []string{"a\r", "b\rc"}},
		{"empty lines", "\n\r\n\na\n\n", []string{"", "", "", "a", ""}},
		{"only a CR", "\r", []string{""}},
		{"any bytes", "\x00\xff\n\x1f\n", []string{"\x00\xff", "\x1f"}},
		{"first bytes like gzip's, and no more", "\x1f\x8b\n", []string{"\x1f\x8b"}},
		{"line of 10 MiB", "a\n" + long + "\nb\n", []string{"a", long, "b"}},
		{"line of 10 MiB at the end", long, []string{long}},
		{"several batches", strings.Repeat("x\ny\n", 50), slices.Repeat([]string{"x", "y"}, 50)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			forms := map[string][]byte{
				"plain":   []byte(tt.content),
				"gzip":    gzipped(t, tt.content),
				"zstd":    zstdOf(t, tt.content),
				"frames":  append(zstdOf(t, tt.content[:len(tt.content)/3]), zstdOf(t, tt.content[len(tt.content)/3:])...),
				"members": append(gzipped(t, tt.content[:len(tt.content)/3]), gzipped(t, tt.content[len(tt.content)/3:])...),
			}
			if len(tt.content) < 1<<20 { // padding is for all sizes alike
				forms["padded"] = append(gzipped(t, tt.content), make([]byte, 1000)...)
				forms["padding"] = slices.Concat(gzipped(t, tt.content[:len(tt.content)/3]), make([]byte, 7), gzipped(t, tt.content[len(tt.content)/3:]))
			}
			for form, content := range forms {
				in := inputOf(t, content)
				lines, err := readAll(in)
				if !errors.Is(err, io.EOF) {
					t.Errorf("%s: ends with %v", form, err)
				}
				if !slices.Equal(lines, tt.want) {
					t.Errorf("%s: %d lines, want %d: %.100q", form, len(lines), len(tt.want), lines)
				}
				if got := in.BytesRead(); got != int64(len(content)) {
					t.Errorf("%s: %d bytes read, want %d", form, got, len(content))
				}
			}
		})
	}
}

// What is no text is refused before its first line, in a file and in a pipe. What only begins alike is read.
func TestInput_noText(t *testing.T) {
	archive := archiveOf(t)
	for _, tt := range []struct{ content, is, advice string }{
		{"\xfd7zXZ\x00\n", "compressed by xz", "as in: xz -dc FILE | kvshell ... -"},
		{"BZh91AY&SY\n", "compressed by bzip2", "as in: bzip2 -dc FILE | kvshell ... -"},
		{"PK\x03\x04\n", "a zip archive", "as in: unzip -p FILE | kvshell ... -"},
		{archive, "a tar archive", "as in: tar -xOf FILE | kvshell ... -"},
		{string(gzipped(t, archive)), "compressed by gzip, and what was compressed is a tar archive", "as in: gzip -dc FILE | tar -xOf - | kvshell ... -"},
		{string(zstdOf(t, archive)), "compressed by zstd, and what was compressed is a tar archive", "as in: zstd -dc FILE | tar -xOf - | kvshell ... -"},
		{string(gzipped(t, string(gzipped(t, "a\n")))), "and what was compressed is compressed by gzip once more", "as in: gzip -dc FILE | gzip -dc - | kvshell ... -"},
		{"PAR1\x15\n", "a Parquet file", "write the lines that it has to a file of their own first"},
		{string(gzipped(t, "PAR1\x15\n")), "a Parquet file", "write the lines that it has to a file of their own first"},
		{"\xfd7zXZ\n", "", ""},
		{"BZh01AY&SY\n", "", ""},
		{"BZh91AY&S\n", "", ""},
		{"BZh9\n", "", ""},
		{"\x28\xb5\x2f\n", "", ""},
		{"PK\n", "", ""},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteString(tt.content); err != nil {
			t.Fatal(err)
		}
		pipe, err := Open(t.Context(), Stdin, r, 16)
		if err != nil {
			t.Fatal(err)
		}
		pipeErr := pipe.Look(t.Context()) // the writer has not closed the pipe
		if pipeErr == nil {
			pipe.Start(nil)
			if b, err := pipe.Next(t.Context()); err != nil || string(b.FirstLines(1)) != tt.content {
				t.Errorf("%q is read as %+v, %v", tt.content, b, err)
			}
		}
		fileErr := inputOf(t, []byte(tt.content)).Look(t.Context())
		for what, err := range map[string]error{"pipe": pipeErr, "file": fileErr} {
			if tt.is == "" && err != nil || tt.is != "" && (err == nil || exit.Code(err) != exit.Refused ||
				!strings.Contains(err.Error(), tt.is+", and not lines of text: ") || !strings.HasSuffix(err.Error(), tt.advice)) {
				t.Errorf("a %s with %.30q: %v", what, tt.content, err)
			}
		}
		_ = pipe.Close()
		_, _ = w.Close(), r.Close()
	}
}

// archiveOf returns a tar archive with a list.
func archiveOf(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: "urls.txt", Size: 2})
	if err == nil {
		_, err = io.WriteString(w, "a\n")
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zstdOf(t *testing.T, content string) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll([]byte(content), nil)
}

// A byte order mark is no part of the first line, also of a compressed text. UTF-16 is read as UTF-8. A note tells of it.
func TestInput_encodings(t *testing.T) {
	const content = "line 1\r\n\u00e9\n"
	utf16 := "\xff\xfe"
	for _, c := range content {
		utf16 += string([]byte{byte(c), 0})
	}
	want := []string{"line 1", "\u00e9"}
	for _, tt := range []struct{ content, note string }{
		{content, ""},
		{"\xef\xbb\xbf" + content, "begins with a byte order mark, which is left out"},
		{utf16, "is in UTF-16, and is read as UTF-8"},
	} {
		for form, b := range map[string][]byte{"plain": []byte(tt.content), "gzip": gzipped(t, tt.content), "zstd": zstdOf(t, tt.content)} {
			in := inputOf(t, b)
			if err := in.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := in.Note(); !strings.HasSuffix(got, tt.note+"\n") && got != "" || (got == "") != (tt.note == "") {
				t.Errorf("%s of %q: note %q", form, tt.content, got)
			}
			if lines, err := readAll(in); !errors.Is(err, io.EOF) || !slices.Equal(lines, want) {
				t.Errorf("%s of %q: %q, %v", form, tt.content, lines, err)
			}
			// The position in the text is the position of the lines that are handed over.
			again := inputOf(t, b)
			again.Start(&Part{Start: 8, End: 11, Lines: 1, Sum: xxhash.Sum64String(content)})
			if lines, err := collect(again); !errors.Is(err, io.EOF) || !slices.Equal(lines, want[1:]) {
				t.Errorf("%s of %q, again: %q, %v", form, tt.content, lines, err)
			}
		}
	}
}

// A line that is too long ends the input before it takes more memory. The lines before it are given.
func TestInput_longLine(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	tests := []struct {
		content string
		lines   int
		fits    bool
	}{
		{long + "\na\n", 2, true},
		{"a\n" + long + "x", 2, true},
		{"a\n" + long + "x\nb\n", 1, false},
		{"a\nb\n" + long + "xx", 2, false},
		{"a\n" + long + long + long, 1, false},
	}
	for i, tt := range tests {
		in := inputOf(t, []byte(tt.content))
		in.longest = len(long) + 1
		lines, err := readAll(in)
		if len(lines) != tt.lines || errors.Is(err, io.EOF) != tt.fits {
			t.Errorf("%d: %d lines, %v; want %d", i, len(lines), err, tt.lines)
		}
		if !tt.fits && (exit.Code(err) != exit.Refused || !strings.Contains(err.Error(), "of more than 102401 bytes")) {
			t.Errorf("%d: the error is %v", i, err)
		}
		if !tt.fits {
			in := inputOf(t, []byte(tt.content))
			in.longest, in.StopAtDamage = len(long)+1, true
			if lines, err := readAll(in); len(lines) != tt.lines || !errors.Is(err, io.EOF) || !errors.Is(in.Damage(), ErrUnreadable) {
				t.Errorf("%d, until the long line: %d lines, %v, %v", i, len(lines), err, in.Damage())
			}
		}
	}
}

// From a pipe, lines are handed over when nothing more is there to be read, however few they are.
func TestInput_pipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := Open(t.Context(), Stdin, r, 10)
	if err != nil {
		t.Fatal(err)
	}
	in.Start(nil)
	for _, part := range []string{"a\nb\nhal", "f\n", "last"} {
		if _, err := w.WriteString(part); err != nil {
			t.Fatal(err)
		}
		if part == "last" {
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		b, err := in.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"a\nb\nhal": "a b", "f\n": "half", "last": "last"}[part]
		if got := string(bytes.Join(b.Items, []byte(" "))); got != want {
			t.Errorf("after %q: %q, want %q", part, got, want)
		}
		in.GiveBack(b)
	}
	if b, err := in.Next(context.Background()); err != nil || !errors.Is(b.Err, io.EOF) {
		t.Errorf("ends with %v, %v", b, err)
	}
	if err := errors.Join(in.Close(), r.Close()); err != nil {
		t.Error(err)
	}
}

// A caller that waits for a silent pipe returns when it is interrupted.
func TestInput_interrupted(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := Open(t.Context(), Stdin, r, 10)
	if err != nil {
		t.Fatal(err)
	}
	in.Start(nil)
	ctx, cancel := context.WithCancel(context.Background())
	go cancel()
	if _, err := in.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if err := errors.Join(in.Close(), w.Close(), r.Close()); err != nil {
		t.Error(err)
	}
}

// If an input breaks off, its whole lines are read; what may be a part of a line is not. With StopAtDamage that is its end.
func TestInput_damaged(t *testing.T) {
	whole, byZstd := gzipped(t, "a\nb\nc"), zstdOf(t, "a\nb\nc")
	tests := []struct {
		name    string
		content []byte
		want    []string
		err     string
		last    bool // with StopAtDamage the last line counts: the bytes before the damage are whole
	}{
		{"cut off", whole[:len(whole)-5], []string{"a", "b"}, "it is cut off", false},
		{"wrong checksum", append(slices.Clone(whole[:len(whole)-8]), make([]byte, 8)...), []string{"a", "b"}, "gzip: invalid checksum", false},
		{"something behind it", append(slices.Clone(whole), "garbage..."...), []string{"a", "b"}, "bytes that gzip has not written follow", true},
		{"something behind zeros", append(slices.Clone(whole), "\x00\x00garbage..."...), []string{"a", "b"}, "bytes that gzip has not written follow", true},
		{"only a header", whole[:5], nil, "it is cut off", false},
		{"a bad header", []byte("\x1f\x8b\x08\xff\xff\xff\xff\xff\xff\xff\xff"), nil, "it is cut off", false},
		{"zstd cut off in its only block", byZstd[:len(byZstd)-1], nil, "it is cut off", false},
		{"something behind zstd", append(slices.Clone(byZstd), "garbage..."...), []string{"a", "b"}, "magic number mismatch", false},
		{"half a character", []byte("\xff\xfea\x00\n\x00b\x00\n\x00c\x00\x00\xd8"), []string{"a", "b"}, "half a character at byte 12", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lines, err := readAll(inputOf(t, tt.content))
			if !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), tt.err) || exit.Code(err) != exit.Local {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			if !slices.Equal(lines, tt.want) {
				t.Errorf("lines %q, want %q", lines, tt.want)
			}
			in := inputOf(t, tt.content)
			in.StopAtDamage = true
			if err := in.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := tt.want
			if tt.last {
				want = append(slices.Clone(want), "c")
			}
			if lines, err := readAll(in); !errors.Is(err, io.EOF) || !slices.Equal(lines, want) {
				t.Errorf("until the damage: %q, %v", lines, err)
			}
			if err := in.Damage(); !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("the damage is %v", err)
			}
		})
	}
}

// A file that fails is not a damaged one: the next run may read it.
func TestInput_failing(t *testing.T) {
	name := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(name, gzipped(t, strings.Repeat("0123456789\n", 100)), 0o666); err != nil {
		t.Fatal(err)
	}
	in, err := Open(t.Context(), name, nil, 10)
	if err != nil {
		t.Fatal(err)
	}
	in.StopAtDamage = true
	if err := in.File.Close(); err != nil { // reading fails from now on
		t.Fatal(err)
	}
	if err := in.Look(t.Context()); !errors.Is(err, os.ErrClosed) || errors.Is(err, ErrUnreadable) || in.Damage() != nil {
		t.Errorf("%v, damage %v", err, in.Damage())
	}
}

func TestInput_batches(t *testing.T) {
	in := inputOf(t, []byte(strings.Repeat("x\n", 23)+strings.Repeat("y", batchBytes)+"\nz\n"))
	in.Start(nil)
	var sizes []int
	for {
		b, err := in.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if b.Err != nil {
			break
		}
		sizes = append(sizes, len(b.Items))
		in.GiveBack(b)
	}
	// 10 lines are a batch, and so is what has reached batchBytes.
	if want := []int{10, 10, 4, 1}; !slices.Equal(sizes, want) {
		t.Errorf("batches of %v lines, want %v", sizes, want)
	}
}

// The first batch is the record's, whatever the size of batches is now.
func TestInput_again(t *testing.T) {
	const content = "a\nb\r\nc\nd\ne"
	from := func(start, end int, lines int) *Part {
		return &Part{Start: uint64(start), End: uint64(end), Sum: xxhash.Sum64String(content[:end]), Lines: lines}
	}
	tests := []struct {
		name    string
		content string
		from    *Part
		again   string
		rest    string // "" if refused
	}{
		{"nothing read yet", content, from(0, 0, 0), "", "a b c d e"},
		{"first batch", content, from(0, 5, 2), "a b", "c d e"},
		{"in the middle", content, from(5, 9, 2), "c d", "e"},
		{"last line, without a line break", content, from(9, 10, 1), "e", ""},
		{"more at the end", content + "f\ng", from(5, 9, 2), "c d", "ef g"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := inputOf(t, []byte(tt.content))
			in.Start(tt.from)
			b, err := in.Next(context.Background())
			if err != nil || b.Err != nil {
				t.Fatal(err, b.Err)
			}
			if got := string(bytes.Join(b.Items, []byte(" "))); got != tt.again {
				t.Errorf("again %q, want %q", got, tt.again)
			}
			if b.Digest == nil || b.Digest.Sum64() != tt.from.Sum {
				t.Errorf("digest does not go to the end of the batch")
			}
			in.GiveBack(b)
			lines, err := collect(in)
			if !errors.Is(err, io.EOF) {
				t.Errorf("ends with %v", err)
			}
			if got := strings.Join(lines, " "); got != tt.rest {
				t.Errorf("then %q, want %q", got, tt.rest)
			}
		})
	}
	changed := []struct{ name, content string }{
		{"before the batch", "x\nb\r\nc\nd\ne"},
		{"in the batch", "a\nb\r\nc\nx\ne"},
		{"a line break", "a\nb\n\rc\nd\ne"},
		{"ends before the batch", "a\n"},
		{"ends in the batch", "a\nb\r\nc\n"},
		{"ends in its last line", "a\nb\r\nc\nd"},
		{"empty", ""},
	}
	for _, tt := range changed {
		t.Run("changed: "+tt.name, func(t *testing.T) {
			in := inputOf(t, []byte(tt.content))
			in.Start(from(5, 9, 2))
			b, err := in.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if b.Err == nil || exit.Code(b.Err) != exit.Refused || len(b.Items) > 0 {
				t.Errorf("batch of %q, %v; want a refusal", b.Items, b.Err)
			}
		})
	}
}

func gzipped(t *testing.T, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// inputOf returns an input of a file with that content, in batches of at most 10 lines.
func inputOf(t *testing.T, content []byte) *Input {
	t.Helper()
	name := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(name, content, 0o666); err != nil {
		t.Fatal(err)
	}
	in, err := Open(t.Context(), name, nil, 10)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	})
	return in
}

func readAll(in *Input) ([]string, error) {
	in.Start(nil)
	return collect(in)
}

// collect returns the lines up to the end of the input, and what it ended with.
func collect(in *Input) (lines []string, err error) {
	for {
		b, err := in.Next(context.Background())
		if err != nil || b.Err != nil {
			return lines, errors.Join(err, b.Err)
		}
		for _, item := range b.Items {
			lines = append(lines, string(item))
		}
		in.GiveBack(b)
	}
}

// From a pipe, all batches that are ready make one commit, up to the lines that a commit may have.
func TestInput_take(t *testing.T) {
	lines := func(n int) *Batch { return &Batch{Items: make([][]byte, n)} }
	tests := []struct {
		name    string
		limit   int
		waiting []int // lines of the batches that wait; 0 is the end
		want    []int // of the batches of each commit
	}{
		{"one", 10, []int{3, 0}, []int{1}},
		{"all that wait", 10, []int{3, 3, 3, 0}, []int{3}},
		{"no more than a commit takes", 10, []int{5, 5, 5, 5, 0}, []int{2, 2}},
		{"a batch that does not fit", 10, []int{5, 6, 4, 0}, []int{1, 2}},
		{"no more than leave some to read ahead", 10, []int{1, 1, 1, 1, 1, 0}, []int{4, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := &Input{eager: true, maxLines: tt.limit, full: make(chan *Batch, 10)}
			for _, n := range tt.waiting {
				b := lines(n)
				if n == 0 {
					b.Err = io.EOF
				}
				in.full <- b
			}
			var got []int
			taken, err := in.Take(context.Background(), func() {})
			for ; err == nil; taken, err = in.Take(context.Background(), func() {}) {
				got = append(got, len(taken))
			}
			if !errors.Is(err, io.EOF) || !slices.Equal(got, tt.want) {
				t.Errorf("commits of %v batches, %v; want %v", got, err, tt.want)
			}
		})
	}
}

func TestInput_skip(t *testing.T) {
	long := strings.Repeat("x", 700<<10)
	tests := []struct {
		name    string
		content string
		skip    uint64
		want    string // the rest, or, without a line, the error
	}{
		{"none", "a\nb\n", 0, "a b"},
		{"some", "a\nb\r\nc\n", 2, "c"},
		{"empty lines", "\n\n\nd\n", 3, "d"},
		{"all", "a\nb\n", 2, ""},
		{"all, without a line break", "a\nb", 2, ""},
		{"long lines", long + "\n" + long + long + "\nz", 2, "z"},
		{"a long last line", "a\n" + long, 2, ""},
		{"more than there are", "a\nb\n", 3, "--skip 3: NAME has only 2 lines"},
		{"more than there are, without a line break", "a\nb", 3, "--skip 3: NAME has only 2 lines"},
		{"of nothing", "", 1, "--skip 1: NAME has only 0 lines"},
	}
	for _, tt := range tests {
		for _, content := range [][]byte{[]byte(tt.content), gzipped(t, tt.content)} {
			t.Run(tt.name, func(t *testing.T) {
				in := inputOf(t, content)
				in.Skip = tt.skip
				lines, err := readAll(in)
				if exit.Code(err) == exit.Refused {
					lines = []string{strings.ReplaceAll(err.Error(), in.Name, "NAME")}
				} else if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				if got := strings.Join(lines, " "); got != tt.want {
					t.Errorf("%.80q, want %q", got, tt.want)
				}
			})
		}
	}
}

// FuzzInput reads files of any bytes: nothing panics or hangs; a file that is not read to its end gives the same lines with
// StopAtDamage; and a plain text gives its own bytes.
func FuzzInput(f *testing.F) {
	f.Add([]byte("a\r\nb"))
	f.Add([]byte("\x1f\x8b\x08"))
	f.Add([]byte("\xff\xfea\x00\n\x00"))
	f.Add([]byte("\x28\xb5\x2f\xfd\x04\x00\x11\x00\x00a\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		in := inputOf(t, content)
		err := in.Look(t.Context())
		if exit.Code(err) == exit.Refused {
			return
		}
		var lines []string
		if err == nil {
			lines, err = readAll(in)
		}
		again := inputOf(t, content)
		again.StopAtDamage = true
		if err := again.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		stopped, ended := readAll(again)
		if !errors.Is(ended, io.EOF) || len(stopped) < len(lines) || !slices.Equal(stopped[:len(lines)], lines) {
			t.Errorf("%q, then %v; until the damage %q, %v", lines, err, stopped, ended)
		}
		if whole := errors.Is(err, io.EOF); whole != (again.Damage() == nil) || !whole && !errors.Is(err, ErrUnreadable) {
			t.Errorf("%v, and the damage is %v", err, again.Damage())
		}
	})
}
