package residency

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// thing counts how often it was dropped.
type thing struct{ drops atomic.Int64 }

func (t *thing) Drop() { t.drops.Add(1) }

func (t *thing) dropped() bool { return t.drops.Load() > 0 }

func open(t *testing.T, budget int64) *Residency {
	t.Helper()
	r, err := New(budget)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// What was put and not dropped fits into the budget, at every moment after Wait, and most of the budget is used.
func TestResidency_budget(t *testing.T) {
	const budget, size = 1 << 20, 8 << 10
	r := open(t, budget)
	var things [1000]thing
	for i := range things {
		r.Put(Mix(uint64(i)), &things[i], size)
		r.Await()
		if i%100 != 99 {
			continue
		}
		r.Wait()
		kept := int64(0)
		for j := range i + 1 {
			if !things[j].dropped() {
				kept += size + entryOverhead
			}
		}
		if kept > budget || kept < budget*3/4 && i >= 199 || kept != r.Used() {
			t.Fatalf("after %d things, %d bytes are kept and %d counted, of %d", i+1, kept, r.Used(), r.Budget())
		}
	}
	if r.Evicted().Load() == 0 {
		t.Error("no eviction is counted")
	}
}

func TestResidency_tooLarge(t *testing.T) {
	r := open(t, 8<<10)
	var x thing
	r.Put(1, &x, 9<<10)
	r.Wait()
	if !x.dropped() || r.Used() != 0 {
		t.Errorf("dropped: %v; %d bytes are counted", x.dropped(), r.Used())
	}
}

// A thing under a key of another takes its place. Removing the first one then leaves the second.
func TestResidency_sameKey(t *testing.T) {
	r := open(t, 1<<20)
	var first, second thing
	r.Put(1, &first, 100)
	r.Wait()
	r.Put(1, &second, 100)
	r.Wait()
	if !first.dropped() || second.dropped() {
		t.Errorf("the first is dropped: %v, the second: %v", first.dropped(), second.dropped())
	}
	r.Remove(1, &first)
	r.Wait()
	if second.dropped() || r.Used() == 0 {
		t.Errorf("the second is dropped: %v; %d bytes are counted", second.dropped(), r.Used())
	}
	r.Remove(1, &second)
	r.Wait()
	if !second.dropped() || r.Used() != 0 {
		t.Errorf("the second is dropped: %v; %d bytes are counted", second.dropped(), r.Used())
	}
}

// One hash in 1024 is sampled, and each is sampled at some time.
func TestResidency_Sampled(t *testing.T) {
	r := open(t, 1<<20)
	sampled := func() (n int) {
		for h := range uint64(8 * sampleRate) {
			if r.Sampled(h) {
				n++
			}
		}
		return n
	}
	if n := sampled(); n != 8 {
		t.Errorf("%d hashes of %d are sampled", n, 8*sampleRate)
	}
	was := r.Sampled(0)
	for i := 0; r.Sampled(0) == was; i++ {
		if i == 1000*sampleRate {
			t.Fatal("Resample changes nothing")
		}
		r.Resample()
	}
	if n := sampled(); n != 8 {
		t.Errorf("%d hashes of %d are sampled after Resample", n, 8*sampleRate)
	}
}

// No more than maxLoads loads are in flight, and that many can be.
func TestResidency_loads(t *testing.T) {
	r := open(t, 1<<20)
	var inFlight atomic.Int64
	all := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 * maxLoads {
		wg.Go(func() {
			r.BeginLoad()
			defer r.EndLoad()
			defer inFlight.Add(-1)
			switch n := inFlight.Add(1); {
			case n > maxLoads:
				t.Errorf("%d loads are in flight", n)
			case n == maxLoads:
				select {
				case <-all:
				default:
					for range 100 {
						runtime.Gosched() // others have time to come
					}
					close(all)
				}
			}
			<-all
		})
	}
	wg.Wait()
}

func TestTouchCounters(t *testing.T) {
	const kib, mib, gib, tib = 1 << 10, 1 << 20, 1 << 30, 1 << 40
	for budget, want := range map[int64]int64{
		8 * kib: 1024, 256 * mib: 10 * 32 * kib, 100 * gib: 10 * 100 * gib / (8 * kib), tib: 1 << 27, math.MaxInt64: 1 << 27,
	} {
		if got := touchCounters(budget); got != want {
			t.Errorf("%d counters for %d bytes, want %d", got, budget, want)
		}
	}
}

// Until something is put there is no cache, and nothing is counted.
func TestResidency_empty(t *testing.T) {
	r := open(t, 1<<20)
	var x thing
	r.Touch(1)
	r.Await()
	r.Wait()
	r.Remove(1, &x)
	if !x.dropped() || r.Used() != 0 || r.Budget() != 1<<20 || r.cache.Load() != nil {
		t.Errorf("dropped: %v; %d bytes of %d are counted; the cache is %v", x.dropped(), r.Used(), r.Budget(), r.cache.Load())
	}
	r.Put(1, &x, 100)
	r.Wait()
	if r.Used() != 100+entryOverhead {
		t.Errorf("%d bytes are counted", r.Used())
	}
	if _, err := New(0); err == nil {
		t.Error("a budget of 0 bytes is accepted")
	}
}
