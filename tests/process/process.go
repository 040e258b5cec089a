// Package process runs kvshell serve in processes of their own, one by one for tests that look at what memory servers
// take, and as groups.
package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Program is kvshell, built for these tests.
type Program struct{ dir string }

// Build builds kvshell. Remove removes it.
func Build() (*Program, error) { return BuildIn("") }

// BuildIn builds the kvshell of another working tree of this module; "" is this one.
func BuildIn(tree string) (*Program, error) {
	dir, err := os.MkdirTemp("", "kvshell")
	if err != nil {
		return nil, err
	}
	p := &Program{dir}
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", p.Path(), "github.com/sievekv/sievekv/cmd/kvshell")
	cmd.Dir = tree
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("go build of kvshell: %w\n%s", err, out), p.Remove())
	}
	return p, nil
}

// In returns kvshell in a directory, where somebody else has built it.
func In(dir string) *Program { return &Program{dir} }

// Path is where the program is.
func (p *Program) Path() string {
	name := "kvshell"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(p.dir, name)
}

// Remove removes the program.
func (p *Program) Remove() error { return os.RemoveAll(p.dir) }

// Server is a process that serves a store.
type Server struct {
	// Addr is where it listens, and Metrics, with --metrics-addr, where it answers for metrics.
	Addr, Metrics string

	cmd    *exec.Cmd
	read   chan struct{} // closed when all that it printed is read
	mu     sync.Mutex
	output strings.Builder // guarded by mu
}

// keptOutput is how many bytes of what a server prints are kept.
const keptOutput = 1 << 20

// Start starts kvshell serve for the store in dir, on a port of its own, with flags besides.
func (p *Program) Start(dir string, flags ...string) (*Server, error) {
	return start(exec.Command(p.Path(), serveArgs(dir, flags)...))
}

// StartLimited is Start for a process with a limit of descriptors. It needs a shell.
func (p *Program) StartLimited(descriptors int, dir string, flags ...string) (*Server, error) {
	script := []string{"-c", `ulimit -n "$0" && exec "$@"`, strconv.Itoa(descriptors), p.Path()}
	return start(exec.Command("sh", append(script, serveArgs(dir, flags)...)...))
}

func serveArgs(dir string, flags []string) []string {
	return append([]string{"-d", dir, "serve", "--addr", "127.0.0.1:0"}, flags...)
}

func start(cmd *exec.Cmd) (*Server, error) {
	s := &Server{read: make(chan struct{}), cmd: cmd}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	serving, metrics := make(chan string, 1), make(chan string, 1)
	go s.keep(stderr, serving, metrics)
	var ok bool
	if s.Addr, ok = <-serving; ok && slices.Contains(cmd.Args, "--metrics-addr") {
		s.Metrics, ok = <-metrics // the line after
	}
	if !ok {
		return nil, fmt.Errorf("kvshell serve ended, and served nothing: %v\n%s", s.cmd.Wait(), s.Output())
	}
	return s, nil
}

var (
	servingLine = regexp.MustCompile(`msg="sievekv: serving" .*addr=(\S+)`)
	metricsLine = regexp.MustCompile(`msg="sievekv: serving metrics" url=https?://([^/]+)/`)
)

// keep keeps what the server prints, and sends the addresses it serves at.
func (s *Server) keep(r io.Reader, serving, metrics chan<- string) {
	defer close(s.read)
	defer close(serving)
	defer close(metrics)
	told := false
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		s.mu.Lock()
		if s.output.Len() < keptOutput {
			s.output.WriteString(line)
		}
		s.mu.Unlock()
		if found := servingLine.FindStringSubmatch(line); found != nil && !told {
			told = true
			serving <- found[1]
		}
		if found := metricsLine.FindStringSubmatch(line); found != nil {
			select {
			case metrics <- found[1]:
			default: // it is told once
			}
		}
		if err != nil {
			return
		}
	}
}

// Output returns what the server has printed.
func (s *Server) Output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.String()
}

// Stop ends the server as SIGTERM does, and returns an error unless it ends well.
func (s *Server) Stop() error {
	signaled := s.cmd.Process.Signal(syscall.SIGTERM)
	<-s.read
	if err := errors.Join(signaled, s.cmd.Wait()); err != nil {
		return fmt.Errorf("kvshell serve: %w\n%s", err, s.Output())
	}
	return nil
}

// Descriptors returns how many the server has open. It needs Linux.
func (s *Server) Descriptors() (int, error) {
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("descriptors of the server: %w\n%s", err, s.Output())
	}
	return len(names), nil
}

// HighWater returns the most resident memory that the server has had, in bytes. It needs Linux.
func (s *Server) HighWater() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("resident memory of the server: %w\n%s", err, s.Output())
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	line, _, _ := strings.Cut(rest, "kB")
	kib, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resident memory of the server: no VmHWM, which Linux has: %w\n%s", err, s.Output())
	}
	return kib << 10, nil
}
