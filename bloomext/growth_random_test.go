package bloomext_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// grower grows a filter by random commits.
type grower struct {
	r     *rand.Rand
	db    *kv.DB
	f     *bloomext.Filter
	items uint64 // added so far
	alone bool   // no commit is followed by what helps a growth, as after a crash
}

// size returns 1 to 4096, small numbers as often as large ones.
func (g *grower) size() uint64 { return 1 + g.r.Uint64N(1<<g.r.IntN(13)) }

// next returns the next n items.
func (g *grower) next(n uint64) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		list[i] = g.items + uint64(i)
	}
	g.items += n
	return list
}

// commit makes one commit of adds.
func (g *grower) commit(t *testing.T) {
	t.Helper()
	var err error
	if g.alone {
		err = g.db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error {
			list := g.next(g.size())
			items := make([][]byte, len(list))
			for i, n := range list {
				items[i] = binary.LittleEndian.AppendUint64(nil, n)
			}
			_, err := g.f.AddStaged(w, items, make([]bool, len(items)))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	switch g.r.IntN(4) {
	case 0:
		_, err = g.f.Add(scalableext.Uint64(g.next(1)[0]))
	case 1:
		_, err = g.f.AddMany(scalableext.Uint64s(g.next(g.size())...), nil)
	default:
		alone := g.r.IntN(2) == 0
		left := g.size()
		err = txntest.Update(t.Context(), g.db, kv.NoSync, func(tx *txntest.Tx) error {
			in := g.f.In(tx)
			for left > 0 {
				n := min(left, g.size())
				if alone {
					n = 1
				}
				if _, err := in.AddMany(scalableext.Uint64s(g.next(n)...), nil); err != nil {
					return err
				}
				left -= n
			}
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Lookups ask at most three layers after every commit, whatever the sizes of batches and transactions, also if nobody ever helps a
// growth. If commits are followed by their help, the filter has at most 14 bits for an item at the end.
func TestGrowth_random(t *testing.T) {
	for seed := range uint64(9) {
		db := open(t, "", nil)
		f := reserveLogged(t, db, 1<<20, 100, 0.01)
		g := &grower{r: rand.New(rand.NewPCG(seed, 1)), db: db, f: f, alone: seed >= 6}
		services := int(seed % 3) // how much of the filling they do
		var info bloomext.Info
		for g.items < 60_000 {
			g.commit(t)
			var err error
			if info, err = f.Info(); err != nil || len(info.Layers) > 3 || info.ExpectedRate > mostRate(info) {
				t.Fatalf("seed %d: %d items, %d layers, rate %v: %v", seed, g.items, len(info.Layers), info.ExpectedRate, err)
			}
			compacts(t, db, g.r.IntN(1+10*services))
		}
		if bits := float64(8*info.Bytes) / float64(info.Items); !g.alone && bits > 14 {
			t.Errorf("seed %d: %.1f bits an item", seed, bits)
		}
		finds(t, f, g.items)
		compacts(t, db, 10_000)
		finds(t, f, g.items)
		if info, err := f.Info(); err != nil || len(info.Layers) > 2 || !g.alone && float64(8*info.Bytes) > 14*float64(info.Items) {
			t.Errorf("seed %d: %d bytes, %d items in %d layers: %v", seed, info.Bytes, info.Items, len(info.Layers), err)
		}
		checkWhole(t, db)
		closeDB(t, db)
	}
}
