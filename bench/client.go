package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// command is what the client sends, again and again, with other arguments each time.
type command struct {
	name  string
	items int // each counts as this number

	// append appends the n-th command to a pipeline. random is a random number.
	append func(out []byte, n, random uint64) []byte
}

// connections is how many connections the client has.
const connections = 50

// measureServer has connections send pipelines of a command for a time, and returns how many commands, or items, were
// answered a second. It is the client of every server. next numbers the commands. The time begins when each connection
// has had its first replies, on average, and goes on until twice as many have come again: a slow server may need longer
// than during for them.
func measureServer(addr string, c command, pipeline int, during time.Duration, next *atomic.Uint64) (perSec float64, err error) {
	return measureWith(clients{connections: connections, pipeline: pipeline}, addr, c, during, next)
}

// clients are the connections of a measurement.
type clients struct {
	connections, pipeline int
	first                 []string // each sends this before the commands
}

// measureWith is measureServer with other connections.
func measureWith(cl clients, addr string, c command, during time.Duration, next *atomic.Uint64) (perSec float64, err error) {
	connections, pipeline := cl.connections, cl.pipeline
	var stop atomic.Bool
	var replies atomic.Uint64
	errs := make(chan error, connections)
	var all sync.WaitGroup
	for i := range connections {
		all.Go(func() {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				errs <- err
				return
			}
			defer func() { _ = conn.Close() }() // nothing is lost
			answered := func() { replies.Add(1) }
			p := pipelines{answered: answered, conn: conn, in: bufio.NewReaderSize(conn, 16<<10), x: uint64(i) + uint64(time.Now().UnixNano())}
			if err := p.begin(cl.first); err != nil {
				errs <- err
				return
			}
			for !stop.Load() {
				if err := p.send(c, pipeline, next.Add(uint64(pipeline))-uint64(pipeline)); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	round := uint64(connections * pipeline)
	// await waits for a time, and until the given number of replies has come, unless a connection has failed.
	await := func(least time.Duration, enough uint64) {
		for begin := time.Now(); len(errs) == 0 && (time.Since(begin) < least || replies.Load() < enough); {
			time.Sleep(time.Millisecond)
		}
	}
	await(during/5, round) // to warm up
	before, begin := replies.Load(), time.Now()
	await(during, before+2*round)
	n, took := replies.Load()-before, time.Since(begin)
	stop.Store(true)
	all.Wait()
	close(errs)
	return float64(n) * float64(c.items) / took.Seconds(), <-errs
}

// pipelines are sent over a connection, one after the other.
type pipelines struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	x    uint64 // random numbers

	answered func() // if not nil, is called for each reply
}

// begin sends a command that is sent once on a connection, if there is one.
func (p *pipelines) begin(words []string) error {
	if words == nil {
		return nil
	}
	if _, err := p.conn.Write(appendWords(nil, len(words), words...)); err != nil {
		return err
	}
	return p.skipReply()
}

// send sends a pipeline, and reads the replies.
func (p *pipelines) send(c command, n int, first uint64) error {
	p.out = p.out[:0]
	for i := range uint64(n) {
		p.x = p.x*0x5851f42d4c957f2d + 0x14057b7ef767814f
		p.out = c.append(p.out, first+i, p.x>>20)
	}
	if _, err := p.conn.Write(p.out); err != nil {
		return err
	}
	for range n {
		if err := p.skipReply(); err != nil {
			return fmt.Errorf("reply of %s: %w", c.name, err)
		}
		if p.answered != nil {
			p.answered()
		}
	}
	return nil
}

// skipReply reads a reply. One that is an error is an error.
func (p *pipelines) skipReply() error {
	line, err := p.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	switch line[0] {
	case '-':
		return errors.New(string(bytes.TrimSpace(line)))
	case '$', '*':
		n, err := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
		if err != nil || n < 0 {
			return err
		}
		if line[0] == '$' {
			_, err = p.in.Discard(n + 2)
			return err
		}
		for range n {
			if err := p.skipReply(); err != nil {
				return err
			}
		}
	}
	return nil
}

// once sends a command and reads its reply.
func once(addr string, words ...string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nothing is lost
	p := pipelines{conn: conn, in: bufio.NewReader(conn)}
	return p.send(command{name: words[0], append: func(out []byte, _, _ uint64) []byte {
		return appendWords(out, len(words), words...)
	}}, 1, 0)
}

func appendCount(out []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(out, kind), int64(n), 10), "\r\n"...)
}

// appendWords appends the beginning of a command, or all of it: how many words it has, and the first ones.
func appendWords(out []byte, all int, words ...string) []byte {
	out = appendCount(out, '*', all)
	for _, word := range words {
		out = appendWord(out, word)
	}
	return out
}

func appendWord(out []byte, word string) []byte {
	return append(append(appendCount(out, '$', len(word)), word...), "\r\n"...)
}

// appendNumber appends a word: a prefix and a number.
func appendNumber(out []byte, prefix string, n uint64) []byte {
	var digits [20]byte
	text := strconv.AppendUint(digits[:0], n, 10)
	out = appendCount(out, '$', len(prefix)+len(text))
	return append(append(append(out, prefix...), text...), "\r\n"...)
}
