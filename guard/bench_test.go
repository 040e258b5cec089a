package guard_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/guard"
)

func BenchmarkGet(b *testing.B) {
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	value := make([]byte, 100)
	g, err := guard.New(db, "users", guard.Options{Empty: true, TTL: 3600e9, Load: func(context.Context, string) ([]byte, error) { return value, nil }})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	ids := make([]string, 1000)
	for i := range ids {
		ids[i] = fmt.Sprint("user-", i)
		if err := g.Put(b.Context(), ids[i], value, nil); err != nil {
			b.Fatal(err)
		}
		if err := db.Set("row:"+ids[i], value); err != nil {
			b.Fatal(err)
		}
	}
	keys := make([]string, len(ids))
	for i := range keys {
		keys[i] = "row:" + ids[i]
	}
	b.Run("store", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if _, err := db.Get(keys[i%1000]); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
	b.Run("warm", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if _, err := g.Get(b.Context(), ids[i%1000]); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
	b.Run("refused", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := g.Get(b.Context(), "nobody"); err != guard.ErrNotFound {
				b.Fatal(err)
			}
		}
	})
}
