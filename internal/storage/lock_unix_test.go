//go:build unix

package storage

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestLockedFile_renew has a lock taken again that this process or somebody else gave up, and told from one that
// another process has taken meanwhile. For that process, fcntl locks are all there is.
func TestLockedFile_renew(t *testing.T) {
	if name := os.Getenv("SIEVEKV_TEST_RENEW"); name != "" {
		l, err := lockFile(name, true)
		if err != nil {
			os.Exit(3)
		}
		_, _ = os.Stdout.WriteString("locked\n")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the parent closes it
		_ = l.Close()
		os.Exit(0)
	}
	elsewhere := func(t *testing.T, name string) (held bool, end func()) {
		t.Helper()
		c := exec.Command(os.Args[0], "-test.run=^TestLockedFile_renew$")
		c.Env = append(os.Environ(), "SIEVEKV_TEST_RENEW="+name)
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		n, _ := out.Read(make([]byte, 7))
		return n > 0, func() {
			_ = in.Close()
			_ = c.Wait()
		}
	}
	for what, lose := range map[string]func(name string) error{
		"nothing": func(string) error { return nil },
		"removed": os.Remove,
		"closed": func(name string) error {
			_, err := os.ReadFile(name)
			return err
		},
	} {
		for _, alone := range []bool{true, false} {
			name := filepath.Join(t.TempDir(), lockName)
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := lockFile(name, alone)
			if err != nil {
				t.Fatal(err)
			}
			if err := lose(name); err != nil {
				t.Fatal(err)
			}
			if err := l.renew(); err != nil {
				t.Errorf("%s, alone %t: %v", what, alone, err)
			}
			held, end := elsewhere(t, name)
			end()
			if missing := what == "removed" && !alone; held != missing { // a reader makes no file
				t.Errorf("%s, alone %t: another process has the lock: %t", what, alone, held)
			}
			if what == "nothing" {
				continue
			}
			if err := lose(name); err != nil {
				t.Fatal(err)
			}
			held, end = elsewhere(t, name)
			if err := l.renew(); !held || err == nil || !isLockHeld(err) {
				t.Errorf("%s, alone %t: another process has the lock: %t; renew: %v", what, alone, held, err)
			}
			end()
			if err := l.renew(); err != nil {
				t.Errorf("%s, alone %t: after its end: %v", what, alone, err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
