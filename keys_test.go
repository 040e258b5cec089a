package sievekv_test

import (
	"errors"
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
