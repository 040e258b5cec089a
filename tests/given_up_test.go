package tests

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// lookedAt is a context that ends after it was looked at a number of times.
type lookedAt struct {
	context.Context
	left atomic.Int64
}

func endsAfter(t *testing.T, looks int) *lookedAt {
	c := &lookedAt{Context: t.Context()}
	c.left.Store(int64(looks))
	return c
}

func (c *lookedAt) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// A command that goes through many keys or items is given up where its context ends, with
// the context's error and nothing written; alone, and as part of a transaction.
func TestCommands_givenUp(t *testing.T) {
	const words = 5000
	var list, pairs []string
	for i := range words {
		list = append(list, fmt.Sprint("k", i))
		pairs = append(pairs, fmt.Sprint("k", i), "v")
	}
	keys, keyValues := " "+strings.Join(list, " "), " "+strings.Join(pairs, " ")
	newValues := strings.ReplaceAll(keyValues, "k", "n")
	commands := []struct {
		line  string
		loops int // through the words, in a transaction
	}{
		{"MGET" + keys, 1}, {"EXISTS" + keys, 1}, {"TOUCH" + keys, 1}, {"KEYS *", 1}, {"SCAN 0 COUNT 100000", 1},
		{"MSETNX" + newValues, 2}, {"MSET" + keyValues, 1},
		{"BITOP OR result" + keys, 2}, {"SIEVE.BITCOUNTOP OR" + keys, 2}, {"DEL" + keys, 1}, {"UNLINK" + keys, 1},
		{"BF.MADD bf" + keys, 1}, {"BF.MADD new-bf" + keys, 1}, {"BF.MADD large-bf" + keys, 1},
		{"BF.INSERT small-bf CAPACITY 10 ITEMS" + keys, 1}, {"BF.MEXISTS large-bf" + keys, 2},
		{"CF.INSERT cf ITEMS" + keys, 1}, {"CF.INSERTNX new-cf ITEMS" + keys, 1}, {"CF.MEXISTS cf" + keys, 2},
		{"CBF.MADD cbf" + keys, 1}, {"CBF.MADD large-cbf" + keys, 1}, {"CBF.INSERT new-cbf ITEMS" + keys, 1},
		{"CBF.MEXISTS cbf" + keys, 2}, {"CBF.MDEL cbf" + keys, 1},
	}
	db, err := sievekv.Open("store", &kv.Options{InMemory: true, Durability: kv.NoSync, MemTableSize: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	user := module.NewSession(db.Store())
	do := func(ctx context.Context, line string) string {
		var words [][]byte
		for word := range strings.FieldsSeq(line) {
			words = append(words, []byte(word))
		}
		r := user.Do(ctx, words)
		if r.IsError() {
			return string(r.Bytes())
		}
		return "done"
	}
	for _, line := range []string{
		"CONFIG SET growth-log-bytes 0", // filled layers are commits, too
		"MSET" + keyValues, "BF.MADD bf a b c", "CF.INSERT cf ITEMS a b c", "CBF.MADD cbf a b c",
		"BF.RESERVE large-bf 0.01 1000000", "CBF.RESERVE large-cbf 0.01 1000000",
	} {
		if got := do(t.Context(), line); got != "done" {
			t.Fatalf("%.30s answers %s", line, got)
		}
	}
	commits := func() uint64 {
		m, err := db.Store().Metrics()
		if err != nil {
			t.Fatal(err)
		}
		return m.Commits
	}
	// givenUp has a command given up later and later, until it is not, and returns how often
	// it has looked at its context then.
	givenUp := func(t *testing.T, begin []string, line string) int {
		before := commits()
		for looks := 0; ; looks += 1 + looks/8 {
			for _, first := range begin {
				if got := do(t.Context(), first); got != "done" {
					t.Fatalf("%.20s answers %s", first, got)
				}
			}
			ctx := endsAfter(t, looks)
			switch got := do(ctx, line); {
			case got == "done":
				left := int(ctx.left.Load())
				if left < 0 {
					t.Fatalf("%.20s has seen that it is given up, and answers", line)
				}
				return looks - left
			case got != "ERR context canceled":
				t.Fatalf("given up after %d looks %.20s answers %s", looks, line, got)
			}
			if after := commits(); after != before {
				t.Fatalf("given up after %d looks %.20s has made %d commits", looks, line, after-before)
			}
			do(t.Context(), "DISCARD") // EXEC was given up before it began
		}
	}
	for _, c := range commands {
		t.Run(fmt.Sprintf("%.20s", c.line), func(t *testing.T) {
			loop := (words + 1023) / 1024
			if n := givenUp(t, []string{"MULTI", "INCR number", c.line}, "EXEC"); n < c.loops*loop {
				t.Errorf("in a transaction it looks at its context %d times", n)
			}
			do(t.Context(), "DEL"+strings.ReplaceAll(keys, "k", "n")) // for MSETNX
			if n := givenUp(t, nil, c.line); n < loop {
				t.Errorf("alone it looks at its context %d times", n)
			}
		})
	}
}
