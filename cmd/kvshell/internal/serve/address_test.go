package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A stale address, of a process that does not have the store, is not told.
func TestHowToConnect(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct{ text, want string }{
		{"7\ntcp 127.0.0.1:6380\n", "kvshell -h 127.0.0.1 -p 6380"},
		{"7\ntcp [::]:6380\nunix /tmp/s\n", "kvshell -h 127.0.0.1 -p 6380"},
		{"7\ntcp [::1]:6380\n", "kvshell -h ::1 -p 6380"},
		{"7\nunix /tmp/s\n", "kvshell -s /tmp/s"},
		{"7\ntls 127.0.0.1:6380\n", "kvshell -h 127.0.0.1 -p 6380 --tls"},
		{"7\ntls+cert 127.0.0.1:6380\n", "kvshell -h 127.0.0.1 -p 6380 --tls --cert FILE --key FILE"},
		{"8\ntcp 127.0.0.1:6380\n", ""},
		{"7\n", ""}, {"", ""}, {"7\ntcp\n", ""},
	} {
		if err := os.WriteFile(filepath.Join(dir, AddressFile), []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := HowToConnect(dir, 7); got != tt.want {
			t.Errorf("of %q: %q, want %q", tt.text, got, tt.want)
		}
	}
	if got := HowToConnect(filepath.Join(dir, "nosuch"), 7); got != "" {
		t.Errorf("without a file: %q", got)
	}
}

// TestRemoveAddress leaves the file of another process.
func TestRemoveAddress(t *testing.T) {
	for pid, kept := range map[int]bool{os.Getpid(): false, os.Getpid() + 1: true} {
		path := filepath.Join(t.TempDir(), AddressFile)
		if err := os.WriteFile(path, fmt.Appendf(nil, "%d\ntcp 127.0.0.1:1\n", pid), 0o600); err != nil {
			t.Fatal(err)
		}
		removeAddress(filepath.Dir(path))
		if _, err := os.Stat(path); kept != (err == nil) {
			t.Errorf("of process %d, this is %d: %v", pid, os.Getpid(), err)
		}
	}
}
