package main

import (
	"os"
	"path/filepath"
	"testing"
)

// What counts as synced is what no crash takes back, and whatever changed OUT makes the next sync a real one.
func TestOutFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(name, []byte("a\nb"), 0o666); err != nil {
		t.Fatal(err)
	}
	o, err := openOut(name)
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name    string
		do      func() error
		content string
		synced  int64
		dirty   bool
	}{
		{"open", func() error { return nil }, "a\nb", 0, true},
		{"sync", o.sync, "a\nb", 3, false},
		{"complete the last line", o.endLine, "a\nb\n", 3, true},
		{"nothing to complete", o.endLine, "a\nb\n", 3, true},
		{"write", func() error { return o.write([]byte("c\nd\n")) }, "a\nb\nc\nd\n", 3, true},
		{"sync again", o.sync, "a\nb\nc\nd\n", 8, false},
		{"write nothing", func() error { return o.write(nil) }, "a\nb\nc\nd\n", 8, false},
		{"cut off", func() error { return o.truncate(2) }, "a\n", 2, true},
		{"sync what was cut", o.sync, "a\n", 2, false},
		{"write behind it", func() error { return o.write([]byte("e\n")) }, "a\ne\n", 2, true},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if string(content) != s.content || o.length != int64(len(s.content)) {
			t.Errorf("%s: %q, length %d, want %q", s.name, content, o.length, s.content)
		}
		if o.synced != s.synced || o.dirty != s.dirty {
			t.Errorf("%s: %d bytes synced, dirty %t; want %d, %t", s.name, o.synced, o.dirty, s.synced, s.dirty)
		}
	}
	if err := o.has(4); err != nil {
		t.Errorf("4 bytes: %v", err)
	}
	if err := o.has(5); err == nil {
		t.Error("5 bytes: no error")
	}
	if err := o.close(); err != nil {
		t.Error(err)
	}
}
