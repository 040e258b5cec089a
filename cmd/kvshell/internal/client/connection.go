package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/module/reply"
)

// connection is a connection to a server. A goroutine reads what the server sends. So the client notices that the
// connection has ended before it sends another command, and a send never waits because replies are not read. The
// goroutine ends with close.
type connection struct {
	net.Conn
	replies chan received // up to keptReplies wait here for receive
	held    atomic.Int64  // bytes of memory of these
	taken   chan struct{} // has an element after receive took one
	heard   atomic.Int64  // bytes that came from the server
	ended   chan struct{} // closed when nothing more can be read, for the reason err
	err     error
	closed  chan struct{}
	silence time.Duration // how long the server may say nothing while a reply is missing, or take nothing; 0 for any time
	out     []byte        // the last command that was sent; its memory is used again
}

// Replies that nobody has asked for yet take little memory: beyond heldReplies bytes no more are read.
const (
	keptReplies = 16
	heldReplies = 8 << 20
)

// farewellTimeout is how long farewell waits for the server's last error.
const farewellTimeout = 5 * time.Second

// received is what a server sent: a reply, or a push.
type received struct {
	reply reply.Reply
	push  bool
	size  int64 // of its memory
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
		Conn: conn, replies: make(chan received, keptReplies), taken: make(chan struct{}, 1), ended: make(chan struct{}),
		closed: make(chan struct{}), silence: a.silence,
	}
	r := resp.NewReader((*listening)(c))
	if a.reply > 0 {
		r.LimitReply(a.reply)
	}
	go c.read(r)
	return c, nil
}

// listening counts what comes from the server.
type listening connection

func (l *listening) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	l.heard.Add(int64(n))
	return n, err
}

func (c *connection) read(r *resp.Reader) {
	defer close(c.ended)
	for {
		var in received
		if in.reply, in.push, c.err = r.ReadAny(); c.err != nil {
			return
		}
		in.size = r.Size()
		c.held.Add(in.size)
		if !c.keep(in) {
			c.err = net.ErrClosed
			return
		}
	}
}

// keep keeps a reply for receive, and waits until another may be read. It is not ok if the connection was closed.
func (c *connection) keep(in received) (ok bool) {
	select {
	case c.replies <- in:
	case <-c.closed:
		return false
	}
	for c.held.Load() > heldReplies {
		select {
		case <-c.taken:
		case <-c.closed:
			return false
		}
	}
	return true
}

// take takes a reply out of those that are kept.
func (c *connection) take(in received) received {
	c.held.Add(-in.size)
	select {
	case c.taken <- struct{}{}:
	default:
	}
	return in
}

// close ends the connection. An error does not matter any more.
func (c *connection) close() {
	close(c.closed)
	_ = c.Conn.Close()
}

// lost returns the error that has ended the connection since the last reply, nil if it has not ended.
func (c *connection) lost() error {
	for {
		select {
		case in := <-c.replies:
			if c.take(in); !in.push {
				return errors.New("a reply without a command")
			}
		case <-c.ended:
			return c.err
		default:
			return nil
		}
	}
}

// send sends a command. If ctx ends before, the connection is closed.
func (c *connection) send(ctx context.Context, words [][]byte) error {
	stop := context.AfterFunc(ctx, func() { _ = c.Conn.Close() })
	defer stop()
	c.out = resp.AppendCommand(c.out[:0], words)
	err := c.write(c.out)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// write writes in pieces. The server must take each before it has been silent for too long.
func (c *connection) write(b []byte) error {
	const piece = 64 << 10
	for part := range slices.Chunk(b, piece) {
		if c.silence > 0 {
			if err := c.SetWriteDeadline(time.Now().Add(c.silence)); err != nil {
				return err
			}
		}
		if _, err := c.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// receive waits for the next reply, or push. It gives up when the server has said nothing for silence, unless that is 0.
func (c *connection) receive(ctx context.Context, silence time.Duration) (received, error) {
	var silent <-chan time.Time
	if silence > 0 {
		ticker := time.NewTicker(silence)
		defer ticker.Stop()
		silent = ticker.C
	}
	for heard := c.heard.Load(); ; heard = c.heard.Load() {
		select {
		case in := <-c.replies:
			return c.take(in), nil
		case <-c.ended:
			select {
			case in := <-c.replies: // from before the end
				return c.take(in), nil
			default:
				return received{}, c.err
			}
		case <-ctx.Done():
			return received{}, ctx.Err()
		case <-silent:
			if c.heard.Load() == heard {
				return received{}, fmt.Errorf("the server has said nothing for %v", silence)
			}
		}
	}
}

// farewell is called after a send failed. It returns the error that the server sent before it closed the connection,
// as it does with a command that is too long. It is not ok if there is none.
func (c *connection) farewell(ctx context.Context) (last reply.Reply, ok bool) {
	_ = c.SetReadDeadline(time.Now().Add(farewellTimeout)) // if it fails, the connection is broken, and reads fail too
	for {
		in, err := c.receive(ctx, 0)
		if err != nil {
			return last, ok && last.IsError()
		}
		if !in.push {
			last, ok = in.reply, true
		}
	}
}

// ask sends a command and waits for the reply. It drops pushes that come before, unless the command is one that is
// answered by a push.
func (c *connection) ask(ctx context.Context, words [][]byte) (reply.Reply, error) {
	if err := c.send(ctx, words); err != nil {
		if last, ok := c.farewell(ctx); ok {
			return last, nil
		}
		return reply.Nil, err
	}
	for {
		in, err := c.receive(ctx, c.silence)
		if err != nil || !in.push || subscribes(words) {
			return in.reply, err
		}
	}
}

// subscribes reports whether messages without end follow the reply to a command. In RESP3 the reply itself is a push.
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

// connectionError returns the cause of an error of a connection, without what package net adds.
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
