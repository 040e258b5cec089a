package guard

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// Middleware puts a guard before HTTP handlers. It takes the id of a request from id, gets its value, and calls the handler
// with a request whose context has the value, for Guard.Value. If id returns "", the request is none of the guard's, and the
// handler gets it as it is.
//
// Otherwise it answers itself: 404 if the id is absent, 503 with a Retry-After if the source is unavailable, 504 if the
// time of the request or of the load is over, 503 if the request was canceled, by the client or the server, or if there is no filter and
// Options.RefuseUnfiltered is set, and 502 for other errors.
func Middleware(g *Guard, id func(*http.Request) string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name := id(r)
			if name == "" {
				next.ServeHTTP(w, r)
				return
			}
			value, err := g.Get(r.Context(), name)
			if err == nil {
				next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), valueKey{g}, value)))
				return
			}
			status := http.StatusBadGateway
			switch {
			case errors.Is(err, ErrNotFound):
				status = http.StatusNotFound
			case errors.Is(err, ErrUnavailable), errors.Is(err, ErrClosed):
				status = http.StatusServiceUnavailable
				w.Header().Set("Retry-After", strconv.FormatInt(int64((g.opts.BreakerPause+time.Second-1)/time.Second), 10))
			case errors.Is(err, ErrUnfiltered), r.Context().Err() != nil && errors.Is(err, context.Canceled):
				status = http.StatusServiceUnavailable
			case errors.Is(err, context.DeadlineExceeded):
				status = http.StatusGatewayTimeout
			}
			http.Error(w, http.StatusText(status), status)
		})
	}
}

// valueKey is the key of a guard's value in a context: a handler may stand behind several guards.
type valueKey struct{ guard *Guard }

// Value returns the value that Middleware of this guard has put into the context of a request, nil if it has not.
func (g *Guard) Value(ctx context.Context) []byte {
	value, _ := ctx.Value(valueKey{g}).([]byte)
	return value
}
