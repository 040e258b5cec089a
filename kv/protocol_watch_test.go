package kv_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/txn"
)

// A watcher that begins while a commit to its key has not reached memory, and sees the earlier value, is told of the
// commit.
func TestWatch_duringCommit(t *testing.T) {
	db, during := openInterrupted(t, "commit: applied")
	f := newFilter(t, db, "f")
	if _, err := f.Add([]byte("before")); err != nil { // the block is in memory
		t.Fatal(err)
	}
	watch := db.NewWatch()
	defer watch.Stop()
	*during = func() {
		if err := watch.Add([]byte("f")); err != nil {
			t.Error(err)
		}
		if there, err := f.MayContain([]byte("meanwhile")); there || err != nil {
			t.Errorf("the item is in memory already: %v, %v", there, err)
		}
	}
	if _, err := f.Add([]byte("meanwhile")); err != nil {
		t.Fatal(err)
	}
	err := db.Read(func(r kv.Reader) error {
		changed, err := watch.Changed(r)
		if !changed {
			t.Error("the watch was not told")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// A watch is told of bits and of slots, also where no counter changes, and of nothing when it
// has ended. Others go on.
func TestWatch_changes(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("bits")
	s.createSlots("slots")
	for key, change := range map[string]func(){
		"bits":  func() { s.set("bits", 1, 7) },
		"slots": func() { s.must(s.putSlot("slots", 0, 1, 3, 7)) },
	} {
		one, other := s.NewWatch(), s.NewWatch()
		s.must(one.Add([]byte(key)))
		s.must(other.Add([]byte(key)))
		other.Stop()
		change()
		s.must(s.Read(func(r kv.Reader) error {
			changed, err := one.Changed(r)
			if !changed {
				t.Errorf("a watch was not told of a change of %s", key)
			}
			return err
		}))
		one.Stop()
		if n := s.WatchedKeys(); n != 0 {
			t.Errorf("%d keys are watched by nobody", n)
		}
	}
}

// An EXEC that does nothing, as a watched key was changed, is answered when that change is on stable storage.
func TestAcknowledge_exec(t *testing.T) {
	for _, queued := range [][]string{{"SET", "b", "1"}, {"GET", "b"}} {
		t.Run(queued[0], func(t *testing.T) {
			s := openStore(t, &kv.Options{FS: vfs.NewMem(), Modules: coreext.With(txn.Module())})
			session := module.NewSession(s.DB)
			do := func(words ...string) string {
				args := make([][]byte, len(words))
				for i, w := range words {
					args[i] = []byte(w)
				}
				return session.Do(t.Context(), args).String()
			}
			do("WATCH", "a")
			_, err := s.Set(kv.NoSync, []byte("a"), []byte("1"), kv.SetOptions{})
			s.must(err)
			do("MULTI")
			do(queued...)
			waiting := s.next("durable: waiting")
			var got string
			exec := s.begin(func() error {
				got = do("EXEC")
				return nil
			})
			exec.reaches(waiting)
			waiting.release()
			exec.wait()
			if got != "(nil)" {
				t.Errorf("EXEC = %s, want (nil)", got)
			}
		})
	}
}

// stopping is a service that tells when it is to end.
type stopping struct{ stopped chan struct{} }

func (s stopping) Start(*kv.DB) error                 { return nil }
func (s stopping) Stop()                              { close(s.stopped) }
func (s stopping) Info() (string, []module.InfoField) { return "", nil }

// A transaction that begins while the store is closed, too late to be ended by that, ends all the same.
func TestClose_transactionBegins(t *testing.T) {
	service := stopping{make(chan struct{})}
	o := inMemory()
	o.Modules = coreext.With(module.Module{Name: "stopping", Services: []module.Service{service}})
	s := openStore(t, o)
	begun := s.next("transaction: begun")
	transaction := s.begin(func() error {
		tx, err := s.BeginExclusive(t.Context(), kv.NoSync)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := tx.Read(func(kv.Reader) error { return nil }); !errors.Is(err, kv.ErrClosed) {
			return fmt.Errorf("Read = %w, want %w", err, kv.ErrClosed)
		}
		return nil
	})
	transaction.reaches(begun)
	closing := s.begin(s.DB.Close)
	<-service.stopped
	begun.release()
	transaction.wait()
	closing.wait()
}
