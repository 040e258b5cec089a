package tests_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
	"github.com/sievekv/sievekv/tests/faultfs"
	"github.com/sievekv/sievekv/tests/redisbloom"
)

// dumpSum returns the sum of what CF.SCANDUMP answers, "" for a missing key.
func dumpSum(t *testing.T, db *kv.DB, key string) string {
	t.Helper()
	return scanSum(t, db, "CF.SCANDUMP", key)
}

// bloomSum is dumpSum for BF.SCANDUMP.
func bloomSum(t *testing.T, db *kv.DB, key string) string {
	t.Helper()
	return scanSum(t, db, "BF.SCANDUMP", key)
}

func scanSum(t *testing.T, db *kv.DB, command, key string) string {
	t.Helper()
	sum := sha256.New()
	session := module.NewSession(db)
	for iter := int64(0); ; {
		r := session.Do(t.Context(), [][]byte{[]byte(command), []byte(key), strconv.AppendInt(nil, iter, 10)})
		if r.IsError() {
			if r.Err().Error() != "ERR not found" {
				t.Fatal(r.Err())
			}
			return ""
		}
		e := r.Elems()
		if iter = e[0].Int(); iter == 0 {
			return string(sum.Sum(nil))
		}
		fmt.Fprint(sum, iter, " ")
		sum.Write(e[1].Bytes())
	}
}

func modelSum(c *redisbloom.Cuckoo) string {
	sum := sha256.New()
	for _, chunk := range c.Dump() {
		fmt.Fprint(sum, chunk.Iter, " ")
		sum.Write(chunk.Data)
	}
	return string(sum.Sum(nil))
}

// A crash leaves a cuckoo filter with the compatible layout as it was after one of the commands, and not before the last
// one that was reported as durable: never with half of the moves of an insert, of a growth or of a compaction.
func TestCrash_compatibleCuckoo(t *testing.T) {
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
		o.MemTableSize, o.Modules = 1<<20, coreext.With(cuckooext.Module()) // every compaction fits into a commit
		return o
	}
	db := open(t, storeDir, options(disk))
	take := func() {
		shots = append(shots, shot{disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng}), durable, begun})
	}
	model, err := redisbloom.NewCuckoo(16, 2, 20, 2)
	must(t, err)
	f := cuckooext.New(db, "f").With(kv.Always)
	must(t, f.Reserve(cuckooext.Config{Capacity: 16, Expansion: 2, Layout: scalableext.LayoutCompatible}))
	states := []string{modelSum(model)}
	grown, shrunk := 0, 0
	for begun < commands {
		layers := model.Info().Filters
		begun++
		level := kv.Always
		if drawn.IntN(4) > 0 {
			level = kv.NoSync
		}
		f, item := f.With(level), []byte(strconv.Itoa(drawn.IntN(100)))
		switch k := drawn.IntN(20); {
		case k == 0:
			must(t, f.Compact())
			model.Compact()
		case k < 12 == (begun/100%2 == 0):
			_, err := f.Add(item)
			must(t, err)
			must(t, model.Add(item))
		default:
			found, err := f.Delete(item)
			must(t, err)
			if found != model.Delete(item) {
				t.Fatalf("command %d: found %t", begun, found)
			}
		}
		states = append(states, modelSum(model))
		switch now := model.Info().Filters; {
		case now > layers:
			grown++
		case now < layers:
			shrunk++
		}
		if level == kv.Always {
			durable = begun
		}
		if rng.IntN(25) == 0 {
			take()
		}
	}
	if grown < 8 || shrunk < 3 {
		t.Errorf("the filter grew %d times, and compactions removed layers %d times", grown, shrunk)
	}
	must(t, db.Sync())
	durable = begun
	take()
	must(t, checkStore(db))
	if got := dumpSum(t, db, "f"); got != states[commands] {
		t.Fatal("the filter differs from the model before any crash")
	}
	for i, s := range shots {
		db := open(t, storeDir, options(s.disk))
		must(t, checkStore(db))
		got := dumpSum(t, db, "f")
		if !slices.Contains(states[s.from:s.to+1], got) {
			t.Errorf("crash %d: the filter is none of those after commands %d to %d", i, s.from, s.to)
		}
		must(t, db.Close())
	}
}
