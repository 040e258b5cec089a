package salvage_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/freeze"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/internal/storage/remains"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/salvage"
)

// expiring returns a store with two keys that expire in an hour.
func expiring(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	for _, key := range []string{"a", "b"} {
		_, err := db.SetWith(key, []byte("x"), sievekv.SetOptions{ExpireAt: time.Now().Add(time.Hour)})
		check(t, err)
	}
	check(t, db.Close())
	return dir
}

// A key that expires while others are copied is no loss.
func TestRecover_expires(t *testing.T) {
	dir := expiring(t)
	o, passed := options(), time.Duration(0)
	o.Clock = func() time.Time { return time.Now().Add(passed) }
	var shown []string
	report, err := salvage.Recover(t.Context(), dir, dir+".new", o, salvage.Options{Progress: func(done, total uint64) {
		passed = 2 * time.Hour
		shown = append(shown, fmt.Sprint(done, " of ", total))
	}})
	check(t, err)
	if report.Recovered != 1 || !report.Whole() {
		t.Errorf("%+v", report)
	}
	if want := []string{"1 of 2", "2 of 2"}; !slices.Equal(shown, want) {
		t.Errorf("progress is %q, want %q", shown, want)
	}
}

// Keys expire between any two looks of a check at a store that has lost commits.
func TestCheck_expires(t *testing.T) {
	dir := corruptLog(t, "key 99")
	for nth := 1; ; nth++ {
		o, reads := options(), 0
		o.Clock = func() time.Time {
			if reads++; reads >= nth {
				return time.Now().Add(2 * time.Hour)
			}
			return time.Now()
		}
		report, err := salvage.Check(t.Context(), dir, o, kv.CheckOptions{})
		check(t, err)
		if len(report.Problems) == 0 {
			t.Errorf("at %d: %+v", nth, report)
		}
		if reads < nth {
			break
		}
	}
}

// A run that is ended while it copies a filter makes no store.
func TestRecover_ended(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	for _, key := range []string{"a", "b"} {
		check(t, db.Bloom(key).Reserve(sievekv.Capacity(100, 0.01), nil))
	}
	check(t, db.Close())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := salvage.Recover(ctx, dir, dir+".new", options(), salvage.Options{Progress: func(uint64, uint64) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if names, err := filepath.Glob(dir + ".new*"); err != nil || len(names) > 0 {
		t.Error(names, err)
	}
}

// No store is where Recover is to read one, or something is where it is to make one.
func TestRecover_wrongPlaces(t *testing.T) {
	dir := expiring(t)
	if _, err := salvage.Recover(t.Context(), dir+".missing", dir+".new", options(), salvage.Options{}); !errors.Is(err, kv.ErrNotExist) {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(file, []byte("x"), 0o600))
	if _, err := salvage.Recover(t.Context(), dir, file, options(), salvage.Options{}); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
}

// badBlock returns a store with a filter of some items that has a block that does not decode, though its checksum is right.
func badBlock(t *testing.T) (dir string, items []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	for i := range 10_000 {
		items = append(items, strconv.Itoa(i))
	}
	check(t, db.Bloom("bloom").Reserve(sievekv.Capacity(20_000, 0.01), nil))
	_, err := db.Bloom("bloom").AddManyString(items, nil)
	check(t, err)
	var key []byte
	check(t, db.Store().Read(func(r kv.Reader) error {
		o, err := r.Lookup([]byte("bloom"))
		check(t, err)
		key = format.AppendBlockKey(nil, o.ID(), o.Layers()[0].Spec().Number, 0)
		return nil
	}))
	check(t, db.Store().CompactTables(t.Context()), db.Close())
	p, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Merger: &pebble.Merger{Name: block.MergerName}, Logger: silent{}})
	check(t, err)
	check(t, p.Set(key, []byte{0xff}, pebble.Sync), p.Close())
	check(t, os.Remove(filepath.Join(dir, "SEAL"))) // it is not of this MANIFEST, and a store can do without it
	return dir, items
}

// A block that does not decode is left out of a filter, or the filter is.
func TestRecover_block(t *testing.T) {
	dir, items := badBlock(t)
	report, err := salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{})
	check(t, err)
	if len(report.Left) != 1 || report.Recovered != 0 {
		t.Errorf("%+v", report)
	}
	report, err = salvage.Recover(t.Context(), dir, dir+".lossy", options(), salvage.Options{Lossy: true})
	check(t, err)
	if len(report.Lossy) != 1 || report.Recovered != 1 {
		t.Errorf("lossy: %+v", report)
	}
	db := open(t, dir+".lossy")
	defer db.Close()
	found := make([]bool, len(items))
	check(t, db.Bloom("bloom").MayContainManyString(items, found))
	there := 0
	for _, f := range found {
		if f {
			there++
		}
	}
	if there < len(items)/2 || there == len(items) {
		t.Errorf("%d of %d items are there", there, len(items))
	}
}

// Keys that are lost with their names are counted.
func TestRecover_missing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	const keys = 300
	for i := range keys {
		check(t, db.Set(fmt.Sprint("key ", i), make([]byte, 300)))
	}
	check(t, db.Store().CompactTables(t.Context()), db.Close())
	flip(t, dir)
	report, err := salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{})
	check(t, err)
	if report.Recovered == 0 || report.Missing > keys-report.Recovered || report.Recovered+uint64(len(report.Left))+report.Missing < keys || report.Whole() {
		t.Errorf("%+v", report)
	}
}

// A key that may have been deleted by what is lost does not stand for one that was written there.
func TestRecover_missingAndDeleted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	const keys = 300
	for i := range keys {
		check(t, db.Set(fmt.Sprint("old ", i), []byte("x")))
	}
	check(t, db.Store().CompactTables(t.Context()), db.Close())
	db = open(t, dir)
	for i := range keys {
		_, err := db.Delete(fmt.Sprint("old ", i))
		check(t, err, db.Set(fmt.Sprint("new ", i), make([]byte, 300)))
	}
	check(t, db.Close())
	db = open(t, dir) // now a table has them
	check(t, db.Close())
	flip(t, dir)
	report, err := salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{})
	check(t, err)
	if report.Recovered == keys || len(report.Left) == 0 || report.Recovered+report.Missing < keys {
		t.Errorf("%+v", report)
	}
}

// A key that is damaged, and that lost commits have changed too, is reported once.
func TestCheck_damagedTwice(t *testing.T) {
	dir, _ := badBlock(t)
	loseCommits(t, dir, func(db *sievekv.DB) error {
		_, err := db.ExpireAt("bloom", time.Now().Add(time.Hour))
		return err
	})
	report, err := salvage.Check(t.Context(), dir, options(), kv.CheckOptions{})
	check(t, err)
	var of []salvage.Key
	for _, k := range report.Damaged {
		if k.Key == "bloom" {
			of = append(of, k)
		}
	}
	if len(of) != 1 || len(of[0].Lost) < 2 || !slices.Contains(of[0].Lost, "changes by commits that are lost") {
		t.Errorf("%+v", of)
	}
}

// Without a seal, a MANIFEST in which a bit was flipped, or that is cut within a record, is not believed. A seal of a newer program
// is no damage.
func TestExamine_unsealed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	check(t, db.Set("name", []byte("alice")), db.Store().CompactTables(t.Context()), db.Close())
	examine := func() (*remains.Remains, error) { return remains.Examine(t.Context(), vfs.Default, dir, false) }
	check(t, kvtest.MakeNewer(dir))
	if _, err := examine(); !errors.Is(err, kv.ErrUnsupportedVersion) {
		t.Errorf("a seal of a newer program: %v", err)
	}
	check(t, os.Remove(filepath.Join(dir, freeze.SealName)))
	marker, _ := last(dir, "marker.manifest.*")
	_, number, _ := strings.Cut(filepath.Base(marker), "MANIFEST-")
	name := filepath.Join(dir, "MANIFEST-"+number)
	whole, err := os.ReadFile(name)
	check(t, err)
	guessed := func(data []byte) bool {
		t.Helper()
		check(t, os.WriteFile(name, data, 0o600))
		left, err := examine()
		check(t, err)
		return left.Guessed
	}
	if guessed(whole) {
		t.Fatal("a whole MANIFEST is not believed")
	}
	for n := range whole {
		flipped := slices.Clone(whole)
		if flipped[n] ^= 1; !guessed(flipped) {
			t.Errorf("a MANIFEST with another byte %d of %d is believed", n, len(whole))
		}
	}
	for n := 1; n < 8; n++ {
		if !guessed(whole[:len(whole)-n]) {
			t.Errorf("a MANIFEST without its last %d bytes is believed", n)
		}
	}
}

// A directory that comes while a store is recovered is not replaced, and what was recovered goes.
func TestRecover_taken(t *testing.T) {
	dir := expiring(t)
	to := filepath.Join(t.TempDir(), "new")
	other := sync.OnceFunc(func() { check(t, os.Mkdir(to, 0o700)) })
	_, err := salvage.Recover(t.Context(), dir, to, options(), salvage.Options{Progress: func(uint64, uint64) { other() }})
	if !errors.Is(err, fs.ErrExist) || err.Error() != "salvage: new store: "+to+" is a directory already: want a name that nothing has" {
		t.Error(err)
	}
	left, err := os.ReadDir(filepath.Dir(to))
	if check(t, err); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}
