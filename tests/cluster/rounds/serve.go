package rounds

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/replica"
	"github.com/sievekv/sievekv/replica/admin"
	"github.com/sievekv/sievekv/server"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// served says which member a process serves that has its disk in memory.
type served struct{ Dir, Client, Listen, TLS, Sync string }

// order is what such a process is told to do with its disk and its clock. It answers a line, but to Power: then it ends.
type order struct {
	Slow       time.Duration // of each sync
	Free       uint64        // bytes of room
	NoByte     bool          // writes find no room
	Ahead      time.Duration // of the process's clock
	Power      bool          // fails
	Log, Store int           // per cent of what was not synced that is left then
	Seed       uint64
}

// control gives orders to such a process.
type control struct {
	to   io.Writer
	from *bufio.Reader
}

// startOnDisk starts the member, which exists, with a disk in memory.
func (m *member) startOnDisk(ctx context.Context) error {
	what, err := json.Marshal(served{m.dir, m.client, m.listen, m.tls, m.g.sync})
	if err != nil {
		return err
	}
	log, err := os.OpenFile(m.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own
	program := m.g.onDisk
	cmd := exec.Command(program[0], append(program[1:len(program):len(program)], string(what))...)
	to, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	m.disk = &control{to, bufio.NewReader(from)}
	return m.run(ctx, cmd, log)
}

// order has the process do something with its disk and its clock.
func (m *member) order(o order) error {
	if err := json.NewEncoder(m.disk.to).Encode(o); err != nil {
		return errors.Join(err, m.check())
	}
	if o.Power {
		return nil
	}
	_, err := m.disk.from.ReadString('\n')
	return err
}

// cutPower has the process stop at once, and leave some of what was not synced of its log and its store, in per cent. See down.
func (m *member) cutPower(log, store int) error {
	return errors.Join(m.check(), m.order(order{Power: true, Log: log, Store: store, Seed: m.g.rng.Uint64()}))
}

// down waits until a member whose power was cut has left its disk.
func (m *member) down() error {
	err := <-m.ended
	if err != nil {
		err = fmt.Errorf("%s has not left its disk: %w, see %s", m.name, err, m.logFile())
	}
	m.cmd, m.disk = nil, nil
	return err
}

// ServeMember serves a member of a group that a run has told to keep its disk in memory. It returns after SIGTERM, or ends the process.
func ServeMember(text string) error {
	var what served
	if err := json.Unmarshal([]byte(text), &what); err != nil {
		return err
	}
	d, err := newDisk(what.Dir)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var ahead atomic.Int64
	n, err := what.open(d, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	if err != nil {
		return err
	}
	if err := what.serve(ctx, n, d, &ahead); err != nil {
		return err
	}
	return d.close()
}

// open opens the member.
func (s *served) open(d *disk, clock func() time.Time) (n *replica.Node, err error) {
	o := replica.Options{LogKeep: logKeep, CompareEvery: compareEvery, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	o.Store = &sievekv.Options{
		FS: d, Clock: clock, CacheSize: 4 << 20, BallastSize: 1 << 20, MinFreeSpace: minFree, FreeSpaceInterval: 100 * time.Millisecond, Logger: o.Logger,
		Modules: coreext.With(server.Module(), server.GroupModule(), admin.Module(func() admin.Node { return n })),
	}
	for _, level := range []kv.Durability{kv.Always, kv.EverySec, kv.NoSync} {
		if level.String() == s.Sync {
			o.Store.Durability = level
		}
	}
	if o.TLS, err = readTLS(s.TLS); err != nil {
		return nil, err
	}
	if o.Listener, err = net.Listen("tcp", s.Listen); err != nil {
		return nil, err
	}
	return replica.Open(faultfs.StoreDir, o)
}

// serve serves the member until ctx ends, and then closes it.
func (s *served) serve(ctx context.Context, n *replica.Node, d *disk, ahead *atomic.Int64) error {
	srv, err := server.New(n.DB.Store(), &server.Options{Group: n.Group()})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", s.Client)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }() // Shutdown ends it
	go func() { failed <- obey(os.Stdin, os.Stdout, d, ahead) }()
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	return errors.Join(err, srv.Shutdown(ctx), n.Close())
}

// obey does what the run says. It returns if that is unreadable, as it is when the run has ended.
func obey(orders io.Reader, answers io.Writer, d *disk, ahead *atomic.Int64) error {
	for from := json.NewDecoder(orders); ; {
		var o order
		if err := from.Decode(&o); err != nil {
			return fmt.Errorf("orders: %w", err)
		}
		if o.Power {
			if err := d.cutPower(o.Log, o.Store, o.Seed); err != nil {
				fmt.Fprintln(os.Stderr, "what the power failure has left:", err)
				os.Exit(1)
			}
			os.Exit(0)
		}
		d.slow.Store(int64(o.Slow))
		d.noByte.Store(o.NoByte)
		ahead.Store(int64(o.Ahead))
		d.setFree(o.Free)
		if _, err := fmt.Fprintln(answers, "done"); err != nil {
			return err
		}
	}
}
