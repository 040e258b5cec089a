package kv_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv"
)

// openStrings opens a store whose cache keeps every string.
func openStrings(t *testing.T) *store {
	t.Helper()
	o := inMemory()
	o.StringCacheSize = 1 << 20
	return openStore(t, o)
}

func (s *store) put(key, value string) {
	s.t.Helper()
	_, err := s.Set(kv.NoSync, []byte(key), []byte(value), kv.SetOptions{})
	s.must(err)
}

// wantValue wants a string under a key, "" for a missing key.
func (s *store) wantValue(key, want string) {
	s.t.Helper()
	got, err := s.Get([]byte(key))
	if errors.Is(err, kv.ErrNotFound) {
		got, err = nil, nil
	}
	if err != nil || string(got) != want {
		s.t.Errorf("%s: %q, %v, want %q", key, got, err, want)
	}
}

// hits returns how many of the lookups that f makes ask the cache alone.
func (s *store) hits(f func()) uint64 {
	s.t.Helper()
	before, err := s.Metrics()
	s.must(err)
	f()
	after, err := s.Metrics()
	s.must(err)
	return after.Strings.Hits - before.Strings.Hits
}

func TestStrings_cached(t *testing.T) {
	s := openStrings(t)
	s.put("k", "one")
	if n := s.hits(func() {
		for range 10 {
			s.wantValue("k", "one")
			s.wantValue("missing", "")
		}
	}); n != 20 {
		t.Errorf("%d of 20 lookups asked the cache alone", n)
	}
	s.put("k", "two")
	s.wantValue("k", "two")
	s.must(s.Rename(kv.NoSync, []byte("k"), []byte("l")))
	s.wantValue("k", "")
	s.wantValue("l", "two")
	_, err := s.Copy(context.Background(), kv.NoSync, []byte("l"), []byte("m"), false)
	s.must(err)
	s.wantValue("m", "two")
	s.create("l") // a filter takes the place
	if _, err := s.Get([]byte("l")); !errors.Is(err, kv.ErrWrongType) {
		t.Error(err)
	}
	s.put("l", "three")
	s.wantValue("l", "three")
	s.must(s.DeleteAll(kv.NoSync))
	for _, key := range []string{"k", "l", "m"} {
		s.wantValue(key, "")
	}
	s.put("k", "four")
	s.wantValue("k", "four")
	_, err = s.DB.Delete(kv.NoSync, []byte("k"))
	s.must(err)
	s.wantValue("k", "")
	s.wantConsistent()
}

// A large string is cached neither whole nor in part, and an empty one is not taken for it.
func TestStrings_large(t *testing.T) {
	s := openStrings(t)
	large := string(make([]byte, 100_000))
	s.put("large", large)
	s.put("empty", "")
	for range 2 {
		s.forgetStrings("large", "empty")
		if n, err := s.Exists([]byte("large"), []byte("empty")); n != 2 || err != nil {
			t.Error(n, err)
		}
		if _, err := s.Lookup([]byte("large")); err != nil {
			t.Error(err)
		}
		s.wantValue("large", large)
		s.wantValue("empty", "")
		s.wantValue("missing", "")
	}
}

func TestStrings_expire(t *testing.T) {
	now := atomic.Int64{}
	now.Store(1000)
	o := inMemory()
	o.Clock = func() time.Time { return time.UnixMilli(now.Load()) }
	s := openStore(t, o)
	_, err := s.Set(kv.NoSync, []byte("k"), []byte("v"), kv.SetOptions{Expiry: 2000})
	s.must(err)
	s.wantValue("k", "v")
	now.Store(2000)
	s.wantValue("k", "")
	if done, err := s.Set(kv.NoSync, []byte("k"), []byte("w"), kv.SetOptions{If: kv.SetIfExists}); done || err != nil {
		t.Error(done, err)
	}
	for more := true; more; {
		var err error
		more, err = s.Sweep(context.Background())
		s.must(err)
	}
	s.wantValue("k", "")
	if done, err := s.Set(kv.NoSync, []byte("k"), []byte("w"), kv.SetOptions{If: kv.SetIfMissing, Expiry: 3000}); !done || err != nil {
		t.Error(done, err)
	}
	if done, err := s.Persist(kv.NoSync, []byte("k")); !done || err != nil {
		t.Error(done, err)
	}
	now.Store(4000)
	s.wantValue("k", "w")
	s.wantConsistent()
}

// wantInMemory wants a string, "" for a missing key, that memory tells or does not tell.
func (s *store) wantInMemory(key, want string, known bool) {
	s.t.Helper()
	if got, ok := s.StringInMemory([]byte(key), []byte("dst ")); ok != known || string(got) != want || got != nil && want == "" {
		s.t.Errorf("%s: %q, %v, want %q, %v", key, got, ok, want, known)
	}
}

func TestStrings_inMemory(t *testing.T) {
	now := atomic.Int64{}
	now.Store(1000)
	o := inMemory()
	o.StringCacheSize = 1 << 20
	o.Clock = func() time.Time { return time.UnixMilli(now.Load()) }
	s := openStore(t, o)
	s.wantInMemory("k", "", true)
	s.put("k", "v")
	s.wantInMemory("k", "dst v", true)
	s.wantInMemory(string(make([]byte, kv.MaxKeyLen+1)), "", false)
	s.put("large", string(make([]byte, 100_000)))
	s.wantInMemory("large", "", false)
	s.create("filter")
	s.wantInMemory("filter", "", false)
	_, err := s.Set(kv.NoSync, []byte("short"), []byte("v"), kv.SetOptions{Expiry: 2000})
	s.must(err)
	s.wantInMemory("short", "dst v", true)
	now.Store(2000)
	s.wantInMemory("short", "", false) // it may have got another expiry since memory was looked at
	s.wantValue("short", "")

	// While a commit of several keys is under way, memory tells nothing, also of other keys.
	s.put("from", "v")
	applied := s.next("commit: applied")
	renaming := s.begin(func() error { return s.Rename(kv.NoSync, []byte("from"), []byte("to")) })
	renaming.reaches(applied)
	for _, key := range []string{"from", "to", "k"} {
		s.wantInMemory(key, "", false)
	}
	applied.release()
	renaming.wait()
	s.wantInMemory("from", "", true)
	s.wantInMemory("to", "dst v", true)

	tx := s.exclusive()
	s.must(tx.Write(func(w *kv.Writer) error {
		_, err := w.Set([]byte("k"), []byte("new"), kv.SetOptions{})
		return err
	}))
	s.wantInMemory("k", "dst v", true)
	s.must(tx.Commit())
	s.wantInMemory("k", "dst new", true)
	s.must(s.Close())
	s.wantInMemory("k", "", false)
}

// A lookup that has read Pebble before a commit does not leave what it read in the cache.
func TestStrings_slowLookup(t *testing.T) {
	for _, change := range []string{"set", "delete", "all"} {
		s := openStrings(t)
		s.create("filter") // so that not all is known of the group, if it is the key's
		s.put("k", "old")
		s.forgetStrings("k")
		read := s.next("find: read")
		looking := s.begin(func() error {
			_, err := s.Lookup([]byte("k"))
			return err
		})
		looking.reaches(read)
		want := ""
		switch change {
		case "set":
			want = "new"
			s.put("k", want)
		case "delete":
			_, err := s.DB.Delete(kv.NoSync, []byte("k"))
			s.must(err)
		case "all":
			s.must(s.DeleteAll(kv.NoSync))
		}
		read.release()
		looking.wait()
		s.wantValue("k", want)
	}
}

// forgetStrings takes strings out of the cache.
func (s *store) forgetStrings(keys ...string) {
	for _, key := range keys {
		s.ForgetString([]byte(key))
	}
}

// From the moment that Pebble has a commit, every lookup finds it, also a single one after one of several keys.
func TestStrings_duringCommit(t *testing.T) {
	s := openStrings(t)
	s.put("k", "old")
	applied := s.next("commit: applied")
	setting := s.begin(func() error {
		_, err := s.Set(kv.NoSync, []byte("k"), []byte("new"), kv.SetOptions{})
		return err
	})
	setting.reaches(applied)
	if values, err := s.MGet([]byte("k"), []byte("l")); err != nil || string(values[0]) != "new" {
		t.Errorf("%q, %v", values, err)
	}
	s.wantValue("k", "new")
	applied.release()
	setting.wait()
	s.wantValue("k", "new")

	started := s.next("commit: started")
	first := s.begin(func() error {
		_, err := s.Set(kv.NoSync, []byte("m"), []byte("v"), kv.SetOptions{})
		return err
	})
	first.reaches(started)
	s.wantValue("m", "")
	started.release()
	first.wait()
	s.wantValue("m", "v")
}

// A transaction reads its own strings, others read committed strings, and a snapshot the strings of its moment.
func TestStrings_transactions(t *testing.T) {
	s := openStrings(t)
	s.put("k", "old")
	s.wantValue("k", "old")
	view, err := s.NewView(t.Context())
	s.must(err)
	tx := s.exclusive()
	s.must(tx.Write(func(w *kv.Writer) error {
		_, err := w.Set([]byte("k"), []byte("new"), kv.SetOptions{})
		return err
	}))
	get := func(tx *kv.Transaction, want string) {
		t.Helper()
		s.must(tx.Read(func(r kv.Reader) error {
			if value, err := r.Get([]byte("k")); err != nil || string(value) != want {
				t.Errorf("%q, %v, want %q", value, err, want)
			}
			return nil
		}))
	}
	get(tx, "new")
	s.wantValue("k", "old")
	s.must(tx.Commit())
	s.wantValue("k", "new")
	get(view, "old")
	s.must(view.Rollback())
}

// After a crash and an opening the cache knows nothing that Pebble does not have.
func TestStrings_reopened(t *testing.T) {
	fs := vfs.NewMem()
	o := func() *kv.Options {
		return &kv.Options{FS: fs, BallastSize: -1, MinFreeSpace: -1, Durability: kv.NoSync, StringCacheSize: 1 << 20}
	}
	s := openStore(t, o())
	for i := range 1000 {
		s.put(strconv.Itoa(i), "v")
	}
	s.must(s.Close())
	s = openStore(t, o())
	for i := range 1000 {
		s.wantValue(strconv.Itoa(i+500), map[bool]string{true: "v"}[i < 500])
	}
	s.wantConsistent()
}

// No lookup of any kind finds a value that is older than one whose commit had returned when the lookup began, or than
// one that the same goroutine has found before. Nor does it miss a key that is never deleted.
func TestStrings_neverStale(t *testing.T) {
	for _, size := range []int64{-1, 4 << 10, 1 << 20} {
		for _, deletes := range []bool{false, true} {
			o := inMemory()
			o.StringCacheSize = size
			x := &staleTest{store: openStore(t, o), deletes: deletes}
			x.run()
			x.wantConsistent()
		}
	}
}

const staleKeys = 8

// staleTest sets keys to numbers that go up.
type staleTest struct {
	*store
	deletes      bool // some commits delete their key, or all
	mu           [staleKeys]sync.Mutex
	numbers      [staleKeys]int64 // guarded by mu
	acknowledged [staleKeys]atomic.Int64
	stop         atomic.Bool
}

func (x *staleTest) run() {
	commits := 3000
	if raceEnabled {
		commits = 300
	}
	var writing, reading sync.WaitGroup
	for range 3 {
		writing.Go(func() {
			for range commits {
				x.write(rand.IntN(staleKeys))
			}
		})
		reading.Go(func() {
			var seen [staleKeys]int64
			for !x.stop.Load() && !x.t.Failed() {
				x.read(rand.IntN(staleKeys), &seen)
			}
		})
	}
	writing.Wait()
	x.stop.Store(true)
	reading.Wait()
}

func staleKey(i int) []byte { return fmt.Append(nil, i, string(make([]byte, 150))) } // a small cache keeps only some

func (x *staleTest) write(i int) {
	x.mu[i].Lock()
	defer x.mu[i].Unlock()
	x.numbers[i]++
	set := func(w *kv.Writer) error {
		_, err := w.Set(staleKey(i), strconv.AppendInt(nil, x.numbers[i], 10), kv.SetOptions{})
		return err
	}
	var err error
	switch action := rand.IntN(20); {
	case action == 0:
		err = x.Update(context.Background(), kv.NoSync, func(tx *kv.Transaction) error {
			return tx.Write(func(w *kv.Writer) error {
				if x.deletes {
					if err := w.DeleteAll(); err != nil {
						return err
					}
				}
				return set(w)
			})
		})
	case action == 1 && x.deletes:
		_, err = x.DB.Delete(kv.NoSync, staleKey(i))
	default:
		err = x.Write(kv.NoSync, [][]byte{staleKey(i)}, set)
	}
	if err != nil {
		x.t.Error(err)
	}
	x.acknowledged[i].Store(x.numbers[i])
}

func (x *staleTest) read(i int, seen *[staleKeys]int64) {
	least := max(seen[i], x.acknowledged[i].Load())
	var got []byte
	var err error
	if rand.IntN(4) == 0 {
		var values [][]byte
		if values, err = x.MGet(staleKey(i), staleKey((i+1)%staleKeys)); err == nil {
			got = values[0]
		}
	} else if got, err = x.Get(staleKey(i)); errors.Is(err, kv.ErrNotFound) {
		got, err = nil, nil
	}
	n := int64(0)
	if err == nil && got != nil {
		n, err = strconv.ParseInt(string(got), 10, 64)
	}
	if err != nil || n < least && (got != nil || !x.deletes) {
		x.t.Errorf("%d: found %q, %v, after %d", i, got, err, least)
	}
	seen[i] = max(seen[i], n)
}
