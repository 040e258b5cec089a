package guard_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/guard"
)

func inMemory() *sievekv.DB {
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true, Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	return db
}

// Rows in the same store: row, filter and cache change in one commit.
func Example() {
	db, ctx := inMemory(), context.Background()
	defer db.Close()
	users, err := guard.New(db, "users", guard.Options{
		Empty: true, // there are no users yet
		Load: func(_ context.Context, id string) ([]byte, error) {
			row, err := db.Get("row:" + id)
			if errors.Is(err, sievekv.ErrNotFound) {
				return nil, guard.ErrNotFound
			}
			return row, err
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer users.Close()
	row := []byte("Alice, Leipzig")
	err = users.Put(ctx, "alice", row, func(tx *sievekv.Tx) error { return tx.Set("row:alice", row) })
	if err != nil {
		log.Fatal(err)
	}
	for _, id := range []string{"alice", "mallory"} {
		value, err := users.Get(ctx, id)
		fmt.Printf("%s: %q, %v\n", id, value, err)
	}
	s := users.Stats()
	fmt.Println("loads:", s.Loads, "refused:", s.Refused)
	// Output:
	// alice: "Alice, Leipzig", <nil>
	// mallory: "", guard: not found
	// loads: 0 refused: 1
}

// table stands for a database.
type table map[string]string

func (t table) query(_ context.Context, id string) ([]byte, error) {
	fmt.Println("query of", id)
	row, there := t[id]
	if !there {
		return nil, guard.ErrNotFound
	}
	return []byte(row), nil
}

func (t table) upsert(_ context.Context, id, row string) error { t[id] = row; return nil }

func (t table) delete(_ context.Context, id string) error { delete(t, id); return nil }

func (t table) ids(yield func(string, error) bool) {
	for id := range t {
		if !yield(id, nil) {
			return
		}
	}
}

// Rows elsewhere: the guard runs the writes, so that no crash leaves a row that the filter does not know.
func ExampleGuard_PutVia() {
	store, ctx, db := inMemory(), context.Background(), table{"alice": "Alice, Leipzig"}
	defer store.Close()
	users, err := guard.New(store, "users", guard.Options{Load: db.query, Filter: guard.Cuckoo, Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	defer users.Close()
	if err := users.Rebuild(ctx, db.ids); err != nil { // the ids that are there
		log.Fatal(err)
	}
	show := func(id string) {
		value, err := users.Get(ctx, id)
		fmt.Printf("%s: %q, %v\n", id, value, err)
	}
	show("alice")
	show("alice")
	show("bob")
	err = users.PutVia(ctx, "bob", []byte("Bob, Jena"), func(ctx context.Context) error {
		return db.upsert(ctx, "bob", "Bob, Jena")
	})
	if err != nil {
		log.Fatal(err)
	}
	show("bob")
	err = users.RemoveVia(ctx, "bob", func(ctx context.Context) error { return db.delete(ctx, "bob") })
	if err != nil {
		log.Fatal(err)
	}
	show("bob")
	// Output:
	// query of alice
	// alice: "Alice, Leipzig", <nil>
	// alice: "Alice, Leipzig", <nil>
	// bob: "", guard: not found
	// bob: "Bob, Jena", <nil>
	// bob: "", guard: not found
}

// A handler gets the value of the id in a request.
func ExampleMiddleware() {
	store, db := inMemory(), table{"alice": "Alice, Leipzig"}
	defer store.Close()
	users, err := guard.New(store, "users", guard.Options{Load: db.query, Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	defer users.Close()
	show := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s", users.Value(r.Context())) })
	mux := http.NewServeMux()
	mux.Handle("GET /users/{id}", guard.Middleware(users, func(r *http.Request) string { return r.PathValue("id") })(show))

	for _, id := range []string{"alice", "mallory"} {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest("GET", "/users/"+id, nil))
		fmt.Println(answer.Code, answer.Body)
	}
	// Output:
	// query of alice
	// 200 Alice, Leipzig
	// query of mallory
	// 404 Not Found
}

// A payment is made once, though its request comes twice.
func ExampleOnce() {
	db, ctx := inMemory(), context.Background()
	defer db.Close()
	pay := func(key string) {
		receipt, err := guard.Once(ctx, db, key, 24*time.Hour, func(context.Context) (string, error) {
			fmt.Println("paying")
			return "receipt 1", nil
		})
		fmt.Println(receipt, err)
	}
	pay("request 17")
	pay("request 17")
	// Output:
	// paying
	// receipt 1 <nil>
	// receipt 1 <nil>
}

// An order takes a number and a record of the answer in one commit.
func ExampleOnceTx() {
	db, ctx := inMemory(), context.Background()
	defer db.Close()
	for range 2 {
		number, err := guard.OnceTx(ctx, db, "request 17", time.Hour, func(tx *sievekv.Tx) (int64, error) {
			return tx.Incr("orders", 1)
		})
		fmt.Println("order", number, err)
	}
	// Output:
	// order 1 <nil>
	// order 1 <nil>
}
