package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// peer is another member, as this one sends to it.
type peer struct {
	t    *Transport
	id   uint64
	addr string
	ctx  context.Context // ends with the peer
	end  context.CancelFunc
	wake chan struct{} // of capacity 1

	mu      sync.Mutex
	queue   []*pb.Message
	size    int  // of the queue
	dropped bool // a message, since the queue was taken
}

func newPeer(t *Transport, id uint64, addr string) *peer {
	p := &peer{t: t, id: id, addr: addr, wake: make(chan struct{}, 1)}
	p.ctx, p.end = context.WithCancel(t.ctx)
	return p
}

// send adds a message to the queue, or drops it.
func (p *peer) send(m *pb.Message) {
	size := proto.Size(m)
	p.mu.Lock()
	defer p.mu.Unlock()
	if size > maxMessage || len(p.queue) > 0 && p.size+size > p.t.opts.Queue {
		p.dropped = true
		if size > maxMessage {
			p.t.log.Error("sievekv: a message is too large to be sent", "peer", hexID(p.id), "bytes", size, "most", maxMessage)
		}
	} else {
		p.queue = append(p.queue, m)
		p.size += size
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// take empties the queue.
func (p *peer) take() (messages []*pb.Message, dropped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	messages, dropped = p.queue, p.dropped
	p.queue, p.size, p.dropped = nil, 0, false
	return messages, dropped
}

// Pauses between two attempts to reach a member.
const (
	minPause = 50 * time.Millisecond
	maxPause = time.Second
)

// run keeps a connection to the member, and sends what is in the queue.
func (p *peer) run() {
	pause, told := minPause, ""
	for p.ctx.Err() == nil {
		began := time.Now()
		c, err := p.dial(p.ctx, forMessages)
		if err == nil {
			p.t.log.Info("sievekv: a member can be reached", "peer", hexID(p.id), "addr", p.addr)
			told, err = "", p.stream(c)
		}
		if p.ctx.Err() != nil {
			return
		}
		p.take()
		p.t.opts.Unreachable(p.id)
		if err.Error() != told {
			told = err.Error()
			p.t.log.Warn("sievekv: a member cannot be reached", "peer", hexID(p.id), "addr", p.addr, "error", told)
		}
		if time.Since(began) > maxPause {
			pause = minPause
		}
		select {
		case <-p.ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)):
		}
		pause = min(2*pause, maxPause)
	}
}

// dial connects to the member, and says hello. The connection ends with ctx.
func (p *peer) dial(ctx context.Context, kind byte) (*conn, error) {
	silence := p.t.opts.Silence
	raw, err := (&net.Dialer{Timeout: silence}).DialContext(ctx, "tcp", p.addr)
	if err != nil {
		return nil, err
	}
	timed := &timed{raw, silence}
	inner, err := p.t.secure.dial(timed)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	c := newConn(inner, timed)
	c.stop = context.AfterFunc(ctx, func() { _ = raw.Close() })
	err = c.send(frameHello, appendHello(nil, hello{kind, p.t.opts.Cluster, p.t.opts.Self, p.id}))
	if err = errors.Join(c.readAnswer(), err); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// stream sends what is in the queue until the connection ends. The other side sends nothing but pings.
func (p *peer) stream(c *conn) error {
	var failed error
	ended := make(chan struct{})
	var others sync.WaitGroup
	ctx, cancel := context.WithCancel(p.ctx)
	others.Go(func() {
		defer cancel()
		defer close(ended)
		if _, failed = c.read(0); failed == nil {
			failed = fmt.Errorf("%w: not a ping", errFrame)
		}
		c.close()
	})
	others.Go(func() { c.keepAlive(ended); c.close() })
	if p.t.opts.Probed != nil {
		others.Go(func() { p.probe(ctx) })
	}
	err := p.sendQueue(c, ended)
	c.close()
	if others.Wait(); err == nil {
		err = fmt.Errorf("the connection has ended: %w", noEOF(failed))
	}
	return err
}

func (p *peer) sendQueue(c *conn, ended <-chan struct{}) error {
	for {
		messages, dropped := p.take()
		if dropped {
			p.t.opts.Unreachable(p.id)
		}
		if err := c.sendMessages(messages...); err != nil {
			return err
		}
		select {
		case <-p.wake:
		case <-ended:
			return nil
		}
	}
}

// snapshotSilence is how much longer than on other connections there may be silence on one for a snapshot: both sides may be
// waiting for a disk.
const snapshotSilence = 6

// SendSnapshot sends a snapshot to a member, with the message that it belongs to, on a connection of its own. Write writes the
// snapshot; its error is returned, and the other side learns that the snapshot is not whole. SendSnapshot returns when the other side
// has taken the snapshot over, or with its reason why not. It ends with ctx.
func (t *Transport) SendSnapshot(ctx context.Context, to uint64, m *pb.Message, write func(io.Writer) error) error {
	err := t.with(ctx, to, forSnapshot, func(ctx context.Context, c *conn) error {
		c.timed.silence *= snapshotSilence
		return sendSnapshot(ctx, c, m, write)
	})
	if err != nil {
		return fmt.Errorf("snapshot to member %d: %w", to, err)
	}
	return nil
}

// Tell tells a member something of up to 1 KiB, on a connection of its own, and returns when it has taken it, or with its reason why
// not. It ends with ctx.
func (t *Transport) Tell(ctx context.Context, to uint64, body []byte) error {
	return t.with(ctx, to, forDigest, func(_ context.Context, c *conn) error {
		return errors.Join(c.send(frameDigest, body), c.readAnswer())
	})
}

// with calls f with a connection to a member. The context that it gets ends with that member.
func (t *Transport) with(ctx context.Context, to uint64, kind byte, f func(context.Context, *conn) error) error {
	t.mu.Lock()
	p := t.peers[to]
	if p == nil || t.ctx.Err() != nil {
		t.mu.Unlock()
		return fmt.Errorf("member %d is not known", to)
	}
	t.running.Add(1)
	t.mu.Unlock()
	defer t.running.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	c, err := p.dial(ctx, kind)
	if err == nil {
		err = f(ctx, c)
		c.close()
	}
	if err != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return err
}

func sendSnapshot(ctx context.Context, c *conn, m *pb.Message, write func(io.Writer) error) error {
	if err := c.sendMessages(m); err != nil {
		return err
	}
	var pings sync.WaitGroup
	defer pings.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pings.Go(func() { c.keepAlive(ctx.Done()) })
	data := &snapshotWriter{c: c}
	err := write(data)
	if err == nil && data.err == nil {
		data.err = c.send(frameEnd, nil)
	}
	if err == nil || data.err != nil { // if it could not be sent, the answer may say why
		err = errors.Join(err, data.err, c.readAnswer())
	}
	return err
}
