package wire

import (
	"net"
	"sync"
)

// Listener is one whose connections are within the process. What a client sends by one Send of up to
// 16 KiB a server reads at once.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewListener returns a listener.
func NewListener() *Listener {
	return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return pipeAddress{} }

// Dial connects to the listener, from the address that the listener shall see; nil for a pipe's.
func (l *Listener) Dial(from net.Addr) (*Conn, error) {
	ours, theirs := net.Pipe()
	if from != nil {
		theirs = &addressed{theirs, from}
	}
	select {
	case l.conns <- theirs:
		return New(ours), nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// addressed is a connection from an address of choice.
type addressed struct {
	net.Conn
	from net.Addr
}

func (c *addressed) RemoteAddr() net.Addr { return c.from }

type pipeAddress struct{}

func (pipeAddress) Network() string { return "pipe" }
func (pipeAddress) String() string  { return "pipe" }
