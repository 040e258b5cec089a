package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sievekv/sievekv/server"
)

// MetricsTimes are how long a client of the metrics, or of the dashboard, may take: for the handshake and the headers of a request, to
// receive the answer, and between two requests. Tests have more.
var MetricsTimes = struct{ Header, Write, Idle time.Duration }{5 * time.Second, 30 * time.Second, 30 * time.Second}

// serveMetrics serves the metrics over HTTP, if they have an address, until stop is called.
func (s *Service) serveMetrics(srv *server.Server, failed chan<- error) (stop func(context.Context)) {
	if s.at.metrics == nil {
		return func(context.Context) {}
	}
	// Few connections are served at a time: one that says nothing must not keep its place for long.
	l, scheme := srv.MetricsListener(s.at.metrics), "http"
	if config := s.flags.metricsTLS.config(); config != nil {
		l, scheme = srv.MetricsTLS(l, config), "https"
	}
	h := httpServer(srv, srv.MetricsHandler(&s.flags.metrics))
	go func() {
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve: --metrics-addr %s: %w", s.flags.metricsAddr, err)
		}
	}()
	s.log.Info("sievekv: serving metrics", "url", fmt.Sprintf("%s://%s/metrics", scheme, l.Addr()))
	return func(ctx context.Context) { end(ctx, h) }
}

// httpServer returns a server for a handler behind a MetricsListener.
func httpServer(srv *server.Server, handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ConnContext: srv.MetricsConnContext, ErrorLog: srv.ErrorLog(),
		ReadHeaderTimeout: MetricsTimes.Header, ReadTimeout: 2 * MetricsTimes.Header,
		WriteTimeout: MetricsTimes.Write, IdleTimeout: MetricsTimes.Idle, MaxHeaderBytes: 16 << 10,
	}
}

// end ends an HTTP server.
func end(ctx context.Context, h *http.Server) {
	if h.Shutdown(ctx) != nil {
		_ = h.Close() // its error helps nobody: the process ends
	}
}
