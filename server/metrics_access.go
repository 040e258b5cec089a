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
	"sync"
	"time"
)

// MetricsOptions say who is answered by MetricsHandler, and what. The zero value, and nil, mean the
// defaults named at each field.
type MetricsOptions struct {
	// Password is what requests for /metrics have to give, as a bearer token or, with any name, by basic
	// authentication. Default none.
	Password string

	// Hosts are the names by which clients may ask, beside localhost and addresses: a page in somebody's
	// browser whose own name was made to lead here is refused. Default none.
	Hosts []string

	// Keys shows the largest filters by their keys also to those who gave no password. Default false.
	Keys bool
}

// guard answers requests that may be answered by next.
func (o *MetricsOptions) guard(s *Server, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := connOf(r.Context())
		c.begin()
		defer c.end()
		if !s.metricsPace.await(r.Context(), s.limits.metricsEvery) {
			http.Error(w, "given up", http.StatusServiceUnavailable)
			return
		}
		if !o.knows(r.Host) {
			http.Error(w, "this host name is not among those given by --metrics-host", http.StatusForbidden)
			return
		}
		if r.URL.Path == "/metrics" {
			if refused, why := o.refusal(s, r); refused != 0 {
				w.Header().Set("WWW-Authenticate", `Basic realm="metrics"`)
				w.Header().Set("Connection", "close") // there are few
				http.Error(w, why, refused)
				return
			}
			c.know()
		}
		next.ServeHTTP(w, r)
	})
}

// pace lets requests for metrics go on one after the other, each some time after the one before. They do not take turns with
// commands, and strangers who never stop asking, were it for what is refused, would have the processors.
type pace struct {
	mu   sync.Mutex
	next time.Time // when the next may go on; guarded by mu
}

// await waits until a request may go on. It is not ok if the request ended meanwhile.
func (p *pace) await(ctx context.Context, every time.Duration) (ok bool) {
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	wait := p.next.Sub(now)
	p.next = p.next.Add(every)
	p.mu.Unlock()
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// refusal returns the status and the text for a request that does not give the password, 0 for one that does or needs none. Whatever
// password it gives, its answer takes as long as those to AUTH do, by the wrong ones that came from its address before.
//
// A request that waits has one of few connections. So half of these at most are for requests that wait, and one more is
// refused at once, before its password is looked at: requests side by side must not tell more than one after the other.
func (o *MetricsOptions) refusal(s *Server, r *http.Request) (status int, why string) {
	if o.Password == "" {
		return 0, ""
	}
	const needed = "metrics need a password"
	if r.Header.Get("Authorization") == "" {
		return http.StatusUnauthorized, needed
	}
	from := networkOf(nil)
	if addr, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		from = networkOfIP(addr.Addr())
	}
	// It counts as wrong until it was looked at, also if that never comes.
	given := func(right bool) (time.Duration, int) {
		return s.metricsGuesses.given(from, "", right, time.Now(), s.limits.shortestGuess, s.limits.longestGuess)
	}
	wait, wrong := given(false)
	if status, why := s.delayMetrics(r.Context(), wait); status != 0 {
		return status, why
	}
	if o.lets(r) {
		given(true)
		return 0, ""
	}
	s.stats.wrongPasswords.Add(1)
	s.warnings.warn("sievekv: wrong password for metrics", "client", r.RemoteAddr, "wrong_from_there", wrong)
	return http.StatusUnauthorized, needed
}

// delayMetrics waits as long as the answer to a request is to take. The status is not 0 if it is not to be answered.
func (s *Server) delayMetrics(ctx context.Context, wait time.Duration) (status int, why string) {
	if wait <= 0 {
		return 0, ""
	}
	defer s.metricsDelayed.Add(-1)
	if int(s.metricsDelayed.Add(1)) > max(1, s.room.metrics/2) {
		return http.StatusTooManyRequests, "too many passwords at a time come from where wrong ones came from"
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

// knows reports whether a request may name a host so. An address is no name that anybody could have led here.
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

// showsKeys reports whether the metrics may have keys in them.
func (o *MetricsOptions) showsKeys() bool { return o.Keys || o.Password != "" }

// ErrorLog returns a logger for the http.Server of MetricsHandler. What it is told, such as handshakes of TLS that failed, the
// server's logger has once a second at most, as it is others who decide how often that is.
func (s *Server) ErrorLog() *log.Logger { return log.New(errorLog{s}, "", 0) }

type errorLog struct{ server *Server }

// Write implements io.Writer for lines of a log.Logger.
func (l errorLog) Write(line []byte) (int, error) {
	l.server.warnings.warn("sievekv: a client of the metrics failed", "error", strings.TrimSpace(string(line)))
	return len(line), nil
}
