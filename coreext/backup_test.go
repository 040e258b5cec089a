package coreext_test

import (
	"path/filepath"
	"testing"

	"github.com/sievekv/sievekv/internal/coretest"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
)

// Without a server, a backup is made where one asks for it, and the setting can be changed.
func TestSieveBackup(t *testing.T) {
	t.Chdir(t.TempDir())
	w := coretest.NewWorld(t, kv.Options{})
	w.Script(`SET row value => +OK`)
	dir := filepath.Join(t.TempDir(), "copy")
	if r := w.Do("SIEVE.BACKUP", dir, "check"); r.IsError() {
		t.Errorf("SIEVE.BACKUP: %s", r.Bytes())
	}
	db, err := kv.Open(dir, &kv.Options{MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if value, err := db.Get([]byte("row")); string(value) != "value" {
		t.Errorf("row = %q, %v", value, err)
	}
	w.Script(`CONFIG SET backup-dir / => +OK
CONFIG SET backup-dir "" => +OK`)
}
