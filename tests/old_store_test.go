package tests_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

// unpack unpacks files of an archive into a new directory.
func unpack(t *testing.T, archive string) (dir string) {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for r := tar.NewReader(unzipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(h.Name)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Each store in testdata/stores answers what it answered when it was made. Of the files with its name, "made-by" has the
// commands that made it, "asked" the commands that are given now, and "answered" their replies as JSON.
func TestOldStores(t *testing.T) {
	archives, err := filepath.Glob("testdata/stores/*.tar.gz")
	if err != nil || len(archives) == 0 {
		t.Fatal(archives, err)
	}
	for _, archive := range archives {
		name := strings.TrimSuffix(archive, ".tar.gz")
		t.Run(filepath.Base(name), func(t *testing.T) {
			lines := func(suffix string) []string {
				data, err := os.ReadFile(name + suffix)
				if err != nil {
					t.Fatal(err)
				}
				return strings.Split(strings.TrimRight(string(data), "\n"), "\n")
			}
			asked, answered := lines(".asked"), lines(".answered")
			if len(asked) != len(answered) {
				t.Fatalf("%d commands and %d replies", len(asked), len(answered))
			}
			db, err := sievekv.Open(unpack(t, archive), &sievekv.Options{MustExist: true, BallastSize: -1, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			session := module.NewSession(db.Store())
			for i, line := range asked {
				got := strings.TrimRight(string(reply.AppendJSON(nil, session.Do(t.Context(), commandWords(line)))), "\n")
				if got != answered[i] {
					t.Errorf("%s answers %s, answered %s", line, got, answered[i])
				}
			}
			if report, err := db.Check(t.Context()); err != nil || len(report.Problems)+len(report.Notes) > 0 {
				t.Errorf("check: %v, %v", report, err)
			}
		})
	}
}

// A store of the time before keyed hashes, with a filter of each type that holds "item 0" to "item 299", is what
// it was: its filters go on with XXH64, and new ones have a keyed hash.
func TestOldStore(t *testing.T) {
	dir := unpack(t, "testdata/xxh64-store.tar.gz")
	open := func() *sievekv.DB {
		db, err := sievekv.Open(dir, &sievekv.Options{MustExist: true, BallastSize: -1, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	sure := func(what string, n int, ok bool, err error) {
		t.Helper()
		if !ok || err != nil {
			t.Fatalf("%s of item %d = %t, %v", what, n, ok, err)
		}
	}
	db := open()
	for round := range 2 {
		bloom, cuckoo, counting := db.Bloom("bloom"), db.Cuckoo("cuckoo"), db.Counting("counting")
		for i := range 300 + round*300 {
			item := fmt.Sprint("item ", i)
			ok, err := bloom.MayContainString(item)
			sure("BF.EXISTS", i, ok, err)
			ok, err = cuckoo.MayContainString(item)
			sure("CF.EXISTS", i, ok, err)
			ok, err = counting.MayContainString(item)
			sure("CBF.EXISTS", i, ok, err)
		}
		report, err := db.Check(t.Context())
		if err != nil || len(report.Problems) > 0 {
			t.Fatalf("check: %v, %v", report, err)
		}
		if round == 1 {
			break
		}
		for i := range 300 {
			item := fmt.Sprint("item ", 300+i)
			ok, err := bloom.AddString(item)
			sure("BF.ADD", i, ok, err)
			_, err = cuckoo.AddString(item) // false for what seems to be there
			sure("CF.ADD", i, true, err)
			ok, err = counting.AddString(item)
			sure("CBF.ADD", i, ok, err)
		}
		b, err := bloom.Info()
		c, err2 := cuckoo.Info()
		d, err3 := counting.Info()
		if err := errors.Join(err, err2, err3); err != nil || b.Hash != hash.XXH64 || c.Hash != hash.XXH64 || d.Hash != hash.XXH64 {
			t.Fatalf("the hashes are %v, %v and %v, want %v: %v", b.Hash, c.Hash, d.Hash, hash.XXH64, err)
		}
		size, made := sievekv.Capacity(100, 1e-6), &sievekv.BloomConfig{Group: "g"}
		if err := bloom.OpenOrReserve(size, made); err != nil {
			t.Errorf("what does not ask for a hash does not take a filter with XXH64: %v", err)
		}
		made.Hash = hash.Keyed
		if err := bloom.OpenOrReserve(size, made); !errors.Is(err, scalableext.ErrMismatch) {
			t.Errorf("what asks for a keyed hash takes a filter with XXH64: %v", err)
		}
		for _, key := range []string{"new", "other"} {
			if err := db.Bloom(key).Reserve(size, made); err != nil {
				t.Fatal(err)
			}
			if _, err := db.Bloom(key).AddString(key); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Bloom("new").Merge(t.Context(), bloom); !errors.Is(err, scalableext.ErrUnequal) {
			t.Errorf("Merge of filters of two hashes: %v, want %v", err, scalableext.ErrUnequal)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = open()
	}
	// The secret that the store got is kept: a filter of the group that is made now has the same hash.
	if err := db.Bloom("later").Reserve(sievekv.Capacity(100, 1e-6), &sievekv.BloomConfig{Group: "g"}); err != nil {
		t.Fatal(err)
	}
	later := db.Bloom("later")
	if err := later.Merge(t.Context(), db.Bloom("new"), db.Bloom("other")); err != nil {
		t.Fatal(err)
	}
	for i, item := range []string{"new", "other"} {
		ok, err := later.MayContainString(item)
		sure("BF.EXISTS", i, ok, err)
	}
	if info, err := later.Info(); err != nil || info.Hash != hash.Keyed {
		t.Errorf("the hash of a new filter is %v, want %v: %v", info.Hash, hash.Keyed, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
