package dashboard

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sievekv/sievekv/internal/live"
)

// Every page is a GET that changes nothing, and each request is authorized by itself. There is no session and no
// cookie, so a foreign page can make a browser send no request that would do anything. Such a page could only try to
// read answers. Browsers prevent that, unless its host name resolves to this machine, and the check of Host prevents
// that.

func writeRefusal(w http.ResponseWriter, r *live.Refusal) {
	for name, values := range r.Header {
		w.Header()[name] = values
	}
	http.Error(w, r.Text, r.Status)
}

func refuse(status int, text string) *live.Refusal { return &live.Refusal{Status: status, Text: text} }

// secure sets what keeps a browser from running, loading or sending anything but what is served here.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "+
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// allow returns the viewer that sends a request, or the reason for a refusal.
func (d *Dashboard) allow(r *http.Request) (live.Viewer, *live.Refusal) {
	switch {
	case d.ctx.Err() != nil:
		return nil, refuse(http.StatusServiceUnavailable, "the dashboard is closed")
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return nil, &live.Refusal{Status: http.StatusMethodNotAllowed, Text: "the pages can only be read", Header: http.Header{"Allow": {"GET, HEAD"}}}
	case !d.knowsHost(r.Host):
		return nil, refuse(http.StatusForbidden, "this host name is not among those that the pages are served under")
	case !isOwnOrigin(r):
		return nil, refuse(http.StatusForbidden, "another site has sent this request")
	}
	viewer, err := d.o.Authorize(r)
	if err == nil {
		return viewer, nil
	}
	var how *live.Refusal
	if !errors.As(err, &how) {
		how = refuse(http.StatusForbidden, err.Error())
	}
	return nil, how
}

// knowsHost reports whether a request may use a host name. An IP address is always allowed: no name service can redirect it.
func (d *Dashboard) knowsHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(host, ".")
	return host == "" || net.ParseIP(strings.Trim(host, "[]")) != nil || strings.EqualFold(host, "localhost") ||
		slices.ContainsFunc(d.o.Hosts, func(known string) bool { return strings.EqualFold(known, host) })
}

// isOwnOrigin reports whether a request comes from a page here or from nowhere, such as a link that somebody follows.
func isOwnOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// ofThisMachine is Options.Authorize unless it is set.
func ofThisMachine(r *http.Request) (live.Viewer, error) {
	if live.IsLocal(r) {
		return nil, nil
	}
	return nil, refuse(http.StatusForbidden, "only requests from this machine are answered")
}
