package kv_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sievekv/sievekv/bitmapext"
	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
)

// deleting is a handle on a filter whose items can be deleted.
type deleting interface {
	Add(item []byte) (bool, error)
	Delete(item []byte) (bool, error)
	MayContain(item []byte) (bool, error)
}

// A lookup has found a filter. Before it reads the first block, a transaction deletes the item, makes the filter grow and adds
// the item again, to a layer that the lookup does not know. No commit left the filter without the item.
func TestLookup_movedToNewLayer(t *testing.T) {
	cuckoo := func(config cuckooext.Config) func(*kv.DB, *kv.Transaction) (deleting, error) {
		return func(db *kv.DB, tx *kv.Transaction) (deleting, error) {
			f := cuckooext.New(db, "f")
			if tx != nil {
				return f.In(tx), nil
			}
			return f, f.Reserve(config)
		}
	}
	for name, open := range map[string]func(*kv.DB, *kv.Transaction) (deleting, error){ // makes the filter unless in a transaction
		"cuckoo":            cuckoo(cuckooext.Config{Capacity: 1000}),
		"compatible cuckoo": cuckoo(cuckooext.Config{Capacity: 1024, Layout: scalableext.LayoutCompatible}),
		"counting": func(db *kv.DB, tx *kv.Transaction) (deleting, error) {
			f := countingext.New(db, "f")
			if tx != nil {
				return f.In(tx), nil
			}
			return f, f.Reserve(countingext.Config{Capacity: 1000, ErrorRate: 0.001})
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := inMemory()
			o.Modules = coreext.With(countingext.Module())
			s := openStore(t, o)
			f, err := open(s.DB, nil)
			s.must(err)
			for i := range 600 {
				_, err := f.Add([]byte(fmt.Sprint(i)))
				s.must(err)
			}
			layers := len(s.object("f").Layers())
			asked, done := "", false
			s.each("touch: begun", func() {
				if done {
					return
				}
				done = true
				s.must(s.Update(t.Context(), kv.NoSync, func(tx *kv.Transaction) error {
					f, err := open(s.DB, tx)
					if err != nil {
						return err
					}
					if deleted, err := f.Delete([]byte(asked)); !deleted || err != nil {
						return fmt.Errorf("item %s was deleted: %t, %w", asked, deleted, err)
					}
					for i := range 1500 {
						if _, err := f.Add([]byte(fmt.Sprint("more ", i))); err != nil {
							return err
						}
					}
					_, err = f.Add([]byte(asked))
					return err
				}))
			})
			for i := 0; !done; i++ { // one lookup in 1024 is counted
				asked = fmt.Sprint(i % 600)
				s.must(wantPresent(f.MayContain([]byte(asked))))
			}
			if n := len(s.object("f").Layers()); n <= layers {
				t.Errorf("the filter has %d layers, %d before", n, layers)
			}
		})
	}
}

// setClock is a clock that a test sets. Once it calls a function when it is asked for the time, but some times before.
type setClock struct {
	now    atomic.Int64
	before int
	during func()
}

func (c *setClock) time() time.Time {
	if c.before--; c.before == -1 && c.during != nil {
		c.during()
	}
	return time.UnixMilli(c.now.Load())
}

// A key gets another expiry before the first one, and the time of the first passes, both between any two steps of a lookup. The
// key was never missing.
func TestExpire_meanwhile(t *testing.T) {
	key := []byte("k")
	found := func(value []byte, err error) (bool, error) { return value != nil, err }
	lookup := func(r kv.Reader) (there bool, err error) {
		o, err := r.Lookup(key)
		return o != nil, err
	}
	for name, look := range map[string]func(s *store) (there bool, err error){
		"Get": func(s *store) (bool, error) { return found(s.Get(key)) },
		"StringInMemory": func(s *store) (bool, error) {
			value, known := s.StringInMemory(key, nil)
			return value != nil || !known, nil
		},
		"MGet": func(s *store) (bool, error) {
			values, err := s.MGet(key, []byte("other"))
			return found(values[0], err)
		},
		"Exists": func(s *store) (bool, error) {
			n, err := s.Exists(key, []byte("other"))
			return n > 0, err
		},
		"Read": func(s *store) (there bool, err error) {
			err = s.Read(func(r kv.Reader) (err error) { there, err = lookup(r); return err })
			return there, err
		},
		"long": func(s *store) (there bool, err error) {
			err = s.ReadWith(kv.ReadOptions{Long: true}, func(r kv.Reader) (err error) { there, err = lookup(r); return err })
			return there, err
		},
		"View": func(s *store) (there bool, err error) {
			err = s.View(context.Background(), func(tx *kv.Transaction) error {
				return tx.Read(func(r kv.Reader) (err error) { there, err = lookup(r); return err })
			})
			return there, err
		},
	} {
		for before := range 4 { // the time is asked for so often before
			clock := new(setClock)
			clock.now.Store(1000)
			o := inMemory()
			o.StringCacheSize = 1 << 20
			o.Clock = clock.time
			s := openStore(t, o)
			_, err := s.Set(kv.NoSync, key, []byte("v"), kv.SetOptions{Expiry: 2000})
			s.must(err)
			clock.now.Store(1999)
			clock.before, clock.during = before, func() {
				if !s.NoCommit() {
					_, err := s.Expire(kv.NoSync, key, 3000, kv.ExpireAlways)
					s.must(err)
					clock.now.Store(2000)
				}
			}
			if there, err := look(s); !there || err != nil {
				t.Errorf("%s, the expiry changes after the time was asked for %d times: the key is there: %t, %v", name, before, there, err)
			}
		}
	}
}

// renames gives a key's value to another key, with a copy of it left behind, in one commit.
func (s *store) renames(from, to string) {
	s.t.Helper()
	s.must(s.Update(s.t.Context(), kv.NoSync, func(tx *kv.Transaction) error {
		return tx.Write(func(w *kv.Writer) error {
			err := w.Rename([]byte(from), []byte(to))
			if err == nil {
				_, err = w.Copy(context.Background(), []byte(to), []byte(from), false)
			}
			return err
		})
	}))
}

// addInSeries adds an item as a server does that has several commands of a client.
func addInSeries(db *kv.DB, key, item string) (bool, error) {
	calls := new(module.Series)
	for _, item := range []string{item, "a"} {
		calls.Add([][]byte{[]byte("BF.ADD"), []byte(key), []byte(item)})
	}
	module.NewSession(db).DoSeries(context.Background(), module.Of(db).Command([]byte("BF.ADD")), calls)
	for _, r := range calls.Replies {
		if r.IsError() {
			return false, r.Err()
		}
	}
	return calls.Replies[0].Int() == 1, nil
}

// While an item is added under a key, what is under the key is renamed, a copy of it is left behind, and the item is added to
// what was renamed. That has the blocks in which the first add may see the item. The item has to be under both keys.
func TestAdd_renamedMeanwhile(t *testing.T) {
	type open = func(s *store, key string) (add, has func(item []byte) (bool, error))
	for name, open := range map[string]open{
		"Bloom": func(s *store, key string) (add, has func(item []byte) (bool, error)) {
			f := bloomext.New(s.DB, key)
			return f.Add, f.MayContain
		},
		"Bloom, many": func(s *store, key string) (add, has func(item []byte) (bool, error)) {
			return func(item []byte) (bool, error) { return addInSeries(s.DB, key, string(item)) }, bloomext.New(s.DB, key).MayContain
		},
		"cuckoo": func(s *store, key string) (add, has func(item []byte) (bool, error)) {
			f := cuckooext.New(s.DB, key)
			return f.AddIfAbsent, f.MayContain
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := new(setClock)
			clock.now.Store(1000)
			o := inMemory()
			o.Clock = clock.time
			s := openStore(t, o)
			if name == "cuckoo" {
				s.must(cuckooext.New(s.DB, "f").Reserve(cuckooext.Config{Capacity: 1000}))
			} else {
				s.must(bloomext.New(s.DB, "f").Reserve(bloomext.Config{Capacity: 1000, ErrorRate: 1e-6, NonScaling: true}))
			}
			add, has := open(s, "f")
			_, err := add([]byte("a"))
			s.must(err)
			_, err = s.Expire(kv.NoSync, []byte("f"), 1_000_000, kv.ExpireAlways) // so that every lookup asks for the time
			s.must(err)
			s.AwaitCache() // has closed the filter as it was before that
			s.must(wantPresent(has([]byte("a"))))
			s.AwaitCache()                           // has taken the filter as it is now: so the add finds it in memory, and asks for the time before it locks
			clock.before, clock.during = 0, func() { // it is asked once before the key is locked
				s.renames("f", "g")
				added, _ := open(s, "g")
				_, err := added([]byte("b"))
				s.must(err)
			}
			_, err = add([]byte("b"))
			s.must(err)
			s.must(wantPresent(has([]byte("b"))))
		})
	}
}

// While a bit is looked up, what is under the key is renamed, a copy of it is left behind, and the bit of what was renamed is
// changed. The block that the lookup has is of that.
func TestLookup_bitOfRenamed(t *testing.T) {
	const n = 100_000
	for _, on := range []bool{true, false} {
		clock := new(setClock)
		clock.now.Store(1000)
		o := inMemory()
		o.Clock = clock.time
		s := openStore(t, o)
		set := func(key string, bit uint64, on bool) {
			s.must(s.write(key, func(w *kv.Writer, _ *kv.Object) error {
				_, err := bitmapext.SetBit(t.Context(), w, []byte(key), bit, on)
				return err
			}))
		}
		set("f", 2_000_000, true) // in blocks
		set("f", n, on)
		_, err := s.Expire(kv.NoSync, []byte("f"), 1_000_000, kv.ExpireAlways) // so that every lookup asks for the time
		s.must(err)
		s.AwaitCache() // has closed the bitmap as it was before that
		found := s.object("f")
		s.must(s.Read(func(r kv.Reader) error {
			_, err := bitmapext.InBlocks(r, found).Bit(n)
			return err
		}))
		s.AwaitCache() // has taken the bitmap as it is now
		if got, known := bitmapext.InMemory(s.DB, found, n); got != on || !known {
			t.Fatalf("before: %t, known %t, want %t", got, known, on)
		}
		clock.before, clock.during = 0, func() {
			s.renames("f", "g")
			set("g", n, !on)
		}
		if got, known := bitmapext.InMemory(s.DB, found, n); known && got != on {
			t.Errorf("the bit is %t, was %t all the time", got, on)
		}
	}
}
