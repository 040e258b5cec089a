package cuckooext_test

import (
	"fmt"
	"log"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
)

func Example() {
	db, err := kv.Open("", &kv.Options{InMemory: true, Modules: coreext.With(cuckooext.Module())})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	revoked := cuckooext.New(db, "revoked")
	if err := revoked.Reserve(cuckooext.Config{Capacity: 1_000_000, ErrorRate: 0.001}); err != nil {
		log.Fatal(err)
	}
	if _, err := revoked.Add([]byte("token 17")); err != nil {
		log.Fatal(err)
	}
	if _, err := revoked.Delete([]byte("token 17")); err != nil {
		log.Fatal(err)
	}
	present, err := revoked.MayContain([]byte("token 17"))
	fmt.Println(present, err)
	// Output: false <nil>
}
