package rounds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Fault is one bad thing that a round does.
type Fault struct {
	name string
	do   func(*run, context.Context) error
}

// Named returns the faults of some names.
func Named(names ...string) (some []Fault) {
	for _, f := range faults {
		if slices.Contains(names, f.name) {
			some = append(some, f)
		}
	}
	return some
}

// Names returns the names of all faults.
func Names() (names []string) {
	for _, f := range faults {
		names = append(names, f.name)
	}
	return names
}

// faults are all of them.
var faults = []Fault{
	{"kill -9 of the leader", (*run).killLeader},
	{"kill -9 of a follower", (*run).killFollower},
	{"kill -9 of all", (*run).killAll},
	{"a follower away for long", (*run).followerAway},
	{"leader stopped", (*run).stopLeader},
	{"follower stopped", (*run).stopFollower},
	{"leader cut off", (*run).cutLeader},
	{"follower cut off", (*run).cutFollower},
	{"cut one way", (*run).cutOneWay},
	{"bridge", (*run).bridge},
	{"delays", (*run).delay},
	{"transfer", (*run).transfer},
	{"member replaced", (*run).replace},
	{"member replaced while one is cut off", (*run).replaceInPartition},
	{"member replaced, and the leader killed", (*run).replaceAndKill},
	{"member added during transfers", (*run).addInTransfers},
	{"power failure of the leader", (*run).leaderLosesPower},
	{"power failure of a follower", (*run).followerLosesPower},
	{"power failure of all", (*run).allLosePower},
	{"slow disk of the leader", (*run).leaderSlow},
	{"slow disk of a follower", (*run).followerSlow},
	{"full disk of the leader", (*run).leaderFull},
	{"full disk of a follower", (*run).followerFull},
	{"no byte left on a disk", (*run).noByteLeft},
	{"wrong clock of the leader", (*run).leaderClock},
	{"wrong clock of a follower", (*run).followerClock},
}

func (r *run) killLeader(ctx context.Context) error {
	l, err := r.g.leader(ctx)
	if err != nil {
		return err
	}
	if err := r.goesOn(ctx, "kill -9 of the leader", l.kill); err != nil {
		return err
	}
	return l.start(ctx)
}

// goesOn does something after which a majority goes on, and measures the time until a write is acknowledged that began after it.
func (r *run) goesOn(ctx context.Context, what string, do func() error) error {
	begun := time.Now()
	if err := do(); err != nil {
		return err
	}
	next := r.w.next()
	ctx, cancel := context.WithTimeoutCause(ctx, hang, fmt.Errorf("no write was acknowledged after %s", what))
	defer cancel()
	select {
	case at := <-next:
		r.res.Failovers[what] = append(r.res.Failovers[what], at.Sub(begun))
		return nil
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), r.g.tell())
	}
}

func (r *run) killFollower(ctx context.Context) error {
	return r.away(ctx, r.some(0, time.Second))
}

// followerAway has a follower miss more than the log has kept.
func (r *run) followerAway(ctx context.Context) error {
	return r.away(ctx, r.some(12*time.Second, 16*time.Second))
}

func (r *run) away(ctx context.Context, d time.Duration) error {
	m, err := r.g.follower(ctx)
	if err == nil {
		err = m.kill()
	}
	if err != nil {
		return err
	}
	rest(ctx, d)
	return m.start(ctx)
}

func (r *run) killAll(ctx context.Context) (err error) {
	for _, m := range r.g.all() {
		err = errors.Join(err, m.kill())
	}
	for _, m := range r.g.all() {
		if err == nil {
			err = m.start(ctx)
		}
	}
	return err
}

func (r *run) stopLeader(ctx context.Context) error {
	m, err := r.g.leader(ctx)
	if err != nil {
		return err
	}
	return r.stopFor(ctx, "stop of the leader", m)
}

func (r *run) stopFollower(ctx context.Context) error {
	m, err := r.g.follower(ctx)
	if err != nil {
		return err
	}
	return r.stopFor(ctx, "stop of a follower", m)
}

// stopFor stops a member for a moment, or for longer than its clients and connections wait.
func (r *run) stopFor(ctx context.Context, what string, m *member) error {
	d := r.some(500*time.Millisecond, 3*time.Second)
	if r.g.rng.IntN(4) == 0 {
		d = 10 * time.Second
	}
	if err := r.goesOn(ctx, what, m.stop); err != nil {
		return err
	}
	rest(ctx, d)
	return m.resume()
}

func (r *run) cutLeader(ctx context.Context) error {
	m, err := r.g.leader(ctx)
	if err != nil {
		return err
	}
	return r.partition(ctx, "cut of the leader", link{cut: true}, both(m.id, ids(r.g.others(m))...))
}

func (r *run) cutFollower(ctx context.Context) error {
	m, err := r.g.follower(ctx)
	if err != nil {
		return err
	}
	return r.partition(ctx, "cut of a follower", link{cut: true}, both(m.id, ids(r.g.others(m))...))
}

// cutOneWay has nothing arrive that the leader sends, or nothing that the leader is sent, or one of the directions between two members.
func (r *run) cutOneWay(ctx context.Context) error {
	m, err := r.g.leader(ctx)
	if err != nil {
		return err
	}
	d := both(m.id, ids(r.g.others(m))...)
	switch r.g.rng.IntN(3) {
	case 0:
		d = []direction{d[0], d[2]}
	case 1:
		d = []direction{d[1], d[3]}
	default:
		d = d[r.g.rng.IntN(len(d)):][:1]
	}
	return r.partition(ctx, "cut one way", link{cut: true}, d)
}

// bridge cuts the link between the leader and a follower: both reach the third member.
func (r *run) bridge(ctx context.Context) error {
	m, err := r.g.leader(ctx)
	if err != nil {
		return err
	}
	others := ids(r.g.others(m))
	return r.partition(ctx, "bridge", link{cut: true}, both(m.id, others[r.g.rng.IntN(len(others))]))
}

// delay has all messages arrive late.
func (r *run) delay(ctx context.Context) error {
	all := ids(r.g.all())
	d := append(both(all[0], all[1:]...), both(all[1], all[2:]...)...)
	return r.partition(ctx, "delays", link{delay: r.some(2*time.Millisecond, 200*time.Millisecond)}, d)
}

// partition sets links for a while. Clients go on meanwhile.
func (r *run) partition(ctx context.Context, what string, l link, d []direction) error {
	defer r.g.net.heal()
	err := r.goesOn(ctx, what, func() error { r.g.net.set(l, d...); return nil })
	rest(ctx, r.some(0, 4*time.Second))
	return err
}

func (r *run) transfer(ctx context.Context) error {
	to, err := r.g.follower(ctx)
	if err != nil {
		return err
	}
	l, err := r.g.leader(ctx)
	if err != nil || l == to {
		return err
	}
	_ = l.admin.Do(ctx, "SIEVE.CLUSTER", "TRANSFER", to.name).Err() // it may not lead any more
	return nil
}

func (r *run) replace(ctx context.Context) error {
	all := r.g.all()
	if err := r.g.remove(ctx, all[r.g.rng.IntN(len(all))]); err != nil {
		return err
	}
	_, err := r.g.add(ctx)
	return err
}

// replaceInPartition adds a member while another that is to go is cut off, and then removes that.
func (r *run) replaceInPartition(ctx context.Context) error {
	m, err := r.g.follower(ctx)
	if err != nil {
		return err
	}
	r.g.net.set(link{cut: true}, both(m.id, ids(r.g.others(m))...)...)
	if _, err := r.g.add(ctx); err != nil {
		return err
	}
	err = r.g.remove(ctx, m)
	r.g.net.heal()
	return err
}

// replaceAndKill kills the leader while a new member gets what the group has, and does not vote yet. Of the two that vote the other
// cannot lead alone.
func (r *run) replaceAndKill(ctx context.Context) error {
	if err := r.replace(ctx); err != nil {
		return err
	}
	l, err := r.g.leader(ctx)
	if err == nil {
		err = l.kill()
	}
	if err != nil {
		return err
	}
	rest(ctx, r.some(0, 2*time.Second))
	return l.start(ctx)
}

// addInTransfers moves the leadership while a member is added and made a voter, and removes another.
func (r *run) addInTransfers(ctx context.Context) error {
	if _, err := r.g.add(ctx); err != nil {
		return err
	}
	for range 3 {
		if err := r.transfer(ctx); err != nil {
			return err
		}
		rest(ctx, r.some(0, 500*time.Millisecond))
	}
	m, err := r.g.follower(ctx)
	if err == nil {
		err = r.transfer(ctx)
	}
	if err != nil {
		return err
	}
	return r.g.remove(ctx, m)
}
