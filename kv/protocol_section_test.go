package kv_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/kv"
)

// usable reports whether a lookup of an object begins.
func usable(o *kv.Object) bool {
	in := o.Memory().BeginSlots()
	return in.Usable()
}

// A commit that changes more than bits or slots makes the words of the objects that it touches busy, from before Pebble has it
// until it is in memory. A lookup that began before is not valid then, and never again. Objects that the commit does not touch
// are used all the while.
func TestSection_commits(t *testing.T) {
	both := func(s *store, change func(tx *kv.Transaction) error) error {
		return s.Update(context.Background(), kv.NoSync, change)
	}
	for name, c := range map[string]struct {
		change func(s *store) error
		keys   []string // that it touches
		made   string   // a key under which it makes an object
	}{
		"grow":   {func(s *store) error { return s.write("k", grow) }, []string{"k"}, "k"},
		"rename": {func(s *store) error { return s.Rename(kv.NoSync, []byte("k"), []byte("l")) }, []string{"k", "l"}, "l"},
		"delete": {func(s *store) error { _, err := s.Delete(kv.NoSync, []byte("k")); return err }, []string{"k"}, ""},
		"expire": {func(s *store) error {
			_, err := s.Expire(kv.NoSync, []byte("k"), 1<<50, kv.ExpireAlways)
			return err
		}, []string{"k"}, "k"},
		"transaction": {func(s *store) error {
			return both(s, func(tx *kv.Transaction) error {
				return tx.Write(func(w *kv.Writer) error {
					for _, key := range []string{"k", "l"} {
						o, err := w.Object([]byte(key))
						if err = errors.Join(err, put(w, o, 0, 1, 5, 9)); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}, []string{"k", "l"}, ""},
		"everything": {func(s *store) error {
			return both(s, func(tx *kv.Transaction) error { return tx.Write((*kv.Writer).DeleteAll) })
		}, []string{"k", "l", "other"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, inMemory())
			objects, before := make(map[string]*kv.Object), make(map[string]*memory.SlotSection)
			for _, key := range []string{"k", "l", "other"} {
				s.createSlots(key)
				s.must(s.putSlot(key, 0, 1, 5, 7))
				o := s.object(key)
				in := o.Memory().BeginSlots()
				if objects[key], before[key] = o, &in; !in.Usable() {
					t.Fatal("an object that was just found cannot be used")
				}
			}
			look := func(when string, during bool) {
				touched := make(map[string]bool)
				for _, key := range c.keys {
					touched[key] = true
				}
				for key, o := range objects {
					if during && usable(o) == touched[key] {
						t.Errorf("%s: a lookup of %q begins: %t", when, key, usable(o))
					}
					if before[key].Valid() == touched[key] {
						t.Errorf("%s: a lookup of %q that began before is valid: %t", when, key, before[key].Valid())
					}
				}
			}
			started, applied := s.next("commit: started"), s.next("commit: applied")
			committing := s.begin(func() error { return c.change(s) })
			committing.reaches(started)
			look("when Pebble does not have the commit", true)
			started.release()
			committing.reaches(applied)
			look("when Pebble has the commit", true)
			applied.release()
			committing.wait()
			look("afterwards", false)
			if c.made != "" && !usable(s.object(c.made)) {
				t.Errorf("what is under %q cannot be used afterwards", c.made)
			}
			s.wantConsistent()
		})
	}
}

// A commit of bits or slots under one key leaves the words as they are.
func TestSection_slots(t *testing.T) {
	s := openStore(t, inMemory())
	s.createSlots("k")
	s.must(s.putSlot("k", 0, 1, 5, 7))
	in := s.object("k").Memory().BeginSlots()
	if !in.Usable() {
		t.Fatal("an object that was just found cannot be used")
	}
	in.Block(s.layer("k"), 2)
	s.must(s.putSlot("k", 0, 1, 6, 7))
	if !in.Valid() {
		t.Error("a commit to another block makes a lookup invalid")
	}
	s.must(s.putSlot("k", 0, 2, 6, 7))
	if in.Valid() {
		t.Error("a lookup is valid whose block has changed")
	}
}

// Once the store has failed or was closed, no lookup of an object begins, and none that has begun is valid: not of an object
// that was open, of one that is opened meanwhile, and of one that a commit makes meanwhile.
func TestSection_over(t *testing.T) {
	for name, over := range map[string]func(s *store){
		"failed": func(s *store) { s.Fail(errors.New("why")) },
		"closed": func(s *store) { s.must(s.Close()) },
	} {
		s := openStore(t, inMemory())
		s.create("k")
		o := s.object("k")
		in := o.Memory().BeginSlots()
		over(s)
		if usable(o) || in.Valid() {
			t.Errorf("%s: a lookup begins: %t, goes on: %t", name, usable(o), in.Valid())
		}
		_ = s.Close() // says so, or was called
	}

	s := openStore(t, inMemory())
	s.create("k")
	s.closeObject("k")
	reading := s.next("open: read")
	opening := s.begin(func() error {
		_, _ = s.Lookup([]byte("k"))
		return nil
	})
	opening.reaches(reading)
	s.Fail(errors.New("why"))
	reading.release()
	opening.wait()
	if o := s.OpenObject("k"); o != nil && usable(o) {
		t.Error("an object that was opened while the store failed can be used")
	}
	_ = s.Close() // says so

	s = openStore(t, inMemory())
	s.createSlots("k")
	applied := s.next("commit: applied")
	growing := s.begin(func() error {
		_ = s.write("k", grow)
		return nil
	})
	growing.reaches(applied)
	s.Fail(errors.New("why"))
	applied.release()
	growing.wait()
	if o := s.OpenObject("k"); o != nil && usable(o) {
		t.Error("an object that a commit has made while the store failed can be used")
	}
	_ = s.Close() // says so
}
