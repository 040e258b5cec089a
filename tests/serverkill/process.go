package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/server"
)

// serveVariable names the directory of the store in the environment of a server process.
const serveVariable = "SERVERKILL_SERVE"

// serve serves a store, whose address it prints, until it is killed.
func serve(dir string) error {
	db, err := sievekv.Open(filepath.Join(dir, "store"), &sievekv.Options{
		MemTableSize: 1 << 20, CacheSize: 1 << 20, BallastSize: -1, Modules: coreext.With(server.Module()),
	})
	if err != nil {
		return err
	}
	s, err := server.New(db.Store(), nil)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return s.Serve(l)
}

// process is a server process.
type process struct {
	cmd  *exec.Cmd
	addr string
}

func start(ctx context.Context, dir string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), serveVariable+"="+dir)
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
		return nil, errors.Join(errors.New("the server does not open its store"), cmd.Wait())
	}
	return &process{cmd, strings.TrimSpace(addr)}, nil
}

// kill ends the process by kill -9.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	var exit *exec.ExitError
	if err := p.cmd.Wait(); !errors.As(err, &exit) || exit.Exited() {
		return fmt.Errorf("the server has ended by itself: %w", err)
	}
	return nil
}
