package salvage_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/salvage"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// compacted returns a closed store that has a string in a table.
func compacted(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	db := open(t, dir)
	check(t, db.Set("name", []byte("alice")), db.Store().CompactTables(t.Context()), db.Close())
	return dir
}

func repaired(t *testing.T, dir string, o kv.Options) *kv.CheckReport {
	t.Helper()
	report, err := salvage.Check(t.Context(), dir, o, kv.CheckOptions{Repair: true})
	check(t, err)
	return report
}

// A store that lost nothing may still not open. The report says so, and what is wrong with it.
func TestCheck_repairUnopened(t *testing.T) {
	for what, blow := range map[string]struct {
		file    string
		change  func(data []byte) []byte // nil to remove the file
		problem string
	}{
		"no marker": {"marker.manifest.*", nil, "marker.manifest is missing"},
		"another order of keys": {"OPTIONS-*", func(data []byte) []byte {
			return bytes.Replace(data, []byte("comparer=l"), []byte("comparer=m"), 1)
		}, `comparer name from file "meveldb.BytewiseComparator"`},
		"another way to merge": {"OPTIONS-*", func(data []byte) []byte {
			return bytes.Replace(data, []byte("merger=s"), []byte("merger=t"), 1)
		}, `merger name from file "t`},
	} {
		dir := compacted(t)
		name, data := last(dir, blow.file)
		check(t, os.Remove(name))
		if blow.change != nil {
			check(t, os.WriteFile(name, blow.change(data), 0o600))
		}
		report := repaired(t, dir, options())
		if len(report.Problems) != 1 || !strings.Contains(report.Problems[0].Error(), blow.problem) || len(report.Repaired) > 0 ||
			!slices.Equal(report.Notes, []string{"nothing was repaired, as the store does not open"}) {
			t.Errorf("%s: %+v", what, report)
		}
	}
}

// A note that the check and the repair have is there once. One that only the repair has is there, too.
func TestCheck_repairNotes(t *testing.T) {
	dir := compacted(t)
	inPebble(t, dir, func(p *pebble.DB) {
		check(t, p.Set(format.AppendWakeKey(nil, 1<<50, []byte("name")), nil, pebble.Sync))
	})
	report := repaired(t, dir, options())
	if len(report.Notes) != 1 || !notes(report, `key "name": a note that it is to be compacted`) {
		t.Errorf("%q", report.Notes)
	}
	dir = compacted(t)
	inPebble(t, dir, func(p *pebble.DB) {
		check(t, p.Set(format.AppendHeaderKey(nil, 7, []byte("other")), []byte("no header"), pebble.Sync))
	})
	if report := repaired(t, dir, options()); len(report.Notes) != 1 || !notes(report, "nothing was repaired, as some of the store cannot be read") {
		t.Errorf("%q", report.Notes)
	}
}

// unindexed damages the index of a store's table, which opening does not read. No key is lost with it.
func unindexed(t *testing.T, dir string) {
	t.Helper()
	inPebble(t, dir, func(p *pebble.DB) {
		it, err := p.NewIter(&pebble.IterOptions{LowerBound: []byte{format.TagHeader}, UpperBound: []byte{format.TagHeader + 1}})
		check(t, err)
		if !it.First() {
			t.Fatal("there is no header")
		}
		check(t, p.Set(it.Key(), it.Value(), pebble.Sync), it.Close(), p.Flush())
	})
	name, data := last(dir, "*.sst")
	f, err := vfs.Default.Open(name)
	check(t, err)
	readable, err := objstorageprovider.NewFileReadable(f, vfs.Default, objstorageprovider.NewReadaheadConfig(), name)
	check(t, err)
	o := pebble.Options{Merger: &pebble.Merger{Name: block.MergerName}}
	o.EnsureDefaults()
	r, err := sstable.NewReader(t.Context(), readable, o.MakeReaderOptions())
	check(t, err)
	layout, err := r.Layout()
	check(t, err, r.Close())
	data[layout.Index[0].Offset] ^= 1
	check(t, os.WriteFile(name, data, 0o600))
}

// What is wrong with a file is mended by opening the store only if it is gone then. Nothing is said of tables, which are not read
// once more.
func TestCheck_repairFiles(t *testing.T) {
	const old = "OPTIONS-000001"
	dir := compacted(t)
	check(t, os.WriteFile(filepath.Join(dir, old), []byte("[Version]\nnothing"), 0o600))
	o := options()
	o.FS = &faultfs.FS{FS: vfs.Default, Before: func(s faultfs.Site, name string) error {
		if s.Op == "remove" && filepath.Base(name) == old {
			return syscall.EPERM
		}
		return nil
	}}
	if report := repaired(t, dir, o); len(report.Problems) != 1 || len(report.Repaired) > 0 {
		t.Errorf("a file that cannot be removed: %+v", report)
	}
	if report := repaired(t, dir, options()); len(report.Problems) != 1 || len(report.Repaired) != 1 || !strings.Contains(report.Repaired[0], old) {
		t.Errorf("a file that can: %+v", report)
	}
	unindexed(t, dir)
	report := repaired(t, dir, options())
	if len(report.Problems) != 2 || !slices.Equal(report.Repaired, []string{"SEAL is missing: mended by opening the store"}) {
		t.Errorf("a table: %+v", report)
	}
}
