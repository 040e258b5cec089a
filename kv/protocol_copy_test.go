package kv_test

import (
	"errors"
	"testing"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/kv"
)

// wantString checks a string and when it expires.
func (s *store) wantString(key, value string, expiry int64) {
	s.t.Helper()
	if got, err := s.Get([]byte(key)); string(got) != value || err != nil {
		s.t.Errorf("key %s is %q, %v, want %q", key, got, err, value)
	}
	if at, err := s.ExpiryOf([]byte(key)); at != expiry || err != nil {
		s.t.Errorf("key %s expires at %d, %v, want %d", key, at, err, expiry)
	}
}

// A key that is there is not replaced by a rename that is to be to a free one.
func TestRename_taken(t *testing.T) {
	s := openStore(t, inMemory())
	s.must(setString(s, "a", "of a"))
	s.must(setString(s, "b", "of b"))
	s.create("c")
	for _, to := range []string{"b", "c", "a"} {
		s.must(s.Write(kv.NoSync, [][]byte{[]byte("a"), []byte(to)}, func(w *kv.Writer) error {
			done, err := w.RenameIfFree([]byte("a"), []byte(to))
			if done {
				t.Errorf("a was renamed to %s, which is there", to)
			}
			return err
		}))
	}
	s.wantString("a", "of a", 0)
	s.wantString("b", "of b", 0)
	s.object("c")
	s.wantConsistent()
}

// A rename of a key to itself changes nothing.
func TestRename_itself(t *testing.T) {
	s := openStore(t, inMemory())
	s.must(setString(s, "string", "v"))
	s.create("object")
	s.set("object", 1, 7)
	for _, key := range []string{"string", "object"} {
		s.must(s.Rename(kv.NoSync, []byte(key), []byte(key)))
	}
	s.wantString("string", "v", 0)
	if !s.has("object", 1, 7) {
		t.Error("a bit of an object is lost that was renamed to itself")
	}
	if n, err := s.Size(); n != 2 || err != nil {
		t.Errorf("%d keys, %v, want 2", n, err)
	}
	s.wantConsistent()
}

// A key is not copied over itself, whatever is to be replaced.
func TestCopy_itself(t *testing.T) {
	s := openStore(t, inMemory())
	s.must(setString(s, "string", "v"))
	s.create("object")
	s.set("object", 1, 7)
	for _, key := range []string{"string", "object"} {
		for _, replace := range []bool{false, true} {
			if done, err := s.Copy(t.Context(), kv.NoSync, []byte(key), []byte(key), replace); done || err != nil {
				t.Errorf("Copy of a %s to itself, replace %t = %t, %v, want false", key, replace, done, err)
			}
		}
	}
	s.wantString("string", "v", 0)
	if !s.has("object", 1, 7) {
		t.Error("a bit of an object is lost that was copied to itself")
	}
	s.wantConsistent()
}

// A copy of a string expires when the string does.
func TestCopy_string(t *testing.T) {
	s := openStore(t, inMemory())
	at := s.Now() + 1e9
	_, err := s.Set(kv.NoSync, []byte("a"), []byte("v"), kv.SetOptions{Expiry: at})
	s.must(err)
	if done, err := s.Copy(t.Context(), kv.NoSync, []byte("a"), []byte("b"), false); !done || err != nil {
		t.Errorf("Copy = %t, %v", done, err)
	}
	s.wantString("b", "v", at)
	s.wantConsistent()
}

// Each block of a copy has what its original has, and nothing of another.
func TestCopy_blocks(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	for blk := range uint64(3) {
		s.set("k", blk, uint16(blk))
	}
	if done, err := s.Copy(t.Context(), kv.NoSync, []byte("k"), []byte("copy"), false); !done || err != nil {
		t.Fatalf("Copy = %t, %v", done, err)
	}
	for blk := range uint64(3) {
		for bit := range uint16(3) {
			if s.has("copy", blk, bit) != (uint64(bit) == blk) {
				t.Errorf("bit %d of block %d of the copy is %t", bit, blk, uint64(bit) != blk)
			}
		}
	}
	s.wantConsistent()
}

// Of an object that is damaged there is no copy: it would hide that.
func TestCopy_corrupt(t *testing.T) {
	for name, damage := range map[string]func(*store, *kv.Layer) error{
		"a block that does not decode":   func(s *store, l *kv.Layer) error { return s.PutStored(l, 1, []byte{0xff, 0xff}) },
		"a block beyond those there are": func(s *store, l *kv.Layer) error { return s.PutStored(l, 3, s.stored("k", 0)) },
	} {
		s := openStore(t, inMemory())
		s.create("k")
		s.set("k", 0, 7)
		s.must(damage(s, s.layer("k")))
		s.forget("k")
		if done, err := s.Copy(t.Context(), kv.NoSync, []byte("k"), []byte("copy"), false); done || !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%s: Copy = %t, %v, want ErrCorrupt", name, done, err)
		}
		s.wantMissing("copy")
	}
}

// stored returns what is stored of a block.
func (s *store) stored(key string, blk uint64) []byte {
	s.t.Helper()
	s.Drain()
	value, err := s.Stored(s.layer(key), blk)
	s.must(err)
	return value
}

// storedBits returns the words of a block as they are stored.
func (s *store) storedBits(key string, blk uint64) []uint64 {
	s.t.Helper()
	words := make([]uint64, int(s.layer(key).Spec().Lines)*block.LineWords)
	_, err := block.Decode(words, block.FamilyBits, s.stored(key, blk))
	s.must(err)
	return words
}
