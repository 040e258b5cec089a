package dedup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// No crash takes back what counts as synced, and after any change of OUT the next sync does sync.
func TestOutFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(name, []byte("a\nb"), 0o666); err != nil {
		t.Fatal(err)
	}
	o, err := openOutFile(name)
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
		{"go back", func() error { _, err := o.goOn(&record{outLength: 2, version: 1}); return err }, "a\nb\nc\nd\n", 2, true},
		{"sync what was found", o.sync, "a\nb\nc\nd\n", 2, false},
		{"write the same", func() error { return o.write([]byte("b\nc\n")) }, "a\nb\nc\nd\n", 2, true},
		{"write something else", func() error { return o.write([]byte("e\n")) }, "a\nb\nc\ne\n", 2, true},
		{"write behind it", func() error { return o.write([]byte("f\n")) }, "a\nb\nc\ne\nf\n", 2, true},
		{"go back again", func() error { _, err := o.goOn(&record{outLength: 6, version: 1}); return err }, "a\nb\nc\ne\nf\n", 6, true},
		{"cut off", func() error { return o.cutOff(6) }, "a\nb\nc\n", 6, true},
		{"nothing to cut off", func() error { return o.cutOff(6) }, "a\nb\nc\n", 6, true},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if string(content) != s.content || max(o.length, o.found) != int64(len(s.content)) {
			t.Errorf("%s: %q, length %d, found %d, want %q", s.name, content, o.length, o.found, s.content)
		}
		if o.tailSum() != xxhash.Sum64(content[:o.length]) {
			t.Errorf("%s: the tail is %q", s.name, o.tail)
		}
		if o.synced != s.synced || o.dirty != s.dirty {
			t.Errorf("%s: %d bytes synced, dirty %t; want %d, %t", s.name, o.synced, o.dirty, s.synced, s.dirty)
		}
	}
	if _, err := o.goOn(&record{outLength: 7, version: 1}); err == nil {
		t.Error("7 bytes of 6: no error")
	}
	cut, err := os.ReadFile(o.cutPath())
	if err != nil || string(cut) != "d\ne\nf\n" {
		t.Errorf("what was cut off is %q, %v", cut, err)
	}
	if err := o.close(); err != nil {
		t.Error(err)
	}
}
