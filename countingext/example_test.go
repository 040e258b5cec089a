package countingext_test

import (
	"fmt"
	"log"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/kv"
)

func Example() {
	db, err := kv.Open("", &kv.Options{InMemory: true, Modules: coreext.With(countingext.Module())})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	online := countingext.New(db, "online")
	if err := online.Reserve(countingext.Config{Capacity: 1_000_000, ErrorRate: 0.01}); err != nil {
		log.Fatal(err)
	}
	for _, user := range []string{"alice", "bob", "alice"} {
		if _, err := online.Add([]byte(user)); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := online.Delete([]byte("bob")); err != nil {
		log.Fatal(err)
	}
	for _, user := range []string{"alice", "bob"} {
		n, err := online.Count([]byte(user))
		fmt.Println(user, n, err)
	}
	// Output:
	// alice 2 <nil>
	// bob 0 <nil>
}
