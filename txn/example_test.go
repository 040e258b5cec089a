package txn_test

import (
	"context"
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
