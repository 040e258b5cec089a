package sievekv_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/sievekv/sievekv"
)

// A time to live that does not fit into a Duration becomes the longest one.
func TestDB_TTL(t *testing.T) {
	db := inMemory()
	if err := db.Set("k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if ttl, err := db.TTL("k"); ttl != 0 || err != nil {
		t.Errorf("without expiry: TTL = %v, %v, want 0", ttl, err)
	}
	if ok, err := db.ExpireAt("k", time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)); !ok || err != nil {
		t.Fatalf("ExpireAt = %v, %v", ok, err)
	}
	if ttl, err := db.TTL("k"); ttl < 290*365*24*time.Hour || err != nil {
		t.Errorf("TTL = %v, %v, want about 292 years", ttl, err)
	}
	if ok, err := db.Expire("k", time.Hour); !ok || err != nil {
		t.Fatalf("Expire = %v, %v", ok, err)
	}
	if ttl, err := db.TTL("k"); ttl > time.Hour || ttl < 50*time.Minute || err != nil {
		t.Errorf("TTL = %v, %v, want an hour", ttl, err)
	}
	if _, err := db.TTL("missing"); !errors.Is(err, sievekv.ErrNotFound) {
		t.Errorf("TTL of a missing key = %v, want ErrNotFound", err)
	}
	for _, o := range []sievekv.SetOptions{
		{TTL: time.Microsecond}, {TTL: -time.Second}, {TTL: time.Hour, KeepTTL: true}, {TTL: time.Hour, ExpireAt: time.Now()},
	} {
		if _, err := db.SetWith("k", nil, o); !errors.Is(err, sievekv.ErrOptions) {
			t.Errorf("SetWith(%+v) = %v, want ErrOptions", o, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// A time that is too far away for Unix milliseconds is not taken for a past one.
func TestDB_ExpireAt_never(t *testing.T) {
	db := inMemory()
	const longest = math.MaxInt64 / int64(time.Millisecond) * int64(time.Millisecond)
	for _, never := range []time.Time{
		time.Unix(math.MaxInt64, 0), time.Unix(1<<60, 0), time.Unix(math.MaxInt64/1000+1, 0), time.UnixMilli(math.MaxInt64),
		time.Date(300_000_000, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		if done, err := db.SetWith("set", nil, sievekv.SetOptions{ExpireAt: never}); err != nil || !done {
			t.Errorf("SetWith = %t, %v", done, err)
		}
		if err := db.Set("expire", nil); err != nil {
			t.Fatal(err)
		}
		if done, err := db.ExpireAt("expire", never); err != nil || !done {
			t.Errorf("ExpireAt = %t, %v", done, err)
		}
		if err := db.Update(t.Context(), func(tx *sievekv.Tx) error {
			if err := tx.Set("tx", nil); err != nil {
				return err
			}
			_, err := tx.ExpireAt("tx", never)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"set", "expire", "tx"} {
			if ttl, err := db.TTL(key); err != nil || int64(ttl) != longest {
				t.Errorf("%d: %s has a time to live of %v, %v", never.Unix(), key, ttl, err)
			}
		}
	}
	if done, err := db.ExpireAt("expire", time.Unix(math.MinInt64, 0)); err != nil || !done {
		t.Errorf("ExpireAt = %t, %v", done, err)
	}
	if n, err := db.Exists("expire"); err != nil || n != 0 {
		t.Errorf("a key whose time has passed exists: %d, %v", n, err)
	}
}
