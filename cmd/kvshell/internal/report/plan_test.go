package report

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"testing"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/bloomext"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
)

func inMemory(t *testing.T) *kv.DB {
	t.Helper()
	// With a seed, as by chance a layer of a cuckoo filter is full a few items before its capacity.
	db, err := kv.Open("", &kv.Options{InMemory: true, Seed: 1, Logger: slog.New(slog.DiscardHandler), Modules: module.New(sievekv.Modules()...)})
	return closedAtTheEnd(t, db, err)
}

// closedAtTheEnd returns a store just opened, which is closed when the test ends.
func closedAtTheEnd(t *testing.T, db *kv.DB, err error) *kv.DB {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// A plan is what the filter is: as it is made, and, layer for layer, when it has grown.
func TestPlanBloom(t *testing.T) {
	db := inMemory(t)
	configs := []bloomext.Config{
		{Capacity: 1, ErrorRate: 0.01, GrowthLog: -1},
		{Capacity: 100, ErrorRate: 0.01, GrowthLog: -1},
		{Capacity: 100, ErrorRate: 0.9, Expansion: 3},
		{Capacity: 1000, ErrorRate: 1e-7, Expansion: 1},
		{Capacity: 3000, ErrorRate: 0.001, Expansion: 4},
		{Capacity: 10000, ErrorRate: 0.001, NonScaling: true},
		{Capacity: 1e9, ErrorRate: 0.9, NonScaling: true},
	}
	for i, c := range configs {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			p, err := planBloom(c, 0)
			if err != nil {
				t.Fatal(err)
			}
			f := bloomext.New(db, fmt.Sprint(i))
			if err := f.Reserve(c); err != nil {
				t.Fatal(err)
			}
			info := infoOf(t, f)
			if p.ErrorRate != info.ErrorRate || p.Expansion != info.Expansion {
				t.Errorf("planned error rate %v, expansion %d; the filter has %v, %d",
					p.ErrorRate, p.Expansion, info.ErrorRate, info.Expansion)
			}
			comparePlan(t, []layerPlan{p.layerPlan}, info)
			if c.NonScaling {
				if p.Grown != nil {
					t.Errorf("planned to grow: %+v", p.Grown)
				}
				return
			}
			fill(t, f, p.Grown.Items)
			info = infoOf(t, f)
			comparePlan(t, p.Grown.Layers, info)
			if info.Bytes != p.Grown.Bytes {
				t.Errorf("planned %d bytes when grown, the filter has %d", p.Grown.Bytes, info.Bytes)
			}
			var rates []float64
			for i, l := range p.Grown.Layers {
				rates = append(rates, l.layout.ExpectedRate(info.Layers[i].Items))
			}
			if rate := scalableext.ChainRate(rates); math.Abs(p.Grown.ExpectedRate/rate-1) > 1e-6 {
				t.Errorf("planned rate %v when grown, that of the filter's items is %v", p.Grown.ExpectedRate, rate)
			}
			// Info's rate is computed from the bits set. If their number deviates by 0.6 % from the expected one, the
			// rate deviates by 12 % at 1e-7.
			if off := math.Abs(p.Grown.ExpectedRate/info.ExpectedRate - 1); off > 0.5 {
				t.Errorf("planned rate %v when grown, the filter's is %v", p.Grown.ExpectedRate, info.ExpectedRate)
			}
			if p.Grown.ExpectedRate > p.ErrorRate {
				t.Errorf("planned rate %v when grown, above %v", p.Grown.ExpectedRate, p.ErrorRate)
			}
		})
	}
}

func infoOf(t *testing.T, f *bloomext.Filter) bloomext.Info {
	t.Helper()
	info, err := f.Info()
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// fill adds items until n were new.
func fill(t *testing.T, f *bloomext.Filter, items uint64) {
	t.Helper()
	var next uint64
	for left := items; left > 0; {
		batch := make([][]byte, min(left, 1000))
		for i := range batch {
			batch[i] = binary.LittleEndian.AppendUint64(nil, next)
			next++
		}
		added := make([]bool, len(batch))
		if _, err := f.AddMany(batch, added); err != nil {
			t.Fatal(err)
		}
		for _, isNew := range added {
			if isNew {
				left--
			}
		}
	}
}

func comparePlan(t *testing.T, planned []layerPlan, info bloomext.Info) {
	t.Helper()
	if len(planned) != len(info.Layers) {
		t.Fatalf("planned %d layers, the filter has %d", len(planned), len(info.Layers))
	}
	for i, p := range planned {
		l := info.Layers[i]
		if p.Capacity != l.Capacity || p.Bits != l.Bits || p.Bytes*8 != l.Bits ||
			p.Hashes != l.Hashes || p.LinesPerItem != l.Lines {
			t.Errorf("layer %d: planned %+v, the filter has %+v", i, p, l)
		}
		if p.Blocks*p.BlockBits != l.Bits || p.BlockBits > 65536 {
			t.Errorf("layer %d: planned %d blocks of %d bits, the filter has %d bits", i, p.Blocks, p.BlockBits, l.Bits)
		}
		if !(p.ExpectedRate <= l.ErrorRate) {
			t.Errorf("layer %d: rate %v expected, above its share %v", i, p.ExpectedRate, l.ErrorRate)
		}
	}
}

// The formula gives what MEMORY USAGE of Redis 7.4.1 with RedisBloom said of such filters, which counts up to 64 bytes
// of bookkeeping for each sub-filter and 128 for the rest.
func TestRedisBloomBytes(t *testing.T) {
	tests := []struct {
		name               string
		computed, measured uint64
		filters            uint64
	}{
		{"1e6 at 0.01", redisBloomGrown(1e6, 1e6, 0.01), 1378600, 1},
		{"1e6 at 0.001", redisBloomGrown(1e6, 1e6, 0.001), 1977664, 1},
		{"1e6 at 0.0001", redisBloomGrown(1e6, 1e6, 0.0001), 2576736, 1},
		{"1e7 at 0.01", redisBloomGrown(1e7, 1e7, 0.01), 13784824, 1},
		{"1e7 at 0.0001", redisBloomGrown(1e7, 1e7, 0.0001), 25766144, 1},
		{"1e6 at 0.01, NONSCALING", redisBloomBytes(1e6, 0.01), 1198264, 1},
		{"1e7 at 0.001, NONSCALING", redisBloomBytes(1e7, 0.001), 17972120, 1},
		{"grown from 100 to 1e6", redisBloomGrown(100, 1e6, 0.01), 5804952, 14},
	}
	for _, tt := range tests {
		if tt.computed > tt.measured || tt.measured-tt.computed > 128+64*tt.filters {
			t.Errorf("%s: %d bytes, measured %d", tt.name, tt.computed, tt.measured)
		}
	}
}
