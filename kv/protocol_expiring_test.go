package kv_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/txn"
)

// expiringStore is a store in memory whose number of keys that expire is checked.
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

// openAsOlder closes the store as an older program does, and opens it.
func (s *expiringStore) openAsOlder() {
	s.t.Helper()
	if err := s.db.WriteOlderKeyCounts(); err != nil {
		s.t.Fatal(err)
	}
	s.close()
	s.open()
}

// check compares the number of keys that expire with what is stored.
func (s *expiringStore) check(after string) {
	s.t.Helper()
	got, err := s.db.ExpiringKeys()
	if err != nil {
		s.t.Fatal(err)
	}
	want, err := s.db.StoredExpiring(context.Background())
	if err != nil || got != want {
		s.t.Fatalf("after %s: %d keys expire, want %d, %v", after, got, want, err)
	}
}

// The number of keys that expire equals a count of all, whatever commands were given, alone or in a transaction, and
// after the store was opened again, also one that an older program has left.
func TestExpiringKeys_commands(t *testing.T) {
	commands := []string{
		"SET a v", "SET a v PX 5", "SET a v PXAT 1", "SET a v KEEPTTL", "SET a v PX 5 NX", "GETSET a v", "GETDEL a",
		"GETEX a PX 7", "GETEX a PERSIST", "MSET a v b v", "MSETNX a v b v", "APPEND a v", "PEXPIRE a 5", "PEXPIRE a 9 NX",
		"PEXPIRE a 9 GT", "PEXPIRE a 3 LT", "PEXPIRE a -1", "PERSIST a", "DEL a", "DEL a b", "RENAME a b", "RENAMENX a b",
		"COPY a b", "COPY a b REPLACE", "BF.RESERVE a 0.01 100", "BF.ADD a x", "FLUSHALL", "FLUSHDB", "MULTI", "EXEC", "EXEC",
		"DISCARD", "pass", "sweep", "open", "open as older",
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
			case "open as older":
				s.openAsOlder()
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

// Commits from many goroutines keep the number of keys that expire.
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
			}
		})
	}
	wg.Wait()
	s.check("commits from many goroutines")
}

// A store of an older program, which has not stored how many keys expire, is counted when it is opened, also while some of
// its groups are as they were.
func TestExpiringKeys_older(t *testing.T) {
	s := &expiringStore{t: t, fs: vfs.NewMem()}
	s.open()
	defer func() { s.close() }()
	set := func(from, to int, expiry int64) {
		for i := from; i < to; i++ {
			if _, err := s.db.Set(kv.NoSync, fmt.Append(nil, "k", i), nil, kv.SetOptions{Expiry: expiry}); err != nil {
				t.Fatal(err)
			}
		}
	}
	later := s.db.Now() + 1e6
	set(0, 300, later)
	set(300, 600, 0)
	s.openAsOlder()
	s.check("an older program")
	if n, err := s.db.ExpiringKeys(); n != 300 || err != nil {
		t.Errorf("%d keys expire, want 300, %v", n, err)
	}
	set(290, 310, 0)
	set(500, 510, later)
	s.check("a few commits")
	s.close()
	s.open()
	s.check("being opened while most groups are as they were")
	if report, err := s.db.Check(t.Context()); err != nil || len(report.Problems) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
	set(0, 600, later)
	s.close()
	s.open()
	s.check("every group was changed")
}

// A store of an older program opens, though it cannot be counted which keys expire.
func TestExpiringKeys_olderDamaged(t *testing.T) {
	b := &badBlock{t: t, fs: &readsFS{FS: kvtest.NewDisk()}}
	b.open()
	random := rand.NewChaCha8([32]byte{})
	for range 500 {
		key := make([]byte, 500) // the headers are about the first half of the table, the notes the second
		_, _ = random.Read(key)  // never fails
		_, err := b.db.Set(kv.NoSync, key, nil, kv.SetOptions{Expiry: b.db.Now() + 1e9})
		b.must(err)
	}
	b.must(b.db.WriteOlderKeyCounts())
	b.must(b.db.CompactTables(t.Context()))
	b.must(b.db.Close())
	b.damageTable(func(table []byte) int { return len(table) * 3 / 4 })
	b.open()
	t.Cleanup(func() { b.must(b.db.Close()) })
	if n, err := b.db.Size(); n != 500 || err != nil {
		t.Errorf("%d keys, %v", n, err)
	}
	if n, err := b.db.ExpiringKeys(); n >= 500 || err != nil {
		t.Errorf("%d keys expire, %v", n, err)
	}
	if text := b.log.String(); !strings.Contains(text, "keys that expire cannot be counted") {
		t.Errorf("logged %s", text)
	}
}
