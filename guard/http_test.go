package guard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sievekv/sievekv/guard"
)

func TestMiddleware(t *testing.T) {
	inWorld(t, &guard.Options{Empty: true, ErrorRate: exact, BreakerFailures: 2, BreakerPause: 1500 * time.Millisecond}, func(w *world) {
		var served int
		handler := guard.Middleware(w.g, func(r *http.Request) string { return r.URL.Query().Get("id") })(
			http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
				served++
				_, err := out.Write(append([]byte("value "), w.g.Value(r.Context())...))
				w.check(err)
			}))
		ask := func(ctx context.Context, id string, status int, body string) http.Header {
			t.Helper()
			out := httptest.NewRecorder()
			handler.ServeHTTP(out, httptest.NewRequestWithContext(ctx, "GET", "/?id="+id, nil))
			if out.Code != status || out.Body.String() != body {
				t.Errorf("id %q: %d %q, want %d %q", id, out.Code, out.Body, status, body)
			}
			return out.Header()
		}
		w.put("a", "1")
		w.put("b", "2")
		w.check(w.g.Put(w.Context(), "b", nil, nil))
		ask(w.Context(), "a", 200, "value 1")
		ask(w.Context(), "", 200, "value ")
		ask(w.Context(), "nobody", 404, "Not Found\n")

		let := w.holding("b")
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		ask(ctx, "b", 504, "Gateway Timeout\n")
		ctx, cancel = context.WithCancel(w.Context())
		cancel()
		ask(ctx, "b", 503, "Service Unavailable\n") // not 200: the server itself may have ended the request
		let.next()()
		synctest.Wait()
		w.free("b")
		w.check(w.g.Put(w.Context(), "b", nil, nil))
		w.fail(errSource)
		ask(w.Context(), "b", 502, "Bad Gateway\n")
		ask(w.Context(), "b", 502, "Bad Gateway\n")
		if retry := ask(w.Context(), "b", 503, "Service Unavailable\n").Get("Retry-After"); retry != "2" {
			t.Errorf("Retry-After is %q", retry)
		}
		w.g.Close()
		w.g = w.open("users", w.options(guard.Options{RefuseUnfiltered: true}))
		handler = guard.Middleware(w.g, func(r *http.Request) string { return r.URL.Query().Get("id") })(nil)
		w.fail(context.Canceled) // of the source's own
		ask(w.Context(), "b", 502, "Bad Gateway\n")
		_, err := w.db.Delete("guard:users:filter")
		w.check(err)
		ask(w.Context(), "b", 503, "Service Unavailable\n") // not 404: nothing is known of b
		w.g.Close()
		if served != 2 {
			t.Errorf("the handler was called %d times, want 2", served)
		}
		if errors.Is(guard.ErrUnavailable, guard.ErrNotFound) {
			t.Error("ErrUnavailable is ErrNotFound")
		}
	})
}

// Two guards before one handler keep their values apart, also if a request is none of the inner one's.
func TestMiddleware_two(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.set("a", "user")
		w.set("b", "order")
		orders := w.open("orders", w.options(guard.Options{}))
		defer orders.Close()
		param := func(name string) func(*http.Request) string {
			return func(r *http.Request) string { return r.URL.Query().Get(name) }
		}
		handler := guard.Middleware(w.g, param("user"))(guard.Middleware(orders, param("order"))(
			http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
				_, err := fmt.Fprintf(out, "%s, %s", w.g.Value(r.Context()), orders.Value(r.Context()))
				w.check(err)
			})))
		for query, want := range map[string]string{
			"user=a&order=b": "user, order", "user=a": "user, ", "order=b": ", order", "": ", ",
		} {
			out := httptest.NewRecorder()
			handler.ServeHTTP(out, httptest.NewRequestWithContext(w.Context(), "GET", "/?"+query, nil))
			if out.Body.String() != want {
				t.Errorf("%q: %q, want %q", query, out.Body, want)
			}
		}
	})
}
