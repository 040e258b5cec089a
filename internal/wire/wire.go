package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
)

// Options configure New. Self, Cluster, Listener, Handle and HandleSnapshot have to be set.
type Options struct {
	// Self is the id of this member, and Cluster the id of the group.
	Self    uint64
	Cluster [16]byte

	// TLS is for both sides: it has the certificate of this member, and as RootCAs the CA of the group. Without it, the
	// listener and all members must have loopback addresses.
	TLS *tls.Config

	// Listener is where the other members dial. Close closes it.
	Listener net.Listener

	// Handle is called with each message, by a goroutine of the connection: messages of one member one after another.
	// The connection's later messages wait for it.
	Handle func(from uint64, m *pb.Message)

	// HandleSnapshot is called with a snapshot and the message that it belongs to. R returns io.EOF behind the whole snapshot
	// only. The error is the answer to the sender. Ctx ends when the sender is gone, or sends another, or at Close.
	HandleSnapshot func(ctx context.Context, from uint64, m *pb.Message, r io.Reader) error

	// HandleDigest, if set, is called with what Tell has sent. The error is the answer.
	HandleDigest func(from uint64, body []byte) error

	// Probe, if set, returns the answer of this member to a probe, up to 1 KiB. Probed, if set, is called with the answers of another
	// member, as long as it can be reached, and how long each took, by a goroutine that is that member's alone. It must not keep
	// the answer.
	Probe  func() []byte
	Probed func(from uint64, answer []byte, took time.Duration)

	// ProbeEvery is how often a member is probed. Default one second.
	ProbeEvery time.Duration

	// Unreachable, if set, is called when messages to a member were dropped, or its connection failed, by a goroutine that is
	// that member's alone.
	Unreachable func(id uint64)

	// Queue is how many bytes of messages wait for a member at most. One message always may. Default 16 MiB.
	Queue int

	// Silence is for how long nothing may come on a connection; on one for a snapshot it is six times as long. Default 5 seconds.
	Silence time.Duration

	// Logger gets a line when a member can be reached or not, and when a connection is refused, with the reason.
	// Default: nobody.
	Logger *slog.Logger
}

// Transport carries messages to the other members, and from them. Any goroutine may call its methods.
type Transport struct {
	opts   Options
	secure secure
	log    *slog.Logger

	ctx     context.Context // ends at Close
	end     context.CancelFunc
	running sync.WaitGroup // added to with mu held, or by a goroutine that is counted

	mu        sync.Mutex
	peers     map[uint64]*peer
	incoming  map[incoming]*conn
	strangers []*conn   // that have not said hello, oldest first
	told      time.Time // of a stranger, in the log
}

// incoming names an accepted connection. There is one of each.
type incoming struct {
	from uint64
	kind byte
}

// New begins to accept connections. There are no members yet.
func New(o Options) (*Transport, error) {
	if o.Self == 0 || o.Listener == nil || o.Handle == nil || o.HandleSnapshot == nil {
		return nil, errors.New("Options lacks Self, Listener, Handle or HandleSnapshot")
	}
	if o.Queue == 0 {
		o.Queue = 16 << 20
	}
	if o.Silence == 0 {
		o.Silence = 5 * time.Second
	}
	if o.ProbeEvery == 0 {
		o.ProbeEvery = time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.HandleDigest == nil {
		o.HandleDigest = func(uint64, []byte) error { return errors.New("no digests") }
	}
	if o.Unreachable == nil {
		o.Unreachable = func(uint64) {}
	}
	s, err := newSecure(o.TLS)
	if err == nil && o.TLS == nil {
		err = CheckLoopback(o.Listener.Addr().String())
	}
	if err != nil {
		return nil, err
	}
	t := &Transport{
		opts: o, secure: s, log: o.Logger.With("member", hexID(o.Self)), peers: map[uint64]*peer{}, incoming: map[incoming]*conn{},
	}
	t.ctx, t.end = context.WithCancel(context.Background())
	t.running.Go(t.accept)
	return t, nil
}

// SetPeers sets the other members, with their addresses, in place of those before. Connections of members that are no
// longer among them end, and so do connections to members with another address. If one of the addresses is not allowed,
// nothing changes.
func (t *Transport) SetPeers(addrs map[uint64]string) error {
	for id, addr := range addrs {
		if id != t.opts.Self && t.opts.TLS == nil {
			if err := CheckLoopback(addr); err != nil {
				return err
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return net.ErrClosed
	}
	for id, p := range t.peers {
		if addrs[id] != p.addr {
			p.end()
			delete(t.peers, id)
		}
	}
	for id, addr := range addrs {
		if t.peers[id] == nil && id != t.opts.Self {
			t.peers[id] = newPeer(t, id, addr)
			t.running.Go(t.peers[id].run)
		}
	}
	for key, c := range t.incoming {
		if t.peers[key.from] == nil {
			c.close()
		}
	}
	return nil
}

// Send sends messages to the members that they are for. It never waits: it drops messages for unknown members, and
// messages that do not fit into a member's queue. Nobody may change the messages afterwards.
func (t *Transport) Send(messages []*pb.Message) {
	for _, m := range messages {
		t.mu.Lock()
		p := t.peers[m.GetTo()]
		t.mu.Unlock()
		if p != nil {
			p.send(m)
		}
	}
}

// Close ends all connections, and waits for all goroutines, also for calls of Handle and HandleSnapshot. Messages that
// wait to be sent are dropped.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.end()
	for _, c := range t.incoming {
		c.close()
	}
	for _, c := range t.strangers {
		c.close()
	}
	t.mu.Unlock()
	err := t.opts.Listener.Close()
	t.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// hexID is an id as people are shown it.
func hexID(id uint64) string { return strconv.FormatUint(id, 16) }
