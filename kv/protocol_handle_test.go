package kv_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
)

// replacements puts another filter, with the same items, where the filter "f" is, in each way there is.
var replacements = map[string]func(s *store, items []string) error{
	"rename": func(s *store, items []string) error {
		return s.Rename(kv.NoSync, []byte("new"), []byte("f"))
	},
	"one commit": func(s *store, items []string) error {
		w, err := s.Begin(kv.NoSync, []byte("f"))
		if err != nil {
			return err
		}
		if _, err := w.Delete([]byte("f")); err != nil {
			w.Discard()
			return err
		}
		if err := stageFilter(s, w, "f", items); err != nil {
			w.Discard()
			return err
		}
		return w.Commit()
	},
}

// A filter of some ten blocks; a few items touch a few of them.
var handleConfig = bloomext.Config{Capacity: 50_000, ErrorRate: 0.01, NonScaling: true}

func stageFilter(s *store, w *kv.Writer, key string, items []string) error {
	f := bloomext.New(s.DB, key)
	if err := f.ReserveStaged(w, handleConfig); err != nil {
		return err
	}
	list := make([][]byte, len(items))
	for i, item := range items {
		list[i] = []byte(item)
	}
	_, err := f.AddStaged(w, list, make([]bool, len(items)))
	return err
}

func (s *store) makeFilter(key string, items []string) {
	s.t.Helper()
	w, err := s.Begin(kv.NoSync, []byte(key))
	s.must(err)
	s.must(stageFilter(s, w, key, items))
	s.must(w.Commit())
}

// lookups asks for items that were all added, in each way there is.
var lookups = map[string]func(f *bloomext.Filter, items []string) error{
	"single": func(f *bloomext.Filter, items []string) error {
		return wantPresent(f.MayContain([]byte(items[0])))
	},
	"batch of one": func(f *bloomext.Filter, items []string) error {
		return wantAllPresent(f, items[:1])
	},
	"batch": wantAllPresent,
}

func wantPresent(present bool, err error) error {
	if err == nil && !present {
		err = fmt.Errorf("an item added before the lookup is absent")
	}
	return err
}

func wantAllPresent(f *bloomext.Filter, items []string) error {
	present := make([]bool, len(items))
	err := f.MayContainMany(scalableext.BytesOfAll(items), present)
	for i := range present {
		if err == nil {
			err = wantPresent(present[i], nil)
		}
	}
	return err
}

// added are the items of all filters here.
var added = []string{"a", "b", "c", "d", "e"}

// eachReplacement runs a test for each way to replace a filter and to look items up, with a store in which "f" and
// "new" both have the items and no block of "f" is in memory.
func eachReplacement(t *testing.T, test func(s *store, replace, lookup func() error)) {
	for how, replace := range replacements {
		for kind, lookup := range lookups {
			t.Run(how+"/"+kind, func(t *testing.T) {
				s := openStore(t, inMemory())
				s.makeFilter("f", added)
				s.makeFilter("new", added)
				s.forget("f")
				test(s,
					func() error { return replace(s, added) },
					func() error { return lookup(bloomext.New(s.DB, "f"), added) })
				s.wantConsistent()
			})
		}
	}
}

// A lookup that has found the filter, and then has to read a block from disk, may read what is left of a filter that
// was replaced meanwhile: nothing. It has to notice.
func TestLookup_replacedBeforeRead(t *testing.T) {
	eachReplacement(t, func(s *store, replace, lookup func() error) {
		reading := s.next("load: begun")
		asking := s.begin(lookup)
		asking.reaches(reading)
		s.must(replace())
		reading.release()
		asking.wait()
	})
}

// The same with an object that is closed first, so that the commit does not find it.
func TestLookup_closedAndReplaced(t *testing.T) {
	eachReplacement(t, func(s *store, replace, lookup func() error) {
		reading := s.next("load: begun")
		asking := s.begin(lookup)
		asking.reaches(reading)
		s.closeObject("f")
		s.must(replace())
		reading.release()
		asking.wait()
	})
}

// A lookup of two strings that begins while a commit is under way sees all of it, or nothing.
func TestLookup_severalDuringCommit(t *testing.T) {
	s := openStore(t, inMemory())
	a, b := []byte("a"), []byte("b")
	_, err := s.Set(kv.NoSync, a, nil, kv.SetOptions{})
	s.must(err)
	begins, between := s.next("read: begins"), s.next("test: between")
	n := 0
	counting := s.begin(func() error {
		return s.Read(func(r kv.Reader) error {
			first, err := r.Count(t.Context(), [][]byte{a})
			s.PauseAt("test: between")
			second, err2 := r.Count(t.Context(), [][]byte{b})
			n = first + second
			return errors.Join(err, err2)
		})
	})
	counting.reaches(begins)
	started, applied := s.next("commit: started"), s.next("commit: applied")
	moving := s.begin(func() error {
		return s.DB.Write(kv.NoSync, [][]byte{a, b}, func(w *kv.Writer) error {
			_, err := w.Delete(a)
			_, err2 := w.Set(b, nil, kv.SetOptions{})
			return errors.Join(err, err2)
		})
	})
	moving.reaches(started)
	begins.release()
	counting.reaches(between)
	started.release()
	moving.reaches(applied)
	s.wantPatience(counting, between)
	moving.wait()
	if n != 1 {
		t.Errorf("%d keys of a commit that takes one away for another", n)
	}
}

// The same while the replacing commit is between its Apply and the end of the old filter.
func TestLookup_replacedByHalf(t *testing.T) {
	eachReplacement(t, func(s *store, replace, lookup func() error) {
		reading := s.next("load: begun")
		asking := s.begin(lookup)
		asking.reaches(reading)
		applied := s.next("commit: applied")
		replacing := s.begin(replace)
		replacing.reaches(applied)
		s.wantPatience(asking, reading)
		replacing.wait()
	})
}

// The same with a lookup that has not looked at the sequence lock when the commit takes it.
func TestLookup_replacingBegan(t *testing.T) {
	eachReplacement(t, func(s *store, replace, lookup func() error) {
		settled := s.next("read: begins")
		asking := s.begin(lookup)
		asking.reaches(settled)
		applied := s.next("commit: applied")
		replacing := s.begin(replace)
		replacing.reaches(applied)
		s.wantPatience(asking, settled)
		replacing.wait()
	})
}

// wantPatience lets a lookup go on while a commit is held half done. The lookup
// may end or wait for the commit, which then goes on too, but not fail.
func (s *store) wantPatience(asking *task, held *stop) {
	s.t.Helper()
	again := s.next("read: again")
	held.release()
	until(func() bool { return asking.ended() || again.wasReached() })
	s.releaseAll()
	asking.wait()
}

// A lookup ends however often its filter is closed to save memory: a cache too
// small for the filter and its blocks closes it again and again.
func TestLookup_closedAtEachRead(t *testing.T) {
	for kind, lookup := range lookups {
		t.Run(kind, func(t *testing.T) {
			s := openStore(t, inMemory())
			s.makeFilter("f", added)
			s.forget("f")
			const enough = 100
			reads := 0
			s.each("load: begun", func() {
				if reads++; reads > enough {
					return
				}
				o, err := s.Lookup([]byte("f"))
				if err != nil {
					t.Error(err)
					return
				}
				s.EvictObject(o)
			})
			s.must(lookup(bloomext.New(s.DB, "f"), added))
			if reads > len(added) {
				t.Errorf("%d blocks read for at most %d items", reads, len(added))
			}
			s.wantConsistent()
		})
	}
}

// What commands look at counts for the cache, as what handles look at does.
func TestHandle_commandsTouch(t *testing.T) {
	s := openStore(t, inMemory())
	session := module.NewSession(s.DB)
	do := func(words ...string) {
		t.Helper()
		args := make([][]byte, len(words))
		for i, word := range words {
			args[i] = []byte(word)
		}
		if r := session.Do(t.Context(), args); r.IsError() {
			t.Fatalf("%s: %v", words[0], r)
		}
	}
	items := make([]string, 20_000)
	for i := range items {
		items[i] = fmt.Sprint(i)
	}
	do(slices.Concat([]string{"BF.INSERT", "b", "CAPACITY", "50000", "ITEMS"}, items)...)
	do(slices.Concat([]string{"CF.INSERT", "c", "CAPACITY", "50000", "ITEMS"}, items)...)
	for name, key := range map[string]string{"BF.EXISTS": "b", "BF.ADD": "b", "CF.EXISTS": "c", "CF.ADDNX": "c"} {
		touched := s.next("touch: begun")
		touched.release()
		for i := 0; i < len(items) && !touched.wasReached(); i++ { // one in 1024 is counted
			do(name, key, items[i])
		}
		if !touched.wasReached() {
			t.Errorf("no block was touched by %s", name)
		}
	}
}
