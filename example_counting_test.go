package sievekv_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/sievekv/sievekv"
)

// Three requests of a client may run at the same time. A filter counts them: a request is added when it begins and
// deleted when it ends. The count may rarely be too high, and then a client is refused too early, but it is never too
// low. Clients without running requests take no space, however many there are.
func Example_requestsAtOnce() {
	db := inMemory()
	defer db.Close()
	ctx := context.Background()
	const limit = 3 // at most sievekv.MaxCount: a count of 15 may stand for more
	running := db.Counting("running")
	if err := running.Reserve(sievekv.Capacity(100_000, 1e-6), nil); err != nil {
		log.Fatal(err)
	}
	errBusy := errors.New("too many requests")
	begin := func(client string) error {
		return db.Update(ctx, func(tx *sievekv.Tx) error {
			f := tx.Counting("running")
			n, err := f.CountString(client)
			if err != nil {
				return err
			}
			if n >= limit {
				return errBusy
			}
			_, err = f.AddString(client)
			return err
		})
	}
	// Only a request that has begun may end: deleting an item that was never added removes others.
	end := func(client string) {
		if _, err := running.DeleteString(client); err != nil {
			log.Fatal(err)
		}
	}
	for range 4 {
		fmt.Println("alice:", begin("alice"))
	}
	fmt.Println("bob:", begin("bob"))
	end("alice")
	fmt.Println("alice, after one has ended:", begin("alice"))
	end("bob")
	for _, client := range []string{"alice", "bob"} {
		n, err := running.CountString(client)
		fmt.Println("running for", client, n, err)
	}
	// Output:
	// alice: <nil>
	// alice: <nil>
	// alice: <nil>
	// alice: too many requests
	// bob: <nil>
	// alice, after one has ended: <nil>
	// running for alice 3 <nil>
	// running for bob 0 <nil>
}
