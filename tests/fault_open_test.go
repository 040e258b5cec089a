package tests_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/salvage"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// refused opens a store that is not to open.
func refused(t *testing.T, dir string, opts *kv.Options) error {
	t.Helper()
	db, err := kv.Open(dir, opts)
	if err == nil {
		must(t, db.Close())
	}
	return err
}

// A directory is one, however it is spelled.
func TestFault_locked(t *testing.T) {
	base := t.TempDir()
	real, link := filepath.Join(base, "real"), filepath.Join(base, "link")
	must(t, os.Mkdir(real, 0o755))
	must(t, os.Symlink(real, link))
	t.Chdir(base)
	spellings := map[string]string{
		"absolute": filepath.Join(real, "store"),
		"relative": "real/store",
		"unclean":  real + "//x/../store/.",
		"symlink":  filepath.Join(link, "store"),
		"dots":     "./link/../link/store/",
	}
	for first, dir := range spellings {
		for second, again := range spellings {
			t.Run(first+" then "+second, func(t *testing.T) {
				must(t, os.RemoveAll(filepath.Join(real, "store")))
				db := open(t, dir, tinyOptions(nil))
				wantError(t, refused(t, again, tinyOptions(nil)), kv.ErrLocked, "store is open already, by this process: ")
				must(t, db.Close())
				must(t, open(t, again, tinyOptions(nil)).Close())
			})
		}
	}
}

func TestFault_locked_memory(t *testing.T) {
	fs := vfs.NewMem()
	db := open(t, storeDir, tinyOptions(fs))
	for _, dir := range []string{storeDir, "./" + storeDir, storeDir + "/", "var/x/../store"} {
		wantError(t, refused(t, dir, tinyOptions(fs)), kv.ErrLocked, storeDir)
	}
	must(t, db.Close())
	must(t, open(t, storeDir, tinyOptions(fs)).Close())
}

type quiet struct{}

func (quiet) Infof(string, ...any)         {}
func (quiet) Errorf(string, ...any)        {}
func (quiet) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }

// valueMerger merges as a store does.
type valueMerger struct{ *block.Merger }

func (m valueMerger) MergeNewer(value []byte) error          { m.Merger.MergeNewer(value); return nil }
func (m valueMerger) MergeOlder(value []byte) error          { m.Merger.MergeOlder(value); return nil }
func (m valueMerger) Finish(bool) ([]byte, io.Closer, error) { return m.Merger.Finish(), nil, nil }

// withPebble does something to the database in storeDir.
func withPebble(t *testing.T, fs vfs.FS, merger string, do func(*pebbledb.DB) error) {
	t.Helper()
	opts := &pebbledb.Options{FS: fs, Logger: quiet{}}
	if merger != "" {
		opts.Merger = &pebbledb.Merger{Name: merger, Merge: func(_, value []byte) (pebbledb.ValueMerger, error) {
			return valueMerger{block.NewMerger(value)}, nil
		}}
	}
	p, err := pebbledb.Open(storeDir, opts)
	must(t, err)
	must(t, errors.Join(do(p), p.Close()))
}

// A store of a newer version is refused by name, whatever is done with it, and stays as it is.
func TestFault_newerStore(t *testing.T) {
	fs := vfs.Default
	tests := []struct {
		name  string
		newer func(t *testing.T)
		says  string
	}{
		{"store", func(t *testing.T) {
			withPebble(t, fs, block.MergerName, func(p *pebbledb.DB) error {
				key := []byte{1, 1}
				value, closer, err := p.Get(key)
				must(t, err)
				newer := bytes.Clone(value)
				newer[len("SVKV")]++
				return errors.Join(closer.Close(), p.Set(key, newer, pebbledb.Sync))
			})
		}, fmt.Sprintf("store has format %d, this program knows %d", format.StoreVersion+1, format.StoreVersion)},
		{"seal", func(t *testing.T) { // which has the version of the store
			must(t, kvtest.MakeNewer(storeDir))
		}, fmt.Sprintf("SEAL has format 255, this program knows %d", format.StoreVersion)},
		{"pebble", func(t *testing.T) {
			marker := newest(t, fs, storeDir, "marker.format-version.", "")
			at := strings.LastIndex(marker, ".")
			must(t, fs.Rename(marker, fmt.Sprintf("%s.%03d", marker[:at], pebbledb.FormatNewest+1)))
		}, "format"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			fillForNewer(t)
			tt.newer(t)
			state := func() map[string]string { return files(t, fs, storeDir) }
			if tt.name == "store" { // only Pebble knows what its files say, so a writer opens them; what is stored has to stay
				state = func() map[string]string { return contents(t, fs) }
			}
			before, written := state(), files(t, fs, storeDir)
			reading := tinyOptions(fs)
			reading.ReadOnly = true
			for range 2 {
				wantError(t, refused(t, storeDir, reading), kv.ErrUnsupportedVersion, storeDir, tt.says)
				_, err := salvage.Check(t.Context(), storeDir, *tinyOptions(fs), kv.CheckOptions{})
				wantError(t, err, kv.ErrUnsupportedVersion, storeDir, tt.says)
				_, err = salvage.Check(t.Context(), storeDir, *tinyOptions(fs), kv.CheckOptions{Deep: true, Repair: true})
				wantError(t, err, kv.ErrUnsupportedVersion, storeDir, tt.says)
				for _, lossy := range []bool{false, true} {
					_, err = salvage.Recover(t.Context(), storeDir, "recovered", *tinyOptions(fs), salvage.Options{Lossy: lossy})
					wantError(t, err, kv.ErrUnsupportedVersion, storeDir, tt.says)
				}
			}
			if after := files(t, fs, storeDir); !maps.Equal(written, after) {
				t.Errorf("reading has changed the files: there was %q, and is %q", slices.Sorted(maps.Keys(written)), slices.Sorted(maps.Keys(after)))
			}
			for range 2 {
				wantError(t, refused(t, storeDir, tinyOptions(fs)), kv.ErrUnsupportedVersion, storeDir, tt.says)
			}
			if after := state(); !maps.Equal(before, after) {
				t.Errorf("there was %q, and is %q", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
			}
			names, err := fs.List(".")
			must(t, err)
			if len(names) != 1 {
				t.Errorf("there is %q, want the store alone", names)
			}
		})
	}
}

// fillForNewer makes a store with strings, with blocks in tables, and with operands in tables and in the log.
func fillForNewer(t *testing.T) {
	t.Helper()
	db := open(t, storeDir, tinyOptions(vfs.Default))
	add := func(round int) {
		for i := range 200 {
			_, err := bloomext.New(db, "filter").Add([]byte(fmt.Sprint(round, " ", i)))
			must(t, err)
			_, err = db.Set(kv.Always, fmt.Append(nil, "key ", i), fmt.Append(nil, round), kv.SetOptions{})
			must(t, err)
		}
	}
	must(t, bloomext.New(db, "filter").Reserve(bloomext.Config{Capacity: 1e6, ErrorRate: 0.001}))
	add(0)
	must(t, db.CompactTables(t.Context())) // blocks
	add(1)
	must(t, db.Close())
	db = open(t, storeDir, tinyOptions(vfs.Default)) // operands in a table
	add(2)
	must(t, db.Close())
}

// contents returns all that Pebble has in the store's directory.
func contents(t *testing.T, fs vfs.FS) map[string]string {
	t.Helper()
	all := make(map[string]string)
	withPebble(t, fs, block.MergerName, func(p *pebbledb.DB) error {
		it, err := p.NewIter(nil)
		must(t, err)
		for ok := it.First(); ok; ok = it.Next() {
			all[string(it.Key())] = string(it.Value())
		}
		return it.Close()
	})
	return all
}

// A database of another program's is refused and left as it is.
func TestFault_foreignDatabase(t *testing.T) {
	fs := vfs.NewMem()
	must(t, fs.MkdirAll(storeDir, 0o755))
	withPebble(t, fs, "", func(p *pebbledb.DB) error { return p.Set([]byte("k"), []byte("v"), pebbledb.Sync) })
	before := files(t, fs, storeDir)
	opts := tinyOptions(fs)
	opts.BallastSize = 1000
	for range 2 {
		wantError(t, refused(t, storeDir, opts), kv.ErrCorrupt, storeDir)
	}
	after := files(t, fs, storeDir)
	for name := range after {
		if _, ok := before[name]; !ok {
			t.Errorf("file %s was made", name)
		}
	}
	for name, data := range before {
		if after[name] != data {
			t.Errorf("file %s was changed", name)
		}
	}
	withPebble(t, fs, "", func(p *pebbledb.DB) error {
		_, closer, err := p.Get([]byte("k"))
		must(t, err)
		return closer.Close()
	})
}

// A directory without a database that has a file which looks like a part of one is refused and left as it is, whether a
// store would be made or must exist.
func TestFault_partOfStore(t *testing.T) {
	whole := vfs.NewMem()
	must(t, open(t, storeDir, tinyOptions(whole)).Close())
	cases := map[string]map[string]string{"no marker": files(t, whole, storeDir)}
	maps.DeleteFunc(cases["no marker"], func(name, _ string) bool { return strings.HasPrefix(name, "marker.manifest.") })
	for _, name := range []string{
		"20240101.log", "000001.sst", "000002.blob", "000001-001.log", "MANIFEST-000001", "MANIFEST-000009", "OPTIONS-000003",
		"CURRENT", "marker.format-version.000001.013", "temporary.000009.dbtmp", "LOCK", "BALLAST", "SEAL", "SEAL.tmp",
		"DURABLE", "DURABLE.tmp",
	} {
		cases[name] = map[string]string{name: "precious"}
	}
	cases["empty log"] = map[string]string{"000001.log": ""}
	for name, before := range cases {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			must(t, fs.MkdirAll(storeDir, 0o755))
			for name, data := range before {
				writeFile(t, fs, fs.PathJoin(storeDir, name), []byte(data))
			}
			opts := tinyOptions(fs)
			opts.BallastSize = 1000
			for _, opts.MustExist = range []bool{false, true} {
				wantError(t, refused(t, storeDir, opts), kv.ErrCorrupt, storeDir)
				names, err := fs.List(storeDir)
				must(t, err)
				if len(names) != len(before) {
					t.Errorf("%d files were there, now %q", len(before), names)
				}
				for name, data := range before {
					if string(readFile(t, fs, fs.PathJoin(storeDir, name))) != data {
						t.Errorf("%s was changed", name)
					}
				}
			}
		})
	}
}

// Files of other names are nobody's concern, and what a crash leaves while a store is made is no obstacle.
func TestFault_newStoreBesideFiles(t *testing.T) {
	fs := vfs.NewMem()
	must(t, fs.MkdirAll(storeDir, 0o755))
	before := map[string]string{"notes.txt": "precious", "2024-01-01.log": "precious", "a.sst": "precious", "MANIFEST": "precious"}
	for name, data := range before {
		writeFile(t, fs, fs.PathJoin(storeDir, name), []byte(data))
	}
	left := map[string]string{"LOCK": "", "BALLAST": strings.Repeat("\x00", 10_000), "SEAL.tmp": "SVSL\x01", "MANIFEST-000001": ""}
	for name, data := range left {
		writeFile(t, fs, fs.PathJoin(storeDir, name), []byte(data))
	}
	opts := tinyOptions(fs)
	opts.MustExist = true
	wantError(t, refused(t, storeDir, opts), kv.ErrNotExist, storeDir)
	opts.MustExist = false
	must(t, open(t, storeDir, opts).Close())
	after := files(t, fs, storeDir)
	for name, data := range before {
		if after[name] != data {
			t.Errorf("file %s was changed", name)
		}
	}
}

// A database that only looks like a store, having none of its metadata, is refused too.
func TestFault_noMetadata(t *testing.T) {
	fs := vfs.NewMem()
	must(t, fs.MkdirAll(storeDir, 0o755))
	withPebble(t, fs, block.MergerName, func(p *pebbledb.DB) error { return p.Set([]byte("k"), nil, pebbledb.Sync) })
	wantError(t, refused(t, storeDir, tinyOptions(fs)), kv.ErrCorrupt, storeDir)
}

func TestFault_mustExist(t *testing.T) {
	base := t.TempDir()
	must(t, os.WriteFile(filepath.Join(base, "file"), nil, 0o644))
	opts := tinyOptions(nil)
	opts.MustExist = true
	for _, dir := range []string{base, filepath.Join(base, "a", "b")} {
		wantError(t, refused(t, dir, opts), kv.ErrNotExist, dir)
	}
	entries, err := os.ReadDir(base)
	must(t, err)
	if len(entries) != 1 {
		t.Errorf("something was made: %v", entries)
	}
}

// That a directory cannot be read does not mean that no store is there.
func TestFault_mustExist_unreadable(t *testing.T) {
	disk := vfs.NewMem()
	must(t, open(t, storeDir, tinyOptions(disk)).Close())
	failing := &faultfs.FS{FS: disk, Before: func(s faultfs.Site, _ string) error {
		if s == (faultfs.Site{Op: "list", Class: "directory"}) {
			return syscall.EIO
		}
		return nil
	}}
	opts := tinyOptions(failing)
	opts.MustExist = true
	err := refused(t, storeDir, opts)
	wantError(t, err, syscall.EIO, storeDir)
	if errors.Is(err, kv.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}

// A new store is there after a crash, and so are the directories above it.
func TestFault_newDirectorySurvives(t *testing.T) {
	disk := kvtest.NewDisk()
	db := open(t, storeDir, tinyOptions(disk))
	must(t, reserve("k", 100)(db, kv.Always))
	opts := tinyOptions(disk.CrashClone(vfs.CrashCloneCfg{}))
	opts.MustExist = true
	must(t, there("k")(open(t, storeDir, opts), kv.Always))
}

// A flipped bit in a table is an error of whoever reads it, and never makes an item seem absent.
func TestFault_flippedTables(t *testing.T) {
	disk := kvtest.NewDisk()
	must(t, faultfs.MakeDir(disk))
	db := open(t, storeDir, tinyOptions(disk))
	f := bloomext.New(db, "k")
	// A small one: Pebble tries every bit of a block to see whether it is the flipped one.
	must(t, f.Reserve(small(400)))
	items := itemsOf("k", 200)
	_, err := f.AddMany(items, make([]bool, len(items)))
	must(t, err)
	must(t, db.CompactTables(t.Context()))
	must(t, db.Close())
	must(t, open(t, storeDir, tinyOptions(disk)).Close()) // the log is replayed into a table
	var tables []string
	names, err := disk.List(storeDir)
	must(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			tables = append(tables, disk.PathJoin(storeDir, name))
		}
	}
	if len(tables) == 0 {
		t.Fatal("no tables")
	}
	flips, noticed := 200, 0
	if raceEnabled {
		flips = 20
	}
	for range flips {
		disk := copyOf(disk)
		name := tables[rand.IntN(len(tables))]
		data := readFile(t, disk, name)
		bit := rand.IntN(8 * len(data))
		data[bit/8] ^= 1 << (bit % 8)
		writeFile(t, disk, name, data)
		errs, err := readAll(disk, items)
		if err != nil {
			t.Errorf("%s, bit %d of %d: %v", name, bit, 8*len(data), err)
		}
		if errs > 0 {
			noticed++
		}
	}
	t.Logf("%d of %d flipped bits were noticed", noticed, flips)
	if noticed < flips/4 {
		t.Error("few are in what is read")
	}
}

// A flipped bit in a file that Pebble opens with, in its content or, as a marker is all name, in its name, is an error
// of Open that says that the store is corrupt or of another version, or changes nothing.
func TestFault_flippedMetadata(t *testing.T) {
	disk := kvtest.NewDisk()
	must(t, faultfs.MakeDir(disk))
	db := open(t, storeDir, tinyOptions(disk))
	f := bloomext.New(db, "k")
	must(t, f.Reserve(small(400)))
	items := itemsOf("k", 50)
	_, err := f.AddMany(items, make([]bool, len(items)))
	must(t, err)
	must(t, db.CompactTables(t.Context()))
	must(t, db.Close())
	names, err := disk.List(storeDir)
	must(t, err)
	for _, name := range names {
		class := faultfs.ClassOf(disk.PathJoin(storeDir, name))
		if class != "MANIFEST" && class != "OPTIONS" && class != "marker" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inName := class == "marker"
			content := []byte(name)
			if !inName {
				content = readFile(t, disk, disk.PathJoin(storeDir, name))
			}
			step := 40
			if raceEnabled {
				step = 300
			}
			refused := 0
			for bit := 0; bit < 8*len(content); bit += 1 + rand.IntN(step) {
				disk := copyOf(disk)
				flipped := bytes.Clone(content)
				flipped[bit/8] ^= 1 << (bit % 8)
				if inName {
					if bytes.ContainsAny(flipped, "/\x00") {
						continue // not a name
					}
					must(t, disk.Rename(disk.PathJoin(storeDir, name), disk.PathJoin(storeDir, string(flipped))))
				} else {
					writeFile(t, disk, disk.PathJoin(storeDir, name), flipped)
				}
				failed, err := readAll(disk, items)
				if err != nil {
					t.Errorf("bit %d of %d, %.20q: %v", bit, 8*len(content), flipped[bit/8:], err)
				}
				if failed > 0 {
					refused++
				}
			}
			t.Logf("%d flipped bits were noticed", refused)
			current := name == path.Base(newest(t, disk, storeDir, "MANIFEST-", ""))
			if (inName || current) && refused == 0 {
				t.Error("no flipped bit was noticed")
			}
		})
	}
}

// readAll looks for items that were added, one by one and together, and returns how many of these lookups failed.
func readAll(disk *kvtest.Disk, items [][]byte) (failed int, err error) {
	db, err := kv.Open(storeDir, tinyOptions(disk))
	if err != nil {
		return 1, corrupt(err)
	}
	var errs []error
	f := bloomext.New(db, "k")
	for i, item := range items {
		present, err := f.MayContain(item)
		if !present {
			errs = append(errs, fmt.Errorf("item %d is absent (%w)", i, err))
		}
		if err != nil {
			failed++
			errs = append(errs, corrupt(err))
		}
		if failed > 3 {
			break // enough, and the others would fail as well
		}
	}
	present := make([]bool, len(items))
	if err := f.MayContainMany(items, present); err != nil {
		failed++
		errs = append(errs, corrupt(err))
	}
	if i := slices.Index(present, false); i >= 0 {
		errs = append(errs, fmt.Errorf("item %d of a batch is absent", i))
	}
	if err := checkStore(db); err != nil {
		failed++
		errs = append(errs, corrupt(err))
	}
	return failed, errors.Join(append(errs, db.Close())...)
}

// corrupt returns nil for an error that says so, or that the writer had a newer version.
func corrupt(err error) error {
	if errors.Is(err, kv.ErrCorrupt) || errors.Is(err, kv.ErrUnsupportedVersion) {
		return nil
	}
	return fmt.Errorf("error is %w, want %w", err, kv.ErrCorrupt)
}
