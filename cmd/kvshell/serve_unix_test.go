//go:build unix

package main

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/serve"
	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/module/reply"
)

// served is a kvshell that serves a store.
type served struct {
	cmd   *exec.Cmd
	addrs []string // in the order in which it told them
	ended chan error

	mu   sync.Mutex
	said strings.Builder // guarded by mu
	more *sync.Cond      // of mu: there is more of said, or it has ended
	done bool            // guarded by mu
	read int             // bytes of said that nextLine has returned; guarded by mu
}

// serveStore starts kvshell serve, and waits until it listens on n addresses.
func serveStore(t *testing.T, dir string, addresses int, flags ...string) *served {
	t.Helper()
	return serveWith(t, dir, nil, addresses, flags...)
}

// TestServe_readOnly serves a store that another process reads, too.
func TestServe_readOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	run := func(words ...string) string {
		t.Helper()
		out, _ := exec.Command("kvshell", words...).CombinedOutput() // the exit code of an error is not 0
		return string(out)
	}
	run("-d", dir, "BF.ADD", "seen", "alice")
	s := serveStore(t, dir, 1, "--addr", "127.0.0.1:0", "--read-only")
	_, port, err := net.SplitHostPort(s.addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]string{
		"BF.EXISTS seen alice": "1\n", "BF.ADD seen bob": "READONLY", "INFO server": "redis_version", "CLIENT ID": "\n",
	} {
		if got := run(append([]string{"-p", port}, strings.Fields(words)...)...); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", words, got, want)
		}
	}
	if got := run("-d", dir, "--read-only", "BF.EXISTS", "seen", "alice"); got != "1\n" {
		t.Errorf("another reader gets %q", got)
	}
	run("-p", port, "SHUTDOWN")
	if err := <-s.ended; err != nil {
		t.Error(err, s.output())
	}
}

// serveWith is serveStore with more in the environment.
func serveWith(t *testing.T, dir string, environment []string, addresses int, flags ...string) *served {
	t.Helper()
	s := &served{cmd: exec.Command("kvshell", append([]string{"-d", dir, "serve"}, flags...)...), ended: make(chan error, 1)}
	s.more = sync.NewCond(&s.mu)
	s.cmd.Env = append(os.Environ(), environment...)
	if _, err := s.cmd.StdinPipe(); err != nil { // which ends with this process
		t.Fatal(err)
	}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() }) // it has ended, unless the test failed
	lines := bufio.NewScanner(stderr)
	for len(s.addrs) < addresses && lines.Scan() {
		if addr := servedAt(lines.Text()); addr != "" {
			s.addrs = append(s.addrs, addr)
		} else if !isBeginning(lines.Text()) {
			t.Errorf("kvshell serve says %q", lines.Text())
		}
	}
	if len(s.addrs) < addresses {
		t.Fatalf("kvshell serve ended: %v", s.cmd.Wait())
	}
	go func() {
		for lines.Scan() { // until it ends
			s.say(lines.Text(), false)
		}
		s.say("", true)
		s.ended <- s.cmd.Wait()
	}()
	return s
}

// These are in lines that a server says before it serves.
const (
	createdStore = `level=INFO msg="sievekv: created store" dir=`
	runsAsRoot   = `level=WARN msg="running as root: `
	notClosed    = `level=INFO msg="sievekv: the store was not closed; `
	inGroup      = `level=INFO msg="sievekv: the role of the member has changed" `
)

// isBeginning reports whether a line is one that a server may say before it serves.
func isBeginning(line string) bool {
	return slices.ContainsFunc([]string{createdStore, runsAsRoot, notClosed, inGroup}, func(text string) bool { return strings.Contains(line, text) })
}

var servingLine = regexp.MustCompile(`level=INFO msg="sievekv: serving(?: metrics| the dashboard)?".* (?:addr|url)=(\S+)$`)

// servedAt returns the address of a line that says that it is served now, "" of another line.
func servedAt(line string) string {
	if found := servingLine.FindStringSubmatch(line); found != nil {
		return found[1]
	}
	return ""
}

func (s *served) say(line string, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said.WriteString(line + "\n")
	s.done = done
	s.more.Broadcast()
}

// output returns what it has said since it serves.
func (s *served) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.String()
}

// nextLine waits for the next line that it says since it serves. It is not ok if it ended before.
func (s *served) nextLine() (line string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		line, _, whole := strings.Cut(s.said.String()[s.read:], "\n")
		if whole && (line != "" || !s.done) {
			s.read += len(line) + 1
			return line, true
		}
		if s.done {
			return "", false
		}
		s.more.Wait()
	}
}

// says waits until it has said something.
func (s *served) says(t *testing.T, text string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !strings.Contains(s.said.String(), text) {
		if s.done {
			t.Fatalf("the server ended, and did not say %q but\n%s", text, s.said.String())
		}
		s.more.Wait()
	}
}

// stop ends it by a signal, and checks that it ended well.
func (s *served) stop(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	if err := <-s.ended; err != nil {
		t.Errorf("kvshell serve ended by %v: %v, want exit code 0", signal, err)
	}
}

// ask sends commands on one connection and returns the replies as they are shown.
func ask(t *testing.T, c net.Conn, lines ...string) (replies []string) {
	t.Helper()
	in := resp.NewReader(c)
	for _, line := range lines {
		words, err := resp.Split([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(resp.AppendCommand(nil, words)); err != nil {
			t.Fatal(err)
		}
		r, err := in.Read()
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		replies = append(replies, strings.TrimSpace(string(reply.AppendText(nil, r))))
	}
	return replies
}

func dial(t *testing.T, network, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the server may have closed it
	return c
}

// What clients wrote is there after SIGTERM and after Ctrl-C, which both end the server well.
func TestServe_signals(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		s := serveStore(t, dir, 1, "--addr", "127.0.0.1:0")
		got := ask(t, dial(t, "tcp", s.addrs[0]), "BF.ADD seen "+signal.String(), "INCR starts")
		if got[0] != "(integer) 1" {
			t.Errorf("BF.ADD answers %s", got[0])
		}
		s.stop(t, signal)
	}
	out, err := exec.Command("kvshell", "-d", dir, "BF.MEXISTS", "seen", "interrupt", "terminated", "x").Output()
	if err != nil || string(out) != "1\n1\n0\n" {
		t.Errorf("BF.MEXISTS answers %q, %v", out, err)
	}
	if out, err := exec.Command("kvshell", "-d", dir, "GET", "starts").Output(); err != nil || string(out) != "2\n" {
		t.Errorf("GET answers %q, %v", out, err)
	}
	if _, err := os.Stat(filepath.Join(dir, serve.AddressFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the address is left in the store's directory: %v", err)
	}
}

// A user who finds the store in use is told how to connect, and can do so from another directory, too.
func TestServe_locked(t *testing.T) {
	for _, tt := range []struct {
		name  string
		flags func(t *testing.T) (serve, connect []string)
	}{
		{"TCP", func(*testing.T) (serve, connect []string) { return []string{"--addr", "127.0.0.1:0"}, nil }},
		{"socket", func(t *testing.T) (serve, connect []string) {
			t.Chdir(t.TempDir()) // of the server too
			return []string{"--addr", "", "--unixsocket", "s"}, nil
		}},
		{"TLS", func(t *testing.T) (serve, connect []string) {
			cert, key, _ := selfSigned(t, t.TempDir())
			return []string{"--addr", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key}, []string{"--cacert", cert}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			serve, connect := tt.flags(t)
			s := serveStore(t, dir, 1, serve...)
			t.Chdir(t.TempDir())
			var stderr bytes.Buffer
			cmd := exec.Command("kvshell", "-d", dir, "PING")
			cmd.Stderr = &stderr
			var failed *exec.ExitError
			if err := cmd.Run(); !errors.As(err, &failed) || failed.ExitCode() != exit.Locked {
				t.Fatalf("%v, want exit code %d", err, exit.Locked)
			}
			_, how, found := strings.Cut(strings.TrimSpace(stderr.String()), "connect to it by kvshell ")
			if !found {
				t.Fatalf("standard error says %q", stderr.String())
			}
			out, err := exec.Command("kvshell", append(append(strings.Fields(how), connect...), "PING")...).Output()
			if err != nil || string(out) != "PONG\n" {
				t.Errorf("kvshell %s PING: %q, %v", how, out, err)
			}
			s.stop(t, syscall.SIGTERM)
		})
	}
}

func TestServe_shutdown(t *testing.T) {
	s := serveStore(t, filepath.Join(t.TempDir(), "store"), 1, "--addr", "127.0.0.1:0")
	c := dial(t, "tcp", s.addrs[0])
	if _, err := c.Write([]byte("SET k v\r\nSHUTDOWN\r\n")); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || string(got) != "+OK\r\n" {
		t.Errorf("SET and SHUTDOWN answer %q, %v", got, err)
	}
	if err := <-s.ended; err != nil {
		t.Errorf("after SHUTDOWN: %v", err)
	}
}

func TestServe_password(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "password")
	if err := os.WriteFile(file, []byte("open sesame\r\nnot this\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveStore(t, filepath.Join(dir, "store"), 1, "--addr", "127.0.0.1:0", "--requirepass-file", file)
	got := ask(t, dial(t, "tcp", s.addrs[0]), "PING", "AUTH wrong", `AUTH "open sesame"`, "PING")
	want := []string{
		"(error) NOAUTH Authentication required.", "(error) WRONGPASS invalid username-password pair or user is disabled.", "OK", "PONG",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
	s.stop(t, syscall.SIGTERM)
}

// The log has logins and administrators' commands, and every line has the time.
func TestServe_audit(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "password")
	if err := os.WriteFile(file, []byte("\xef\xbb\xbfsecret\r\n"), 0o600); err != nil { // as editors on Windows write it
		t.Fatal(err)
	}
	s := serveStore(t, filepath.Join(dir, "store"), 1, "--addr", "127.0.0.1:0", "--requirepass-file", file)
	ask(t, dial(t, "tcp", s.addrs[0]), "AUTH wrong", "AUTH secret", "CONFIG SET timeout 7")
	s.stop(t, syscall.SIGTERM)
	logged := regexp.MustCompile(`^time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d) level=[A-Z]+ msg="[^"]+"`)
	for line := range strings.Lines(strings.TrimSpace(s.output())) {
		if !logged.MatchString(line) {
			t.Errorf("it says %q, want the time first", line)
		}
	}
	for _, line := range []string{
		`level=WARN msg="sievekv: wrong password" user=default client=127.0.0.1:`, `level=INFO msg="sievekv: login" user=default client=127.0.0.1:`,
		`level=INFO msg="sievekv: admin command" user=default client=127.0.0.1:`,
	} {
		if !strings.Contains(s.output(), line) {
			t.Errorf("it says nothing of %s:\n%s", line, s.output())
		}
	}
}

// An ACL file that can be read only once, such as a pipe, is read once: a second time it would be empty, and
// everybody would be let in.
func TestServe_aclPipe(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(write, "user default off\nuser root on >secret ~* +@all\n"); err != nil {
		t.Fatal(err)
	}
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("kvshell", "-d", filepath.Join(t.TempDir(), "store"), "serve", "--addr", "127.0.0.1:0", "--acl-file", "/dev/fd/3")
	cmd.ExtraFiles = []*os.File{read}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, unless the test failed
	_ = read.Close()                             // it is the process's
	addr := ""
	for lines := bufio.NewScanner(stderr); addr == "" && lines.Scan(); {
		addr = servedAt(lines.Text())
	}
	if addr == "" {
		t.Fatalf("kvshell serve ended: %v", cmd.Wait())
	}
	got := ask(t, dial(t, "tcp", addr), "PING", "AUTH root secret", "PING")
	if want := []string{"(error) NOAUTH Authentication required.", "OK", "PONG"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, stderr); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// A socket is for its user alone. The socket of a server that was killed is replaced; a running server's is not.
func TestServe_socket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	first := serveStore(t, filepath.Join(dir, "a"), 1, "--addr", "", "--unixsocket", path)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v, want mode 0600", info.Mode(), err)
	}
	if got := ask(t, dial(t, "unix", path), "PING"); got[0] != "PONG" {
		t.Errorf("PING answers %s", got[0])
	}
	var stderr bytes.Buffer
	second := exec.Command("kvshell", "-d", filepath.Join(dir, "b"), "serve", "--addr", "", "--unixsocket", path)
	second.Stderr = &stderr
	if err := second.Run(); err == nil || !strings.Contains(stderr.String(), "another process listens on it") {
		t.Errorf("a second server on the socket: %v, %s", err, &stderr)
	}
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-first.ended
	third := serveStore(t, filepath.Join(dir, "a"), 1, "--addr", "", "--unixsocket", path)
	if got := ask(t, dial(t, "unix", path), "PING"); got[0] != "PONG" {
		t.Errorf("PING answers %s", got[0])
	}
	third.stop(t, syscall.SIGTERM)
}

// Others may use a socket with the mode for them, whatever the umask.
func TestServe_socketMode(t *testing.T) {
	dir := t.TempDir()
	for _, mode := range []fs.FileMode{0o660, 0o666} {
		path := filepath.Join(dir, fmt.Sprintf("%o", mode))
		s := serveStore(t, path+"-store", 1, "--addr", "", "--unixsocket", path, "--unixsocketperm", fmt.Sprintf("%o", mode))
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%v, %v, want mode %o", info.Mode(), err, mode)
		}
		s.stop(t, syscall.SIGTERM)
	}
}

// A client sends the first line of a file as its password.
func TestServe_passFile(t *testing.T) {
	dir := t.TempDir()
	file, socket := filepath.Join(dir, "password"), filepath.Join(dir, "s")
	for path, content := range map[string]string{file: "\ufeffsecret words\r\nmore", filepath.Join(dir, "empty"): "\nmore"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := serveStore(t, filepath.Join(dir, "store"), 1, "--addr", "", "--unixsocket", socket, "--requirepass-file", file)
	for _, tt := range []struct {
		want string
		args []string
	}{
		{"PONG\n", []string{"--pass-file", file}},
		{"NOAUTH Authentication required.\n", nil},
		{"its first line, the password, is empty", []string{"--pass-file", filepath.Join(dir, "empty")}},
		{"no such file", []string{"--pass-file", filepath.Join(dir, "missing")}},
		{"give only one", []string{"--pass-file", file, "-a", "secret words"}},
	} {
		output, _ := exec.Command("kvshell", append(append([]string{"-s", socket}, tt.args...), "PING")...).CombinedOutput()
		if !strings.Contains(string(output), tt.want) {
			t.Errorf("%q: %s, want %s", tt.args, output, tt.want)
		}
	}
	s.stop(t, syscall.SIGTERM)
}

func TestServe_metrics(t *testing.T) {
	s := serveStore(t, filepath.Join(t.TempDir(), "store"), 2, "--addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0")
	ask(t, dial(t, "tcp", s.addrs[0]), "BF.ADD seen x", "BF.ADD seen x", "NOSUCH")
	text := fetch(t, s.addrs[1])
	for _, line := range []string{
		"sievekv_up 1\n", `sievekv_command_duration_seconds_count{command="bf.add"} 2` + "\n", "sievekv_keys 1\n",
		"sievekv_unknown_commands_total 1\n", `sievekv_level_tables{level="6"} `, "sievekv_watermark_lag 0\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("the metrics have no %q:\n%s", line, text)
		}
	}
	base := strings.TrimSuffix(s.addrs[1], "/metrics")
	for _, path := range []string{"/healthz", "/readyz"} {
		if got := fetch(t, base+path); got != "ok\n" {
			t.Errorf("%s answers %q", path, got)
		}
	}
	s.stop(t, syscall.SIGTERM)
}

// The dashboard is served at an address of its own, and ends with the server.
func TestServe_dashboard(t *testing.T) {
	s := serveStore(t, filepath.Join(t.TempDir(), "store"), 2, "--addr", "127.0.0.1:0", "--ui-addr", "127.0.0.1:0")
	ui, clients := s.addrs[0], s.addrs[1]
	ask(t, dial(t, "tcp", clients), "BF.RESERVE seen 0.01 1000", "BF.ADD seen alice", "NOSUCH")
	for path, want := range map[string]string{
		"filter?name=seen&item=alice": "Yes, it may be in the filter.", "": "Commands a second", "busy": "bf.add", "plan": "BF.RESERVE seen 0.01 1000000",
		"static/page.js": "data-live", "static/style.css": "prefers-color-scheme",
	} {
		if text := fetch(t, ui+path); !strings.Contains(text, want) {
			t.Errorf("%s lacks %q: %s", path, want, text)
		}
	}
	s.stop(t, syscall.SIGTERM)
}

// While clients are given the time to end, /readyz says that the server does.
func TestServe_draining(t *testing.T) {
	s := serveStore(t, filepath.Join(t.TempDir(), "store"), 2, "--addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0")
	const size, times = 1 << 20, 64 // more than sockets hold
	ask(t, dial(t, "tcp", s.addrs[0]), "SET k "+strings.Repeat("v", size))
	client := bufio.NewReader(slowClient(t, s.addrs[0], times))
	if _, err := client.Peek(1); err != nil { // the server is at it
		t.Fatal(err)
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ready := strings.TrimSuffix(s.addrs[1], "/metrics") + "/readyz"
	for {
		r, err := http.Get(ready)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		_ = r.Body.Close() // read to its end
		if err != nil {
			t.Fatal(err)
		}
		if r.StatusCode == http.StatusOK {
			continue // the signal is on its way
		}
		if r.StatusCode != http.StatusServiceUnavailable || string(text) != "server: closed\n" {
			t.Errorf("%s answers %s, %q", ready, r.Status, text)
		}
		break
	}
	want := times * len(resp.Append(nil, reply.Bulk(make([]byte, size)), 2))
	read := int64(0)
	for more := true; more; {
		if read < int64(want)/2 { // the server has to wait for the client
			if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil { // which changes nothing any more
				t.Fatal(err)
			}
		}
		n, err := io.CopyN(io.Discard, client, size)
		if read += n; err != nil && err != io.EOF {
			t.Error(err)
		}
		more = err == nil
	}
	if read != int64(want) {
		t.Errorf("the client reads %d bytes, want %d", read, want)
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// slowClient asks for k many times at once.
func slowClient(t *testing.T, addr string, times int) net.Conn {
	c := dial(t, "tcp", addr)
	if _, err := io.WriteString(c, strings.Repeat("GET k\r\n", times)); err != nil {
		t.Fatal(err)
	}
	return c
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }() // read to its end
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, r.Status, err)
	}
	return string(text)
}

func TestServe_tls(t *testing.T) {
	dir := t.TempDir()
	cert, key, pool := selfSigned(t, dir)
	s := serveStore(t, filepath.Join(dir, "store"), 1, "--addr", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
	c, err := tls.Dial("tcp", s.addrs[0], &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // the server may have closed it
	if got := ask(t, c, "PING"); got[0] != "PONG" {
		t.Errorf("PING answers %s", got[0])
	}
	plain := dial(t, "tcp", s.addrs[0])
	if _, err := plain.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(plain); bytes.Contains(got, []byte("PONG")) {
		t.Errorf("without TLS, PING answers %q", got)
	}
	s.stop(t, syscall.SIGTERM)
}

// selfSigned writes a certificate for 127.0.0.1, and its key.
func selfSigned(t *testing.T, dir string) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return cert, key, pool
}

// Errors of the command line, and of files that it names, end the program before it makes a store or serves anything.
func TestServe_usage(t *testing.T) {
	dir := t.TempDir()
	here := filepath.Join(dir, "store")
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	empty, long := file("empty", "\n"), file("long", strings.Repeat("p", 2049)+"\n")
	users, junk := file("users.acl", "user u on +nosuch\nuser v\nnonsense\n"), file("junk", "-----BEGIN nonsense")
	nosuch := filepath.Join(dir, "nosuch")
	cert, key, _ := selfSigned(t, dir)
	otherDir := filepath.Join(dir, "other")
	if err := os.Mkdir(otherDir, 0o700); err != nil {
		t.Fatal(err)
	}
	_, otherKey, _ := selfSigned(t, otherDir)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }() // nobody connects
	for _, tt := range []struct {
		code  int
		says  string
		flags []string
	}{
		{exit.Usage, `--addr "" leaves no address`, []string{"--addr", ""}},
		{exit.Usage, `serve: -p 7000 is for clients of a server: --addr HOST:PORT`, []string{"--port", "7000"}},
		{exit.Open, `there is a file of this name that is no socket`, []string{"--addr", "", "--unixsocket", empty}},
		{exit.Local, "serve: --requirepass-file " + empty + ": its first line, the password, is empty", []string{"--requirepass-file", empty}},
		{exit.Local, "serve: --requirepass-file " + long + ": the password has 2049 bytes, at most 2048", []string{"--requirepass-file", long}},
		{exit.Local, "serve: --requirepass-file " + nosuch + ": no such file or directory", []string{"--requirepass-file", nosuch}},
		{exit.Local, "serve: --metrics-password-file " + nosuch + ": no such file or directory", []string{"--metrics-password-file", nosuch}},
		{exit.Local, "serve: --acl-file " + nosuch + ": no such file or directory", []string{"--acl-file", nosuch}},
		{exit.Local, "serve: --acl-file " + dir + ": is a directory", []string{"--acl-file", dir}},
		{exit.Local, "serve: --acl-file " + users + ":1: rule 2: Unknown command or category name in ACL", []string{"--acl-file", users}},
		{exit.Local, users + ":3: line should start with user", []string{"--acl-file", users}},
		{exit.Usage, "must be NAME=VALUE", []string{"--set", "maxclients"}},
		{exit.Usage, "argument must be between 1 and", []string{"--set", "maxclients=0"}},
		{exit.Usage, "there is no such setting", []string{"--set", "nosuch=1"}},
		{exit.Usage, "tls-key", []string{"--tls-cert", "x"}},
		{exit.Usage, "--unixsocketperm 660 is for --unixsocket", []string{"--unixsocketperm", "660"}},
		{exit.Usage, "must be 600, 660 or 666", []string{"--unixsocket", filepath.Join(dir, "s"), "--unixsocketperm", "777"}},
		{exit.Usage, "--tls-cert is for --addr", []string{"--addr", "", "--unixsocket", filepath.Join(dir, "s"), "--tls-cert", "x", "--tls-key", "x"}},
		{exit.Local, "serve: --tls-cert " + nosuch + ": no such file or directory", []string{"--tls-cert", nosuch, "--tls-key", key}},
		{exit.Local, "serve: --tls-key " + nosuch + ": no such file or directory", []string{"--tls-cert", cert, "--tls-key", nosuch}},
		{exit.Local, "serve: --tls-cert " + cert + ", --tls-key " + otherKey + ": tls: private key does not match public key",
			[]string{"--tls-cert", cert, "--tls-key", otherKey}},
		{exit.Local, "serve: --metrics-tls-cert " + nosuch + ": no such file or directory",
			[]string{"--metrics-addr", "127.0.0.1:0", "--metrics-tls-cert", nosuch, "--metrics-tls-key", key}},
		{exit.Local, "serve: --metrics-tls-client-ca " + junk + ": ",
			[]string{"--metrics-addr", "127.0.0.1:0", "--metrics-tls-cert", cert, "--metrics-tls-key", key, "--metrics-tls-client-ca", junk}},
		{exit.Usage, "--metrics-tls-cert is for --metrics-addr, which is not given", []string{"--metrics-tls-cert", cert, "--metrics-tls-key", key}},
		{exit.Usage, "--tls-client-auth needs --tls-client-ca", []string{"--tls-cert", cert, "--tls-key", key, "--tls-client-auth", "optional"}},
		{exit.Usage, "must be required or optional", []string{"--tls-client-auth", "perhaps"}},
		{exit.Usage, "--tls-client-ca needs --tls-cert", []string{"--tls-client-ca", cert}},
		{exit.Usage, "--peer-listen is for --cluster, which is not given", []string{"--peer-listen", "127.0.0.1:0"}},
		{exit.Usage, "serve: --peer-listen nowhere: must be HOST:PORT", []string{"--cluster", "start", "--peer-listen", "nowhere"}},
		{exit.Local, "serve: --peer-listen: listen tcp", []string{"--cluster", "init", "--addr", "127.0.0.1:0", "--peer-addr", "127.0.0.1:1", "--peer-listen", taken.Addr().String()}},
		{exit.Usage, "usage: kvshell serve", []string{"x"}},
	} {
		says, code := refused(t, here, tt.flags...)
		if code != tt.code || !strings.Contains(says, tt.says) || strings.Contains(says, "Options") {
			t.Errorf("serve %q: exit code %d, %s\nwant %d and %q", tt.flags, code, says, tt.code, tt.says)
		}
		if _, err := os.Stat(here); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("serve %q has made a store", tt.flags)
		}
	}
	// The same is true of an address that is in use, whether or not the store exists.
	socket := filepath.Join(dir, "s")
	for _, there := range []bool{false, true} {
		for _, flags := range [][]string{
			{"--addr", taken.Addr().String()}, {"--addr", "127.0.0.1:0", "--metrics-addr", taken.Addr().String()},
			{"--addr", taken.Addr().String(), "--unixsocket", socket}, {"--addr", "", "--unixsocket", socket, "--metrics-addr", taken.Addr().String()},
		} {
			if says, code := refused(t, here, flags...); code != exit.Open || !strings.Contains(says, "address already in use") {
				t.Errorf("serve %q: exit code %d, %s", flags, code, says)
			}
			if _, err := os.Stat(here); errors.Is(err, os.ErrNotExist) == there {
				t.Fatalf("after serve %q the store is %v", flags, err)
			}
			for _, left := range []string{filepath.Join(here, serve.AddressFile), socket} {
				if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("serve %q leaves %s", flags, left)
				}
			}
		}
		if out, err := exec.Command("kvshell", "-d", here, "SET", "k", "v").CombinedOutput(); err != nil {
			t.Fatalf("%v, %s", err, out)
		}
	}
}

// refused runs a serve that must not serve, and returns what it says and its exit code.
func refused(t *testing.T, dir string, flags ...string) (says string, code int) {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command("kvshell", append([]string{"-d", dir, "serve"}, flags...)...)
	cmd.Stderr = &stderr
	var failed *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &failed) {
		t.Errorf("serve %q: %v", flags, err)
		return stderr.String(), 0
	}
	return stderr.String(), failed.ExitCode()
}
