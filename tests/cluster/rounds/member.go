package rounds

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// member is a process that serves a member of the group. One goroutine changes it.
type member struct {
	g      *group
	name   string
	dir    string
	client string // where clients reach it
	peer   string // where the others reach it: its proxy
	listen string // where it listens for the others
	tls    string // directory of its certificate, "" without TLS
	id     uint64

	cmd     *exec.Cmd // nil while it does not run
	disk    *control  // of a process that has its disk in memory, nil otherwise
	ended   chan error
	stopped bool

	admin  *redis.Client // waits longer than a change of the group may take
	direct *redis.Client // for the clients that write to this member alone
}

// newMember finds addresses for a member, and begins its proxy.
func (g *group) newMember() (*member, error) {
	g.made++
	name := "m" + strconv.Itoa(g.made)
	m := &member{g: g, name: name, dir: filepath.Join(g.dir, name)}
	l, err := net.Listen("tcp", net.JoinHostPort(g.host, "0"))
	if err != nil {
		return nil, err
	}
	m.peer = l.Addr().String()
	for _, addr := range []*string{&m.client, &m.listen} {
		if *addr, err = freeAddress(g.host); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	if g.ca != nil {
		m.tls = m.dir + ".tls"
		if err := g.ca.issue(m.tls); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	g.net.proxy(l, m.listen)
	m.admin = redis.NewClient(&redis.Options{Addr: m.client, MaxRetries: -1, DialerRetries: 1, ReadTimeout: hang, PoolSize: 4, DialTimeout: time.Second})
	m.direct = redis.NewClient(&redis.Options{Addr: m.client, MaxRetries: -1, DialerRetries: 1, ReadTimeout: patience, PoolSize: 4, DialTimeout: time.Second})
	return m, nil
}

// freeAddress returns an address at which nobody listens.
func freeAddress(host string) (string, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// start starts the process, and returns when it serves. How says how it is a member.
func (m *member) start(ctx context.Context, how ...string) error {
	if how == nil {
		how = []string{"start"}
	}
	log, err := os.OpenFile(m.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own
	args := []string{
		"-d", m.dir, "--cache", "4MiB", "--ballast", "1MiB", "--sync", m.g.sync, "serve", "--addr", m.client,
		"--peer-listen", m.listen, "--log-keep", strconv.Itoa(logKeep),
	}
	if m.g.compare >= 0 {
		args = append(args, "--compare-every", m.g.compare.String())
	}
	if m.tls != "" {
		args = append(args, "--peer-tls", m.tls)
	}
	return m.run(ctx, exec.Command(m.g.program, append(append(args, "--cluster"), how...)...), log)
}

const (
	logKeep      = 256 << 10             // bytes of the log that members keep for others
	compareEvery = 50 * time.Millisecond // all parts are compared within some rounds: a member that wrongly finds that it differs ends
)

// run starts a process, and returns when it serves.
func (m *member) run(ctx context.Context, cmd *exec.Cmd, log *os.File) error {
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return err
	}
	m.cmd = cmd
	ended := make(chan error, 1)
	m.ended = ended
	go func() { ended <- cmd.Wait() }() // end and kill wait for it
	return m.g.await(ctx, m.name+" serves", func() (bool, error) {
		c, err := net.Dial("tcp", m.client)
		if err != nil {
			return false, m.check()
		}
		return true, c.Close()
	})
}

func (m *member) logFile() string { return m.dir + ".log" }

// check returns an error if the process has ended by itself.
func (m *member) check() error {
	select {
	case err := <-m.ended:
		m.ended <- err
		return fmt.Errorf("%s has ended by itself: %v, see %s", m.name, err, m.logFile())
	default:
		return nil
	}
}

// kill ends the process by kill -9. If its disk is in memory, that is left as a kernel would have it.
func (m *member) kill() error {
	if m.disk != nil {
		if err := m.cutPower(everything, everything); err != nil {
			return err
		}
		return m.down()
	}
	if err := m.check(); err != nil {
		return err
	}
	err := m.cmd.Process.Kill()
	<-m.ended
	m.cmd, m.stopped = nil, false
	return err
}

// end ends the process by SIGTERM, and returns an error unless it ends well.
func (m *member) end() error {
	if err := m.check(); err != nil {
		return err
	}
	err := m.cmd.Process.Signal(syscall.SIGTERM)
	if ended := <-m.ended; ended != nil {
		err = errors.Join(err, fmt.Errorf("%s does not end well: %w, see %s", m.name, ended, m.logFile()))
	}
	m.cmd, m.disk = nil, nil
	return err
}

func (m *member) stop() error {
	m.stopped = true
	return stop(m.cmd.Process)
}

func (m *member) resume() error {
	m.stopped = false
	return resume(m.cmd.Process)
}

// runs reports whether the process can answer.
func (m *member) runs() bool { return m.cmd != nil && !m.stopped }

// close ends what is left of the member.
func (m *member) close() {
	if m.cmd != nil {
		_ = m.cmd.Process.Kill() // it may have ended
		<-m.ended
		m.cmd = nil
	}
	_, _ = m.admin.Close(), m.direct.Close()
}

// status is what a member knows of the group.
type status struct {
	id            uint64
	leads         bool
	term, applied int64
	level         int64 // the group's format level; 0 if the program does not tell
	alarm         string
	whole         bool     // all members vote and are healthy
	names         []string // of the members
}

func (m *member) status(ctx context.Context) (s status, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	reply, err := m.admin.Do(ctx, "SIEVE.CLUSTER", "STATUS").Result()
	if err != nil {
		return s, err
	}
	fields, _ := reply.(map[any]any)
	s.leads, s.alarm, s.whole = fields["role"] == "leader", fmt.Sprint(fields["alarm"]), true
	s.term, _ = fields["term"].(int64)
	s.applied, _ = fields["applied"].(int64)
	s.level, _ = fields["format-level"].(int64)
	members, _ := fields["members"].([]any)
	for _, one := range members {
		f, _ := one.(map[any]any)
		s.names = append(s.names, fmt.Sprint(f["name"]))
		s.whole = s.whole && f["role"] != "learner" && f["healthy"] != "no"
	}
	s.id, err = strconv.ParseUint(fmt.Sprint(fields["id"]), 16, 64)
	return s, err
}

// load has clients write to the member until the returned function is called.
func (m *member) load(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_ = m.direct.Set(ctx, fmt.Sprintf("load%d:%d", i, n%1000), n, 0).Err() // it may not lead yet, or any more
			}
		})
	}
	return func() { cancel(); writers.Wait() }
}
