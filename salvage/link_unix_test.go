//go:build unix

package salvage_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/salvage"
)

// A link to a store is as good as its name.
func TestRecover_link(t *testing.T) {
	dir := expiring(t)
	markers, err := filepath.Glob(filepath.Join(dir, "marker.manifest.*"))
	check(t, err)
	for _, name := range markers { // without which it does not open
		check(t, os.Remove(name))
	}
	link := filepath.Join(t.TempDir(), "link")
	check(t, os.Symlink(dir, link))
	o := options()
	o.FS = vfs.Default
	report, err := salvage.Recover(t.Context(), link, dir+".new", o, salvage.Options{})
	check(t, err)
	if report.Recovered != 2 || len(report.Damage) != 1 {
		t.Errorf("%+v", report)
	}
}
