//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/module/reply"
)

// diligent is a client that writes until the server has gone.
type diligent struct {
	name         string
	acknowledged int
	some         chan struct{} // closed when there are some
	ended        chan struct{}
}

const someWrites = 20

func writeTo(t *testing.T, name, addr string) *diligent {
	d := &diligent{name: name, some: make(chan struct{}), ended: make(chan struct{})}
	c := dial(t, "tcp", addr)
	in := resp.NewReader(c)
	go func() {
		defer close(d.ended)
		for i := 0; ; i++ {
			text := fmt.Sprintf("MULTI\r\nSET %s:%d v\r\nBF.ADD %s item:%d\r\nEXEC\r\n", name, i, name, i)
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
			for range 4 {
				r, err := in.Read()
				if err != nil || r.IsError() || slices.ContainsFunc(r.Elems(), reply.Reply.IsError) {
					return
				}
			}
			if d.acknowledged++; d.acknowledged == someWrites {
				close(d.some)
			}
		}
	}()
	return d
}

// A server ends after SIGTERM even if a command runs for ever or the disk hangs, and everything that it acknowledged is
// there. It may take five seconds; the test fails only if the server does not end at all.
func TestServe_hangs(t *testing.T) {
	for name, tt := range map[string]struct {
		sent  []string // by a client that reads no reply
		keeps bool     // its connection
	}{
		"command":               {[]string{"HANG COMMAND"}, true},
		"command, client gone":  {[]string{"HANG COMMAND"}, false},
		"transaction":           {[]string{"MULTI", "SET half v", "HANG COMMAND", "SET half w", "EXEC"}, true},
		"syncs":                 {[]string{"HANG SYNC", "SET half v"}, true},
		"syncs, in transaction": {[]string{"MULTI", "HANG SYNC", "SET k v", "EXEC"}, true},
		"disk":                  {[]string{"HANG DISK", "SET k v"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "store")
			s := serveWith(t, dir, []string{hangVariable + "=yes"}, 1, "--addr", "127.0.0.1:0", "--sync", "always")
			var writers []*diligent
			for i := range 4 {
				writers = append(writers, writeTo(t, fmt.Sprint("w", i), s.addrs[0]))
			}
			for _, w := range writers {
				select {
				case <-w.some:
				case <-w.ended:
					t.Fatalf("%s ended after %d writes", w.name, w.acknowledged)
				}
			}
			c := dial(t, "tcp", s.addrs[0])
			if _, err := io.WriteString(c, strings.Join(tt.sent, "\r\n")+"\r\n"); err != nil {
				t.Fatal(err)
			}
			s.says(t, "hanging at ")
			if !tt.keeps {
				_ = c.Close() // its command hangs
			}
			s.endsBySignal(t)
			for _, w := range writers {
				<-w.ended
			}
			after := serveStore(t, dir, 1, "--addr", "127.0.0.1:0")
			for _, w := range writers {
				for i := range w.acknowledged {
					lines := []string{fmt.Sprintf("GET %s:%d", w.name, i), fmt.Sprintf("BF.EXISTS %s item:%d", w.name, i)}
					if got := ask(t, dial(t, "tcp", after.addrs[0]), lines...); got[0] != `"v"` || got[1] != "(integer) 1" {
						t.Errorf("%s was acknowledged %d writes; of write %d there is %q", w.name, w.acknowledged, i, got)
					}
				}
			}
			if got := ask(t, dial(t, "tcp", after.addrs[0]), "EXISTS half"); name == "transaction" && got[0] != "(integer) 0" {
				t.Error("half of a transaction is there")
			}
			after.stop(t, syscall.SIGTERM)
		})
	}
}

// A server also ends if the disk hangs while it opens the store.
func TestServe_hangsAtOpening(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	s := serveStore(t, dir, 1, "--addr", "127.0.0.1:0")
	ask(t, dial(t, "tcp", s.addrs[0]), "SET k v")
	s.stop(t, syscall.SIGTERM)
	s = serveWith(t, dir, []string{hangVariable + "=OPENING"}, 0, "--addr", "127.0.0.1:0")
	s.says(t, "hanging at ")
	s.endsBySignal(t)
	if out, err := exec.Command("kvshell", "-d", dir, "GET", "k").Output(); err != nil || string(out) != "v\n" {
		t.Errorf("GET answers %q, %v", out, err)
	}
}

// endsBySignal ends a server that cannot end well.
func (s *served) endsBySignal(t *testing.T) {
	t.Helper()
	began := time.Now()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	failed := (*exec.ExitError)(nil)
	if err := <-s.ended; !errors.As(err, &failed) || failed.ExitCode() != exit.Local {
		t.Errorf("the server ended with %v, want exit code %d; it said\n%s", err, exit.Local, s.output())
	}
	t.Logf("ended %v after SIGTERM, with a second to drain", time.Since(began).Round(10*time.Millisecond))
}
