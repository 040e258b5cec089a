// Histories records what several clients do to a live store at the same time, again
// and again, and checks that their answers are linearizable.
//
//	go run ./tests/histories --histories 1000 --operations 500
//
// A history that is not is saved as a page for browsers, in the working directory. The exit code is 1 if there are
// such. The same seed gives the same operations, which need not overlap the same way again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/tests/history"
)

func main() {
	histories := flag.Int("histories", 100, "how many histories to record and check")
	operations := flag.Int("operations", 500, "how many operations a history has, at least")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the first history; each other has the next number")
	flag.Parse()
	done, violations, err := run(context.Background(), *histories, *operations, *seed)
	fmt.Printf("histories %d\noperations %d\nviolations %d\n", *histories, done, violations)
	if err != nil {
		fmt.Fprintln(os.Stderr, "histories:", err)
		os.Exit(2)
	}
	if violations > 0 {
		os.Exit(1)
	}
}

const (
	fresh    = 10 // after how many histories a new store is made
	progress = 50 // after how many a line is printed
)

func run(ctx context.Context, histories, operations int, seed uint64) (done, violations int, err error) {
	fmt.Printf("seed %d\n", seed)
	var db *kv.DB
	for n := range histories {
		if n%fresh == 0 {
			if db, err = reopen(db, seed+uint64(n/fresh)); err != nil {
				return done, violations, err
			}
		}
		recorded, err := history.Record(ctx, db, seed+uint64(n), operations)
		if err != nil {
			return done, violations, errors.Join(fmt.Errorf("seed %d: %w", seed+uint64(n), err), db.Close())
		}
		done += len(recorded)
		if err := history.Check(recorded); err != nil {
			violations++
			fmt.Printf("seed %d: %v%s\n", seed+uint64(n), err, save(err, seed+uint64(n)))
		}
		if (n+1)%progress == 0 {
			fmt.Printf("%d histories, %d violations\n", n+1, violations)
		}
	}
	if db != nil {
		err = db.Close()
	}
	return done, violations, err
}

// save saves the page of a violation and says where.
func save(err error, seed uint64) string {
	var v *history.Violation
	if !errors.As(err, &v) {
		return ""
	}
	name := fmt.Sprintf("violation-%d.html", seed)
	if err := v.Save(name); err != nil {
		return fmt.Sprintf("; %v", err)
	}
	return "; see " + name
}

func reopen(old *kv.DB, seed uint64) (*kv.DB, error) {
	if old != nil {
		if err := old.Close(); err != nil {
			return nil, err
		}
	}
	return history.Open(seed)
}
