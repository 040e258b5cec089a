package kv_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// deleting is a handle on a filter whose items can be deleted.
type deleting interface {
	AddString(item string) (bool, error)
	DeleteString(item string) (bool, error)
	MayContainString(item string) (bool, error)
}

// A lookup has found a filter. Before it reads the first block, a transaction deletes the item, makes the filter grow and adds
// the item again, to a layer that the lookup does not know. No commit left the filter without the item.
func TestLookup_movedToNewLayer(t *testing.T) {
	for name, open := range map[string]func(*kv.DB) (reserve func() error, in func(*kv.Transaction) deleting){
		"cuckoo": func(db *kv.DB) (func() error, func(*kv.Transaction) deleting) {
			f := cuckooext.New(db, "f")
			return func() error { return f.Reserve(cuckooext.Config{Capacity: 1000}) }, func(tx *kv.Transaction) deleting {
				if tx == nil {
					return f
				}
				return f.In(tx)
			}
		},
		"compatible cuckoo": func(db *kv.DB) (func() error, func(*kv.Transaction) deleting) {
			f := cuckooext.New(db, "f")
			return func() error {
					return f.Reserve(cuckooext.Config{Capacity: 1024, Layout: scalableext.LayoutCompatible})
				}, func(tx *kv.Transaction) deleting {
					if tx == nil {
						return f
					}
					return f.In(tx)
				}
		},
		"counting": func(db *kv.DB) (func() error, func(*kv.Transaction) deleting) {
			f := countingext.New(db, "f")
			return func() error { return f.Reserve(countingext.Config{Capacity: 1000, ErrorRate: 0.001}) }, func(tx *kv.Transaction) deleting {
				if tx == nil {
					return f
				}
				return f.In(tx)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := inMemory()
			o.Modules = coreext.With(countingext.Module())
			s := openStore(t, o)
			reserve, in := open(s.DB)
			s.must(reserve())
			f := in(nil)
			for i := range 600 {
				_, err := f.AddString(fmt.Sprint(i))
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
					f := in(tx)
					if deleted, err := f.DeleteString(asked); !deleted || err != nil {
						return fmt.Errorf("item %s was deleted: %t, %w", asked, deleted, err)
					}
					for i := range 1500 {
						if _, err := f.AddString(fmt.Sprint("more ", i)); err != nil {
							return err
						}
					}
					_, err := f.AddString(asked)
					return err
				}))
			})
			for i := 0; !done; i++ { // one lookup in 1024 is counted
				asked = fmt.Sprint(i % 600)
				s.must(wantPresent(f.MayContainString(asked)))
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
