package sievekv_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/sievekv/sievekv"
)

// A token that is revoked early stays in a filter until its time is over. So hardly any of the many valid tokens must
// be looked up in the database. Un-revoking removes a token from the filter. There is a filter for each hour in which
// tokens end; it expires with them.
func Example_revokedSessions() {
	db, clock := withClock()
	defer db.Close()
	const longest = time.Hour // of a session
	revokedOf := func(hour string) *sievekv.Cuckoo {
		f := db.Cuckoo("revoked:" + hour)
		err := f.OpenOrReserve(sievekv.Capacity(100_000, 1e-4), &sievekv.CuckooConfig{TTL: 2 * longest})
		if err != nil {
			log.Fatal(err)
		}
		return f
	}
	database := map[string]bool{} // the tokens revoked: it decides, where the filter says perhaps
	revoke := func(hour, token string) {
		if database[token] {
			return // one entry for each token, so that deleting it takes it out
		}
		database[token] = true
		if _, err := revokedOf(hour).AddString(token); err != nil {
			log.Fatal(err)
		}
	}
	unrevoke := func(hour, token string) {
		// Do not delete an item that was never added: that might remove another one.
		if !database[token] {
			return
		}
		delete(database, token)
		if _, err := revokedOf(hour).DeleteString(token); err != nil {
			log.Fatal(err)
		}
	}
	valid := func(hour, token string) bool {
		maybe, err := db.Cuckoo("revoked:" + hour).MayContainString(token)
		if err != nil && !errors.Is(err, sievekv.ErrNotFound) { // no token of that hour was revoked
			log.Fatal(err)
		}
		return err != nil || !maybe || !database[token]
	}

	revoke("10h", "alice-1")
	revoke("10h", "bob-1")
	unrevoke("10h", "bob-1")
	unrevoke("10h", "carol-1") // nobody had revoked it
	fmt.Println("alice-1:", valid("10h", "alice-1"))
	fmt.Println("bob-1:", valid("10h", "bob-1"))
	fmt.Println("carol-1:", valid("10h", "carol-1"))
	clock.advance(2 * longest)
	_, err := db.Cuckoo("revoked:10h").MayContainString("alice-1")
	fmt.Println("the filter is gone:", errors.Is(err, sievekv.ErrNotFound))
	// Output:
	// alice-1: false
	// bob-1: true
	// carol-1: true
	// the filter is gone: true
}

// A shop has few pieces of many articles. A cart reserves a piece with an entry in a filter, and cancelling deletes
// the entry; the count of the article is the number of reserved pieces. It may rarely be too high, and then a
// customer is refused though a piece is left, but it is never too low: no piece is sold twice. The transaction keeps
// count and entry together.
func Example_reservations() {
	db := inMemory()
	defer db.Close()
	ctx := context.Background()
	reserved := db.Cuckoo("reserved")
	// A bucket size of 8 has room for 16 pieces of an article.
	err := reserved.Reserve(sievekv.Capacity(100_000, 1e-6), &sievekv.CuckooConfig{BucketSize: 8})
	if err != nil {
		log.Fatal(err)
	}
	errSoldOut := errors.New("sold out")
	reserve := func(article string, pieces int) error {
		return db.Update(ctx, func(tx *sievekv.Tx) error {
			f := tx.Cuckoo("reserved")
			n, err := f.CountString(article)
			if err != nil {
				return err
			}
			if n >= pieces {
				return errSoldOut
			}
			_, err = f.AddString(article)
			return err
		})
	}
	for range 4 {
		fmt.Println("reserve a lamp:", reserve("lamp", 3))
	}
	// Only a cart that has reserved a piece may cancel it.
	cancelled, err := reserved.DeleteString("lamp")
	fmt.Println("cancel a lamp:", cancelled, err)
	fmt.Println("reserve a lamp:", reserve("lamp", 3))
	n, err := reserved.CountString("lamp")
	fmt.Println("lamps reserved:", n, err)
	// Output:
	// reserve a lamp: <nil>
	// reserve a lamp: <nil>
	// reserve a lamp: <nil>
	// reserve a lamp: sold out
	// cancel a lamp: true <nil>
	// reserve a lamp: <nil>
	// lamps reserved: 3 <nil>
}
