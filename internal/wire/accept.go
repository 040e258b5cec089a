package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// maxStrangers is how many connections may be open that have not said hello. One more ends the oldest: a member says hello at once.
const maxStrangers = 64

// accept accepts connections until Close.
func (t *Transport) accept() {
	for {
		raw, err := t.opts.Listener.Accept()
		if t.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			if err == nil {
				_ = raw.Close()
			}
			return
		}
		if err != nil {
			t.log.Warn("sievekv: a member's connection cannot be accepted", "error", err)
			time.Sleep(minPause) // it may lack descriptors
			continue
		}
		timed := &timed{raw, t.opts.Silence}
		c := newConn(t.secure.serve(timed), timed)
		t.mu.Lock()
		if len(t.strangers) >= maxStrangers {
			t.strangers[0].close()
			t.strangers = t.strangers[1:]
		}
		if t.strangers = append(t.strangers, c); t.ctx.Err() != nil {
			c.close() // Close has not seen it
		}
		t.mu.Unlock()
		t.running.Go(func() { t.serve(c) })
	}
}

// serve serves an accepted connection until it ends.
func (t *Transport) serve(c *conn) {
	defer c.close()
	limit := time.AfterFunc(t.opts.Silence, c.close) // however slowly it sends something
	h, err := t.readHello(c)
	defer t.forget(incoming{h.from, h.kind}, c)
	if !limit.Stop() && err == nil {
		err = os.ErrDeadlineExceeded
	}
	if err != nil {
		t.refused(c, err)
		return
	}
	switch h.kind {
	case forSnapshot:
		c.timed.silence *= snapshotSilence
		err = t.receiveSnapshot(c, h.from)
	case forDigest:
		err = t.receiveDigest(c, h.from)
	case forProbes:
		err = t.answerProbes(c)
	default:
		err = t.receive(c, h.from)
	}
	if t.ctx.Err() == nil && err != nil {
		t.log.Info("sievekv: a member's connection has ended", "peer", hexID(h.from), "error", noEOF(err))
	}
}

// readHello reads what the dialer says, and answers it.
func (t *Transport) readHello(c *conn) (h hello, err error) {
	kind, err := c.read(maxHello)
	said := err == nil && kind == frameHello
	if said {
		h, err = decodeHello(c.body.Bytes())
	} else if err == nil {
		err = fmt.Errorf("%w: kind %d in place of a hello", errFrame, kind)
	}
	t.mu.Lock()
	t.strangers = slices.DeleteFunc(t.strangers, func(other *conn) bool { return other == c })
	if err == nil {
		err = t.admit(h, c)
	}
	t.mu.Unlock()
	if said {
		err = errors.Join(err, c.answer(err))
	}
	return h, err
}

// admit checks the dialer, and the member that it wants. If that is right, the connection is now the member's only one
// of its kind. The caller holds t.mu.
func (t *Transport) admit(h hello, c *conn) error {
	switch {
	case t.ctx.Err() != nil:
		return net.ErrClosed
	case h.cluster != t.opts.Cluster:
		return fmt.Errorf("member %d is of group %x, this is group %x", h.from, h.cluster, t.opts.Cluster)
	case h.to != t.opts.Self:
		return fmt.Errorf("member %d wants member %d, this is member %d", h.from, h.to, t.opts.Self)
	case t.peers[h.from] == nil:
		return fmt.Errorf("member %d is not one that member %d knows", h.from, t.opts.Self)
	}
	key := incoming{h.from, h.kind}
	if old := t.incoming[key]; old != nil {
		old.close()
	}
	t.incoming[key] = c
	return nil
}

// refused logs that a connection was refused, one a second: anybody may connect.
func (t *Transport) refused(c *conn, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.told) > time.Second && t.ctx.Err() == nil {
		t.told = time.Now()
		t.log.Warn("sievekv: a connection to the group was refused", "addr", c.timed.RemoteAddr().String(), "error", err)
	}
}

// forget forgets a member's connection, unless there is another by now.
func (t *Transport) forget(key incoming, c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.incoming[key] == c {
		delete(t.incoming, key)
	}
}

// receive hands on the messages of a member.
func (t *Transport) receive(c *conn, from uint64) error {
	ended := make(chan struct{})
	var pings sync.WaitGroup
	pings.Go(func() { c.keepAlive(ended); c.close() })
	defer pings.Wait()
	defer close(ended)
	for {
		m, err := t.readChecked(c, from)
		if err != nil {
			c.close()
			return err
		}
		t.opts.Handle(from, m)
	}
}

// readChecked reads a message that a member can have sent to this one.
func (t *Transport) readChecked(c *conn, from uint64) (*pb.Message, error) {
	m, err := c.readMessage()
	if err != nil {
		return nil, err
	}
	kind := m.GetType()
	// Members pass these on to the leader in the name of others.
	passedOn := kind == pb.MsgProp || kind == pb.MsgReadIndex || kind == pb.MsgTransferLeader
	_, known := pb.MessageType_name[int32(kind)]
	if !known || raft.IsLocalMsg(kind) || m.GetFrom() != from && !passedOn || raft.IsLocalMsgTarget(m.GetFrom()) || m.GetTo() != t.opts.Self {
		return nil, fmt.Errorf("%w: a %v of member %d to member %d", errFrame, kind, m.GetFrom(), m.GetTo())
	}
	return m, nil
}

// receiveSnapshot hands on the snapshot of a member, and answers whether it was taken over.
func (t *Transport) receiveSnapshot(c *conn, from uint64) error {
	m, err := t.readChecked(c, from)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	var pings sync.WaitGroup
	pings.Go(func() {
		c.keepAlive(ctx.Done())
		cancel() // the sender is gone
	})
	err = t.opts.HandleSnapshot(ctx, from, m, &snapshotReader{c: c})
	cancel()
	pings.Wait()
	return errors.Join(err, c.answer(err))
}

// receiveDigest hands on what a member has told, and answers.
func (t *Transport) receiveDigest(c *conn, from uint64) error {
	kind, err := c.read(maxHello)
	if err == nil && kind != frameDigest {
		err = fmt.Errorf("%w: kind %d in place of a digest", errFrame, kind)
	}
	if err != nil {
		return err
	}
	return c.answer(t.opts.HandleDigest(from, c.body.Bytes()))
}
