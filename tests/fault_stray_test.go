package tests_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/salvage"
)

// strays are files that a store has not written, by names that Pebble would take for its own.
var strays = map[string]string{
	"20261126.log": "http://example.org/\n", "000999.log": "123456\n234567\n", "1.log": "", "12-1.log": "x", "000000.log": "",
	"000007.log": "seen\n", "20261127.log": "", "18446744073709551615.log": "", "281474976710657.log": "",
	"000999.sst": "item\n", "5.sst": "x", "000003.sst": strings.Repeat("text ", 1000), "000005.blob": "\x00",
	"MANIFEST-999999": "cargo\n", "MANIFEST-9": "x", "MANIFEST-000998": strings.Repeat("cargo ", 1000),
	"OPTIONS-999999": "hello", "OPTIONS-20261126": "", "temporary.000012.dbtmp": "hello", "CURRENT.000001.dbtmp": "",
	"marker.txt": "", "marker.manifest": "", "marker.manifest.1.old": "", "marker.other.000001.x": "",
}

// closedStore returns a file system with a store that has a table, a log and a filter.
func closedStore(t *testing.T) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewMem()
	for range 2 {
		db := open(t, storeDir, tinyOptions(fs))
		_, err := db.Set(kv.DurabilityDefault, []byte("k"), []byte("v"), kv.SetOptions{})
		must(t, err)
		must(t, db.Close())
	}
	return fs
}

// A file that only looks like a part of the store is named, and nothing is changed, whoever opens the store. Check and
// salvage name it too, and read the store. Without the file, the store is what it was.
func TestStray(t *testing.T) {
	cases := slices.Sorted(maps.Keys(strays))
	cases = append(cases, "000999.log/", "000998.sst/", "SEAL.tmp/", "MANIFEST-000997/")
	for _, name := range cases {
		t.Run(name, func(t *testing.T) {
			fs := closedStore(t)
			name, isDir := strings.CutSuffix(name, "/")
			path := fs.PathJoin(storeDir, name)
			before := files(t, fs, storeDir)
			if isDir {
				must(t, fs.MkdirAll(path, 0o755))
			} else {
				writeFile(t, fs, path, []byte(strays[name]))
			}
			opts := tinyOptions(fs)
			opts.BallastSize = 1000
			for _, opts.ReadOnly = range []bool{false, true} {
				wantError(t, refused(t, storeDir, opts), kv.ErrStray, storeDir, name+": ")
			}
			wantReported(t, fs, name)
			if !isDir && string(readFile(t, fs, path)) != strays[name] {
				t.Errorf("%s was changed", name)
			}
			must(t, fs.Remove(path))
			if after := files(t, fs, storeDir); !maps.Equal(before, after) {
				t.Errorf("the files were %q and are %q", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
			}
			must(t, open(t, storeDir, tinyOptions(fs)).Close())
		})
	}
}

// wantReported fails the test unless a check of the closed store names a file, as the only problem.
func wantReported(t *testing.T, fs vfs.FS, name string) {
	t.Helper()
	for _, deep := range []bool{false, true} {
		report, err := salvage.Check(context.Background(), storeDir, *tinyOptions(fs), kv.CheckOptions{Deep: deep})
		must(t, err)
		if len(report.Problems) != 1 || !strings.Contains(report.Problems[0].Error(), name+" was not written by the store") || report.Keys != 1 {
			t.Errorf("deep %t: a check finds %d keys and %v", deep, report.Keys, report.Problems)
		}
	}
}

// Many strays are counted.
func TestStray_many(t *testing.T) {
	fs := closedStore(t)
	for i := range 30 {
		writeFile(t, fs, fs.PathJoin(storeDir, fmt.Sprintf("202611%02d.log", i)), []byte("x\n"))
	}
	wantError(t, refused(t, storeDir, tinyOptions(fs)), kv.ErrStray, "20261100.log", "and 25 more")
}

// A check of a store that is open names files that have come since.
func TestStray_whileOpen(t *testing.T) {
	fs := vfs.NewMem()
	db := open(t, storeDir, tinyOptions(fs))
	must(t, checkStore(db))
	writeFile(t, fs, fs.PathJoin(storeDir, "20261126.log"), []byte("precious\n"))
	wantError(t, checkStore(db), kv.ErrCorrupt, "20261126.log was not written by the store")
	must(t, db.Close())
	if string(readFile(t, fs, fs.PathJoin(storeDir, "20261126.log"))) != "precious\n" {
		t.Error("the file was changed")
	}
}

// Names that Pebble does not read are nobody's concern.
func TestStray_otherNames(t *testing.T) {
	fs := closedStore(t)
	others := map[string]string{
		"crawl.log": "x\n", "2026-11-26.log": "x\n", "20261126.log.gz": "x", "20261126.txt": "x", "99999999999999999999.log": "x",
		"a.sst": "x", "MANIFEST": "x", "OPTIONS-": "x", "serve.addr": "1\n", "x.dbtmp": "x",
	}
	for name, text := range others {
		writeFile(t, fs, fs.PathJoin(storeDir, name), []byte(text))
	}
	must(t, fs.MkdirAll(fs.PathJoin(storeDir, "x.log"), 0o755))
	must(t, open(t, storeDir, tinyOptions(fs)).Close())
	for name, text := range others {
		if string(readFile(t, fs, fs.PathJoin(storeDir, name))) != text {
			t.Errorf("%s was changed", name)
		}
	}
}

// A store of a newer version may have files that this one does not know.
func TestStray_newerStore(t *testing.T) {
	dir := t.TempDir()
	must(t, open(t, dir, tinyOptions(nil)).Close())
	must(t, kvtest.MakeNewer(dir))
	must(t, os.WriteFile(filepath.Join(dir, "000005.blob"), []byte("new"), 0o600))
	for _, readOnly := range []bool{false, true} {
		opts := tinyOptions(nil)
		opts.ReadOnly = readOnly
		wantError(t, refused(t, dir, opts), kv.ErrUnsupportedVersion, dir)
	}
	if _, err := salvage.Check(context.Background(), dir, *tinyOptions(nil), kv.CheckOptions{}); !errors.Is(err, kv.ErrUnsupportedVersion) {
		t.Errorf("check: %v, want ErrUnsupportedVersion", err)
	}
}
