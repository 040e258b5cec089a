package compaction_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// While other keys are written, keys exist until their time and not after it, and the service removes them.
func TestService_expires(t *testing.T) {
	db := open(t, t.TempDir())
	const keys = 2000
	var done atomic.Bool
	var wg sync.WaitGroup
	for g := range 2 {
		wg.Go(func() {
			for i := 0; !done.Load(); i++ {
				if _, err := db.Set(kv.NoSync, fmt.Appendf(nil, "load%d:%d", g, i%1000), []byte("v"), kv.SetOptions{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	early, late := 0, int64(0)
	for i := range keys {
		key := fmt.Appendf(nil, "k%d", i)
		at := db.Now() + 1 + int64(i%50)
		if _, err := db.Set(kv.NoSync, key, []byte("v"), kv.SetOptions{Expiry: at}); err != nil {
			t.Fatal(err)
		}
		for {
			before := db.Now()
			n, err := db.Exists(key)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				if db.Now() < at {
					early++
				}
				break
			}
			if before >= at {
				late = max(late, before-at+1)
			}
			if i%50 != 0 {
				break // not every key is waited for
			}
			time.Sleep(time.Millisecond / 4)
		}
	}
	if early > 0 || late > 0 {
		t.Errorf("%d keys were missing before their time, and one there %d ms after it", early, late)
	}
	done.Store(true)
	wg.Wait()
	await(func() bool { // a key whose time had passed when it was set was never there
		n, err := db.Size()
		if err != nil {
			t.Fatal(err)
		}
		return n <= 2*1000
	})
	report, err := db.Check(t.Context())
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("Check = %v, %v", report.Problems, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// How long other commands take while a million keys that expired at once are removed, and, before that, while another
// goroutine deletes keys for half of the time.
func BenchmarkSweep(b *testing.B) {
	const keys = 1_000_000
	for range b.N {
		var passed atomic.Int64
		start := time.Now()
		db, err := kv.Open(b.TempDir(), &kv.Options{
			BallastSize: -1, Durability: kv.NoSync, Modules: coreext.With(bloomext.Module(), compaction.Module()),
			Clock: func() time.Time { return start.Add(time.Duration(passed.Load())) },
		})
		if err != nil {
			b.Fatal(err)
		}
		at := db.Now() + 1000
		for i := range keys {
			if _, err := db.Set(kv.NoSync, fmt.Appendf(nil, "session:%d", i), []byte("value"), kv.SetOptions{Expiry: at}); err != nil {
				b.Fatal(err)
			}
		}
		for i := range keys {
			if _, err := db.Set(kv.NoSync, fmt.Appendf(nil, "doomed:%d", i), []byte("value"), kv.SetOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		seen := bloomext.New(db, "seen")
		if err := seen.Reserve(bloomext.Config{Capacity: 1e6, ErrorRate: 0.01}); err != nil {
			b.Fatal(err)
		}
		n := 0
		// others runs other commands until done, and returns the longest time of one, and how many took more than 10
		// ms.
		others := func(done func() bool) (longest time.Duration, over int) {
			for ; !done(); n++ {
				var err error
				t := time.Now()
				switch n % 4 {
				case 0:
					_, err = db.Set(kv.NoSync, fmt.Appendf(nil, "other:%d", n), []byte("v"), kv.SetOptions{})
				case 1:
					_, err = db.Exists(fmt.Appendf(nil, "session:%d", n))
				case 2:
					_, err = seen.Add(scalableext.Uint64(uint64(n)))
				case 3:
					_, err = seen.MayContain(scalableext.Uint64(uint64(n)))
				}
				took := time.Since(t)
				if err != nil {
					b.Fatal(err)
				}
				longest = max(longest, took)
				if took > 10*time.Millisecond {
					over++
				}
				time.Sleep(50 * time.Microsecond) // a core is left to the service
			}
			return longest, over
		}
		var stop atomic.Bool
		var deleter sync.WaitGroup
		deleter.Go(func() {
			for i := 0; !stop.Load(); i++ {
				if _, err := db.Delete(kv.NoSync, fmt.Appendf(nil, "doomed:%d", i)); err != nil {
					b.Error(err)
					return
				}
				if i%2000 == 0 {
					time.Sleep(50 * time.Millisecond)
				}
			}
		})
		before, overBefore := others(func() bool { return n == 100_000 })
		stop.Store(true)
		deleter.Wait()
		passed.Store(int64(time.Second))
		begin := time.Now()
		longest, over := others(func() bool { return db.ExpiredKeys() == keys })
		b.ReportMetric(float64(before.Microseconds())/1000, "longest-ms-before")
		b.ReportMetric(float64(overBefore), "over-10ms-before")
		b.ReportMetric(keys/time.Since(begin).Seconds(), "keys/s")
		b.ReportMetric(float64(longest.Microseconds())/1000, "longest-ms")
		b.ReportMetric(float64(over), "over-10ms")
		b.ReportMetric(float64(n), "other-commands")
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
