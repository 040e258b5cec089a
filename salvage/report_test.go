package salvage_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/salvage"
)

// Whole means that there is nothing at all of what a report can have.
func TestReport_Whole(t *testing.T) {
	if r := (&salvage.Report{Damage: []string{"SEAL is missing"}, Recovered: 1, Unclosed: true, Loading: make([]salvage.Key, 1)}); !r.Whole() {
		t.Errorf("%+v is not whole", r)
	}
	for _, r := range []salvage.Report{
		{Lossy: make([]salvage.Key, 1)}, {Left: make([]salvage.Key, 1)}, {Missing: 1}, {Unknown: true}, {Earlier: true}, {MaybeEarlier: true}, {Guessed: true},
	} {
		if r.Whole() {
			t.Errorf("%+v is whole", r)
		}
	}
}

// inPebble changes a store that is closed.
func inPebble(t *testing.T, dir string, change func(p *pebble.DB)) {
	t.Helper()
	p, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Merger: &pebble.Merger{Name: block.MergerName}, Logger: silent{}})
	check(t, err)
	change(p)
	check(t, p.Close(), os.Remove(filepath.Join(dir, "SEAL"))) // it is not of this MANIFEST, and a store can do without it
}

// A block that cannot be read leaves no zeros in a copy, unless it may be lossy.
func TestCopy_badBlock(t *testing.T) {
	dir, _ := badBlock(t)
	o := options()
	from, err := kv.Open(dir, &o)
	check(t, err)
	o = options()
	o.InMemory = true
	to, err := kv.Open("", &o)
	check(t, err)
	if err := salvage.Copy(t.Context(), from, to, "bloom", false); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("%v", err)
	}
	check(t, salvage.Copy(t.Context(), from, to, "bloom", true), from.Close(), to.Close())
}

// A string in blocks that may be an earlier one has no mark.
func TestRecover_earlierBitmap(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	_, err := db.Bitmap("bitmap").Set(90_000_000)
	check(t, err, db.Bloom("bloom").Reserve(sievekv.Capacity(100, 0.01), nil), db.Close())
	loseCommits(t, dir, func(*sievekv.DB) error { return nil })
	report, err := salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{})
	check(t, err)
	if !report.Earlier {
		t.Errorf("%+v", report)
	}
	db = open(t, dir+".new")
	defer db.Close()
	check(t, db.Store().Read(func(r kv.Reader) error {
		for key, marked := range map[string]bool{"bitmap": false, "bloom": true} {
			o, err := r.Lookup([]byte(key))
			check(t, err)
			if h := o.Header(); h.Lossy != marked || h.ID == 0 {
				t.Errorf("%s: %+v", key, h)
			}
		}
		return nil
	}))
}

// A check of no store, and one that finds nothing wrong, look once.
func TestCheck_once(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	for _, o := range []kv.CheckOptions{{}, {Deep: true}, {Repair: true}} {
		if _, err := salvage.Check(t.Context(), dir, options(), o); !errors.Is(err, kv.ErrNotExist) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A repair says what it has mended, and what it has not.
func TestCheck_repair(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	_, err := db.SetWith("name", []byte("alice"), sievekv.SetOptions{ExpireAt: time.Now().Add(time.Hour)})
	check(t, err, db.Store().CompactTables(t.Context()), db.Close())
	inPebble(t, dir, func(p *pebble.DB) {
		check(t, p.DeleteRange([]byte{format.TagExpiry}, []byte{format.TagExpiry + 1}, pebble.Sync))
	})
	report, err := salvage.Check(t.Context(), dir, options(), kv.CheckOptions{Repair: true})
	check(t, err)
	repaired := strings.Join(report.Repaired, "\n")
	if len(report.Problems) == 0 || len(report.Repaired) != 2 || !strings.Contains(repaired, `key "name"`) || !strings.Contains(repaired, "SEAL is missing: mended by opening the store") {
		t.Errorf("%+v", report)
	}
	if report, err = salvage.Check(t.Context(), dir, options(), kv.CheckOptions{}); err != nil || len(report.Problems) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
	for what, tt := range map[string]func() string{
		"an end that is lost": func() string { return corruptLog(t) },
		"no MANIFEST": func() string {
			dir := expiring(t)
			names, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
			check(t, err)
			for _, name := range names {
				check(t, os.Remove(name))
			}
			return dir
		},
	} {
		report, err := salvage.Check(t.Context(), tt(), options(), kv.CheckOptions{Repair: true})
		if err != nil || !notes(report, "nothing was repaired, as some of the store is lost") || len(report.Repaired) > 0 {
			t.Errorf("%s: %+v, %v", what, report, err)
		}
	}
}

// What an archive that was not finished has left is told.
func TestCheck_archive(t *testing.T) {
	dir := expiring(t)
	const name = "archive.partial-0123abcd"
	check(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	report, err := salvage.Check(t.Context(), dir, options(), kv.CheckOptions{})
	check(t, err)
	if !notes(report, name+" was left by an archive") || len(report.Problems) > 0 {
		t.Errorf("%+v", report)
	}
}

// Damage in a table and in the log are told together, also by a check that does not read all tables at first.
func TestCheck_tableAndLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	for i := range 300 {
		check(t, db.Set(fmt.Sprint("old ", i), make([]byte, 300)))
	}
	check(t, db.Store().CompactTables(t.Context()), db.Close())
	loseCommits(t, dir, func(*sievekv.DB) error { return nil })
	flip(t, dir)
	report, err := salvage.Check(t.Context(), dir, options(), kv.CheckOptions{})
	check(t, err)
	if found := fmt.Sprint(report.Problems); !strings.Contains(found, ".sst ") || !strings.Contains(found, ".log ") {
		t.Errorf("%s", found)
	}
}

// No keys are missing if the number of keys is lost, and none are if it is too low.
func TestRecover_counts(t *testing.T) {
	dir := expiring(t)
	check(t, func() error {
		db := open(t, dir)
		return errors.Join(db.Store().CompactTables(t.Context()), db.Close())
	}())
	inPebble(t, dir, func(p *pebble.DB) {
		low := format.AppendMetaKey(nil, format.MetaKeys)
		check(t, p.DeleteRange(low, format.AppendMetaKey(nil, format.MetaKeys+1), pebble.Sync))
	})
	report, err := salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{})
	check(t, err)
	if report.Recovered != 2 || report.Missing != 0 || report.Unknown {
		t.Errorf("%+v", report)
	}
}

// A filter whose note of when it is to be compacted is lost is whole.
func TestRecover_wakeNote(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	check(t, db.Bloom("bloom").Reserve(sievekv.Window(time.Hour, 100, 0.01), nil))
	_, err := db.Bloom("bloom").AddString("x")
	check(t, err, db.Store().CompactTables(t.Context()), db.Close())
	inPebble(t, dir, func(p *pebble.DB) {
		check(t, p.DeleteRange([]byte{format.TagWake}, []byte{format.TagWake + 1}, pebble.Sync))
	})
	checked, err := salvage.Check(t.Context(), dir, options(), kv.CheckOptions{})
	check(t, err)
	if len(checked.Damaged) != 1 {
		t.Fatalf("%+v", checked)
	}
	report, err := salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{})
	check(t, err)
	if report.Recovered != 1 || !report.Whole() {
		t.Errorf("%+v", report)
	}
}

// What a key has lost is told also if no key is known to be whole, as the MANIFEST is lost. How many more there were is not.
func TestRecover_guessedDamaged(t *testing.T) {
	dir, _ := badBlock(t)
	names, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	check(t, err)
	for _, name := range names {
		check(t, os.Remove(name))
	}
	report, err := salvage.Recover(t.Context(), dir, dir+".none", options(), salvage.Options{})
	if !errors.Is(err, salvage.ErrNotRecovered) || !report.Unknown || !report.Guessed {
		t.Errorf("%+v, %v", report, err)
	}
	report, err = salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{Lossy: true})
	check(t, err)
	if len(report.Lossy) != 1 || !report.Unknown || !slices.ContainsFunc(report.Lossy[0].Lost, func(lost string) bool { return strings.Contains(lost, "block") }) {
		t.Errorf("%+v", report)
	}
}
