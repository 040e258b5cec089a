//go:build unix

package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// processes are the members of a group, each a process with a directory and addresses of its own.
type processes struct {
	t       *testing.T
	dir     string
	names   []string
	clients map[string]string
	peers   map[string]string
	running map[string]*process
}

type process struct {
	cmd   *exec.Cmd
	said  bytes.Buffer
	ended chan error
}

// newProcesses starts a group of three.
func newProcesses(t *testing.T) *processes {
	t.Helper()
	g := &processes{t: t, dir: t.TempDir(), names: []string{"a", "b", "c"}, clients: map[string]string{}, peers: map[string]string{}, running: map[string]*process{}}
	t.Cleanup(func() {
		for name := range g.running {
			g.end(name, syscall.SIGKILL)
		}
	})
	for _, name := range g.names {
		g.clients[name], g.peers[name] = g.address(), g.address()
	}
	g.start("a", g.of("a"), "init", "--node", "a", "--peer-addr", g.peers["a"])
	for _, name := range g.names[1:] {
		g.start(name, g.of(name), "join", "--token-file", g.token("token", name, g.peers[name], g.clients[name]))
	}
	g.allVote()
	return g
}

// address returns one at which nobody listens.
func (g *processes) address() string {
	g.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		g.t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// of returns the directory of a member.
func (g *processes) of(name string) string { return filepath.Join(g.dir, name) }

func (g *processes) command(name, dir string, how ...string) *process {
	p := &process{ended: make(chan error, 1)}
	p.cmd = exec.Command("kvshell", append([]string{"-d", dir, "--cache", "4MiB", "--memtable", "1MiB", "serve", "--addr", g.clients[name], "--cluster"}, how...)...)
	p.cmd.Stderr = &p.said
	return p
}

// start starts a member, and returns when clients can reach it.
func (g *processes) start(name, dir string, how ...string) {
	g.t.Helper()
	p := g.command(name, dir, how...)
	if err := p.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.running[name] = p
	go func() { p.ended <- p.cmd.Wait() }()
	g.await(name+" serves", func() bool {
		select {
		case err := <-p.ended:
			delete(g.running, name)
			g.t.Fatalf("%s has ended: %v\n%s", name, err, p.said.String())
		default:
		}
		c, err := net.Dial("tcp", g.clients[name])
		return err == nil && c.Close() == nil
	})
}

// end ends a member by a signal, and returns what it has said.
func (g *processes) end(name string, signal syscall.Signal) string {
	g.t.Helper()
	p := g.running[name]
	delete(g.running, name)
	if err := p.cmd.Process.Signal(signal); err != nil {
		g.t.Error(err)
	}
	<-p.ended
	return p.said.String()
}

// await waits until something is so.
func (g *processes) await(what string, is func() bool) {
	g.t.Helper()
	for end := time.Now().Add(4 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			for _, p := range g.running {
				if err := p.cmd.Process.Kill(); err != nil {
					g.t.Error(err)
				}
				p.ended <- <-p.ended
				g.t.Log(p.said.String())
			}
			g.t.Fatalf("%s: not yet", what)
		}
	}
}

// ask runs kvshell for the server of a member.
func (g *processes) ask(name string, words ...string) (string, error) {
	host, port, _ := net.SplitHostPort(g.clients[name])
	out, err := exec.Command("kvshell", append([]string{"-h", host, "-p", port}, words...)...).CombinedOutput()
	return string(out), err
}

// anywhere asks the members until one answers as a leader does.
func (g *processes) anywhere(words ...string) (out string) {
	g.t.Helper()
	last := ""
	g.await(strings.Join(words, " "), func() bool {
		for name := range g.running {
			answer, err := g.ask(name, words...)
			if err == nil && !strings.Contains(answer, "MOVED") && !strings.Contains(answer, "CLUSTERDOWN") && !strings.Contains(answer, "UNKNOWN") {
				out = answer
				return true
			}
			if answer != last {
				g.t.Logf("%s: %s: %s", strings.Join(words, " "), name, answer)
				last = answer
			}
		}
		return false
	})
	return out
}

// token has the group make a token, and returns the file that has it. How is token or rejoin.
func (g *processes) token(how string, words ...string) string {
	g.t.Helper()
	file := filepath.Join(g.t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(g.anywhere(append([]string{"cluster", how}, words...)...)), 0o600); err != nil {
		g.t.Fatal(err)
	}
	return file
}

// allVote waits until all members vote, and one leads.
func (g *processes) allVote() {
	g.t.Helper()
	g.await("all vote", func() bool {
		for name := range g.running {
			out, err := g.ask(name, "cluster", "status")
			_, members, _ := strings.Cut(out, "\n\n")
			if err == nil && strings.Contains(members, "role     leader") && strings.Count(members, "role ") == len(g.names) && !strings.Contains(members, "learner") {
				return true
			}
		}
		return false
	})
}

// refuses expects a member not to start in a directory, and to say why.
func (g *processes) refuses(what, name, dir, want string, how ...string) {
	g.t.Helper()
	p := g.command(name, dir, how...)
	if err := p.cmd.Run(); err == nil || !strings.Contains(p.said.String(), want) || strings.Contains(p.said.String(), "goroutine ") {
		g.t.Errorf("%s: %v\n%s\nwant %q", what, err, p.said.String(), want)
	}
}

// A member that has lost its log is replaced by two commands. When a majority is lost, what is left goes on by a third.
func TestCluster_heal(t *testing.T) {
	g := newProcesses(t)
	g.anywhere("SET", "key", "value")
	g.end("b", syscall.SIGKILL)
	if err := os.RemoveAll(filepath.Join(g.of("b"), "raft")); err != nil {
		t.Fatal(err)
	}
	g.refuses("without its log", "b", g.of("b"), "the log of the group, directory raft, is gone", "start")
	g.await("b is missed", func() bool {
		for name := range g.running {
			if out, _ := g.ask(name, "cluster", "status"); strings.Contains(out, "healthy  no") {
				return true
			}
		}
		return false
	})
	token := g.token("rejoin", "b")
	g.refuses("the directory of a member that the group has", "b", g.of("c"), "which the group still has", "rejoin", "--token-file", token)
	g.start("b", g.of("b"), "rejoin", "--token-file", token)
	g.allVote()
	if aside, err := filepath.Glob(filepath.Join(g.of("b"), "replaced-*", "MEMBER")); err != nil || len(aside) != 1 {
		t.Errorf("moved aside: %q %v", aside, err)
	}
	g.end("b", syscall.SIGTERM)
	g.start("b", g.of("b"), "start")
	g.anywhere("SET", "key", "value")
	// Two of three are lost.
	g.end("a", syscall.SIGKILL)
	g.end("c", syscall.SIGKILL)
	force := func(words ...string) (string, error) {
		out, err := exec.Command("kvshell", append([]string{"cluster", "force"}, words...)...).CombinedOutput()
		return string(out), err
	}
	if out, err := force(g.of("b"), "--from", g.of("b"), "--yes"); err == nil || !strings.Contains(out, "runs: end it first") {
		t.Errorf("while it runs: %v\n%s", err, out)
	}
	g.end("b", syscall.SIGKILL)
	if out, err := force(g.of("b"), "--from", g.of("b")); err == nil || !strings.Contains(out, "one needs the other") {
		t.Errorf("without --yes: %v\n%s", err, out)
	}
	out, err := force(g.of("b"), g.of("c"))
	if err != nil || strings.Count(out, "nothing: no history is longer") != 1 || !strings.Contains(out, "the longest history is that of ") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := force(g.of("b"), "--from", g.of("b"), "--yes"); err != nil || !strings.Contains(out, "is the only member of the new group") {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := force(g.of("b"), g.of("c")); err == nil || !strings.Contains(out, "and "+g.of("c")+" of group") {
		t.Errorf("members of two groups: %v\n%s", err, out)
	}
	g.start("b", g.of("b"), "start")
	if got := g.anywhere("GET", "key"); !strings.Contains(got, "value") {
		t.Errorf("the key is %q", got)
	}
}
