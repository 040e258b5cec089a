//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sievekv/sievekv/server/resp"
)

// limited is a server whose process may have few descriptors.
type limited struct {
	cmd          *exec.Cmd
	addr, metric string
	stderr       bytes.Buffer
}

// serveLimited starts kvshell serve with a limit of descriptors, and waits until it serves.
func serveLimited(t *testing.T, limit int, dir string) *limited {
	t.Helper()
	s := &limited{cmd: limitedCommand(limit, dir)}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() }) // it has ended, unless the test failed
	told := make(chan struct{})
	ended := make(chan struct{})
	t.Cleanup(func() { <-ended })
	go func() {
		defer close(ended)
		buf := make([]byte, 4096)
		serving := false
		for {
			n, err := stderr.Read(buf)
			s.stderr.Write(buf[:n])
			if !serving && (err != nil || strings.Contains(s.stderr.String(), "/metrics\n")) {
				serving = true
				for line := range strings.Lines(s.stderr.String()) {
					if _, addr, ok := strings.Cut(line, " at "); ok && strings.HasPrefix(line, "serving ") {
						s.addr = strings.TrimSpace(addr)
					}
					if _, addr, ok := strings.Cut(line, "http://"); ok {
						s.metric, _, _ = strings.Cut(addr, "/")
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
		<-ended
		t.Fatalf("with %d descriptors: %v\n%s", limit, s.cmd.Wait(), s.stderr.Bytes())
	}
	return s
}

func limitedCommand(limit int, dir string) *exec.Cmd {
	return exec.Command("sh", "-c", `ulimit -n "$0" && exec kvshell -d "$1" serve --addr 127.0.0.1:0 --metrics-addr 127.0.0.1:0`,
		strconv.Itoa(limit), dir)
}

// Strangers take all the descriptors that they can get, of the clients and of the metrics, and stay. What a client
// writes meanwhile, enough for several logs and tables, succeeds, and is there afterwards.
func TestServe_descriptors(t *testing.T) {
	for _, limit := range []int{64, 128, 1024} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			s := serveLimited(t, limit, dir)
			good := dial(t, "tcp", s.addr)
			most, err := strconv.Atoi(strings.Trim(strings.Fields(ask(t, good, "CONFIG GET maxclients")[0])[3], `"`))
			if err != nil || most < 10 || most >= limit {
				t.Fatalf("maxclients is %d, %v, under a limit of %d", most, err, limit)
			}
			if got := ask(t, good, fmt.Sprint("CONFIG SET maxclients ", most+1))[0]; !strings.Contains(got, "argument must be between 1 and "+strconv.Itoa(most)+" inclusive, not "+strconv.Itoa(most+1)+": the limit of open files") {
				t.Errorf("CONFIG SET maxclients above %d answers %s", most, got)
			}
			for range most + 50 {
				dial(t, "tcp", s.addr)
			}
			for range 300 {
				dial(t, "tcp", s.metric)
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
			// The last is still in the log, the first in a table.
			for _, key := range []string{"key0", fmt.Sprint("key", writes-1)} {
				if got := ask(t, good, "STRLEN "+key)[0]; got != "(integer) 1048576" {
					t.Errorf("STRLEN %s answers %s", key, got)
				}
			}
			if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := s.cmd.Wait(); err != nil {
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
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) || exit.ExitCode() != exitLocal || !bytes.Contains(out, []byte("32 files has none left for clients")) {
		t.Errorf("%v, want exit code %d\n%s", err, exitLocal, out)
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
	for !strings.Contains(said.String(), "serving ") {
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
