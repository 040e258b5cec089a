package tests_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
	"github.com/sievekv/sievekv/tests/faultfs"
)

var growthSteps = flag.Int("growthsteps", 600, "steps of each store in TestModel_growth")

// growthModel is a store with filters that grow from a log, and what is known of their items.
type growthModel struct {
	t      *testing.T
	random *rand.Rand
	disk   *kvtest.Disk
	db     *kv.DB
	keys   []string
	items  map[string]map[int]bool // by key: true if a crash keeps the item
	next   int                     // the first item that was never added

	looked, swapped, shortened int
}

func (m *growthModel) open() {
	o := tinyOptions(m.disk)
	o.Modules = coreext.With(bloomext.Module())
	m.db = open(m.t, storeDir, o)
	m.limit()
}

// limit sets the most bytes of the log of the filters that are made next.
func (m *growthModel) limit() {
	limits := []int{0, 100, 1000, 10_000, 1 << 20, 1 << 20, 1 << 20}
	must(m.t, module.Of(m.db).SetSetting("growth-log-bytes", strconv.Itoa(limits[m.random.IntN(len(limits))])))
}

func (m *growthModel) key() string { return m.keys[m.random.IntN(len(m.keys))] }

func (m *growthModel) level() kv.Durability {
	return []kv.Durability{kv.Always, kv.NoSync}[m.random.IntN(2)]
}

func item(n int) []byte { return []byte(strconv.Itoa(n)) }

// draw returns items to be added, most of them new.
func (m *growthModel) draw(most int) (numbers []int, items [][]byte) {
	for range 1 + m.random.IntN(most) {
		n := m.next
		if m.random.IntN(4) == 0 {
			n = m.random.IntN(m.next + 1)
		}
		m.next = max(m.next, n+1)
		numbers, items = append(numbers, n), append(items, item(n))
	}
	return numbers, items
}

// added notes that items were added.
func (m *growthModel) added(key string, level kv.Durability, numbers ...int) {
	if m.items[key] == nil {
		m.items[key] = make(map[int]bool)
	}
	for _, n := range numbers {
		m.items[key][n] = m.items[key][n] || level == kv.Always
	}
}

// make makes the filter under a key if it is missing.
func (m *growthModel) make(key string) {
	f := bloomext.New(m.db, key)
	capacities := []uint64{1, 10, 100, 3000}
	c := bloomext.Config{Capacity: capacities[m.random.IntN(4)], ErrorRate: []float64{0.2, 0.05, 0.01}[m.random.IntN(3)]}
	if err := f.Reserve(c); err == nil {
		m.items[key] = make(map[int]bool)
	} else if !errors.Is(err, kv.ErrExists) {
		m.t.Fatal(err)
	}
}

// copied notes that dst has what src has.
func (m *growthModel) copied(src, dst string, level kv.Durability) {
	all := make(map[int]bool)
	for n := range m.items[src] {
		all[n] = level == kv.Always
	}
	m.items[dst] = all
}

// errUndone ends what is undone.
var errUndone = errors.New("undone")

func (m *growthModel) step() {
	t, r, key := m.t, m.random, m.key()
	level := m.level()
	f := bloomext.New(m.db, key).With(level)
	m.make(key)
	switch n := r.IntN(100); {
	case n < 30:
		numbers, items := m.draw(30)
		for i, item := range items {
			_, err := f.Add(item)
			must(t, err)
			m.added(key, level, numbers[i])
		}
	case n < 45:
		numbers, items := m.draw(500)
		_, err := f.AddMany(items, nil)
		must(t, err)
		m.added(key, level, numbers...)
	case n < 55:
		m.transaction(level)
	case n < 75:
		before := m.layers(key)
		for range 1 + r.IntN(4) {
			if r.IntN(4) == 0 {
				_, err := m.db.Wake(t.Context(), nil, 1)
				must(t, err)
			}
			more, err := m.db.CompactQueued(t.Context(), 1)
			must(t, err)
			if !more {
				break
			}
		}
		if m.layers(key) < before {
			m.swapped++
		}
	case n < 80:
		m.look(key)
	case n < 84:
		dst := m.key()
		_, err := m.db.Copy(t.Context(), level, []byte(key), []byte(dst), true)
		must(t, err)
		if key != dst {
			m.copied(key, dst, level)
		}
	case n < 87:
		dst := m.key()
		must(t, m.db.Rename(level, []byte(key), []byte(dst)))
		if key != dst {
			m.copied(key, dst, level)
			delete(m.items, key)
		}
	case n < 88:
		src := m.key()
		m.make(src)
		switch err := f.Merge(t.Context(), bloomext.New(m.db, src)); {
		case err == nil:
			for n := range m.items[src] {
				m.added(key, level, n)
			}
		case !errors.Is(err, scalableext.ErrUnequal) && !errors.Is(err, scalableext.ErrRate):
			t.Fatal(err)
		}
	case n < 92:
		_, err := m.db.Delete(kv.Always, []byte(key))
		must(t, err)
		delete(m.items, key)
		m.limit()
	case n < 93:
		must(t, m.db.CompactTables(t.Context()))
	case n < 95:
		must(t, m.db.Close())
		for _, items := range m.items {
			for n := range items {
				items[n] = true
			}
		}
		m.open()
	case n < 97:
		m.crash()
	case n < 98:
		must(t, checkStore(m.db))
	default:
		m.again(f, key, level, 1+m.random.IntN(3))
	}
}

// again adds all items of a filter again, n times, and then rebuilds its log.
func (m *growthModel) again(f *bloomext.Filter, key string, level kv.Durability, times int) {
	var items [][]byte
	for n := range m.items[key] {
		items = append(items, item(n))
		m.added(key, level, n)
	}
	for range times {
		_, err := f.AddMany(items, nil)
		must(m.t, err)
	}
	before, err := f.Info()
	must(m.t, err)
	_, err = m.db.CompactQueued(m.t.Context(), 1)
	must(m.t, err)
	after, err := f.Info()
	must(m.t, err)
	if after.LogBytes > 0 && after.LogBytes < before.LogBytes {
		m.shortened++
	}
}

// transaction changes filters in a transaction, and undoes some of the changes, or all.
func (m *growthModel) transaction(level kv.Durability) {
	t, r := m.t, m.random
	type change struct {
		key     string
		numbers []int
	}
	var changes []change
	copied := [2]string{}
	undone, most := r.IntN(4) == 0, 4
	if r.IntN(5) == 0 {
		most = 30 // the layer that the transaction makes is replaced
	}
	err := txntest.Update(t.Context(), m.db, level, func(tx *txntest.Tx) error {
		for range 1 + r.IntN(most) {
			key := m.key()
			if m.items[key] == nil {
				continue
			}
			f := bloomext.New(m.db, key).In(tx)
			numbers, items := m.draw(100)
			if r.IntN(4) == 0 {
				err := tx.Write(func(w *kv.Writer) error {
					if _, err := f.AddStaged(w, items, make([]bool, len(items))); err != nil {
						return err
					}
					return errUndone
				})
				if !errors.Is(err, errUndone) {
					return err
				}
				continue
			}
			if _, err := f.AddMany(items, nil); err != nil {
				return err
			}
			changes = append(changes, change{key, numbers})
			for i, item := range items {
				if found, err := f.MayContain(item); !found || err != nil {
					t.Fatalf("%s: item %d is missing in its transaction: %v", key, numbers[i], err)
				}
			}
		}
		if len(changes) > 0 && r.IntN(2) == 0 {
			copied = [2]string{changes[0].key, m.key()}
			if _, err := tx.Copy(copied[0], copied[1], true); err != nil {
				return err
			}
		}
		if undone {
			return errUndone
		}
		return nil
	})
	if undone {
		if !errors.Is(err, errUndone) {
			t.Fatal(err)
		}
		return
	}
	must(t, err)
	for _, c := range changes {
		m.added(c.key, level, c.numbers...)
	}
	if copied[0] != copied[1] {
		m.copied(copied[0], copied[1], level)
	}
}

func (m *growthModel) layers(key string) int {
	info, err := bloomext.New(m.db, key).Info()
	must(m.t, err)
	return len(info.Layers)
}

// look looks all items of a filter up.
func (m *growthModel) look(key string) {
	m.t.Helper()
	f := bloomext.New(m.db, key)
	var items [][]byte
	var numbers []int
	for n := range m.items[key] {
		numbers, items = append(numbers, n), append(items, item(n))
	}
	present := make([]bool, len(items))
	must(m.t, f.MayContainMany(items, present))
	for i, found := range present {
		one := true
		var err error
		if m.random.IntN(10) == 0 {
			one, err = f.MayContain(items[i])
		}
		if m.looked++; !found || !one || err != nil {
			m.t.Fatalf("%s: item %d is found %t and %t: %v", key, numbers[i], found, one, err)
		}
	}
	if len(items) == 0 {
		return
	}
	info, err := f.Info()
	must(m.t, err)
	most := info.ErrorRate
	if info.Layers[0].Capacity == info.Asked { // it is no larger than the rate needs: chance comes on top
		most *= 1.6
	}
	if info.ExpectedRate > most || len(info.Layers) > 40 {
		m.t.Fatalf("%s: expected rate %v, asked for %v, with %d layers", key, info.ExpectedRate, info.ErrorRate, len(info.Layers))
	}
}

// crash goes on with what a crash leaves. Items that were not on stable storage may be missing, and whole filters.
func (m *growthModel) crash() {
	left := m.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: m.random.IntN(101), RNG: m.random})
	must(m.t, m.db.Close())
	m.disk = left
	m.open()
	must(m.t, checkStore(m.db))
	for key, items := range m.items {
		for n, kept := range items {
			if !kept {
				delete(items, n)
			}
		}
		if n, err := m.db.Exists([]byte(key)); err != nil || n == 0 {
			must(m.t, err)
			if len(items) > 0 {
				m.t.Fatalf("%s: %d items on stable storage, and no filter", key, len(items))
			}
			delete(m.items, key)
		}
	}
}

// settle does all that services are to do.
func (m *growthModel) settle() {
	for more := true; more; {
		_, err := m.db.Wake(m.t.Context(), nil, 1)
		must(m.t, err)
		more, err = m.db.CompactQueued(m.t.Context(), 1)
		must(m.t, err)
	}
}

// surely makes a filter grow, and its log be rebuilt, which by chance may not have happened before.
func (m *growthModel) surely() {
	must(m.t, module.Of(m.db).SetSetting("growth-log-bytes", "1048576"))
	const key = "surely"
	f := bloomext.New(m.db, key)
	must(m.t, f.Reserve(bloomext.Config{Capacity: 10, ErrorRate: 0.01}))
	m.items[key] = make(map[int]bool)
	for n := range 2000 {
		_, err := f.Add(item(n))
		must(m.t, err)
		m.added(key, kv.Always, n)
	}
	m.settle()
	info, err := f.Info()
	must(m.t, err)
	if info.LogBytes == 0 || len(info.Layers) > 2 {
		m.t.Errorf("a filter that has grown to 2000 items has %d layers and a log of %d bytes", len(info.Layers), info.LogBytes)
	}
	shortened := m.shortened
	m.again(f, key, kv.Always, 3)
	if m.look(key); m.shortened == shortened {
		m.t.Error("a log with all hashes several times was not made anew")
	}
}

// Filters that grow from a log have all their items, whatever is done with them: items are added one by one, many at a time,
// in transactions that are undone in part, and again; filters are copied, renamed, merged and dropped; the store is closed
// and opened, and crashes.
func TestModel_growth(t *testing.T) {
	for i := range 6 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			m := &growthModel{
				t: t, random: rand.New(rand.NewPCG(uint64(i), 77)), items: make(map[string]map[int]bool), keys: []string{"a", "b", "c"}[:1+i%3],
				disk: kvtest.NewDisk(),
			}
			must(t, faultfs.MakeDir(m.disk))
			m.open()
			for range *growthSteps {
				m.step()
			}
			for key := range m.items {
				m.look(key)
			}
			m.settle()
			for key := range m.items {
				m.look(key)
			}
			must(t, checkStore(m.db))
			t.Logf("%d lookups, layers fell %d times, logs %d times", m.looked, m.swapped, m.shortened)
			m.surely()
			must(t, m.db.Close())
		})
	}
}
