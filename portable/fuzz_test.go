package portable_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/portable"
)

// golden are the files in testdata, of every type.
func golden(t testing.TB) (files []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*.svkf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("golden files: %q, %v", files, err)
	}
	return files
}

// Whatever the bytes are, with whatever checksums, nothing panics. What is accepted is a sound filter: a store and a
// program without one give the same answers, the store takes more items, and a check finds nothing.
func FuzzImport(f *testing.F) {
	for _, name := range golden(f) {
		file, err := os.ReadFile(name)
		must(f, err)
		f.Add(file)
	}
	db := open(f, 1, func(o *sievekv.Options) { o.MaxFilterBytes, o.Durability = 1<<20, sievekv.NoSync })
	f.Fuzz(func(t *testing.T, file []byte) {
		for _, file := range [][]byte{file, portable.Repaired(file)} {
			accepted(t, db, file)
		}
	})
}

func accepted(t *testing.T, db *sievekv.DB, file []byte) {
	info, err := portable.Describe(t.Context(), bytes.NewReader(file))
	if info.Whole != (err == nil) {
		t.Errorf("Describe = %+v, %v", info, err)
	}
	frozen, ferr := sievekv.ReadFilter(bytes.NewReader(file))
	if err != nil {
		if ierr := db.Import(t.Context(), "k", bytes.NewReader(file)); ierr == nil || ferr == nil {
			t.Errorf("Import = %v, ReadFilter = %v, want an error as %v", ierr, ferr, err)
		}
		return
	}
	isString := info.Type == "string"
	if isString != errors.Is(ferr, sievekv.ErrWrongType) || !isString && ferr != nil {
		t.Errorf("ReadFilter = %v of %+v", ferr, info)
	}
	if err := db.Import(t.Context(), "k", bytes.NewReader(file)); errors.Is(err, sievekv.ErrTooLarge) {
		return
	} else if err != nil {
		t.Errorf("Import = %v, want none as Describe", err)
		return
	}
	if !isString {
		compare(t, db, frozen, info.Type)
	} else if info.Bytes > 1<<20 { // all of its blocks, most of them zero, take long
		_, err := db.Bitmap("k").Test(uint32(8*info.Bytes - 1))
		must(t, err)
	} else if s, err := db.Get("k"); err != nil || uint64(len(s)) != info.Bytes {
		t.Errorf("a string of %d bytes, %v, want %d", len(s), err, info.Bytes)
	}
	report, err := db.Check(t.Context())
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("Check = %v, %v", report.Problems, err)
	}
	_, err = db.Delete("k")
	must(t, err)
}

// compare compares a filter with a store's, and changes the store's.
func compare(t *testing.T, db *sievekv.DB, frozen *sievekv.FrozenFilter, typ string) {
	t.Helper()
	f := map[string]sievekv.Filter{"MBbloom--": db.Bloom("k"), "MBbloomCF": db.Cuckoo("k"), "CBloom---": db.Counting("k")}[typ]
	for i := range uint64(64) {
		present, err := f.MayContain(sievekv.Uint64(i))
		if err != nil || present != frozen.MayContain(sievekv.Uint64(i)) {
			t.Errorf("MayContain(%d) = %t, %v, want %t", i, present, err, !present)
		}
	}
	data, err := frozen.MarshalBinary()
	must(t, err)
	var again sievekv.FrozenFilter
	must(t, again.UnmarshalBinary(data))
	if again.MayContain(sievekv.Uint64(1)) != frozen.MayContain(sievekv.Uint64(1)) {
		t.Errorf("a filter that was written and read answers otherwise")
	}
	for i := range uint64(8) { // errors are of filters that are full, or whose chosen parameters let them not grow
		_, _ = f.Add(sievekv.Uint64(1 << 40 * i))
	}
}
