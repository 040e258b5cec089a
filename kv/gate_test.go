package kv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// The gate is a read-write lock, also when waiting goroutines give up, as many do here: a goroutine that holds it alone
// is alone, and in the end it is free.
func TestGate(t *testing.T) {
	db := &DB{opts: Options{MaxIdleTransaction: -1}}
	var alone, sharing atomic.Int64
	plain := 0 // written by a goroutine that is alone, read by goroutines that share: the race detector looks on
	var wg sync.WaitGroup
	pass := func(r *rand.Rand, single bool) bool {
		switch r.IntN(4) {
		case 0:
			if !single {
				return db.gate.TryRLock()
			}
			fallthrough
		case 1:
			ctx, cancel := context.WithCancel(context.Background())
			steps := r.IntN(20)
			go func() {
				for range steps {
					runtime.Gosched()
				}
				cancel()
			}()
			return db.passGate(ctx, single) == nil
		}
		return db.passGate(context.Background(), single) == nil
	}
	for seed := range uint64(8) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			for range 5000 {
				single := r.IntN(3) == 0
				if !pass(r, single) {
					continue
				}
				if single {
					plain++
					if alone.Add(1) != 1 || sharing.Load() != 0 {
						t.Error("who holds the gate alone is not alone")
					}
					alone.Add(-1)
					db.gate.Unlock()
					continue
				}
				sharing.Add(1)
				if alone.Load() != 0 || plain < 0 {
					t.Error("the gate is shared with who holds it alone")
				}
				sharing.Add(-1)
				db.gate.RUnlock()
			}
		})
	}
	wg.Wait()
	if !db.gate.Free() || db.gate.Waiting() != 0 {
		t.Errorf("in the end the gate is not free, or %d wait", db.gate.Waiting())
	}
}

// A transaction that waits for a long write does not hold up other writes until that ends.
func TestGate_longWrite(t *testing.T) {
	db, err := Open("", &Options{InMemory: true, Durability: NoSync})
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan error)
	err = db.Write(NoSync, [][]byte{[]byte("long")}, func(*Writer) error {
		go func() {
			begun <- db.Update(context.Background(), NoSync, func(*Transaction) error { return nil })
		}()
		for db.gate.Waiting() == 0 {
			runtime.Gosched()
		}
		for i := range 20 {
			key := fmt.Append(nil, "k", i)
			if db.keyLockIndex(key) == db.keyLockIndex([]byte("long")) {
				continue
			}
			if err := db.Write(NoSync, [][]byte{key}, func(*Writer) error { return nil }); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	if err := errors.Join(err, <-begun, db.Close()); err != nil {
		t.Error(err)
	}
}
