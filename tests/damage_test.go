package tests_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/check"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/internal/storage"
	"github.com/sievekv/sievekv/internal/storage/remains"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/salvage"
	"github.com/sievekv/sievekv/scalableext"
)

var damages = flag.Int("damages", 8, "how many stores TestDamage damages")

// damagedStore is a store that was closed, or killed, and every commit that was acknowledged in it, in order.
type damagedStore struct {
	files   map[string][]byte
	commits []damageCommit
	filters []string // keys
	loading []string // keys of filters that are half-loaded
	sealed  bool     // all was compacted and closed: no log has a commit, and no table is obsolete

	stored map[string][]byte // the key of the header of each key, where it has one
	ids    map[string]uint64 // the object of each filter
}

// damageCommit sets a string, deletes a key, or adds an item to a filter.
type damageCommit struct {
	key, value string
	deleted    bool
	filter     bool // value is an item of the filter, or of the bitmap, under key
}

func damageOptions() kv.Options {
	o := rotOptions(vfs.Default)
	o.BallastSize = 1 << 20
	return *o
}

type damageFilter interface {
	Add([]byte) (bool, error)
	MayContain([]byte) (bool, error)
}

func damageFilterOf(db *kv.DB, key string) damageFilter {
	switch {
	case strings.HasPrefix(key, "bloom"):
		return bloomext.New(db, key)
	case strings.HasPrefix(key, "cuckoo"):
		return cuckooext.New(db, key)
	case strings.HasPrefix(key, "bitmap"):
		return bitmapOfItems{db, []byte(key)}
	}
	return countingext.New(db, key)
}

// damageExpiry returns when a key expires: some do, in the year 2096.
func damageExpiry(key string) int64 {
	if strings.Contains(key, "expiring") || strings.HasPrefix(key, "key ") && strings.HasSuffix(key, "0") {
		return 4e12
	}
	return 0
}

// makeFilters makes filters of every type and layout: of one block and of several, those that grow often, those whose
// items are stored as operands of their own, those that expire, and those that are half-loaded.
func (s *damagedStore) makeFilters(t *testing.T, db *kv.DB) {
	t.Helper()
	compatible := scalableext.LayoutCompatible
	for i, size := range []uint64{10, 160, 2560} {
		name := func(kind string) string { return fmt.Sprint(kind, " ", i) }
		must(t, errors.Join(
			bloomext.New(db, name("bloom")).Reserve(bloomext.Config{Capacity: size, ErrorRate: 0.001}),
			cuckooext.New(db, name("cuckoo")).Reserve(cuckooext.Config{Capacity: size}),
			countingext.New(db, name("counting")).Reserve(countingext.Config{Capacity: size, ErrorRate: 0.001}),
			bloomext.New(db, name("bloom compatible")).Reserve(bloomext.Config{Capacity: size, ErrorRate: 0.001, Layout: compatible}),
			cuckooext.New(db, name("cuckoo compatible")).Reserve(cuckooext.Config{Capacity: size, Layout: compatible}),
		))
		s.filters = append(s.filters, name("bloom"), name("cuckoo"), name("counting"), name("bloom compatible"), name("cuckoo compatible"), name("bitmap"))
	}
	must(t, errors.Join(
		bloomext.New(db, "bloom grown").Reserve(bloomext.Config{Capacity: 2, ErrorRate: 0.001, Expansion: 1}),
		countingext.New(db, "counting grown").Reserve(countingext.Config{Capacity: 2, ErrorRate: 0.001, Expansion: 1}),
		bloomext.New(db, "bloom compatible grown").Reserve(bloomext.Config{Capacity: 2, ErrorRate: 0.001, Expansion: 1, Layout: compatible}),
		cuckooext.New(db, "cuckoo compatible grown").Reserve(cuckooext.Config{Capacity: 4, Expansion: 1, Layout: compatible}),
		bloomext.New(db, "bloom of items").Reserve(bloomext.Config{Capacity: 100_000, ErrorRate: 1e-6}),
		bloomext.New(db, "bloom expiring").Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.001}),
		cuckooext.New(db, "cuckoo expiring").Reserve(cuckooext.Config{Capacity: 100}),
		countingext.New(db, "counting expiring").Reserve(countingext.Config{Capacity: 100, ErrorRate: 0.001}),
	))
	s.filters = append(s.filters, "bloom grown", "counting grown", "bloom compatible grown", "cuckoo compatible grown", "bloom of items",
		"bloom expiring", "cuckoo expiring", "counting expiring", "bitmap expiring")
	for _, key := range s.filters {
		c := damageCommit{key: key, value: "first", filter: true}
		_, err := damageFilterOf(db, key).Add([]byte(c.value))
		must(t, err)
		s.commits = append(s.commits, c)
		if at := damageExpiry(key); at != 0 {
			done, err := db.Expire(kv.Always, []byte(key), at, kv.ExpireIf(0))
			must(t, err)
			if !done {
				t.Fatalf("%q does not expire", key)
			}
		}
	}
	d := &dumping{t: t, db: db, session: module.NewSession(db)}
	for family, key := range map[string]string{"BF": "bloom compatible 2", "CF": "cuckoo compatible 2"} {
		chunks := d.dump(family, key, nil)
		header, all := chunks[0], chunks[1]
		half := all.data[:len(all.data)/2]
		d.load(family, "loading "+family, []dumpedChunk{header, {strconv.Itoa(len(half) + 1), half}})
		s.loading = append(s.loading, "loading "+family)
	}
}

// newDamagedStore makes a store with tables in several levels, deletions that hide older versions, and commits that are
// in the log alone.
func newDamagedStore(t *testing.T, seed uint64) *damagedStore {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	dir := filepath.Join(t.TempDir(), "store")
	o := damageOptions()
	db, err := kv.Open(dir, &o)
	must(t, err)
	s := &damagedStore{}
	s.makeFilters(t, db)
	must(t, db.Close()) // writes the sidecar, as a store that is some seconds old has it
	db, err = kv.Open(dir, &o)
	must(t, err)
	commit := func(n int) {
		for range n {
			c := damageCommit{key: fmt.Sprint("key ", rng.IntN(150)), value: fmt.Sprintf("%d %x", len(s.commits), rng.Uint64())}
			switch rng.IntN(8) {
			case 0:
				c.deleted = true
				_, err := db.Delete(kv.Always, []byte(c.key))
				must(t, err)
			case 1, 2, 3:
				c.key, c.filter = s.filters[rng.IntN(len(s.filters))], true
				_, err := damageFilterOf(db, c.key).Add([]byte(c.value))
				must(t, err)
			default:
				c.value += strings.Repeat("x", rng.IntN(400))
				_, err := db.Set(kv.Always, []byte(c.key), []byte(c.value), kv.SetOptions{Expiry: damageExpiry(c.key)})
				must(t, err)
			}
			s.commits = append(s.commits, c)
		}
	}
	commit(300)
	must(t, db.CompactTables(t.Context()))
	commit(300)
	if seed%2 == 0 { // the log goes to a table of level 0
		must(t, db.Close())
		db, err = kv.Open(dir, &o)
		must(t, err)
	}
	commit(100)
	if s.sealed = seed%4 == 0; s.sealed {
		must(t, db.CompactTables(t.Context()))
		must(t, db.Close())
		db, err = kv.Open(dir, &o) // this removes the tables that are obsolete
		must(t, err)
	}
	if seed%3 == 0 {
		s.files = steadyDir(t, dir) // as after a kill
	}
	must(t, db.Close())
	if s.files == nil {
		s.files = readDir(t, dir)
	}
	s.places(t, dir)
	return s
}

// places finds out where the keys are stored.
func (s *damagedStore) places(t *testing.T, dir string) {
	t.Helper()
	s.stored, s.ids = make(map[string][]byte), make(map[string]uint64)
	o := damageOptions()
	store, err := storage.Open(dir, storage.Options{FS: vfs.Default, ReadOnly: true, MustExist: true, TableCacheSize: 1 << 20, MemTableSize: o.MemTableSize, Logger: o.Logger})
	must(t, err)
	snapshot, _ := store.Snapshot()
	it, err := snapshot.NewIterWithContext(t.Context(), &storage.IterOptions{LowerBound: []byte{format.TagHeader}, UpperBound: []byte{format.TagHeader + 1}})
	must(t, err)
	for ok := it.First(); ok; ok = it.Next() {
		_, key, err := format.DecodeHeaderKey(it.Key())
		must(t, err)
		h, err := format.DecodeHeader(it.Value())
		must(t, err)
		s.stored[string(key)], s.ids[string(key)] = bytes.Clone(it.Key()), h.ID
		if strings.HasSuffix(string(key), "grown") && len(h.Layers) < 2 || h.Hidden != strings.HasPrefix(string(key), "loading") {
			t.Errorf("%q has %d layers, and is hidden: %t", key, len(h.Layers), h.Hidden)
		}
	}
	must(t, it.Close())
	it, err = snapshot.NewIterWithContext(t.Context(), &storage.IterOptions{LowerBound: []byte{format.TagObject}, UpperBound: []byte{format.TagObject + 1}})
	must(t, err)
	items, ofItems := 0, block.AppendItemsOperand(nil, &probe.Layout{Blocks: 1, Lines: 1, Hashes: 1, LinesPerItem: 1}, 0, nil)[0]
	for ok := it.First(); ok; ok = it.Next() {
		if v := it.Value(); len(v) > 0 && v[0] == ofItems {
			items++
		}
	}
	must(t, it.Close())
	if items == 0 {
		t.Error("no items are stored as operands of their own")
	}
	must(t, snapshot.Close())
	store.End(func() bool { return false })
	must(t, store.Close())
}

// wholeKeys returns the keys that are stored outside of what tables have lost.
func (s *damagedStore) wholeKeys(lost []remains.Range) (keys []string) {
	for key, stored := range s.stored {
		id := s.ids[key]
		if check.Overlaps(lost, stored, append(bytes.Clone(stored), 0)) ||
			id != 0 && check.Overlaps(lost, format.AppendObjectKey(nil, id), format.AppendObjectKey(nil, id+1)) {
			continue
		}
		keys = append(keys, key)
	}
	return keys
}

// promised returns the keys that docs/OPERATING.md promises to be recovered, with everything in them, from a store with
// a damaged file of a class.
func (s *damagedStore) promised(t *testing.T, dir, class string, guessed, earlier bool) []string {
	t.Helper()
	switch {
	case guessed, earlier: // no key, or all of an earlier state
		return nil
	case class != ".sst":
		return slices.Collect(maps.Keys(s.stored))
	}
	left, err := remains.Examine(t.Context(), vfs.Default, dir, true)
	must(t, err)
	return s.wholeKeys(left.Lost)
}

func readDir(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files, err := tryReadDir(dir)
	must(t, err)
	return files
}

func tryReadDir(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// steadyDir is readDir for the directory of an open store in which nobody works any more. Pebble may still be removing
// files, so it is read until it is the same twice.
func steadyDir(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	for {
		files, err := tryReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		must(t, err)
		if again, err := tryReadDir(dir); err == nil && maps.EqualFunc(files, again, bytes.Equal) {
			return files
		}
	}
}

func hashesOf(files map[string][]byte) map[string][32]byte {
	sums := make(map[string][32]byte)
	for name, data := range files {
		sums[name] = sha256.Sum256(data)
	}
	return sums
}

// classOf returns what kind of file a file of a store is.
func classOf(name string) string {
	switch {
	case strings.HasPrefix(name, "MANIFEST-"), strings.HasPrefix(name, "OPTIONS-"):
		return name[:8]
	case strings.HasPrefix(name, "marker."):
		return name[:14]
	case strings.Contains(name, "."):
		return filepath.Ext(name)
	}
	return name
}

// damage damages a file of a class, and says what it did.
func (s *damagedStore) damage(t *testing.T, dir string, rng *rand.Rand, class string, way int) string {
	t.Helper()
	var names []string
	for name := range s.files {
		if classOf(name) == class {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	name := names[rng.IntN(len(names))]
	path, data := filepath.Join(dir, name), slices.Clone(s.files[name])
	if len(data) == 0 {
		way = 2
	}
	switch way {
	case 0:
		at, bit := rng.IntN(len(data)), rng.IntN(8)
		data[at] ^= 1 << bit
		must(t, os.WriteFile(path, data, 0o600))
		return fmt.Sprintf("%s: bit %d of byte %d of %d flipped", name, bit, at, len(data))
	case 1:
		n := rng.IntN(len(data))
		must(t, os.WriteFile(path, data[:n], 0o600))
		return fmt.Sprintf("%s: cut to %d of %d bytes", name, n, len(data))
	}
	must(t, os.Remove(path))
	return name + ": removed"
}

// harmless are files that a store can do without, or whose damage cannot always be told. Of logs, those may be damaged
// that are not needed any more.
var harmless = map[string]bool{"LOCK": true, "BALLAST": true, "OPTIONS-": true}

// TestDamage damages one file of a store. A check has to name the damage. A salvage has to recover or to name every
// key, must not change the store, and must recover nothing that is not what was stored: no older string, no deleted one,
// no filter that misses an item.
func TestDamage(t *testing.T) {
	const perStore = 12
	var s *damagedStore
	total, whole := map[string]int{}, map[string]int{}
	for i := range *damages {
		if i%perStore == 0 {
			s = newDamagedStore(t, uint64(i/perStore+1))
			s.sound(t)
		}
		classes := map[string]bool{}
		for name := range s.files {
			classes[classOf(name)] = true
		}
		list := slices.Sorted(maps.Keys(classes))
		rng := rand.New(rand.NewPCG(uint64(i), 2))
		class := list[i%len(list)]
		if i%3 == 2 { // tables and logs have nearly all
			class = []string{".sst", ".log"}[rng.IntN(2)]
		}
		dir := filepath.Join(t.TempDir(), "damaged")
		must(t, os.Mkdir(dir, 0o700))
		for name, data := range s.files {
			must(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
		}
		what := s.damage(t, dir, rng, class, (i/2)%3)
		share, err := s.salvaged(t, dir, class, what)
		if err != nil {
			t.Errorf("store %d, %s: %v", i, what, err)
		}
		t.Logf("%s: %d of %d keys recovered", what, share[0], share[1])
		total[class] += share[1]
		whole[class] += share[0]
	}
	for _, class := range slices.Sorted(maps.Keys(total)) {
		t.Logf("%s: %d of %d keys", class, whole[class], total[class])
	}
}

// isOld reports whether a file is a MANIFEST that is not in use any more, and that was removed.
func isOld(class, what string) bool {
	return class == "MANIFEST" && strings.HasSuffix(what, "removed")
}

// salvaged checks and salvages a damaged store, and returns how many keys were recovered, and how many there were.
func (s *damagedStore) salvaged(t *testing.T, dir, class, what string) (share [2]int, err error) {
	o, ctx := damageOptions(), context.Background()
	before := hashesOf(readDir(t, dir))
	checked, err := salvage.Check(ctx, dir, o, kv.CheckOptions{Deep: true})
	if err != nil {
		return share, fmt.Errorf("check: %w", err)
	}
	strings, items := s.state(len(s.commits))
	keys := len(strings) + len(s.filters)
	share[1] = keys

	to := dir + ".new"
	report, err := salvage.Recover(ctx, dir, to, o, salvage.Options{})
	refused := errors.Is(err, salvage.ErrNotRecovered)
	if err != nil && !refused {
		return share, fmt.Errorf("salvage: %w", err)
	}
	if len(checked.Problems) == 0 && (!harmless[class] && !isOld(class, what) && class != ".log" || !report.Whole()) {
		return share, errors.New("the check has not found the damage")
	}
	if len(report.Lossy) > 0 {
		return share, fmt.Errorf("keys that are not whole were recovered: %v", report.Lossy)
	}
	if !refused {
		if share[0], err = s.verify(t, to, report, strings, items); err != nil {
			return share, err
		}
		for _, key := range s.promised(t, dir, class, report.Guessed, report.Earlier || report.MaybeEarlier) {
			damaged := slices.Concat(report.Left, report.Lossy)
			if i := slices.IndexFunc(damaged, func(k salvage.Key) bool { return k.Key == key }); i >= 0 {
				return share, fmt.Errorf("%q is left out, though all of it is there: %v", key, damaged[i])
			}
		}
	}
	blind := class == "DURABLE" // then nothing is lost, and nothing tells that
	if class != ".sst" && class != ".log" && class != "MANIFEST" && (refused || report.Whole() == blind || report.MaybeEarlier != blind || share[0] != share[1]) {
		return share, fmt.Errorf("%d of %d keys were recovered, though the store can do without the file: %+v", share[0], share[1], report)
	}
	if s.sealed && class == ".log" && (refused || !report.Whole() && !report.Earlier && !report.MaybeEarlier || share[0] != share[1]) {
		return share, fmt.Errorf("%d of %d keys were recovered, though no log has a commit: %+v", share[0], share[1], report)
	}
	report, err = salvage.Recover(ctx, dir, to+".lossy", o, salvage.Options{Lossy: true})
	if err != nil {
		return share, fmt.Errorf("lossy salvage: %w", err)
	}
	right, err := s.verify(t, to+".lossy", report, strings, items)
	if err != nil {
		return share, fmt.Errorf("lossy: %w", err)
	}
	if s.sealed && report.Guessed && right != share[1] {
		return share, fmt.Errorf("lossy: %d of %d keys are right, though all tables are whole", right, share[1])
	}
	if !maps.Equal(before, hashesOf(readDir(t, dir))) {
		return share, errors.New("the damaged store was changed")
	}
	return share, nil
}

// sound fails the test if a check finds something while nothing is damaged.
func (s *damagedStore) sound(t *testing.T) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "sound")
	must(t, os.Mkdir(dir, 0o700))
	for name, data := range s.files {
		must(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	report, err := salvage.Check(t.Context(), dir, damageOptions(), kv.CheckOptions{Deep: true})
	must(t, err)
	must(t, errors.Join(report.Problems...))
}

// state returns what is in the store after n commits.
func (s *damagedStore) state(n int) (values map[string]string, items map[string][]string) {
	values, items = make(map[string]string), make(map[string][]string)
	for _, c := range s.commits[:n] {
		switch {
		case c.filter:
			items[c.key] = append(items[c.key], c.value)
		case c.deleted:
			delete(values, c.key)
		default:
			values[c.key] = c.value
		}
	}
	return values, items
}

// verify compares a recovered store with what was stored, and returns how many of its keys are right.
func (s *damagedStore) verify(t *testing.T, dir string, report *salvage.Report, values map[string]string, items map[string][]string) (n int, err error) {
	o := damageOptions()
	db, err := kv.Open(dir, &o)
	if err != nil {
		return 0, fmt.Errorf("open what was recovered: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	checked, err := db.Check(context.Background())
	if err := errors.Join(err, errors.Join(checked.Problems...)); err != nil {
		return 0, fmt.Errorf("check of what was recovered: %w", err)
	}
	named := make(map[string]bool)
	for _, k := range slices.Concat(report.Left, report.Lossy, report.Loading) {
		named[k.Key] = true
	}
	if report.Earlier || report.Unclosed {
		// It has to be what the store was after some commit.
		var last error
		for n := len(s.commits); n >= 0; n-- {
			values, items = s.state(n)
			unnamed := 0
			_, unnamed, err = s.compare(db, values, items, named, report.Guessed, report.Earlier || report.MaybeEarlier)
			if err == nil && (uint64(unnamed) <= report.Missing || report.Unknown) {
				err = s.changedAfter(n, report.Changed)
				break
			}
			err = cmp.Or(err, fmt.Errorf("%d keys are missing without a word, %d with one", unnamed, report.Missing))
			last = cmp.Or(last, err)
		}
		if err != nil {
			return 0, fmt.Errorf("not an earlier state: %w; it is not the last because %w", err, last)
		}
	}
	right, unnamed, err := s.compare(db, values, items, named, report.Guessed, report.Earlier || report.MaybeEarlier)
	if err == nil && uint64(unnamed) > report.Missing && !report.Unknown {
		err = fmt.Errorf("%d keys are missing without a word, %d with one", unnamed, report.Missing)
	}
	return right, err
}

// changedAfter returns an error if one of the keys was not changed after n commits.
func (s *damagedStore) changedAfter(n int, keys []string) error {
	for _, key := range keys {
		if !slices.ContainsFunc(s.commits[n:], func(c damageCommit) bool { return c.key == key }) {
			return fmt.Errorf("%q is said to be changed by a lost commit", key)
		}
	}
	return nil
}

// compare returns how many keys are right, and how many are missing and not named. Named keys may be wrong.
func (s *damagedStore) compare(db *kv.DB, values map[string]string, items map[string][]string, named map[string]bool, guessed, earlier bool) (right, unnamed int, err error) {
	for i := range 150 {
		key := fmt.Sprint("key ", i)
		want, there := values[key]
		got, err := db.Get([]byte(key))
		found := !errors.Is(err, kv.ErrNotFound)
		switch {
		case found && err != nil:
			return 0, 0, err
		case found && there && string(got) == want:
			right++
			if at, err := db.ExpiryOf([]byte(key)); err != nil || at != damageExpiry(key) {
				return 0, 0, fmt.Errorf("key %q expires at %d, want %d: %v", key, at, damageExpiry(key), err)
			}
		case named[key], guessed:
		case found:
			return 0, 0, fmt.Errorf("key %q is %.20q, want %.20q", key, got, want)
		case there:
			unnamed++
		}
	}
	for _, key := range s.loading {
		if kind, err := db.TypeOf([]byte(key)); err != nil || kind != "none" {
			return 0, 0, fmt.Errorf("%q is a %s, though it was half-loaded: %v", key, kind, err)
		}
		if !named[key] && !guessed {
			unnamed++
		}
	}
	for _, key := range s.filters {
		missing := 0
		_, err := damageFilterOf(db, key).MayContain(nil)
		if errors.Is(err, kv.ErrNotFound) {
			if !named[key] && !guessed {
				unnamed++
			}
			continue
		}
		for _, item := range items[key] {
			found, err := damageFilterOf(db, key).MayContain([]byte(item))
			if err != nil {
				return 0, 0, err
			}
			if !found {
				missing++
			}
		}
		if at, err := db.ExpiryOf([]byte(key)); !named[key] && !guessed && (err != nil || at != damageExpiry(key)) {
			return 0, 0, fmt.Errorf("filter %q expires at %d, want %d: %v", key, at, damageExpiry(key), err)
		}
		marked, err := lossy(db, key)
		switch {
		case err != nil:
			return 0, 0, err
		case marked != (named[key] || guessed || earlier && !strings.HasPrefix(key, "bitmap")): // strings of an earlier state are right
			return 0, 0, fmt.Errorf("filter %q: marked %t, named %t", key, marked, named[key])
		case missing > 0 && !named[key] && !guessed:
			return 0, 0, fmt.Errorf("filter %q misses %d items", key, missing)
		case missing == 0:
			right++
		}
	}
	return right, unnamed, nil
}

// lossy reports whether a filter is marked.
func lossy(db *kv.DB, key string) (marked bool, err error) {
	err = db.Read(func(r kv.Reader) error {
		o, err := r.Lookup([]byte(key))
		marked = err == nil && o != nil && o.Lossy()
		return err
	})
	return marked, err
}
