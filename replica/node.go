package replica

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/internal/entry"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/member"
	"github.com/sievekv/sievekv/internal/raftlog"
	"github.com/sievekv/sievekv/internal/storage"
	"github.com/sievekv/sievekv/internal/wire"
	"github.com/sievekv/sievekv/kv"
)

// Options say how a member of a group runs.
type Options struct {
	// Name is what people call the member, up to 255 bytes. Peer is the address for other members, and Client the
	// address for clients, both host:port. Only Init, Join and AddMember use them: later the group's log has them.
	Name, Peer, Client string

	// Listener is where other members reach this one. Default: one on the peer address of this member.
	Listener net.Listener

	// TLS has this member's certificate, and as RootCAs and ClientCAs the group's. Without it all members must have loopback
	// addresses.
	TLS *tls.Config

	// Store are the options of the store. Log, Identity and LeaveGroup must not be set. Clock is this machine's; keys
	// expire by the group's time, which the clocks of a majority have reached.
	Store *sievekv.Options

	// LogKeep is how much of the log is kept for members that are behind, in bytes. The leader keeps up to twice that
	// while a member that it reaches needs it. Default 256 MiB.
	LogKeep uint64

	// CompareEvery is the time between two comparisons of a part of the members' content, 1/256 of the keys. Default
	// DefaultCompareEvery; below 0 never.
	CompareEvery time.Duration

	// Logger gets changes of the role, and errors. Default: Store's, or slog.Default.
	Logger *slog.Logger

	handOverEvery, probeEvery, keepEvery time.Duration // other ones, for tests
	level                                byte          // as if the program knew no higher one, for tests
}

// Node is a member of a group, with its store.
type Node struct {
	// DB is the store. Its writes return kv.ErrNotLeader while another member leads. Node.Close closes it.
	DB *sievekv.DB

	opts    Options
	dir     string
	fs      vfs.FS
	id      uint64
	group   [16]byte
	logger  *slog.Logger
	log     *raftlog.Log
	machine *machine
	m       *member.Member
	run     *runner
	wire    *wire.Transport

	status  atomic.Pointer[Status]
	seen    seen // raft's goroutine only
	waiting waiting
	reads   reads
	compare comparing
	images  atomic.Uint64 // how many were received, for the names of their directories
	arrived atomic.Int64  // bytes of entries that wait for raft's goroutine
	early   net.Listener  // that listenFirst has opened, and the transport has not yet
	clock   *clock        // the group's time
	clocks  clocks        // of other members
	full    atomic.Bool   // the disk is full
	off     bool          // the clock of this machine is; keep's goroutine only
	level   atomic.Uint32 // the group's, see noteLevel
	noting  sync.Mutex    // held while level is raised, so that it and its mark rise together
	slow    bool          // the disk of the log is; keep's goroutine only
	handed  time.Time     // when the leadership was handed over for something that is wrong here; keep's goroutine only
	failing atomic.Pointer[member.Member]

	ctx    context.Context // ends when Close begins
	end    context.CancelFunc
	others sync.WaitGroup // goroutines besides the runner's
	closed sync.Once
}

// logDir is the directory of the log, below the store's.
const logDir = "raft"

// The marks of the log.
const (
	markID    = "member" // 8 bytes, little-endian
	markGroup = "group"  // 16 bytes
	markSelf  = "self"   // info of the member when it was made
	markPeers = "peers"  // of a member that joins: infos of members that it may hear from
	markBegun = "begun"  // begunInit or begunJoin, until it has ended

	markDiffers = "differs" // why the member must not go on: what it has is not what the others have
)

// DefaultCompareEvery is the default of Options.CompareEvery: everything is compared in some four hours.
const DefaultCompareEvery = time.Minute

// The values of markBegun. Neither goes on with what the other has left, because the stores differ.
const (
	begunInit = "init"
	begunJoin = "join"
)

var (
	// ErrNoMember is returned by Open for a directory that has no member of a group.
	ErrNoMember = errors.New("no member of a group")
	// ErrMember is returned by Init and Join for a directory that has one.
	ErrMember = errors.New("a member of a group already")
	// ErrClosed is returned by calls of a node that was closed.
	ErrClosed = errors.New("the member is closed")
)

// Init makes a group of one member. The directory is empty, or missing, or with adopt has a store that is alone: the group then
// begins with its content.
func Init(dir string, o Options, adopt bool) (*Node, error) {
	n, err := o.newGroup(dir, adopt, true)
	if err != nil {
		return nil, err
	}
	return n.start()
}

// newGroup makes the files of a group of one member.
func (o Options) newGroup(dir string, adopt, listen bool) (*Node, error) {
	if err := checkInfo(Info{Name: o.Name, Peer: o.Peer, Client: o.Client}); err != nil {
		return nil, err
	}
	n, err := o.begin(dir, begunInit, !adopt)
	if err != nil {
		return nil, err
	}
	self := Info{ID: randomID(), Name: o.Name, Peer: o.Peer, Client: o.Client}
	var group [16]byte
	_, _ = rand.Read(group[:]) // never fails
	// If an earlier Init was interrupted, its entry may be in the store.
	if stored, e := n.noted(); e == nil && n.readMarks() == nil && stored.ID == n.id {
		self.ID, group = n.id, n.group
	}
	err = n.mark(map[string][]byte{markBegun: []byte(begunInit), markID: idBytes(self.ID), markGroup: group[:], markSelf: appendInfo(nil, self)})
	if err == nil && listen {
		err = n.listenFirst(self.Peer)
	}
	if err == nil {
		err = n.openStore(format.StoreMeta{})
	}
	if err == nil {
		err = n.found(self)
	}
	if err != nil {
		return nil, errors.Join(err, n.closeFiles())
	}
	return n, nil
}

// found makes the first entry of the group's log, which names the first member: the store's content is the group's.
func (n *Node) found(self Info) error {
	first := &members{&pb.ConfState{Voters: []uint64{self.ID}}, map[uint64]Info{self.ID: self}}
	encoded, err := first.encode()
	if err != nil {
		return err
	}
	state, err := n.machine.state()
	if err != nil {
		return err
	}
	if state.Index > 1 {
		return fmt.Errorf("%s: the store is a member of another group: take it out of that first (kv.Options.LeaveGroup, --leave-cluster)", n.dir)
	}
	if state.Index == 0 {
		msg := storage.Message{Members: encoded, Applied: format.Applied{Index: 1, Term: 1, Hash: entry.First(n.group), Millis: max(0, n.wall())}}
		if err := n.DB.Store().ApplyMessage(&msg); err != nil {
			return err
		}
	}
	if _, err := n.DB.Store().SyncStore(); err != nil {
		return err
	}
	if err := n.log.Reset(1, 1, &pb.HardState{Term: new(uint64(1)), Vote: new(uint64(0)), Commit: new(uint64(1))}); err != nil {
		return err
	}
	return n.made()
}

// made ends the making of a member.
func (n *Node) made() error {
	if err := writeNote(n.fs, n.dir, who{n.group, n.id}); err != nil {
		return err
	}
	return n.log.SetMark(markBegun, nil)
}

// Join makes a member of a group that has made the token. It has nothing at first, and gets everything from the group.
func Join(dir string, o Options, t Token) (*Node, error) {
	if err := o.checkLevel(t.level); err != nil {
		return nil, err
	}
	n, err := o.begin(dir, begunJoin, true)
	if err != nil {
		return nil, err
	}
	err = n.mark(map[string][]byte{
		markBegun: []byte(begunJoin), markID: idBytes(t.self.ID), markGroup: t.group[:], markSelf: appendInfo(nil, t.self),
		markPeers: appendInfos(nil, t.peers),
	})
	if err == nil {
		err = n.listenFirst(t.self.Peer)
	}
	if err == nil {
		err = n.openStore(t.identity)
	}
	if err == nil {
		err = n.made()
	}
	if err != nil {
		return nil, errors.Join(err, n.closeFiles())
	}
	return n.start()
}

// Open opens a member that Init or Join has made.
func Open(dir string, o Options) (*Node, error) {
	n, err := o.open(dir, true)
	if errors.Is(err, raftlog.ErrNotExist) {
		return nil, o.noLog(dir)
	}
	if err != nil {
		return nil, err
	}
	n.opts.Store.MustExist = true // a new one would be empty, and be opened alone later
	if err = n.readMade(); err == nil {
		err = n.openStore(format.StoreMeta{})
	}
	if err != nil {
		return nil, errors.Join(err, n.closeFiles())
	}
	return n.start()
}

// readMade reads the identity of this member, and refuses a member that was not completely made, or has the log of
// another.
func (n *Node) readMade() error {
	begun, err := n.log.Mark(markBegun)
	if err == nil && begun != nil {
		err = fmt.Errorf("%s: the making of this member was not finished: %s again", n.dir, begun)
	}
	if err == nil {
		err = n.readMarks()
	}
	if err == nil {
		err = n.checkNote()
	}
	if err == nil {
		err = n.checkDiffers()
	}
	return err
}

// listenFirst listens at the address of a member before the member is made, while a mistake in the address can still be
// corrected.
func (n *Node) listenFirst(peer string) (err error) {
	if err := n.checkPeer(peer); err != nil {
		return err
	}
	if n.opts.Listener == nil {
		n.opts.Listener, err = net.Listen("tcp", peer)
		n.early = n.opts.Listener
	}
	return err
}

// checkPeer refuses an address that the transport does not take.
func (n *Node) checkPeer(peer string) error {
	if _, _, err := net.SplitHostPort(peer); err != nil {
		return fmt.Errorf("peer address %q: want host:port", peer)
	}
	if n.opts.TLS != nil {
		return nil
	}
	return wire.CheckLoopback(peer)
}

// begin opens the log of a member that Init or Join is about to make. An interrupted call may go on. Otherwise the
// directory must be empty, if empty says so: begin checks that before it makes a log there.
func (o Options) begin(dir, how string, empty bool) (*Node, error) {
	fs := o.fileSystem()
	var other error
	if empty {
		var hasLog bool
		if hasLog, other = checkEmpty(fs, dir); other != nil && !hasLog {
			return nil, other
		}
	}
	n, err := o.open(dir, false)
	if err != nil {
		return nil, err
	}
	id, err := n.log.Mark(markID)
	begun, e := n.log.Mark(markBegun)
	switch err = errors.Join(err, e); {
	case err != nil:
	case begun == nil && id != nil:
		err = fmt.Errorf("%s: %w", dir, ErrMember)
	case begun == nil:
		err = other
	case begun != nil && string(begun) != how:
		err = fmt.Errorf("%s has what a %s has left that was cut: do that again, or take another directory", dir, begun)
	}
	if err != nil {
		return nil, errors.Join(err, n.closeFiles())
	}
	return n, nil
}

// checkEmpty returns an error for a directory with anything except a log and the files that Rejoin has moved aside, and
// whether there is a log.
func checkEmpty(fs vfs.FS, dir string) (hasLog bool, err error) {
	names, err := contents(fs, dir)
	for _, name := range names {
		if name == logDir {
			hasLog = true
		} else if err == nil {
			err = fmt.Errorf("%s is not empty: it has %s; only Init takes a store that exists, with adopt (--cluster init --adopt)", dir, name)
		}
	}
	return hasLog, err
}

// open opens the log.
func (o Options) open(dir string, exists bool) (*Node, error) {
	var store sievekv.Options
	if o.Store != nil {
		store = *o.Store
	}
	if store.Log != nil || store.LeaveGroup || store.ReadOnly {
		return nil, errors.New("Options.Store has Log, LeaveGroup or ReadOnly set: want none of them")
	}
	o.Store = &store
	o.LogKeep = cmp.Or(o.LogKeep, 256<<20)
	o.CompareEvery = cmp.Or(o.CompareEvery, DefaultCompareEvery)
	o.handOverEvery = cmp.Or(o.handOverEvery, handOverEvery)
	o.keepEvery = cmp.Or(o.keepEvery, keepEvery)
	n := &Node{opts: o, dir: dir, fs: o.fileSystem(), logger: o.log()}
	n.ctx, n.end = context.WithCancel(context.Background())
	var err error
	n.log, err = raftlog.Open(n.fs.PathJoin(dir, logDir), raftlog.Options{FS: n.fs, MustExist: exists, Logger: n.logger, Failed: n.logFailed})
	return n, err
}

// fileSystem returns where the directory is.
func (o *Options) fileSystem() vfs.FS {
	if o.Store == nil || o.Store.FS == nil {
		return vfs.Default
	}
	return o.Store.FS
}

// log returns the logger for events.
func (o *Options) log() *slog.Logger {
	switch {
	case o.Logger != nil:
		return o.Logger
	case o.Store != nil && o.Store.Logger != nil:
		return o.Store.Logger
	}
	return slog.Default()
}

// logFailed ends the member when its log has failed, also in the background. Raft's goroutine sees it at its next tick.
func (n *Node) logFailed(err error) {
	if m := n.failing.Load(); m != nil {
		m.Fail(err)
	}
}

func (n *Node) mark(marks map[string][]byte) error {
	for _, name := range []string{markBegun, markID, markGroup, markSelf, markPeers} { // begun first
		if value := marks[name]; value != nil {
			if err := n.log.SetMark(name, value); err != nil {
				return err
			}
		}
	}
	return n.readMarks()
}

// readMarks reads the identity of this member.
func (n *Node) readMarks() error {
	id, err := n.log.Mark(markID)
	group, e := n.log.Mark(markGroup)
	if err := errors.Join(err, e); err != nil {
		return err
	}
	if len(id) != 8 || len(group) != len(n.group) {
		return fmt.Errorf("%s: %w", n.dir, ErrNoMember)
	}
	n.id = binary.LittleEndian.Uint64(id)
	copy(n.group[:], group)
	return n.readLevel()
}

// openStore opens the store, which gets this identity if it is new; a random one if that is zero.
func (n *Node) openStore(identity format.StoreMeta) error {
	o := *n.opts.Store
	n.clock = newClock(n.wall()) // startMember sets it
	o.Log, o.Identity, o.Clock = n, identity, func() time.Time { return time.UnixMilli(n.clock.now()) }
	var err error
	if n.DB, err = sievekv.Open(n.dir, &o); err != nil {
		return err
	}
	if most := n.DB.Store().MaxCommit(); most > maxCommit {
		return fmt.Errorf("commits of up to %d bytes are possible with a memtable of %d: a member of a group takes up to %d (Options.Store.MemTableSize, --memtable)",
			most, n.DB.Store().Options().MemTableSize, maxCommit)
	}
	if n.machine, err = newMachine(n.DB.Store()); err != nil {
		return err
	}
	n.machine.clock, n.machine.begins, n.machine.level = n.clock, n.steerFirst, n.noteLevel
	return nil
}

// maxCommit is the largest commit that the transport takes in one message, and a snapshot as one value.
const maxCommit = 60 << 20

// start starts the member.
func (n *Node) start() (*Node, error) {
	err := n.startMember()
	if err != nil {
		return nil, errors.Join(err, n.closeFiles())
	}
	return n, nil
}

func (n *Node) startMember() error {
	if err := n.removeImages(); err != nil {
		return err
	}
	state, err := n.machine.state()
	if err != nil {
		return err
	}
	n.clock.begin(state.Millis)
	n.m, err = member.Start(member.Config{
		ID: n.id, Log: n.log, Machine: n.machine, State: state, Level: n.opts.knows(), Proposals: randomID(),
		Now: func() int64 { return n.DB.Store().Now() }, Logger: raftLogger{n.logger}, Alarm: n.alarm,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", n.dir, err)
	}
	n.failing.Store(n.m)
	n.machine.compare = n.digest
	n.run = newRunner(n.m)
	n.run.send, n.run.reads, n.run.looked, n.run.failed, n.run.applied = n.send, n.reads.answer, n.publish, n.failed, n.waiting.wake
	n.waiting.applied = func() uint64 { return n.m.State().Index }
	if err := n.listen(); err != nil {
		return err
	}
	n.publish()
	n.run.start()
	n.others.Go(n.keep)
	if n.opts.CompareEvery > 0 {
		n.others.Go(n.keepComparing)
	}
	return nil
}

// listen begins to take messages of other members.
func (n *Node) listen() (err error) {
	l := n.opts.Listener
	n.early = nil
	if l == nil {
		self, err := n.self()
		if err != nil {
			return err
		}
		if l, err = net.Listen("tcp", self.Peer); err != nil {
			return err
		}
	}
	n.wire, err = wire.New(wire.Options{
		Self: n.id, Cluster: n.group, TLS: n.opts.TLS, Listener: l, Logger: n.logger,
		Handle:         n.take,
		HandleSnapshot: n.receive,
		HandleDigest:   n.heard,
		Probe:          n.probe,
		Probed:         n.probed,
		ProbeEvery:     n.opts.probeEvery,
		Unreachable:    func(id uint64) { n.run.do(func() { n.m.ReportUnreachable(id) }) },
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if err := n.setPeers(); err != nil {
		return errors.Join(err, n.wire.Close())
	}
	return nil
}

// maxWaiting is the most bytes of entries that wait for raft's goroutine. Entries above that are dropped, as the
// network may do.
const maxWaiting = 128 << 20

// take takes a message of another member.
func (n *Node) take(_ uint64, msg *pb.Message) {
	size := int64(0)
	for _, e := range msg.GetEntries() {
		size += int64(len(e.GetData()))
	}
	if msg.GetType() == pb.MsgSnap {
		return // snapshots come on a connection of their own
	}
	if n.full.Load() && size > 0 {
		return // not acknowledged: the leader sends it again
	}
	if n.arrived.Add(size) > maxWaiting && size > 0 {
		n.arrived.Add(-size)
		return
	}
	n.run.do(func() {
		n.arrived.Add(-size)
		n.m.Step(msg)
	})
}

// self returns the group's info about this member. A member without content yet has it from its token.
func (n *Node) self() (Info, error) {
	if i, ok := n.machine.members.Load().infos[n.id]; ok {
		return i, nil
	}
	return n.noted()
}

// noted returns the info that Init or Join has noted about this member.
func (n *Node) noted() (Info, error) {
	stored, err := n.log.Mark(markSelf)
	if err != nil {
		return Info{}, err
	}
	i, _, err := decodeInfo(stored)
	return i, err
}

// setPeers tells the transport the other members. A joining member has them from its token until it has the group's
// log.
func (n *Node) setPeers() error {
	addrs := make(map[uint64]string)
	infos := n.machine.members.Load().infos
	if len(infos) == 0 {
		encoded, err := n.log.Mark(markPeers)
		if err != nil {
			return err
		}
		if infos, err = decodeInfos(encoded); err != nil {
			return err
		}
	}
	for id, info := range infos {
		if id == n.id {
			continue
		}
		if err := n.checkPeer(info.Peer); err != nil { // the others can be reached all the same
			n.logger.Error("sievekv: a member cannot be reached", "dir", n.dir, "member", hexID(id), "error", err)
			continue
		}
		addrs[id] = info.Peer
	}
	return n.wire.SetPeers(addrs)
}

// Propose implements storage.Log.
func (n *Node) Propose(p storage.Proposal) <-chan error {
	ticket := make(chan error, 1)
	proposal := member.Proposal{
		Leadership: member.Leadership{Term: p.Term, Number: n.machine.leadership.Load()},
		Record:     bytes.Clone(p.Record),
		Done:       func(err error) { ticket <- outcome(err) },
	}
	if p.Whole {
		proposal.Flags |= entry.Whole
	}
	if p.Group {
		proposal.Flags |= entry.Group
	}
	n.run.do(func() { n.m.Propose(proposal) })
	return ticket
}

// send sends messages to other members. Snapshots are made when they are sent, each by a goroutine of its own.
func (n *Node) send(messages []*pb.Message) {
	var now []*pb.Message
	for _, msg := range messages {
		if msg.GetType() == pb.MsgSnap {
			n.others.Go(func() { n.sendSnapshot(msg) })
		} else {
			now = append(now, msg)
		}
	}
	if len(now) > 0 {
		n.wire.Send(now)
	}
}

// failed ends the member for good: it answers nothing any more, and its store fails.
func (n *Node) failed(err error) {
	if errors.Is(err, ErrClosed) {
		return
	}
	n.logger.Error("sievekv: the member of the group has ended", "dir", n.dir, "member", hexID(n.id), "error", err)
	_ = n.DB.Store().Fail(err)
	n.others.Go(func() { _ = n.wire.Close() }) // so that others see that it is gone
}

// alarm tells of a leader that is refused.
func (n *Node) alarm(err error) {
	n.logger.Error("sievekv: the member of the group refuses its leader", "dir", n.dir, "member", hexID(n.id), "error", err)
	n.seen.alarm = err
}

// Close hands the leadership over, if it has it, and closes the store.
func (n *Node) Close() (err error) {
	n.closed.Do(func() { err = n.close() })
	return err
}

func (n *Node) close() error {
	n.handOver()
	n.end()
	n.run.do(func() { n.m.Fail(ErrClosed) })
	select {
	case <-n.run.told:
	case <-time.After(10 * time.Second): // the store makes the applier wait, for room on the disk
		_ = n.DB.Store().Fail(ErrClosed)
		<-n.run.told
	}
	n.run.end()
	err := n.wire.Close()
	n.others.Wait()
	return errors.Join(err, n.closeFiles())
}

// closeFiles closes the store and the log.
func (n *Node) closeFiles() (err error) {
	n.end()
	if n.early != nil {
		_ = n.early.Close() // nobody has used it
	}
	if n.DB != nil {
		if err = n.DB.Close(); errors.Is(err, kv.ErrFailed) && n.m != nil && n.m.Failed() != nil {
			err = nil // it has failed because the member has, which was told
		}
	}
	return errors.Join(err, n.log.Close())
}

// handOver makes another member lead.
func (n *Node) handOver() {
	s := n.Status()
	if !s.Leads {
		return
	}
	ctx, cancel := context.WithTimeout(n.ctx, 2*electionTimeout)
	defer cancel()
	if to := s.MostAdvanced(); to != 0 {
		_ = n.Transfer(ctx, to) // another is elected if it fails
	} else {
		n.settle(ctx)
	}
}

// settle returns when pending commits are committed, or ctx has ended: a planned end of a leadership loses nothing.
func (n *Node) settle(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		_ = n.DB.Sync() // an error means that the leadership is over
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

const electionTimeout = 20 * member.TickMillis * time.Millisecond

func randomID() (id uint64) {
	var b [8]byte
	for id == 0 || raft.IsLocalMsgTarget(id) {
		_, _ = rand.Read(b[:]) // never fails
		id = binary.LittleEndian.Uint64(b[:])
	}
	return id
}

func idBytes(id uint64) []byte { return binary.LittleEndian.AppendUint64(nil, id) }

// checkInfo refuses names and addresses that are too long, or no addresses.
func checkInfo(i Info) error {
	for _, a := range []struct{ name, value string }{{"name", i.Name}, {"peer address", i.Peer}, {"client address", i.Client}} {
		if len(a.value) > maxText {
			return fmt.Errorf("%s of %d bytes, want at most %d", a.name, len(a.value), maxText)
		}
	}
	if _, _, err := net.SplitHostPort(i.Peer); err != nil {
		return fmt.Errorf("peer address %q: want host:port", i.Peer)
	}
	if _, _, err := net.SplitHostPort(i.Client); i.Client != "" && err != nil {
		return fmt.Errorf("client address %q: want host:port", i.Client)
	}
	return nil
}

// imageDir returns a directory for a snapshot that is being received.
func (n *Node) imageDir(i uint64) string {
	return n.fs.PathJoin(n.dir, fmt.Sprintf("incoming-%d", i))
}

// removeImages removes snapshots that earlier processes have received.
func (n *Node) removeImages() error {
	names, err := n.fs.List(n.dir)
	for _, name := range names {
		if ok, _ := filepath.Match("incoming-*", name); ok {
			err = errors.Join(err, n.fs.RemoveAll(n.fs.PathJoin(n.dir, name)))
		}
	}
	return err
}

// hexID returns an id as people see it.
func hexID(id uint64) string { return strconv.FormatUint(id, 16) }
