// Package live has what a running server tells a page about itself, and what a page asks about the rights of its
// viewer. It is what packages dashboard and server have in common: neither needs the other.
package live

import (
	"net/http"
	"net/netip"
	"time"
)

// Server is a server that serves a store. Any goroutine may call its methods. None of them blocks, or takes longer than a look at
// its counters.
type Server interface {
	// Counts returns what the server has counted since it started, or since its counts were set back.
	Counts() Counts

	// Slow returns the newest slow commands, the newest first, most of them at most, and how many there are.
	Slow(most int) (list []SlowCommand, all int)

	// Clients returns the clients that sent something last, most of them at most, and how many there are.
	Clients(most int) (list []Client, all int)

	// Group returns the group that the store belongs to, nil if it is alone.
	Group() *Group
}

// Viewer is the person who looks at a page.
type Viewer interface {
	// Name is what the viewer is called.
	Name() string

	// May reports whether the viewer may run a command, such as SIEVE.STATS with a key.
	May(words ...string) bool
}

// IsLocal reports whether a request comes from this machine. A proxy here passes on requests of other machines, and says so.
func IsLocal(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback() && r.Header.Get("X-Forwarded-For") == "" && r.Header.Get("Forwarded") == ""
}

// Refusal is an error that says how a request is refused.
type Refusal struct {
	Status int         // of HTTP
	Text   string      // what the client is told
	Header http.Header // of the answer, nil for none of its own
}

// Error implements error.
func (r *Refusal) Error() string { return r.Text }

// Counts are counts of a server.
type Counts struct {
	Connections                  int
	Calls, Failed, Refused       uint64 // of commands: commands that ran, commands that ran and answered an error, and commands that did not run
	ConnectionsRefused           uint64
	KeysFound, KeysMissing       uint64 // by commands that read
	BytesReceived, BytesSent     uint64
	Latency                      Latency // of all commands
	Commands                     []Command
	Errors                       []Kind // of replies, by their first word
	WrongPasswords, ForbiddenUse uint64
}

// Command is a command that was called.
type Command struct {
	Name                   string // in lower case
	Calls, Failed, Refused uint64
	Took                   time.Duration // by all calls
	Latency                Latency
}

// Kind is how many errors of a kind there were.
type Kind struct {
	Name string
	N    uint64
}

// Latency counts calls by how long they took: place i has those that took less than 2^i microseconds, and at least half of that; the
// last place also has all slower ones.
type Latency [26]uint64

// Add adds the counts of another.
func (l *Latency) Add(other *Latency) {
	for i, n := range other {
		l[i] += n
	}
}

// Since returns what came after an earlier Latency, and all of it if the counts were set back since.
func (l Latency) Since(before *Latency) Latency {
	for i, n := range before {
		if l[i] < n {
			return l
		}
	}
	for i, n := range before {
		l[i] -= n
	}
	return l
}

// Total returns the number of calls.
func (l *Latency) Total() (n uint64) {
	for _, count := range l {
		n += count
	}
	return n
}

// Quantile returns a time that a share of the calls did not exceed, and no more than twice the least such time; 0 without calls.
func (l *Latency) Quantile(share float64) time.Duration {
	total := l.Total()
	if total == 0 {
		return 0
	}
	seen := uint64(0)
	for i, n := range l {
		seen += n
		if float64(seen) >= share*float64(total) {
			return time.Microsecond << i
		}
	}
	return time.Microsecond << (len(l) - 1)
}

// SlowCommand is a command that took long.
type SlowCommand struct {
	At           time.Time
	Took         time.Duration
	Words        []string // shortened, and without what may be a password
	Client, Name string   // its address, and the name it has given itself
}

// Client is a connected client.
type Client struct {
	ID                 int64
	Address, Name      string
	User, Command      string        // the command that it ran last
	Age, Idle          time.Duration // since it connected, and since it sent something
	Buffers            int64         // bytes
	Library            string
	Transaction, Reads bool // it has begun one; it reads from a member that does not lead
}

// Group is a group as one of its members knows it.
type Group struct {
	Term               uint64
	Applied, Committed uint64 // indexes of the group's log, here
	Alarm              bool   // this member has refused a leader or a vote since it was started, or has ended
	Members            []Member
}

// Member is a member of a group.
type Member struct {
	Name, ID, Client string // Client is where it serves clients
	Role             string // Leader, follower or learner
	Self, Healthy    bool
	Applied          uint64 // the last index that it is known to have, 0 if none is known
}

// Leader is the role of the member that takes writes.
const Leader = "leader"
