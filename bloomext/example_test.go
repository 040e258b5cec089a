package bloomext_test

import (
	"fmt"
	"log"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
)

func Example() {
	db, err := kv.Open("", &kv.Options{InMemory: true, Modules: coreext.With(bloomext.Module())})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	seen := bloomext.New(db, "seen")
	if err := seen.Reserve(bloomext.Config{Capacity: 1_000_000, ErrorRate: 0.01}); err != nil {
		log.Fatal(err)
	}
	for _, page := range []string{"/", "/about", "/"} {
		isNew, err := seen.Add([]byte(page))
		fmt.Println(page, isNew, err)
	}
	// Output:
	// / true <nil>
	// /about true <nil>
	// / false <nil>
}
