package sievekv_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/sievekv/sievekv"
)

// Which articles were shown to a reader in the last 7 days? An article that was not shown since is new again.
func ExampleWindow() {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true, Clock: func() time.Time { return now }})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	shown := db.Bloom("shown:alice")
	const week = 7 * 24 * time.Hour
	if err := shown.OpenOrReserve(sievekv.Window(week, 1000, 0.001), nil); err != nil {
		log.Fatal(err)
	}
	show := func(article string) {
		isNew, err := shown.AddString(article)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(now.Format(time.DateOnly), article, isNew)
	}
	show("article 17")
	now = now.Add(5 * 24 * time.Hour)
	show("article 17") // is kept for another week
	show("article 18")
	now = now.Add(6 * 24 * time.Hour)
	show("article 17")
	now = now.Add(8 * 24 * time.Hour)
	show("article 18")
	// Output:
	// 2026-11-01 article 17 true
	// 2026-11-06 article 17 false
	// 2026-11-06 article 18 true
	// 2026-11-12 article 17 false
	// 2026-11-20 article 18 true
}

// Was a request with this idempotency key done in the last 24 hours? The key and what the request does are one transaction,
// so that a request that fails can be repeated.
func ExampleWindow_idempotency() {
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	done := db.Bloom("requests")
	err = done.OpenOrReserve(sievekv.Window(24*time.Hour, 1_000_000, 1e-9), &sievekv.BloomConfig{Slices: 24})
	if err != nil {
		log.Fatal(err)
	}
	deposit := func(key string, cents int64) {
		err := db.Update(context.Background(), func(tx *sievekv.Tx) error {
			isNew, err := tx.Bloom("requests").AddString(key)
			if err != nil || !isNew {
				return err
			}
			_, err = tx.Incr("balance", cents)
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	deposit("7f1d-42", 500)
	deposit("7f1d-42", 500) // the client had no answer, and asks once more
	balance, err := db.Get("balance")
	fmt.Println(string(balance), err)
	// Output: 500 <nil>
}

// A crawler fetches a page again 30 days after it was fetched last: Add keeps a page for another window, so it asks first.
func ExampleWindow_recrawl() {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true, Clock: func() time.Time { return now }})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	fetched := db.Bloom("fetched")
	const day = 24 * time.Hour
	if err := fetched.OpenOrReserve(sievekv.Window(30*day, 100_000, 1e-6), &sievekv.BloomConfig{Slices: 30}); err != nil {
		log.Fatal(err)
	}
	for i := range 62 { // each day, a link to the page is found
		recent, err := fetched.MayContainString("https://example.org/")
		if err != nil {
			log.Fatal(err)
		}
		if !recent {
			fmt.Println("fetched on day", i)
			if _, err := fetched.AddString("https://example.org/"); err != nil {
				log.Fatal(err)
			}
		}
		now = now.Add(day)
	}
	// Output:
	// fetched on day 0
	// fetched on day 31
}
