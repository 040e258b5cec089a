package txn_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/txn"
)

// errDuplicate is the error of a program for an item that is known.
var errDuplicate = errors.New("duplicate")

// unsynced is a store on a disk that can crash. A crash loses item x of filter seen.
type unsynced struct {
	*kv.DB
	mem  *kvtest.Disk
	seen *bloomext.Filter
}

func openUnsynced(t *testing.T) *unsynced {
	t.Helper()
	s := &unsynced{mem: kvtest.NewDisk()}
	s.DB = s.open(t, s.mem)
	s.seen = bloomext.New(s.DB, "seen")
	must(t, s.seen.With(kv.Always).Reserve(bloomext.Config{Capacity: 100, ErrorRate: 1e-6}))
	if isNew, err := s.seen.With(kv.NoSync).Add([]byte("x")); !isNew || err != nil {
		t.Fatalf("Add = %v, %v", isNew, err)
	}
	return s
}

func (s *unsynced) open(t *testing.T, mem *kvtest.Disk) *kv.DB {
	t.Helper()
	db, err := kv.Open("store", &kv.Options{
		FS: mem, BallastSize: -1, MinFreeSpace: -1, MemTableSize: 256 << 10, Modules: coreext.With(bloomext.Module(), txn.Module()),
	})
	must(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
			t.Error(err)
		}
	})
	return db
}

// durable reports whether x survives a crash.
func (s *unsynced) durable(t *testing.T) bool {
	t.Helper()
	there, err := bloomext.New(s.open(t, s.mem.CrashClone(vfs.CrashCloneCfg{})), "seen").MayContain([]byte("x"))
	must(t, err)
	return there
}

// find expects x to be known in a transaction.
func (s *unsynced) find(tx kv.Scope) error {
	isNew, err := s.seen.In(tx).Add([]byte("x"))
	if err == nil && !isNew {
		err = errDuplicate
	}
	return err
}

// answers are the ways in which a transaction can answer that x is there.
var answers = map[string]func(t *testing.T, s *unsynced, level kv.Durability){
	"error": func(t *testing.T, s *unsynced, level kv.Durability) {
		if err := txntest.Update(t.Context(), s.DB, level, func(tx *txntest.Tx) error { return s.find(tx) }); !errors.Is(err, errDuplicate) {
			t.Errorf("Update = %v", err)
		}
	},
	"panic": func(t *testing.T, s *unsynced, level kv.Durability) {
		defer func() {
			if recover() != errDuplicate {
				t.Error("no panic")
			}
		}()
		_ = txntest.Update(t.Context(), s.DB, level, func(tx *txntest.Tx) error { panic(s.find(tx)) })
	},
	"end of the goroutine": func(t *testing.T, s *unsynced, level kv.Durability) {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = txntest.Update(context.Background(), s.DB, level, func(tx *txntest.Tx) error {
				if errors.Is(s.find(tx), errDuplicate) {
					runtime.Goexit()
				}
				return nil
			})
			t.Error("Update returned")
		}()
		<-ended
	},
	"error after the context's end": func(t *testing.T, s *unsynced, level kv.Durability) {
		ctx, cancel := context.WithCancel(t.Context())
		err := txntest.Update(ctx, s.DB, level, func(tx *txntest.Tx) error {
			defer cancel()
			return s.find(tx)
		})
		if !errors.Is(err, errDuplicate) {
			t.Errorf("Update = %v", err)
		}
	},
	"commit that is too large": func(t *testing.T, s *unsynced, level kv.Durability) {
		err := txntest.Update(t.Context(), s.DB, level, func(tx *txntest.Tx) error {
			if err := s.find(tx); !errors.Is(err, errDuplicate) {
				return err
			}
			for _, key := range []string{"a", "b", "c"} { // what is written is measured each 32 KiB: not after the last
				if err := tx.Set(key, make([]byte, 30<<10)); err != nil {
					t.Error(err)
				}
			}
			return nil
		})
		if !errors.Is(err, kv.ErrTooLarge) {
			t.Errorf("Update = %v, want ErrTooLarge", err)
		}
	},
	"no change": func(t *testing.T, s *unsynced, level kv.Durability) {
		must(t, txntest.Update(t.Context(), s.DB, level, func(tx *txntest.Tx) error {
			if err := s.find(tx); !errors.Is(err, errDuplicate) {
				return err
			}
			return nil
		}))
	},
	"rollback": func(t *testing.T, s *unsynced, level kv.Durability) {
		tx, err := txntest.Begin(t.Context(), s.DB, level)
		must(t, err)
		if err := s.find(tx); !errors.Is(err, errDuplicate) {
			t.Error(err)
		}
		must(t, tx.Rollback())
	},
	"error of a write": func(t *testing.T, s *unsynced, level kv.Durability) {
		err := s.Write(level, [][]byte{[]byte("seen")}, func(w *kv.Writer) error {
			added := make([]bool, 1)
			if _, err := s.seen.AddStaged(w, [][]byte{[]byte("x")}, added); err != nil || added[0] {
				return err
			}
			return errDuplicate
		})
		if !errors.Is(err, errDuplicate) {
			t.Errorf("Write = %v", err)
		}
	},
	"panic of a write": func(t *testing.T, s *unsynced, level kv.Durability) {
		defer func() {
			if recover() != errDuplicate {
				t.Error("no panic")
			}
		}()
		_ = s.Write(level, [][]byte{[]byte("seen")}, func(w *kv.Writer) error {
			added := make([]bool, 1)
			if _, err := s.seen.AddStaged(w, [][]byte{[]byte("x")}, added); err != nil || added[0] {
				return err
			}
			panic(errDuplicate)
		})
	},
	"write that is too large": func(t *testing.T, s *unsynced, level kv.Durability) {
		err := s.Write(level, [][]byte{[]byte("seen"), []byte("a")}, func(w *kv.Writer) error {
			added := make([]bool, 1)
			if _, err := s.seen.AddStaged(w, [][]byte{[]byte("x")}, added); err != nil || added[0] {
				return err
			}
			for key := range 3 {
				if _, err := w.Set([]byte{byte(key)}, make([]byte, 40<<10), kv.SetOptions{}); err != nil {
					return err
				}
			}
			return nil
		})
		if !errors.Is(err, kv.ErrTooLarge) {
			t.Errorf("Write = %v, want ErrTooLarge", err)
		}
	},
	"EXEC": func(t *testing.T, s *unsynced, level kv.Durability) {
		c := execClient(t, s, level)
		c.do("EXEC", "1) (integer) 0")
	},
	"EXEC that is refused": func(t *testing.T, s *unsynced, level kv.Durability) {
		c := execClient(t, s, level)
		c.s.Charge = func(int) error { return errDuplicate }
		c.do("EXEC", "(error) ERR duplicate")
	},
	"EXEC of a changed key": func(t *testing.T, s *unsynced, level kv.Durability) {
		c := client{t, module.NewSession(s.DB)}
		c.s.Durability = level
		c.do("WATCH k", "OK")
		other := client{t, module.NewSession(s.DB)}
		other.s.Durability = kv.NoSync
		other.do("SET k v", "OK")
		c.do("MULTI", "OK")
		c.do("BF.ADD seen x", "QUEUED")
		c.do("EXEC", "(nil)")
	},
}

func execClient(t *testing.T, s *unsynced, level kv.Durability) client {
	t.Helper()
	c := client{t, module.NewSession(s.DB)}
	c.s.Durability = level
	c.do("MULTI", "OK")
	c.do("BF.ADD seen x", "QUEUED")
	return c
}

// However a transaction at level Always answers that an item is there, no later crash takes the item away. A
// transaction at another level does not wait for the disk.
func TestDurable_answers(t *testing.T) {
	for name, answer := range answers {
		for _, level := range []kv.Durability{kv.Always, kv.EverySec, kv.NoSync} {
			t.Run(name+"/"+level.String(), func(t *testing.T) {
				s := openUnsynced(t)
				answer(t, s, level)
				switch durable := s.durable(t); {
				case level == kv.Always && !durable:
					t.Error("a crash takes away what the answer was based on")
				case level == kv.NoSync && durable:
					t.Error("the answer waited for the disk")
				}
			})
		}
	}
}
