package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Ctrl-C is heard while standard input has not sent enough to tell whether it is compressed. There is no store then.
func TestInterrupted_firstBytes(t *testing.T) {
	for _, word := range []string{"dedup", "load"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		store := filepath.Join(t.TempDir(), "store")
		cmd := exec.Command("kvshell", "-d", store, word, "seen", "-")
		cmd.Stdin = r
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteString("\x1f"); err != nil {
			t.Fatal(err)
		}
		for n := 1; n > 0; time.Sleep(time.Millisecond) { // the program listens to signals before it reads
			if n, err = unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		checkInterrupted(t, cmd.Wait())
		if _, err := os.Stat(store); !os.IsNotExist(err) {
			t.Errorf("%s: there is a store: %v", word, err)
		}
		_, _ = r.Close(), w.Close()
	}
}
