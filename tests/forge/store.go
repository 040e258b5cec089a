package forge

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// Store is a store that is given forged filters, and used as if they were none.
type Store struct {
	t       testing.TB
	fs      vfs.FS
	DB      *kv.DB
	session *module.Session
	damaged bool // an answer may say that something is damaged
}

// MaxFilterBytes is a Store's. A header that claims more costs nothing.
const MaxFilterBytes = 1 << 20

// The most bytes that one case may allocate in all. What the commands of Use need is a tenth of it. In a store's own files a layer
// may have 8 TiB, and each time that its filter is opened or grows it gets a table of 128 MiB for that.
const (
	mostAllocated = 256 << 20
	mostOfStored  = 16 << 30
)

// Open opens a new store in memory. Close has to be called.
func Open(t testing.TB) *Store {
	s := &Store{t: t, fs: vfs.NewMem()}
	s.open()
	return s
}

func (s *Store) open() {
	s.t.Helper()
	db, err := kv.Open("store", &kv.Options{
		FS: s.fs, Seed: 1, Durability: kv.NoSync, MaxFilterBytes: MaxFilterBytes, CacheSize: 8 << 20, MemTableSize: 1 << 20,
		Modules: coreext.With(bloomext.Module(), cuckooext.Module(), countingext.Module()),
	})
	if err != nil {
		s.t.Fatalf("Open: %v", err)
	}
	s.DB, s.session = db, module.NewSession(db)
}

// Close closes the store.
func (s *Store) Close() {
	if err := s.DB.Close(); err != nil {
		s.t.Errorf("Close: %v", err)
	}
}

// Case is one case of a test that uses the store.
func (s *Store) Case(t testing.TB, run func()) {
	t.Helper()
	defer func(before testing.TB) { s.t = before }(s.t)
	s.t = t
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	most := uint64(mostAllocated)
	if s.damaged {
		most = mostOfStored
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > most {
		t.Errorf("%d bytes were allocated, want at most %d", n, most)
	}
	s.Do("FLUSHALL")
}

// Do runs a command. An error reply is an answer like others, unless it says that something is damaged, or that the program
// has a fault.
func (s *Store) Do(words ...string) reply.Reply {
	s.t.Helper()
	args := make([][]byte, len(words))
	for i, word := range words {
		args[i] = []byte(word)
	}
	r := s.session.Do(context.Background(), args)
	text := string(r.Bytes())
	damage := strings.HasPrefix(text, "CORRUPT") || strings.Contains(text, "corrupt")
	if r.IsError() && (damage && !s.damaged || strings.Contains(text, "panic")) {
		s.t.Errorf("%s: %.300s", words[0], text)
	}
	return r
}

// Conn runs commands as Do does, for what copies to a store.
type Conn struct{ *Store }

// Do runs a command.
func (c Conn) Do(_ context.Context, words [][]byte) (reply.Reply, error) {
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = string(word)
	}
	return c.Store.Do(texts...), nil
}

// Use does what clients and services do with the key "f", and checks the store, before and after it was opened once more. It
// does nothing if the key is missing: then what was forged was refused.
func (s *Store) Use() {
	s.t.Helper()
	if s.Do("EXISTS", "f").Int() == 0 {
		s.check("refused")
		return
	}
	s.check("taken")
	s.use()
	s.Close()
	s.open()
	s.check("opened once more")
	s.use()
	s.check("used once more")
}

func (s *Store) use() {
	s.t.Helper()
	s.Do("SIEVE.STATS", "f")
	s.Do("MEMORY", "USAGE", "f")
	s.Do("COPY", "f", "copy", "REPLACE")
	switch typ := string(s.Do("TYPE", "f").Bytes()); typ {
	case "MBbloom--":
		s.bloom()
	case "MBbloomCF":
		s.cuckoo()
	case "CBloom---":
		s.counting()
	default:
		s.str()
	}
	s.services()
}

// services does what services do.
func (s *Store) services() {
	s.t.Helper()
	s.DB.QueueCompact([]byte("f"))
	if err := s.DB.Compact(context.Background()); err != nil && !s.refused(err) {
		s.t.Errorf("Compact: %v", err)
	}
}

// items returns the words of a command with items that no case has had before, and some that it has.
func items(from, n int, words ...string) []string {
	for i := range n {
		words = append(words, fmt.Sprint("item ", from+i))
	}
	return words
}

func (s *Store) bloom() {
	s.t.Helper()
	for _, info := range []string{"BF.INFO", "BF.DEBUG", "BF.CARD"} {
		s.Do(info, "f")
	}
	for round := range 6 {
		s.Do(items(200*round, 300, "BF.MADD", "f")...)
		s.services()
	}
	s.Do("BF.ADD", "f", "one more")
	s.Do(items(0, 300, "BF.MEXISTS", "f")...)
	s.Do("BF.MERGE", "united", "f")
	s.Do("BF.MERGE", "copy", "f", "united")
	s.Do("BF.MERGE", "f", "copy")
	s.Do("BF.SCANDUMP", "f", "0")
	s.Do("BF.SCANDUMP", "f", "1")
	s.Do("BF.ADD", "united", "one more")
}

func (s *Store) cuckoo() {
	s.t.Helper()
	s.Do("CF.INFO", "f")
	s.Do("CF.DEBUG", "f")
	for round := range 4 {
		s.Do(append([]string{"CF.INSERT", "f"}, items(200*round, 300, "ITEMS")...)...)
	}
	s.Do(items(0, 300, "CF.MEXISTS", "f")...)
	for i := range 40 {
		s.Do(items(i, 1, "CF.DEL", "f")...)
		s.Do(items(i, 1, "CF.COUNT", "f")...)
	}
	s.Do("CF.COMPACT", "f")
	s.Do("CF.SCANDUMP", "f", "0")
	s.Do("CF.SCANDUMP", "f", "1")
}

func (s *Store) counting() {
	s.t.Helper()
	s.Do("CBF.INFO", "f")
	for round := range 4 {
		s.Do(items(200*round, 300, "CBF.MADD", "f")...)
	}
	s.Do(items(0, 300, "CBF.MEXISTS", "f")...)
	for i := range 40 {
		s.Do(items(i, 1, "CBF.DEL", "f")...)
		s.Do(items(i, 1, "CBF.COUNT", "f")...)
	}
	s.Do("CBF.MERGE", "united", "f")
	s.Do("CBF.MERGE", "f", "united", "copy")
}

func (s *Store) str() {
	s.t.Helper()
	n := s.Do("STRLEN", "f").Int()
	s.Do("GETRANGE", "f", "-10", "-1")
	s.Do("SETBIT", "f", "77777", "1")
	s.Do("GETBIT", "f", fmt.Sprint(max(0, 8*n-1)))
	s.Do("APPEND", "f", "more")
	s.Do("BITPOS", "f", "1", "-100")
}

func (s *Store) check(when string) {
	s.t.Helper()
	report, err := s.DB.Check(context.Background())
	if err != nil || len(report.Problems) > 0 && !s.damaged {
		s.t.Errorf("check of what was %s: %v, %v", when, report.Problems, err)
	}
}
