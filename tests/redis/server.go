package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sievekv/sievekv/module/reply"
)

// realRedis is a running redis-server and a connection to it.
type realRedis struct {
	dir     string
	process *exec.Cmd
	socket  string
	conn    net.Conn
	in      *bufio.Reader
	out     *bufio.Writer
}

func startRedis() (s *realRedis, err error) {
	s = &realRedis{}
	if s.dir, err = os.MkdirTemp("", "redis"); err != nil {
		return nil, err
	}
	s.socket = filepath.Join(s.dir, "socket")
	s.process = exec.Command("redis-server", "--port", "0", "--unixsocket", s.socket, "--save", "", "--appendonly", "no", "--dir", s.dir)
	if err := s.process.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	for range 30_000 { // ten minutes, which is when a test is given up
		if s.conn, err = net.Dial("unix", s.socket); err == nil {
			s.in, s.out = bufio.NewReader(s.conn), bufio.NewWriter(s.conn)
			return s, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.stop()
	return nil, fmt.Errorf("redis-server does not answer: %w", err)
}

func (s *realRedis) stop() {
	if s.conn != nil {
		_ = s.conn.Close()
	}
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
	_ = os.RemoveAll(s.dir)
}

// do sends commands at once and returns their replies.
func (s *realRedis) do(commands ...[]string) ([]reply.Reply, error) {
	for _, words := range commands {
		fmt.Fprintf(s.out, "*%d\r\n", len(words))
		for _, w := range words {
			fmt.Fprintf(s.out, "$%d\r\n%s\r\n", len(w), w)
		}
	}
	if err := s.out.Flush(); err != nil {
		return nil, err
	}
	replies := make([]reply.Reply, len(commands))
	for i := range replies {
		var err error
		if replies[i], err = s.read(); err != nil {
			return nil, err
		}
	}
	return replies, nil
}

func (s *realRedis) read() (reply.Reply, error) {
	line, err := s.in.ReadString('\n')
	if err != nil {
		return reply.Nil, err
	}
	kind, text := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return reply.Status(text), nil
	case '-':
		return reply.Error(text), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return reply.Nil, fmt.Errorf("reply %q: %w", line, err)
	case kind == ':':
		return reply.Int(n), nil
	case n < 0:
		return reply.Nil, nil
	case kind == '$':
		b := make([]byte, n+2)
		_, err := io.ReadFull(s.in, b)
		return reply.Bulk(b[:n]), err
	case kind == '*':
		elems := make([]reply.Reply, n)
		for i := range elems {
			if elems[i], err = s.read(); err != nil {
				return reply.Nil, err
			}
		}
		return reply.Array(elems...), nil
	}
	return reply.Nil, fmt.Errorf("reply %q", line)
}
