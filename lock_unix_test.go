//go:build unix

package sievekv_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv"
)

const lockChild = "SIEVEKV_TEST_LOCK"

// tries tells what a process gets that opens the store in dir for writing, and read-only.
func tries(dir string) string {
	var said []string
	for _, o := range []*sievekv.Options{{BallastSize: -1}, {ReadOnly: true}} {
		db, err := sievekv.Open(dir, o)
		switch {
		case err == nil:
			said = append(said, "open")
			err = db.Close()
		case errors.Is(err, sievekv.ErrLocked):
			said, err = append(said, "locked"), nil
		}
		if err != nil {
			said = append(said, err.Error())
		}
	}
	return strings.Join(said, " ")
}

// triesElsewhere is tries in another process.
func triesElsewhere(t *testing.T, dir string) string {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestLock_elsewhere$")
	c.Env = append(os.Environ(), lockChild+"="+dir)
	out, err := c.CombinedOutput()
	noError(t, err)
	said, _, _ := strings.Cut(string(out), ".\n")
	return said
}

// TestLock_elsewhere is the other process. Without the variable it opens a store that nobody has.
func TestLock_elsewhere(t *testing.T) {
	if dir := os.Getenv(lockChild); dir != "" {
		fmt.Print(tries(dir), ".\n")
		return
	}
	if said := triesElsewhere(t, storeToRead(t)); said != "open open" {
		t.Errorf("a store that nobody has: %s", said)
	}
}

// TestLock_file has other processes locked out whatever happens to the file LOCK.
func TestLock_file(t *testing.T) {
	removed := func(t *testing.T, lock string) { noError(t, os.Remove(lock)) }
	faults := map[string]func(t *testing.T, lock string){
		"removed": removed,
		"replaced": func(t *testing.T, lock string) {
			removed(t, lock)
			noError(t, os.WriteFile(lock, nil, 0o600))
		},
		"read": func(t *testing.T, lock string) {
			_, err := os.ReadFile(lock)
			noError(t, err)
		},
		"copied by a link": func(t *testing.T, lock string) {
			link := filepath.Join(t.TempDir(), "link")
			noError(t, os.Link(lock, link))
			f, err := os.Open(link)
			noError(t, err)
			_, err = io.Copy(io.Discard, f)
			noError(t, err, f.Close())
		},
	}
	for name, fault := range faults {
		for _, held := range []struct {
			name, want string
			options    sievekv.Options
		}{
			{"writer", "locked locked", sievekv.Options{BallastSize: -1}},
			{"reader", "locked open", sievekv.Options{ReadOnly: true}},
		} {
			t.Run(name+", "+held.name, func(t *testing.T) {
				dir := storeToRead(t)
				db, err := sievekv.Open(dir, &held.options)
				noError(t, err)
				fault(t, filepath.Join(dir, "LOCK"))
				if said := triesElsewhere(t, dir); said != held.want {
					t.Errorf("another process: %s, want %s", said, held.want)
				}
				if said := tries(dir); said != held.want {
					t.Errorf("the same process: %s, want %s", said, held.want)
				}
				if !held.options.ReadOnly {
					noError(t, db.Set("name", []byte("bob")))
				}
				_, err = db.Get("name")
				noError(t, err)
				noError(t, db.Close())
				if said := triesElsewhere(t, dir); said != "open open" {
					t.Errorf("after its end: %s", said)
				}
			})
		}
	}
}

// TestLock_timeout waits for a store that is open.
func TestLock_timeout(t *testing.T) {
	dir := storeToRead(t)
	db, err := sievekv.Open(dir, &sievekv.Options{BallastSize: -1})
	noError(t, err)
	if _, err := sievekv.Open(dir, &sievekv.Options{LockTimeout: time.Millisecond}); !errors.Is(err, sievekv.ErrLocked) {
		t.Errorf("after a millisecond: %v", err)
	}
	opened := make(chan error)
	go func() {
		second, err := sievekv.Open(dir, &sievekv.Options{BallastSize: -1, LockTimeout: 24 * time.Hour})
		if err == nil {
			err = second.Close()
		}
		opened <- err
	}()
	noError(t, db.Close(), <-opened)
	if _, err := sievekv.Open(dir, &sievekv.Options{LockTimeout: -1}); !errors.Is(err, sievekv.ErrOptions) {
		t.Errorf("below 0: %v", err)
	}
}

// TestLock_directory replaces the directory of an open store: the store fails, and the directory that is in its place
// is not changed.
func TestLock_directory(t *testing.T) {
	copied := func(t *testing.T, dir string) {
		noError(t, os.Rename(dir, dir+".old"), os.CopyFS(dir, os.DirFS(dir+".old")))
	}
	faults := map[string]func(t *testing.T, dir string){
		"copied":  copied,
		"renamed": func(t *testing.T, dir string) { noError(t, os.Rename(dir, dir+".old")) },
		"removed": func(t *testing.T, dir string) { noError(t, os.RemoveAll(dir)) },
		"made anew": func(t *testing.T, dir string) {
			noError(t, os.RemoveAll(dir), os.Mkdir(dir, 0o700))
		},
		"a link to the copy": func(t *testing.T, dir string) {
			copied(t, dir)
			noError(t, os.Rename(dir, dir+".new"), os.Symlink(dir+".new", dir))
		},
		"a file": func(t *testing.T, dir string) {
			noError(t, os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600))
		},
	}
	for name, fault := range faults {
		for _, held := range []struct {
			name    string
			options sievekv.Options
		}{{"writer", sievekv.Options{BallastSize: -1}}, {"reader", sievekv.Options{ReadOnly: true}}} {
			t.Run(name+", "+held.name, func(t *testing.T) {
				t.Parallel()
				dir := storeToRead(t)
				db, err := sievekv.Open(dir, &held.options)
				noError(t, err)
				fault(t, dir)
				var before map[string]string
				if info, err := os.Stat(dir); err == nil && info.IsDir() {
					before = filesIn(t, dir)
				}
				for err = nil; err == nil; { // the store looks at its directory once a second
					_, err = db.Get("name")
				}
				if !errors.Is(err, sievekv.ErrFailed) || !strings.Contains(err.Error(), "was renamed or removed") {
					t.Errorf("the store failed with %v", err)
				}
				if err := db.Close(); !errors.Is(err, sievekv.ErrFailed) {
					t.Errorf("Close: %v", err)
				}
				if before != nil {
					if after := filesIn(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
						t.Errorf("the directory in its place changed from %v to %v", before, after)
					}
				}
			})
		}
	}
}
