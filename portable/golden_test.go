package portable_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/portable"
)

var update = flag.Bool("update", false, "write the golden files")

// small are keys whose files are short.
var small = map[string]func(t testing.TB, db *sievekv.DB){
	"bloom": func(t testing.TB, db *sievekv.DB) {
		must(t, db.Bloom("k").Reserve(sievekv.BloomConfig{Capacity: 100, ErrorRate: 0.01}))
		fill(t, db.Bloom("k"), 20)
	},
	"bloom-grown": func(t testing.TB, db *sievekv.DB) {
		must(t, db.Bloom("k").Reserve(sievekv.BloomConfig{Capacity: 20, ErrorRate: 0.01, Hash: sievekv.HashXXH64}))
		fill(t, db.Bloom("k"), 50)
	},
	"cuckoo": func(t testing.TB, db *sievekv.DB) {
		must(t, db.Cuckoo("k").Reserve(sievekv.CuckooConfig{Capacity: 1000}))
		fill(t, db.Cuckoo("k"), 20)
		fill(t, db.Cuckoo("k"), 10)
	},
	"counting": func(t testing.TB, db *sievekv.DB) {
		must(t, db.Counting("k").Reserve(sievekv.CountingConfig{Capacity: 20, ErrorRate: 0.01}))
		fill(t, db.Counting("k"), 50)
		fill(t, db.Counting("k"), 10)
	},
	"string": func(t testing.TB, db *sievekv.DB) { must(t, db.Set("k", []byte("a string"))) },
	"bitmap": func(t testing.TB, db *sievekv.DB) {
		for _, n := range []uint32{1, 80_000, 40_000_000} {
			_, err := db.Bitmap("k").Set(n)
			must(t, err)
		}
	},
}

// The format does not change: the files are the same bytes as ever, and those in testdata can be read.
func TestGolden(t *testing.T) {
	for name, make := range small {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name+".svkf")
			db := open(t, 20261124)
			make(t, db)
			file := export(t, db, "k")
			if *update {
				must(t, os.WriteFile(path, file, 0o666))
			}
			want, err := os.ReadFile(path)
			must(t, err)
			if !bytes.Equal(file, want) {
				t.Errorf("the file has %d bytes, and differs from %s with %d", len(file), path, len(want))
			}
			must(t, db.ImportWith(t.Context(), "k", bytes.NewReader(want), sievekv.ImportOptions{Replace: true}))
			sound(t, db, 1)
		})
	}
	if n := len(golden(t)); n != len(small) {
		t.Errorf("%d golden files, want %d", n, len(small))
	}
}

// A file of a newer format is refused by its number, and so is one with a newer type.
func TestImport_newer(t *testing.T) {
	db := open(t, 1)
	file, err := os.ReadFile(filepath.Join("testdata", "bloom.svkf"))
	must(t, err)
	for name, at := range map[string]int{"file": portable.PrefixLen - 1, "header": portable.PrefixLen + 5 + 1, "type": bytes.Index(file, []byte("MBbloom--")) + 9 + 3} {
		newer := bytes.Clone(file)
		newer[at]++
		err := db.Import(t.Context(), "k", bytes.NewReader(portable.Repaired(newer)))
		if !errors.Is(err, sievekv.ErrUnsupportedVersion) || errors.Is(err, sievekv.ErrDamaged) || !strings.Contains(err.Error(), "has format 2, this program knows 1") {
			t.Errorf("%s: Import = %v, want %v", name, err, sievekv.ErrUnsupportedVersion)
		}
	}
	other := bytes.Replace(file, []byte("MBbloom--"), []byte("MBbloomXX"), 1)
	if err := db.Import(t.Context(), "k", bytes.NewReader(portable.Repaired(other))); !errors.Is(err, sievekv.ErrNoModule) {
		t.Errorf("Import = %v, want %v", err, sievekv.ErrNoModule)
	}
	sound(t, db, 0)
}

// Checksums that are right do not make a file sound.
func TestImport_hostile(t *testing.T) {
	db := open(t, 1)
	for name := range small {
		file, err := os.ReadFile(filepath.Join("testdata", name+".svkf"))
		must(t, err)
		for i := portable.PrefixLen; i < len(file); i++ {
			for _, bit := range []byte{1, 0x10, 0x80} {
				changed := bytes.Clone(file)
				changed[i] ^= bit
				accepted(t, db, portable.Repaired(changed))
			}
		}
	}
	sound(t, db, 0)
}
