package tests_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/txn"
)

// teller makes transactions, one after the other, each of an item in a filter, a row,
// and a count of both.
type teller struct {
	name    string
	started atomic.Int64 // transactions begun
	acked   atomic.Int64 // those reported as done and on stable storage
}

func (l *teller) item(i int64) string  { return fmt.Sprintf("%s item %d", l.name, i) }
func (l *teller) row(i int64) string   { return fmt.Sprintf("%s row %d", l.name, i) }
func (l *teller) bad(i int64) string   { return fmt.Sprintf("%s bad %d", l.name, i) }
func (l *teller) count() string        { return l.name + " count" }
func (l *teller) expires(i int64) bool { return i%5 == 4 }

var errRefused = errors.New("the transaction's own error")

// tell makes transaction i. Now and then one before it is rolled back.
func (l *teller) tell(t *testing.T, db *kv.DB, i int64, seen *bloomext.Filter, level kv.Durability) error {
	if i%4 == 0 {
		err := txn.Update(t.Context(), db, level, func(tx *txn.Tx) error {
			_, err := seen.In(tx).AddString(l.bad(i))
			return errors.Join(err, tx.Set(l.bad(i), nil), errRefused)
		})
		if !errors.Is(err, errRefused) {
			return fmt.Errorf("update that refuses: %w", err)
		}
	}
	return txn.Update(t.Context(), db, level, func(tx *txn.Tx) error {
		if _, err := seen.In(tx).AddString(l.item(i)); err != nil {
			return err
		}
		if err := tx.Set("under way", []byte(l.row(i))); err != nil {
			return err
		}
		if err := tx.Rename("under way", l.row(i)); err != nil {
			return err
		}
		if l.expires(i) { // far from now: its note is there or not, as the row is
			if _, err := tx.Expire(l.row(i), db.Now()+1_000_000); err != nil {
				return err
			}
		}
		n, err := tx.Incr(l.count(), 1)
		if err == nil && n != i+1 {
			err = fmt.Errorf("count is %d in transaction %d", n, i)
		}
		return err
	})
}

// verify checks that the store has a number of the first transactions whole, those
// acknowledged among them, and nothing of the others.
func (l *teller) verify(db *kv.DB, acked, started int64) error {
	n := int64(0)
	value, err := db.Get([]byte(l.count()))
	if err == nil {
		n, err = strconv.ParseInt(string(value), 10, 64)
	}
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return err
	}
	if n < acked || n > started {
		return fmt.Errorf("%s: %d transactions are there, %d were acknowledged and %d begun", l.name, n, acked, started)
	}
	seen := bloomext.New(db, "seen")
	for i := range started {
		rows, err := db.Exists([]byte(l.row(i)))
		if err != nil {
			return err
		}
		known, err := seen.MayContainString(l.item(i))
		if err != nil && !errors.Is(err, kv.ErrNotFound) {
			return err
		}
		known = known && err == nil
		if there := i < n; there != (rows == 1) || there && !known || !there && known {
			return fmt.Errorf("%s: of transaction %d, count %d, the row is there %d times and the item %v", l.name, i, n, rows, known)
		}
		if bad, err := db.Exists([]byte(l.bad(i))); bad > 0 || err != nil {
			return fmt.Errorf("%s: a row of the transaction rolled back before %d is there: %w", l.name, i, err)
		}
	}
	if open, err := db.Exists([]byte("under way")); open > 0 || err != nil {
		return fmt.Errorf("half a transaction is there: %w", err)
	}
	return nil
}

// A crash at any moment leaves each transaction whole or not at all, and every one that
// was acknowledged.
func TestCrash_transactions(t *testing.T) {
	t.Parallel()
	most := 150
	if raceEnabled {
		most = 30
	}
	type shot struct {
		disk    *vfs.MemFS
		acked   []int64 // when it was taken, by teller
		started []int64
	}
	disk := vfs.NewCrashableMem()
	makeDir(t, disk)
	tellers := []*teller{{name: "a"}, {name: "b"}, {name: "c"}}
	var mu sync.Mutex
	var shots []shot // guarded by mu
	rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
	var full atomic.Bool
	fs := &spyFS{FS: disk, before: func(site, string) error {
		mu.Lock()
		defer mu.Unlock()
		if full.Load() || rng.IntN(6) != 0 {
			return nil
		}
		s := shot{}
		for _, l := range tellers { // acknowledged before the crash
			s.acked = append(s.acked, l.acked.Load())
		}
		s.disk = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		for _, l := range tellers { // begun before it, at most
			s.started = append(s.started, l.started.Load())
		}
		shots = append(shots, s)
		full.Store(len(shots) >= most)
		return nil
	}}
	db := open(t, storeDir, tinyOptions(fs))
	seen := bloomext.New(db, "seen")
	must(t, seen.Reserve(bloomext.Config{Capacity: 50, ErrorRate: rate}))
	var wg sync.WaitGroup
	for _, l := range tellers {
		wg.Go(func() {
			for i := int64(0); !full.Load(); i++ {
				level := kv.NoSync
				if i%2 == 0 {
					level = kv.Always
				}
				l.started.Store(i + 1)
				if err := l.tell(t, db, i, seen, level); err != nil {
					t.Error(err)
					return
				}
				if level == kv.Always {
					l.acked.Store(i + 1)
				}
			}
		})
	}
	wg.Wait()
	for i, s := range shots {
		db := open(t, storeDir, tinyOptions(s.disk))
		err := checkStore(db)
		for j, l := range tellers {
			err = errors.Join(err, l.verify(db, s.acked[j], s.started[j]))
		}
		if err != nil {
			t.Errorf("crash %d: %v", i, err)
		}
		must(t, db.Close())
	}
	t.Logf("%d crashes, %d transactions begun in the end", len(shots), tellers[0].started.Load()*3)
}
