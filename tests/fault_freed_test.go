package tests_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/txn"
)

// Space can be freed from inside a full disk: what only removes keys is accepted, from the reserve if need be, what it
// frees comes back, and then writes are accepted again and the reserve is there again.
func TestFault_freedFromInside(t *testing.T) {
	const ballast = storeDir + "/BALLAST"
	ctx := context.Background()
	// What is to be removed: a large object, or many small ones.
	large := func(db *kv.DB) error {
		f := &filler{db: db, key: "large"}
		if err := reserve("large", 10_000)(db, kv.NoSync); err != nil {
			return err
		}
		for range 200 {
			if err := f.write(40_000); err != nil {
				return err
			}
		}
		return nil
	}
	many := func(make func(db *kv.DB, key string) error) action {
		return func(db *kv.DB, _ kv.Durability) error {
			for i := range 200 {
				if err := make(db, fmt.Sprint("many", i)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	strings := many(func(db *kv.DB, key string) error {
		_, err := db.Set(kv.NoSync, []byte(key), make([]byte, 40_000), kv.SetOptions{})
		return err
	})
	filters := many(func(db *kv.DB, key string) error {
		f := &filler{db: db, key: key}
		return errors.Join(reserve(key, 100)(db, kv.NoSync), f.write(40_000))
	})
	var names [][]byte
	for i := range 200 {
		names = append(names, fmt.Appendf(nil, "many%d", i))
	}
	deleteMany := func(db *kv.DB) error {
		for some := range slices.Chunk(names, 20) { // a commit takes no more
			n, err := db.Delete(kv.Always, some...)
			if err = errors.Join(err, expect(n == len(some), fmt.Sprintf("%d keys were there", n))); err != nil {
				return err
			}
		}
		return nil
	}
	tests := map[string]struct {
		fill   func(db *kv.DB) error
		remove func(db *kv.DB) error
	}{
		"DEL":      {large, func(db *kv.DB) error { return deleteKey("large", 1)(db, kv.Always) }},
		"FLUSHALL": {large, func(db *kv.DB) error { return flushAll(db, kv.Always) }},
		"Drop": {large, func(db *kv.DB) error {
			_, err := bloomext.New(db, "large").Drop()
			return err
		}},
		"Update": {large, func(db *kv.DB) error {
			return txntest.Update(ctx, db, kv.Always, func(tx *txntest.Tx) error {
				_, err := tx.Delete("large")
				return err
			})
		}},
		"EXEC": {large, func(db *kv.DB) error {
			user := module.NewSession(db)
			var r reply.Reply
			for _, words := range [][]string{{"MULTI"}, {"UNLINK", "large"}, {"EXISTS", "large"}, {"EXEC"}} {
				args := make([][]byte, len(words))
				for i, word := range words {
					args[i] = []byte(word)
				}
				r = user.Do(ctx, args)
			}
			got := string(reply.AppendJSON(nil, r))
			return expect(got == "[1,0]\n", "EXEC: "+got)
		}},
		"expiry": {
			func(db *kv.DB) error {
				if err := large(db); err != nil {
					return err
				}
				_, err := db.Expire(kv.NoSync, []byte("large"), db.Now()+1_000_000, kv.ExpireAlways)
				return err
			},
			func(*kv.DB) error { return nil }, // time does it
		},
		"strings": {func(db *kv.DB) error { return strings(db, kv.NoSync) }, deleteMany},
		"filters": {func(db *kv.DB) error { return filters(db, kv.NoSync) }, deleteMany},
	}
	for name, tt := range tests {
		for _, left := range []int64{2*mib - 1, 0} {
			t.Run(fmt.Sprintf("%s with %d left", name, left), func(t *testing.T) {
				t.Parallel()
				var log logLines
				disk := newFullDisk(t, 64*mib)
				opts := fillOptions(disk, 2*mib, mib, &log)
				opts.Modules = coreext.Add(opts.Modules, compaction.Module(), txn.Module())
				start := time.Now()
				var passed atomic.Int64
				opts.Clock = func() time.Time { return start.Add(time.Duration(passed.Load())) }
				db := open(t, storeDir, opts)
				f := newFiller(t, db, "k")
				must(t, tt.fill(db))
				must(t, f.write(10))
				must(t, db.CompactTables(ctx))    // what has no room yet is not what is asked
				for refused := false; !refused; { // tables that are not needed any more go in their own time
					disk.take(left)
					disk.await(1)
					err := f.write(10)
					refused = errors.Is(err, kv.ErrNoSpace)
					if !refused {
						must(t, err)
					}
				}
				passed.Store(int64(time.Hour))
				must(t, tt.remove(db))
				if name == "FLUSHALL" {
					f.acked = nil
					for reserve("k", 10_000)(db, kv.Always) != nil {
						time.Sleep(5 * time.Millisecond)
					}
				}
				must(t, f.verify(db))
				f.untilAccepted(t)
				if _, err := disk.Stat(ballast); err != nil {
					t.Errorf("writes are accepted without a ballast: %v", err)
				}
				must(t, checkStore(db))
				f.reopened(t, opts)
			})
		}
	}
}
