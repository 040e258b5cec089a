package main

import (
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
				"members": append(gzipped(t, tt.content[:len(tt.content)/3]), gzipped(t, tt.content[len(tt.content)/3:])...),
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
				if got := in.bytesRead.Load(); got != int64(len(content)) {
					t.Errorf("%s: %d bytes read, want %d", form, got, len(content))
				}
			}
		})
	}
}

// From a pipe, lines are handed over when nothing more is there to be read, however few they are.
func TestInput_pipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := openInput(stdinName, r, 10)
	if err != nil {
		t.Fatal(err)
	}
	in.start(nil)
	for _, part := range []string{"a\nb\nhal", "f\n", "last"} {
		if _, err := w.WriteString(part); err != nil {
			t.Fatal(err)
		}
		if part == "last" {
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		b, err := in.next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"a\nb\nhal": "a b", "f\n": "half", "last": "last"}[part]
		if got := string(bytes.Join(b.items, []byte(" "))); got != want {
			t.Errorf("after %q: %q, want %q", part, got, want)
		}
		in.free <- b
	}
	if b, err := in.next(context.Background()); err != nil || !errors.Is(b.err, io.EOF) {
		t.Errorf("ends with %v, %v", b, err)
	}
	if err := errors.Join(in.close(), r.Close()); err != nil {
		t.Error(err)
	}
}

// Who waits for a silent pipe is let go when interrupted.
func TestInput_interrupted(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := openInput(stdinName, r, 10)
	if err != nil {
		t.Fatal(err)
	}
	in.start(nil)
	ctx, cancel := context.WithCancel(context.Background())
	go cancel()
	if _, err := in.next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if err := errors.Join(in.close(), w.Close(), r.Close()); err != nil {
		t.Error(err)
	}
}

// What is whole of an input that breaks off is read; what may be part of a line is not.
func TestInput_damaged(t *testing.T) {
	whole := gzipped(t, "a\nb\nc")
	tests := []struct {
		name    string
		content []byte
		want    []string
		err     error
	}{
		{"cut off", whole[:len(whole)-5], []string{"a", "b"}, io.ErrUnexpectedEOF},
		{"wrong checksum", append(slices.Clone(whole[:len(whole)-8]), make([]byte, 8)...), []string{"a", "b"}, gzip.ErrChecksum},
		{"something behind it", append(slices.Clone(whole), "garbage..."...), []string{"a", "b"}, gzip.ErrHeader},
		{"only a header", whole[:5], nil, io.ErrUnexpectedEOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lines, err := readAll(inputOf(t, tt.content))
			if !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			if !slices.Equal(lines, tt.want) {
				t.Errorf("lines %q, want %q", lines, tt.want)
			}
		})
	}
}

func TestInput_batches(t *testing.T) {
	in := inputOf(t, []byte(strings.Repeat("x\n", 23)+strings.Repeat("y", batchBytes)+"\nz\n"))
	in.start(nil)
	var sizes []int
	for {
		b, err := in.next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if b.err != nil {
			break
		}
		sizes = append(sizes, len(b.items))
		in.free <- b
	}
	// 10 lines are a batch, and so is what has reached batchBytes.
	if want := []int{10, 10, 4, 1}; !slices.Equal(sizes, want) {
		t.Errorf("batches of %v lines, want %v", sizes, want)
	}
}

// The first batch is that of the record, its size whatever batches have now.
func TestInput_again(t *testing.T) {
	const content = "a\nb\r\nc\nd\ne"
	from := func(start, end int, lines int) *record {
		return &record{start: uint64(start), end: uint64(end), sum: xxhash.Sum64String(content[:end]), answers: make([]bool, lines)}
	}
	tests := []struct {
		name    string
		content string
		from    *record
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
			in.start(tt.from)
			b, err := in.next(context.Background())
			if err != nil || b.err != nil {
				t.Fatal(err, b.err)
			}
			if got := string(bytes.Join(b.items, []byte(" "))); got != tt.again {
				t.Errorf("again %q, want %q", got, tt.again)
			}
			if b.digest == nil || b.digest.Sum64() != tt.from.sum {
				t.Errorf("digest does not go to the end of the batch")
			}
			in.free <- b
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
			in.start(from(5, 9, 2))
			b, err := in.next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if b.err == nil || exit.Code(b.err) != exit.Refused || len(b.items) > 0 {
				t.Errorf("batch of %q, %v; want a refusal", b.items, b.err)
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
func inputOf(t *testing.T, content []byte) *input {
	t.Helper()
	name := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(name, content, 0o666); err != nil {
		t.Fatal(err)
	}
	in, err := openInput(name, nil, 10)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.close(); err != nil {
			t.Error(err)
		}
	})
	return in
}

func readAll(in *input) ([]string, error) {
	in.start(nil)
	return collect(in)
}

// collect returns the lines up to the end of the input, and what it ended with.
func collect(in *input) (lines []string, err error) {
	for {
		b, err := in.next(context.Background())
		if err != nil || b.err != nil {
			return lines, errors.Join(err, b.err)
		}
		for _, item := range b.items {
			lines = append(lines, string(item))
		}
		in.free <- b
	}
}
