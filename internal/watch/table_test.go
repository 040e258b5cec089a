package watch

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Each mark of a key is set, and marks of other keys are not.
func TestTable(t *testing.T) {
	var table Table
	var marks [100]atomic.Bool
	for i := range marks {
		table.Add(fmt.Sprint("key ", i%50), &marks[i])
		table.Add("shared", &marks[i])
	}
	if n := table.Len(); n != 51 || table.Empty() {
		t.Errorf("%d keys have marks, want 51; empty: %t", n, table.Empty())
	}
	table.Set("key 7")
	table.Set("nobody's")
	for i := range marks {
		if got := marks[i].Load(); got != (i%50 == 7) {
			t.Errorf("mark %d is %t", i, got)
		}
	}
	table.Remove("shared", &marks[0])
	table.Set("shared")
	for i := range marks {
		if got := marks[i].Load(); got != (i > 0) {
			t.Errorf("mark %d is %t", i, got)
		}
	}
	for i := range marks {
		table.Remove(fmt.Sprint("key ", i%50), &marks[i])
		if i > 0 {
			table.Remove("shared", &marks[i])
		}
	}
	if n := table.Len(); n != 0 || !table.Empty() {
		t.Errorf("%d keys have marks, want none; empty: %t", n, table.Empty())
	}
}

// Any number of goroutines may use a table.
func TestTable_concurrent(t *testing.T) {
	var table Table
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 1000 {
				key := fmt.Sprint(i % 10)
				var mark atomic.Bool
				table.Add(key, &mark)
				if i%3 == g%3 {
					table.Set(key)
					if !mark.Load() {
						t.Error("a mark is not set")
					}
				}
				table.Remove(key, &mark)
			}
		})
	}
	all.Wait()
	if !table.Empty() || table.Len() != 0 {
		t.Error("marks are left")
	}
}

// The marks of a key are set while the lock of another shard is held.
func TestTable_shards(t *testing.T) {
	var table Table
	own := table.of("key")
	for i := range 100 * numShards {
		if other := table.of(fmt.Sprint(i)); other != own {
			other.mu.Lock()
			defer other.mu.Unlock()
			table.Set("key")
			return
		}
	}
	t.Error("all keys are in one shard")
}

// observer notes what it is told.
type observer struct{ told []string }

func (o *observer) Changed(key string) { o.told = append(o.told, key) }
func (o *observer) Flushed()           { o.told = append(o.told, "all") }

// An observer is told of every change until another takes its place, also of keys that nobody watches; marks are set as
// before, but not of keys that had expired.
func TestTable_Observe(t *testing.T) {
	var table Table
	var mark atomic.Bool
	o := &observer{}
	table.Set("before")
	table.Observe(o)
	if table.Empty() {
		t.Error("a table with an observer is empty")
	}
	table.Add("k", &mark)
	table.Expired("k")
	table.Flushed()
	if mark.Load() {
		t.Error("a key that had expired marks")
	}
	table.Set("k")
	table.Set("other")
	table.Observe(nil)
	table.Set("after")
	table.Flushed()
	if got := strings.Join(o.told, " "); got != "k all k other" || !mark.Load() {
		t.Errorf("told %s, marked %v", got, mark.Load())
	}
}
