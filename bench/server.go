package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

const serverAbout = `Commands a second, and for BF.MADD items, over the loopback interface with 50 connections. Each
sends a pipeline and then reads its replies. One client program serves both servers. ` + "`kvshell serve`" + ` syncs once a
second (everysec), and so does redis-server with its append-only file. Keys and
items are drawn from a million, but for new items, which no command had before, and for BF.EXISTS, half of whose items are
absent. Filters are made for their items, at 1 %. Client and server share the processors.`

const million = 1_000_000

// keys is how many keys of strings there are.
var keys uint64 = million

// The commands that the client sends.
var (
	addNew = command{"BF.ADD of new items", 1, func(out []byte, n, _ uint64) []byte {
		return appendNumber(appendWords(out, 3, "BF.ADD", "bn"), "new:", n)
	}}
	addMillion = command{"BF.ADD of a million items", 1, func(out []byte, _, random uint64) []byte {
		return appendNumber(appendWords(out, 3, "BF.ADD", "bf"), "item:", random%million)
	}}
	exists = command{"BF.EXISTS", 1, func(out []byte, _, random uint64) []byte {
		return appendNumber(appendWords(out, 3, "BF.EXISTS", "bf"), "item:", random%(2*million))
	}}
	madd = command{"BF.MADD of 100 new items", 100, func(out []byte, n, _ uint64) []byte {
		out = appendWords(out, 102, "BF.MADD", "bm")
		for i := range uint64(100) {
			out = appendNumber(out, "item:", n*100+i)
		}
		return out
	}}
	set = command{"SET", 1, func(out []byte, _, random uint64) []byte {
		return appendWord(appendNumber(appendWords(out, 3, "SET"), "key:", random%keys), "value")
	}}
	get = command{"GET", 1, func(out []byte, _, random uint64) []byte {
		return appendNumber(appendWords(out, 2, "GET"), "key:", random%keys)
	}}
)

// servers compares kvshell serve with redis-server.
func servers(b *bench) error {
	if keys = pick[uint64](b, million/10, million, million); keys < million {
		b.note("GET and SET had %s keys.", format(float64(keys)))
	}
	kvshell, err := b.kvshell()
	if err != nil {
		return err
	}
	ours, err := b.startOurs(kvshell, "everysec")
	if err != nil {
		return err
	}
	defer ours.stop()
	var redis *process
	if path, err := exec.LookPath("redis-server"); err != nil {
		b.note("redis-server is not installed: it is left out.")
	} else if redis, err = b.startRedis(path); err != nil {
		return err
	} else {
		defer redis.stop()
	}
	for _, p := range []*process{ours, redis} {
		if err := p.fillKeys(b); err != nil {
			return err
		}
	}
	for _, pipeline := range []int{16, 100} {
		if err := b.compareServers(ours, redis, pipeline); err != nil {
			return err
		}
	}
	return nil
}

// compareServers measures all commands with a pipeline.
func (b *bench) compareServers(ours, redis *process, pipeline int) error {
	during, reps := pick(b, 250*time.Millisecond, time.Second, 2*time.Second), pick(b, 2, 5, 7)
	measure := func(p *process, c command) side {
		return side{p.name + " " + c.name, func() (float64, error) {
			if c.name == madd.name { // enough items that each run needs a filter of its own
				if err := p.freshFilter("bm", 10_000_000); err != nil {
					return 0, err
				}
			}
			return measureServer(p.addr, c, pipeline, during, &p.sent)
		}}
	}
	for _, group := range []struct {
		peer command
		ours []command
		must []*must
	}{
		{set, []command{addNew, addMillion, set}, []*must{ratioAtLeast(1), ratioAtLeast(1), ratioAtLeast(0.7)}},
		{get, []command{exists, get}, []*must{ratioAtLeast(1), ratioAtLeast(0.7)}},
	} {
		var sides []side
		for _, c := range group.ours {
			sides = append(sides, measure(ours, c))
		}
		if redis != nil {
			sides = append(sides, measure(redis, group.peer))
		}
		figures, err := b.interleave(reps, sides...)
		if err != nil {
			return err
		}
		for i, c := range group.ours {
			r := row{what: fmt.Sprintf("%s, pipeline of %d", c.name, pipeline), unit: "commands/s", ours: figures[i], must: group.must[i]}
			r.reduced = keys < million && (c.name == set.name || c.name == get.name)
			if redis != nil {
				r.peer, r.theirs = "redis-server "+group.peer.name, figures[len(group.ours)]
			}
			b.row(r)
		}
	}
	figures, err := b.interleave(pick(b, 1, 5, 7), measure(ours, madd))
	if err != nil {
		return err
	}
	b.row(row{
		what: fmt.Sprintf("%s, pipeline of %d", madd.name, pipeline), unit: "items/s", ours: figures[0], must: figureAtLeast(3e6),
	})
	return nil
}

// process is a server in a process of its own.
type process struct {
	name string
	cmd  *exec.Cmd
	addr string
	sent atomic.Uint64 // commands so far
}

// stop ends the process. Its directory goes with all others.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
}

// servingAt finds the address in the log of kvshell serve.
var servingAt = regexp.MustCompile(`msg="sievekv: serving".* addr=(\S+)`)

// startOurs starts kvshell serve at a level on a free port, and reads the port from its log.
func (b *bench) startOurs(kvshell, level string) (*process, error) {
	dir, err := b.temp("serve")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(b.ctx, kvshell, "-d", filepath.Join(dir, "store"), "--sync", level, "serve", "--addr", "127.0.0.1:0")
	log, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if found := servingAt.FindStringSubmatch(lines.Text()); found != nil {
			go func() {
				for lines.Scan() { // a full pipe would hold up the server
				}
			}()
			return &process{name: "kvshell", cmd: cmd, addr: found[1]}, nil
		}
	}
	return nil, errors.Join(errors.New("kvshell serve ended"), cmd.Wait())
}

// startRedis starts redis-server on a free port, with flags besides.
func (b *bench) startRedis(path string, flags ...string) (*process, error) {
	dir, err := b.temp("redis")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that nobody has now
	if err != nil {
		return nil, err
	}
	addr, port := l.Addr().String(), l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(b.ctx, path, append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--save", "",
		"--appendonly", "yes", "--appendfsync", "everysec"}, flags...)...)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	for range 100 {
		if once(addr, "PING") == nil {
			return &process{name: "redis-server", cmd: cmd, addr: addr}, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, errors.Join(errors.New("redis-server does not answer"), cmd.Process.Kill(), cmd.Wait())
}

// fillKeys sets the keys, and makes the filters.
func (p *process) fillKeys(b *bench) error {
	if p == nil {
		return nil
	}
	b.progress("filling %s", p.name)
	if err := p.fill(command{"SET", 1, func(out []byte, n, _ uint64) []byte { return set.append(out, n, n) }}, keys); err != nil {
		return err
	}
	if p.name == "redis-server" {
		return nil
	}
	if err := errors.Join(p.freshFilter("bf", million), p.freshFilter("bn", 50*million)); err != nil {
		return err
	}
	return p.fill(command{"BF.ADD", 1, func(out []byte, n, _ uint64) []byte { return addMillion.append(out, n, n) }}, million)
}

// fill sends a command n times, for the numbers from 0.
func (p *process) fill(c command, count uint64) error {
	conn, err := net.Dial("tcp", p.addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nothing is lost
	line := pipelines{conn: conn, in: bufio.NewReader(conn)}
	for n := uint64(0); n < count; n += 1000 {
		if err := line.send(c, 1000, n); err != nil {
			return err
		}
	}
	return nil
}

// freshFilter makes a filter again.
func (p *process) freshFilter(key string, capacity uint64) error {
	return errors.Join(once(p.addr, "DEL", key), once(p.addr, "BF.RESERVE", key, "0.01", strconv.FormatUint(capacity, 10)))
}
