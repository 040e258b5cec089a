//go:build unix

package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// hangUp sends SIGHUP, and wants a line of the log.
func (s *served) hangUp(t *testing.T, level, says string) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	line, ok := s.nextLine()
	for ok && !strings.Contains(line, `msg="SIGHUP: `) { // lines about logins and commands
		line, ok = s.nextLine()
	}
	if !ok || !strings.Contains(line, "level="+level) || !strings.Contains(line, says) || strings.Contains(line, "secret") {
		t.Fatalf("after SIGHUP it says %q, want %s %q", line, level, says)
	}
}

// wants asks on a connection, and wants the beginning of the last reply.
func wants(t *testing.T, c net.Conn, want string, lines ...string) {
	t.Helper()
	if got := ask(t, c, lines...); !strings.HasPrefix(strings.TrimPrefix(got[len(got)-1], "(error) "), want) {
		t.Errorf("%q answers %q, want %s", lines, got, want)
	}
}

// At SIGHUP the users of the ACL file are read again: all of them or, if a line is bad, none.
func TestServe_usersReload(t *testing.T) {
	dir := t.TempDir()
	users := filepath.Join(dir, "users")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(users, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("user default off\nuser ann on >a +@all ~*\nuser bob on >b +@all ~*\n")
	s := serveStore(t, filepath.Join(dir, "store"), 1, "--addr", "127.0.0.1:0", "--acl-file", users)
	ann, bob := dial(t, "tcp", s.addrs[0]), dial(t, "tcp", s.addrs[0])
	wants(t, ann, "OK", "AUTH ann a")
	wants(t, bob, "OK", "AUTH bob b")

	write("user ann on >a\nuser carl on >c >secret words\n")
	s.hangUp(t, "ERROR", "--acl-file "+users+":2: rule 4: Syntax error; the server goes on with the users from before")
	wants(t, ann, "OK", "SET k v")
	wants(t, bob, "OK", "SET k v")

	write("user default off\nuser ann on >a2 +get ~*\nuser carl on >c +@all ~*\n")
	s.hangUp(t, "INFO", "was read again")
	wants(t, ann, "NOPERM", "SET k v")
	if _, err := bob.Write([]byte("PING\r\n")); err == nil {
		if n, err := bob.Read(make([]byte, 64)); err == nil {
			t.Errorf("a user who is no longer in the file gets %d bytes", n)
		}
	}
	c := dial(t, "tcp", s.addrs[0])
	wants(t, c, "WRONGPASS", "AUTH ann a")
	wants(t, c, "OK", "AUTH ann a2", "AUTH carl c")

	for _, change := range []func() error{func() error { return os.Remove(users) }, func() error { return syscall.Mkfifo(users, 0o600) }} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		s.hangUp(t, "ERROR", "the server goes on with the users from before")
	}
	wants(t, c, "OK", "SET k v")
	s.stop(t, syscall.SIGTERM)
}

// At SIGHUP the password is read again. Connections that have logged in go on.
func TestServe_passwordReload(t *testing.T) {
	dir := t.TempDir()
	password := filepath.Join(dir, "password")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(password, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first\n")
	s := serveStore(t, filepath.Join(dir, "store"), 1, "--addr", "127.0.0.1:0", "--requirepass-file", password)
	old := dial(t, "tcp", s.addrs[0])
	wants(t, old, "OK", "AUTH first", "ACL SETUSER default >other")
	s.hangUp(t, "INFO", "was read again")
	c := dial(t, "tcp", s.addrs[0])
	wants(t, c, "OK", "AUTH other") // the same password takes none away

	for _, bad := range []string{"\n", "", strings.Repeat("x", 1<<20)} {
		write(bad)
		s.hangUp(t, "ERROR", "the server goes on with the password from before")
	}
	wants(t, c, "OK", "AUTH first")
	write("second\nmore\n")
	s.hangUp(t, "INFO", "was read again")
	wants(t, old, "OK", "SET k v")
	for _, gone := range []string{"first", "other"} {
		wants(t, c, "WRONGPASS", "AUTH "+gone)
	}
	wants(t, c, "OK", "AUTH second")
	s.stop(t, syscall.SIGTERM)
}

// A file has what the command line could have, also what is for the store.
func TestServe_config(t *testing.T) {
	dir := t.TempDir()
	config, password := filepath.Join(dir, "config"), filepath.Join(dir, "password")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(password, "p\n")
	store := filepath.Join(dir, "store")
	write(config, "# for tests\ndir "+store+"\naddr nowhere\nrequirepass-file "+password+"\nmemory 100MiB\nset timeout=7\nset maxclients=50\n")
	s := serveStore(t, dir, 1, "--config", config, "-d", store, "--addr", "127.0.0.1:0", "--set", "timeout=8")
	c := dial(t, "tcp", s.addrs[0])
	wants(t, c, "1) \"timeout\"\n2) \"8\"", "AUTH p", "CONFIG GET timeout")
	wants(t, c, "1) \"maxclients\"\n2) \"50\"", "CONFIG GET maxclients")
	s.stop(t, syscall.SIGTERM)
	for _, tt := range []struct{ config, want string }{
		{"addr nowhere\n", "kvshell: serve: --addr nowhere: must be HOST:PORT, such as 127.0.0.1:6380, with a port of 0 to 65535 (--config " + config + ":1)\n"},
		{"\nset timeout=x\n", "(--config " + config + ":2)\n"},
		{"memory 1MiB\n", "--memory is 1.0 MiB, must be 64MiB to 1TiB (--config " + config + ":1)\n"},
		{"memory x\n", "kvshell: serve: --config " + config + ":1: memory x: "},
		{"requirepass-file " + password + "x\n", "(--config " + config + ":1)\n"},
		{"host localhost\n", "kvshell: serve: --config " + config + ":1: unknown key \"host\""},
	} {
		write(config, tt.config)
		out, code := runs(t, nil, "-d", store, "serve", "--config", config)
		if code == 0 || !strings.Contains(out, tt.want) {
			t.Errorf("%q: code %d, %s, want %s", tt.config, code, out, tt.want)
		}
	}
}
