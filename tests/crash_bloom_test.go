package tests_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
	"github.com/sievekv/sievekv/tests/faultfs"
	"github.com/sievekv/sievekv/tests/redisbloom"
)

func modelBloomSum(b *redisbloom.Bloom) string {
	sum := sha256.New()
	for _, chunk := range b.Dump() {
		fmt.Fprint(sum, chunk.Iter, " ")
		sum.Write(chunk.Data)
	}
	return string(sum.Sum(nil))
}

// A crash leaves a Bloom filter with the compatible layout as it was after one of the commands, and not before the last
// one that was reported as durable: never with some of the bits of an item, or with half of a growth.
func TestCrash_compatibleBloom(t *testing.T) {
	t.Parallel()
	const commands = 1500
	type shot struct {
		disk     *kvtest.Disk
		from, to int // commands that were durable, and begun
	}
	disk := kvtest.NewDisk()
	must(t, faultfs.MakeDir(disk))
	rng := rand.New(rand.NewPCG(rand.Uint64(), 0)) // of the crashes
	drawn := rand.New(rand.NewPCG(1, 2))
	var shots []shot
	durable, begun := 0, 0
	options := func(disk *kvtest.Disk) *kv.Options {
		o := tinyOptions(disk)
		o.Modules = coreext.With(bloomext.Module())
		return o
	}
	db := open(t, storeDir, options(disk))
	take := func() {
		shots = append(shots, shot{disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng}), durable, begun})
	}
	const capacity, rate = 150, 1e-250 // enough bits that the second layer and later ones have several blocks
	model, err := redisbloom.NewBloom(capacity, rate, 2, false)
	must(t, err)
	f := bloomext.New(db, "f").With(kv.Always)
	must(t, f.Reserve(bloomext.Config{Capacity: capacity, ErrorRate: rate, Expansion: 2, Layout: scalableext.LayoutCompatible}))
	states := []string{modelBloomSum(model)}
	for begun < commands {
		begun++
		level := kv.Always
		if drawn.IntN(4) > 0 {
			level = kv.NoSync
		}
		f, item := f.With(level), []byte(strconv.Itoa(drawn.IntN(2000)))
		isNew, err := f.Add(item)
		must(t, err)
		want, err := model.Add(item)
		must(t, err)
		if isNew != want {
			t.Fatalf("command %d: new %t", begun, isNew)
		}
		states = append(states, modelBloomSum(model))
		if level == kv.Always {
			durable = begun
		}
		if rng.IntN(25) == 0 {
			take()
		}
	}
	if n := model.Info().Filters; n < 3 {
		t.Errorf("the filter has %d layers", n)
	}
	must(t, db.Sync())
	durable = begun
	take()
	must(t, checkStore(db))
	if got := bloomSum(t, db, "f"); got != states[commands] {
		t.Fatal("the filter differs from the model before any crash")
	}
	must(t, db.Close())
	for i, s := range shots {
		db := open(t, storeDir, options(s.disk))
		must(t, checkStore(db))
		got := bloomSum(t, db, "f")
		if !slices.Contains(states[s.from:s.to+1], got) {
			t.Errorf("crash %d: the filter is none of those after commands %d to %d", i, s.from, s.to)
		}
		must(t, db.Close())
	}
}
