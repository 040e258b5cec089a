package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// timed is a network connection with a time limit for each read and each write. It is beneath TLS, which writes 16 KiB
// at once.
type timed struct {
	net.Conn
	silence time.Duration
}

func (c *timed) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *timed) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// conn is a connection that sends and receives frames. One goroutine at a time reads.
type conn struct {
	timed *timed      // what is closed to end it
	stop  func() bool // nil, or ends the wait for the context of a dialed connection
	in    *bufio.Reader
	body  bytes.Buffer // of the frame that was read last

	mu  sync.Mutex // guards out
	out *bufio.Writer
}

// newConn returns a connection of frames on c, which is on t, with TLS or without.
func newConn(c net.Conn, t *timed) *conn {
	return &conn{timed: t, in: bufio.NewReaderSize(c, 16<<10), out: bufio.NewWriterSize(c, 64<<10)}
}

// close ends the connection. Any goroutine may call it.
func (c *conn) close() {
	if c.stop != nil {
		c.stop()
	}
	_ = c.timed.Close() // reads and writes have told all that there is to know
}

// read reads the next frame that is no ping. The content of c.body is valid until the next call.
func (c *conn) read(most int) (kind byte, err error) {
	for kind = framePing; kind == framePing && err == nil; {
		kind, err = readFrame(c.in, &c.body, most)
	}
	return kind, err
}

// send sends a frame at once.
func (c *conn) send(kind byte, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := writeFrame(c.out, kind, body); err != nil {
		return err
	}
	return c.out.Flush()
}

// keepAlive sends pings until ended is closed or the connection fails.
func (c *conn) keepAlive(ended <-chan struct{}) {
	ticker := time.NewTicker(c.timed.silence / 5)
	defer ticker.Stop()
	for c.send(framePing, nil) == nil {
		select {
		case <-ended:
			return
		case <-ticker.C:
		}
	}
}

// sendMessages sends messages.
func (c *conn) sendMessages(messages ...*pb.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range messages {
		b, err := proto.Marshal(m)
		if err == nil {
			err = writeFrame(c.out, frameMessage, b)
		}
		if err != nil {
			return err
		}
	}
	return c.out.Flush()
}

// readMessage reads the next message.
func (c *conn) readMessage() (*pb.Message, error) {
	kind, err := c.read(maxMessage)
	if err == nil && kind != frameMessage {
		err = fmt.Errorf("%w: kind %d in place of a message", errFrame, kind)
	}
	if err != nil {
		return nil, err
	}
	m := &pb.Message{}
	if err := proto.Unmarshal(c.body.Bytes(), m); err != nil { // it copies all bytes
		return nil, fmt.Errorf("%w: %w", errFrame, err)
	}
	return m, nil
}

// answer tells the other side yes, if err is nil, or no with the reason.
func (c *conn) answer(err error) error {
	body := []byte{0}
	if err != nil {
		body = append([]byte{1}, err.Error()...)
	}
	return c.send(frameAnswer, body[:min(len(body), maxHello)])
}

// readAnswer waits for the answer. A no is an error with the reason.
func (c *conn) readAnswer() error {
	kind, err := c.read(maxHello)
	switch b := c.body.Bytes(); {
	case err != nil:
		return noEOF(err)
	case kind != frameAnswer || len(b) == 0 || b[0] > 1:
		return fmt.Errorf("%w: kind %d in place of an answer", errFrame, kind)
	case b[0] == 1:
		return fmt.Errorf("the other side refuses: %s", b[1:])
	}
	return nil
}

// snapshotWriter sends what is written to it as the data of a snapshot.
type snapshotWriter struct {
	c   *conn
	err error
}

func (w *snapshotWriter) Write(p []byte) (n int, err error) {
	for ; n < len(p) && w.err == nil; n = min(n+maxData, len(p)) {
		w.err = w.c.send(frameData, p[n:min(n+maxData, len(p))])
	}
	return n, w.err
}

// snapshotReader reads the data of a snapshot. At its end it returns io.EOF, and another error if the connection ends before.
type snapshotReader struct {
	c    *conn
	rest []byte
	err  error
}

func (r *snapshotReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 && r.err == nil {
		kind, err := r.c.read(maxData)
		switch {
		case err != nil:
			r.err = noEOF(err)
		case kind == frameData:
			r.rest = r.c.body.Bytes()
		case kind == frameEnd:
			r.err = io.EOF
		default:
			r.err = fmt.Errorf("%w: kind %d in a snapshot", errFrame, kind)
		}
	}
	n := copy(p, r.rest)
	if r.rest = r.rest[n:]; n > 0 {
		return n, nil
	}
	return 0, r.err
}
