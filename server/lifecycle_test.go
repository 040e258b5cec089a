package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/server"
	"github.com/sievekv/sievekv/tests/faultfs"
	"github.com/sievekv/sievekv/tests/wire"
)

func TestNew_withoutModule(t *testing.T) {
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := server.New(db.Store(), nil); err == nil || s != nil || !strings.Contains(err.Error(), "server.Module()") {
		t.Errorf("New of a store without the module = %v, %v", s, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestNew_closedStore(t *testing.T) {
	w := serve(t, nil)
	w.shutdown()
	if err := w.db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := server.New(w.db.Store(), nil); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("New of a closed store: %v", err)
	}
}

func TestNew_twice(t *testing.T) {
	w := serve(t, nil)
	if _, err := server.New(w.db.Store(), nil); err == nil || !strings.Contains(err.Error(), "has a server already") {
		t.Errorf("a second server of a store: %v", err)
	}
	w.client().answers("SET k v => +OK") // the first is as before
	w.shutdown()
	// After Shutdown the store may have another server, with its own clients and counts.
	second, err := server.New(w.db.Store(), &server.Options{Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	again := &world{t: t, db: w.db, server: second, pipes: wire.NewListener(), log: w.log}
	t.Cleanup(again.shutdown)
	again.listen(again.pipes)
	c := again.client()
	c.answers(`
GET k => -NOAUTH Authentication required.
AUTH secret => +OK
GET k => "v"
CLIENT ID => :1
`)
	if got := c.info("stats", "total_connections_received"); got != "1" {
		t.Errorf("%s connections are counted, want 1", got)
	}
}

// Two stores of a process may each have a server.
func TestNew_twoStores(t *testing.T) {
	a, b := serve(t, nil), serve(t, nil)
	a.client().answers("SET k a => +OK")
	b.client().answers("GET k => $-1\nSET k b => +OK")
	a.client().answers(`GET k => "a"`)
}

func TestServe_afterShutdown(t *testing.T) {
	w := serve(t, nil)
	w.shutdown()
	l := wire.NewListener()
	if err := w.server.Serve(l); !errors.Is(err, server.ErrServerClosed) {
		t.Errorf("Serve after Shutdown = %v", err)
	}
	if c, err := l.Dial(nil); err == nil {
		t.Errorf("the listener is open: %v", c)
	}
	ours, theirs := net.Pipe()
	go w.server.ServeConn(theirs)
	(&client{wire.New(ours), t}).ended()
}

// A listener that fails ends its own Serve only.
func TestServe_listenerEnds(t *testing.T) {
	w := serve(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- w.server.Serve(l) }()
	c := w.dial(l)
	c.answers("PING => +PONG")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || errors.Is(err, server.ErrServerClosed) || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("Serve = %v", err)
	}
	c.answers("PING => +PONG")
	w.client().answers("PING => +PONG")
}

// flaky is a listener that fails before each connection as if no descriptor were free.
type flaky struct {
	*wire.Listener
	failed atomic.Int32
}

type tooManyFiles struct{}

func (tooManyFiles) Error() string   { return "accept: too many open files" }
func (tooManyFiles) Timeout() bool   { return false }
func (tooManyFiles) Temporary() bool { return true }

func (l *flaky) Accept() (net.Conn, error) {
	if l.failed.Add(1)%3 != 0 {
		return nil, tooManyFiles{}
	}
	return l.Listener.Accept()
}

func TestServe_temporaryFailure(t *testing.T) {
	w := serve(t, nil)
	l := &flaky{Listener: wire.NewListener()}
	w.listen(l)
	for range 3 {
		c, err := l.Dial(nil)
		w.own(c, err).answers("PING => +PONG")
	}
	if !strings.Contains(w.log.String(), "too many open files") {
		t.Errorf("nothing about it in the log:\n%s", w.log)
	}
}

func TestServeConn(t *testing.T) {
	w := serve(t, nil)
	ours, theirs := net.Pipe()
	ended := make(chan struct{})
	go func() {
		w.server.ServeConn(theirs)
		close(ended)
	}()
	c := w.own(wire.New(ours), nil)
	c.answers("SET k v => +OK\nQUIT => +OK")
	c.ended()
	<-ended
	w.set("maxclients", "1")
	w.client().answers(`GET k => "v"`)
	ours, theirs = net.Pipe()
	go w.server.ServeConn(theirs)
	c = w.own(wire.New(ours), nil)
	c.want("-ERR max number of clients reached")
	c.ended()
}

// Shutdown ends clients between commands, and lets others finish their batch.
func TestShutdown(t *testing.T) {
	var held atomic.Bool
	reached, release := make(chan struct{}), make(chan struct{})
	fs := &faultfs.FS{FS: vfs.NewMem(), Before: func(s faultfs.Site, name string) error {
		if s.Op == "sync" && strings.HasSuffix(name, ".log") && held.CompareAndSwap(true, false) {
			close(reached)
			<-release
		}
		return nil
	}}
	w := serveStore(t, onDisk(fs), nil)
	idle, half, multi, atIt := w.client(), w.client(), w.client(), w.client()
	idle.answers("SET k v => +OK")
	half.send("*2\r\n$3\r\nGET\r\n")
	multi.answers("MULTI => +OK\nSET k multi => +QUEUED")
	held.Store(true)
	atIt.send(pipeline("GET k", "SET k w", "INCR n") + "*2\r\n$3\r\nGET\r\n")
	<-reached
	done := make(chan error)
	go func() { done <- w.server.Shutdown(context.Background()) }()
	for _, c := range []*client{idle, half, multi} {
		c.ended()
	}
	if c, err := w.pipes.Dial(nil); err == nil {
		(&client{c, t}).ended()
	}
	select {
	case err := <-done:
		t.Errorf("Shutdown did not wait: %v", err)
	default:
	}
	close(release)
	atIt.want(`"v"`, "+OK", ":1")
	atIt.ended()
	if err := <-done; err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	if err := w.server.Shutdown(context.Background()); err != nil {
		t.Errorf("a second Shutdown = %v", err)
	}
	if m, err := w.db.Store().Metrics(); err != nil || m.DurableSequence < m.LastSequence {
		t.Errorf("after Shutdown %d of %d are durable, %v", m.DurableSequence, m.LastSequence, err)
	}
}

// After Shutdown, writes that did not wait for the disk are on it.
func TestShutdown_syncs(t *testing.T) {
	fs := kvtest.NewDisk()
	o := onDisk(fs)
	o.Durability = kv.NoSync
	w := serveStore(t, o, nil)
	w.client().answers("SET k v => +OK")
	w.shutdown()
	db, err := sievekv.Open("store", &sievekv.Options{FS: fs.CrashClone(vfs.CrashCloneCfg{}), BallastSize: -1, MinFreeSpace: -1, MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := module.NewSession(db.Store()).Do(t.Context(), [][]byte{[]byte("GET"), []byte("k")}).String(); got != `"v"` {
		t.Errorf("after a crash the key is %s", got)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// When its time is over, Shutdown closes connections that do not read.
func TestShutdown_giveUp(t *testing.T) {
	w := serve(t, nil)
	c := w.client()
	c.send(pipeline("PING")) // and reads nothing
	eventually(t, "the reply is on its way", func() bool { return w.server.Held() > 0 })
	ctx, cancel := context.WithTimeoutCause(context.Background(), soon, errors.New("out of patience"))
	defer cancel()
	if err := w.server.Shutdown(ctx); err == nil || !strings.Contains(err.Error(), "out of patience") {
		t.Errorf("Shutdown = %v", err)
	}
	c.ended()
}

// Clients that are refused and do not read why leave nothing behind.
func TestShutdown_refused(t *testing.T) {
	before := goleak.IgnoreCurrent()
	w := serve(t, nil)
	w.set("maxclients", "1")
	w.client().answers("PING => +PONG")
	for range 3 {
		w.client()
	}
	w.shutdown()
	if err := w.db.Close(); err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, before)
}

// A store that is closed under its server answers errors, and the server ends.
func TestStoreClosedFirst(t *testing.T) {
	w := serve(t, nil)
	c := w.client()
	c.answers("SET k v => +OK")
	if err := w.db.Close(); err != nil {
		t.Fatal(err)
	}
	c.answers("GET k => -ERR store is closed\nPING => +PONG")
	c.send(pipeline("SET k w", "SET k x", "PING"))
	c.want("-ERR store is closed", "-ERR store is closed", "+PONG")
	if err := w.server.Shutdown(context.Background()); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("Shutdown = %v", err)
	}
	c.ended()
}

func TestUnixSocket(t *testing.T) {
	w := serve(t, nil)
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	w.listen(l)
	c, other := w.dial(l), w.dial(l)
	other.answers("PING => +PONG")
	c.answers(`
SET k v => +OK
GET k => "v"
CLIENT LIST => "id=... addr=` + path + `:0 laddr=` + path + `:0 fd=...\n"
`)
	if got := c.info("server", "tcp_port"); got != "0" {
		t.Errorf("tcp_port is %s", got)
	}
	c.answers("CLIENT KILL ADDR " + path + ":0 => :1")
	other.ended()
}

// certificate makes one for this machine, and the pool that trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestTLS(t *testing.T) {
	w := serve(t, server.Options{Password: "secret"}.WithTimes(long, soon, soon))
	pair, pool := certificate(t)
	l := tls.NewListener(listenTCP(t), &tls.Config{Certificates: []tls.Certificate{pair}})
	w.listen(l)
	own := listenTCP(t)
	w.listenTLS(own, &tls.Config{Certificates: []tls.Certificate{pair}})
	// A client that does not finish its TLS handshake is closed when the time for a handshake is over.
	for _, l := range []net.Listener{l, own} {
		beginHandshakes(w, l)
	}
	// The handshakes of these two are slow with the race detector.
	slow := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long))
	l = listenTCP(t)
	slow.listenTLS(l, &tls.Config{Certificates: []tls.Certificate{pair}})
	dial := func() *client {
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool})
		if err != nil {
			t.Fatal(err)
		}
		return slow.own(wire.New(conn), nil)
	}
	c := dial()
	c.answers("AUTH secret => +OK")
	go func() { _ = c.Send(commandOf("SET", "k", strings.Repeat("v", 3<<20)) + pipeline("STRLEN k", "GET k")) }()
	c.want("+OK", ":3145728", `"`+strings.Repeat("v", 3<<20)+`"`)
	slow.set("maxclients", "1")
	// A handshake only to say why would be work that any client could cause.
	if conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool}); err == nil {
		t.Errorf("a client has had a handshake, %v, though there is no place for it", conn.Close())
	}
	if got := c.info("server", "tcp_port"); !strings.HasSuffix(l.Addr().String(), ":"+got) {
		t.Errorf("tcp_port is %s, listening on %s", got, l.Addr())
	}
}

// beginHandshakes connects clients that do not finish their handshakes.
func beginHandshakes(w *world, l net.Listener) {
	t := w.t
	for _, text := range []string{"", "PING\r\n", "\x16\x03\x01", "\x16\x03\x01\xff\xff"} {
		raw := w.dial(l)
		raw.send(text)
		if rest, err := raw.Rest(); strings.Contains(rest, "PONG") || strings.Contains(rest, "NOAUTH") {
			t.Errorf("without TLS %q is answered with %q, %v", text, rest, err)
		}
	}
}
