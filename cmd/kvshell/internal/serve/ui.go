package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/dashboard"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/server"
)

// checkUI returns an error for an address of pages that other machines reach without TLS or without a password: browsers give the
// password with each request.
func (f *Flags) checkUI() error {
	if err := checkAddress("ui-addr", f.uiAddr); err != nil || f.uiAddr == "" {
		return err
	}
	host, _, _ := net.SplitHostPort(f.uiAddr) // checkAddress has split it
	switch ip := net.ParseIP(host); {
	case host == "localhost" || ip != nil && ip.IsLoopback():
		return nil
	case f.uiTLS.cert == "":
		return exit.Usagef("serve: --ui-addr %s is not of this machine alone, and passwords would be sent in the clear: give --ui-tls-cert and --ui-tls-key, or an address such as 127.0.0.1:6381", f.uiAddr)
	case f.passwordFile == "" && f.aclFile == "":
		return exit.Usagef("serve: --ui-addr %s is not of this machine alone, and there is no password: give --requirepass-file or --acl-file, or an address such as 127.0.0.1:6381", f.uiAddr)
	}
	return nil
}

// serveUI serves the dashboard, if it has an address, until stop is called.
func (s *Service) serveUI(db *kv.DB, srv *server.Server, failed chan<- error) (stop func(context.Context), err error) {
	if s.at.ui == nil {
		return func(context.Context) {}, nil
	}
	d, err := dashboard.New(db, &dashboard.Options{Logger: s.log, Authorize: srv.Viewer, Hosts: s.flags.uiHosts, Server: srv.Live()})
	if err != nil {
		return nil, exit.WithCode(exit.Local, fmt.Errorf("serve: %w", err))
	}
	l, scheme := srv.MetricsListener(s.at.ui), "http"
	if config := s.flags.uiTLS.config(); config != nil {
		l, scheme = srv.MetricsTLS(l, config), "https"
	}
	h := httpServer(srv, srv.PagesHandler(d))
	go func() {
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve: --ui-addr %s: %w", s.flags.uiAddr, err)
		}
	}()
	s.log.Info("sievekv: serving the dashboard", "url", fmt.Sprintf("%s://%s/", scheme, l.Addr()))
	return func(ctx context.Context) {
		end(ctx, h)
		d.Close()
	}, nil
}
