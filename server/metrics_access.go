package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// MetricsOptions say which requests MetricsHandler answers, and what it shows. The zero value and nil mean the
// defaults.
type MetricsOptions struct {
	// Password is what requests for /metrics must give, as a bearer token or by basic authentication with any name.
	// Default none.
	Password string

	// Hosts are the host names that requests may use, besides localhost and IP addresses. All others are refused,
	// because a web page can make its own host name resolve to this machine. Default none.
	Hosts []string

	// Keys shows the keys of filters even if there is no Password. Default false.
	Keys bool
}

// guard returns a handler that calls next for requests that the options allow.
func (o *MetricsOptions) guard(s *Server, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := connOf(r.Context())
		c.begin()
		defer c.end()
		if !s.metricsPace.await(r.Context(), s.limits.metricsEvery) {
			http.Error(w, "too many requests for metrics at a time", http.StatusServiceUnavailable)
			return
		}
		if !o.knows(r.Host) {
			http.Error(w, "this host name is not among those given by --metrics-host", http.StatusForbidden)
			return
		}
		if r.URL.Path == "/metrics" {
			if refused, why := o.refusal(s, r); refused != 0 {
				w.Header().Set("WWW-Authenticate", `Basic realm="metrics"`)
				w.Header().Set("Connection", "close") // there are few connections
				http.Error(w, why, refused)
				return
			}
			c.know()
		}
		next.ServeHTTP(w, r)
	})
}

// pace spaces out the requests for metrics. Admission does not know them, so without pace a client that never stops
// asking would take the processors from commands, even if every request is refused. It is a semaphore for one request,
// which holds it for the time until the next may go on.
type pace chan struct{}

// longestPace is how long a request waits for pace at most. All connections of a MetricsListener wait less together.
const longestPace = time.Second

// await waits until a request may go on. It is not ok if the request has ended, which costs the others no time, or if
// too many wait.
func (p pace) await(ctx context.Context, every time.Duration) (ok bool) {
	ctx, cancel := context.WithTimeout(ctx, longestPace)
	defer cancel()
	select {
	case p <- struct{}{}:
		time.AfterFunc(every, func() { <-p })
		return true
	case <-ctx.Done():
		return false
	}
}

// refusal returns the status and the text for a request that lacks the right password; the status is 0 if the request
// is allowed. After wrong passwords from an address it delays the answers to all passwords from there, right or
// wrong, as AUTH does.
//
// A delayed request holds one of few connections. So only half of the connections may be delayed at a time; the next
// request with a password is refused before its password is checked. Otherwise requests sent in parallel would test
// more passwords than requests sent one after the other.
func (o *MetricsOptions) refusal(s *Server, r *http.Request) (status int, why string) {
	if o.Password == "" {
		return 0, ""
	}
	if r.Header.Get("Authorization") == "" {
		return http.StatusUnauthorized, needsPassword("metrics")
	}
	return s.checkPassword(r, "", "metrics", func() bool { return o.lets(r) })
}

// needsPassword is the text for a request without the right password for something.
func needsPassword(what string) string { return what + " need a password" }

// checkPassword is refusal for a request that gives a password of a user for something, which right checks.
func (s *Server) checkPassword(r *http.Request, user, what string, right func() bool) (status int, why string) {
	from := networkOf(nil)
	if addr, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		from = networkOfIP(addr.Addr())
	}
	// The password counts as wrong until it has been checked, also if the request ends before that.
	given := func(right bool) (time.Duration, int) {
		return s.metricsGuesses.given(from, cut(user), right, time.Now(), s.limits.shortestGuess, s.limits.longestGuess)
	}
	wait, wrong := given(false)
	if status, why := s.delayMetrics(r.Context(), wait); status != 0 {
		return status, why
	}
	if right() {
		given(true)
		return 0, ""
	}
	s.stats.wrongPasswords.Add(1)
	s.warnings.warn("sievekv: wrong password for "+what, "client", r.RemoteAddr, "wrong_from_there", wrong)
	return http.StatusUnauthorized, needsPassword(what)
}

// delayMetrics delays the answer to a request. If the status is not 0, the password must not be checked.
func (s *Server) delayMetrics(ctx context.Context, wait time.Duration) (status int, why string) {
	if wait <= 0 {
		return 0, ""
	}
	defer s.metricsDelayed.Add(-1)
	if int(s.metricsDelayed.Add(1)) > max(1, s.room.metrics/2) {
		return http.StatusTooManyRequests, "after wrong passwords from this address, at most half of the connections may give a password at a time"
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return 0, ""
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	return http.StatusServiceUnavailable, "given up"
}

// knows reports whether a request may use a host name. An IP address is always allowed: no name service can redirect
// it.
func (o *MetricsOptions) knows(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(host, ".")
	return host == "" || net.ParseIP(strings.Trim(host, "[]")) != nil || strings.EqualFold(host, "localhost") ||
		slices.ContainsFunc(o.Hosts, func(known string) bool { return strings.EqualFold(known, host) })
}

// lets reports whether a request gives the password.
func (o *MetricsOptions) lets(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		_, given, ok = r.BasicAuth()
	}
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(o.Password))
	return ok && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// showsKeys reports whether the metrics may show keys.
func (o *MetricsOptions) showsKeys() bool { return o.Keys || o.Password != "" }

// ErrorLog returns a logger for the http.Server of MetricsHandler. It logs errors that clients cause, such as failed
// TLS handshakes, to the server's logger, but at most one a second.
func (s *Server) ErrorLog() *log.Logger { return log.New(errorLog{s}, "", 0) }

type errorLog struct{ server *Server }

// Write implements io.Writer for lines of a log.Logger.
func (l errorLog) Write(line []byte) (int, error) {
	l.server.warnings.warn("sievekv: a client of the metrics failed", "error", strings.TrimSpace(string(line)))
	return len(line), nil
}
