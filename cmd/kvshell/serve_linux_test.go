package main

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
)

// A server that systemd started tells it when clients are served, and when it begins to end.
func TestServe_systemd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	told, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	next := func(want string) {
		t.Helper()
		buf := make([]byte, 100)
		n, err := told.Read(buf)
		if got := string(buf[:n]); err != nil || got != want {
			t.Errorf("systemd is told %q, %v, want %q", got, err, want)
		}
	}
	s := serveWith(t, filepath.Join(t.TempDir(), "store"), []string{"NOTIFY_SOCKET=" + path}, 1, "--addr", "127.0.0.1:0")
	next("READY=1")
	if got := ask(t, dial(t, "tcp", s.addrs[0]), "PING"); got[0] != "PONG" {
		t.Errorf("PING is answered by %q", got)
	}
	s.stop(t, syscall.SIGTERM)
	next("STOPPING=1")
}
