package rounds

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

// network is what the members reach each other through: a proxy before each of them. A connection carries messages one way, from the
// member that has dialed, and begins with a hello that has both ids (package wire).
type network struct {
	tls     *tls.Config // of the proxies, which are one member to each other member; nil without TLS
	ctx     context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	links   map[direction]link // guarded by mu; those that are not in it are whole
	changed chan struct{}      // closed when a link changes; guarded by mu
}

// direction is from one member to another.
type direction struct{ from, to uint64 }

// link says what happens to bytes in a direction.
type link struct {
	cut   bool          // they are held up until it is whole again
	delay time.Duration // of each byte, however many are under way
}

func newNetwork(tls *tls.Config) *network {
	n := &network{tls: tls, links: make(map[direction]link), changed: make(chan struct{})}
	n.ctx, n.end = context.WithCancel(context.Background())
	return n
}

// close ends all proxies and connections, and waits for them.
func (n *network) close() {
	n.end()
	n.running.Wait()
}

// set sets a link both or one way.
func (n *network) set(l link, directions ...direction) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range directions {
		n.links[d] = l
	}
	close(n.changed)
	n.changed = make(chan struct{})
}

// heal makes all links whole.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.links)
	close(n.changed)
	n.changed = make(chan struct{})
}

// both returns both directions between a member and each of others.
func both(id uint64, others ...uint64) (d []direction) {
	for _, other := range others {
		d = append(d, direction{id, other}, direction{other, id})
	}
	return d
}

// proxy takes connections for a member that listens at an address.
func (n *network) proxy(l net.Listener, member string) {
	if n.tls != nil {
		l = tls.NewListener(l, n.tls)
	}
	n.running.Go(func() {
		defer context.AfterFunc(n.ctx, func() { _ = l.Close() })()
		for {
			c, err := l.Accept()
			if err != nil {
				return // it was closed
			}
			n.running.Go(func() { n.serve(c, member) })
		}
	})
}

// Of a hello, see package wire.
const (
	helloLen = 48 // with the head of its frame
	helloIDs = 32 // where the ids begin
)

// serve passes on a connection until one side or the network ends.
func (n *network) serve(dialed net.Conn, member string) {
	ctx, cancel := context.WithCancel(n.ctx)
	defer cancel()
	closeAtEnd(ctx, dialed)
	hello := make([]byte, helloLen)
	if _, err := io.ReadFull(dialed, hello); err != nil {
		return
	}
	d := direction{binary.LittleEndian.Uint64(hello[helloIDs:]), binary.LittleEndian.Uint64(hello[helloIDs+8:])}
	if !n.pass(ctx, d, time.Now()) {
		return
	}
	accepted, err := n.dial(member)
	if err != nil {
		return
	}
	closeAtEnd(ctx, accepted)
	if _, err := accepted.Write(hello); err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { defer cancel(); n.pump(ctx, d, dialed, accepted) })
	n.pump(ctx, d, accepted, dialed)
	cancel()
	back.Wait()
}

func (n *network) dial(addr string) (net.Conn, error) {
	if n.tls == nil {
		return net.Dial("tcp", addr)
	}
	return tls.Dial("tcp", addr, n.tls)
}

func closeAtEnd(ctx context.Context, c net.Conn) { context.AfterFunc(ctx, func() { _ = c.Close() }) }

// arrived is what a proxy has read and not passed on yet.
type arrived struct {
	bytes []byte
	at    time.Time
}

// pump copies bytes as the link of the connection says, for both ways of it.
func (n *network) pump(ctx context.Context, d direction, to io.Writer, from io.Reader) {
	waiting := make(chan arrived, 1024)
	n.running.Go(func() {
		defer close(waiting)
		read(ctx, from, waiting)
	})
	for a := range waiting {
		if !n.pass(ctx, d, a.at) {
			return
		}
		if _, err := to.Write(a.bytes); err != nil {
			return
		}
	}
}

// read reads until the end.
func read(ctx context.Context, from io.Reader, to chan<- arrived) {
	buffer := make([]byte, 64<<10)
	for {
		got, err := from.Read(buffer)
		if got > 0 {
			select {
			case to <- arrived{bytes.Clone(buffer[:got]), time.Now()}:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits until bytes that have arrived may pass, and reports whether the connection goes on.
func (n *network) pass(ctx context.Context, d direction, at time.Time) bool {
	for {
		n.mu.Lock()
		l, changed := n.links[d], n.changed
		n.mu.Unlock()
		if l.cut {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return false
			}
		}
		select {
		case <-time.After(time.Until(at.Add(l.delay))):
		case <-ctx.Done():
		}
		return ctx.Err() == nil
	}
}
