package report

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/scalableext"
)

// numbers returns n different items.
func numbers(n uint64) [][]byte {
	items := make([][]byte, n)
	for i := range items {
		items[i] = binary.LittleEndian.AppendUint64(nil, uint64(i))
	}
	return items
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The plan of a cuckoo filter is what the filter is, as it is made and, layer for layer, when it has grown.
func TestPlanCuckoo(t *testing.T) {
	db := inMemory(t)
	for i, c := range []cuckooext.Config{
		{Capacity: 10}, {Capacity: 1000, ErrorRate: 0.01}, {Capacity: 3000, ErrorRate: 1e-3}, {Capacity: 3000, ErrorRate: 1e-4, Expansion: 4},
		{Capacity: 4900}, {Capacity: 10_000, ErrorRate: 1e-3, NonScaling: true},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			p, err := planCuckoo(c, 0)
			must(t, err)
			f := cuckooext.New(db, fmt.Sprint(i))
			must(t, f.Reserve(c))
			made, err := f.Info()
			must(t, err)
			if p.Bytes != made.Bytes || p.Buckets != made.Buckets || p.Room != made.Capacity || p.MaxLayers != made.MaxLayers || p.ErrorRate != made.ErrorRate {
				t.Errorf("planned %+v, made %+v", p, made)
			}
			if c.NonScaling {
				if p.Grown != nil {
					t.Errorf("planned to grow: %+v", p.Grown)
				}
				return
			}
			_, err = f.AddMany(numbers(p.Grown.Items), nil)
			must(t, err)
			grown, err := f.Info()
			must(t, err)
			if p.Grown.Bytes != grown.Bytes || p.Grown.Room != grown.Capacity || math.Abs(p.Grown.ExpectedRate/grown.ExpectedRate-1) > 1e-9 {
				t.Errorf("planned %+v when grown, the filter is %+v", p.Grown, grown)
			}
			if made := cuckooStatsOf(grown).Layers; fmt.Sprint(p.Grown.Layers) != fmt.Sprint(made) {
				t.Errorf("planned layers %+v, the filter has %+v", p.Grown.Layers, made)
			}
		})
	}
}

// The plan of a cuckoo filter with the compatible layout is what the filter is when it is made, and says that it has no other.
func TestPlanCuckoo_compatible(t *testing.T) {
	db := inMemory(t)
	for i, c := range []cuckooext.Config{
		{Capacity: 1000}, {Capacity: 1000, Expansion: 2}, {Capacity: 1024, NonScaling: true}, {Capacity: 100_000, Expansion: 4},
	} {
		c.Layout = scalableext.LayoutCompatible
		p, err := planCuckoo(c, 0)
		must(t, err)
		f := cuckooext.New(db, fmt.Sprint(i))
		must(t, f.Reserve(c))
		made, err := f.Info()
		must(t, err)
		if p.Bytes != made.Bytes || p.Buckets != made.Buckets || p.Room != made.Capacity || p.MaxLayers != made.MaxLayers || p.Expansion != made.Expansion ||
			p.BitsPerItem != 8*float64(made.Bytes)/float64(c.Capacity) {
			t.Errorf("planned %+v, made %+v", p, made)
		}
		if text := p.Text(); p.Grown != nil || !strings.Contains(text, "is not planned") || !strings.Contains(text, "compatible") {
			t.Errorf("%+v is planned grown:\n%s", c, text)
		}
		if _, err := f.AddMany(numbers(10*c.Capacity), nil); err != nil && !c.NonScaling {
			t.Fatal(err)
		}
		full, err := f.Info()
		must(t, err)
		absent := math.Pow(1-p.ExpectedRate, float64(len(full.Layers)))
		if full.ExpectedRate > (1-absent)*(1+1e-9) || full.ExpectedRate < 0.3*(1-absent) {
			t.Errorf("a full layer is planned to have a rate of %v, %d layers have %v", p.ExpectedRate, len(full.Layers), full.ExpectedRate)
		}
	}
}

// The plan of a counting filter that has grown is what it is.
func TestPlanCounting_grown(t *testing.T) {
	db := inMemory(t)
	for i, c := range []countingext.Config{{Capacity: 100, ErrorRate: 1e-4}, {Capacity: 3000, ErrorRate: 1e-5, Expansion: 4}} {
		p, err := planCounting(c, 0)
		must(t, err)
		f := countingext.New(db, fmt.Sprint(i))
		must(t, f.Reserve(c))
		_, err = f.AddMany(numbers(p.Grown.Items), nil)
		must(t, err)
		info, err := f.Info()
		must(t, err)
		if p.Grown.Bytes != info.Bytes || len(p.Grown.Layers) != len(info.Layers) {
			t.Fatalf("planned %d bytes in %d layers, the filter has %d in %d", p.Grown.Bytes, len(p.Grown.Layers), info.Bytes, len(info.Layers))
		}
		for i, l := range info.Layers {
			if p := p.Grown.Layers[i]; p.Capacity != l.Capacity || p.Counters != l.Counters || p.Hashes != l.Hashes {
				t.Errorf("planned is a layer %+v, made %+v", p, l)
			}
		}
	}
}

// A Bloom filter that has grown from its log is about as large as planned, as the plan says: its layers are made for as many items
// as were estimated. One with the compatible layout is as planned.
func TestPlanBloom_grown(t *testing.T) {
	db := inMemory(t)
	for i, c := range []bloomext.Config{
		{Capacity: 100, ErrorRate: 0.01}, {Capacity: 1000, ErrorRate: 0.001}, {Capacity: 30_000, ErrorRate: 0.001},
		{Capacity: 1000, ErrorRate: 0.001, Layout: scalableext.LayoutCompatible},
	} {
		p, err := planBloom(c, 0)
		must(t, err)
		f := bloomext.New(db, fmt.Sprint(i))
		must(t, f.Reserve(c))
		fill(t, f, p.Grown.Items)
		for range 1000 { // until no larger layer is being filled
			if infoOf(t, f).Filling == 0 {
				break
			}
			_, err := db.CompactQueued(t.Context(), 1<<20)
			must(t, err)
		}
		info, logged := infoOf(t, f), c.Layout == scalableext.LayoutNative
		off := math.Abs(float64(info.Bytes)/float64(p.Grown.Bytes) - 1)
		if logged && off > 0.3 || !logged && off > 0 || strings.Contains(p.Text(), "items: about ") != logged {
			t.Errorf("%+v: planned %d bytes when grown, the filter has %d:\n%s", c, p.Grown.Bytes, info.Bytes, p.Text())
		}
		if info.Filling != 0 || info.LogBytes != 0 && info.LogBytes < p.Grown.LogBytes {
			t.Errorf("%+v: planned is a log of %d bytes, the filter has %d, and is filled: %d", c, p.Grown.LogBytes, info.LogBytes, info.Filling)
		}
	}
}
