//go:build unix

package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A link that somebody made before where the address is written is not followed.
func TestLeaveAddress_link(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{AddressFile, AddressFile + ".new"} {
		if err := os.Symlink(victim, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s := &Service{flags: &Flags{}}
	if err := s.leaveAddress(dir); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(victim); string(text) != "precious" {
		t.Errorf("what a link leads to is now %q, %v", text, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, AddressFile)); string(text) != fmt.Sprintf("%d\n", os.Getpid()) {
		t.Errorf("the address file has %q, %v", text, err)
	}
}

// Whoever reads the address file does not wait for a pipe in its place.
func TestReadAddress_pipe(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, AddressFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if how := HowToConnect(dir, os.Getpid()); how != "" {
		t.Errorf("connect by %q", how)
	}
	removeAddress(dir)
}
