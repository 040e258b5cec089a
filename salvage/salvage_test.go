package salvage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/freeze"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/internal/storage/remains"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/portable"
	"github.com/sievekv/sievekv/salvage"
)

func options() kv.Options {
	return kv.Options{
		BallastSize: -1, Logger: slog.New(slog.DiscardHandler), Modules: module.New(sievekv.Modules()...),
	}
}

func check(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, dir string) *sievekv.DB {
	t.Helper()
	db, err := sievekv.Open(dir, &sievekv.Options{BallastSize: -1, Logger: slog.New(slog.DiscardHandler)})
	check(t, err)
	return db
}

// flip flips a bit in the middle of the newest table.
func flip(t *testing.T, dir string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	check(t, err)
	slices.Sort(names)
	name := names[len(names)-1]
	b, err := os.ReadFile(name)
	check(t, err)
	b[len(b)/2] ^= 1
	check(t, os.WriteFile(name, b, 0o600))
}

// damaged makes a store with filters of every type in one table, and flips a bit in the table.
func damaged(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	bloom, counting := db.Bloom("bloom"), db.Counting("counting")
	check(t, bloom.Reserve(sievekv.Capacity(100_000, 0.001), nil),
		counting.Reserve(sievekv.Capacity(10_000, 0.01), nil), db.Set("name", []byte("alice")))
	var items []string
	for i := range 100_000 {
		items = append(items, string(rune('a'+i%26))+strings.Repeat("x", i%7)+string(rune(i)))
	}
	_, err := bloom.AddManyString(items, nil)
	check(t, err)
	check(t, db.Store().CompactTables(t.Context()), db.Close())
	flip(t, dir)
	return dir
}

func do(t *testing.T, db *sievekv.DB, line string) string {
	t.Helper()
	var words [][]byte
	for _, w := range strings.Fields(line) {
		words = append(words, []byte(w))
	}
	return string(reply.AppendText(nil, module.NewSession(db.Store()).Do(context.Background(), words)))
}

// A filter that is half-loaded is left out and named, until it has expired. That is no loss.
func TestRecover_loading(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	session := module.NewSession(db.Store())
	for _, family := range []string{"BF", "CF"} {
		header := []byte(nil)
		for _, words := range [][]string{{"ADD", "source " + family, "x"}, {"SCANDUMP", "source " + family, "0"}, {"LOADCHUNK", "loading " + family, "1"}} {
			words[0] = family + "." + words[0]
			args := [][]byte{}
			for _, w := range words {
				args = append(args, []byte(w))
			}
			if words[2] == "1" {
				args = append(args, header)
			}
			r := session.Do(t.Context(), args)
			check(t, r.Err())
			if words[2] == "0" {
				header = r.Elems()[1].Bytes()
			}
		}
	}
	check(t, db.Close())
	report, err := salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{})
	check(t, err)
	slices.SortFunc(report.Loading, func(a, b salvage.Key) int { return strings.Compare(a.Key, b.Key) })
	if got := fmt.Sprint(report.Loading); got != "[{loading BF MBbloom-- []} {loading CF MBbloomCF []}]" || report.Recovered != 2 || !report.Whole() {
		t.Errorf("%+v", report)
	}
	later := options()
	later.Clock = func() time.Time { return time.Now().Add(2 * time.Hour) } // longer than a filter waits for more
	report, err = salvage.Recover(t.Context(), dir, dir+".later", later, salvage.Options{})
	check(t, err)
	if len(report.Loading) > 0 || report.Recovered != 2 {
		t.Errorf("%+v", report)
	}
}

// TestRecover_mark recovers a filter with losses, and looks at its mark and its copies' marks.
func TestRecover_mark(t *testing.T) {
	dir := damaged(t)
	whole, lossy := dir+".whole", dir+".lossy"
	report, err := salvage.Recover(t.Context(), dir, whole, options(), salvage.Options{})
	check(t, err)
	if report.Recovered != 2 || len(report.Left) != 1 || report.Left[0].Key != "bloom" || len(report.Damage) != 1 {
		t.Fatalf("%+v", report)
	}
	report, err = salvage.Recover(t.Context(), dir, lossy, options(), salvage.Options{Lossy: true})
	check(t, err)
	if report.Recovered != 3 || len(report.Left) != 0 || len(report.Lossy) != 1 || report.Lossy[0].Key != "bloom" {
		t.Fatalf("%+v", report)
	}
	db := open(t, lossy)
	for _, line := range []string{
		"COPY bloom copied", "RENAME bloom moved", "BF.MERGE merged moved", "PEXPIRE merged 100000000", "PERSIST merged",
	} {
		if got := do(t, db, line); strings.HasPrefix(got, "(error)") {
			t.Fatal(line, got)
		}
	}
	check(t, db.Close())
	db = open(t, lossy)
	defer db.Close()
	for _, key := range []string{"copied", "moved", "merged"} {
		info, err := db.Bloom(key).Info()
		check(t, err)
		if !info.Lossy || !strings.Contains(do(t, db, "BF.INFO "+key), "Lossy") || !strings.Contains(do(t, db, "SIEVE.STATS "+key), "lossy") {
			t.Errorf("%s is not marked: %+v, %s", key, info, do(t, db, "BF.INFO "+key))
		}
	}
	info, err := db.Counting("counting").Info()
	check(t, err)
	if info.Lossy || strings.Contains(do(t, db, "CBF.INFO counting"), "Lossy") {
		t.Error("a whole filter is marked")
	}
	if got := do(t, db, "BF.RESERVE moved2 0.01 100"); got != "OK\n" {
		t.Error(got)
	}
	if info, err = db.Counting("counting").Info(); err != nil || info.Lossy {
		t.Error(info, err)
	}
}

// INFO and stats of filters of every type and layout tell that they were recovered with losses.
func TestRecover_markTypes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	families := map[string]string{"bloom": "BF", "cuckoo": "CF", "counting": "CBF", "bloom compatible": "BF", "cuckoo compatible": "CF"}
	check(t, db.Bloom("bloom compatible").Reserve(sievekv.Capacity(100, 0.01), &sievekv.BloomConfig{Layout: sievekv.LayoutCompatible}),
		db.Cuckoo("cuckoo compatible").Reserve(sievekv.Capacity(100, 0), &sievekv.CuckooConfig{Layout: sievekv.LayoutCompatible}))
	words := func(db *sievekv.DB, words ...string) string {
		args := [][]byte{}
		for _, w := range words {
			args = append(args, []byte(w))
		}
		return string(reply.AppendText(nil, module.NewSession(db.Store()).Do(t.Context(), args)))
	}
	tell := func(db *sievekv.DB, key, family string) []bool {
		return []bool{
			strings.Contains(words(db, family+".INFO", key), "Lossy"), strings.Contains(words(db, family+".EXISTS", key, "x"), "1"),
			strings.Contains(words(db, "SIEVE.STATS", key), "lossy"),
		}
	}
	for key, family := range families {
		words(db, family+".ADD", key, "x")
		if got := tell(db, key, family); !slices.Equal(got, []bool{false, true, false}) {
			t.Errorf("%s, while it is whole: %v", key, got)
		}
	}
	check(t, db.Store().CompactTables(t.Context()), db.Close())
	manifests, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	check(t, err)
	for _, name := range manifests {
		check(t, os.Remove(name))
	}
	report, err := salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{Lossy: true})
	check(t, err)
	if len(report.Lossy) != len(families) {
		t.Fatalf("%+v", report)
	}
	db = open(t, dir+".new")
	defer db.Close()
	for key, family := range families {
		if got := tell(db, key, family); !slices.Equal(got, []bool{true, true, true}) {
			t.Errorf("%s: %v", key, got)
		}
	}
}

// TestRecover_refused has a target that exists, and no store.
func TestRecover_refused(t *testing.T) {
	dir := damaged(t)
	if _, err := salvage.Recover(t.Context(), dir, t.TempDir(), options(), salvage.Options{}); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if _, err := salvage.Recover(t.Context(), t.TempDir(), dir+".new", options(), salvage.Options{}); !errors.Is(err, kv.ErrNotExist) {
		t.Error(err)
	}
	db, err := kv.Open(dir, &kv.Options{BallastSize: -1, Logger: slog.New(slog.DiscardHandler)})
	check(t, err)
	if _, err := salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{}); !errors.Is(err, kv.ErrLocked) {
		t.Error(err)
	}
	check(t, db.Close())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := salvage.Recover(ctx, dir, dir+".new", options(), salvage.Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if names, err := filepath.Glob(dir + ".new*"); err != nil || len(names) > 0 {
		t.Error(names, err)
	}
}

// TestRecover_partial salvages a store beside directories that a name of what is not yet whole must not meet.
func TestRecover_partial(t *testing.T) {
	dir := damaged(t)
	to := filepath.Join(filepath.Dir(dir), "new", "store")
	check(t, os.MkdirAll(filepath.Dir(to), 0o700), os.Rename(dir, to+".partial"))
	report, err := salvage.Recover(t.Context(), to+".partial", to, options(), salvage.Options{})
	check(t, err)
	if report.Recovered != 2 {
		t.Errorf("%+v", report)
	}
	report, err = salvage.Recover(t.Context(), to+".partial", filepath.Join(to+"-more", "store"), options(), salvage.Options{})
	check(t, err) // the damaged store is still there, and parents are made
	if report.Recovered != 2 {
		t.Errorf("%+v", report)
	}
	names, err := filepath.Glob(to + "*")
	check(t, err)
	if len(names) != 3 {
		t.Errorf("%q", names)
	}
}

// TestCheck_repairDamaged lets a check repair a store that has lost a part: nothing is changed.
func TestCheck_repairDamaged(t *testing.T) {
	dir := damaged(t)
	read := func() (files []string) {
		entries, err := os.ReadDir(dir)
		check(t, err)
		for _, e := range entries {
			b, err := os.ReadFile(filepath.Join(dir, e.Name()))
			check(t, err)
			files = append(files, e.Name()+string(b))
		}
		return files
	}
	before := read()
	report, err := salvage.Check(t.Context(), dir, options(), kv.CheckOptions{Repair: true})
	check(t, err)
	if len(report.Problems) == 0 || len(report.Repaired) > 0 || !slices.ContainsFunc(report.Notes, func(n string) bool { return strings.HasPrefix(n, "nothing was repaired") }) {
		t.Errorf("%+v", report)
	}
	if !slices.Equal(before, read()) {
		t.Error("the store was changed")
	}
}

// TestCheck_same has damage reported in the same way by a check, a deep one and a repair.
func TestCheck_same(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "store")
	db := open(t, whole)
	fill := func(from, to int) {
		for i := from; i < to; i++ {
			check(t, db.Set(strconv.Itoa(i), bytes.Repeat([]byte{byte(i)}, 1000)))
		}
	}
	fill(0, 100)
	check(t, db.Store().CompactTables(t.Context()), db.Close())
	db = open(t, whole)
	fill(0, 20) // in the log, so newer than in the table
	check(t, db.Close())
	damage := func(pattern string, change func([]byte) []byte) func(dir string) {
		return func(dir string) {
			names, err := filepath.Glob(filepath.Join(dir, pattern))
			check(t, err)
			b, err := os.ReadFile(names[0])
			check(t, err, os.WriteFile(names[0], change(b), 0o600))
		}
	}
	flipped := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	for _, tt := range []struct {
		name, repaired string
		damage         func(dir string)
	}{
		{name: "table", damage: func(dir string) { flip(t, dir) }},
		{name: "log", damage: damage("*.log", flipped)},
		{name: "options", damage: damage("OPTIONS-*", func(b []byte) []byte { return append(b, "  x=1\n"...) }), repaired: "OPTIONS-"},
		{name: "seal", damage: damage("SEAL", flipped)},
		{name: "old MANIFEST", damage: damage("MANIFEST-*", flipped), repaired: "it is not in use any more"},
	} {
		var first string
		for _, o := range []kv.CheckOptions{{}, {Deep: true}, {Repair: true}} {
			dir := filepath.Join(t.TempDir(), "store")
			check(t, os.CopyFS(dir, os.DirFS(whole)))
			tt.damage(dir)
			report, err := salvage.Check(t.Context(), dir, options(), o)
			check(t, err)
			found := fmt.Sprint(report.Keys, report.Blocks, report.Problems, report.Damaged)
			if first == "" {
				first = found
			}
			if len(report.Problems) == 0 || found != first {
				t.Errorf("%s, %+v: %s, want %s", tt.name, o, found, first)
			}
			if !o.Repair {
				continue
			}
			again, err := salvage.Check(t.Context(), dir, options(), kv.CheckOptions{})
			check(t, err)
			if mended := len(again.Problems) == 0; mended != (tt.repaired != "") || !strings.Contains(fmt.Sprint(report.Repaired), tt.repaired) || mended == notes(report, "nothing was repaired") {
				t.Errorf("%s: repaired %q, notes %q, then %v", tt.name, report.Repaired, report.Notes, again.Problems)
			}
		}
	}
}

// TestCheck_manifest checks a store that does not open.
func TestCheck_manifest(t *testing.T) {
	dir := damaged(t)
	names, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	check(t, err)
	for _, name := range names {
		check(t, os.Remove(name))
	}
	report, err := salvage.Check(t.Context(), dir, options(), kv.CheckOptions{})
	check(t, err)
	if len(report.Problems) == 0 || !strings.Contains(report.Problems[0].Error(), "MANIFEST-") || !notes(report, "no key is known to be whole") {
		t.Errorf("%+v", report)
	}
	_, err = salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{})
	if !errors.Is(err, salvage.ErrNotRecovered) {
		t.Error(err)
	}
	recovered, err := salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{Lossy: true})
	check(t, err)
	if !recovered.Guessed || recovered.Recovered != 3 || len(recovered.Lossy) != 3 {
		t.Errorf("%+v", recovered)
	}
}

// A MANIFEST that is cut, or in which a bit was flipped, is believed nowhere, also if it ends with a whole record.
func TestCheck_manifestCut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	for i := range 3 {
		check(t, db.Set(fmt.Sprint("key ", i), []byte("value")), db.Store().CompactTables(t.Context()))
	}
	check(t, db.Close())
	seals, err := freeze.ReadSeal(vfs.Default, dir)
	check(t, err)
	sealed := seals[len(seals)-1]
	name := filepath.Join(dir, fmt.Sprintf("MANIFEST-%06d", sealed.Number))
	whole, err := os.ReadFile(name)
	check(t, err)
	guessed := func(data []byte) bool {
		t.Helper()
		check(t, os.WriteFile(name, data, 0o600))
		left, err := remains.Examine(t.Context(), vfs.Default, dir, true)
		check(t, err)
		return left.Guessed
	}
	if guessed(whole) {
		t.Fatal("a whole MANIFEST is not believed")
	}
	for n := range sealed.Length {
		if !guessed(whole[:n]) {
			t.Errorf("a MANIFEST that is cut to %d of %d bytes is believed", n, len(whole))
		}
		flipped := bytes.Clone(whole)
		flipped[n] ^= 1
		if !guessed(flipped) {
			t.Errorf("a MANIFEST with another byte %d of %d is believed", n, len(whole))
		}
	}
}

// TestRecover_manifestCompacted has a store without its MANIFEST, in which the sequences of all that is stored are
// zero. So the log alone tells how far the store had come.
func TestRecover_manifestCompacted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	check(t, db.Bloom("bloom").Reserve(sievekv.Capacity(100, 0.01), nil))
	_, err := db.Bloom("bloom").AddString("alice")
	check(t, err, db.Set("name", []byte("alice")))
	check(t, db.Close())
	db = open(t, dir) // now nothing but a table has what was written
	check(t, db.Store().CompactTables(t.Context()), db.Close())
	names, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	check(t, err)
	for _, name := range names {
		check(t, os.Remove(name))
	}
	report, err := salvage.Check(t.Context(), dir, options(), kv.CheckOptions{})
	check(t, err)
	if len(report.Problems) != 1 || !strings.Contains(report.Problems[0].Error(), "MANIFEST-") {
		t.Errorf("%+v", report)
	}
	if _, err := salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{}); !errors.Is(err, salvage.ErrNotRecovered) {
		t.Error(err)
	}
	recovered, err := salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{Lossy: true})
	check(t, err)
	if !recovered.Guessed || recovered.Earlier || recovered.Recovered != 2 {
		t.Errorf("%+v", recovered)
	}
	db = open(t, dir+".new")
	defer db.Close()
	if found, err := db.Bloom("bloom").MayContainString("alice"); !found || err != nil {
		t.Error(found, err)
	}
}

// corruptLog flips a bit at the beginning of the log, which has the names of keys behind that. It returns the store, in which some
// keys were there before, to expire in an hour.
func corruptLog(t *testing.T, before ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	check(t, db.Bloom("bloom").Reserve(sievekv.Capacity(1000, 0.01), nil))
	for _, key := range before {
		_, err := db.SetWith(key, []byte("x"), sievekv.SetOptions{ExpireAt: time.Now().Add(time.Hour)})
		check(t, err)
	}
	check(t, db.Close())
	loseCommits(t, dir, func(db *sievekv.DB) error {
		_, err := db.Bloom("bloom").AddString("alice")
		return err
	})
	return dir
}

// loseCommits writes a hundred keys, and what f does, to a log, and flips a bit at its beginning.
func loseCommits(t *testing.T, dir string, f func(db *sievekv.DB) error) {
	t.Helper()
	db := open(t, dir)
	for i := range 100 {
		check(t, db.Set("key "+strconv.Itoa(i), make([]byte, 1000)))
	}
	check(t, f(db), db.Close())
	name, b := last(dir, "*.log")
	b[500] ^= 1
	check(t, os.WriteFile(name, b, 0o600))
}

// TestRecover_earlier recovers an earlier state. Its filters may miss items, so all are marked. What can be read behind
// the damage is told.
func TestRecover_earlier(t *testing.T) {
	dir := corruptLog(t, "key 99")
	report, err := salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{})
	check(t, err)
	if !report.Earlier || report.Whole() || report.Recovered != 2 || !slices.Contains(report.Changed, "bloom") ||
		!slices.Contains(report.Changed, "key 1") || !slices.Contains(report.Changed, "key 99") || slices.Contains(report.Changed, "key 0") {
		t.Errorf("%+v", report)
	}
	checked, err := salvage.Check(t.Context(), dir, options(), kv.CheckOptions{})
	check(t, err)
	if got := fmt.Sprint(checked.Damaged); len(checked.Problems) == 0 || !strings.HasPrefix(got, "[{bloom MBbloom-- [changes by commits that are lost]} {key 1  [") ||
		!strings.HasSuffix(got, " {key 99 string [changes by commits that are lost]}]") || len(checked.Damaged) != len(report.Changed) {
		t.Errorf("%v, damaged %s", checked.Problems, got)
	}
	db := open(t, dir+".new")
	defer db.Close()
	if info, err := db.Bloom("bloom").Info(); err != nil || !info.Lossy {
		t.Errorf("%+v, %v", info, err)
	}
}

// TestRecover_noLog removes a log that has commits, and one that has none.
func TestRecover_noLog(t *testing.T) {
	dir := corruptLog(t)
	remove := func() {
		names, err := filepath.Glob(filepath.Join(dir, "*.log"))
		check(t, err)
		for _, name := range names {
			check(t, os.Remove(name))
		}
	}
	remove()
	report, err := salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{})
	check(t, err)
	if !report.Earlier || report.Whole() {
		t.Errorf("%+v", report)
	}
	dir += ".new"
	db := open(t, dir)
	check(t, db.Set("name", []byte("alice")), db.Close())
	db = open(t, dir)
	check(t, db.Close())
	remove()
	report, err = salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{})
	check(t, err)
	if report.Earlier || !report.MaybeEarlier || !report.Unclosed || report.Whole() || len(report.Damage) != 1 || report.Recovered != 2 {
		t.Errorf("%+v", report)
	}
}

// TestRecover_note has a key whose note of its expiry is lost. The header tells the same.
func TestRecover_note(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	at := time.Now().Add(time.Hour)
	_, err := db.SetWith("name", []byte("alice"), sievekv.SetOptions{ExpireAt: at})
	check(t, err, db.Close())
	p, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Merger: &pebble.Merger{Name: block.MergerName}, Logger: silent{}})
	check(t, err)
	check(t, p.DeleteRange([]byte{format.TagExpiry}, []byte{format.TagExpiry + 1}, pebble.Sync), p.Close())
	check(t, os.Remove(filepath.Join(dir, "SEAL"))) // it is not of this MANIFEST, and a store can do without it
	report, err := salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{})
	check(t, err)
	if report.Recovered != 1 || len(report.Left) > 0 || !report.Whole() {
		t.Errorf("%+v", report)
	}
	db = open(t, dir+".new")
	defer db.Close()
	if left, err := db.TTL("name"); err != nil || left <= 0 {
		t.Error(left, err)
	}
	if r, err := db.Store().Check(t.Context()); err != nil || len(r.Problems) > 0 {
		t.Error(r, err)
	}
}

type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(string, ...any) {}

// Keys whose headers are lost are named where notes of when they expire have their names.
func TestRecover_headerless(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	const keys = 300
	for i := range keys {
		_, err := db.SetWith(fmt.Sprint("key ", i), make([]byte, 300), sievekv.SetOptions{ExpireAt: time.Now().Add(time.Hour)})
		check(t, err)
	}
	check(t, db.Store().CompactTables(t.Context()), db.Close())
	flip(t, dir)
	report, err := salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{})
	check(t, err)
	if report.Recovered == 0 || report.Recovered == keys || len(report.Left) != keys-int(report.Recovered) {
		t.Errorf("%d keys recovered, %d left out, of %d", report.Recovered, len(report.Left), keys)
	}
	db = open(t, dir+".new")
	defer db.Close()
	for _, k := range report.Left {
		if _, err := db.Get(k.Key); !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("%q, which was left out: %v", k.Key, err)
		}
	}
}

// TestRecover_export exports a filter that was recovered with losses, and imports it: it stays marked.
func TestRecover_export(t *testing.T) {
	dir := damaged(t)
	_, err := salvage.Recover(t.Context(), dir, dir+".lossy", options(), salvage.Options{Lossy: true})
	check(t, err)
	db := open(t, dir+".lossy")
	defer db.Close()
	var file bytes.Buffer
	check(t, db.Export(t.Context(), "bloom", &file))
	info, err := portable.Describe(t.Context(), bytes.NewReader(file.Bytes()))
	check(t, err)
	if !strings.Contains(info.Note, "lossy") {
		t.Errorf("%+v", info)
	}
	check(t, db.Import(t.Context(), "imported", &file))
	if info, err := db.Bloom("imported").Info(); err != nil || !info.Lossy {
		t.Errorf("%+v, %v", info, err)
	}
}

// TestCheck_unmarked has a store without the marker of its MANIFEST. It is damaged, and not missing.
func TestCheck_unmarked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	check(t, db.Set("name", []byte("alice")), db.Close())
	names, err := filepath.Glob(filepath.Join(dir, "marker.manifest.*"))
	check(t, err)
	for _, name := range names {
		check(t, os.Remove(name))
	}
	for _, readOnly := range []bool{false, true} {
		o := options()
		o.ReadOnly = readOnly
		if _, err := kv.Open(dir, &o); !errors.Is(err, kv.ErrCorrupt) || errors.Is(err, kv.ErrNotExist) {
			t.Errorf("read-only %t: %v", readOnly, err)
		}
	}
	report, err := salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{})
	check(t, err)
	if !report.Whole() || report.Recovered != 1 {
		t.Errorf("%+v", report)
	}
}

// notes reports whether one of the notes has a text.
func notes(r *kv.CheckReport, text string) bool {
	return slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, text) })
}

// A check says that a store has lost its sidecar, and mends nothing then. Opening writes one again.
func TestCheck_sidecar(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	name := filepath.Join(dir, "DURABLE")
	young, err := os.ReadFile(name) // of a store that has just been made
	check(t, err, db.Set("name", []byte("alice")), db.Close())
	closed, err := os.ReadFile(name)
	check(t, err)
	for text, data := range map[string][]byte{"": closed, "DURABLE is missing": nil} {
		check(t, os.WriteFile(name, data, 0o600))
		if data == nil {
			check(t, os.Remove(name))
		}
		for _, repair := range []bool{false, true} {
			report, err := salvage.Check(t.Context(), dir, options(), kv.CheckOptions{Repair: repair})
			check(t, err)
			found := fmt.Sprint(report.Problems)
			if (len(report.Problems) > 0) != (text != "") || !strings.Contains(found, text) || notes(report, "nothing was repaired") != (repair && text != "") {
				t.Errorf("%q, repair %t: %+v", text, repair, report)
			}
		}
	}
	check(t, os.RemoveAll(name), open(t, dir).Close())
	again, err := os.ReadFile(name)
	check(t, err)
	if bytes.Equal(young, closed) || bytes.Equal(young, again) {
		t.Errorf("%x of a new store, %x when it was closed, %x when it was opened without", young, closed, again)
	}
}

// A store that has lost its sidecar may have lost the end of its log too, whole or cut, and nothing tells. So all filters are
// marked, and the report says why.
func TestRecover_sidecar(t *testing.T) {
	from := filepath.Join(t.TempDir(), "store")
	db := open(t, from)
	check(t, db.Bloom("bloom").Reserve(sievekv.Capacity(1000, 0.01), nil), db.Close())
	db = open(t, from)
	for i := range 50 {
		_, err := db.Bloom("bloom").AddString(strconv.Itoa(i))
		check(t, err)
	}
	check(t, db.Close())
	other := filepath.Join(t.TempDir(), "other")
	check(t, open(t, other).Close())
	another, err := os.ReadFile(filepath.Join(other, "DURABLE"))
	check(t, err)
	sidecars := map[string]func(name string, data []byte) error{
		"missing":   func(name string, _ []byte) error { return os.Remove(name) },
		"flipped":   func(name string, data []byte) error { data[9] ^= 4; return os.WriteFile(name, data, 0o600) },
		"another's": func(name string, _ []byte) error { return os.WriteFile(name, another, 0o600) },
	}
	logs := map[string]func(name string, data []byte) error{
		"whole":   func(string, []byte) error { return nil },
		"cut":     func(name string, data []byte) error { return os.WriteFile(name, data[:len(data)/2], 0o600) },
		"removed": func(name string, _ []byte) error { return os.Remove(name) },
	}
	for sidecar, damage := range sidecars {
		for log, lose := range logs {
			t.Run(sidecar+" "+log, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "store")
				check(t, os.CopyFS(dir, os.DirFS(from)))
				names, err := filepath.Glob(filepath.Join(dir, "*.log"))
				check(t, err)
				slices.Sort(names)
				for name, f := range map[string]func(string, []byte) error{filepath.Join(dir, "DURABLE"): damage, names[len(names)-1]: lose} {
					data, err := os.ReadFile(name)
					check(t, err, f(name, data))
				}
				report, err := salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{})
				check(t, err)
				if report.Whole() || report.Earlier == report.MaybeEarlier || report.Earlier && log != "removed" || report.Recovered != 1 {
					t.Errorf("%+v", report)
				}
				db := open(t, dir+".new")
				defer db.Close()
				info, err := db.Bloom("bloom").Info()
				if err != nil || !info.Lossy || info.Items == 50 != (log == "whole") {
					t.Errorf("%+v, %v", info, err)
				}
			})
		}
	}
}

// TestCheck_readOnly has a repair refused that is given options of a store that nothing may change.
func TestCheck_readOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	check(t, open(t, dir).Close())
	o := options()
	o.ReadOnly = true
	if _, err := salvage.Check(t.Context(), dir, o, kv.CheckOptions{Repair: true}); !errors.Is(err, kv.ErrReadOnly) {
		t.Error(err)
	}
	report, err := salvage.Check(t.Context(), dir, o, kv.CheckOptions{})
	if err != nil || len(report.Problems) > 0 {
		t.Error(report, err)
	}
}

// TestCheck_metadata has a store that does not open because a block of a table is damaged that opening reads. A check that does
// not read all tables finds it all the same.
func TestCheck_metadata(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	check(t, db.Set("name", []byte("alice")), db.Store().CompactTables(t.Context()), db.Close())
	names, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	check(t, err)
	for _, name := range names {
		b, err := os.ReadFile(name)
		check(t, err)
		b[20] ^= 1
		check(t, os.WriteFile(name, b, 0o600))
	}
	if _, err := sievekv.Open(dir, &sievekv.Options{BallastSize: -1, Logger: slog.New(slog.DiscardHandler)}); !errors.Is(err, kv.ErrCorrupt) {
		t.Fatal(err)
	}
	for _, repair := range []bool{false, true} {
		report, err := salvage.Check(t.Context(), dir, options(), kv.CheckOptions{Repair: repair})
		check(t, err)
		if len(report.Problems) == 0 || !strings.Contains(report.Problems[0].Error(), "wrong checksum") {
			t.Errorf("%+v", report)
		}
	}
}
