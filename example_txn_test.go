package sievekv_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sievekv/sievekv"
)

// clock is a time that stands still until it is set.
type clock struct{ passed atomic.Int64 }

func (c *clock) now() time.Time {
	return time.Unix(1_800_000_000, 0).Add(time.Duration(c.passed.Load()))
}
func (c *clock) advance(d time.Duration) { c.passed.Add(int64(d)) }

// withClock opens a store whose time the example sets.
func withClock() (*sievekv.DB, *clock) {
	c := new(clock)
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true, Seed: 1, Clock: c.now})
	if err != nil {
		log.Fatal(err)
	}
	return db, c
}

// falsePositive returns an id of at least from that the filter takes for known. The caller has added none of these.
func falsePositive(f *sievekv.Bloom, from uint64) (uint64, error) {
	for id := from; ; id++ {
		if maybe, err := f.MayContain(sievekv.Uint64(id)); maybe || err != nil {
			return id, err
		}
	}
}

// insertRow writes a row and its entry in the filter under seen in one commit, and returns the filter's answer. It
// writes the row whatever the answer is.
func insertRow(ctx context.Context, db *sievekv.DB, seen string, id uint64, row string) (bool, error) {
	var isNew bool
	err := db.Update(ctx, func(tx *sievekv.Tx) (err error) {
		if isNew, err = tx.Bloom(seen).Add(sievekv.Uint64(id)); err != nil {
			return err
		}
		return tx.Set(fmt.Sprint("row:", id), []byte(row))
	})
	return isNew, err
}

// smallFilter makes a filter of the ids 0 to 199, with many false positives for other ids.
func smallFilter(db *sievekv.DB, key string) (*sievekv.Bloom, error) {
	f := db.Bloom(key)
	if err := f.Reserve(sievekv.Capacity(200, 0.25), nil); err != nil {
		return nil, err
	}
	ids := make([]uint64, 200)
	for i := range ids {
		ids[i] = uint64(i)
	}
	_, err := f.AddMany(sievekv.Uint64s(ids...), make([]bool, len(ids)))
	return f, err
}

// A row and its entry in the filter are inserted together. That an id seems known to the filter may be a false
// positive: the row is written all the same, or it would be lost.
func Example_rowAndFilter() {
	db := inMemory()
	defer db.Close()
	ctx := context.Background()
	seen, err := smallFilter(db, "rows:seen")
	if err != nil {
		log.Fatal(err)
	}
	id, err := falsePositive(seen, 1000) // nobody has inserted it
	if err != nil {
		log.Fatal(err)
	}
	isNew, err := insertRow(ctx, db, "rows:seen", id, "two apples")
	if err != nil {
		log.Fatal(err)
	}
	row, err := db.Get(fmt.Sprint("row:", id))
	fmt.Println("new to the filter:", isNew)
	fmt.Println("row:", string(row), err)
	// Output:
	// new to the filter: false
	// row: two apples <nil>
}

// Rows are also written if their ids seem known to the filter but were never inserted, each at its first insert.
func TestUpdate_falsePositive(t *testing.T) {
	db := inMemory()
	defer db.Close()
	seen, err := smallFilter(db, "seen")
	if err != nil {
		t.Fatal(err)
	}
	id := uint64(1000)
	for range 20 {
		id, err = falsePositive(seen, id+1)
		if err != nil {
			t.Fatal(err)
		}
		key, want := fmt.Sprint("row:", id), fmt.Sprint("of ", id)
		if _, err := db.Get(key); !errors.Is(err, sievekv.ErrNotFound) {
			t.Fatalf("id %d: before the insert Get = %v, want ErrNotFound", id, err)
		}
		isNew, err := insertRow(t.Context(), db, "seen", id, want)
		if isNew || err != nil {
			t.Fatalf("id %d: insert = %v, %v, want false: the filter took it for known", id, isNew, err)
		}
		err = db.View(t.Context(), func(s *sievekv.Snapshot) error {
			row, err := s.Get(key)
			if string(row) != want || err != nil {
				t.Errorf("id %d: the row is %q, %v, want %q", id, row, err, want)
			}
			known, err := s.Bloom("seen").MayContain(sievekv.Uint64(id))
			if !known || err != nil {
				t.Errorf("id %d: MayContain = %v, %v, want true", id, known, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A Bloom filter forgets nothing. So a filter of the present rows must be rebuilt from time to time, under another
// key, which Rename then moves over the live one. Lookups go on, and a handle follows its key.
func Example_rebuild() {
	db := inMemory()
	defer db.Close()
	size := sievekv.Capacity(1000, 0.001)
	rebuild := func(existing ...string) {
		if _, err := db.Delete("users:next"); err != nil { // of a rebuild that did not end
			log.Fatal(err)
		}
		next := db.Bloom("users:next")
		if err := next.Reserve(size, nil); err != nil {
			log.Fatal(err)
		}
		if _, err := next.AddManyString(existing, make([]bool, len(existing))); err != nil {
			log.Fatal(err)
		}
		if err := db.Rename("users:next", "users"); err != nil {
			log.Fatal(err)
		}
	}
	users := db.Bloom("users")
	known := make([]bool, 3)
	for _, existing := range [][]string{{"alice", "bob"}, {"alice", "carol"}} {
		rebuild(existing...)
		if err := users.MayContainManyString([]string{"alice", "bob", "carol"}, known); err != nil {
			log.Fatal(err)
		}
		fmt.Println(known)
	}
	left, err := db.Exists("users:next")
	fmt.Println(left, err)
	// Output:
	// [true true false]
	// [true false true]
	// 0 <nil>
}

// A lookup while filters are renamed over the live one sees one filter as a whole: it finds the item that all filters
// have, and exactly one of the items that only one filter has.
func TestRename_underReaders(t *testing.T) {
	db := inMemory()
	defer db.Close()
	const generations, readers = 30, 3
	size := sievekv.Capacity(1000, 1e-6)
	const everywhere = uint64(generations)
	publish := func(generation uint64) error {
		next := db.Bloom("next")
		if err := next.Reserve(size, nil); err != nil {
			return err
		}
		if _, err := next.AddMany(sievekv.Uint64s([]uint64{generation, everywhere}...), make([]bool, 2)); err != nil {
			return err
		}
		return db.Rename("next", "live")
	}
	if err := publish(0); err != nil {
		t.Fatal(err)
	}
	items := make([]uint64, generations+1) // of all generations, and the one everywhere
	for i := range items {
		items[i] = uint64(i)
	}
	// look returns the generation of the filter that one lookup has seen.
	look := func(live *sievekv.Bloom, present []bool) (generation int, err error) {
		if known, err := live.MayContain(sievekv.Uint64(everywhere)); !known || err != nil {
			return 0, fmt.Errorf("the item of all filters: MayContain = %v, %v", known, err)
		}
		if err := live.MayContainMany(sievekv.Uint64s(items...), present); err != nil {
			return 0, err
		}
		generation, found := -1, 0
		for g, ok := range present[:generations] {
			if ok {
				generation = g
				found++
			}
		}
		if found != 1 || !present[everywhere] {
			return 0, fmt.Errorf("a lookup saw items of %d filters, want 1; and that of all: %v", found, present[everywhere])
		}
		return generation, nil
	}
	var seen [readers]atomic.Int64 // the newest generation seen
	var stopped atomic.Bool
	var wg sync.WaitGroup
	for r := range readers {
		wg.Go(func() {
			defer stopped.Store(true) // the others, and the writer, need not go on
			live, present := db.Bloom("live"), make([]bool, len(items))
			for seen[r].Load() < generations-1 && !stopped.Load() {
				generation, err := look(live, present)
				if err == nil && int64(generation) < seen[r].Load() {
					err = fmt.Errorf("generation %d seen after %d", generation, seen[r].Load())
				}
				if err != nil {
					t.Error(err)
					return
				}
				seen[r].Store(int64(generation))
			}
		})
	}
	for generation := uint64(1); generation < generations && !stopped.Load(); generation++ {
		if err := publish(generation); err != nil {
			t.Error(err)
			stopped.Store(true)
		}
		// Every other filter is seen by somebody; the rest are replaced at once.
		for generation%2 == 0 && seen[generation%readers].Load() < int64(generation) && !stopped.Load() {
			runtime.Gosched()
		}
	}
	wg.Wait()
}

// No cache has ids that do not exist, so all queries for them would reach the database. The filter of the existing
// ids answers nearly all of them. For the few false positives the cache keeps an empty value for a minute, so that an
// id that is asked for again and again costs the database one query a minute.
func Example_cachePenetration() {
	db, clock := withClock()
	defer db.Close()
	existing, err := smallFilter(db, "ids") // of 0 to 199
	if err != nil {
		log.Fatal(err)
	}
	database := func(id uint64) []byte {
		if id >= 200 {
			return nil
		}
		return fmt.Append(nil, "user ", id)
	}
	ask := func(id uint64) (value []byte, from string) {
		maybe, err := existing.MayContain(sievekv.Uint64(id))
		if err != nil {
			log.Fatal(err)
		}
		if !maybe {
			return nil, "filter"
		}
		key := fmt.Sprint("cache:", id)
		value, err = db.Get(key)
		if err == nil {
			return value, "cache"
		}
		if !errors.Is(err, sievekv.ErrNotFound) {
			log.Fatal(err)
		}
		value = database(id)
		ttl := time.Hour
		if len(value) == 0 {
			ttl = time.Minute // it may come to be
		}
		if _, err := db.SetWith(key, value, sievekv.SetOptions{TTL: ttl}); err != nil {
			log.Fatal(err)
		}
		return value, "database"
	}
	absent := uint64(1000)
	for { // one that the filter is right about
		maybe, err := existing.MayContain(sievekv.Uint64(absent))
		if err != nil {
			log.Fatal(err)
		}
		if !maybe {
			break
		}
		absent++
	}
	wrong, err := falsePositive(existing, 1000)
	if err != nil {
		log.Fatal(err)
	}
	show := func(what string, id uint64) {
		value, from := ask(id)
		fmt.Printf("%s: %q from the %s\n", what, value, from)
	}
	show("absent", absent)
	show("existing", 7)
	show("existing", 7)
	show("false positive", wrong)
	show("false positive", wrong)
	clock.advance(time.Minute)
	show("false positive, a minute later", wrong)
	show("existing", 7)
	// Output:
	// absent: "" from the filter
	// existing: "user 7" from the database
	// existing: "user 7" from the cache
	// false positive: "" from the database
	// false positive: "" from the cache
	// false positive, a minute later: "" from the database
	// existing: "user 7" from the cache
}

// lock takes a lock for at most ttl, and reports whether it was free. The token identifies the holder.
func lock(db *sievekv.DB, key, token string, ttl time.Duration) (bool, error) {
	return db.SetWith(key, []byte(token), sievekv.SetOptions{If: sievekv.IfMissing, TTL: ttl})
}

// unlock releases a lock if the holder of the token still has it, and reports whether it did. Nobody can take the
// lock between the check and the delete.
func unlock(ctx context.Context, db *sievekv.DB, key, token string) (held bool, err error) {
	err = db.Update(ctx, func(tx *sievekv.Tx) error {
		holder, err := tx.Get(key)
		if errors.Is(err, sievekv.ErrNotFound) || err == nil && string(holder) != token {
			return nil
		}
		if err != nil {
			return err
		}
		held = true
		_, err = tx.Delete(key)
		return err
	})
	return held && err == nil, err
}

// When the value of a key that many clients ask for expires, one of the clients that miss it asks the database, and
// the others wait for its answer. That client holds a lock, which expires in case the client never comes back. If it
// comes back too late, it does not release the lock of the client that took it meanwhile.
func Example_cacheBreakdown() {
	db, clock := withClock()
	defer db.Close()
	ctx := context.Background()
	take := func(who string) {
		mine, err := lock(db, "lock:hot", who, 10*time.Second)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s asks the database: %v\n", who, mine)
	}
	release := func(who string) {
		held, err := unlock(ctx, db, "lock:hot", who)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s releases the lock: %v\n", who, held)
	}
	take("first")
	take("second")
	clock.advance(10 * time.Second) // the first is stuck
	take("second")
	release("first")
	take("third")
	release("second")
	take("third")
	// Output:
	// first asks the database: true
	// second asks the database: false
	// second asks the database: true
	// first releases the lock: false
	// third asks the database: false
	// second releases the lock: true
	// third asks the database: true
}

// If many clients miss a value at the same time, exactly one asks the database, and the lock is free afterwards.
func TestDB_SetWith_breakdown(t *testing.T) {
	db, _ := withClock()
	defer db.Close()
	const goroutines, rounds = 4, 25
	for round := range rounds {
		key, lockKey := fmt.Sprint("hot:", round), fmt.Sprint("lock:", round)
		var questions atomic.Int64
		ask := func(token string) error {
			for {
				_, err := db.Get(key)
				if err == nil || !errors.Is(err, sievekv.ErrNotFound) {
					return err
				}
				mine, err := lock(db, lockKey, token, time.Minute)
				if err != nil {
					return err
				}
				if !mine {
					runtime.Gosched()
					continue
				}
				// Another may have released it after this one missed the value.
				if _, err := db.Get(key); errors.Is(err, sievekv.ErrNotFound) {
					questions.Add(1)
					for range 100 { // the database takes its time, in which the others miss the value too
						runtime.Gosched()
					}
					if err := db.Set(key, []byte("value")); err != nil {
						return err
					}
				}
				held, err := unlock(t.Context(), db, lockKey, token)
				if err == nil && !held {
					err = fmt.Errorf("%s lost its lock", token)
				}
				return err
			}
		}
		var wg sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				if err := ask(fmt.Sprint("goroutine ", g)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := questions.Load(); n != 1 {
			t.Errorf("round %d: the database was asked %d times, want once", round, n)
		}
		if n, err := db.Exists(lockKey); n != 0 || err != nil {
			t.Errorf("round %d: the lock is there %d times, %v", round, n, err)
		}
	}
}

// jittered returns base and a random part of share of it: keys that were set together do not expire together.
func jittered(rng *rand.Rand, base time.Duration, share float64) time.Duration {
	return base + time.Duration(rng.Float64()*share*float64(base))
}

// A cache that is filled at once would also expire at once, and the database would be asked for everything. If a
// tenth of the hour is random, the queries are spread over six minutes.
func Example_cacheAvalanche() {
	db, clock := withClock()
	defer db.Close()
	rng := rand.New(rand.NewPCG(1, 2)) // fixed, for the example's output
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("cache:", i)
		o := sievekv.SetOptions{TTL: jittered(rng, time.Hour, 0.1)}
		if _, err := db.SetWith(keys[i], []byte("value"), o); err != nil {
			log.Fatal(err)
		}
	}
	clock.advance(59 * time.Minute)
	for minute := 59; minute <= 66; minute++ {
		n, err := db.Exists(keys...)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("after", minute, "minutes:", n)
		clock.advance(time.Minute)
	}
	// Output:
	// after 59 minutes: 1000
	// after 60 minutes: 1000
	// after 61 minutes: 828
	// after 62 minutes: 658
	// after 63 minutes: 488
	// after 64 minutes: 327
	// after 65 minutes: 173
	// after 66 minutes: 0
}
