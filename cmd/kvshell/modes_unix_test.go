//go:build unix

package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/kv"
)

// serveOpen serves a store with a umask that keeps nobody out, and returns what it says when it has ended.
func serveOpen(t *testing.T, use func(), dir string, flags ...string) string {
	t.Helper()
	args := append([]string{"-c", `umask 0 && exec kvshell -d "$@"`, "sh", dir, "serve", "--addr", ""}, flags...)
	cmd := exec.Command("sh", args...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, unless the test failed
	var said strings.Builder
	used := sync.OnceFunc(func() {
		use()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
	buf := make([]byte, 4096)
	for {
		n, err := stderr.Read(buf)
		said.Write(buf[:n])
		if strings.Contains(said.String(), "sievekv: serving") {
			used()
		}
		if err != nil {
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	return said.String()
}

// What a server makes is for its user alone, whatever the umask; what exists keeps its mode.
func TestServe_modes(t *testing.T) {
	parent := t.TempDir()
	if err := os.Chmod(parent, 0o777); err != nil { // the umask has taken rights from it
		t.Fatal(err)
	}
	dir := filepath.Join(parent, "new", "store")
	socket := filepath.Join(parent, "socket")
	look := func() (kinds map[string]bool) {
		kinds = make(map[string]bool)
		err := filepath.WalkDir(parent, func(path string, e fs.DirEntry, err error) error {
			if err != nil || path == parent {
				return err
			}
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil // Pebble has removed it meanwhile
			} else if err != nil {
				return err
			}
			want := fs.FileMode(0o600)
			if e.IsDir() {
				want = 0o700
			}
			if filepath.Base(path) == "OLD" {
				want = 0o644
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s has mode %04o, want %04o", path, got, want)
			}
			kinds[strings.TrimLeft(filepath.Base(path), "0123456789")] = true
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		return kinds
	}
	for range 2 { // the second has a log, an address and a socket to replace
		serveOpen(t, func() {
			c, err := net.Dial("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			ask(t, c, "SET k v")
			kinds := look()
			for _, kind := range []string{"LOCK", ".log", ".sst", "SEAL", "serve.addr", "socket"} {
				if !kinds[kind] {
					t.Errorf("there is no %s among %v", kind, kinds)
				}
			}
			_ = c.Close() // a reply came
		}, dir, "--unixsocket", socket)
		look()
		old := filepath.Join(dir, "OLD")
		if err := os.WriteFile(old, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(old, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// A password and users that others can read, and a server that runs as root, are warned about.
func TestServe_warnings(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "socket")
	users := filepath.Join(dir, "users.acl")
	if err := os.WriteFile(users, []byte("user u on\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, warned := range map[fs.FileMode]bool{0o600: false, 0o400: false, 0o640: true, 0o604: true, 0o602: true} {
		file := filepath.Join(dir, "password")
		_ = os.Remove(file) // there may be none
		if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Chmod(file, mode), os.Chmod(users, mode)); err != nil {
			t.Fatal(err)
		}
		said := serveOpen(t, func() {}, filepath.Join(dir, "store"), "--unixsocket", socket, "--requirepass-file", file)
		if strings.Contains(said, "others can read or change the password") != warned {
			t.Errorf("with a password file of mode %04o: %s", mode, said)
		}
		said = serveOpen(t, func() {}, filepath.Join(dir, "store"), "--unixsocket", socket, "--acl-file", users)
		if strings.Contains(said, `level=WARN msg="--acl-file `+users+": others can read or change the users") != warned {
			t.Errorf("with a file of users of mode %04o: %s", mode, said)
		}
		if strings.Contains(said, runsAsRoot) != (os.Geteuid() == 0) {
			t.Errorf("with the user id %d: %s", os.Geteuid(), said)
		}
	}
}

// A process that tries to open its store a second time keeps the store's lock, though the system gives up a lock when
// any handle of the file is closed.
func TestStore_lockKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	o := &kv.Options{BallastSize: -1}
	db, err := kv.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := kv.Open(dir, o); !errors.Is(err, kv.ErrLocked) {
		t.Errorf("the second Open returned %v", err)
	}
	failed := (*exec.ExitError)(nil)
	if out, err := exec.Command("kvshell", "-d", dir, "PING").CombinedOutput(); !errors.As(err, &failed) || failed.ExitCode() != exit.Locked {
		t.Errorf("another process: %v, want exit code %d\n%s", err, exit.Locked, out)
	}
}
