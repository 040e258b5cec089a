//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/internal/resp"
)

// limited is a server whose process may have few descriptors.
type limited struct {
	cmd          *exec.Cmd
	addr, metric string
	stderr       bytes.Buffer  // to be read when ended is closed
	ended        chan struct{} // all of stderr is read
}

// wait waits until the process has ended, and all that it said was read.
func (s *limited) wait() error {
	<-s.ended
	return s.cmd.Wait()
}

// serveLimited starts kvshell serve with a limit of descriptors, and waits until it serves.
func serveLimited(t *testing.T, limit int, dir string, flags ...string) *limited {
	t.Helper()
	s := &limited{cmd: limitedCommand(limit, dir, flags...), ended: make(chan struct{})}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	told := make(chan struct{})
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // it has ended, unless the test failed
		<-s.ended
	})
	go func() {
		defer close(s.ended)
		buf := make([]byte, 4096)
		serving := false
		for {
			n, err := stderr.Read(buf)
			s.stderr.Write(buf[:n])
			if !serving && (err != nil || strings.Contains(s.stderr.String(), "/metrics\n")) {
				serving = true
				for line := range strings.Lines(s.stderr.String()) {
					at := servedAt(strings.TrimSpace(line))
					if addr, isMetrics := strings.CutPrefix(at, "http://"); isMetrics {
						s.metric, _, _ = strings.Cut(addr, "/")
					} else if at != "" {
						s.addr = at
					}
				}
				close(told)
			}
			if err != nil {
				return
			}
		}
	}()
	<-told
	if s.addr == "" || s.metric == "" {
		t.Fatalf("with %d descriptors: %v\n%s", limit, s.wait(), s.stderr.Bytes())
	}
	return s
}

func limitedCommand(limit int, dir string, flags ...string) *exec.Cmd {
	const script = `ulimit -n "$0" && dir=$1 && shift && exec kvshell -d "$dir" serve --addr 127.0.0.1:0 --metrics-addr 127.0.0.1:0 "$@"`
	return exec.Command("sh", append([]string{"-c", script, strconv.Itoa(limit), dir}, flags...)...)
}

// most returns the given number of descriptors, or the most that a process may have here.
func most(t *testing.T, wanted int) int {
	t.Helper()
	var own syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own); err != nil {
		t.Fatal(err)
	}
	if uint64(own.Max) < uint64(wanted) {
		t.Logf("no process may open more than %d files here, so the server gets that in place of %d", own.Max, wanted)
		return int(own.Max)
	}
	return wanted
}

// connectFrom opens connections from another process, which has few other descriptors, until leave is called.
func connectFrom(t *testing.T, times string) (leave func()) {
	t.Helper()
	cmd := exec.Command("kvshell")
	cmd.Env = append(os.Environ(), crowdVariable+"="+times)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	leave = sync.OnceFunc(func() {
		_ = in.Close() // it may have ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("the crowd ended with %v", err)
		}
	})
	t.Cleanup(leave)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "connected\n" {
		t.Fatalf("the crowd says %q, %v", line, err)
	}
	return leave
}

// Strangers take all the connections that they can get, for clients and for metrics, and keep them for a while.
// Meanwhile a client writes enough for several logs and tables; all of it succeeds and is there afterwards. When the
// strangers have gone, other clients are served.
func TestServe_descriptors(t *testing.T) {
	for _, limit := range []int{64, most(t, 5_000)} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			s := serveLimited(t, limit, dir, "--set", "maxclients=1000000")
			good := dial(t, "tcp", s.addr)
			clients, err := strconv.Atoi(strings.Trim(strings.Fields(ask(t, good, "CONFIG GET maxclients")[0])[3], `"`))
			if err != nil || clients < 10 || clients >= limit {
				t.Fatalf("maxclients is %d, %v, under a limit of %d", clients, err, limit)
			}
			if got := ask(t, good, fmt.Sprint("CONFIG SET maxclients ", clients+1))[0]; !strings.Contains(got, "argument must be between 1 and "+strconv.Itoa(clients)+" inclusive, not "+strconv.Itoa(clients+1)+": the limit of open files") {
				t.Errorf("CONFIG SET maxclients above %d answers %s", clients, got)
			}
			// Two processes, as each may have no more descriptors than the server.
			var leave []func()
			for _, from := range []string{"127.0.0.2", "127.0.0.3"} {
				leave = append(leave, connectFrom(t, fmt.Sprintf("%s %d %s 150 %s", from, limit/2+50, s.addr, s.metric)))
			}
			in := resp.NewReader(good)
			value := strings.Repeat("v", 1<<20)
			const writes = 40
			for i := range writes {
				words := [][]byte{[]byte("SET"), fmt.Append(nil, "key", i), []byte(value)}
				if _, err := good.Write(resp.AppendCommand(nil, words)); err != nil {
					t.Fatal(err)
				}
				if _, err := in.Read(); err != nil {
					t.Fatalf("write %d: %v", i, err)
				}
			}
			for _, f := range leave {
				f()
			}
			// Clients that come now are served, as soon as the server knows that the others have gone.
			for {
				if c, err := net.Dial("tcp", s.addr); err == nil {
					_, _ = io.WriteString(c, "PING\r\n") // it may be closed
					line, _ := bufio.NewReader(c).ReadString('\n')
					_ = c.Close() // its reply is there
					if line == "+PONG\r\n" {
						break
					}
				}
				time.Sleep(time.Millisecond)
			}
			if got := fetch(t, "http://"+s.metric+"/readyz"); got != "ok\n" {
				t.Errorf("/readyz answers %q", got)
			}
			// The last is still in the log, the first in a table.
			for _, key := range []string{"key0", fmt.Sprint("key", writes-1)} {
				if got := ask(t, good, "STRLEN "+key)[0]; got != "(integer) 1048576" {
					t.Errorf("STRLEN %s answers %s", key, got)
				}
			}
			if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := s.wait(); err != nil {
				t.Errorf("the server ended with %v\n%s", err, s.stderr.Bytes())
			}
			out, err := exec.Command("kvshell", "-d", dir, "DBSIZE").Output()
			if err != nil || strings.TrimSpace(string(out)) != strconv.Itoa(writes) {
				t.Errorf("DBSIZE answers %q, %v, want %d keys", out, err, writes)
			}
			if !strings.Contains(s.stderr.String(), "maxclients is lowered") || strings.Contains(s.stderr.String(), "failed") {
				t.Errorf("the server says\n%s", s.stderr.Bytes())
			}
		})
	}
}

// A limit that leaves nothing for clients is refused.
func TestServe_noDescriptors(t *testing.T) {
	cmd := limitedCommand(32, filepath.Join(t.TempDir(), "store"))
	out, err := cmd.CombinedOutput()
	failed := (*exec.ExitError)(nil)
	if !errors.As(err, &failed) || failed.ExitCode() != exit.Local || !bytes.Contains(out, []byte("32 files has none left for clients")) {
		t.Errorf("%v, want exit code %d\n%s", err, exit.Local, out)
	}
}

// The soft limit is raised to the hard one.
func TestServe_softLimit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	cmd := exec.Command("sh", "-c", `ulimit -S -n 64 && exec kvshell -d "$0" serve --addr 127.0.0.1:0`, dir)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var said strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(said.String(), "sievekv: serving") {
		n, err := stderr.Read(buf)
		said.Write(buf[:n])
		if err != nil {
			t.Fatalf("kvshell says %s", said.String())
		}
	}
	if strings.Contains(said.String(), "limit=64") {
		t.Errorf("kvshell says %s", said.String())
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
