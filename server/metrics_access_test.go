package server_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/server"
)

// Metrics are for those who may have them: not for a page whose name was made to lead here, not without the
// password, and keys not for everybody.
func TestMetrics_access(t *testing.T) {
	w := serve(t, nil)
	w.client().answers("BF.ADD secret-key x => :1")
	secret := &server.MetricsOptions{Password: "pw"}
	for _, tt := range []struct {
		o          *server.MetricsOptions
		path, host string
		login      func(*http.Request)
		want       int
		keys       bool
	}{
		{nil, "/metrics", "127.0.0.1:9121", nil, 200, false},
		{nil, "/metrics", "[::1]:9121", nil, 200, false},
		{nil, "/metrics", "[::1]", nil, 200, false},
		{nil, "/metrics", "LocalHost.:9121", nil, 200, false},
		{nil, "/metrics", "", nil, 200, false},
		{nil, "/metrics", "evil.example:9121", nil, 403, false},
		{nil, "/metrics", "localhost.evil.example", nil, 403, false},
		{nil, "/readyz", "evil.example", nil, 403, false},
		{&server.MetricsOptions{Hosts: []string{"db.example"}}, "/metrics", "DB.example:9121", nil, 200, false},
		{&server.MetricsOptions{Keys: true}, "/metrics", "localhost", nil, 200, true},
		{secret, "/metrics", "localhost", nil, 401, false},
		{secret, "/metrics", "evil.example", func(r *http.Request) { r.SetBasicAuth("any", "pw") }, 403, false},
		{secret, "/metrics", "localhost", func(r *http.Request) { r.SetBasicAuth("any", "wrong") }, 401, false},
		{secret, "/metrics", "localhost", func(r *http.Request) { r.SetBasicAuth("any", "pw") }, 200, true},
		{secret, "/metrics", "localhost", func(r *http.Request) { r.Header.Set("Authorization", "Bearer pw") }, 200, true},
		{secret, "/metrics", "localhost", func(r *http.Request) { r.Header.Set("Authorization", "Bearer p") }, 401, false},
		{secret, "/metrics", "localhost", func(r *http.Request) { r.Header.Set("Authorization", "pw") }, 401, false},
		{secret, "/healthz", "localhost", nil, 200, false},
	} {
		r := httptest.NewRequest("GET", tt.path, nil)
		if r.Host = tt.host; tt.login != nil {
			tt.login(r)
		}
		got := httptest.NewRecorder()
		w.server.MetricsHandler(tt.o).ServeHTTP(got, r)
		if keys := strings.Contains(got.Body.String(), "secret-key"); got.Code != tt.want || keys != tt.keys {
			t.Errorf("%+v: %s of %q with %q: %d, keys %v, want %d, %v", tt.o, tt.path, tt.host, r.Header, got.Code, keys, tt.want, tt.keys)
		}
	}
	if got := w.client().info("stats", "acl_access_denied_auth"); got != "3" {
		t.Errorf("%s wrong passwords are counted, want 3", got)
	}
}
