package wire

import (
	"bufio"
	"bytes"
	"io"
	"net"
)

// Strangers returns how many connections have not said hello.
func (t *Transport) Strangers() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.strangers)
}

// Kinds of frames and connections.
const (
	Hello, Answer, Message, Data, End, Ping = frameHello, frameAnswer, frameMessage, frameData, frameEnd, framePing

	ForMessages, ForSnapshot = forMessages, forSnapshot
	MaxMessage               = maxMessage
)

// Frame returns a frame.
func Frame(kind byte, body []byte) []byte {
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	_ = writeFrame(w, kind, body)
	_ = w.Flush()
	return b.Bytes()
}

// ReadFrame reads a frame. Kept is the size of the buffer that it took.
func ReadFrame(r io.Reader, most int) (kind byte, body []byte, kept int, err error) {
	var b bytes.Buffer
	kind, err = readFrame(r, &b, most)
	return kind, b.Bytes(), b.Cap(), err
}

// HelloOf returns the body of a hello.
func HelloOf(kind byte, cluster [16]byte, from, to uint64) []byte {
	return appendHello(nil, hello{kind, cluster, from, to})
}

// AgainHello decodes a hello, and encodes it again.
func AgainHello(b []byte) ([]byte, error) {
	h, err := decodeHello(b)
	return appendHello(nil, h), err
}

// Greet answers the hello of whoever dials.
func Greet(c net.Conn) error {
	var b bytes.Buffer
	if _, err := readFrame(c, &b, maxHello); err != nil {
		return err
	}
	_, err := c.Write(Frame(frameAnswer, []byte{0}))
	return err
}
