package wire_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/goleak"

	"github.com/sievekv/sievekv/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var cluster = [16]byte{1, 2, 3}

// authority is a CA of a group.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "group"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &authority{key, cert, pool}
}

// config returns the TLS configuration of a member.
func (a *authority) config(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "member"}, NotAfter: time.Now().Add(time.Hour),
		DNSNames:    []string{"member"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	must(t, err)
	return &tls.Config{RootCAs: a.pool, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lines is a logger's output.
type lines struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

// await waits until the log has some words.
func (l *lines) await(words string) {
	for {
		l.mu.Lock()
		found := strings.Contains(l.all.String(), words)
		l.mu.Unlock()
		if found {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// member is a transport, and what it got.
type member struct {
	*wire.Transport
	id          uint64
	addr        string
	got         chan *pb.Message
	unreachable chan uint64
	log         lines
}

func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	must(t, err)
	return l
}

// newMember starts a transport on a loopback address. Change may change its options.
func newMember(t *testing.T, id uint64, change func(m *member, o *wire.Options)) *member {
	t.Helper()
	m := &member{id: id, got: make(chan *pb.Message, 10000), unreachable: make(chan uint64, 10000)}
	o := wire.Options{
		Self: id, Cluster: cluster, Silence: time.Hour,
		Handle:         func(_ uint64, msg *pb.Message) { m.got <- msg },
		HandleSnapshot: func(context.Context, uint64, *pb.Message, io.Reader) error { return errors.New("no snapshots") },
		Unreachable:    func(id uint64) { m.unreachable <- id },
		Logger:         slog.New(slog.NewTextHandler(&m.log, nil)),
	}
	if change != nil {
		change(m, &o)
	}
	if o.Listener == nil {
		o.Listener = listen(t, "127.0.0.1:0")
	}
	m.addr = o.Listener.Addr().String()
	var err error
	m.Transport, err = wire.New(o)
	must(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// knows makes a member know others.
func (m *member) knows(t *testing.T, others ...*member) {
	t.Helper()
	peers := map[uint64]string{m.id: m.addr}
	for _, o := range others {
		peers[o.id] = o.addr
	}
	must(t, m.SetPeers(peers))
}

// message is one of raft's, with a number.
func message(from, to, number uint64, size int) *pb.Message {
	m := &pb.Message{Type: pb.MsgApp.Enum(), From: &from, To: &to, Index: &number}
	if size > 0 {
		m.Entries = []*pb.Entry{{Index: &number, Data: make([]byte, size)}}
	}
	return m
}

// reach sends messages until one arrives.
func reach(from, to *member, number uint64) {
	for {
		from.Send([]*pb.Message{message(from.id, to.id, number, 0)})
		select {
		case m := <-to.got:
			if m.GetIndex() == number {
				return
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func withTLS(c *tls.Config) func(*member, *wire.Options) {
	return func(_ *member, o *wire.Options) { o.TLS = c }
}

// Messages arrive as they were sent, and in order, with TLS and without, small and large.
func TestSend(t *testing.T) {
	ca := newAuthority(t)
	for name, config := range map[string]func() func(*member, *wire.Options){
		"plain": func() func(*member, *wire.Options) { return nil },
		"TLS":   func() func(*member, *wire.Options) { return withTLS(ca.config(t)) },
		"TLS with a name, and certificates that are read anew": func() func(*member, *wire.Options) {
			c := ca.config(t)
			cert := c.Certificates[0]
			c.Certificates, c.ServerName = nil, "member"
			c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil }
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
			return withTLS(c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newMember(t, 1, config()), newMember(t, 2, config())
			b.knows(t, a)
			a.knows(t, b)
			reach(a, b, 1<<40)
			reach(b, a, 1<<40)
			for i := range uint64(1000) {
				a.Send([]*pb.Message{message(1, 2, 2*i, 10), message(1, 7, 0, 0), message(1, 2, 2*i+1, 100)})
			}
			a.Send([]*pb.Message{message(1, 2, 2000, 9<<20)})
			for i := range uint64(2001) {
				m := <-b.got
				for m.GetIndex() == 1<<40 { // from reach
					m = <-b.got
				}
				if m.GetIndex() != i || m.GetFrom() != 1 || i == 2000 && len(m.GetEntries()[0].GetData()) != 9<<20 {
					t.Fatalf("message %d: %v", i, m.GetIndex())
				}
			}
		})
	}
}

// A member that was restarted, at the same or another address, is reached again, both ways.
func TestSend_restarted(t *testing.T) {
	a, b := newMember(t, 1, nil), newMember(t, 2, nil)
	a.knows(t, b)
	b.knows(t, a)
	reach(a, b, 1)
	for _, addr := range []string{b.addr, "127.0.0.1:0"} {
		must(t, b.Close())
		<-a.unreachable
		b = newMember(t, 2, func(_ *member, o *wire.Options) { o.Listener = listen(t, addr) })
		b.knows(t, a)
		a.knows(t, b)
		reach(a, b, 2)
		reach(b, a, 3)
	}
}

// A member that does not take its messages makes Send drop them, and Unreachable is told; the others get theirs.
func TestSend_slow(t *testing.T) {
	free := make(chan struct{})
	slow := newMember(t, 2, func(m *member, o *wire.Options) {
		o.Handle = func(_ uint64, msg *pb.Message) { <-free; m.got <- msg }
	})
	a := newMember(t, 1, func(_ *member, o *wire.Options) { o.Queue = 2 << 20 })
	b := newMember(t, 3, nil)
	slow.knows(t, a)
	b.knows(t, a)
	a.knows(t, slow, b)
	const sent = 64
	for i := range uint64(sent) {
		a.Send([]*pb.Message{message(1, 2, i, 1<<20)})
		reach(a, b, i)
	}
	close(free)
	for id := range a.unreachable {
		if id == 2 {
			break
		}
	}
	reach(a, slow, sent)
}

// A member that says nothing any more is cut, and dialed again.
func TestSend_silent(t *testing.T) {
	silent := listen(t, "127.0.0.1:0")
	greeted := make(chan net.Conn)
	var dialed sync.WaitGroup
	dialed.Go(func() {
		for range 2 {
			c, err := silent.Accept()
			if err == nil && wire.Greet(c) == nil {
				greeted <- c
			}
		}
	})
	a := newMember(t, 1, func(_ *member, o *wire.Options) { o.Silence = 300 * time.Millisecond })
	must(t, a.SetPeers(map[uint64]string{2: silent.Addr().String()}))
	first := <-greeted
	a.Send([]*pb.Message{message(1, 2, 1, 8<<20)})
	<-a.unreachable
	second := <-greeted
	must(t, a.Close())
	must(t, errors.Join(first.Close(), second.Close(), silent.Close()))
	dialed.Wait()
}

// A dialer that does not belong to the group is refused, and both sides say why.
func TestRefused(t *testing.T) {
	ca := newAuthority(t)
	other := newAuthority(t).config(t)
	stranger := ca.config(t)
	stranger.RootCAs = other.RootCAs // it trusts the wrong CA
	misnamed := ca.config(t)
	misnamed.ServerName = "other"
	imposter := ca.config(t)
	imposter.Certificates = other.Certificates
	for name, tt := range map[string]struct {
		dialer       func(*member, *wire.Options)
		to           uint64 // whom the dialer means, at the address of member 2
		known        bool
		here, remote string // in the log of the dialer, and of the other
	}{
		"another group": {func(_ *member, o *wire.Options) { o.TLS = ca.config(t); o.Cluster[0] = 9 }, 2, true,
			"refuses: member 1 is of group 0902", "member 1 is of group 0902"},
		"another member": {withTLS(ca.config(t)), 3, true, "wants member 3, this is member 2", "wants member 3, this is member 2"},
		"unknown":        {withTLS(ca.config(t)), 2, false, "member 1 is not one that member 2 knows", "member 1 is not one that member 2 knows"},
		"wrong CA":       {withTLS(stranger), 2, true, "signed by unknown authority", "bad certificate"},
		"wrong name":     {withTLS(misnamed), 2, true, "valid for member, not other", "bad certificate"},
		"wrong key":      {withTLS(imposter), 2, true, "unknown certificate authority", "signed by unknown authority"},
		"no TLS":         {nil, 2, true, "cannot be reached", "first record does not look like a TLS handshake"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newMember(t, 1, tt.dialer), newMember(t, 2, withTLS(ca.config(t)))
			if tt.known {
				must(t, b.SetPeers(map[uint64]string{1: "127.0.0.1:1"}))
			}
			must(t, a.SetPeers(map[uint64]string{tt.to: b.addr}))
			a.log.await(tt.here)
			b.log.await(tt.remote)
			<-a.unreachable
			if len(b.got) > 0 {
				t.Error("a message arrived")
			}
		})
	}
}

// Without TLS, and without a CA of its own, a group stays on one machine.
func TestNew_insecure(t *testing.T) {
	o := wire.Options{
		Self: 1, Handle: func(uint64, *pb.Message) {},
		HandleSnapshot: func(context.Context, uint64, *pb.Message, io.Reader) error { return nil },
	}
	for name, tt := range map[string]struct {
		addr string
		tls  *tls.Config
		want string
	}{
		"all addresses":  {"0.0.0.0:0", nil, "is not a loopback address, and there is no TLS"},
		"no CA":          {"127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{}}}, "RootCAs"},
		"no certificate": {"127.0.0.1:0", &tls.Config{RootCAs: x509.NewCertPool()}, "no certificate"},
	} {
		o.Listener, o.TLS = listen(t, tt.addr), tt.tls
		if _, err := wire.New(o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		must(t, o.Listener.Close())
	}
	a := newMember(t, 1, nil)
	for _, addr := range []string{"10.0.0.1:1", "example.com:80", "loopback", "[fe80::1]:1"} {
		if err := a.SetPeers(map[uint64]string{2: addr}); err == nil || !strings.Contains(err.Error(), strings.Trim(addr, ":1")) {
			t.Errorf("%s: %v", addr, err)
		}
	}
	must(t, a.SetPeers(map[uint64]string{2: "localhost:1", 3: "[::1]:1"}))
}

// raw returns a connection of bytes to a member that has said hello.
func raw(t *testing.T, to *member, kind byte, from uint64) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", to.addr)
	must(t, err)
	_, err = c.Write(wire.Frame(wire.Hello, wire.HelloOf(kind, cluster, from, to.id)))
	must(t, err)
	answer, body, _, err := wire.ReadFrame(c, 1000)
	if err != nil || answer != wire.Answer || body[0] != 0 {
		t.Fatalf("answer %d, %q, %v", answer, body, err)
	}
	return c
}

// What a member cannot have sent ends its connection.
func TestReceive_nonsense(t *testing.T) {
	b := newMember(t, 2, nil)
	must(t, b.SetPeers(map[uint64]string{1: "127.0.0.1:1"}))
	encoded := func(change func(m *pb.Message)) []byte {
		m := message(1, 2, 1, 0)
		change(m)
		return wire.Frame(wire.Message, marshal(t, m))
	}
	tooLong := wire.Frame(wire.Message, nil)
	tooLong[0], tooLong[3] = 1, wire.MaxMessage>>24
	flipped := encoded(func(*pb.Message) {})
	flipped[len(flipped)-1] ^= 1
	for name, tt := range map[string]struct {
		b    []byte
		want string
	}{
		"too long":      {tooLong, "67108865 bytes, and at most 67108864"},
		"flipped":       {flipped, "checksum"},
		"no message":    {wire.Frame(wire.Message, []byte("\xff\xff")), "not a frame of a group"},
		"another kind":  {wire.Frame(wire.Data, []byte("x")), "kind 4 in place of a message"},
		"another's":     {encoded(func(m *pb.Message) { m.From = new(uint64(3)) }), "of member 3 to member 2"},
		"for another":   {encoded(func(m *pb.Message) { m.To = new(uint64(3)) }), "of member 1 to member 3"},
		"local":         {encoded(func(m *pb.Message) { m.Type = pb.MsgHup.Enum() }), "MsgHup"},
		"unknown":       {encoded(func(m *pb.Message) { m.Type = pb.MessageType(-1).Enum() }), "a -1 of member 1"},
		"to the thread": {encoded(func(m *pb.Message) { m.Type = pb.MsgStorageAppendResp.Enum() }), "MsgStorageAppendResp"},
	} {
		c := raw(t, b, wire.ForMessages, 1)
		_, err := c.Write(tt.b)
		must(t, err)
		_, _ = io.Copy(io.Discard, c) // until the other side closes it
		b.log.await(tt.want)
		must(t, c.Close())
		if len(b.got) > 0 {
			t.Errorf("%s: a message arrived", name)
		}
	}
}

// Messages that a follower passes on to the leader are another's.
func TestReceive_passedOn(t *testing.T) {
	b := newMember(t, 2, nil)
	must(t, b.SetPeers(map[uint64]string{1: "127.0.0.1:1"}))
	c := raw(t, b, wire.ForMessages, 1)
	defer c.Close()
	for _, kind := range []pb.MessageType{pb.MsgTransferLeader, pb.MsgReadIndex, pb.MsgProp} {
		m := message(3, 2, 1, 0)
		m.Type = kind.Enum()
		_, err := c.Write(wire.Frame(wire.Message, marshal(t, m)))
		must(t, err)
		if got := <-b.got; got.GetType() != kind || got.GetFrom() != 3 {
			t.Errorf("%v", got)
		}
	}
}

// Strangers that say nothing, or nonsense, cost little, and keep no member out.
func TestAccept_strangers(t *testing.T) {
	ca := newAuthority(t)
	b := newMember(t, 2, withTLS(ca.config(t)))
	var conns []net.Conn
	const strangers, most = 200, 64
	for i := range strangers {
		c, err := net.Dial("tcp", b.addr)
		must(t, err)
		conns = append(conns, c)
		if i%3 == 0 {
			_, _ = c.Write([]byte{22, 3, 1, 1}) // TLS begins so
		}
	}
	for _, c := range conns[:strangers-most] {
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Error(err)
		}
	}
	if n := b.Strangers(); n > most {
		t.Errorf("%d strangers", n)
	}
	a := newMember(t, 1, withTLS(ca.config(t)))
	b.knows(t, a)
	a.knows(t, b)
	reach(a, b, 1)
	for _, c := range conns {
		must(t, c.Close())
	}
	nonsense, err := net.Dial("tcp", b.addr)
	must(t, err)
	_, err = nonsense.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
	must(t, err)
	_, _ = io.Copy(io.Discard, nonsense)
	must(t, nonsense.Close())
	b.log.await("was refused")
}

// A stranger that says something all the time, but no hello, is cut all the same.
func TestAccept_endless(t *testing.T) {
	b := newMember(t, 2, func(_ *member, o *wire.Options) { o.Silence = 200 * time.Millisecond })
	c, err := net.Dial("tcp", b.addr)
	must(t, err)
	for err == nil {
		_, err = c.Write(wire.Frame(wire.Ping, nil))
		time.Sleep(time.Millisecond)
	}
	must(t, c.Close())
	b.log.await("was refused")
}

// Close ends everything that is under way.
func TestClose(t *testing.T) {
	reading, writing := make(chan struct{}), make(chan struct{})
	b := newMember(t, 2, func(m *member, o *wire.Options) {
		o.HandleSnapshot = func(_ context.Context, _ uint64, _ *pb.Message, r io.Reader) error {
			close(reading)
			_, err := io.Copy(io.Discard, r)
			return err
		}
	})
	a := newMember(t, 1, nil)
	gone := newMember(t, 3, nil)
	must(t, gone.Close())
	b.knows(t, a)
	a.knows(t, b, gone)
	reach(a, b, 1)
	var sending sync.WaitGroup
	sending.Go(func() {
		err := a.SendSnapshot(t.Context(), 2, message(1, 2, 1, 0), func(w io.Writer) error {
			close(writing)
			for {
				if _, err := w.Write(make([]byte, 1000)); err != nil {
					return err
				}
			}
		})
		if err == nil {
			t.Error("a snapshot without an end was sent")
		}
	})
	<-reading
	<-writing
	stranger, err := net.Dial("tcp", b.addr)
	must(t, err)
	for i := range uint64(50) {
		a.Send([]*pb.Message{message(1, 2, i, 1<<20)})
	}
	must(t, b.Close())
	must(t, a.Close())
	sending.Wait()
	must(t, b.Close())
	must(t, stranger.Close())
	if err := a.SetPeers(nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("SetPeers after Close: %v", err)
	}
	a.Send([]*pb.Message{message(1, 2, 1, 0)})
	if err := a.SendSnapshot(t.Context(), 2, message(1, 2, 1, 0), nil); err == nil {
		t.Error("SendSnapshot after Close")
	}
	goleak.VerifyNone(t)
}

func ExampleOptions() {
	fmt.Println(wire.New(wire.Options{}))
	// Output: <nil> Options lacks Self, Listener, Handle or HandleSnapshot
}
