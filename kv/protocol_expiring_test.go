package kv_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/txn"
)

// expiringStore is a store in memory whose keys that expire are counted.
type expiringStore struct {
	t      rapid.TB
	fs     vfs.FS
	passed atomic.Int64 // milliseconds
	db     *kv.DB
	user   *module.Session
}

func (s *expiringStore) open() {
	s.t.Helper()
	o := kv.Options{
		FS: s.fs, BallastSize: -1, Durability: kv.NoSync, Modules: coreext.With(bloomext.Module(), txn.Module()),
		Clock: func() time.Time { return time.UnixMilli(1_700_000_000_000 + s.passed.Load()) },
	}
	var err error
	if s.db, err = kv.Open("store", eitherWay(&o)); err != nil {
		s.t.Fatal(err)
	}
	s.user = module.NewSession(s.db)
}

func (s *expiringStore) close() {
	s.t.Helper()
	if err := s.db.Close(); err != nil {
		s.t.Fatal(err)
	}
}

// check compares the number of keys that expire with what is stored.
func (s *expiringStore) check(after string) {
	s.t.Helper()
	got, err := s.db.AwaitExpiring()
	if err != nil {
		s.t.Fatal(err)
	}
	want, err := s.db.StoredExpiring(context.Background())
	if err != nil || got != want {
		s.t.Fatalf("after %s: %d keys expire, want %d, %v", after, got, want, err)
	}
}

// The number of keys that expire is that of a count of all, whatever commands were
// given, alone or in a transaction, and after the store was opened again.
func TestExpiringKeys_commands(t *testing.T) {
	commands := []string{
		"SET a v", "SET a v PX 5", "SET a v PXAT 1", "SET a v KEEPTTL", "SET a v PX 5 NX", "GETSET a v", "GETDEL a",
		"GETEX a PX 7", "GETEX a PERSIST", "MSET a v b v", "MSETNX a v b v", "APPEND a v", "PEXPIRE a 5", "PEXPIRE a 9 NX",
		"PEXPIRE a 9 GT", "PEXPIRE a 3 LT", "PEXPIRE a -1", "PERSIST a", "DEL a", "DEL a b", "RENAME a b", "RENAMENX a b",
		"COPY a b", "COPY a b REPLACE", "BF.RESERVE a 0.01 100", "BF.ADD a x", "FLUSHALL", "FLUSHDB", "MULTI", "EXEC", "EXEC",
		"DISCARD", "pass", "sweep", "open",
	}
	rapid.Check(t, func(t *rapid.T) {
		s := &expiringStore{t: t, fs: vfs.NewMem()}
		s.open()
		defer func() { s.close() }()
		for range rapid.IntRange(1, 60).Draw(t, "commands") {
			command := rapid.SampledFrom(commands).Draw(t, "command")
			switch command {
			case "pass":
				s.passed.Add(3)
			case "sweep":
				if _, err := s.db.Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
			case "open":
				s.close()
				s.open()
			default:
				var words [][]byte
				for word := range strings.FieldsSeq(command) {
					if word == "a" || word == "b" {
						word = rapid.SampledFrom([]string{"k0", "k1", "k2", "k3"}).Draw(t, word)
					}
					words = append(words, []byte(word))
				}
				s.user.Do(t.Context(), words) // an error is as good as a success
			}
			s.check(command)
		}
		report, err := s.db.Check(t.Context())
		if err != nil || len(report.Problems) > 0 {
			t.Fatalf("Check = %v, %v", report.Problems, err)
		}
	})
}

// Commits from many goroutines are counted beside the counting.
func TestExpiringKeys_concurrent(t *testing.T) {
	s := &expiringStore{t: t, fs: vfs.NewMem()}
	s.open()
	defer func() { s.close() }()
	const keys = 5000
	set := func(i int) error {
		_, err := s.db.Set(kv.NoSync, fmt.Append(nil, "k", i), nil, kv.SetOptions{Expiry: s.db.Now() + int64(i%3)*1000})
		return err
	}
	for i := range keys {
		if err := set(i); err != nil {
			t.Fatal(err)
		}
	}
	s.close()
	s.open()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := g; i < keys; i += 3 {
				var err error
				switch i % 4 {
				case 0:
					_, err = s.db.Delete(kv.NoSync, fmt.Append(nil, "k", i))
				case 1:
					_, err = s.db.Persist(kv.NoSync, fmt.Append(nil, "k", i))
				default:
					err = set(i + g)
				}
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := s.db.ExpiringKeys(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	s.check("commits from many goroutines")
}

// While keys are counted the number is no higher than that of all, and right at the end: what was counted may be
// removed, and what was not. FLUSHALL leaves nothing to count, and Close does not wait for the rest.
func TestExpiringKeys_counting(t *testing.T) {
	const keys = 5000
	for name, meanwhile := range map[string]func(s *store){
		"nothing": func(*store) {},
		"keys come and go": func(s *store) {
			for i := range keys {
				s.isDone(s.Set(kv.NoSync, fmt.Append(nil, "new", i), nil, kv.SetOptions{Expiry: s.Now() + 1e6}))
				if i%2 == 0 {
					s.isDone(s.Persist(kv.NoSync, fmt.Append(nil, "k", i)))
				}
			}
		},
		"all are removed": func(s *store) {
			for i := range keys {
				if _, err := s.Delete(kv.NoSync, fmt.Append(nil, "k", i)); err != nil {
					s.t.Fatal(err)
				}
			}
		},
		"FLUSHALL": func(s *store) {
			s.must(s.DeleteAll(kv.NoSync))
			s.isDone(s.Set(kv.NoSync, []byte("new"), nil, kv.SetOptions{Expiry: s.Now() + 1e6}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, inMemory())
			for i := range keys {
				s.isDone(s.Set(kv.NoSync, fmt.Append(nil, "k", i), nil, kv.SetOptions{Expiry: s.Now() + 1e6 + int64(i)}))
			}
			held, end := s.next("expiring: counted some"), s.next("expiring: ended")
			if n, err := s.ExpiringKeys(); n > keys || err != nil {
				t.Errorf("at the beginning %d keys expire, %v", n, err)
			}
			<-held.reached
			meanwhile(s)
			want, err := s.StoredExpiring(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n, err := s.ExpiringKeys(); n > want || err != nil {
				t.Errorf("while they are counted %d keys expire, more than the %d there are, %v", n, want, err)
			}
			held.release()
			if n, err := s.AwaitExpiring(); n != want || err != nil {
				t.Errorf("%d keys expire, want %d, %v", n, want, err)
			}
			<-end.reached
			end.release()
			if n := s.CountedExpiring(); n != want {
				t.Errorf("at the end %d keys expire, want %d", n, want)
			}
		})
	}
	t.Run("Close", func(t *testing.T) {
		s := openStore(t, inMemory())
		for i := range keys {
			s.isDone(s.Set(kv.NoSync, fmt.Append(nil, "k", i), nil, kv.SetOptions{Expiry: s.Now() + 1e6}))
		}
		held := s.next("expiring: counted some")
		var parts atomic.Int64
		s.each("expiring: counted some", func() { parts.Add(1) })
		if _, err := s.ExpiringKeys(); err != nil {
			t.Fatal(err)
		}
		<-held.reached
		closed := make(chan error)
		go func() { closed <- s.Close() }()
		until(func() bool { return !s.Ready() }) // Close has only the counting to wait for
		held.release()
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if n := parts.Load(); n != 1 {
			t.Errorf("%d parts were counted after Close was called", n-1)
		}
	})
}

// The counting begins between commits: a note is not counted both by the commit and as one that was there before.
func TestExpiringKeys_begin(t *testing.T) {
	s := openStore(t, inMemory())
	held := s.next("commit: applied")
	s.wg.Go(func() {
		s.isDone(s.Set(kv.NoSync, []byte("k"), nil, kv.SetOptions{Expiry: s.Now() + 1e6}))
	})
	<-held.reached
	var ended atomic.Bool
	s.wg.Go(func() {
		if _, err := s.AwaitExpiring(); err != nil {
			t.Error(err)
		}
		ended.Store(true)
	})
	until(func() bool { return s.ApplyContended() || ended.Load() })
	held.release()
	s.wg.Wait()
	if n := s.CountedExpiring(); n != 1 {
		t.Errorf("%d keys expire, want 1", n)
	}
}

func (s *store) isDone(done bool, err error) {
	s.t.Helper()
	if !done || err != nil {
		s.t.Fatalf("%v, %v", done, err)
	}
}
