//go:build unix

package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sievekv/sievekv/server"
)

// A symbolic link stays: SAVE replaces its target.
func TestACL_saveLink(t *testing.T) {
	dir := realDir(t)
	there := filepath.Join(dir, "there")
	if err := os.Mkdir(there, 0o700); err != nil {
		t.Fatal(err)
	}
	file, link := filepath.Join(there, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("user u on\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join("there", "file"), link); err != nil {
		t.Fatal(err)
	}
	w := serve(t, &server.Options{ACLFile: link})
	c := w.client()
	var synced string
	defer server.HookSyncDirectory(func(dir string) error {
		synced = dir
		return nil
	})()
	c.answers("ACL SETUSER new on => +OK\nACL SAVE => +OK")
	if to, err := os.Readlink(link); err != nil || to != filepath.Join("there", "file") {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "user new on") {
		t.Errorf("the file is %q, %v", text, err)
	}
	if synced != there {
		t.Errorf("synced is %q, want %q", synced, there)
	}
	// A link that leads nowhere is not replaced either.
	if err := os.RemoveAll(there); err != nil {
		t.Fatal(err)
	}
	c.answers("ACL SAVE => -ERR There was an error trying to save the ACLs...")
	if _, err := os.Readlink(link); err != nil {
		t.Errorf("the link has gone: %v", err)
	}
}

// LOAD does not read a pipe again: nobody may ever write to it, and a pipe that has ended has no users, which would let
// everybody in.
func TestACL_loadPipe(t *testing.T) {
	dir := realDir(t)
	fifo, ended := filepath.Join(dir, "fifo"), "/dev/null"
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, ended} {
		w := serve(t, &server.Options{ACLFile: path, ACL: []byte("user default off\nuser root on >r ~* &* +@all\n")})
		root, other := w.client(), w.client()
		root.answers("AUTH root r => +OK")
		if got, want := root.do("ACL LOAD"), "-ERR "+path+" is no regular file, which could be read again. Nothing has changed."; got != want {
			t.Errorf("ACL LOAD = %s, want %s", got, want)
		}
		other.answers("PING => -NOAUTH Authentication required.")
	}
}
