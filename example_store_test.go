package sievekv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/backup"
)

// Health tells a program whether its store can be used, for instance for the health check of a service.
func ExampleDB_Health() {
	db := inMemory()
	fmt.Println(db.Health())
	if err := db.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(errors.Is(db.Health(), sievekv.ErrClosed))
	// Output:
	// <nil>
	// true
}

// Damage is in the report, not in the error.
func ExampleDB_Check() {
	db := inMemory()
	defer db.Close()
	if err := db.Set("user:17", []byte("alice")); err != nil {
		log.Fatal(err)
	}
	report, err := db.Check(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Keys, "key,", len(report.Problems), "problems")
	// Output: 1 key, 0 problems
}

// A backup of a store that is in use, and the same as an archive, which becomes a store again.
func ExampleDB_Backup() {
	ctx := context.Background()
	top, err := os.MkdirTemp("", "sievekv")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(top)
	db := inMemory()
	defer db.Close()
	if err := db.Set("user:17", []byte("alice")); err != nil {
		log.Fatal(err)
	}

	if err := db.Backup(ctx, filepath.Join(top, "monday")); err != nil {
		log.Fatal(err)
	}
	var archive bytes.Buffer
	if err := db.BackupTo(ctx, &archive); err != nil {
		log.Fatal(err)
	}
	if err := backup.Restore(ctx, &archive, filepath.Join(top, "restored")); err != nil {
		log.Fatal(err)
	}

	for _, name := range []string{"monday", "restored"} {
		copied, err := sievekv.Open(filepath.Join(top, name), nil)
		if err != nil {
			log.Fatal(err)
		}
		value, err := copied.Get("user:17")
		fmt.Printf("%s: %s %v\n", name, value, err)
		if err := copied.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// monday: alice <nil>
	// restored: alice <nil>
}

// Many writes that do not wait for the disk, and one Sync that does.
func ExampleDB_Sync() {
	db := inMemory()
	defer db.Close()
	fast := db.With(sievekv.NoSync)
	for _, name := range []string{"alice", "bob", "carol"} {
		if err := fast.Set("user:"+name, []byte("imported")); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(db.Sync()) // from here on no crash loses them
	// Output: <nil>
}

// What happens to the store in the background, and concerns an operator, goes to the Logger. This store wants more
// free space than any disk has, so it takes no writes.
func ExampleOptions_logger() {
	dir, err := os.MkdirTemp("", "sievekv")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	brief := slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.LevelKey || a.Key == slog.MessageKey {
			return a
		}
		return slog.Attr{} // leaves out what differs from run to run
	}}
	db, err := sievekv.Open(dir, &sievekv.Options{
		MinFreeSpace: 1 << 50,
		Logger:       slog.New(slog.NewTextHandler(os.Stdout, &brief)),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	fmt.Println(errors.Is(db.Set("a", nil), sievekv.ErrNoSpace))
	// Output:
	// level=WARN msg="sievekv: the disk is almost full, writes are refused"
	// true
}

// A key that expires is missing from then on.
func ExampleDB_Expire() {
	db, clock := withClock()
	defer db.Close()
	if err := db.Set("session", []byte("alice")); err != nil {
		log.Fatal(err)
	}
	exists, err := db.Expire("session", time.Hour)
	fmt.Println(exists, err)
	clock.advance(20 * time.Minute)
	fmt.Println(db.TTL("session"))
	clock.advance(40 * time.Minute)
	_, err = db.Get("session")
	fmt.Println(errors.Is(err, sievekv.ErrNotFound))
	// Output:
	// true <nil>
	// 40m0s <nil>
	// true
}

// A filter that is to be gone at midnight.
func ExampleDB_ExpireAt() {
	db, clock := withClock()
	defer db.Close()
	seen := db.Bloom("seen today")
	if err := seen.Reserve(sievekv.Capacity(1000, 0.001), nil); err != nil {
		log.Fatal(err)
	}
	midnight := clock.now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	if _, err := db.ExpireAt("seen today", midnight); err != nil {
		log.Fatal(err)
	}
	info, err := seen.Info()
	fmt.Println(info.ExpiresAt.Equal(midnight), err)
	// Output: true <nil>
}

// A copy is a filter of its own. An existing key is replaced only if that is asked for.
func ExampleDB_Copy() {
	db := inMemory()
	defer db.Close()
	ctx := context.Background()
	seen := db.Bloom("seen")
	if err := seen.Reserve(sievekv.Capacity(1000, 0.001), nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println(db.Copy(ctx, "seen", "before", false))
	fmt.Println(db.Copy(ctx, "seen", "before", false)) // "before" exists
	if _, err := seen.AddString("apple"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(db.Bloom("before").MayContainString("apple"))
	// Output:
	// true <nil>
	// false <nil>
	// false <nil>
}

// A transaction changes a string by what it was, and keeps the time at which it expires.
func ExampleTx_SetWith() {
	db, clock := withClock()
	defer db.Close()
	if _, err := db.SetWith("cart", []byte("apple"), sievekv.SetOptions{TTL: time.Hour}); err != nil {
		log.Fatal(err)
	}
	clock.advance(20 * time.Minute)
	err := db.Update(context.Background(), func(tx *sievekv.Tx) error {
		cart, err := tx.Get("cart")
		if err != nil {
			return err
		}
		_, err = tx.SetWith("cart", append(cart, ",pear"...), sievekv.SetOptions{KeepTTL: true})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	cart, err := db.Get("cart")
	fmt.Println(string(cart), err)
	fmt.Println(db.TTL("cart"))
	// Output:
	// apple,pear <nil>
	// 40m0s <nil>
}

// How large will the filter be? Planned needs no store.
func ExampleBloomConfig_planned() {
	size := sievekv.Capacity(1_000_000, 0.001)
	for _, items := range []uint64{1_000_000, 3_000_000} {
		info, err := sievekv.BloomConfig{}.Planned(size, items)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d items, layers: %d, %.1f MB, rate %.4f\n",
			items, len(info.Layers), float64(info.Bytes)/1e6, info.ExpectedRate)
	}
	// Output:
	// 1000000 items, layers: 1, 1.9 MB, rate 0.0007
	// 3000000 items, layers: 2, 7.3 MB, rate 0.0007
}

// With a Seed, filters in two stores that are made alike and have the same items are equal: they take the same other
// items for known. HashXXH64 is for filters that other programs are to build in the same way.
func ExampleHash() {
	falsePositivesOf := func(seed uint64) (known []uint64) {
		db, err := sievekv.Open("", &sievekv.Options{InMemory: true, Seed: seed})
		if err != nil {
			log.Fatal(err)
		}
		defer db.Close()
		f := db.Bloom("f")
		if err := f.Reserve(sievekv.Capacity(1000, 0.1), &sievekv.BloomConfig{Hash: sievekv.HashXXH64}); err != nil {
			log.Fatal(err)
		}
		for item := range uint64(1000) {
			if _, err := f.Add(sievekv.Uint64(item)); err != nil {
				log.Fatal(err)
			}
		}
		for item := uint64(1000); item < 2000; item++ {
			if maybe, err := f.MayContain(sievekv.Uint64(item)); maybe && err == nil {
				known = append(known, item)
			}
		}
		return known
	}
	fmt.Println("same seed:", slices.Equal(falsePositivesOf(17), falsePositivesOf(17)))
	fmt.Println("other seed:", slices.Equal(falsePositivesOf(17), falsePositivesOf(18)))
	// Output:
	// same seed: true
	// other seed: false
}

// A filter that grows is full, too, when another layer would exceed a limit: here that of the store.
func ExampleBloom_Add_cannotGrow() {
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true, Seed: 1, MaxFilterBytes: 4096})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	f := db.Bloom("f")
	if err := f.Reserve(sievekv.Capacity(1000, 0.001), nil); err != nil {
		log.Fatal(err)
	}
	for item := range uint64(10_000) {
		if _, err := f.Add(sievekv.Uint64(item)); err != nil {
			fmt.Println(errors.Is(err, sievekv.ErrCannotGrow), errors.Is(err, sievekv.ErrFull))
			return
		}
	}
	// Output: true false
}

// A filter in which each item is at most once, so that one deletion removes it. An item that was not added must not be
// deleted: it may seem to be present because of another one.
func ExampleCuckoo_AddIfAbsent() {
	db := inMemory()
	defer db.Close()
	online := db.Cuckoo("online")
	if err := online.Reserve(sievekv.Capacity(1000, 1e-6), nil); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		fmt.Println(online.AddIfAbsentString("alice"))
	}
	fmt.Println(online.CountString("alice"))
	// Output:
	// true <nil>
	// false <nil>
	// 1 <nil>
}

// After many deletions Compact moves what is left into the older layers, so that lookups read fewer.
func ExampleCuckoo_Compact() {
	db := inMemory()
	defer db.Close()
	f := db.Cuckoo("f")
	if err := f.Reserve(sievekv.Capacity(1000, 0.001), nil); err != nil {
		log.Fatal(err)
	}
	items := make([]uint64, 5000)
	for i := range items {
		items[i] = uint64(i)
	}
	if _, err := f.AddMany(sievekv.Uint64s(items...), nil); err != nil {
		log.Fatal(err)
	}
	full, err := f.Info()
	if err != nil {
		log.Fatal(err)
	}
	if _, err := f.DeleteMany(sievekv.Uint64s(items[500:]...), nil); err != nil {
		log.Fatal(err)
	}
	if err := f.Compact(); err != nil {
		log.Fatal(err)
	}
	compact, err := f.Info()
	fmt.Println(len(full.Layers), "layers, then", len(compact.Layers), err)
	// Output: 2 layers, then 1 <nil>
}

// The union of counting filters has each item as often as they have it together.
func ExampleCounting_Merge() {
	db := inMemory()
	defer db.Close()
	size, fixed := sievekv.Capacity(1000, 0.001), &sievekv.CountingConfig{NonScaling: true}
	for key, items := range map[string][]string{"monday": {"alice", "bob"}, "tuesday": {"alice"}} {
		f := db.Counting(key)
		if err := f.Reserve(size, fixed); err != nil {
			log.Fatal(err)
		}
		if _, err := f.AddManyString(items, nil); err != nil {
			log.Fatal(err)
		}
	}
	week := db.Counting("week") // Merge makes it
	if err := week.Merge(context.Background(), db.Counting("monday"), db.Counting("tuesday")); err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"alice", "bob"} {
		n, err := week.CountString(name)
		fmt.Println(name, n, err)
	}
	// Output:
	// alice 2 <nil>
	// bob 1 <nil>
}
