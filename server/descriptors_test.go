package server_test

import (
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/server"
)

func TestRoom(t *testing.T) {
	for _, tt := range []struct{ limit, store, clients, refused, metrics int }{
		{0, 1018, 1<<31 - 1, 64, 16}, // no limit
		{20_000, 1018, 18_874, 64, 16},
		{1024, 156, 760, 64, 16},
		{128, 44, 48, 8, 8},
		{64, 28, 12, 4, 4},
		{32, 20, -6, 2, 2}, // refused
	} {
		clients, refused, metrics := server.RoomUnder(tt.limit, tt.store)
		if clients != tt.clients || refused != tt.refused || metrics != tt.metrics {
			t.Errorf("%d descriptors, %d of them the store's, leave room for %d clients, %d to be refused, %d for metrics; want %d, %d, %d",
				tt.limit, tt.store, clients, refused, metrics, tt.clients, tt.refused, tt.metrics)
		}
	}
}

// maxclients cannot be set higher than the descriptors allow.
func TestRoom_maxClients(t *testing.T) {
	w := serve(t, nil)
	w.server.HaveRoom(2, 1, 1)
	err := module.Of(w.db.Store()).SetSetting("maxclients", "3")
	if !errors.Is(err, module.ErrSetting) || !strings.Contains(err.Error(), "between 1 and 2 inclusive") {
		t.Errorf("setting maxclients to 3, with descriptors for 2, returned %v", err)
	}
	w.set("maxclients", "2")
}

// When the server is refusing as many connections as it may, it closes others without a reply.
func TestRoom_refused(t *testing.T) {
	w := serve(t, nil)
	w.server.HaveRoom(10, 1, 1)
	w.set("maxclients", "1")
	a := w.client()
	a.answers("PING => +PONG")
	done := w.server.RefuseOne()
	w.client().ended()
	done()
	c := w.client()
	c.want("-ERR max number of clients reached")
	c.ended()
	a.answers("PING => +PONG")
}

// crowd is a listener on which somebody always connects.
type crowd struct {
	net.Listener
	open, most atomic.Int32
	came       chan struct{} // an element for each connection
}

type member struct {
	net.Conn
	of   *crowd
	gone atomic.Bool
}

func (c *crowd) Accept() (net.Conn, error) {
	n := c.open.Add(1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	c.came <- struct{}{}
	return &member{of: c}, nil
}

func (*crowd) Close() error { return nil }

func (m *member) Close() error {
	if !m.gone.Swap(true) {
		m.of.open.Add(-1)
	}
	return nil
}

// Connections for metrics are bounded. Closing one, even twice, makes room for one. The next one is accepted, and
// waits.
func TestMetricsListener(t *testing.T) {
	w := serve(t, nil)
	const places, rounds = 3, 1000
	w.server.HaveRoom(10, 1, places)
	inner := &crowd{came: make(chan struct{}, 2*rounds)}
	l := w.server.MetricsListener(inner)
	accepted := make(chan net.Conn, 2*rounds) // so that nothing but the listener makes a connection wait
	ended := make(chan error)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- c
		}
	}()
	var open []net.Conn
	<-inner.came
	for range rounds {
		open = append(open, <-accepted)
		<-inner.came // the next one
		if len(open) == places {
			_ = open[0].Close() // of a member: no error
			_ = open[0].Close()
			open = open[1:]
		}
	}
	open = append(open, <-accepted)
	_ = l.Close() // of a crowd: no error; the listener first accepts as many as have room
	if err := <-ended; len(open) != places || !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept, after Close, with %d connections open, returned %v", len(open), err)
	}
	if most := inner.most.Load(); most != places+1 {
		t.Errorf("%d connections were open at a time, want %d and one that waits", most, places)
	}
}
