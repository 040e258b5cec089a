package tests_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/backup"
	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/salvage"
)

// forge changes a closed store behind its back.
func forge(t *testing.T, dir string, change func(db *pebbledb.DB)) {
	t.Helper()
	db, err := pebbledb.Open(dir, &pebbledb.Options{FormatMajorVersion: pebbledb.FormatNewest, Merger: &pebbledb.Merger{
		Name: block.MergerName, Merge: pebbledb.DefaultMerger.Merge,
	}, Logger: silentPebble{}})
	must(t, err)
	change(db)
	must(t, db.Close())
}

type silentPebble struct{}

func (silentPebble) Infof(string, ...any)         {}
func (silentPebble) Errorf(string, ...any)        {}
func (silentPebble) Fatalf(form string, a ...any) { panic(fmt.Sprintf(form, a...)) }

// TestRepair has a check mend what needs no guessing.
func TestRepair(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	o := damageOptions()
	db, err := kv.Open(dir, &o)
	must(t, err)
	must(t, bloomext.New(db, "filter").Reserve(bloomext.Config{Capacity: 1000, ErrorRate: 0.01}))
	_, err = bloomext.New(db, "filter").Add([]byte("item"))
	must(t, err)
	at := time.Now().Add(time.Hour).UnixMilli()
	_, err = db.Set(kv.Always, []byte("expires"), []byte("x"), kv.SetOptions{Expiry: at})
	must(t, err)
	must(t, db.Close())

	set := func(db *pebbledb.DB, key, value []byte) { must(t, db.Set(key, value, pebbledb.Sync)) }
	forge(t, dir, func(db *pebbledb.DB) {
		value, closer, err := db.Get(format.AppendBlockKey(nil, 1, 0, 0))
		must(t, err)
		set(db, format.AppendBlockKey(nil, 77, 0, 0), value)
		must(t, closer.Close())
		must(t, db.Delete(format.AppendExpiryKey(nil, at, []byte("expires")), pebbledb.Sync))
		set(db, format.AppendExpiryKey(nil, at+1, []byte("expires")), nil)
		for group := range 256 {
			set(db, format.AppendKeyCountKey(nil, uint8(group)), binary.AppendUvarint(nil, 3))
		}
	})
	report, err := salvage.Check(t.Context(), dir, damageOptions(), kv.CheckOptions{Deep: true})
	must(t, err)
	if len(report.Problems) == 0 || len(report.Repaired) != 0 {
		t.Fatalf("%+v", report)
	}
	report, err = salvage.Check(t.Context(), dir, damageOptions(), kv.CheckOptions{Repair: true})
	must(t, err)
	text := strings.Join(report.Repaired, "\n")
	for _, want := range []string{
		"object 77, which no key has: removed", `key "expires": noted that it expires at`, "which no key needs: removed",
		"the counts say 1 keys and 1 that expire in place of 3 and 1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not repaired: %s", want, text)
		}
	}
	for range 2 { // now, and after the store was opened again
		report, err = salvage.Check(t.Context(), dir, damageOptions(), kv.CheckOptions{Deep: true})
		must(t, err)
		if report.Keys != 2 || len(report.Problems) > 0 || len(report.Damaged) > 0 {
			t.Errorf("after the repair: %+v", report)
		}
		db = open(t, dir, &o)
		size, err := db.Size()
		must(t, err)
		expiring, err := db.ExpiringKeys()
		must(t, err)
		if size != 2 || expiring != 1 {
			t.Errorf("%d keys, %d expire", size, expiring)
		}
		again, err := db.CheckWith(t.Context(), kv.CheckOptions{Repair: true})
		must(t, err)
		if len(again.Repaired) > 0 {
			t.Errorf("repaired again: %v", again.Repaired)
		}
		must(t, db.Close())
	}
}

// A store whose numbers of keys were repaired goes on with the right ones, before it is opened again.
func TestRepair_counts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	o := damageOptions()
	db := open(t, dir, &o)
	set := func(key string) {
		t.Helper()
		_, err := db.Set(kv.Always, []byte(key), []byte("x"), kv.SetOptions{})
		must(t, err)
	}
	set("a")
	must(t, db.Close())
	forge(t, dir, func(db *pebbledb.DB) {
		for group := range 256 {
			must(t, db.Set(format.AppendKeyCountKey(nil, uint8(group)), binary.AppendUvarint(nil, 3), pebbledb.Sync))
		}
	})
	db = open(t, dir, &o)
	report, err := db.CheckWith(t.Context(), kv.CheckOptions{Repair: true})
	must(t, err)
	if len(report.Repaired) != 256 {
		t.Fatalf("%+v", report)
	}
	for _, key := range []string{"", "b", "c"} {
		want := uint64(1)
		if key != "" {
			set(key)
			want = report.Keys + 1
		}
		report, err = db.Check(t.Context())
		must(t, err)
		size, err := db.Size()
		must(t, err)
		if report.Keys != want || uint64(size) != want || len(report.Problems) > 0 {
			t.Errorf("%d keys, want %d: %+v", size, want, report)
		}
	}
	must(t, db.Close())
}

// TestRepair_guess has a key that says nothing certain: a repair must not take its object for one that no key has, nor count it.
func TestRepair_guess(t *testing.T) {
	stay := func(key []byte) []byte { return key }
	move := func(key []byte) []byte { key[1] ^= 1; return key }
	for name, tt := range map[string]struct {
		filter bool
		place  func(key []byte) []byte
		mends  bool
	}{
		"filter":            {true, stay, true},
		"filter, key cut":   {true, func(key []byte) []byte { return key[:5] }, false},
		"filter, key moved": {true, move, false},
		"string":            {false, stay, true},
		"string, key moved": {false, move, false},
	} {
		dir := filepath.Join(t.TempDir(), "store")
		o := damageOptions()
		db, err := kv.Open(dir, &o)
		must(t, err)
		if tt.filter {
			must(t, bloomext.New(db, "key").Reserve(bloomext.Config{Capacity: 1000, ErrorRate: 0.01, TTL: time.Hour}))
			_, err = bloomext.New(db, "key").Add([]byte("item"))
		} else {
			_, err = db.Set(kv.Always, []byte("key"), []byte("value"), kv.SetOptions{Expiry: time.Now().Add(time.Hour).UnixMilli()})
		}
		must(t, errors.Join(err, db.Close()))
		forge(t, dir, func(db *pebbledb.DB) {
			it, err := db.NewIter(&pebbledb.IterOptions{LowerBound: []byte{format.TagHeader}, UpperBound: []byte{format.TagHeader + 1}})
			must(t, err)
			if !it.First() {
				t.Fatal("no header")
			}
			key, value := bytes.Clone(it.Key()), bytes.Clone(it.Value())
			must(t, it.Close())
			must(t, db.Delete(key, pebbledb.Sync))
			must(t, db.Set(tt.place(key), value, pebbledb.Sync))
			must(t, db.Set(format.AppendKeyCountKey(nil, 0), binary.AppendUvarint(nil, 3), pebbledb.Sync))
		})
		report, err := salvage.Check(t.Context(), dir, damageOptions(), kv.CheckOptions{Repair: true})
		must(t, err)
		if mended := len(report.Repaired) > 0; mended != tt.mends {
			t.Errorf("%s: %q", name, report.Repaired)
		}
	}
}

// A check finds notes of when filters forget that are lost, or that nothing needs, and mends them. Salvage does without them.
func TestRepair_wake(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	o := damageOptions()
	db, err := kv.Open(dir, &o)
	must(t, err)
	f := bloomext.New(db, "filter")
	must(t, f.Reserve(bloomext.Config{Capacity: 1000, ErrorRate: 0.01, Window: time.Hour}))
	_, err = f.Add([]byte("item"))
	must(t, errors.Join(err, db.Close()))
	notes := func(db *pebbledb.DB) (notes [][]byte) {
		it, err := db.NewIter(&pebbledb.IterOptions{LowerBound: []byte{format.TagWake}, UpperBound: []byte{format.TagWake + 1}})
		must(t, err)
		for ok := it.First(); ok; ok = it.Next() {
			notes = append(notes, bytes.Clone(it.Key()))
		}
		must(t, it.Close())
		return notes
	}
	var note []byte
	forge(t, dir, func(db *pebbledb.DB) {
		if all := notes(db); len(all) == 1 {
			note = all[0]
		}
	})
	at, key, err := format.DecodeWakeKey(note)
	if must(t, err); string(key) != "filter" {
		t.Fatalf("the note is of %q", key)
	}
	check := func(o kv.Options, with kv.CheckOptions) *kv.CheckReport {
		t.Helper()
		report, err := salvage.Check(t.Context(), dir, o, with)
		must(t, err)
		return report
	}
	sound := func() {
		t.Helper()
		if report := check(damageOptions(), kv.CheckOptions{Repair: true}); len(report.Problems)+len(report.Notes)+len(report.Repaired) > 0 {
			t.Errorf("%+v", report)
		}
	}
	sound()

	forge(t, dir, func(db *pebbledb.DB) {
		must(t, db.Delete(note, pebbledb.Sync))
		must(t, db.Set(format.AppendWakeKey(nil, at+1, key), nil, pebbledb.Sync))
		must(t, db.Set(format.AppendWakeKey(nil, at, []byte("absent")), nil, pebbledb.Sync))
	})
	report := check(damageOptions(), kv.CheckOptions{})
	if len(report.Problems) != 1 || !strings.Contains(report.Problems[0].Error(), fmt.Sprintf(`"filter" is to be compacted at %d, which is not noted`, at)) ||
		len(report.Notes) != 2 || len(report.Damaged) != 1 {
		t.Errorf("%+v", report)
	}
	saved, err := salvage.Recover(t.Context(), dir, dir+"-new", damageOptions(), salvage.Options{})
	if must(t, err); !saved.Whole() || saved.Recovered != 1 {
		t.Errorf("%+v", saved)
	}
	text := strings.Join(check(damageOptions(), kv.CheckOptions{Repair: true}).Repaired, "\n")
	if !strings.Contains(text, `key "filter": noted that it is to be compacted at`) || strings.Count(text, "which no key needs: removed") != 2 {
		t.Errorf("repaired: %s", text)
	}
	sound()

	// A program that does not know the type does not know what notes it needs.
	unknowing := damageOptions()
	unknowing.Modules = nil
	if report := check(unknowing, kv.CheckOptions{Repair: true}); len(report.Problems)+len(report.Repaired) > 0 || len(report.Notes) != 1 {
		t.Errorf("without the module: %+v", report)
	}
	sound()
	forge(t, dir, func(db *pebbledb.DB) {
		if all := notes(db); len(all) != 1 || !bytes.Equal(all[0], note) {
			t.Errorf("notes %q", all)
		}
	})
}

// A check finds a key that is stored where no lookup comes, two keys with one object, and a block behind the end of its layer. A
// backup of such a store is made, unless it is to be checked.
func TestCheck_places(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	o := damageOptions()
	db, err := kv.Open(dir, &o)
	must(t, err)
	for _, key := range []string{"a", "b"} {
		must(t, bloomext.New(db, key).Reserve(bloomext.Config{Capacity: 1000, ErrorRate: 0.01}))
		_, err = bloomext.New(db, key).Add([]byte("item"))
		must(t, err)
	}
	_, err = db.Set(kv.Always, []byte("s"), []byte("x"), kv.SetOptions{})
	must(t, errors.Join(err, db.Close()))
	const blk = 1000
	var moved, layer uint64
	forge(t, dir, func(db *pebbledb.DB) {
		stored, values := map[string][]byte{}, map[string][]byte{}
		it, err := db.NewIter(&pebbledb.IterOptions{LowerBound: []byte{format.TagHeader}, UpperBound: []byte{format.TagHeader + 1}})
		must(t, err)
		for ok := it.First(); ok; ok = it.Next() {
			_, key, err := format.DecodeHeaderKey(it.Key())
			must(t, err)
			stored[string(key)], values[string(key)] = bytes.Clone(it.Key()), bytes.Clone(it.Value())
		}
		must(t, it.Close())
		hash, _, err := format.DecodeHeaderKey(stored["s"])
		must(t, err)
		moved = hash ^ 1 // the same group of keys
		must(t, db.Delete(stored["s"], pebbledb.Sync))
		must(t, db.Set(format.AppendHeaderKey(nil, moved, []byte("s")), values["s"], pebbledb.Sync))
		must(t, db.Set(stored["b"], values["a"], pebbledb.Sync))
		h, err := format.DecodeHeader(values["a"])
		must(t, err)
		layer = h.Layers[len(h.Layers)-1].Number // the bits, not the log of hashes
		must(t, db.Set(format.AppendBlockKey(nil, h.ID, layer, blk), []byte("block"), pebbledb.Sync))
	})
	report, err := salvage.Check(t.Context(), dir, damageOptions(), kv.CheckOptions{})
	must(t, err)
	text := fmt.Sprint(errors.Join(report.Problems...))
	for _, want := range []string{
		fmt.Sprintf(`key "s": stored at hash %x`, moved), "share object", fmt.Sprintf("block %d of layer %d, which has ", blk, layer),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the check does not say %q: %s", want, text)
		}
	}
	db, err = kv.Open(dir, &o)
	must(t, err)
	defer func() { must(t, db.Close()) }()
	must(t, backup.Make(t.Context(), db, dir+"-copy", backup.Options{}))
	if err := backup.Make(t.Context(), db, dir+"-checked", backup.Options{Check: true}); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("a backup that is checked: %v, want %v", err, kv.ErrCorrupt)
	}
}

// Recover leaves a filter with a block that means nothing, and with Options.Lossy copies the rest of it and marks it.
func TestRecover_block(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	o := damageOptions()
	db, err := kv.Open(dir, &o)
	must(t, err)
	must(t, bloomext.New(db, "a").Reserve(bloomext.Config{Capacity: 100_000, ErrorRate: 0.01, NonScaling: true}))
	_, err = bloomext.New(db, "a").Add([]byte("item"))
	must(t, errors.Join(err, db.Close()))
	forge(t, dir, func(db *pebbledb.DB) {
		must(t, db.Set(format.AppendBlockKey(nil, 1, 0, 0), []byte("block"), pebbledb.Sync))
	})
	for _, lossy := range []bool{false, true} {
		saved, err := salvage.Recover(t.Context(), dir, fmt.Sprint(dir, lossy), damageOptions(), salvage.Options{Lossy: lossy})
		if must(t, err); lossy && (saved.Recovered != 1 || len(saved.Lossy) != 1) || !lossy && (saved.Recovered != 0 || len(saved.Left) != 1) {
			t.Errorf("lossy: %t: %+v", lossy, saved)
		}
	}
}
