package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Group is a group of stores on this machine, each served by a process of its own.
type Group struct {
	Members []*Member

	program *Program
	dir     string
	flags   []string
}

// Member is one of them. One goroutine uses it.
type Member struct {
	Name, Addr string // Addr is where clients reach it

	g    *Group
	peer string
	cmd  *exec.Cmd // nil while it does not run
}

// hang is how long something may take that takes seconds at most. Then it does not end.
const hang = 4 * time.Minute

// StartGroup starts a group of some members with new stores below a directory, with flags of kvshell serve besides. It returns when all
// vote.
func (p *Program) StartGroup(dir string, members int, flags ...string) (*Group, error) {
	g := &Group{program: p, dir: dir, flags: flags}
	host := "127.0.0.1"
	if runtime.GOOS == "linux" { // all of 127.0.0.0/8 is this machine: ports that are free here stay free
		host = fmt.Sprintf("127.%d.%d.%d", 1+rand.N(254), 1+rand.N(254), 1+rand.N(254))
	}
	for i := range members {
		m := &Member{g: g, Name: string(rune('a' + i))}
		err := errors.Join(m.findAddresses(host), g.begin(m))
		if g.Members = append(g.Members, m); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	if err := g.Settle(); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// findAddresses finds two at which nobody listens.
func (m *Member) findAddresses(host string) error {
	for _, addr := range []*string{&m.Addr, &m.peer} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return err
		}
		defer func() { _ = l.Close() }() // nobody has connected
		*addr = l.Addr().String()
	}
	return nil
}

// begin starts a new member.
func (g *Group) begin(m *Member) error {
	if len(g.Members) == 0 {
		return m.start("init", "--node", m.Name, "--peer-addr", m.peer)
	}
	l, err := g.Leader()
	if err != nil {
		return err
	}
	token, err := Ask(l.Addr, "SIEVE.CLUSTER", "TOKEN", m.Name, m.peer, m.Addr)
	if err != nil {
		return err
	}
	file := filepath.Join(g.dir, m.Name+".token")
	if err := os.WriteFile(file, []byte(fmt.Sprint(token)), 0o600); err != nil {
		return err
	}
	return m.start("join", "--token-file", file)
}

// Start starts a member that was ended or killed. It returns when it takes connections.
func (m *Member) Start() error { return m.start("start") }

func (m *Member) start(how string, flags ...string) error {
	log, err := os.OpenFile(m.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own
	args := append([]string{"-d", m.Dir(), "serve", "--addr", m.Addr, "--cluster", how}, flags...)
	cmd := exec.Command(m.g.program.Path(), append(args, m.g.flags...)...)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return err
	}
	m.cmd = cmd
	return await(m.Name+" takes connections", func() bool {
		c, err := net.Dial("tcp", m.Addr)
		return err == nil && c.Close() == nil
	})
}

// Dir is the member's directory.
func (m *Member) Dir() string { return filepath.Join(m.g.dir, m.Name) }

// Log is a file with what the member has printed.
func (m *Member) Log() string { return m.Dir() + ".log" }

// Kill ends a member by kill -9.
func (m *Member) Kill() error {
	err := m.cmd.Process.Kill()
	_ = m.cmd.Wait() // it says that it was killed
	m.cmd = nil
	return err
}

// End ends a member by SIGTERM.
func (m *Member) End() error {
	err := errors.Join(m.cmd.Process.Signal(syscall.SIGTERM), m.cmd.Wait())
	m.cmd = nil
	if err != nil {
		err = fmt.Errorf("member %s does not end well: %w, see %s", m.Name, err, m.Log())
	}
	return err
}

// Close kills the members.
func (g *Group) Close() (err error) {
	for _, m := range g.Members {
		if m.cmd != nil {
			err = errors.Join(err, m.Kill())
		}
	}
	return err
}

// Leader waits for a member that takes writes.
func (g *Group) Leader() (leader *Member, err error) {
	err = await("somebody leads", func() bool {
		i := slices.IndexFunc(g.Members, (*Member).leads)
		if i >= 0 {
			leader = g.Members[i]
		}
		return i >= 0
	})
	return leader, err
}

// leads reports whether a member says that it leads. One that was cut off may believe that.
func (m *Member) leads() bool {
	reply, err := Ask(m.Addr, "ROLE")
	role, _ := reply.([]any)
	return m.cmd != nil && err == nil && len(role) > 0 && role[0] == "master"
}

// Others returns the members besides one.
func (g *Group) Others(m *Member) []*Member {
	return slices.DeleteFunc(slices.Clone(g.Members), func(other *Member) bool { return other == m })
}

// Transfer has a member lead. It has tried once: another may lead afterwards.
func (g *Group) Transfer(to *Member) error {
	l, err := g.Leader()
	if err != nil || l == to {
		return err
	}
	_, err = Ask(l.Addr, "SIEVE.CLUSTER", "TRANSFER", to.Name)
	return err
}

// Settle waits until all members vote, and the leader hears of them.
func (g *Group) Settle() error {
	return await("all members vote", func() bool {
		l, err := g.Leader()
		if err != nil {
			return false
		}
		s, err := l.Status()
		members, _ := s["members"].([]any)
		for _, one := range members {
			if m := fields(one); m["role"] == "learner" || m["healthy"] != "yes" {
				return false
			}
		}
		return err == nil && len(members) == len(g.Members)
	})
}

// Status returns what SIEVE.CLUSTER STATUS answers.
func (m *Member) Status() (map[string]any, error) {
	reply, err := Ask(m.Addr, "SIEVE.CLUSTER", "STATUS")
	return fields(reply), err
}

// fields makes a map of the names and values of a list.
func fields(reply any) map[string]any {
	list, _ := reply.([]any)
	m := make(map[string]any)
	for pair := range slices.Chunk(list, 2) {
		m[fmt.Sprint(pair[0])] = pair[len(pair)-1]
	}
	return m
}

func await(what string, is func() bool) error {
	for begin := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > hang {
			return fmt.Errorf("waited for %v: %s", hang, what)
		}
	}
	return nil
}

// Ask sends a command to a server, and returns the reply: a string, an int64, nil, or a list of those. A reply that is an error is an error.
func Ask(addr string, words ...string) (reply any, err error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }() // all is read
	if err := c.SetDeadline(time.Now().Add(hang)); err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := io.WriteString(c, b.String()); err != nil {
		return nil, err
	}
	return readReply(bufio.NewReader(c))
}

// readReply reads a reply of version 2 of the protocol.
func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil || len(line) < 3 {
		return nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	kind, text := line[0], strings.TrimSpace(line[1:])
	switch kind {
	case '+':
		return text, nil
	case '-':
		return nil, errors.New(text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || kind == ':' {
		return n, err
	}
	if n < 0 {
		return nil, nil
	}
	if kind == '$' {
		value := make([]byte, n+2)
		_, err := io.ReadFull(r, value)
		return string(value[:n]), err
	}
	list := make([]any, n)
	for i := range list {
		if list[i], err = readReply(r); err != nil {
			return nil, err
		}
	}
	return list, nil
}
