package kv_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// keyStore is a store in memory with a clock that tests move.
type keyStore struct {
	*kv.DB
	passed *atomic.Int64 // milliseconds
}

func openKeys(t testing.TB, fs vfs.FS, o kv.Options) keyStore {
	t.Helper()
	passed := &atomic.Int64{}
	if fs == nil {
		fs = vfs.NewMem()
	}
	o.FS, o.BallastSize = fs, -1
	if o.Clock == nil {
		o.Clock = func() time.Time { return time.UnixMilli(1_700_000_000_000 + passed.Load()) }
	}
	o.Modules = coreext.With(bloomext.Module())
	db, err := kv.Open("store", eitherWay(&o))
	if err != nil {
		t.Fatal(err)
	}
	return keyStore{db, passed}
}

func (s keyStore) set(t testing.TB, key, value string, o kv.SetOptions) {
	t.Helper()
	if _, err := s.Set(kv.NoSync, []byte(key), []byte(value), o); err != nil {
		t.Fatal(err)
	}
}

func (s keyStore) check(t testing.TB) {
	t.Helper()
	report, err := s.Check(context.Background())
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("Check = %v, %v", report.Problems, err)
	}
}

func (s keyStore) sweepAll(t testing.TB) {
	t.Helper()
	sweepAll(t, s.DB)
}

// sweepAll sweeps until all expired keys are removed. One sweep leaves those whose locks somebody has, such as
// the cache while it closes an object.
func sweepAll(t testing.TB, db *kv.DB) {
	t.Helper()
	db.AwaitCache() // it takes the locks of objects that it closes, and a sweep leaves what is locked
	db.ReleaseEnded()
	for more := true; more; {
		var err error
		if more, err = db.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func (s keyStore) close(t testing.TB) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func newFilter(t testing.TB, db *kv.DB, key string) *bloomext.Filter {
	t.Helper()
	f := bloomext.New(db, key)
	if err := f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 1e-6}); err != nil {
		t.Fatal(err)
	}
	return f
}

// A key is there up to the millisecond before its time, and missing from then on; a
// sweep leaves nothing of it, nor of a filter.
func TestExpiry(t *testing.T) {
	s := openKeys(t, nil, kv.Options{})
	defer s.close(t)
	const keys = 1000
	at := s.Now() + 5000
	for i := range keys {
		s.set(t, fmt.Sprint("k", i), "v", kv.SetOptions{Expiry: at})
	}
	s.set(t, "stays", "v", kv.SetOptions{})
	items := newFilter(t, s.DB, "items")
	if _, err := items.Add([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if ok, err := s.Expire(kv.NoSync, []byte("items"), at, kv.ExpireAlways); !ok || err != nil {
		t.Fatalf("Expire = %v, %v", ok, err)
	}
	s.passed.Store(4999)
	s.sweepAll(t)
	if v, err := s.Get([]byte("k0")); string(v) != "v" || err != nil {
		t.Fatalf("a millisecond before: Get = %q, %v", v, err)
	}
	if ok, err := items.MayContain([]byte("x")); !ok || err != nil {
		t.Fatalf("a millisecond before: the item is there: %v, %v", ok, err)
	}
	s.passed.Store(5000)
	if _, err := s.Get([]byte("k0")); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("in time: Get = %v, want ErrNotFound", err)
	}
	if _, err := items.MayContain([]byte("x")); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("in time: MayContain of a handle that found the filter before = %v, want ErrNotFound", err)
	}
	if n, err := s.Exists([]byte("k1"), []byte("items")); n != 0 || err != nil {
		t.Errorf("in time: %d of two keys exist, %v", n, err)
	}
	if n, _ := s.Size(); n != keys+2 {
		t.Errorf("before a sweep there are %d keys, want %d", n, keys+2)
	}
	s.check(t)
	s.sweepAll(t)
	if n, _ := s.Size(); n != 1 || s.ExpiredKeys() != keys+1 {
		t.Errorf("after a sweep there are %d keys, and %d were removed, want 1 and %d", n, s.ExpiredKeys(), keys+1)
	}
	s.check(t) // it finds blocks that belong to nothing
}

// A time to live survives what moves or changes the key, or goes, as in Redis.
func TestExpiry_kept(t *testing.T) {
	fs := vfs.NewMem()
	s := openKeys(t, fs, kv.Options{})
	at := s.Now() + 100_000
	expiry := func(key string, want int64) {
		t.Helper()
		if got, err := s.ExpiryOf([]byte(key)); got != want || err != nil {
			t.Errorf("%s expires at %d, %v, want %d", key, got, err, want)
		}
	}
	items := newFilter(t, s.DB, "items")
	s.set(t, "string", "1", kv.SetOptions{Expiry: at})
	if _, err := s.Expire(kv.NoSync, []byte("items"), at, kv.ExpireAlways); err != nil {
		t.Fatal(err)
	}
	if _, err := items.Add([]byte("before")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Incr(kv.NoSync, []byte("string"), 1); err != nil {
		t.Fatal(err)
	}
	s.close(t)
	s = openKeys(t, fs, kv.Options{})
	defer s.close(t)
	for _, key := range []string{"items", "string"} {
		expiry(key, at)
		if done, err := s.Copy(t.Context(), kv.NoSync, []byte(key), []byte(key+"2"), false); !done || err != nil {
			t.Fatalf("Copy = %v, %v", done, err)
		}
		expiry(key+"2", at)
		if err := s.Rename(kv.NoSync, []byte(key), []byte(key+"3")); err != nil {
			t.Fatal(err)
		}
		expiry(key+"3", at)
		if done, err := s.Persist(kv.NoSync, []byte(key+"3")); !done || err != nil {
			t.Errorf("Persist = %v, %v", done, err)
		}
		expiry(key+"3", 0)
	}
	s.check(t)
	s.passed.Store(100_000)
	s.sweepAll(t)
	if n, _ := s.Size(); n != 2 {
		t.Errorf("%d keys are left, want 2", n)
	}
	if ok, err := bloomext.New(s.DB, "items3").MayContain([]byte("before")); !ok || err != nil {
		t.Errorf("the persistent copy has the item: %v, %v", ok, err)
	}
	s.check(t)
}

// A sweep finds keys whose time was set while it ran, or is before the times of keys it has seen.
func TestSweep_earlierTimes(t *testing.T) {
	s := openKeys(t, nil, kv.Options{})
	defer s.close(t)
	now := s.Now()
	s.set(t, "late", "v", kv.SetOptions{Expiry: now + 1000})
	s.sweepAll(t)
	s.set(t, "early", "v", kv.SetOptions{Expiry: now + 10})
	s.passed.Store(10)
	s.sweepAll(t)
	if n := s.ExpiredKeys(); n != 1 {
		t.Fatalf("%d keys were removed, want 1", n)
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !done.Load() {
			if _, err := s.Sweep(t.Context()); err != nil {
				t.Error(err)
				return
			}
		}
	})
	const keys = 5000
	for i := range keys {
		s.set(t, fmt.Sprint("k", i), "v", kv.SetOptions{Expiry: s.Now() + 1 + int64(i%7)})
		s.passed.Add(1)
	}
	done.Store(true)
	wg.Wait()
	s.passed.Add(10_000)
	s.sweepAll(t)
	if n, _ := s.Size(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
	s.check(t)
}

// A scan returns each key that is there all the time exactly once, whatever else
// comes and goes, and goes on in another session of the store.
func TestScan(t *testing.T) {
	fs := vfs.NewMem()
	s := openKeys(t, fs, kv.Options{})
	const keys = 3000
	for i := range keys {
		s.set(t, fmt.Sprint("k", i), "v", kv.SetOptions{})
		s.set(t, fmt.Sprint("goes", i), "v", kv.SetOptions{})
	}
	seen := make(map[string]int)
	cursor, calls := uint64(0), 0
	for {
		got, next, err := s.ScanFrom(t.Context(), cursor, 100, kv.ScanOptions{Match: "k*"})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range got {
			seen[key]++
		}
		if cursor = next; cursor == 0 {
			break
		}
		calls++
		s.set(t, fmt.Sprint("comes", calls), "v", kv.SetOptions{})
		if _, err := s.Delete(kv.NoSync, fmt.Append(nil, "goes", calls)); err != nil {
			t.Fatal(err)
		}
		if calls == 20 {
			s.close(t)
			s = openKeys(t, fs, kv.Options{})
		}
	}
	defer s.close(t)
	if len(seen) != keys || calls < 2*keys/100-1 {
		t.Errorf("%d keys in %d calls, want %d", len(seen), calls, keys)
	}
	for key, n := range seen {
		if n != 1 || !strings.HasPrefix(key, "k") {
			t.Errorf("%s was returned %d times", key, n)
		}
	}
	var all []string
	for key, err := range s.Scan(t.Context(), kv.ScanOptions{Match: "comes[1-3]"}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, key)
	}
	slices.Sort(all)
	if want := []string{"comes1", "comes2", "comes3"}; !slices.Equal(all, want) {
		t.Errorf("Scan = %v, want %v", all, want)
	}
	for range 100 {
		if key, ok, err := s.RandomKey(t.Context()); !ok || err != nil || !strings.ContainsAny(key[:1], "kgc") {
			t.Fatalf("RandomKey = %q, %v, %v", key, ok, err)
		}
	}
}

func TestScan_byType(t *testing.T) {
	s := openKeys(t, nil, kv.Options{})
	defer s.close(t)
	s.set(t, "s", "v", kv.SetOptions{})
	s.set(t, "gone", "v", kv.SetOptions{Expiry: s.Now() + 1})
	newFilter(t, s.DB, "i")
	s.passed.Store(1)
	for typ, want := range map[string]string{"": "i s", "STRING": "s", "MBbloom--": "i", "none": ""} {
		var keys []string
		for key, err := range s.Scan(t.Context(), kv.ScanOptions{Type: typ}) {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, key)
		}
		slices.Sort(keys)
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("type %q: keys %q, want %q", typ, got, want)
		}
	}
}

// Keys of any length go, a commit holding what it can.
func TestSweep_longKeys(t *testing.T) {
	s := openKeys(t, nil, kv.Options{MemTableSize: 1 << 20})
	defer s.close(t)
	const keys = 40
	for i := range keys {
		s.set(t, fmt.Sprint(i, strings.Repeat("k", 60_000)), "v", kv.SetOptions{Expiry: s.Now() + 1})
	}
	s.passed.Store(1)
	s.sweepAll(t)
	if n, _ := s.Size(); n != 0 || s.ExpiredKeys() != keys {
		t.Errorf("%d keys are left, %d were removed, want none and %d", n, s.ExpiredKeys(), keys)
	}
	s.check(t)
}

// A sweep waits for no writer, and comes back for the keys of one.
func TestSweep_lockedKey(t *testing.T) {
	s := openKeys(t, nil, kv.Options{})
	defer s.close(t)
	for i := range 100 {
		s.set(t, fmt.Sprint("k", i), "v", kv.SetOptions{Expiry: s.Now() + 1})
	}
	s.passed.Store(1)
	w, err := s.Begin(kv.NoSync, []byte("k7"))
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n, _ := s.Size(); n == 0 || n > 10 {
		t.Errorf("%d keys are left while one is locked, want it and few others", n)
	}
	w.Discard()
	s.sweepAll(t)
	if n, _ := s.Size(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
	s.check(t)
}

// A lookup of several strings sees all as of one moment.
func TestMGet_oneMoment(t *testing.T) {
	s := openKeys(t, nil, kv.Options{})
	defer s.close(t)
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !done.Load() {
			for _, key := range []string{"a", "b"} {
				if _, err := s.Incr(kv.NoSync, []byte(key), 1); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	for range 5000 {
		values, err := s.MGet([]byte("b"), []byte("a")) // b is never ahead
		if err != nil {
			t.Fatal(err)
		}
		a, _ := text.ParseInt(values[1])
		b, _ := text.ParseInt(values[0])
		if a < b || a > b+1 {
			t.Fatalf("a is %d and b is %d at one moment", a, b)
		}
	}
	done.Store(true)
	wg.Wait()
}

// What expires while a transaction lasts is there for it until it ends, or missing.
func TestAlone_oneTime(t *testing.T) {
	s := openKeys(t, nil, kv.Options{})
	defer s.close(t)
	at := s.Now() + 1
	keys := []string{"a", "b", "c"}
	for _, key := range keys {
		s.set(t, key, "v", kv.SetOptions{Expiry: at})
	}
	tx, err := s.BeginExclusive(t.Context(), kv.NoSync)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	there := func(key string, when string) {
		t.Helper()
		if err := tx.Read(func(r kv.Reader) error {
			v, err := r.Get([]byte(key))
			if v == nil {
				t.Errorf("%s %s is missing", when, key)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	there("a", "before the time")
	s.passed.Store(1)
	there("a", "after a was there")
	there("b", "after a was there, which expires together with it,")
	if err := tx.Read(func(r kv.Reader) error {
		listed, _, err := r.ScanFrom(t.Context(), 0, 10, kv.ScanOptions{})
		if len(listed) != len(keys) {
			t.Errorf("the keys are %q, want %d", listed, len(keys))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Write(func(w *kv.Writer) error {
		for _, key := range keys[:2] {
			if done, err := w.Delete([]byte(key)); !done || err != nil {
				t.Errorf("Delete(%s) = %v, %v after it was there", key, done, err)
			}
		}
		if o, err := w.Object([]byte("c")); o == nil || err != nil {
			t.Errorf("c is %v, %v after a was there", o, err)
		}
		if done, err := w.Expire([]byte("c"), at, kv.ExpireAlways); !done || err != nil {
			t.Errorf("Expire = %v, %v", done, err)
		}
		v, err := w.Get([]byte("c"))
		if v == nil {
			t.Error("c is missing before the time that it expires at")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if v, err := s.Get([]byte(key)); !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("%s is %q, %v after the time", key, v, err)
		}
	}

	s.set(t, "d", "v", kv.SetOptions{Expiry: at + 1})
	s.passed.Store(2)
	if done, err := s.Set(kv.NoSync, []byte("d"), []byte("v"), kv.SetOptions{If: kv.SetIfExists}); done || err != nil {
		t.Errorf("Set of a key after it expired = %v, %v, want what is there to be missing", done, err)
	}
	s.sweepAll(t)
	s.check(t)
}

// KEYS finds a key that moves exactly once.
func TestKeys_oneMoment(t *testing.T) {
	s := openKeys(t, nil, kv.Options{})
	defer s.close(t)
	for i := range 3000 {
		s.set(t, fmt.Sprint("k", i), "v", kv.SetOptions{})
	}
	s.set(t, "moving0", "v", kv.SetOptions{})
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; !done.Load(); i++ {
			if err := s.Rename(kv.NoSync, fmt.Append(nil, "moving", i), fmt.Append(nil, "moving", i+1)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	session := module.NewSession(s.DB)
	for range 30 {
		if r := session.Do(t.Context(), [][]byte{[]byte("KEYS"), []byte("moving*")}); len(r.Elems()) != 1 {
			t.Errorf("KEYS = %v, want one key", r)
		}
	}
	done.Store(true)
	wg.Wait()
}

// What the open log takes is counted as disk space.
func TestDiskBytes_ofOpenLog(t *testing.T) {
	s := openKeys(t, nil, kv.Options{})
	defer s.close(t)
	before, err := s.DiskBytes()
	if err != nil {
		t.Fatal(err)
	}
	const bytes = 1 << 20
	s.set(t, "k", strings.Repeat("v", bytes), kv.SetOptions{})
	if after, err := s.DiskBytes(); err != nil || after < before+bytes {
		t.Errorf("DiskBytes = %d, %v after writing %d bytes, was %d", after, err, bytes, before)
	}
}

// A copy has what the original had, and goes its own way.
func TestCopy(t *testing.T) {
	s := openKeys(t, nil, kv.Options{})
	defer s.close(t)
	a := newFilter(t, s.DB, "a")
	for i := range 5000 {
		if _, err := a.Add([]byte(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	s.set(t, "b", "replaced", kv.SetOptions{})
	if done, err := s.Copy(t.Context(), kv.NoSync, []byte("a"), []byte("b"), false); done || err != nil {
		t.Errorf("Copy over a key = %v, %v, want false", done, err)
	}
	if done, err := s.Copy(t.Context(), kv.NoSync, []byte("a"), []byte("b"), true); !done || err != nil {
		t.Fatalf("Copy = %v, %v", done, err)
	}
	b := bloomext.New(s.DB, "b")
	if _, err := a.Add([]byte("only in a")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Add([]byte("only in b")); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*bloomext.Filter{a, b} {
		for i := range 5000 {
			if ok, err := f.MayContain([]byte(fmt.Sprint(i))); !ok || err != nil {
				t.Fatalf("item %d: %v, %v", i, ok, err)
			}
		}
	}
	if _, err := s.Delete(kv.NoSync, []byte("a")); err != nil {
		t.Fatal(err)
	}
	if ok, err := b.MayContain([]byte("4999")); !ok || err != nil {
		t.Errorf("the copy after the original was deleted: %v, %v", ok, err)
	}
	s.check(t)
}

// Keys and values at their limits, and above.
func TestStrings_limits(t *testing.T) {
	s := openKeys(t, nil, kv.Options{MemTableSize: 256 << 10})
	defer s.close(t)
	most := s.MaxValueLen()
	long := strings.Repeat("k", 1000)
	s.set(t, long, strings.Repeat("v", most), kv.SetOptions{})
	if v, err := s.Get([]byte(long)); len(v) != most || err != nil {
		t.Errorf("Get = %d bytes, %v, want %d", len(v), err, most)
	}
	for name, err := range map[string]error{
		"a longer value": func() error {
			_, err := s.Set(kv.NoSync, []byte("k"), make([]byte, most+1), kv.SetOptions{})
			return err
		}(),
		"a longer key": func() error {
			_, err := s.Set(kv.NoSync, make([]byte, kv.MaxKeyLen+1), nil, kv.SetOptions{})
			return err
		}(),
		"a longer key read": func() error { _, err := s.Get(make([]byte, kv.MaxKeyLen+1)); return err }(),
	} {
		if !errors.Is(err, kv.ErrTooLarge) {
			t.Errorf("%s: %v, want ErrTooLarge", name, err)
		}
	}
	s.check(t)
}

// Commits to strings from many goroutines keep the number of keys right.
func TestStrings_concurrent(t *testing.T) {
	s := openKeys(t, nil, kv.Options{})
	defer s.close(t)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				key := fmt.Append(nil, "k", (i*7+g)%500)
				var err error
				switch i % 4 {
				case 0, 1:
					_, err = s.Set(kv.NoSync, key, []byte("v"), kv.SetOptions{Expiry: s.Now() + int64(i%3)})
				case 2:
					_, err = s.Delete(kv.NoSync, key)
				default:
					_, err = s.Incr(kv.NoSync, fmt.Append(nil, "n", g), 1)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for g := range 8 {
		if v, err := s.Get(fmt.Append(nil, "n", g)); string(v) != "500" || err != nil {
			t.Errorf("n%d = %q, %v, want 500", g, v, err)
		}
	}
	s.check(t)
	if err := s.DeleteAll(kv.NoSync); err != nil {
		t.Fatal(err)
	}
	if n, _ := s.Size(); n != 0 {
		t.Errorf("%d keys after DeleteAll", n)
	}
	s.check(t)
}

// Size counts all keys of a commit, or none.
func TestSize_oneMoment(t *testing.T) {
	s := openStore(t, inMemory())
	applied := s.next("commit: applied")
	commit := s.begin(func() error {
		keys := [][]byte{[]byte("a"), []byte("b"), []byte("c")}
		return s.DB.Write(kv.NoSync, keys, func(w *kv.Writer) error {
			for _, key := range keys {
				if _, err := w.Set(key, nil, kv.SetOptions{}); err != nil {
					return err
				}
			}
			return nil
		})
	})
	commit.reaches(applied)
	var sizes [2]uint64
	sizing := []*task{
		s.begin(func() (err error) { sizes[0], err = s.Size(); return err }),
		s.begin(func() error {
			return s.Read(func(r kv.Reader) (err error) { sizes[1], err = r.Size(); return err })
		}),
	}
	applied.release()
	commit.wait()
	for i, size := range sizing {
		if size.wait(); sizes[i] != 3 {
			t.Errorf("%d keys, want 3", sizes[i])
		}
	}
}

// A snapshot has the numbers of keys that it began with.
func TestSize_snapshot(t *testing.T) {
	s := openStore(t, inMemory())
	set := func(key string) {
		_, err := s.Set(kv.NoSync, []byte(key), nil, kv.SetOptions{})
		s.must(err)
	}
	set("a")
	s.must(s.ReadWith(kv.ReadOptions{Long: true}, func(r kv.Reader) error {
		set("b")
		if n, err := r.Size(); n != 1 || err != nil {
			t.Errorf("%d keys, %v, want 1", n, err)
		}
		return nil
	}))
}
