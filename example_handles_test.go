package sievekv_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/sievekv/sievekv"
)

// The store also keeps strings: values of any bytes, counters, and keys that expire.
func ExampleDB() {
	db := inMemory()
	defer db.Close()
	if err := db.Set("user:17", []byte("alice")); err != nil {
		log.Fatal(err)
	}
	name, err := db.Get("user:17")
	fmt.Println(string(name), err)
	visits, err := db.Incr("visits", 2)
	fmt.Println(visits, err)
	_, err = db.Get("user:18")
	fmt.Println(errors.Is(err, sievekv.ErrNotFound))
	n, err := db.Delete("user:17", "user:18")
	fmt.Println(n, err)
	// Output:
	// alice <nil>
	// 2 <nil>
	// true
	// 1 <nil>
}

// A transaction changes a filter and the data it guards together. It writes the row whatever the filter says: the
// filter's answer that the order exists may be a false positive.
func ExampleDB_Update() {
	db := inMemory()
	defer db.Close()
	ctx := context.Background()
	row := []byte("two apples")
	orders := db.Bloom("orders")
	if err := orders.OpenOrReserve(sievekv.Capacity(1_000_000, 0.001), nil); err != nil {
		log.Fatal(err)
	}
	err := db.Update(ctx, func(tx *sievekv.Tx) error {
		if _, err := tx.Bloom("orders").AddString("17"); err != nil {
			return err
		}
		return tx.Set("order:17", row)
	})
	if err != nil {
		log.Fatal(err)
	}
	row, err = db.Get("order:17")
	fmt.Println(string(row), err)
	// Output: two apples <nil>
}

// A transaction reads what it has written; nobody else does before the commit. Rollback after Commit does nothing, so
// it can be deferred.
func ExampleTx() {
	db := inMemory()
	defer db.Close()
	move := func(from, to string, amount int64) error {
		tx, err := db.BeginTx(context.Background())
		if err != nil {
			return err
		}
		defer tx.Rollback()
		left, err := tx.Incr(from, -amount)
		if err != nil {
			return err
		}
		if left < 0 {
			return fmt.Errorf("%s would have %d", from, left)
		}
		if _, err := tx.Incr(to, amount); err != nil {
			return err
		}
		return tx.Commit()
	}
	if err := db.Set("alice", []byte("10")); err != nil {
		log.Fatal(err)
	}
	fmt.Println(move("alice", "bob", 7))
	fmt.Println(move("alice", "bob", 7))
	balances, err := db.MGet("alice", "bob")
	fmt.Printf("%s %v\n", balances, err)
	// Output:
	// <nil>
	// alice would have -4
	// [3 7] <nil>
}

// A snapshot is the store as of one moment. It does not contain later writes, and these do not wait for it.
func ExampleSnapshot() {
	db := inMemory()
	defer db.Close()
	seen := db.Bloom("seen")
	if err := seen.Reserve(sievekv.Capacity(1000, 0.001), nil); err != nil {
		log.Fatal(err)
	}
	err := db.View(context.Background(), func(s *sievekv.Snapshot) error {
		if _, err := seen.AddString("apple"); err != nil {
			return err
		}
		then, err := s.Bloom("seen").MayContainString("apple")
		if err != nil {
			return err
		}
		now, err := seen.MayContainString("apple")
		fmt.Println(then, now)
		return err
	})
	fmt.Println(err)
	// Output:
	// false true
	// <nil>
}

// A lock that its holder need not release: a key that must be missing, and expires.
func ExampleDB_SetWith() {
	db, clock := withClock()
	defer db.Close()
	lock := sievekv.SetOptions{If: sievekv.IfMissing, TTL: 10 * time.Second}
	for _, who := range []string{"first", "second"} {
		held, err := db.SetWith("lock", []byte(who), lock)
		fmt.Println(who, held, err)
	}
	clock.advance(10 * time.Second)
	held, err := db.SetWith("lock", []byte("third"), lock)
	fmt.Println("third", held, err)
	// Output:
	// first true <nil>
	// second false <nil>
	// third true <nil>
}

// The keys of one type that match a pattern.
func ExampleDB_Scan() {
	db := inMemory()
	defer db.Close()
	for _, key := range []string{"seen:monday", "seen:tuesday"} {
		if err := db.Bloom(key).Reserve(sievekv.Capacity(1000, 0.001), nil); err != nil {
			log.Fatal(err)
		}
	}
	if err := db.Set("seen:note", []byte("not a filter")); err != nil {
		log.Fatal(err)
	}
	var keys []string
	for key, err := range db.Scan(context.Background(), sievekv.ScanOptions{Match: "seen:*", NoStrings: true}) {
		if err != nil {
			log.Fatal(err)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	fmt.Println(keys)
	// Output: [seen:monday seen:tuesday]
}

func ExampleBloom() {
	db := inMemory()
	defer db.Close()
	seen := db.Bloom("seen")
	if err := seen.OpenOrReserve(sievekv.Capacity(1_000_000, 0.001), nil); err != nil {
		log.Fatal(err)
	}
	isNew, err := seen.AddString("https://example.org/")
	fmt.Println(isNew, err)
	n, err := seen.AddManyString([]string{"https://example.org/", "https://example.com/"}, nil)
	fmt.Println(n, "new", err)
	maybe, err := seen.MayContainString("https://example.net/")
	fmt.Println(maybe, err)
	// Output:
	// true <nil>
	// 1 new <nil>
	// false <nil>
}

// A cuckoo filter has an item as often as it was added, and can delete it as often.
func ExampleCuckoo() {
	db := inMemory()
	defer db.Close()
	err := func() error {
		revoked := db.Cuckoo("revoked")
		if err := revoked.OpenOrReserve(sievekv.Capacity(1_000_000, 0.0001), nil); err != nil {
			return err
		}
		if _, err := revoked.AddString("token 17"); err != nil { // an item may be added several times
			return err
		}
		was, err := revoked.DeleteString("token 17") // one copy of it
		fmt.Println(was, err)
		was, err = revoked.MayContainString("token 17")
		fmt.Println(was, err)
		return err
	}()
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// true <nil>
	// false <nil>
}

// A counting Bloom filter counts up to 15.
func ExampleCounting() {
	db := inMemory()
	defer db.Close()
	err := func() error {
		running := db.Counting("running")
		if err := running.OpenOrReserve(sievekv.Capacity(1_000_000, 0.0001), nil); err != nil {
			return err
		}
		if _, err := running.AddString("alice"); err != nil { // an item may be added several times
			return err
		}
		n, err := running.CountString("alice")    // never too low; 15: not known any more
		was, err := running.DeleteString("alice") // once
		fmt.Println(n, was, err)
		return err
	}()
	if err != nil {
		log.Fatal(err)
	}
	// Output: 1 true <nil>
}

// A function for filters of any type.
func ExampleFilter() {
	db := inMemory()
	defer db.Close()
	bloom, cuckoo := db.Bloom("bloom"), db.Cuckoo("cuckoo")
	if err := bloom.Reserve(sievekv.Capacity(1000, 0.001), nil); err != nil {
		log.Fatal(err)
	}
	if err := cuckoo.Reserve(sievekv.Capacity(1000, 0.001), nil); err != nil {
		log.Fatal(err)
	}
	news := func(f sievekv.Filter, items ...string) (unseen []string, err error) {
		isNew := make([]bool, len(items))
		if _, err := f.AddManyString(items, isNew); err != nil {
			return nil, err
		}
		for i, item := range items {
			if isNew[i] {
				unseen = append(unseen, item)
			}
		}
		return unseen, nil
	}
	for _, f := range []sievekv.Filter{bloom, cuckoo} {
		fmt.Println(news(f, "apple", "pear", "apple"))
		fmt.Println(news(f, "pear", "plum"))
	}
	// Output:
	// [apple pear] <nil>
	// [plum] <nil>
	// [apple pear] <nil>
	// [plum] <nil>
}

// If one of many items cannot be added, the error says which. The items before it are added.
func ExampleItemError() {
	db := inMemory()
	defer db.Close()
	few := db.Bloom("few")
	if err := few.Reserve(sievekv.Capacity(100, 0.001), &sievekv.BloomConfig{NonScaling: true}); err != nil {
		log.Fatal(err)
	}
	items := make([]uint64, 150)
	for i := range items {
		items[i] = uint64(i)
	}
	n, err := few.AddMany(sievekv.Uint64s(items...), nil)
	var failed *sievekv.ItemError
	if errors.As(err, &failed) {
		fmt.Println(n, "are new; there is no room for item", failed.Item, errors.Is(err, sievekv.ErrFull))
	}
	// Output: 100 are new; there is no room for item 100 true
}
