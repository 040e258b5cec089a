package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv/internal/acl"
	"github.com/sievekv/sievekv/internal/cluster"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// Options configure a server. The zero value and a nil *Options mean the defaults.
type Options struct {
	// Password is what clients must give to AUTH or HELLO before any other command. Default none: then the server
	// accepts only clients on the same machine, unless ProtectedModeOff is set.
	Password string

	// ACLFile is the name of a file with users in the format of Redis. ACL LOAD reads it, ACL SAVE writes it. Set
	// either ACLFile or Password. Default none: there is the default user, and the users that ACL SETUSER makes exist
	// until the server ends.
	ACLFile string

	// ACL is the content of ACLFile, for a program that has read it already: a pipe can be read only once. Default
	// nil: New reads the file.
	ACL []byte

	// ProtectedModeOff accepts clients from other machines even if there is no password.
	ProtectedModeOff bool

	// Group is the group that the store belongs to. Its module GroupModule must be among the store's modules, beside Module.
	// Default nil: the store is alone.
	Group cluster.Group

	// Logger receives what an operator should know. Default: the store's logger.
	Logger *slog.Logger

	// limits replaces the limits that are not settings, for tests.
	limits *limits
}

// ErrServerClosed is the error of Serve after Shutdown or the command SHUTDOWN.
var ErrServerClosed = errors.New("server: closed")

// Server serves one store. Its methods may be called from any goroutine.
type Server struct {
	db            *kv.DB
	host          *module.Host
	slowerThan    func() int64 // the setting slowerThanSetting
	opts          Options
	group         cluster.Group // nil if the store is alone
	logger        *slog.Logger
	warnings      warnings
	hub           *hub
	started       time.Time
	runID         string // random, 40 hexadecimal digits
	limits        limits
	room          room          // by kind of connection
	refusing      chan struct{} // one element for each connection that is being refused
	large         chan struct{} // a semaphore: one element for each large command that runs
	huge          chan struct{} // likewise for huge commands
	admission     *admission
	transactions  *admission   // for transactions that write and may take long
	longAdmission *admission   // for connections whose turns take long
	held          atomic.Int64 // bytes of all connections except strangers
	strangers     strangers
	guesses       guesses
	handshakes    *handshakes
	stats         *stats
	slow          slowLog
	monitors      monitors
	users         *acl.Lists
	denials       aclLog
	filters       filters
	trackers      trackers
	watched       atomic.Int32 // connections with a watch
	savingACL     sync.Mutex   // held while the ACL file is written

	metricsGuesses guesses      // wrong passwords for the metrics and pages
	metricsDelayed atomic.Int32 // requests for metrics and pages that wait because of wrong passwords
	metricsPace    pace
	pagesPace      pace

	// ctx ends when Shutdown gives up the commands that still run.
	ctx    context.Context
	cancel context.CancelFunc

	shutdownAsked chan struct{} // closed by the command SHUTDOWN
	askOnce       sync.Once

	mu           sync.Mutex
	shuttingDown bool
	stopping     chan struct{} // closed when shuttingDown is set
	listeners    map[net.Listener]struct{}
	conns        map[*conn]struct{}
	nextID       int64
	idle         sync.WaitGroup // counts connections, including those that are being refused
}

// New returns a server for a store that was opened with Module among its modules. A store has one server at a time.
func New(db *kv.DB, o *Options) (*Server, error) {
	s := &Server{
		db: db, host: module.Of(db), started: time.Now(), runID: newRunID(), limits: defaultLimits(),
		shutdownAsked: make(chan struct{}), stopping: make(chan struct{}),
		listeners: make(map[net.Listener]struct{}), conns: make(map[*conn]struct{}),
	}
	if o != nil {
		s.opts = *o
	}
	if s.group = s.opts.Group; s.group != nil && s.host.Command([]byte(sieveRead)) == nil {
		return nil, errors.New("server: Options.Group is set, and the store was opened without server.GroupModule() in Options.Modules")
	}
	if s.opts.limits != nil {
		s.limits = *s.opts.limits
	}
	if s.logger = s.opts.Logger; s.logger == nil {
		s.logger = db.Logger()
	}
	if s.opts.Password != "" {
		if err := checkPassword("Options.Password", s.opts.Password); err != nil {
			return nil, err
		}
	}
	s.warnings = warnings{logger: s.logger, recent: make(map[string]*recent)}
	s.large, s.huge = make(chan struct{}, s.limits.largeCommands), make(chan struct{}, 1)
	s.handshakes, s.metricsPace, s.pagesPace = newHandshakes(handshakePlaces()), make(pace, 1), make(pace, 1)
	s.strangers.left, s.strangers.origins = make(chan struct{}, 1), make(map[netip.Prefix]*origin)
	s.admission, s.longAdmission = newAdmission(places()), newAdmission(longPlaces())
	s.transactions = newAdmission(1)
	s.transactions.overdue = 0 // a transaction has a budget
	s.stats = newStats(len(s.host.Commands()))
	s.filters.pause, s.filters.due = s.pauseBetween, s.started.Add(passEvery)
	s.slowerThan = s.host.IntReader(slowerThanSetting)
	if err := s.loadUsers(); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	hub := hubOf(db)
	if hub == nil {
		return nil, errors.New("server: the store is closed, or was opened without server.Module() in Options.Modules")
	}
	if err := s.fitClients(); err != nil {
		return nil, err
	}
	s.refusing = make(chan struct{}, s.room.refused)
	if !hub.server.CompareAndSwap(nil, s) {
		return nil, errors.New("server: the store has a server already")
	}
	s.hub = hub
	return s, nil
}

func newRunID() string {
	var random [20]byte
	_, _ = rand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])
}

// ShutdownAsked returns a channel that the command SHUTDOWN closes. The program should then call Shutdown and close
// the store.
func (s *Server) ShutdownAsked() <-chan struct{} { return s.shutdownAsked }

func (s *Server) askShutdown() { s.askOnce.Do(func() { close(s.shutdownAsked) }) }

// Serve accepts and serves connections until Shutdown, and closes the listener. It may be called for several
// listeners. The error is ErrServerClosed or an error of the listener.
func (s *Server) Serve(l net.Listener) error {
	return s.serve(l, func(nc net.Conn) net.Conn { return nc })
}

// serve is Serve, but serves what wrap makes of each connection.
func (s *Server) serve(l net.Listener, wrap func(net.Conn) net.Conn) error {
	s.mu.Lock()
	if s.shuttingDown {
		s.mu.Unlock()
		return errors.Join(ErrServerClosed, l.Close())
	}
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
		_ = l.Close() // Shutdown may have closed it already
	}()
	pause := time.Duration(0)
	for {
		nc, err := l.Accept()
		if err != nil {
			if s.isShuttingDown() {
				return ErrServerClosed
			}
			// For example, too many open files: connections that end make room.
			if temporary(err) {
				pause = min(max(2*pause, 5*time.Millisecond), time.Second)
				s.logger.Warn("sievekv: accepting a connection failed", "error", err, "again_in", pause)
				time.Sleep(pause)
				continue
			}
			return fmt.Errorf("server: accept on %s: %w", l.Addr(), err)
		}
		pause = 0
		s.awaitRoom(nc.RemoteAddr())
		s.start(wrap(nc))
	}
}

func temporary(err error) bool {
	var e interface{ Temporary() bool }
	return errors.As(err, &e) && e.Temporary()
}

func (s *Server) isShuttingDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shuttingDown
}

// start serves a connection, or refuses it, in a goroutine of its own.
func (s *Server) start(nc net.Conn) {
	c := newConn(s, nc)
	why, ok := s.add(c)
	switch {
	case ok:
		go s.run(c)
	case why == "":
		_ = nc.Close() // nothing is lost
	default:
		// In the background: a TLS handshake or a full socket must not delay other connections. If too many
		// connections are being refused already, close this one without a reply.
		select {
		case s.refusing <- struct{}{}:
			go func() {
				defer func() { <-s.refusing }()
				s.refuse(c, why)
			}()
		default:
			_ = nc.Close() // nothing is lost
			s.idle.Done()
		}
	}
}

// ServeConn serves a connection that the caller has accepted, until it ends, and closes it.
func (s *Server) ServeConn(nc net.Conn) {
	c := newConn(s, nc)
	switch why, ok := s.add(c); {
	case ok:
		s.run(c)
	case why == "":
		_ = nc.Close() // nothing is lost
	default:
		s.refuse(c, why)
	}
}

// add adds a connection to the server. If it does not, it returns why not: "" if the server is shutting down.
func (s *Server) add(c *conn) (why string, ok bool) {
	s.stats.accepted.Add(1)
	why = s.refusal(c.net)
	var replaced []*conn
	defer func() {
		for _, c := range replaced {
			c.kill()
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shuttingDown {
		return "", false
	}
	if why == "" {
		var room bool
		if replaced, room = s.makeRoom(c.stranger); !room {
			why = "ERR max number of clients reached"
		}
	}
	s.idle.Add(1)
	if why != "" {
		s.stats.refused.Add(1)
		return why, false
	}
	s.nextID++
	c.id = s.nextID
	s.conns[c] = struct{}{}
	if c.stranger {
		s.joinStrangers(c)
	}
	return "", true
}

// refuse tells a client why it is not served, and ends the connection.
func (s *Server) refuse(c *conn, why string) {
	defer s.idle.Done()
	c.refuse(why)
}

// run serves a connection until it ends.
func (s *Server) run(c *conn) {
	defer s.idle.Done()
	c.serve()
	s.mu.Lock()
	delete(s.conns, c)
	s.leaveStrangers(c)
	s.mu.Unlock()
}

// refusal returns why a client is not served, "" if it is.
func (s *Server) refusal(nc net.Conn) string {
	if s.users.Default().NoPassword() && !s.opts.ProtectedModeOff && !isLocal(nc) {
		return "DENIED sievekv is in protected mode: there is no password, so only clients on the same machine are served. " +
			"Start the server with a password, or, if nobody else can reach it, with protected mode off."
	}
	return ""
}

// isLocal reports whether a client is on the same machine.
func isLocal(nc net.Conn) bool {
	addr, ok := nc.RemoteAddr().(*net.TCPAddr)
	return !ok || addr.IP.IsLoopback() // not TCP: a Unix socket or a pipe
}

// port returns the port of a TCP listener, 0 if there is none.
func (s *Server) port() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		if addr, ok := l.Addr().(*net.TCPAddr); ok {
			return addr.Port
		}
	}
	return 0
}

// connections returns the open connections in no order.
func (s *Server) connections() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		list = append(list, c)
	}
	return list
}

// ErrStuck is the error of Shutdown if commands did not end after they were given up, or the disk took too long.
var ErrStuck = errors.New("server: gave up waiting")

// Shutdown ends the server: it accepts no more connections, lets each connection finish its batch, and closes it.
// When ctx ends, Shutdown gives up the commands that still run and closes their connections. It syncs everything that
// is committed. The store stays open.
//
// Shutdown waits at most a second and a half longer than ctx. If commands or the disk take longer, the error is
// ErrStuck; closing the store may then take for ever, because it waits for commands too. Otherwise it returns the error
// of ctx or of the sync.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.warnings.end()
	s.mu.Lock()
	if !s.shuttingDown {
		s.shuttingDown = true
		close(s.stopping)
	}
	for l := range s.listeners {
		_ = l.Close() // Serve returns
	}
	for c := range s.conns {
		c.finish()
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		s.idle.Wait()
		close(ended)
	}()
	var err error
	select {
	case <-ended:
	case <-ctx.Done():
		err = fmt.Errorf("server: shutdown: %w", context.Cause(ctx))
		s.cancel()
		for _, c := range s.connections() {
			c.kill()
		}
		if !s.await(ctx, ended) {
			err = errors.Join(err, fmt.Errorf("%w for commands: %s", ErrStuck, strings.Join(s.running(), ", ")))
		}
	}
	s.cancel()
	s.hub.server.CompareAndSwap(s, nil)
	var unsynced error
	synced := make(chan struct{})
	go func() {
		unsynced = s.db.Sync()
		close(synced)
	}()
	if !s.await(ctx, synced) {
		return errors.Join(err, fmt.Errorf("%w for the disk", ErrStuck))
	}
	return errors.Join(err, unsynced)
}

// await waits until done is closed, but at most limits.giveUp after ctx ends. It reports whether done is closed.
func (s *Server) await(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	last := time.NewTimer(s.limits.giveUp)
	defer last.Stop()
	select {
	case <-done:
		return true
	case <-last.C:
		return false
	}
}

// running returns the last command of each connection, in no order.
func (s *Server) running() []string {
	var names []string
	for _, c := range s.connections() {
		c.about.mu.Lock()
		names = append(names, c.about.command)
		c.about.mu.Unlock()
	}
	return names
}
