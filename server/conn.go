package server

import (
	"bytes"
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv/internal/acl"
	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/txn"
)

// conn is one client's connection. Fields that are not marked as shared belong to its goroutine.
type conn struct {
	server *Server
	net    net.Conn
	id     int64
	began  time.Time

	stranger      bool          // see strangers
	strangerSince time.Time     // since when the client has been a stranger
	spoke         bool          // the client has sent a command
	origin        *origin       // nil if it is not a stranger; guarded by server.mu, as are the next three
	place         *list.Element // in origin.list, or in strangers.answered
	answered      bool          // it is in the latter
	joined        time.Time     // when it became the newest stranger of its address

	in            *resp.Decoder
	after         [][]byte // the next command, if in has returned it already
	out           []byte
	protocol      int // 2 or 3
	authenticated bool
	user          *acl.User
	executing     bool // EXEC is running
	session       *module.Session
	ended         bool // the connection runs no more commands: after QUIT, SHUTDOWN or a protocol error
	told          bool // the last reply says why the connection ends
	silent        bool // the command that ran gets no reply

	// writes are the replies in out that replaceWrites replaces if the sync fails: replies to writes, and in a group
	// also to reads. unsettled says that a command of the batch ran at level no, so that the batch needs a sync.
	writes    []span
	unsettled bool

	queuedBytes  int       // of the commands that MULTI has queued and the keys that are watched
	heldBytes    int       // as counted by account
	replyBytes   int       // of the reply that is being made
	partialSince time.Time // when the first byte of an incomplete command came; zero if there is none

	clock    time.Time     // when the last command ended; zero if the connection has waited since
	use      use           // of the processor
	turn     *turn         // nil if it has none
	turnUsed time.Duration // what the present turn, or the last one, has used; see addUse
	alone    *turn         // of the transaction that runs, see acquireTransaction
	acquired chan struct{} // the semaphore of the large command that runs, nil for other commands

	hugeBegan time.Time // when the last huge command began
	ranBefore uint64    // the commands that had run by then

	ctx    context.Context // ends when the client is gone, by kill, and with the server's: commands that may take long end then
	cancel context.CancelFunc
	watch  *watch // nil unless it is noticed that the client is gone
	ahead  []byte // read from net by watch, at most aheadBytes

	tracker *tracker // nil unless CLIENT TRACKING is on
	monitor *monitor // nil unless MONITOR was given
	grouped grouped  // for a store of a group

	closing atomic.Bool   // shared: the connection ends after the current command
	killed  atomic.Bool   // shared: the connection ends at once, without a reply
	wake    chan struct{} // shared: closed when closing is set
	waking  sync.Once

	about about // shared: what CLIENT LIST shows
}

// span is the part of out with the reply to a command.
type span struct {
	start, end int
	cmd        *module.Command
}

// about has facts that other connections may ask about a connection.
type about struct {
	user atomic.Pointer[acl.User]

	mu               sync.Mutex // guards the fields below
	name             string
	library, version string
	command          string // the last command, in lower case
	lastActive       time.Time
	protocol, queued int // queued is -1 outside of MULTI
	in, out          int // bytes of buffers
	noEvict, noTouch bool
	tracking         bool
	readOnly         bool
}

func newConn(s *Server, nc net.Conn) *conn {
	now := time.Now()
	c := &conn{
		server: s, net: nc, began: now, strangerSince: now, protocol: 2, wake: make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.beDefault()
	_, encrypted := nc.(*tls.Conn)
	c.stranger = encrypted || !c.authenticated
	c.in = resp.NewDecoder(c.commandLimits())
	// A client does not get more processor time by reconnecting after it was closed for exceeding a limit.
	c.use.add(now, s.limits.burst)
	c.about.lastActive, c.about.protocol, c.about.queued = now, 2, -1
	c.newSession()
	return c
}

func (c *conn) newSession() {
	c.session = module.NewSession(c.server.db)
	c.session.Connection = c
	c.session.Charge = c.charge
	c.session.Permit = c.permit
	c.session.Ran = c.server.stats.count
	c.session.ShortLived = true // a reply is copied to out
}

// beDefault makes the client the default user. It stays unauthenticated if that user is off or has a password.
func (c *conn) beDefault() {
	c.become(c.server.users.Default())
	c.authenticated = c.user.NoPassword()
}

// refuse tells a client why it is not served. With TLS it only closes the connection: an answer would need a
// handshake.
func (c *conn) refuse(why string) {
	if t, ok := c.net.(*tls.Conn); ok {
		_ = t.NetConn().Close() // nothing is lost
		return
	}
	_ = c.net.SetDeadline(time.Now().Add(time.Second))
	_, err := c.net.Write(resp.Append(nil, reply.Error(why), 2))
	if err != nil { // the client may have gone
		closeNow(c.net)
		return
	}
	closeTold(c.net, c.server.limits.linger)
}

// closeNow closes a connection without sending another byte. TLS would send an alert, and wait up to 5 seconds for a
// client that does not read.
func closeNow(nc net.Conn) {
	if secret, ok := nc.(*tls.Conn); ok {
		nc = secret.NetConn()
	}
	_ = nc.Close()
}

// lingerBytes is how much the server reads and drops from a client that was told why its connection ends.
const lingerBytes = 1 << 20

// closeTold closes a connection whose client was told why. If bytes from the client were still unread, the system
// would reset the connection, and the client might see the reset instead of the reason. So closeTold reads and drops
// what comes for a while.
func closeTold(nc net.Conn, linger time.Duration) {
	defer closeNow(nc)
	if secret, ok := nc.(*tls.Conn); ok {
		if secret.CloseWrite() != nil {
			return
		}
		nc = secret.NetConn()
	}
	half, ok := nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || nc.SetReadDeadline(time.Now().Add(linger)) != nil {
		return
	}
	dropped := make([]byte, 4<<10)
	for n := 0; n < lingerBytes; {
		more, err := nc.Read(dropped)
		if err != nil {
			return
		}
		n += more
	}
}

// finish ends the connection after its current batch, or now if it waits for a command. It may be called from any
// goroutine.
func (c *conn) finish() {
	c.closing.Store(true)
	c.waking.Do(func() { close(c.wake) })
	_ = c.net.SetReadDeadline(time.Unix(1, 0)) // wakes readUntil, which reads closing after it sets a deadline
}

// kill ends the connection without sending another byte, and reports whether this call was the first. It may be
// called from any goroutine.
func (c *conn) kill() bool {
	first := !c.killed.Swap(true)
	c.closing.Store(true)
	c.waking.Do(func() { close(c.wake) })
	c.cancel()
	closeNow(c.net)
	return first
}

// isKilled reports whether kill was called. The last command may still run, but other clients no longer see the
// connection.
func (c *conn) isKilled() bool { return c.killed.Load() }

// serve runs the connection until it ends.
func (c *conn) serve() {
	defer c.end()
	if !c.shakeHands() {
		return
	}
	for !c.ended {
		n, err := c.read()
		if c.closing.Load() && n == 0 {
			return
		}
		c.use.add(time.Now(), timeOf(0, n))
		if !c.account() {
			c.tellAndEnd()
			return
		}
		if !c.runBuffered() {
			return
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !c.closing.Load() {
				c.server.logger.Debug("sievekv: a connection ended", "client", c.net.RemoteAddr(), "error", err)
			}
			return
		}
	}
}

// read waits for bytes. When the client sends nothing for a while, read gives back the connection's buffers.
func (c *conn) read() (n int, err error) {
	if !c.grouped.down.IsZero() {
		if n, err = c.readAfterDown(); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || c.closing.Load() {
			return n, err
		}
	}
	now := time.Now()
	deadline := c.readDeadline(now)
	if rest := now.Add(c.server.limits.rest); !c.in.Partial() && (deadline.IsZero() || rest.Before(deadline)) {
		n, err = c.readUntil(rest)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || c.closing.Load() {
			return n, err
		}
		if c.in.Rest() {
			c.account()
		}
		c.session.Rest()
		if c.out != nil { // all of it was sent
			c.out = nil
			c.account()
		}
	}
	return c.readUntil(deadline)
}

// readUntil reads once, until the deadline; the zero deadline means no limit.
func (c *conn) readUntil(deadline time.Time) (int, error) {
	switch {
	case c.tracker != nil:
		return c.readTelling(c.tracker, deadline)
	case c.monitor != nil:
		return c.readTelling(c.monitor, deadline)
	}
	if err := c.net.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	if c.closing.Load() {
		return 0, os.ErrDeadlineExceeded
	}
	return c.fill()
}

// fill reads once.
func (c *conn) fill() (int, error) {
	n, err := c.in.Fill((*source)(c))
	c.server.stats.bytesIn.Add(uint64(n))
	return n, err
}

// runBuffered runs the commands that are complete in the buffer, sends their replies, and reports whether the
// connection goes on.
func (c *conn) runBuffered() bool {
	ran := false
	c.clock = time.Time{}
	c.in.SetLimits(c.commandLimits())
	defer c.endWatch()
	defer c.endTurn()
	for !c.ended {
		if !c.awaitTurn() {
			return false
		}
		words, ok, err := c.next()
		if err != nil {
			c.server.stats.protocolErrors.Add(1)
			c.fail(nil, reply.Error("ERR "+err.Error()))
			c.ended, c.told = true, true
			break
		}
		if !ok {
			break
		}
		ran = true
		stranger := !c.authenticated
		c.executeNext(words)
		if stranger == c.authenticated {
			c.in.SetLimits(c.commandLimits())
		}
		if len(c.out) >= c.batch() && !c.flush() {
			return false
		}
		if c.killed.Load() {
			return false
		}
	}
	if ran {
		c.partialSince = time.Time{}
		c.in.Shrink()
	}
	if !c.flush() {
		return false
	}
	if !c.account() {
		c.tellAndEnd()
		return false
	}
	return !c.ended
}

// tellAndEnd ends a connection whose input takes too much memory, and tells the client why. The commands in the input
// do not run.
func (c *conn) tellAndEnd() {
	const why = "clients together hold more memory than " + clientsMemorySetting + " allows"
	c.server.stats.limited.Add(1)
	c.server.warnings.warn("sievekv: a connection is closed", "client", c.net.RemoteAddr(), "reason", why)
	c.in = resp.NewDecoder(resp.Limits{}) // drops the input: the client may be slow to read the reason
	c.account()
	c.fail(nil, reply.Error("ERR "+why))
	c.told = c.send()
}

// crossProtocol are first words of HTTP requests: a web page can make a browser send commands in the body of a
// request.
var crossProtocol = []string{"post", "host:"}

// execute runs a command, nil for an unknown one, and appends its reply to the batch.
func (c *conn) execute(cmd *module.Command, words [][]byte) {
	c.spoke = true
	for _, http := range crossProtocol {
		if isWord(words[0], http) {
			c.server.warnings.warn("sievekv: possible attack: HTTP on a port for Redis' protocol", "client", c.net.RemoteAddr())
			c.out, c.ended = c.out[:0], true
			return
		}
	}
	if !c.authenticated && (cmd == nil || !beforeLogin[cmd.Name]) {
		c.fail(cmd, reply.Error("NOAUTH Authentication required."))
		return
	}
	begin := c.clock
	if begin.IsZero() { // else the command begins when the one before ended: asking for the time is slow
		begin = time.Now()
	}
	c.noteCommand(cmd, words, begin)
	if !c.acquireTransaction(cmd) || !c.acquireLarge(cmd, words) || !c.awaitLongTurn(cmd) {
		c.releaseLarge(nil)
		c.releaseTransaction()
		c.fail(cmd, module.ErrorReply(c.ctx.Err()))
		return
	}
	if c.acquired != nil || c.alone != nil || mayTakeLong(cmd) { // it may have waited
		begin = time.Now()
	}
	c.chooseLevel(cmd, false)
	if c.server.group != nil {
		c.beginAnswers()
	}
	start := len(c.out)
	c.executing = cmd != nil && cmd.Name == "EXEC"
	r := c.runCharged(cmd, words)
	c.executing = false
	c.releaseLarge(cmd)
	c.releaseTransaction()
	queued := isQueued(r)
	switch {
	case c.silent:
	case c.protocol == 2 && r.Kind() == reply.KindNil && cmd.Name == "EXEC":
		c.out = append(c.out, "*-1\r\n"...) // in RESP2 the nil of EXEC is a nil array
	default:
		c.answer(r)
	}
	if c.replyBytes > 0 {
		c.account() // counts out with the reply; flush checks the limit
		c.discharge()
	}
	if cmd != nil && !queued && c.settles(cmd, r) {
		c.writes = append(c.writes, span{start, len(c.out), cmd})
	}
	c.server.stats.countKeys(c.session)
	c.ranTracked(cmd)
	if c.server.group != nil {
		c.ranGrouped(cmd)
	}
	c.noteQueued()
	now := time.Now()
	took := now.Sub(begin)
	c.noteUse(now, cmd, len(words), len(c.out)-start, took)
	c.server.stats.count(cmd, took, c.session.Outcome, r)
	c.server.slow.add(c, cmd, words, begin, took)
	if c.session.Outcome != module.Refused {
		c.monitored(words, begin)
	}
	c.server.tick(now)
	c.clock = now
}

// runCharged runs a command if there is memory for it.
func (c *conn) runCharged(cmd *module.Command, words [][]byte) reply.Reply {
	c.session.Outcome = module.Refused // until it runs
	if err := c.chargeWords(words); err != nil {
		return module.ErrorReply(err)
	}
	if cmd != nil && cmd.Name == "WATCH" && !c.mayWatch(words[1:]) {
		return reply.Error("ERR watching so many keys takes more memory than " + clientsMemorySetting + " leaves")
	}
	r := c.run(cmd, words)
	if c.server.group != nil {
		r = c.replaceNotLeader(r)
	}
	return c.chargeWhole(cmd, r)
}

// settle waits until what the batch has written is durable.
func (c *conn) settle() error {
	if c.server.group != nil {
		return c.settleInGroup()
	}
	return c.server.db.Sync()
}

// settles reports whether the reply to a command depends on the sync of the batch.
func (c *conn) settles(cmd *module.Command, r reply.Reply) bool {
	if c.server.group != nil {
		return c.settlesInGroup(cmd, r)
	}
	return c.unsettled && writes(cmd)
}

// run runs a command.
func (c *conn) run(cmd *module.Command, words [][]byte) reply.Reply {
	if cmd != nil && onConnection[cmd.Name] && cmd.Takes(len(words)) {
		r := cmd.Handler(&module.Call{Context: c.server.ctx, DB: c.server.db, Session: c.session, Command: cmd, Args: words[1:]})
		c.session.Outcome = module.Done // RESET has made a new session
		return r
	}
	switch {
	case cmd == nil || !mayTakeLong(cmd) && c.acquired == nil:
		return c.session.DoNamed(c.server.ctx, cmd, words)
	case cmd.Flags&module.Admin != 0:
		c.endTurn() // the command may take minutes
	}
	c.beginWatch()
	return c.session.DoNamed(c.ctx, cmd, words)
}

// chooseLevel sets the durability level of the next command. A command that came alone waits for its own sync, as in
// any session. If more commands are in the buffer, all commands of the batch run at level no, and flush settles them by
// one sync before it sends a reply. That sync covers what they wrote and also what they read. A connection with a turn
// does the same, so that other connections do not wait for its sync.
//
// Several says that it is not one command but a series.
func (c *conn) chooseLevel(cmd *module.Command, several bool) {
	level := kv.DurabilityDefault
	more := several || c.in.Buffered() > 0 || c.after != nil ||
		mayTakeLong(cmd) && writes(cmd) // the command's own time counts, but not a sync's
	if c.server.db.Durability() == kv.Always && (c.unsettled || c.turn != nil || more) {
		level = kv.NoSync
		c.unsettled = c.unsettled || cmd != nil && writes(cmd)
	}
	c.session.Durability = level
}

// writes reports whether the reply to a command promises that a write is durable.
func writes(cmd *module.Command) bool { return cmd.Flags&module.Write != 0 || cmd.Name == "EXEC" }

// isQueued reports whether a reply says that MULTI has queued a command.
func isQueued(r reply.Reply) bool {
	return r.Kind() == reply.KindStatus && bytes.Equal(r.Bytes(), queuedReply)
}

// noteQueued counts the memory that MULTI and WATCH hold. It asks for the present state: a command that failed may
// still have added to it, and a command that should free it may have been refused.
func (c *conn) noteQueued() {
	words, keys, bytes := txn.Held(c.session)
	c.queuedBytes = words*wordBytes + keys*watchBytes + bytes
	n, multi := txn.Queued(c.session)
	if !multi {
		n = -1
	}
	if a := &c.about; a.queued != n { // only this goroutine writes it
		a.mu.Lock()
		a.queued = n
		a.mu.Unlock()
	}
}

// wordBytes is roughly the memory of a word besides its bytes. watchBytes is the memory of a watched key, in the maps
// by which a commit finds the connections that watch the key (measured: 293 with keys of 6 bytes).
const (
	wordBytes  = 48
	watchBytes = 300
)

func bytesOf(words [][]byte, each int) (n int) {
	for _, w := range words {
		n += len(w) + each
	}
	return n
}

var queuedReply = []byte("QUEUED")

func isWord(word []byte, name string) bool {
	return len(word) == len(name) && strings.EqualFold(string(word), name)
}

// answer appends a reply to the batch.
func (c *conn) answer(r reply.Reply) { c.out = resp.Append(c.out, r, c.protocol) }

// fail answers a command that was not run, or, with nil, input that is no command.
func (c *conn) fail(cmd *module.Command, failure reply.Reply) {
	c.server.stats.refuse(cmd, failure)
	c.answer(failure)
}

// flush settles and sends the batch, and reports whether that worked.
func (c *conn) flush() bool {
	if len(c.out) == 0 {
		c.grouped.answering = false
		return !c.killed.Load()
	}
	c.endTurn() // the disk and the client may be slow
	c.clock = time.Time{}
	if c.unsettled {
		if err := c.settle(); err != nil {
			c.replaceWrites(unsettledReply(err))
		}
		c.unsettled, c.writes = false, c.writes[:0]
	}
	c.grouped.answering = false
	if !c.account() {
		c.server.stats.limited.Add(1)
		c.server.warnings.warn("sievekv: a connection is closed", "client", c.net.RemoteAddr(), "reason", "replies too large", "bytes", len(c.out))
		return false
	}
	sent := c.send()
	const keep = 64 << 10
	if c.out = c.out[:0]; cap(c.out) > keep {
		c.out = nil
	}
	return sent
}

// send writes the batch. The client must read some of it before each write deadline.
func (c *conn) send() bool {
	const piece = 256 << 10
	for rest := c.out; len(rest) > 0; {
		if c.killed.Load() {
			return false
		}
		if err := c.net.SetWriteDeadline(c.writeDeadline(time.Now())); err != nil {
			return false
		}
		n, err := c.net.Write(rest[:min(len(rest), piece)])
		c.server.stats.bytesOut.Add(uint64(n))
		if err != nil {
			return false
		}
		rest = rest[n:]
	}
	return true
}

// replaceWrites replaces each reply in writes by an error.
func (c *conn) replaceWrites(failure reply.Reply) {
	var out []byte
	end := 0
	for _, w := range c.writes {
		if !bytes.HasPrefix(c.out[w.start:w.end], []byte("-MISCONF ")) { // else it has been counted
			c.server.stats.of(w.cmd).errors.countIn(failure)
		}
		out = append(out, c.out[end:w.start]...)
		out = resp.Append(out, failure, c.protocol)
		end = w.end
	}
	c.out = append(out, c.out[end:]...)
}

// reset gives the connection the state of a new one.
func (c *conn) reset() {
	c.leaveTransaction()
	c.stopTracking()
	c.stopMonitoring()
	c.grouped = grouped{}
	c.newSession()
	if c.authenticated { // RESET gives a stranger no more time
		c.strangerSince = time.Now()
	}
	c.protocol = 2
	c.beDefault()
	c.setStranger(!c.authenticated)
	c.about.mu.Lock()
	c.about.name, c.about.protocol = "", 2
	c.about.noEvict, c.about.noTouch, c.about.readOnly = false, false, false
	c.about.mu.Unlock()
}

// leaveTransaction drops what MULTI and WATCH hold. It needs no permission of the user.
func (c *conn) leaveTransaction() {
	txn.Leave(c.session)
	c.noteQueued()
}

func (c *conn) end() {
	c.cancel()
	c.leaveTransaction()
	c.stopTracking()
	c.stopMonitoring()
	c.in, c.out = nil, nil
	c.holds().Add(-int64(c.heldBytes))
	if c.told && !c.killed.Load() {
		closeTold(c.net, c.server.limits.linger)
		return
	}
	_ = c.net.Close() // the client is gone
}

// idleExact is how exactly the time of a connection's last command is known: CLIENT LIST shows seconds.
const idleExact = 10 * time.Millisecond

// noteCommand notes what CLIENT LIST shows.
func (c *conn) noteCommand(cmd *module.Command, words [][]byte, now time.Time) {
	name := "NULL"
	if cmd != nil {
		name = cmd.LowerName()
		if hasSubcommand(cmd, words) {
			name += "|" + lower(words[1])
		}
	}
	in, out := c.in.Size(), cap(c.out)
	a := &c.about
	// Only this goroutine writes these fields, so it may read them without the lock.
	if a.command == name && a.in == in && a.out == out && now.Sub(a.lastActive) < idleExact {
		return
	}
	a.mu.Lock()
	a.command, a.lastActive = name, now
	a.in, a.out = in, out
	a.mu.Unlock()
}
