package main

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	members "github.com/sievekv/sievekv/tests/process"
)

const groupsAbout = `Commands a second at the level ` + "`always`" + ` of a group of three beside one node alone, all on this machine: the three
processes share the processors and the disk. Each connection sends a command and waits for its reply. redis-server has one replica, and
both sync their append-only files for each write; each SADD of a new item is followed by ` + "`WAIT 1 0`" + ` in the same pipeline. Lookups
are on a member that does not lead, after READONLY, in pipelines of 16 over 50 connections.`

// waited is an add to a set, and at each second number the wait for the replica.
var waited = command{"SADD and WAIT 1", 1, func(out []byte, n, _ uint64) []byte {
	if n%2 == 1 {
		return appendWords(out, 3, "WAIT", "1", "0")
	}
	return appendNumber(appendWords(out, 3, "SADD", "set"), "new:", n/2)
}}

// startGroup starts a group of three.
func (b *bench) startGroup(flags ...string) (*members.Group, error) {
	kvshell, err := b.kvshell()
	if err != nil {
		return nil, err
	}
	dir, err := b.temp("group")
	if err != nil {
		return nil, err
	}
	return members.In(filepath.Dir(kvshell)).StartGroup(dir, 3, flags...)
}

// groups compares a group with one node, and with a redis-server that has a replica.
func groups(b *bench) error {
	g, err := b.startGroup()
	if err != nil {
		return err
	}
	defer func() { _ = g.Close() }() // its directory is removed
	one, err := b.startOurs(b.kvshellPath, "always")
	if err != nil {
		return err
	}
	defer one.stop()
	redis, stop, err := b.startReplicated()
	if err != nil {
		return err
	}
	defer stop()
	fill := func(addr string) (float64, error) {
		p := process{addr: addr}
		return 0, errors.Join(p.freshFilter("bn", 50*million), p.freshFilter("bf", million),
			p.fill(command{"BF.ADD", 1, func(out []byte, n, _ uint64) []byte { return addMillion.append(out, n, n) }}, million))
	}
	b.progress("filling")
	if _, err := onLeader(g, fill); err != nil {
		return err
	}
	if _, err := fill(one.addr); err != nil {
		return err
	}
	for _, n := range []int{1, 16, 256} {
		if err := b.compareGroup(g, one, redis, n); err != nil {
			return err
		}
	}
	return b.compareFollower(g, one)
}

// onLeader has the leader of a group measured. If another leads meanwhile, that is.
func onLeader(g *members.Group, measure func(addr string) (float64, error)) (figure float64, err error) {
	for range 5 {
		l, e := g.Leader()
		if e != nil {
			return 0, e
		}
		figure, err = measure(l.Addr)
		if err == nil || !slices.ContainsFunc([]string{"MOVED", "UNKNOWN", "CLUSTERDOWN"}, func(word string) bool { return strings.Contains(err.Error(), word) }) {
			break
		}
	}
	return figure, err
}

// startReplicated starts redis-server with a replica. The process is nil if redis-server is not installed.
func (b *bench) startReplicated() (first *process, stop func(), err error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		b.note("redis-server is not installed: it is left out.")
		return nil, func() {}, nil
	}
	if first, err = b.startRedis(path, "--appendfsync", "always"); err != nil {
		return nil, nil, err
	}
	host, port, _ := net.SplitHostPort(first.addr)
	second, err := b.startRedis(path, "--appendfsync", "always", "--replicaof", host+" "+port)
	if err != nil {
		first.stop()
		return nil, nil, err
	}
	stop = func() { second.stop(); first.stop() }
	for range 60 {
		n, err := members.Ask(first.addr, "WAIT", "1", "1000")
		if err == nil && n == int64(1) {
			return first, stop, nil
		}
	}
	stop()
	return nil, nil, errors.New("the replica of redis-server does not answer")
}

// compareGroup compares adds over the given number of connections.
func (b *bench) compareGroup(g *members.Group, one, redis *process, n int) error {
	during := pick(b, 500*time.Millisecond, 3*time.Second, 5*time.Second)
	var sent atomic.Uint64
	sides := []side{
		{"group", func() (float64, error) {
			return onLeader(g, func(addr string) (float64, error) {
				return measureWith(clients{connections: n, pipeline: 1}, addr, addNew, during, &sent)
			})
		}},
		{"one node", func() (float64, error) {
			return measureWith(clients{connections: n, pipeline: 1}, one.addr, addNew, during, &one.sent)
		}},
	}
	if redis != nil {
		sides = append(sides, side{"redis-server", func() (float64, error) {
			both, err := measureWith(clients{connections: n, pipeline: 2}, redis.addr, waited, during, &redis.sent)
			return both / 2, err
		}})
	}
	figures, err := b.interleave(pick(b, 1, 5, 7), sides...)
	if err != nil {
		return err
	}
	r := row{what: fmt.Sprintf("BF.ADD of new items, %d connections", n), unit: "adds/s", ours: figures[0], peer: "one node", theirs: figures[1]}
	if n == 256 {
		r.must = ratioAtLeast(0.5)
	}
	b.row(r)
	if redis != nil {
		b.row(row{what: r.what, unit: r.unit, ours: figures[0], peer: "redis-server " + waited.name, theirs: figures[2]})
	}
	return nil
}

// compareFollower compares lookups on a member that does not lead with lookups on a single node.
func (b *bench) compareFollower(g *members.Group, one *process) error {
	during := pick(b, 250*time.Millisecond, time.Second, 2*time.Second)
	var sent atomic.Uint64
	readOnly := clients{connections: connections, pipeline: 16, first: []string{"READONLY"}}
	figures, err := b.interleave(pick(b, 1, 5, 7),
		side{"follower", func() (float64, error) {
			l, err := g.Leader()
			if err != nil {
				return 0, err
			}
			return measureWith(readOnly, g.Others(l)[0].Addr, exists, during, &sent)
		}},
		side{"one node", func() (float64, error) { return measureServer(one.addr, exists, 16, during, &one.sent) }},
	)
	if err != nil {
		return err
	}
	b.row(row{what: "BF.EXISTS on a follower", unit: "lookups/s", ours: figures[0], peer: "one node", theirs: figures[1]})
	return nil
}
