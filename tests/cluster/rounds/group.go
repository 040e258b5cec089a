package rounds

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	hang     = 2 * time.Minute // after a longer wait something hangs
	patience = 4 * time.Second // of a client with an answer, after which it does not know the outcome
	pause    = 20 * time.Millisecond
)

// group is a group of processes.
type group struct {
	program string
	onDisk  []string // the program for a member whose disk is in memory
	dir     string
	sync    string
	ca      *authority    // nil without TLS
	host    string        // of all addresses
	compare time.Duration // how often members that start from now on compare what they have; 0 for never, below 0 if their program cannot
	net     *network
	rng     *rand.Rand
	made    int // members

	mu      sync.Mutex
	members []*member // guarded by mu, changed by the goroutine of the rounds
}

// newGroup starts a group of three.
func newGroup(ctx context.Context, o Options) (*group, error) {
	g := &group{program: o.Program, onDisk: o.Member, dir: o.Dir, sync: o.Sync, host: "127.0.0.1", compare: compareEvery, rng: rand.New(rand.NewPCG(o.Seed, 45))}
	if o.Older != "" {
		g.program, g.compare = o.Older, -1
	}
	var proxies *tls.Config
	if o.TLS {
		var err error
		if g.ca, err = newAuthority(); err == nil {
			proxies, err = g.ca.config()
		}
		if err != nil {
			return nil, err
		}
	}
	g.net = newNetwork(proxies)
	if runtime.GOOS == "linux" { // all of 127.0.0.0/8 is this machine: ports that are free here stay free
		g.host = fmt.Sprintf("127.%d.%d.%d", 1+rand.N(254), 1+rand.N(254), 1+rand.N(254))
	}
	first, err := g.add(ctx)
	if err != nil {
		return g, err
	}
	defer first.load(ctx)() // the others get a snapshot of a store that goes on
	for range 2 {
		if _, err := g.add(ctx); err != nil {
			return g, err
		}
	}
	return g, g.settle(ctx)
}

// add adds a member: the first makes the group, another joins it.
func (g *group) add(ctx context.Context) (*member, error) {
	m, err := g.newMember()
	if err != nil {
		return nil, err
	}
	how := []string{"init", "--node", m.name, "--peer-addr", m.peer}
	if len(g.all()) > 0 {
		if how, err = g.token(ctx, m); err != nil {
			m.close()
			return nil, err
		}
	}
	g.mu.Lock()
	g.members = append(g.members, m)
	g.mu.Unlock()
	if err := m.start(ctx, how...); err != nil {
		return nil, err
	}
	return m, g.await(ctx, m.name+" knows who it is", func() (bool, error) {
		s, err := m.status(ctx)
		m.id = s.id
		return err == nil, m.check()
	})
}

// token has the leader make a token. If it does not tell whether it has, there may be a member of this name, which is then removed.
func (g *group) token(ctx context.Context, m *member) (how []string, err error) {
	file := m.dir + ".token"
	err = g.await(ctx, "a token for "+m.name, func() (bool, error) {
		l, err := g.leader(ctx)
		if err != nil {
			return false, err
		}
		text, err := l.admin.Do(ctx, "SIEVE.CLUSTER", "TOKEN", m.name, m.peer, m.client).Text()
		if err == nil {
			return true, os.WriteFile(file, []byte(text), 0o600)
		}
		_ = l.admin.Do(ctx, "SIEVE.CLUSTER", "REMOVE", m.name, "YES").Err() // there may be none
		return false, nil
	})
	return []string{"join", "--token-file", file}, err
}

// remove removes a member that does not lead, and ends its process.
func (g *group) remove(ctx context.Context, m *member) error {
	err := g.await(ctx, "removal of "+m.name, func() (bool, error) {
		l, err := g.leader(ctx)
		if err != nil {
			return false, err
		}
		if l == m {
			_ = m.admin.Do(ctx, "SIEVE.CLUSTER", "TRANSFER").Err() // it is tried again
			return false, nil
		}
		_ = l.admin.Do(ctx, "SIEVE.CLUSTER", "REMOVE", m.name, "YES").Err() // what counts is what it says then
		s, err := l.status(ctx)
		return err == nil && s.leads && !slices.Contains(s.names, m.name), nil
	})
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.members = slices.DeleteFunc(g.members, func(other *member) bool { return other == m })
	g.mu.Unlock()
	defer m.close()
	return m.kill()
}

// all returns the members.
func (g *group) all() []*member {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.members)
}

// any returns a member, for clients.
func (g *group) any(i int) *member {
	members := g.all()
	return members[i%len(members)]
}

// others returns the members besides one.
func (g *group) others(m *member) []*member {
	return slices.DeleteFunc(g.all(), func(other *member) bool { return other == m })
}

func ids(members []*member) (ids []uint64) {
	for _, m := range members {
		ids = append(ids, m.id)
	}
	return ids
}

// leader waits for a member that leads. Of several that say so it takes the one of the last term.
func (g *group) leader(ctx context.Context) (leader *member, err error) {
	err = g.await(ctx, "somebody leads", func() (bool, error) {
		last := int64(0)
		for _, m := range g.all() {
			if !m.runs() {
				continue
			}
			if err := m.check(); err != nil {
				return false, err
			}
			if s, err := m.status(ctx); err == nil && s.leads && s.term > last {
				leader, last = m, s.term
			}
		}
		return leader != nil, nil
	})
	return leader, err
}

// follower waits for a leader, and returns another member.
func (g *group) follower(ctx context.Context) (*member, error) {
	l, err := g.leader(ctx)
	if err != nil {
		return nil, err
	}
	others := g.others(l)
	return others[g.rng.IntN(len(others))], nil
}

// settle waits until all members vote, know each other, and are healthy. An alarm is an error.
func (g *group) settle(ctx context.Context) error {
	return g.await(ctx, "all members are well", func() (bool, error) {
		leaders, well, terms := 0, true, make(map[int64]bool)
		for _, m := range g.all() {
			if err := m.check(); err != nil {
				return false, err
			}
			s, err := m.status(ctx)
			if err != nil {
				return false, nil
			}
			if s.alarm != "" {
				return false, fmt.Errorf("%s has an alarm: %s", m.name, s.alarm)
			}
			if s.leads {
				leaders++
			}
			terms[s.term] = true
			well = well && s.whole && len(s.names) == len(g.all())
		}
		return well && leaders == 1 && len(terms) == 1, nil
	})
}

// level waits until all members have applied the same.
func (g *group) level(ctx context.Context) error {
	return g.await(ctx, "all members have applied the same", func() (bool, error) {
		applied := make(map[int64]bool)
		for _, m := range g.all() {
			s, err := m.status(ctx)
			if err != nil {
				return false, m.check()
			}
			applied[s.applied] = true
		}
		return len(applied) == 1, nil
	})
}

// await waits until something is true, or has failed. What takes longer than hang has failed.
func (g *group) await(ctx context.Context, what string, is func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, hang, fmt.Errorf("waited for %v: %s", hang, what))
	defer cancel()
	for {
		if ok, err := is(); ok || err != nil {
			return err
		}
		if !rest(ctx, pause) {
			return errors.Join(context.Cause(ctx), g.tell())
		}
	}
}

// tell returns an error that says what the members say of themselves.
func (g *group) tell() error {
	var all []error
	for _, m := range g.all() {
		s, err := m.status(context.Background())
		all = append(all, fmt.Errorf("  %s, which runs %t: %+v, %v", m.name, m.runs(), s, err))
	}
	return errors.Join(all...)
}

// rest waits, and reports whether ctx goes on.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// end ends all processes: the leader last, so that nobody leads alone.
func (g *group) end(ctx context.Context) error {
	l, err := g.leader(ctx)
	if err != nil {
		return err
	}
	for _, m := range g.others(l) {
		err = errors.Join(err, m.end())
	}
	return errors.Join(err, l.end())
}

// close ends what is left.
func (g *group) close() {
	for _, m := range g.all() {
		m.close()
	}
	g.net.close()
}

// logs returns how many lines of the members' logs have a text.
func (g *group) logs(text string) (lines int, err error) {
	files, err := filepath.Glob(filepath.Join(g.dir, "*.log"))
	for _, file := range files {
		data, e := os.ReadFile(file)
		err = errors.Join(err, e)
		lines += countLines(data, text)
	}
	return lines, err
}
