package kv_test

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
)

func openOn(t *testing.T, fs vfs.FS, seed uint64) *kv.DB {
	t.Helper()
	db, err := kv.Open("store", &kv.Options{FS: fs, Seed: seed, BallastSize: -1, MinFreeSpace: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
			t.Error(err)
		}
	})
	return db
}

// itemHash returns the hash of an object of a group.
func itemHash(t *testing.T, db *kv.DB, kind hash.Kind) hash.Function {
	t.Helper()
	f, err := db.ItemHash(kind, "group")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The secret of a group stays what it is, and no other group has it, nor any object of none, nor another store.
func TestDB_ItemHash(t *testing.T) {
	seeded.Not(t)
	fs := vfs.NewMem()
	db := openOn(t, fs, 0)
	f := itemHash(t, db, hash.Default)
	if f.Kind() != hash.Keyed {
		t.Fatalf("the default is %v, want %v", f, hash.Keyed)
	}
	secrets := make(map[hash.Function]bool)
	seen := func(of hash.Function) (first bool) {
		first = !secrets[of]
		secrets[of] = true
		return first
	}
	if again := itemHash(t, db, hash.Keyed); again != f {
		t.Error("the secret changed")
	}
	for _, name := range []string{"other", "grou", "groups", ""} {
		for range 2 {
			if of, err := db.ItemHash(hash.Keyed, name); err != nil || of == f || !seen(of) {
				t.Errorf("the secret of an object of the group %q: that of another, or %v", name, err)
			}
			if name != "" {
				break
			}
		}
	}
	xxh := itemHash(t, db, hash.XXH64)
	if xxh != hash.NewXXH64(db.Seed()) || db.Seed() == 0 {
		t.Errorf("XXH64 has another seed than %#x", db.Seed())
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ItemHash(hash.Default, ""); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("ItemHash of a closed store: %v, want %v", err, kv.ErrClosed)
	}

	db = openOn(t, fs, 0)
	if itemHash(t, db, hash.Default) != f || itemHash(t, db, hash.XXH64) != xxh {
		t.Error("a store that was closed and opened has other hashes")
	}
	if itemHash(t, openOn(t, vfs.NewMem(), 0), hash.Default) == f {
		t.Error("two stores have one secret")
	}
	if of, err := db.ItemHash(hash.Keyed, ""); err != nil || !seen(of) {
		t.Errorf("an object has a secret from before the store was closed, or %v", err)
	}
}

// Options.Seed is for the objects made while the store is open with it, and its own secret is as random as ever.
func TestDB_ItemHash_seed(t *testing.T) {
	seeded.Not(t)
	fs := vfs.NewMem()
	db := openOn(t, fs, 7)
	f := itemHash(t, db, hash.Default)
	if f != hash.NewKeyed(hash.SecretOf(7)) {
		t.Error("the secret does not follow from the seed")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openOn(t, fs, 0)
	own := itemHash(t, db, hash.Default)
	if own == f || own == itemHash(t, openOn(t, vfs.NewMem(), 0), hash.Default) {
		t.Error("the store's own secret follows from a seed")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if itemHash(t, openOn(t, fs, 8), hash.Default) != hash.NewKeyed(hash.SecretOf(8)) {
		t.Error("a seed does not take the place of the store's own secret")
	}
}

// A crash may take back the secret, but not from an object that was made with it: whatever of the log
// is there, the secret is before the objects.
func TestDB_ItemHash_crash(t *testing.T) {
	seeded.Not(t)
	fs := kvtest.NewDisk()
	db := openOn(t, fs, 0)
	f := itemHash(t, db, hash.Default)
	if _, err := db.Set(kv.Always, []byte("after"), []byte("it"), kv.SetOptions{}); err != nil {
		t.Fatal(err)
	}
	clone := openOn(t, fs.CrashClone(vfs.CrashCloneCfg{}), 0)
	if itemHash(t, clone, hash.Default) != f {
		t.Error("a crash took back the secret, but not what was committed after it")
	}
}
