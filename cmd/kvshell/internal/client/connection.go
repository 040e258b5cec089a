package client

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/server/resp"
)

// connection is a connection to a server. A goroutine reads what comes, so that its end is noticed before something is
// sent in vain, and so that nothing that is sent has to wait for a reply that is not read. It ends with close.
type connection struct {
	net.Conn
	replies chan received // which are kept, up to keptReplies, while nobody asks for them
	ended   chan struct{} // closed when nothing more can be read, for the reason err
	err     error
	closed  chan struct{}
	out     []byte // what was sent last, for its memory
}

const keptReplies = 16

// farewellTimeout is how long a server that takes no more may take to say why.
const farewellTimeout = 5 * time.Second

// received is what a server sent: a reply, or a push.
type received struct {
	reply reply.Reply
	push  bool
}

// dial connects.
func (a *Address) dial(ctx context.Context) (*connection, error) {
	conn, err := new(net.Dialer).DialContext(ctx, a.network, a.Endpoint)
	if err != nil {
		return nil, err
	}
	if a.tls != nil {
		encrypted := tls.Client(conn, a.tls)
		if err := encrypted.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, ignoreClosed(conn.Close()))
		}
		conn = encrypted
	}
	c := &connection{
		Conn: conn, replies: make(chan received, keptReplies), ended: make(chan struct{}), closed: make(chan struct{}),
	}
	go c.read()
	return c, nil
}

func (c *connection) read() {
	defer close(c.ended)
	r := resp.NewReader(c.Conn)
	for {
		var in received
		if in.reply, in.push, c.err = r.ReadAny(); c.err != nil {
			return
		}
		select {
		case c.replies <- in:
		case <-c.closed:
			c.err = net.ErrClosed
			return
		}
	}
}

// close ends the connection; there is nothing to be done about an error.
func (c *connection) close() {
	close(c.closed)
	_ = c.Conn.Close()
}

// lost returns the error that has ended the connection while nothing was asked.
func (c *connection) lost() error {
	for {
		select {
		case in := <-c.replies:
			if !in.push {
				return errors.New("a reply without a command")
			}
		case <-c.ended:
			return c.err
		default:
			return nil
		}
	}
}

// send sends a command, unless ctx ends before; the connection is of no use then.
func (c *connection) send(ctx context.Context, words [][]byte) error {
	stop := context.AfterFunc(ctx, func() { _ = c.Conn.Close() })
	defer stop()
	c.out = resp.AppendCommand(c.out[:0], words)
	_, err := c.Write(c.out)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// receive waits for the next reply, or push.
func (c *connection) receive(ctx context.Context) (received, error) {
	select {
	case in := <-c.replies:
		return in, nil
	case <-c.ended:
		select {
		case in := <-c.replies: // from before the end
			return in, nil
		default:
			return received{}, c.err
		}
	case <-ctx.Done():
		return received{}, ctx.Err()
	}
}

// farewell returns the error that the server sent before it closed the connection, which was noticed in sending: it does
// not read on what it cannot take. It is not ok if there is none.
func (c *connection) farewell(ctx context.Context) (last reply.Reply, ok bool) {
	_ = c.SetReadDeadline(time.Now().Add(farewellTimeout)) // of a connection that is broken already
	for {
		in, err := c.receive(ctx)
		if err != nil {
			return last, ok && last.IsError()
		}
		if !in.push {
			last, ok = in.reply, true
		}
	}
}

// ask sends a command and waits for the reply. Pushes before it are dropped, unless that is how the command is
// answered.
func (c *connection) ask(ctx context.Context, words [][]byte) (reply.Reply, error) {
	if err := c.send(ctx, words); err != nil {
		if last, ok := c.farewell(ctx); ok {
			return last, nil
		}
		return reply.Nil, err
	}
	for {
		in, err := c.receive(ctx)
		if err != nil || !in.push || subscribes(words) {
			return in.reply, err
		}
	}
}

// subscribes reports whether messages without end follow the reply to a command; in RESP3 the reply itself is a push.
func subscribes(words [][]byte) bool {
	switch strings.ToUpper(string(words[0])) {
	case "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "MONITOR":
		return true
	}
	return false
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// connectionError returns an error of a connection without the layers of package net around it.
func connectionError(err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = op.Err
	}
	if call := (*os.SyscallError)(nil); errors.As(err, &call) {
		err = call.Err
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		return errors.New("the server closed the connection")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("no answer in time")
	}
	return err
}
