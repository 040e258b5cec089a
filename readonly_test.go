package sievekv_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// filesIn returns the hash of each file of a directory, with the time of its last change.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = fmt.Sprintf("%x %v", sha256.Sum256(data), info.ModTime())
	}
	return files
}

func noError(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// storeToRead makes a store whose last writes are in the log alone.
func storeToRead(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "store")
	db, err := sievekv.Open(dir, &sievekv.Options{BallastSize: -1})
	noError(t, err)
	filter := db.Bloom("seen")
	noError(t, filter.Reserve(sievekv.Capacity(1000, 0.001), &sievekv.BloomConfig{GrowthLog: -1})) // known items are known from memory
	_, err1 := filter.AddString("a")
	_, err2 := db.SetWith("gone", []byte("x"), sievekv.SetOptions{TTL: time.Hour})
	noError(t, err1, err2, db.Set("name", []byte("alice")), db.Close())
	return dir
}

// TestReadOnly has two readers in a directory that cannot be written to.
func TestReadOnly(t *testing.T) {
	dir := storeToRead(t)
	before := filesIn(t, dir)
	entries, err := filepath.Glob(filepath.Join(dir, "*"))
	noError(t, err)
	for _, name := range entries {
		noError(t, os.Chmod(name, 0o400))
	}
	noError(t, os.Chmod(dir, 0o500))
	defer func() { _ = os.Chmod(dir, 0o700) }()

	later := func() time.Time { return time.Now().Add(2 * time.Hour) }
	a, err := sievekv.Open(dir, &sievekv.Options{ReadOnly: true, Clock: later})
	noError(t, err)
	b, err := sievekv.Open(dir, &sievekv.Options{ReadOnly: true})
	noError(t, err)
	for _, db := range []*sievekv.DB{a, b} {
		value, err := db.Get("name")
		noError(t, err)
		here, err := db.Bloom("seen").MayContainString("a")
		noError(t, err)
		there, err := db.Bloom("seen").MayContainString("b")
		noError(t, err)
		if string(value) != "alice" || !here || there {
			t.Errorf("%q, a %t, b %t", value, here, there)
		}
		report, err := db.Check(context.Background())
		noError(t, err)
		if report.Keys != 3 || len(report.Problems) > 0 {
			t.Errorf("check: %+v", report)
		}
	}
	if _, err := a.Get("gone"); !errors.Is(err, sievekv.ErrNotFound) {
		t.Errorf("the expired key: %v", err)
	}
	if _, err := b.Get("gone"); err != nil {
		t.Error(err)
	}
	noError(t, a.Close())
	if _, err := sievekv.Open(dir, nil); !errors.Is(err, sievekv.ErrLocked) {
		t.Errorf("a writer beside a reader: %v", err)
	}
	noError(t, b.Close())
	if after := filesIn(t, dir); !maps.Equal(before, after) {
		t.Errorf("files changed: %v, before %v", after, before)
	}
}

// TestReadOnly_writes tries every kind of write.
func TestReadOnly_writes(t *testing.T) {
	dir := storeToRead(t)
	db, err := sievekv.Open(dir, &sievekv.Options{ReadOnly: true})
	noError(t, err)
	defer db.Close()
	filter := db.Bloom("seen")
	for range 2 { // brings the block into memory
		_, err := filter.MayContainString("a")
		noError(t, err)
	}
	for name, write := range map[string]func() error{
		"Set":                      func() error { return db.Set("k", nil) },
		"Del":                      func() error { _, err := db.Delete("name"); return err },
		"Add":                      func() error { _, err := filter.AddString("new"); return err },
		"Add of known":             func() error { _, err := filter.AddString("a"); return err },
		"Add of known, not synced": func() error { _, err := filter.With(sievekv.NoSync).AddString("a"); return err },
		"Update":                   func() error { return db.Update(t.Context(), func(tx *sievekv.Tx) error { return nil }) },
		"Compact":                  func() error { return db.Store().Compact(t.Context()) },
		"Backup": func() error {
			return db.Store().Backup(t.Context(), filepath.Join(t.TempDir(), "b"), kv.BackupOptions{}, nil)
		},
		"repair": func() error { _, err := db.CheckWith(t.Context(), sievekv.CheckOptions{Repair: true}); return err },
	} {
		if err := write(); !errors.Is(err, sievekv.ErrReadOnly) {
			t.Errorf("%s: %v", name, err)
		}
	}
	session := module.NewSession(db.Store())
	do := func(words ...string) string {
		var list [][]byte
		for _, w := range words {
			list = append(list, []byte(w))
		}
		return string(reply.AppendText(nil, session.Do(t.Context(), list)))
	}
	for _, c := range [][]string{{"SET", "k", "v"}, {"BF.ADD", "seen", "a"}, {"SETNX", "name", "v"}, {"DEL", "nothing"}} {
		if got := do(c...); got != "(error) READONLY You can't write against a read only store.\n" {
			t.Errorf("%v: %q", c, got)
		}
	}
	do("MULTI")
	do("SET", "k", "v")
	if got := do("EXEC"); got != "(error) EXECABORT Transaction discarded because of previous errors.\n" {
		t.Errorf("EXEC: %q", got)
	}
	if got := do("GET", "name"); got != "\"alice\"\n" {
		t.Errorf("GET: %q", got)
	}
}

// TestReadOnly_locks opens a store from two processes.
func TestReadOnly_locks(t *testing.T) {
	const variable = "SIEVEKV_TEST_READ_ONLY"
	if dir := os.Getenv(variable); dir != "" {
		_, alone := sievekv.Open(dir, &sievekv.Options{BallastSize: -1})
		db, shared := sievekv.Open(dir, &sievekv.Options{ReadOnly: true})
		if shared == nil {
			noError(t, db.Close())
		}
		fmt.Printf("alone %t, shared %t.", errors.Is(alone, sievekv.ErrLocked), shared == nil)
		return
	}
	dir := storeToRead(t)
	child := func() string {
		c := exec.Command(os.Args[0], "-test.run=^TestReadOnly_locks$")
		c.Env = append(os.Environ(), variable+"="+dir)
		out, err := c.CombinedOutput()
		noError(t, err)
		return string(out)
	}
	db, err := sievekv.Open(dir, &sievekv.Options{ReadOnly: true})
	noError(t, err)
	second, err := sievekv.Open(dir, &sievekv.Options{ReadOnly: true})
	noError(t, err)
	noError(t, second.Close())
	if out := child(); len(out) < 26 || out[:26] != "alone true, shared true.PA" {
		t.Errorf("beside a reader: %s", out)
	}
	noError(t, db.Close())
	db, err = sievekv.Open(dir, &sievekv.Options{BallastSize: -1})
	noError(t, err)
	if _, err := sievekv.Open(dir, &sievekv.Options{ReadOnly: true}); !errors.Is(err, sievekv.ErrLocked) {
		t.Errorf("a reader beside a writer: %v", err)
	}
	if out := child(); len(out) < 26 || out[:26] != "alone true, shared false.P" {
		t.Errorf("beside a writer: %s", out)
	}
	noError(t, db.Close())
}

// TestReadOnly_missing opens a directory without a store.
func TestReadOnly_missing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	if _, err := sievekv.Open(dir, &sievekv.Options{ReadOnly: true}); !errors.Is(err, sievekv.ErrNotExist) {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory: %v", err)
	}
	if _, err := sievekv.Open("", &sievekv.Options{ReadOnly: true, InMemory: true}); !errors.Is(err, sievekv.ErrOptions) {
		t.Error(err)
	}
}

// TestReadOnly_reserve has the metrics of a reader tell of the reserve that the writer has left.
func TestReadOnly_reserve(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db, err := sievekv.Open(dir, &sievekv.Options{BallastSize: 1 << 20, MinFreeSpace: -1})
	noError(t, err)
	noError(t, db.Set("name", []byte("alice")), db.Close())
	info, err := os.Stat(filepath.Join(dir, "BALLAST"))
	noError(t, err)
	reader, err := sievekv.Open(dir, &sievekv.Options{ReadOnly: true})
	noError(t, err)
	m, err := reader.Store().Metrics()
	if got := m.ReserveBytes; err != nil || got != uint64(info.Size()) || got == 0 {
		t.Errorf("reserve of %d bytes, the file has %d: %v", got, info.Size(), err)
	}
	noError(t, reader.Close())
}
