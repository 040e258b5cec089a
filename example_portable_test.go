package sievekv_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/sievekv/sievekv"
)

// A filter is made in one place, and shipped as a file to stores and to programs without one.
func ExampleDB_Export() {
	ctx := context.Background()
	db, other := inMemory(), inMemory()
	defer db.Close()
	defer other.Close()
	leaked := db.Bloom("leaked")
	if err := leaked.Reserve(sievekv.Capacity(1_000_000, 0.001), nil); err != nil {
		log.Fatal(err)
	}
	if _, err := leaked.AddManyString([]string{"123456", "letmein"}, nil); err != nil {
		log.Fatal(err)
	}
	err := func() error {
		var file bytes.Buffer // or an *os.File
		if err := db.Export(ctx, "leaked", &file); err != nil {
			return err
		}
		frozen, err := sievekv.ReadFilter(bytes.NewReader(file.Bytes())) // needs no store
		if err != nil {
			return err
		}
		fmt.Println(frozen.MayContainString("letmein"), frozen.MayContainString("correct horse"))
		return other.Import(ctx, "passwords:leaked", &file)
	}()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(other.Bloom("passwords:leaked").MayContainString("letmein"))
	// Output:
	// true false
	// true <nil>
}

// Several programs build parts of a filter. Their stores have the same Seed, so the parts can be merged.
func ExampleDB_ImportWith() {
	ctx := context.Background()
	parts := make([]*sievekv.DB, 2)
	for i := range parts {
		db, err := sievekv.Open("", &sievekv.Options{InMemory: true, Seed: 20261124})
		if err != nil {
			log.Fatal(err)
		}
		defer db.Close()
		if err := db.Bloom("seen").Reserve(sievekv.Capacity(1000, 0.001), nil); err != nil {
			log.Fatal(err)
		}
		if _, err := db.Bloom("seen").AddString(fmt.Sprint("page of part ", i)); err != nil {
			log.Fatal(err)
		}
		parts[i] = db
	}
	var file bytes.Buffer
	if err := parts[1].Export(ctx, "seen", &file); err != nil {
		log.Fatal(err)
	}
	if err := parts[0].ImportWith(ctx, "seen", &file, sievekv.ImportOptions{Merge: true}); err != nil {
		log.Fatal(err)
	}
	for i := range parts {
		fmt.Println(parts[0].Bloom("seen").MayContainString(fmt.Sprint("page of part ", i)))
	}
	// Output:
	// true <nil>
	// true <nil>
}

// A filter that a program in Java has written with Guava, BloomFilter.writeTo, goes on here.
func ExampleBloom_ImportForeign() {
	db := inMemory()
	defer db.Close()
	file, err := os.Open("bloomext/testdata/guava64.bloom") // of strings, with Funnels.stringFunnel(UTF_8)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	users := db.Bloom("users")
	if err := users.ImportForeign(context.Background(), file, sievekv.ForeignFile{Format: sievekv.ForeignGuava}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(users.MayContainString("7 of the item"))
	fmt.Println(users.AddString("zebra"))
	// Output:
	// true <nil>
	// true <nil>
}
