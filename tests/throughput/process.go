package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/server"
)

// process is a server in a process of its own.
type process struct {
	cmd  *exec.Cmd
	dir  string
	addr string
}

func (p *process) stop() error {
	signaled := p.cmd.Process.Signal(syscall.SIGTERM)
	ended := p.cmd.Wait()
	return errors.Join(signaled, ended, os.RemoveAll(p.dir))
}

// startOurs starts this program as a server.
func startOurs(ctx context.Context, level string) (*process, error) {
	dir, err := os.MkdirTemp("", "throughput")
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-serve", filepath.Join(dir, "store"), "-level", level)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("server has not begun: %w", err), cmd.Wait())
	}
	return &process{cmd, dir, strings.TrimSpace(addr)}, nil
}

// serve serves a store, and prints the address, until SIGTERM.
func serve(dir, level string) error {
	levels := map[string]kv.Durability{"always": kv.Always, "everysec": kv.EverySec, "no": kv.NoSync}
	durability, ok := levels[level]
	if !ok {
		return fmt.Errorf("-level %s: must be always, everysec or no", level)
	}
	db, err := sievekv.Open(dir, &sievekv.Options{Durability: durability, BallastSize: -1, Modules: module.New(server.Module())})
	if err != nil {
		return err
	}
	s, err := server.New(db.Store(), nil)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, db.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	fmt.Println(l.Addr())
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	select {
	case <-ctx.Done():
		return errors.Join(s.Shutdown(context.Background()), db.Close())
	case err := <-ended:
		return errors.Join(err, db.Close())
	}
}

// startRedis starts redis-server with an append-only file.
func startRedis(ctx context.Context, level string) (*process, error) {
	dir, err := os.MkdirTemp("", "throughput")
	if err != nil {
		return nil, err
	}
	// A port that nobody has; that somebody takes it meanwhile would be told by redis-server.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "redis-server", "--port", strconv.Itoa(port), "--dir", dir, "--save", "",
		"--appendonly", "yes", "--appendfsync", level)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	for range 100 {
		if c, err := net.Dial("tcp", addr); err == nil {
			return &process{cmd, dir, addr}, c.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, errors.Join(errors.New("redis-server does not answer"), cmd.Process.Kill(), cmd.Wait())
}
