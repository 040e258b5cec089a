// Package servertest has servers for tests of clients.
package servertest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/server"
)

// Server is a simple server of a store in memory. It has commands for tests that real servers do not have, such as
// HANG.
type Server struct {
	DB       *kv.DB
	password string
	listener net.Listener
	serving  sync.WaitGroup
	Hung     chan struct{} // receives a value for each command that gets no reply

	mu        sync.Mutex
	stopped   bool
	conns     map[net.Conn]bool
	log       []string // commands, as they came
	dropAfter string   // a command: in place of the reply to its dropCount-th call the connection is closed
	dropCount int
}

// Start serves a new store on an address. A server with an empty password needs none.
func Start(network, address, password string, config *tls.Config) (*Server, error) {
	db, err := kv.Open("", &kv.Options{InMemory: true, Logger: slog.New(slog.DiscardHandler), Modules: module.New(sievekv.Modules()...)})
	if err != nil {
		return nil, err
	}
	s := &Server{DB: db, password: password, conns: make(map[net.Conn]bool), Hung: make(chan struct{}, 100)}
	if s.listener, err = net.Listen(network, address); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if config != nil {
		s.listener = tls.NewListener(s.listener, config)
	}
	s.serving.Go(func() {
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				return
			}
			s.keep(conn, true)
			s.serving.Go(func() {
				defer s.keep(conn, false)
				(&testClient{server: s, conn: conn, session: module.NewSession(db), protocol: 2}).serve()
			})
		}
	})
	return s, nil
}

func (s *Server) keep(conn net.Conn, keep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case keep && s.stopped: // it was accepted while Stop closed the others
		conn.Close()
	case keep:
		s.conns[conn] = true
	default:
		delete(s.conns, conn)
	}
}

// Addr returns the address of the server.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// DropAt has the connection closed in place of the reply to the n-th call of a command, "" for none.
func (s *Server) DropAt(command string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropAfter, s.dropCount = command, n
}

// Port returns the port of the server.
func (s *Server) Port() string {
	_, port, _ := net.SplitHostPort(s.listener.Addr().String())
	return port
}

// Drop closes all connections.
func (s *Server) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		conn.Close()
	}
}

// Commands returns the commands that came, in their order.
func (s *Server) Commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log
}

// Stop ends the server and closes its store.
func (s *Server) Stop() error {
	err := s.listener.Close()
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.Drop()
	s.serving.Wait()
	return errors.Join(err, s.DB.Close())
}

// takes adds a command to the log. It returns false if the connection must be closed.
func (s *Server) takes(words [][]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, string(bytes.Join(words, []byte(" "))))
	if s.dropAfter == string(words[0]) {
		s.dropCount--
	}
	return s.dropAfter == "" || s.dropCount > 0
}

// testClient is a connection to a Server.
type testClient struct {
	server   *Server
	conn     net.Conn
	session  *module.Session
	protocol int
	known    bool // has given the password
}

func (c *testClient) serve() {
	defer c.conn.Close()
	d := resp.NewDecoder(resp.Limits{})
	for {
		words, ok, err := d.Next()
		if err == nil && !ok {
			_, err = d.Fill(c.conn)
		}
		if err != nil {
			return
		}
		if !ok {
			continue
		}
		if !c.server.takes(words) || !c.answer(words) {
			c.hangUp()
			return
		}
	}
}

// hangUp ends the connection so that the client still gets earlier replies. A connection that is closed while the
// other end sends would be reset, and replies would be lost.
func (c *testClient) hangUp() {
	if tcp, ok := c.conn.(*net.TCPConn); ok {
		tcp.CloseWrite()
		io.Copy(io.Discard, c.conn)
	}
}

// answer runs a command. It returns false if the connection must be closed.
func (c *testClient) answer(words [][]byte) bool {
	send := func(r reply.Reply) { c.conn.Write(resp.Append(nil, r, c.protocol)) }
	push := func(texts ...string) {
		r := bulks(texts...)
		wire := resp.Append(nil, r, c.protocol)
		if c.protocol == 3 {
			wire[0] = '>'
		}
		c.conn.Write(wire)
	}
	name := strings.ToUpper(string(words[0]))
	needs := c.server.password
	switch {
	case name == "AUTH" && needs == "":
		send(reply.Error("ERR AUTH <password> called without any password configured for the default user. " +
			"Are you sure your configuration is correct?"))
	case name == "AUTH" && string(words[len(words)-1]) != needs:
		send(reply.Error("WRONGPASS invalid username-password pair or user is disabled."))
	case name == "AUTH":
		c.known = true
		send(reply.OK)
	case needs != "" && !c.known:
		send(reply.Error("NOAUTH Authentication required."))
	case name == "HELLO":
		c.protocol, _ = strconv.Atoi(string(words[1]))
		send(reply.Map(reply.Field("proto", reply.Int(int64(c.protocol)))))
	case name == "SELECT":
		send(reply.OK)
	case name == "HANG": // no reply, but the connection stays
		c.server.Hung <- struct{}{}
	case name == "CLOSE":
		return false
	case name == "GARBAGE":
		c.conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n"))
	case name == "SUBSCRIBE":
		push("subscribe", string(words[1]), "1")
		push("message", string(words[1]), "hello")
	default:
		send(c.session.Do(context.Background(), words))
	}
	return true
}

func bulks(texts ...string) reply.Reply {
	elems := make([]reply.Reply, len(texts))
	for i, text := range texts {
		elems[i] = reply.BulkString(text)
	}
	return reply.Array(elems...)
}

// Serve starts a server for a test.
func Serve(t *testing.T, password string) *Server {
	t.Helper()
	s, err := Start("tcp", "127.0.0.1:0", password, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Certificate returns the configuration of a server with a certificate of its own, and that in PEM.
func Certificate() (*tls.Config, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	return config, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// ServeStore serves a new store in memory by package server, and returns its address.
func ServeStore(t *testing.T) (db *kv.DB, endpoint string) {
	t.Helper()
	db, err := kv.Open("", &kv.Options{
		InMemory: true, Modules: module.New(append(sievekv.Modules(), server.Module())...), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		err := s.Shutdown(context.Background())
		if ended := <-served; !errors.Is(ended, server.ErrServerClosed) {
			t.Error(ended)
		}
		if err := errors.Join(err, db.Close()); err != nil {
			t.Error(err)
		}
	})
	return db, l.Addr().String()
}
