//go:build unix

package serve

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// A socket is replaced only if surely no process has it open: one that takes no connection may be another kind of
// socket, or belong to a process that is busy or stopped.
func TestListenUnix_open(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "datagrams")
	datagrams, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: other, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	paths := []string{other}
	if runtime.GOOS == "linux" { // other systems refuse a connection alike if nobody listens and if too many wait
		paths = append(paths, listensBusy(t, filepath.Join(dir, "busy")))
	}
	for _, path := range paths {
		before, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = listenUnix(path, 0o600); err == nil || !strings.Contains(err.Error(), "a process may have open") {
			t.Errorf("%s: %v", path, err)
		}
		if now, err := os.Lstat(path); err != nil || !os.SameFile(before, now) {
			t.Errorf("%s was replaced: %v", path, err)
		}
	}
}

// listensBusy makes a socket on which a process listens that takes no connection, with as many waiting as may wait.
func listensBusy(t *testing.T, path string) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	for {
		c, err := net.Dial("unix", path)
		if err != nil {
			return path
		}
		t.Cleanup(func() { _ = c.Close() })
	}
}

// What is in the place of a socket when it is closed is removed only if it is that socket.
func TestListenUnix_replaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listen := func() net.Listener {
		t.Helper()
		l, err := listenUnix(path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	closed := func(l net.Listener) {
		t.Helper()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	first := listen()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second := listen()
	closed(first)
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the socket of the second server: %v", err)
	}
	_ = c.Close()
	_ = first.Close() // again
	closed(second)
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
	third := listen()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("somebody's"), 0o600); err != nil {
		t.Fatal(err)
	}
	closed(third)
	if b, err := os.ReadFile(path); string(b) != "somebody's" {
		t.Errorf("a file in the socket's place has %q: %v", b, err)
	}
}
