package server

import (
	"hash/maphash"
	"io"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/txn"
)

// CLIENT TRACKING: a client that caches what it has read is told when a key that it has read changes.
//
// A key is entered before the command that reads it runs. A commit tells of a key once lookups see the change. So
// either the command sees the commit, or the client is told of it. The client is told after the reply to the command: a
// connection sends such messages between batches, when the replies to all commands that have run are sent. So no client
// keeps an old value and misses the change.
//
// A key leaves the table when its clients are told. So waiting messages are bounded by the keys entered, and a setting
// bounds the table: when it is full, clients are told of a change of a key that has not changed.

// trackers has the keys that clients have read. It is in shards, each with a lock, because every commit looks into it.
type trackers struct {
	clients atomic.Int64
	units   atomic.Int64 // of memory: see unitsOf
	shards  [numTrackerShards]trackerShard
}

const numTrackerShards = 64

type trackerShard struct {
	mu    sync.Mutex
	byKey map[string]map[*tracker]struct{} // guarded by mu
}

var trackerSeed = maphash.MakeSeed()

func (t *trackers) of(key string) *trackerShard {
	return &t.shards[maphash.String(trackerSeed, key)%numTrackerShards]
}

// unitsOf is the number of units that a key counts for each client that has read it: about 300 bytes are a unit.
func unitsOf(key string) int64 { return 1 + int64(len(key))/256 }

// add enters a key for a client. The table keeps to most units: if there is no room, other keys leave, and their
// clients are told.
func (t *trackers) add(x *tracker, key string, most int64) {
	s := t.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.byKey[key][x]; known {
		return
	}
	for t.units.Load()+unitsOf(key) > most {
		other, any := s.anyKey()
		if !any { // what there is belongs to other shards
			x.tell(key)
			return
		}
		t.take(s, other)
	}
	if s.byKey == nil {
		s.byKey = make(map[string]map[*tracker]struct{})
	}
	if s.byKey[key] == nil {
		s.byKey[key] = make(map[*tracker]struct{})
	}
	s.byKey[key][x] = struct{}{}
	t.units.Add(unitsOf(key))
}

func (s *trackerShard) anyKey() (string, bool) {
	for key := range s.byKey {
		return key, true
	}
	return "", false
}

// take tells of a key, and removes it. The caller holds the shard's lock.
func (t *trackers) take(s *trackerShard, key string) {
	clients := s.byKey[key]
	if len(clients) == 0 {
		return
	}
	delete(s.byKey, key)
	t.units.Add(-int64(len(clients)) * unitsOf(key))
	for x := range clients {
		x.tell(key)
	}
}

// Changed implements watch.Observer.
func (t *trackers) Changed(key string) {
	s := t.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	t.take(s, key)
}

// Flushed implements watch.Observer.
func (t *trackers) Flushed() {
	all := make(map[*tracker]struct{})
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for key, clients := range s.byKey {
			t.units.Add(-int64(len(clients)) * unitsOf(key))
			maps.Copy(all, clients)
		}
		s.byKey = nil
		s.mu.Unlock()
	}
	for x := range all { // once each
		x.tellAll()
	}
}

// keys returns how many keys are entered.
func (t *trackers) keys() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.byKey)
		s.mu.Unlock()
	}
	return n
}

// tracker has the keys that a tracking connection must tell its client.
type tracker struct {
	conn *conn

	// The connection's goroutine alone uses these.
	mode    string // "", OPTIN or OPTOUT
	caching bool   // CLIENT CACHING was given for the next command, or for the transaction

	mu      sync.Mutex
	ended   bool                // nothing is told any more; guarded by mu
	pending map[string]struct{} // keys to be told; guarded by mu
	bytes   int                 // of pending; guarded by mu
	all     bool                // the client must be told of all keys; guarded by mu
	reading bool                // the connection waits for its client; guarded by mu
}

// tell notes a key to tell, and wakes the connection if it waits for its client.
func (x *tracker) tell(key string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended || x.all {
		return
	}
	if x.pending == nil {
		x.pending = make(map[string]struct{})
	}
	if _, known := x.pending[key]; !known {
		x.pending[key] = struct{}{}
		x.bytes += len(key) + pendingBytes
	}
	if x.bytes > maxPending {
		x.pending, x.bytes, x.all = nil, 0, true
	}
	x.wake()
}

// maxPending is how many bytes of keys wait to be told one by one, about 1000 short keys. If there are more, the client
// is told that all keys have changed.
const (
	maxPending   = 64 << 10
	pendingBytes = 64 // of a key, besides its own
)

// tellAll notes that the client must be told of all keys.
func (x *tracker) tellAll() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.ended {
		x.pending, x.bytes, x.all = nil, 0, true
		x.wake()
	}
}

// wake makes the connection's read return. The caller holds mu.
func (x *tracker) wake() {
	if x.reading {
		_ = x.conn.net.SetReadDeadline(time.Unix(1, 0)) // fails if the client is gone
	}
}

// beginRead notes that the connection waits for its client, unless there is something to tell. The connection has set the
// deadline of the read before.
func (x *tracker) beginRead() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reading = len(x.pending) == 0 && !x.all
	return x.reading
}

// endRead reports whether there is something to tell.
func (x *tracker) endRead() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reading = false
	return len(x.pending) > 0 || x.all
}

// appendPending appends the waiting keys, as pushes of RESP3, and forgets them.
func (x *tracker) appendPending(dst []byte) []byte {
	x.mu.Lock()
	pending, all := x.pending, x.all
	x.pending, x.bytes, x.all = nil, 0, false
	x.mu.Unlock()
	if all {
		dst = append(append(dst, pushInvalidate...), "_\r\n"...)
	}
	for key := range pending {
		dst = append(dst, pushInvalidate...)
		dst = resp.Append(dst, reply.Array(reply.BulkString(key)), 3)
	}
	return dst
}

const pushInvalidate = ">2\r\n$10\r\ninvalidate\r\n"

func (x *tracker) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended, x.pending, x.bytes, x.all, x.conn = true, nil, 0, false, nil
}

// track enters the keys of a command that is about to run and only reads.
func (c *conn) track(cmd *module.Command, args [][]byte) {
	x := c.tracker
	if x == nil || cmd.Flags&module.ReadOnly == 0 || x.mode == "OPTIN" && !x.caching || x.mode == "OPTOUT" && x.caching {
		return
	}
	if _, queued := txn.Queued(c.session); queued && !c.executing {
		return
	}
	most := c.server.host.SettingInt(trackingSetting)
	cmd.Keys(args, func(key []byte, _ string) bool {
		c.server.trackers.add(x, string(key), most)
		return true
	})
}

// ranTracked notes that a command has run: CLIENT CACHING was for it alone, unless it is CLIENT CACHING or part of a
// transaction.
func (c *conn) ranTracked(cmd *module.Command) {
	if x := c.tracker; x != nil && x.caching {
		if _, queued := txn.Queued(c.session); !queued && (cmd == nil || cmd.Name != "CLIENT") {
			x.caching = false
		}
	}
}

// startTracking and stopTracking begin and end CLIENT TRACKING. The store is asked to tell of changes while any client
// tracks.
func (c *conn) startTracking(mode string) {
	if c.tracker == nil {
		c.tracker = &tracker{conn: c}
		c.server.observe(1)
	}
	c.tracker.mode, c.tracker.caching = mode, false
	c.setTracking(true)
}

func (c *conn) stopTracking() {
	if c.tracker == nil {
		return
	}
	c.tracker.end()
	c.tracker = nil
	c.server.observe(-1)
	c.setTracking(false)
}

func (c *conn) setTracking(on bool) {
	c.about.mu.Lock()
	c.about.tracking = on
	c.about.mu.Unlock()
}

// observe adds to the number of clients that track.
func (s *Server) observe(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trackers.clients.Add(n) > 0 {
		s.db.Observe(&s.trackers)
		return
	}
	s.db.Observe(nil)
	s.trackers.Flushed() // what clients that are gone have read
}

// teller has messages for the client while the connection waits for it: a tracker, or a monitor.
type teller interface {
	beginRead() bool // notes that the connection waits, unless there is something to tell
	endRead() bool   // reports whether there is
	appendPending(dst []byte) []byte
}

// readTelling is readUntil for a client that tracks or monitors. Before it waits for the client, and meanwhile, it
// sends the waiting messages. Messages that waited when bytes came are sent before the replies to the commands in these
// bytes: the client may have sent the commands because it knows of the change.
func (c *conn) readTelling(x teller, deadline time.Time) (n int, err error) {
	for {
		if err := c.net.SetReadDeadline(deadline); err != nil {
			return 0, err
		}
		if c.closing.Load() {
			return 0, os.ErrDeadlineExceeded
		}
		if x.beginRead() {
			if n, err = c.fill(); !x.endRead() {
				return n, err
			}
		}
		if c.out = x.appendPending(c.out); n > 0 && !c.ended {
			return n, err // they are sent with the replies
		}
		if !c.flush() || c.ended {
			return 0, io.EOF
		}
	}
}

// clientTracking runs CLIENT TRACKING.
func clientTracking(c *conn, call *module.Call) reply.Reply {
	on := text.FoldCase(call.Args[0])
	if on != "ON" && on != "OFF" {
		return errSyntax
	}
	mode := ""
	for _, arg := range call.Args[1:] {
		switch word := text.FoldCase(arg); word {
		case "OPTIN", "OPTOUT":
			if mode != "" && mode != word {
				return reply.Error("ERR You can't specify both OPTIN mode and OPTOUT mode")
			}
			mode = word
		case "REDIRECT", "BCAST", "PREFIX", "NOLOOP":
			return reply.Errorf("ERR CLIENT TRACKING %s is not supported: want ON, alone or with OPTIN or OPTOUT, or OFF", word)
		default:
			return errSyntax
		}
	}
	switch {
	case on == "OFF":
		c.stopTracking()
	case c.monitor != nil:
		return reply.Error("ERR MONITOR and CLIENT TRACKING exclude each other on one connection")
	case c.protocol != 3:
		return reply.Error("ERR CLIENT TRACKING needs RESP3, in which keys are pushed: give HELLO 3 first, or do not cache in the client (rueidis: DisableCache)")
	case c.tracker != nil && c.tracker.mode != mode:
		return reply.Error("ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.")
	default:
		c.startTracking(mode)
	}
	return reply.OK
}

// clientCaching runs CLIENT CACHING.
func clientCaching(c *conn, call *module.Call) reply.Reply {
	if c.tracker == nil || c.tracker.mode == "" {
		return reply.Error("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")
	}
	switch word := text.FoldCase(call.Args[0]); {
	case word != "YES" && word != "NO":
		return errSyntax
	case word == "YES" && c.tracker.mode != "OPTIN":
		return reply.Error("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
	case word == "NO" && c.tracker.mode != "OPTOUT":
		return reply.Error("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
	}
	c.tracker.caching = true
	return reply.OK
}

// clientTrackingInfo runs CLIENT TRACKINGINFO.
func clientTrackingInfo(c *conn, _ *module.Call) reply.Reply {
	flags, redirect := []string{"off"}, int64(-1)
	if x := c.tracker; x != nil {
		flags, redirect = []string{"on"}, 0
		switch x.mode {
		case "OPTIN":
			flags = append(flags, "optin")
			if x.caching {
				flags = append(flags, "caching-yes")
			}
		case "OPTOUT":
			flags = append(flags, "optout")
			if x.caching {
				flags = append(flags, "caching-no")
			}
		}
	}
	set := make([]reply.Reply, len(flags))
	for i, flag := range flags {
		set[i] = reply.BulkString(flag)
	}
	return reply.Map(
		reply.Field("flags", reply.Set(set...)), reply.Field("redirect", reply.Int(redirect)), reply.Field("prefixes", reply.Array()),
	)
}
