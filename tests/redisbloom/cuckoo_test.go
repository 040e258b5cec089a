package redisbloom

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

func mustCuckoo(t *testing.T, capacity uint64, bucketSize, maxIterations, expansion uint16) *Cuckoo {
	t.Helper()
	c, err := NewCuckoo(capacity, bucketSize, maxIterations, expansion)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *Cuckoo) fill(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		if err := c.Add(item(i)); err != nil {
			t.Fatalf("item %d: %v", i, err)
		}
	}
}

func TestCuckoo_sizes(t *testing.T) {
	for _, tt := range []struct {
		capacity              uint64
		bucketSize, expansion uint16
		debug                 string
		size                  uint64
	}{
		{1024, 2, 1, "bktsize:2 buckets:512 items:0 deletes:0 filters:1 max_iterations:20 expansion:1", 40 + 16 + 1024},
		{1000, 2, 3, "bktsize:2 buckets:512 items:0 deletes:0 filters:1 max_iterations:20 expansion:4", 40 + 16 + 1024},
		{1000, 4, 0, "bktsize:4 buckets:256 items:0 deletes:0 filters:1 max_iterations:20 expansion:0", 40 + 16 + 1024},
		{2, 1, 2, "bktsize:1 buckets:2 items:0 deletes:0 filters:1 max_iterations:20 expansion:2", 40 + 16 + 2},
		{7, 3, 2, "bktsize:3 buckets:2 items:0 deletes:0 filters:1 max_iterations:20 expansion:2", 40 + 16 + 6},
	} {
		c := mustCuckoo(t, tt.capacity, tt.bucketSize, 20, tt.expansion)
		if got := c.Debug(); got != tt.debug || c.Info().Size != tt.size {
			t.Errorf("%q, %d bytes; want %q, %d", got, c.Info().Size, tt.debug, tt.size)
		}
	}
}

func TestCuckoo_alternate(t *testing.T) {
	for range 1000 {
		h := rand.Uint64()
		fingerprint := byte(rand.N(255) + 1)
		if other := alternate(fingerprint, h); other == h || alternate(fingerprint, other) != h {
			t.Fatalf("%#x with %d: %#x, and back %#x", h, fingerprint, other, alternate(fingerprint, other))
		}
	}
}

// itemsWith returns n different items whose fingerprint and first bucket, of 8, are those wanted.
func itemsWith(fingerprint byte, bucket uint64, n int) (items [][]byte) {
	for i := 0; len(items) < n; i++ {
		if f, h := hash(item(i)); f == fingerprint && h%8 == bucket {
			items = append(items, item(i))
		}
	}
	return items
}

// TestCuckoo_order fills the buckets of one fingerprint: first bucket h1, then h2, then a sub-filter is appended. 3 *
// 0x5bd1e995 mod 8 is 7, so the other bucket of bucket 1 is 6.
func TestCuckoo_order(t *testing.T) {
	c := mustCuckoo(t, 16, 2, 20, 1)
	items := itemsWith(3, 1, 5)
	for i, want := range [][]int{{2}, {2, 3}, {2, 3, 12}, {2, 3, 12, 13}, {2, 3, 12, 13, 18}} {
		if err := c.Add(items[i]); err != nil {
			t.Fatal(err)
		}
		var set []int
		for j, slot := range slices.Concat(c.arrays()...) {
			if slot != 0 {
				set = append(set, j)
			}
		}
		if !slices.Equal(set, want) {
			t.Errorf("after %d items, slots %d are in use, want %d", i+1, set, want)
		}
		if got := c.Count(items[0]); got != i+1 {
			t.Errorf("count %d after %d items", got, i+1)
		}
	}
}

// TestCuckoo_delete deletes from the newest sub-filter first, and compacts.
func TestCuckoo_delete(t *testing.T) {
	c := mustCuckoo(t, 16, 2, 20, 1)
	items := itemsWith(3, 1, 6)
	for _, item := range items {
		if err := c.Add(item); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.filters) != 2 {
		t.Fatalf("%d sub-filters", len(c.filters))
	}
	if !c.Delete(items[0]) { // of the newest; 1 deleted is more than a tenth of 5, but the oldest has no room
		t.Error("the item is not found")
	}
	if len(c.filters) != 2 || c.deletes != 0 || c.items != 5 {
		t.Errorf("%s", c.Debug())
	}
	if !c.Delete(items[1]) || len(c.filters) != 1 || c.items != 4 {
		t.Errorf("%s", c.Debug())
	}
	for i := range 4 {
		if !c.Delete(items[i]) {
			t.Errorf("item %d is missing", i)
		}
	}
	if c.Delete(items[5]) || c.items != 0 || c.deletes != 4 {
		t.Errorf("%s", c.Debug())
	}
}

// TestCuckoo_sameBucket counts the slots of an item twice if its buckets are the same. 8 * 0x5bd1e995 mod 8 is 0.
func TestCuckoo_sameBucket(t *testing.T) {
	c := mustCuckoo(t, 16, 2, 20, 1)
	it := itemsWith(8, 1, 1)[0]
	if err := c.Add(it); err != nil || c.Count(it) != 2 {
		t.Errorf("%v, count %d", err, c.Count(it))
	}
}

// TestCuckoo_kick moves a fingerprint: bucket 1 has 3, whose other bucket is 6; 5 * 0x5bd1e995 mod 8 is 1, so that 5
// goes to bucket 1 or 0.
func TestCuckoo_kick(t *testing.T) {
	c := mustCuckoo(t, 16, 2, 20, 1)
	for _, item := range slices.Concat(itemsWith(3, 1, 2), itemsWith(5, 0, 2), itemsWith(5, 1, 1)) {
		if err := c.Add(item); err != nil {
			t.Fatal(err)
		}
	}
	if want := []byte{5, 5, 5, 3, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0}; !slices.Equal(c.filters[0].slots, want) {
		t.Errorf("slots %d, want %d", c.filters[0].slots, want)
	}
}

// TestCuckoo_kickUndone adds a fingerprint that has no room, as all slots it can move to are of the same one.
func TestCuckoo_kickUndone(t *testing.T) {
	c := mustCuckoo(t, 16, 2, 7, 0)
	for i, item := range itemsWith(3, 1, 5) {
		err := c.Add(item)
		if want := map[bool]error{true: ErrCuckooFull}[i == 4]; !errors.Is(err, want) {
			t.Errorf("item %d: %v", i, err)
		}
	}
	if want := []byte{0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0}; !slices.Equal(c.filters[0].slots, want) || c.items != 4 {
		t.Errorf("slots %d, want %d", c.filters[0].slots, want)
	}
}

func TestCuckoo_answers(t *testing.T) {
	for _, expansion := range []uint16{1, 2} {
		c := mustCuckoo(t, 1024, 2, 20, expansion)
		const n = 5000
		c.fill(t, n)
		for i := range n {
			if !c.Exists(item(i)) {
				t.Fatalf("item %d is missing", i)
			}
		}
		found := 0
		for i := range n {
			if c.Exists(absent(i)) {
				found++
			}
		}
		if most := n * 2 * 2 * len(c.filters) / 255; found == 0 || found > most {
			t.Errorf("%d of %d absent items found, want at most %d", found, n, most)
		}
		for i := 0; i < n; i += 2 {
			if !c.Delete(item(i)) {
				t.Fatalf("item %d is missing", i)
			}
		}
		for range 2 {
			for i := 1; i < n; i += 2 {
				if !c.Exists(item(i)) {
					t.Fatalf("item %d is missing", i)
				}
			}
			filters := len(c.filters)
			c.Compact()
			if len(c.filters) > filters || c.items != n/2 || c.deletes != 0 {
				t.Errorf("%s", c.Debug())
			}
		}
	}
}

func TestCuckoo_maxExpansions(t *testing.T) {
	c := mustCuckoo(t, 4, 2, 1, 1)
	c.MaxExpansions = 3
	answers, err := c.Insert(false, slices.Repeat([][]byte{item(0)}, 20)...) // one command may run past the limit
	if err != nil || len(c.filters) <= 3 || slices.Contains(answers, -1) {
		t.Errorf("%v, %v, %d sub-filters", answers, err, len(c.filters))
	}
	if err := c.Add(item(1)); !errors.Is(err, ErrMaxExpansions) {
		t.Error(err)
	}
	if _, err := c.AddNX(item(0)); !errors.Is(err, ErrMaxExpansions) {
		t.Error(err)
	}
	if _, err := c.Insert(true, item(0)); !errors.Is(err, ErrMaxExpansions) {
		t.Error(err)
	}
}

func TestCuckoo_insert(t *testing.T) {
	c := mustCuckoo(t, 16, 2, 7, 0)
	items := itemsWith(3, 1, 5)
	if got, err := c.Insert(true, items[0], items[0], items[1]); err != nil || !slices.Equal(got, []int{1, 0, 0}) {
		t.Errorf("%d, %v", got, err) // items[1] looks like items[0]
	}
	other := itemsWith(4, 3, 1)[0]
	if got, err := c.Insert(false, slices.Concat(items, [][]byte{other})...); err != nil || !slices.Equal(got, []int{1, 1, 1, -1, -1, 1}) {
		t.Errorf("%d, %v", got, err)
	}
	if fresh, err := c.AddNX(other); fresh || err != nil {
		t.Errorf("%v, %v", fresh, err)
	}
}

func TestCuckoo_dump(t *testing.T) {
	for name, c := range map[string]*Cuckoo{
		"1 sub-filter":   mustCuckoo(t, 16384, 2, 20, 1),
		"sub-filters":    mustCuckoo(t, 1024, 2, 20, 1),
		"that grow":      mustCuckoo(t, 64, 3, 500, 2),
		"buckets of 255": mustCuckoo(t, 1024, 255, 20, 1),
	} {
		t.Run(name, func(t *testing.T) {
			c.fill(t, 3000)
			for i := range 100 {
				c.Delete(item(i))
			}
			dump := c.Dump()
			if len(dump) != 1+len(c.filters) {
				t.Errorf("%d chunks of %d sub-filters", len(dump), len(c.filters))
			}
			loaded, err := LoadCuckoo(dump)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(loaded, c) || !reflect.DeepEqual(loaded.Dump(), dump) {
				t.Error("the filter that was loaded differs")
			}
		})
	}
	if dump := mustCuckoo(t, 1024, 2, 20, 1).Dump(); dump != nil {
		t.Errorf("an empty filter has %d chunks", len(dump))
	}
}

// TestCuckoo_longChunks dumps a sub-filter of 32 MiB in pieces, and one of 16 MiB whole, from wherever.
func TestCuckoo_longChunks(t *testing.T) {
	c := mustCuckoo(t, 32<<20, 2, 20, 1)
	c.fill(t, 10)
	dump := c.Dump()
	if len(dump) != 3 || dump[1].Iter != 1+16<<20 || dump[2].Iter != 1+32<<20 {
		t.Errorf("%d chunks", len(dump))
	}
	if loaded, err := LoadCuckoo(dump); err != nil || !reflect.DeepEqual(loaded, c) {
		t.Errorf("loaded: %v", err)
	}
	if got := c.Scan(5); got.Iter != 5+16<<20 {
		t.Errorf("iter %d", got.Iter)
	}
	c = mustCuckoo(t, 16<<20, 2, 20, 1)
	c.fill(t, 1)
	if got := c.Scan(5); got.Iter != 5+16<<20 || len(got.Data) != 16<<20 {
		t.Errorf("iter %d, %d bytes", got.Iter, len(got.Data))
	}
	if got := c.Scan(1 + 16<<20); got.Iter != 0 {
		t.Errorf("iter %d", got.Iter)
	}
}

func TestCuckoo_badHeader(t *testing.T) {
	le := binary.LittleEndian
	c := mustCuckoo(t, 64, 2, 20, 1)
	c.fill(t, 10)
	for _, tt := range []struct {
		name  string
		want  error
		spoil func(h []byte) []byte
	}{
		{"short", ErrHeader, func(h []byte) []byte { return h[:37] }},
		{"long", ErrHeader, func(h []byte) []byte { return append(h, 0) }},
		{"buckets 0", ErrCreate, func(h []byte) []byte { le.PutUint64(h[8:], 0); return h }},
		{"buckets 3", ErrCreate, func(h []byte) []byte { le.PutUint64(h[8:], 3); return h }},
		{"buckets 2^63", ErrCreate, func(h []byte) []byte { le.PutUint64(h[8:], 1<<63); return h }},
		{"no sub-filter", ErrCreate, func(h []byte) []byte { h[24] = 0; return h }},
		{"65536 sub-filters", ErrCreate, func(h []byte) []byte { le.PutUint64(h[24:], 65536); return h }},
		{"bucket size 0", ErrCreate, func(h []byte) []byte { h[32] = 0; return h }},
		{"bucket size 256", ErrCreate, func(h []byte) []byte { le.PutUint16(h[32:], 256); return h }},
		{"no iterations", ErrCreate, func(h []byte) []byte { h[34] = 0; return h }},
		{"expansion 32769", ErrCreate, func(h []byte) []byte { le.PutUint16(h[36:], 32769); return h }},
		{"2 that cannot expand", ErrCreate, func(h []byte) []byte { h[24], h[36] = 2, 0; return h }},
	} {
		if _, err := LoadCuckooHeader(tt.spoil(c.header())); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestCuckoo_badChunk(t *testing.T) {
	c := mustCuckoo(t, 16, 2, 1, 1)
	for range 5 {
		if err := c.Add([]byte("a")); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		iter, length int
		want         error
	}{
		{0, 1, ErrPosition},
		{-1, 1, ErrChunk},
		{1, 0, ErrChunk},
		{1, 1, ErrChunk},
		{8, 8, ErrChunk},
		{9, 8, nil},
		{17, 16, nil},
		{18, 2, ErrChunk}, // of both sub-filters
		{33, 16, nil},
		{34, 1, ErrChunk},
	} {
		if err := c.LoadChunk(Chunk{int64(tt.iter), make([]byte, tt.length)}); !errors.Is(err, tt.want) {
			t.Errorf("iter %d, %d bytes: %v, want %v", tt.iter, tt.length, err, tt.want)
		}
	}
}

// An item is found in place of another one if, and only if, Alike is the same for both.
func TestAlike(t *testing.T) {
	alike := 0
	for i := range 100_000 {
		c := mustCuckoo(t, 8, 2, 20, 1) // of 4 buckets
		a, b := fmt.Append(nil, "a", i), fmt.Append(nil, "b", i)
		if err := c.Add(a); err != nil {
			t.Fatal(err)
		}
		want := Alike(a, 4) == Alike(b, 4)
		if c.Exists(b) != want {
			t.Fatalf("%s is found in place of %s: %t, want %t", b, a, !want, want)
		}
		if want {
			alike++
		}
	}
	if alike < 100 {
		t.Errorf("%d of 100,000 pairs are alike", alike)
	}
}
