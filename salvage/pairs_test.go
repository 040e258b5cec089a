package salvage_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/salvage"
)

// last returns the file of a directory that matches a pattern and is the last in the alphabet, and what it holds.
func last(dir, pattern string) (name string, data []byte) {
	names, _ := filepath.Glob(filepath.Join(dir, pattern))
	slices.Sort(names)
	name = names[len(names)-1]
	data, _ = os.ReadFile(name)
	return name, data
}

// blows damage one file of a store each. The files vouch for each other: SEAL for the MANIFEST, DURABLE for the log, the MANIFEST
// for tables and for where the log begins, the tables and the log for the MANIFEST.
var blows = map[string]func(dir string) error{
	"DURABLE flipped": func(dir string) error {
		name, data := last(dir, "DURABLE")
		data[10] ^= 1
		return os.WriteFile(name, data, 0o600)
	},
	"SEAL removed": func(dir string) error { return os.Remove(filepath.Join(dir, "SEAL")) },
	"MANIFEST cut": func(dir string) error {
		name, data := last(dir, "MANIFEST-*")
		return os.WriteFile(name, data[:len(data)/2], 0o600)
	},
	"marker removed": func(dir string) error {
		name, _ := last(dir, "marker.manifest.*")
		return os.Remove(name)
	},
	"marker of the MANIFEST before": func(dir string) error {
		name, _ := last(dir, "marker.manifest.*")
		names, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
		if err != nil || len(names) < 2 {
			return fmt.Errorf("%q: %w", names, err)
		}
		slices.Sort(names)
		kind, _, _ := strings.Cut(name, "MANIFEST-")
		return os.Rename(name, kind+filepath.Base(names[len(names)-2]))
	},
	"table removed": func(dir string) error {
		name, _ := last(dir, "*.sst")
		return os.Remove(name)
	},
	"log removed": func(dir string) error {
		name, _ := last(dir, "*.log")
		return os.Remove(name)
	},
	"log cut": func(dir string) error {
		name, data := last(dir, "*.log")
		return os.WriteFile(name, data[:len(data)/2], 0o600)
	},
}

// TestRecover_pairs damages two files of a store. What is lost is never passed over: either the report says that the store is not
// whole, and a filter that misses items is marked or left out, or everything is there.
func TestRecover_pairs(t *testing.T) {
	from := filepath.Join(t.TempDir(), "store")
	want, items := map[string]string{}, 0
	for session := range 3 {
		db := open(t, from)
		if session == 0 {
			check(t, db.Bloom("bloom").Reserve(sievekv.Capacity(1000, 0.001), nil))
		}
		for i := range 3 {
			key := fmt.Sprint("key ", (session+i)%4)
			want[key] = fmt.Sprint(session, " ", i)
			_, err := db.Bloom("bloom").AddString(strconv.Itoa(items))
			check(t, err, db.Set(key, []byte(want[key])))
			items++
		}
		check(t, db.Close())
	}
	names := []string{}
	for name := range blows {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, first := range names {
		for _, second := range names[i:] {
			if a, _, _ := strings.Cut(first, " "); strings.HasPrefix(second, a) && first != second {
				continue // of the same file
			}
			t.Run(first+", "+second, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "store")
				check(t, os.CopyFS(dir, os.DirFS(from)), blows[first](dir))
				if second != first {
					check(t, blows[second](dir))
				}
				wantNothingPassedOver(t, dir, want, items)
			})
		}
	}
}

// wantNothingPassedOver salvages a store, and compares the result with what had been stored.
func wantNothingPassedOver(t *testing.T, dir string, want map[string]string, items int) {
	t.Helper()
	report, err := salvage.Recover(t.Context(), dir, dir+".new", options(), salvage.Options{})
	if errors.Is(err, salvage.ErrNotRecovered) {
		return
	}
	check(t, err)
	db := open(t, dir+".new")
	defer db.Close()
	wrong := 0
	for key, value := range want {
		if got, err := db.Get(key); err != nil || string(got) != value {
			wrong++
		}
	}
	info, err := db.Bloom("bloom").Info()
	for i := range items {
		if found, ferr := db.Bloom("bloom").MayContainString(strconv.Itoa(i)); err != nil || ferr != nil || !found {
			wrong++
			if err == nil && !info.Lossy {
				t.Errorf("item %d is missing, and the filter is not marked: %v, %+v", i, ferr, report)
			}
		}
	}
	if report.Whole() && (wrong > 0 || info.Lossy) {
		t.Errorf("%d keys and items are wrong, and the report says that the store is whole: %+v", wrong, report)
	}
}
