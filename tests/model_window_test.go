package tests_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/tests/faultfs"
)

var windowSteps = flag.Int("windowsteps", 4000, "steps of each filter in TestModel_window")

// windowModel is a filter that forgets, with a clock of its own, and what is known of its items.
type windowModel struct {
	t      *testing.T
	random *rand.Rand
	span   int64 // milliseconds
	turn   int64
	clock  atomic.Int64

	disk *kvtest.Disk
	db   *kv.DB
	f    *bloomext.Filter

	items map[string]*windowItem
	peak  int64 // the highest time of any commit: a slice may have begun then
	gone  int   // lookups of items that had to be forgotten
	wrong int   // of these, those that were found
	found int   // lookups of items that had to be found
}

// windowItem is what is known of an item that was added.
type windowItem struct {
	added int64 // the highest time of an add
	peak  int64 // the highest time of any commit before the last add, or of it
	swept bool  // a commit came at a time at which the item may have been forgotten
}

// due says what a lookup must answer now: found, absent, or either.
func (m *windowModel) due(item string) (found, absent bool) {
	x, now := m.items[item], m.clock.Load()
	if x == nil {
		return false, true
	}
	return !x.swept && now < x.added+m.span, now >= x.peak+m.span+m.turn
}

// check compares an answer with what it must be.
func (m *windowModel) check(what, item string, present bool) {
	found, absent := m.due(item)
	switch {
	case found:
		m.found++
		if !present {
			m.t.Fatalf("%s: item %s is forgotten early, %d ms after its add, of %d", what, item, m.clock.Load()-m.items[item].added, m.span)
		}
	case absent:
		m.gone++
		if present {
			m.wrong++
		}
	}
}

// commits notes that a commit was made at the present time, which may have removed what has expired.
func (m *windowModel) commits() {
	now := m.clock.Load()
	for _, x := range m.items {
		x.swept = x.swept || now >= x.added+m.span
	}
	m.peak = max(m.peak, now)
}

// add notes an add.
func (m *windowModel) add(item string) {
	x, now := m.items[item], m.clock.Load()
	if x == nil || x.swept || now >= x.added+m.span {
		x = &windowItem{}
		m.items[item] = x
	}
	x.added, x.peak = max(x.added, now), m.peak
}

func (m *windowModel) options() *kv.Options {
	o := tinyOptions(m.disk)
	o.Modules = coreext.With(bloomext.Module())
	o.Clock = func() time.Time { return time.UnixMilli(m.clock.Load()) }
	return o
}

func (m *windowModel) open() {
	m.db = open(m.t, storeDir, m.options())
	m.f = bloomext.New(m.db, "f").With(kv.Always)
}

// step makes one random step.
func (m *windowModel) step() {
	t, r := m.t, m.random
	item := strconv.Itoa(r.IntN(3000))
	switch n := r.IntN(1000); {
	case n < 300:
		m.commits()
		isNew, err := m.f.Add([]byte(item))
		must(t, err)
		m.check("add", item, !isNew)
		m.add(item)
	case n < 330:
		items := make([][]byte, 1+r.IntN(200))
		for i := range items {
			items[i] = []byte(strconv.Itoa(r.IntN(3000)))
		}
		isNew := make([]bool, len(items))
		m.commits()
		_, err := m.f.AddMany(items, isNew)
		must(t, err)
		for i, item := range items {
			m.check("add many", string(item), !isNew[i])
			m.add(string(item))
		}
	case n < 800:
		present, err := m.f.MayContain([]byte(item))
		must(t, err)
		m.check("lookup", item, present)
	case n < 820:
		m.commits()
		_, err := m.db.Wake(t.Context(), nil, 1<<20)
		must(t, err)
	case n < 830:
		items, present := make([][]byte, 100), make([]bool, 100)
		for i := range items {
			items[i] = []byte(strconv.Itoa(r.IntN(3000)))
		}
		must(t, m.f.MayContainMany(items, present))
		for i, item := range items {
			m.check("lookup of many", string(item), present[i])
		}
	case n < 970:
		m.clock.Add(r.Int64N(m.span / 100))
	case n < 980:
		m.clock.Add(r.Int64N(m.turn + 2))
	case n < 981 && r.IntN(4) == 0:
		m.clock.Add(r.Int64N(2 * m.span))
	case n < 983 && r.IntN(4) == 0:
		m.clock.Add(-r.Int64N(m.span / 2))
	case n < 985:
	case n < 986:
		must(t, m.db.Close())
		m.open()
	case n < 987:
		m.crash()
	}
}

// crash goes on with what a crash leaves. Every add was reported, so nothing may be missing.
func (m *windowModel) crash() {
	left := m.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: m.random.IntN(101), RNG: m.random})
	must(m.t, m.db.Close())
	m.disk = left
	m.open()
	must(m.t, checkStore(m.db))
}

// A filter with a window forgets no item early, and keeps none beyond the bound, whatever the clock does: it steps forward
// and back, and the store is closed and opened, and crashes.
func TestModel_window(t *testing.T) {
	for i, slices := range []int{2, 3, 8, 32} {
		t.Run(fmt.Sprint(slices), func(t *testing.T) {
			t.Parallel()
			m := &windowModel{t: t, random: rand.New(rand.NewPCG(uint64(i), 7)), span: 10_000, items: make(map[string]*windowItem)}
			m.turn = (m.span + int64(slices) - 1) / int64(slices)
			m.clock.Store(1_700_000_000_000)
			m.disk = kvtest.NewDisk()
			must(t, faultfs.MakeDir(m.disk))
			m.open()
			c := bloomext.Config{Capacity: 500, ErrorRate: 1e-9, Window: time.Duration(m.span) * time.Millisecond, Slices: slices}
			must(t, m.f.Reserve(c))
			must(t, m.f.OpenOrReserve(c))
			most := 0
			for range *windowSteps {
				m.step()
				info, err := m.f.Info()
				must(t, err)
				most = max(most, len(info.Slices))
			}
			t.Logf("%d lookups had to find, %d had to miss, %d of these found; %d slices at once", m.found, m.gone, m.wrong, most)
			if m.wrong > 0 { // at a rate of 1e-9
				t.Errorf("%d items that had to be forgotten are found", m.wrong)
			}
			if most > slices+1 || most < slices*3/4 || m.found < *windowSteps/10 || m.gone < *windowSteps/100 {
				t.Errorf("%d slices at once, want at most %d; %d and %d lookups that had to find and to miss", most, slices+1, m.found, m.gone)
			}
			must(t, checkStore(m.db))
			must(t, m.db.Close())
		})
	}
}
