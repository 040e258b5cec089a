package txn_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/txn"
)

// inMemory opens a store with Bloom filters and transactions for an example. Package sievekv opens one with everything.
func inMemory() *kv.DB {
	db, err := kv.Open("", &kv.Options{InMemory: true, Modules: coreext.With(bloomext.Module(), txn.Module())})
	if err != nil {
		log.Fatal(err)
	}
	return db
}

// A row and its entry in a filter are written together. An error undoes both.
func ExampleUpdate() {
	db := inMemory()
	defer db.Close()
	ctx := context.Background()
	orders := bloomext.New(db, "orders")
	if err := orders.Reserve(bloomext.Config{Capacity: 1000, ErrorRate: 0.001}); err != nil {
		log.Fatal(err)
	}
	errNoRow := errors.New("an order without a row")
	insert := func(id, row string) error {
		return txn.Update(ctx, db, kv.Always, func(tx *txn.Tx) error {
			if _, err := orders.In(tx).Add([]byte(id)); err != nil {
				return err
			}
			if row == "" {
				return errNoRow
			}
			return tx.Set("order:"+id, []byte(row))
		})
	}
	fmt.Println(insert("17", "two apples"))
	fmt.Println(insert("18", ""))
	for _, id := range []string{"17", "18"} {
		known, err := orders.MayContain([]byte(id))
		fmt.Println(id, known, err)
	}
	// Output:
	// <nil>
	// an order without a row
	// 17 true <nil>
	// 18 false <nil>
}

// A snapshot is of one moment: later writes are not in it.
func ExampleView() {
	db := inMemory()
	defer db.Close()
	fruit := []byte("fruit")
	set := func(value string) {
		if _, err := db.Set(kv.Always, fruit, []byte(value), kv.SetOptions{}); err != nil {
			log.Fatal(err)
		}
	}
	set("apple")
	err := txn.View(context.Background(), db, func(s *txn.Snapshot) error {
		set("pear") // does not wait for the view
		value, err := s.Get("fruit")
		fmt.Printf("in the view: %s\n", value)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	value, err := db.Get(fruit)
	fmt.Printf("in the store: %s %v\n", value, err)
	// Output:
	// in the view: apple
	// in the store: pear <nil>
}

// The commands of Redis in two sessions; a server has one for each connection. EXEC runs the queued commands as one
// commit, or answers nil and does nothing if a watched key has changed.
func ExampleModule() {
	db := inMemory()
	defer db.Close()
	alice, bob := module.NewSession(db), module.NewSession(db)
	do := func(s *module.Session, words ...string) reply.Reply {
		args := make([][]byte, len(words))
		for i, word := range words {
			args[i] = []byte(word)
		}
		return s.Do(context.Background(), args)
	}
	fmt.Println(do(alice, "MULTI"))
	fmt.Println(do(alice, "BF.ADD", "seen", "order:17"))
	fmt.Println(do(alice, "SET", "order:17", "two apples"))
	fmt.Println(do(bob, "EXISTS", "seen", "order:17")) // nothing is done before EXEC
	fmt.Println(do(alice, "EXEC"))

	fmt.Println(do(alice, "WATCH", "order:17"))
	fmt.Println(do(bob, "SET", "order:17", "three apples"))
	fmt.Println(do(alice, "MULTI"))
	fmt.Println(do(alice, "DEL", "order:17"))
	fmt.Println(do(alice, "EXEC"))
	// Output:
	// OK
	// QUEUED
	// QUEUED
	// (integer) 0
	// 1) (integer) 1
	// 2) OK
	// OK
	// OK
	// OK
	// QUEUED
	// (nil)
}
