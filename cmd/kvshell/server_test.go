package main

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
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sievekv/sievekv/module"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/server/resp"
)

// testServer is a server of a store in memory: as simple as can be, with commands that servers should not have.
type testServer struct {
	db       *kv.DB
	password string
	listener net.Listener
	serving  sync.WaitGroup
	hung     chan struct{} // told of each command that gets no reply

	mu        sync.Mutex
	stopped   bool
	conns     map[net.Conn]bool
	log       []string // commands, as they came
	dropAfter string   // a command: the connection is closed instead of an answer to number dropCount of them
	dropCount int
}

// startServer serves a new store on an address. A server with an empty password needs none.
func startServer(network, address, password string, config *tls.Config) (*testServer, error) {
	db, err := openScratch()
	if err != nil {
		return nil, err
	}
	s := &testServer{db: db, password: password, conns: make(map[net.Conn]bool), hung: make(chan struct{}, 100)}
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

func (s *testServer) keep(conn net.Conn, keep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case keep && s.stopped: // accepted while the others were closed
		conn.Close()
	case keep:
		s.conns[conn] = true
	default:
		delete(s.conns, conn)
	}
}

func (s *testServer) port() string {
	_, port, _ := net.SplitHostPort(s.listener.Addr().String())
	return port
}

// drop closes all connections.
func (s *testServer) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		conn.Close()
	}
}

func (s *testServer) commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log
}

func (s *testServer) stop() error {
	err := s.listener.Close()
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.drop()
	s.serving.Wait()
	return errors.Join(err, s.db.Close())
}

// takes keeps a command in the log. It is false if the connection is to be closed.
func (s *testServer) takes(words [][]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, string(bytes.Join(words, []byte(" "))))
	if s.dropAfter == string(words[0]) {
		s.dropCount--
	}
	return s.dropAfter == "" || s.dropCount > 0
}

// testClient is a connection to a testServer.
type testClient struct {
	server   *testServer
	conn     net.Conn
	session  *module.Session
	protocol int
	known    bool // gave the password
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

// hangUp ends the connection so that the client gets the replies before: one that is closed while the other end
// sends is reset.
func (c *testClient) hangUp() {
	if tcp, ok := c.conn.(*net.TCPConn); ok {
		tcp.CloseWrite()
		io.Copy(io.Discard, c.conn)
	}
}

// answer runs a command; it is false to close the connection.
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
		c.server.hung <- struct{}{}
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

// serveFor starts a server for a test.
func serveFor(t *testing.T, password string) *testServer {
	t.Helper()
	s, err := startServer("tcp", "127.0.0.1:0", password, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// serve VARIABLE [PASSWORD] starts a server for a script, whose port goes to a variable. With a name that ends in
// .sock it is on a Unix socket of this name, with TLS as a variable it has a certificate, in cert.pem.
func serveScript(ts *testscript.TestScript, _ bool, args []string) {
	network, address, password := "tcp", "127.0.0.1:0", ""
	if len(args) > 1 {
		password = args[1]
	}
	if strings.HasSuffix(args[0], ".sock") {
		network, address = "unix", ts.MkAbs(args[0])
	}
	var config *tls.Config
	if args[0] == "TLS" {
		var cert []byte
		var err error
		config, cert, err = certificate()
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs("cert.pem"), cert, 0o666))
	}
	s, err := startServer(network, address, password, config)
	ts.Check(err)
	ts.Defer(func() { ts.Check(s.stop()) })
	if network == "tcp" {
		ts.Setenv(args[0], s.port())
	}
}

// certificate returns the configuration of a server with a certificate of its own, and that in PEM.
func certificate() (*tls.Config, []byte, error) {
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

func clientOf(t *testing.T, endpoint string) *client {
	t.Helper()
	c := newClient(&address{network: "tcp", endpoint: endpoint}, new(format), io.Discard)
	t.Cleanup(func() {
		c.close(nil)
		if c.helper != nil {
			c.helper.close(nil)
		}
	})
	return c
}

func (c *client) mustDo(t *testing.T, line string) reply.Reply {
	t.Helper()
	r, err := c.do(context.Background(), commandWords(strings.Fields(line)...))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return r
}

// The command table that a server sends is the store's own.
func TestClient_commands(t *testing.T) {
	s := serveFor(t, "")
	for _, protocol := range []int{2, 3} {
		c := clientOf(t, s.listener.Addr().String())
		c.address.protocol = protocol
		checkTable(t, c.commands(), module.Of(s.db).Commands())
	}
}

func checkTable(t *testing.T, table, want []*module.Command) {
	t.Helper()
	if len(table) != len(want) {
		t.Fatalf("%d commands, want %d", len(table), len(want))
	}
	for _, cmd := range want {
		got := findCommand(table, cmd.Name)
		if got == nil {
			t.Errorf("no %s", cmd.Name)
			continue
		}
		if text := describe(cmd); describe(got) != text {
			t.Errorf("%s:\n%s, want\n%s", cmd.Name, describe(got), text)
		}
		if got.Arity != cmd.Arity || got.Flags != cmd.Flags || got.FirstKey != cmd.FirstKey ||
			got.LastKey != cmd.LastKey || got.KeyStep != cmd.KeyStep {
			t.Errorf("%s: %+v, want %+v", cmd.Name, got, cmd)
		}
	}
}

// Tab asks for keys on a connection of its own: the one of the prompt may be in a transaction.
func TestClient_keys(t *testing.T) {
	s := serveFor(t, "")
	c := clientOf(t, s.listener.Addr().String())
	for _, key := range []string{"a1", "a2", "ab*", "ab*c", "abc", `\x`, "b"} {
		c.mustDo(t, "SET "+key+" 1")
	}
	c.mustDo(t, "MULTI")
	for prefix, want := range map[string]string{"a": "a1 a2 ab* ab*c abc", "ab*": "ab* ab*c", `\`: `\x`, "c": ""} {
		if got := strings.Join(c.keys(prefix), " "); got != want {
			t.Errorf("%q: %s, want %s", prefix, got, want)
		}
	}
	if c.isMissing(context.Background(), []byte("a1")) || !c.isMissing(context.Background(), []byte("x")) {
		t.Error("a key that is there is missing, or the other way round")
	}
	if r := c.mustDo(t, "EXEC"); r.Kind() != reply.KindArray || len(r.Elems()) != 0 {
		t.Errorf("the transaction had %v", r)
	}
}

// After a connection was lost, the next command connects again; but not where a transaction was lost with it, or what
// was watched for one.
func TestClient_lostConnection(t *testing.T) {
	s := serveFor(t, "")
	c := clientOf(t, s.listener.Addr().String())
	lose := func() {
		t.Helper()
		s.drop()
		<-c.conn.ended
	}
	c.mustDo(t, "SET k 1")
	c.mustDo(t, "SELECT 3")
	lose()
	if r := c.mustDo(t, "GET k"); string(r.Bytes()) != "1" {
		t.Errorf("GET after the connection was lost: %v", r)
	}
	if log := s.commands(); log[len(log)-2] != "SELECT 3" {
		t.Errorf("the database was not selected again: %q", log)
	}
	for _, before := range []string{"MULTI", "WATCH k"} {
		c.mustDo(t, before)
		lose()
		_, err := c.do(context.Background(), commandWords("SET", "k", "2"))
		const want = "the server closed the connection; with it went the transaction, and what was watched: " +
			"the command was not sent"
		if err == nil || !strings.HasSuffix(err.Error(), want) || exit.Code(err) != exit.Open {
			t.Errorf("after %s: %v", before, err)
		}
		if c.inTransaction() {
			t.Error("still in a transaction")
		}
		if r := c.mustDo(t, "GET k"); string(r.Bytes()) != "1" {
			t.Errorf("after %s: %v", before, r)
		}
	}
	for _, done := range []string{"EXEC", "DISCARD", "UNWATCH"} {
		c.mustDo(t, "WATCH k")
		if done != "UNWATCH" {
			c.mustDo(t, "MULTI")
		}
		c.mustDo(t, done)
		lose()
		c.mustDo(t, "PING")
	}
}

// A command whose reply does not come is not sent again.
func TestClient_noReply(t *testing.T) {
	s := serveFor(t, "")
	c := clientOf(t, s.listener.Addr().String())
	for command, want := range map[string]string{
		"CLOSE":   "the server closed the connection; whether the command was carried out is not known",
		"GARBAGE": `Protocol error, got "H" as reply type byte; whether the command was carried out is not known`,
	} {
		_, err := c.do(context.Background(), commandWords(command))
		if err == nil || !strings.HasSuffix(err.Error(), want) || exit.Code(err) != exit.Open {
			t.Errorf("%s: %v, want %s", command, err, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		_, err := c.do(ctx, commandWords("HANG"))
		ended <- err
	}()
	<-s.hung
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("HANG: %v", err)
	}
	c.mustDo(t, "PING")
	for _, command := range []string{"CLOSE", "GARBAGE"} {
		n := 0
		for _, line := range s.commands() {
			if line == command {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s was sent %d times", command, n)
		}
	}
}

func TestClient_subscribe(t *testing.T) {
	s := serveFor(t, "")
	for _, protocol := range []int{2, 3} {
		c := clientOf(t, s.listener.Addr().String())
		c.address.protocol = protocol
		words := commandWords("SUBSCRIBE", "news")
		ctx, cancel := context.WithCancel(context.Background())
		r, err := c.do(ctx, words)
		if err != nil || len(r.Elems()) != 3 {
			t.Fatalf("%v, %v", r, err)
		}
		var shown []string
		err = c.follow(ctx, words, r, func(r reply.Reply) error {
			shown = append(shown, string(r.Elems()[2].Bytes()))
			cancel()
			return nil
		})
		if !errors.Is(err, context.Canceled) || len(shown) != 1 || shown[0] != "hello" {
			t.Errorf("RESP%d: %q, %v", protocol, shown, err)
		}
		if c.mustDo(t, "PING"); c.conn == nil {
			t.Error("not connected again")
		}
	}
}

// The replies are those that redis-server 7.0.15 has for these commands.
func TestCommandTable(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "redis-docs.resp"))
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
	r := resp.NewReader(bytes.NewReader(b)) // kept as lines of text
	commands, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	docs, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"CONFIG": "GET parameter [parameter ...] | HELP | RESETSTAT | REWRITE | SET parameter value [parameter value ...]",
		"DEL":    "key [key ...]",
		"GET":    "key",
		"SET": "key value [NX|XX] [GET] " +
			"[EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]",
		"SORT": "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC|DESC] [ALPHA] " +
			"[STORE destination]",
		"XADD": "key [NOMKSTREAM] [MAXLEN|MINID [=|~] threshold [LIMIT count]] *|id field value [field value ...]",
		"PING": "[message]",
	}
	table := commandTable(commands, docs)
	for name, syntax := range want {
		cmd := findCommand(table, name)
		if cmd == nil {
			t.Errorf("no %s", name)
		} else if cmd.Syntax != syntax || cmd.Summary == "" || cmd.Group == "" {
			t.Errorf("%s: %q, %q, %q, want %q", name, cmd.Syntax, cmd.Summary, cmd.Group, syntax)
		}
	}
	get := findCommand(table, "get")
	if get.Flags != module.ReadOnly|module.Fast || get.Arity != 2 || get.FirstKey != 1 || get.LastKey != 1 || get.KeyStep != 1 {
		t.Errorf("GET is %+v", get)
	}
	if got := parseSyntax(findCommand(table, "config").Syntax).next([]string{"GET"}); len(got) > 0 {
		t.Errorf("after CONFIG GET there is %q", got)
	}
	// Before Redis 7.0 there are no docs.
	if table := commandTable(commands, reply.Nil); len(table) != len(want) || findCommand(table, "GET").Group != "other" {
		t.Errorf("without docs %v", table)
	}
	// What is not as expected is left out.
	odd := reply.Array(reply.Int(1), reply.Array(), reply.Array(repeated(reply.Nil, 6)...))
	if table := commandTable(odd, odd); len(table) != 1 || table[0].Name != "" {
		t.Errorf("of an odd reply %v", table)
	}
}

func repeated(r reply.Reply, n int) (elems []reply.Reply) {
	for range n {
		elems = append(elems, r)
	}
	return elems
}
