package sievekv_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/sievekv/sievekv"
)

// inMemory opens a store for an example; a program gives a directory instead.
func inMemory() *sievekv.DB {
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	return db
}

func Example() {
	dir, err := os.MkdirTemp("", "sievekv")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := sievekv.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	seen := db.Bloom("seen")
	if err := seen.Reserve(sievekv.Capacity(1000, 0.001), nil); err != nil {
		log.Fatal(err)
	}
	isNew, err := seen.AddString("https://example.org/")
	fmt.Println(isNew, err)
	isNew, err = seen.AddString("https://example.org/")
	fmt.Println(isNew, err)
	if err := db.Close(); err != nil {
		log.Fatal(err)
	}

	db, err = sievekv.Open(dir, nil) // the next process
	if err != nil {
		log.Fatal(err)
	}
	maybe, err := db.Bloom("seen").MayContainString("https://example.org/")
	fmt.Println(maybe, err)
	if err := db.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// true <nil>
	// false <nil>
	// true <nil>
}

// A service makes its filters when it starts, and finds them the next time. If its configuration has changed, the
// error says so, with the values.
func ExampleBloom_OpenOrReserve() {
	db := inMemory()
	defer db.Close()
	seen := db.Bloom("seen")
	for _, capacity := range []uint64{10_000, 10_000, 50_000} {
		err := seen.OpenOrReserve(sievekv.Capacity(capacity, 0.01), nil)
		fmt.Println(err, errors.Is(err, sievekv.ErrMismatch))
	}
	// Output:
	// <nil> false
	// <nil> false
	// sievekv: filter was made with other parameters: key "seen": capacity is 10000, asked for 50000 true
}

// Most of the many clients that try to register for a flash sale are new, and the filter says so from memory. Only
// for clients that seem known the service asks the database, which alone decides, so that no client is refused
// because of a false positive.
func Example_flashSale() {
	db := inMemory()
	defer db.Close()
	registered := db.Bloom("sale:42")
	// No growth: this is the most clients that can take part.
	if err := registered.Reserve(sievekv.Capacity(100_000, 0.001), &sievekv.BloomConfig{NonScaling: true}); err != nil {
		log.Fatal(err)
	}
	database := make(map[uint64]bool) // stands for a table with a unique index
	questions := 0
	register := func(user uint64) bool {
		known, err := registered.MayContain(sievekv.Uint64(user))
		if err != nil {
			log.Fatal(err)
		}
		if known {
			questions++
			if database[user] {
				return false
			}
		}
		database[user] = true
		if _, err := registered.Add(sievekv.Uint64(user)); err != nil {
			log.Fatal(err)
		}
		return true
	}
	registrations := 0
	for user := range uint64(2000) {
		for range 1 + user%2 { // every other user tries twice
			if register(user) {
				registrations++
			}
		}
	}
	fmt.Println(registrations, "registered")
	fmt.Println("questions to the database below 1,010:", questions < 1010)
	// Output:
	// 2000 registered
	// questions to the database below 1,010: true
}

// Requests carry an id, and a client that got no answer sends its request again. A filter for each day, which
// expires, tells the second time from the first.
func Example_requestDeduplication() {
	db := inMemory()
	defer db.Close()
	handle := func(day, id string) string {
		seen := db.Bloom("requests:" + day)
		err := seen.OpenOrReserve(sievekv.Capacity(1_000_000, 1e-6), &sievekv.BloomConfig{TTL: 48 * time.Hour})
		if err != nil {
			log.Fatal(err)
		}
		// At level Always the answer comes when the id is on stable storage: after a crash the request is still
		// known.
		isNew, err := seen.AddString(id)
		if err != nil {
			log.Fatal(err)
		}
		if !isNew {
			return id + ": answered before"
		}
		return id + ": done"
	}
	fmt.Println(handle("2026-03-01", "8c1f"))
	fmt.Println(handle("2026-03-01", "77ab"))
	fmt.Println(handle("2026-03-01", "8c1f"))
	// Output:
	// 8c1f: done
	// 77ab: done
	// 8c1f: answered before
}

// A recommender does not show an article twice. Each of 20,000 users has a small filter, which grows with the
// articles read and expires after a month.
func Example_readingHistory() {
	db := inMemory()
	defer db.Close()
	const users, articles = 20_000, 12
	size, month := sievekv.Capacity(16, 0.01), &sievekv.BloomConfig{TTL: 30 * 24 * time.Hour}
	added := make([]bool, articles)
	for user := range users {
		read := make([][]byte, articles)
		for i := range read {
			read[i] = sievekv.Uint64(uint64(user*7 + i*13))
		}
		// Here a crash of the machine may lose the last second.
		seen := db.Bloom(fmt.Sprint("read:", user)).With(sievekv.EverySec)
		if err := seen.OpenOrReserve(size, month); err != nil {
			log.Fatal(err)
		}
		if _, err := seen.AddMany(read, added); err != nil {
			log.Fatal(err)
		}
	}
	// Which of these should user 4711 see?
	candidates := sievekv.Uint64s(4711*7, 4711*7+13, 1, 2, 3)
	known := make([]bool, len(candidates))
	if err := db.Bloom("read:4711").MayContainMany(candidates, known); err != nil {
		log.Fatal(err)
	}
	fmt.Println(known)
	_, err := db.Bloom("read:200000").MayContain(sievekv.Uint64(1))
	fmt.Println("a user without a history:", errors.Is(err, sievekv.ErrNotFound))
	// Output:
	// [true true false false false]
	// a user without a history: true
}

// Several workers fill filters with equal parameters, which are then merged.
func ExampleBloom_Merge() {
	db := inMemory()
	defer db.Close()
	size, fixed := sievekv.Capacity(1000, 0.01), &sievekv.BloomConfig{NonScaling: true}
	for _, worker := range []string{"a", "b"} {
		f := db.Bloom(worker)
		if err := f.Reserve(size, fixed); err != nil {
			log.Fatal(err)
		}
		if _, err := f.AddString("from " + worker); err != nil {
			log.Fatal(err)
		}
	}
	all := db.Bloom("all")
	if err := all.Merge(context.Background(), db.Bloom("a"), db.Bloom("b")); err != nil {
		log.Fatal(err)
	}
	known := make([]bool, 3)
	if err := all.MayContainManyString([]string{"from a", "from b", "from c"}, known); err != nil {
		log.Fatal(err)
	}
	fmt.Println(known)
	// Output: [true true false]
}
