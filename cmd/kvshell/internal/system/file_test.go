package system

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

var errWrite = errors.New("write")

// A file is replaced as a whole or not at all, and nothing else is left.
func TestWriteWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, tt := range []struct {
		err  error
		want string
	}{{nil, "new"}, {errWrite, "new"}} {
		err := WriteWhole(path, func(f *os.File) error {
			_, err := f.WriteString("new")
			return errors.Join(err, tt.err)
		})
		if !errors.Is(err, tt.err) {
			t.Errorf("%v, want %v", err, tt.err)
		}
		text, err := os.ReadFile(path)
		names, _ := os.ReadDir(dir)
		if string(text) != tt.want || err != nil || len(names) != 1 {
			t.Errorf("the file has %q, %v, beside %v", text, err, names)
		}
	}
}

// A file that came while another of its name was written stays as it is.
func TestWriteNew(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	write := func(text string, meanwhile func() error) func(*os.File) error {
		return func(f *os.File) error {
			_, err := f.WriteString(text)
			return errors.Join(err, meanwhile())
		}
	}
	first := func() error { return WriteNew(path, write("first", func() error { return nil })) }
	if err := WriteNew(path, write("second", first)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v, want %v", err, fs.ErrExist)
	}
	text, err := os.ReadFile(path)
	names, _ := os.ReadDir(dir)
	if string(text) != "first" || err != nil || len(names) != 1 {
		t.Errorf("the file has %q, %v, beside %v", text, err, names)
	}
}

// What is written goes behind what is there.
func TestAppendTo(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for range 2 {
		f, err := AppendTo(path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("x"); errors.Join(err, f.Close()) != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(path); string(text) != "xx" {
		t.Errorf("it has %q, %v", text, err)
	}
}
