package server_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/sievekv/sievekv/server"
)

// The handshakes of clients of the metrics wait for the places that the handshakes of the server's clients have.
func TestMetricsTLS(t *testing.T) {
	w := serve(t, server.Options{}.WithTimes(long, long, long))
	pair, pool := certificate(t)
	inner := listenTCP(t)
	l := w.server.MetricsTLS(w.server.MetricsListener(inner), &tls.Config{Certificates: []tls.Certificate{pair}})
	h := &http.Server{Handler: w.server.MetricsHandler(nil), ConnContext: w.server.MetricsConnContext, ErrorLog: w.server.ErrorLog()}
	ended := make(chan error)
	go func() { ended <- h.Serve(l) }()
	release := w.server.HoldHandshakes()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	get := func() error {
		r, err := client.Get("https://" + inner.Addr().String() + "/healthz")
		if err != nil {
			return err
		}
		if r.StatusCode != http.StatusOK {
			err = errors.New(r.Status)
		}
		_, rerr := io.Copy(io.Discard, r.Body)
		return errors.Join(err, rerr, r.Body.Close())
	}
	got := make(chan error, 2)
	for range 2 {
		go func() { got <- get() }()
	}
	eventually(t, "they wait", func() bool { return w.server.HandshakesWanted() == 2 })
	release()
	if err := errors.Join(<-got, <-got); err != nil {
		t.Error(err)
	}
	// One that waits ends with the server.
	release = w.server.HoldHandshakes()
	go func() { got <- get() }()
	eventually(t, "it waits", func() bool { return w.server.HandshakesWanted() == 1 })
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := <-got; err == nil {
		t.Error("a client has metrics of a server that has ended")
	}
	<-ended
	eventually(t, "it waits no more", func() bool { return w.server.HandshakesWanted() == 0 })
	release()
	client.CloseIdleConnections()
}
