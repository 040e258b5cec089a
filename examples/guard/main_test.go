package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/guard"
)

// A small load: what does not depend on the speed of the machine is as it must be.
func TestScenes(t *testing.T) {
	z := sizes{
		users: 3000, lookups: 3000, callers: 100, keys: 1000, second: 20 * time.Millisecond, ttl: 200 * time.Millisecond,
		outage: 500 * time.Millisecond, pause: time.Hour,
	}
	rows, err := runScenes(t.Context(), t.TempDir(), z, func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", text(rows))
	if n := rows[0].off.queries; n != int64(z.lookups) {
		t.Errorf("%d of %d lookups reach the database without the guard", n, z.lookups)
	}
	for i, r := range rows {
		if i != 2 && !r.met() { // an avalanche takes its time
			t.Errorf("%s: %s is %s, must be %s; %d requests failed", r.scene, r.what, r.measured, r.asked(), r.on.failed)
		}
	}

	// Whatever another status than the right one is, it is no answer.
	r := row{atLeast: 1, atMost: 1, figure: 1, on: &figures{}}
	if !r.met() {
		t.Error("what is asked of the guard is met, and said not to be")
	}
	for _, wrong := range []row{
		{atLeast: 1, atMost: 1, on: &figures{}}, {atLeast: 1, atMost: 1, figure: 2, on: &figures{}},
		{atLeast: 1, atMost: 1, figure: 1, on: &figures{failed: 1}},
	} {
		if wrong.met() {
			t.Errorf("%+v is said to be met", wrong)
		}
	}

	docs := t.TempDir()
	page := filepath.Join(docs, "GUARD.md")
	if err := os.WriteFile(page, []byte("before\n"+begins+"old\n"+ends+"after\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := writePage(docs, "Measured.", rows); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.HasPrefix(string(text), "before\n") || !strings.HasSuffix(string(text), "after\n") ||
		strings.Count(string(text), "| scene |") != 1 || strings.Contains(string(text), "old") {
		t.Errorf("%v\n%s", err, text)
	}
	if drawn, err := os.ReadFile(filepath.Join(docs, "guard-avalanche.svg")); err != nil || !strings.Contains(string(drawn), "<svg") {
		t.Errorf("the plot: %v", err)
	}
}

// openBoth opens a database with the given number of users, and an empty store, for the length of a test.
func openBoth(t *testing.T, users int) (*database, *sievekv.DB) {
	t.Helper()
	db, err := openDatabase(t.TempDir(), users)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, db.close()) })
	store, err := sievekv.Open("", &sievekv.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, store.Close()) })
	return db, store
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// An answer with another status than is right has failed, and connecting reaches no database.
func TestAsk(t *testing.T) {
	db, store := openBoth(t, 10)
	s, err := openService(store, db, nil, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ status, failed int }{{http.StatusOK, 1}, {http.StatusNotFound, 3}, {http.StatusBadGateway, 4}} {
		ids := func(i int) string { return userID(7 + i) } // the last is not there
		f, err := ask(t.Context(), s, 8, test.status, upTo(4, ids))
		if err != nil || f.requests != 4 || f.failed != test.failed || f.queries > 4 || len(f.latencies) != 4 {
			t.Errorf("status %d: %+v, %v, want %d failed", test.status, f, err, test.failed)
		}
	}
}

func TestService(t *testing.T) {
	db, store := openBoth(t, 100)
	for _, guarded := range []bool{false, true} {
		var o *guard.Options
		if guarded {
			o = &guard.Options{Filter: guard.Cuckoo}
		}
		s, err := openService(store, db, o, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if guarded {
			defer s.users.Close()
			if err := s.fill(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		handler := s.handler()
		ask := func(method, path, body string, status int, want string) {
			t.Helper()
			request := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
			request.Header.Set("Idempotency-Key", body)
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			got, err := io.ReadAll(answer.Body)
			if answer.Code != status || !strings.Contains(string(got), want) || err != nil {
				t.Errorf("guarded %v, %s %s: %d %s, want %d %s", guarded, method, path, answer.Code, got, status, want)
			}
		}
		ask("GET", "/users/0000017", "", http.StatusOK, `"user 17"`)
		ask("GET", "/users/nobody", "", http.StatusNotFound, "")
		ask("PUT", "/users/new", "{}", http.StatusOK, "")
		ask("GET", "/users/new", "", http.StatusOK, "{}")
		ask("DELETE", "/users/new", "", http.StatusOK, "")
		ask("GET", "/users/new", "", http.StatusNotFound, "")
		ask("POST", "/orders", "", http.StatusBadRequest, "")
		ask("POST", "/orders", "key", http.StatusOK, `{"order":1}`)
		ask("POST", "/orders", "key", http.StatusOK, `{"order":1}`)
		if guarded {
			ask("GET", "/metrics", "", http.StatusOK, `sievekv_guard_asked_total{guard="users"} 4`)
		}
	}
}
