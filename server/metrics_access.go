package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
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
		switch {
		case !o.knows(r.Host):
			http.Error(w, "this host name is not among those given by --metrics-host", http.StatusForbidden)
		case r.URL.Path == "/metrics" && !o.lets(r):
			if r.Header.Get("Authorization") != "" {
				s.stats.wrongPasswords.Add(1)
				s.warnings.warn("sievekv: wrong password for metrics", "client", r.RemoteAddr)
			}
			w.Header().Set("WWW-Authenticate", `Basic realm="metrics"`)
			http.Error(w, "metrics need a password", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
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

// lets reports whether a request gives the password, if there is one.
func (o *MetricsOptions) lets(r *http.Request) bool {
	if o.Password == "" {
		return true
	}
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
