package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
)

const (
	tryMembers  = 3
	tryPort     = 6390
	peerPortsOn = 1000 // a member's peer port is its client port plus this number
)

func (sh *shell) clusterTryCommand() *cobra.Command {
	port := tryPort
	cmd := &cobra.Command{
		Use: "try DIR", Short: "Runs a group of three on this machine, to try it out", Args: exactArgs(1), Long: clusterTryHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if port < 1 || port+peerPortsOn+tryMembers > 65535 {
				return exit.Usagef("cluster try: --port %d: must be 1 to %d", port, 65535-peerPortsOn-tryMembers)
			}
			return sh.try(cmd.Context(), args[0], port)
		},
	}
	cmd.Flags().IntVar(&port, "port", port, "the first of three ports for clients; those of the members among themselves are 1000 higher")
	return cmd
}

const clusterTryHelp = `try runs three members of a group, each in a process of its own and a directory below DIR, until Ctrl-C. With the same DIR
again it goes on with the same data. It is for trying groups out, and for tests: all members are on one machine.
`

// trial is a group of three processes.
type trial struct {
	sh       *shell
	program  string
	dir      string
	port     int
	ended    chan error
	children []*exec.Cmd
	running  sync.WaitGroup
}

func (sh *shell) try(ctx context.Context, dir string, port int) (err error) {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	t := &trial{sh: sh, program: program, dir: dir, port: port, ended: make(chan error, tryMembers)}
	defer t.end()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return exit.WithCode(exit.Local, fmt.Errorf("cluster try: %w", err))
	}
	for i := range tryMembers {
		if err := t.start(ctx, i); err != nil {
			return err
		}
	}
	fmt.Fprintf(sh.stderr, "a group of %d: try redis-cli -c -p %d, kvshell -p %d cluster status; Ctrl-C ends it\n", tryMembers, port, port)
	for range tryMembers {
		select {
		case <-ctx.Done():
			return nil
		case err := <-t.ended: // the others go on
			fmt.Fprintf(sh.stderr, "a member has ended: %v\n", err)
		}
	}
	return exit.WithCode(exit.Local, errors.New("cluster try: all members have ended"))
}

func (t *trial) name(i int) string   { return string(rune('a' + i)) }
func (t *trial) client(i int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(t.port+i)) }
func (t *trial) peer(i int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(t.port+peerPortsOn+i))
}
func (t *trial) memberDir(i int) string { return filepath.Join(t.dir, t.name(i)) }

// start starts a member, which is made if it is missing, and waits until it can be asked.
func (t *trial) start(ctx context.Context, i int) error {
	how := []string{"--cluster", "start"}
	token := filepath.Join(t.dir, t.name(i)+".token")
	if _, err := os.Stat(filepath.Join(t.memberDir(i), "raft")); err != nil {
		if i == 0 {
			how = []string{"--cluster", "init", "--node", t.name(i), "--peer-addr", t.peer(i)}
		} else {
			if err := t.makeToken(ctx, i, token); err != nil {
				return err
			}
			how = []string{"--cluster", "join", "--token-file", token}
		}
	}
	log, err := os.OpenFile(filepath.Join(t.dir, t.name(i)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return exit.WithCode(exit.Local, fmt.Errorf("cluster try: %w", err))
	}
	defer func() { _ = log.Close() }() // the child has its own
	cmd := exec.Command(t.program, append([]string{"-d", t.memberDir(i), "serve", "--addr", t.client(i)}, how...)...)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return exit.WithCode(exit.Local, fmt.Errorf("cluster try: %w", err))
	}
	t.children = append(t.children, cmd)
	t.running.Go(func() {
		err := cmd.Wait()
		t.ended <- fmt.Errorf("%s: %v, see %s", t.name(i), err, log.Name())
	})
	fmt.Fprintf(t.sh.stderr, "member %s: clients %s, other members %s, log %s\n", t.name(i), t.client(i), t.peer(i), log.Name())
	return t.awaitAddress(ctx, t.client(i))
}

// makeToken has the first member that leads add another.
func (t *trial) makeToken(ctx context.Context, i int, file string) error {
	for {
		var last error
		for j := range i {
			out, err := exec.CommandContext(ctx, t.program, "-h", "127.0.0.1", "-p", strconv.Itoa(t.port+j), "cluster", "token", t.name(i), t.peer(i), t.client(i)).Output()
			if err == nil {
				return os.WriteFile(file, out, 0o600)
			}
			if e := new(exec.ExitError); errors.As(err, &e) {
				last = errors.New(strings.TrimSpace(string(e.Stderr)))
			}
			if last != nil && strings.Contains(last.Error(), "must have others") {
				return exit.WithCode(exit.Local, fmt.Errorf("cluster try: %s is gone, and its group knows it: cluster remove %[1]s first, or another DIR", t.name(i)))
			}
		}
		if err := t.pause(ctx); err != nil {
			return errors.Join(err, last)
		}
	}
}

// awaitAddress waits until somebody listens.
func (t *trial) awaitAddress(ctx context.Context, addr string) error {
	for {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			return c.Close()
		}
		if err := t.pause(ctx); err != nil {
			return err
		}
	}
}

// pause waits a moment, and returns an error if the run is to end.
func (t *trial) pause(ctx context.Context) error {
	select {
	case err := <-t.ended:
		return exit.WithCode(exit.Local, fmt.Errorf("cluster try: a member has ended: %w", err))
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(100 * time.Millisecond):
		return nil
	}
}

// end ends all members, and waits for them.
func (t *trial) end() {
	for _, cmd := range t.children {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	}
	t.running.Wait()
}
