package sievekv_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/sievekv/sievekv"
)

// A time to live beyond what a Duration holds is the longest it does.
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
		if _, err := db.SetWith("k", nil, o); !errors.Is(err, sievekv.ErrTTL) {
			t.Errorf("SetWith(%+v) = %v, want ErrTTL", o, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// Strings lie beside the filters, and expire if they are told to.
func ExampleDB_SetWith() {
	db := inMemory()
	defer db.Close()
	// A lock that whoever comes first holds, for a minute at most.
	for range 2 {
		mine, err := db.SetWith("lock", []byte("me"), sievekv.SetOptions{If: sievekv.IfMissing, TTL: time.Minute})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(mine)
	}
	n, err := db.Incr("visits", 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n)
	for key, err := range db.Scan(context.Background(), sievekv.ScanOptions{Match: "v*"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(key)
	}
	// Output:
	// true
	// false
	// 1
	// visits
}

// The row and its entry in the filter are written together or not at all. The row is
// written whatever the filter says: its answer "seen" may be a false positive.
func ExampleDB_Update() {
	db := inMemory()
	defer db.Close()
	ctx := context.Background()
	orders := db.Bloom("orders:seen")
	if err := orders.Reserve(sievekv.BloomConfig{Capacity: 1000, ErrorRate: 0.001}); err != nil {
		log.Fatal(err)
	}
	err := db.Update(ctx, func(tx *sievekv.Tx) error {
		if _, err := orders.In(tx).AddString("17"); err != nil {
			return err
		}
		return tx.Set("order:17", []byte("two apples"))
	})
	if err != nil {
		log.Fatal(err)
	}
	err = db.View(ctx, func(s *sievekv.Snapshot) error {
		seen, err := orders.In(s).MayContainString("17")
		if err != nil {
			return err
		}
		row, err := s.Get("order:17")
		fmt.Println(seen, string(row))
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// true two apples
}
