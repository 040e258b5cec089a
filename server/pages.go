package server

import (
	"net/http"

	"github.com/sievekv/sievekv/internal/acl"
	"github.com/sievekv/sievekv/internal/live"
)

// PagesHandler returns a handler that bounds the requests for pages about the server as for metrics. The http.Server
// has a MetricsListener and MetricsConnContext. Next decides about each request by Viewer.
func (s *Server) PagesHandler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := connOf(r.Context())
		c.begin()
		defer c.end()
		if !s.pagesPace.await(r.Context(), s.limits.metricsEvery) {
			http.Error(w, "too many requests for pages at a time", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Viewer returns the user of the server who sends a request, by basic authentication: Options.Authorize of package
// dashboard. Without a name it is the default user, and without a password too, if that user needs none and the request
// comes from this machine. Wrong passwords are delayed as for metrics. The password is given again with each request,
// so it must come over TLS or from this machine.
func (s *Server) Viewer(r *http.Request) (live.Viewer, error) {
	name, password, given := r.BasicAuth()
	if name == "" {
		name = acl.DefaultUser
	}
	local := live.IsLocal(r)
	if user := s.users.Default(); !given && user.NoPassword() && local {
		return viewer{s, user}, nil
	}
	if !given {
		return nil, needsLogin(http.StatusUnauthorized, "the pages need a user and a password")
	}
	var user *acl.User
	status, why := s.checkPassword(r, name, "pages", func() bool {
		user = s.users.Login(name, []byte(password))
		return user != nil && (local || !user.NoPassword()) // a user without a password is for this machine alone
	})
	if status != 0 {
		return nil, needsLogin(status, why)
	}
	connOf(r.Context()).know()
	return viewer{s, user}, nil
}

// needsLogin refuses a request. There are few connections, so the client is to close this one.
func needsLogin(status int, why string) error {
	return &live.Refusal{Status: status, Text: why, Header: http.Header{"Www-Authenticate": {`Basic realm="sievekv", charset="UTF-8"`}, "Connection": {"close"}}}
}

// viewer is a user who looks at pages.
type viewer struct {
	server *Server
	user   *acl.User
}

// Name implements live.Viewer.
func (v viewer) Name() string { return v.user.Name() }

// May implements live.Viewer.
func (v viewer) May(words ...string) bool {
	line := make([][]byte, len(words))
	for i, word := range words {
		line[i] = []byte(word)
	}
	cmd, args := v.server.users.Command(line)
	return cmd != nil && v.user.Check(cmd, args) == nil
}
