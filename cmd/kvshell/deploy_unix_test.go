//go:build unix

package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// A server has every metric in the alerts and on the board: here a server that leads a group, and has filters, one of
// them full.
func TestDeploy_metrics(t *testing.T) {
	g := &processes{t: t}
	s := serveStore(t, filepath.Join(t.TempDir(), "store"), 2, "--addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0", "--metrics-keys",
		"--cluster", "init", "--node", "a", "--peer-addr", g.address())
	c := dial(t, "tcp", s.addrs[0])
	g.await("it leads", func() bool { return ask(t, c, "BF.RESERVE full 0.01 1 NONSCALING")[0] == "OK" })
	ask(t, c, "BF.MADD full x y z", "BF.EXISTS full x", "CF.ADD seen x",
		"SIEVE.CLUSTER TOKEN b "+g.address()+" "+g.address())
	has := map[string]bool{"up": true} // which Prometheus makes
	var metrics string
	g.await("the clock is known", func() bool {
		metrics = fetch(t, s.addrs[1])
		return strings.Contains(metrics, "sievekv_cluster_clock_ahead_seconds")
	})
	for line := range strings.Lines(metrics) {
		name, _, _ := strings.Cut(line, " ")
		name, _, _ = strings.Cut(name, "{")
		has[name] = true
	}
	asked := readDoc(t, "deploy/prometheus/alerts.yaml") + readDoc(t, "docs/OPERATING.md")
	for _, p := range readBoard(t).Panels {
		for _, q := range p.Targets {
			asked += q.Expr + "\n"
		}
	}
	names := regexp.MustCompile(`\b(sievekv|process|go)_[a-z0-9_]+`).FindAllString(asked, -1)
	for _, name := range names {
		if !has[name] {
			t.Errorf("a server has no metric %s", name)
		}
	}
	if len(names) < 150 {
		t.Errorf("%d names of metrics were found, want more", len(names))
	}
	s.stop(t, syscall.SIGTERM)
}
