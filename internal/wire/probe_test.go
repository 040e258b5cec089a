package wire_test

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sievekv/sievekv/internal/wire"
)

// probed is an answer to a probe.
type probed struct {
	from   uint64
	answer string
}

// probing has a member probe others, and answer.
func probing(answer string, got chan<- probed) func(*member, *wire.Options) {
	return func(_ *member, o *wire.Options) {
		o.ProbeEvery = time.Millisecond
		o.Probe = func() []byte { return []byte(answer) }
		o.Probed = func(from uint64, answer []byte, took time.Duration) {
			if took <= 0 {
				answer = []byte("at once")
			}
			select {
			case got <- probed{from, string(answer)}:
			default:
			}
		}
	}
}

// Members answer each other's probes again and again, also one that was restarted.
func TestProbe(t *testing.T) {
	ca := newAuthority(t)
	got := make(chan probed)
	both := func(answer string) func(*member, *wire.Options) {
		return func(m *member, o *wire.Options) {
			probing(answer, got)(m, o)
			o.TLS = ca.config(t)
		}
	}
	a, b := newMember(t, 1, both("I am a")), newMember(t, 2, both("I am b"))
	a.knows(t, b)
	b.knows(t, a)
	for _, name := range []string{"b", "another b"} {
		for a, b := 0, 0; a < 3 || b < 3; {
			switch <-got {
			case probed{1, "I am a"}:
				a++
			case probed{2, "I am " + name}:
				b++
			}
		}
		must(t, b.Close())
		addr := b.addr
		b = newMember(t, 2, func(m *member, o *wire.Options) { both("I am another b")(m, o); o.Listener = listen(t, addr) })
		b.knows(t, a)
	}
}

// A member whose program does not know probes gets its messages all the same.
func TestProbe_refused(t *testing.T) {
	old := listen(t, "127.0.0.1:0")
	got, refused := make(chan byte), make(chan struct{})
	var serving sync.WaitGroup
	serve := func(c net.Conn) {
		defer c.Close()
		_, hello, _, err := wire.ReadFrame(c, 1<<10)
		if err != nil {
			return
		}
		if hello[6] != wire.ForMessages {
			_, _ = c.Write(wire.Frame(wire.Answer, []byte("\x01what is that?")))
			refused <- struct{}{}
			return
		}
		_, _ = c.Write(wire.Frame(wire.Answer, []byte{0}))
		for err == nil {
			var kind byte
			if kind, _, _, err = wire.ReadFrame(c, wire.MaxMessage); err == nil && kind == wire.Message {
				got <- kind
			}
		}
	}
	serving.Go(func() {
		for {
			c, err := old.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { serve(c) })
		}
	})
	a := newMember(t, 1, probing("", nil))
	must(t, a.SetPeers(map[uint64]string{2: old.Addr().String()}))
	for range 2 {
		<-refused
		a.Send([]*pb.Message{message(1, 2, 1, 0)})
		<-got
	}
	must(t, errors.Join(a.Close(), old.Close()))
	go func() {
		for range refused { // of an attempt under way
		}
	}()
	serving.Wait()
	close(refused)
}
