package rounds

import (
	"context"
	"errors"
	"time"
)

// onDisk restarts members with disks in memory, has somebody do something to them, and restarts them as they were.
func (r *run) onDisk(ctx context.Context, members []*member, do func() error) (err error) {
	for _, m := range members {
		if err = m.end(); err == nil {
			err = m.startOnDisk(ctx)
		}
		if err == nil {
			err = r.g.settle(ctx)
		}
		if err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	for _, m := range members {
		if m.runs() {
			err = m.end()
		}
		if err == nil {
			err = m.start(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leaderOnDisk is onDisk with the leader.
func (r *run) leaderOnDisk(ctx context.Context, do func(*member) error) error {
	m, err := r.g.follower(ctx)
	if err != nil {
		return err
	}
	return r.onDisk(ctx, []*member{m}, func() error {
		if err := r.lead(ctx, m); err != nil {
			return err
		}
		return do(m)
	})
}

// followerOnDisk is onDisk with another member than the leader.
func (r *run) followerOnDisk(ctx context.Context, do func(*member) error) error {
	m, err := r.g.follower(ctx)
	if err != nil {
		return err
	}
	return r.onDisk(ctx, []*member{m}, func() error { return do(m) })
}

// lead has a member lead.
func (r *run) lead(ctx context.Context, m *member) error {
	return r.g.await(ctx, m.name+" leads", func() (bool, error) {
		l, err := r.g.leader(ctx)
		if err != nil || l == m {
			return l == m, err
		}
		_ = l.admin.Do(ctx, "SIEVE.CLUSTER", "TRANSFER", m.name).Err() // it is tried again
		return false, nil
	})
}

// aWhile returns a time that is short, or now and then so long that the store is synced and the log is cut meanwhile.
func (r *run) aWhile() time.Duration {
	if r.g.rng.IntN(4) == 0 {
		return r.some(10*time.Second, 13*time.Second)
	}
	return r.some(0, 3*time.Second)
}

// losePower cuts the power of a member. What its log had not synced is lost, or what its store had not, or both; or half of that.
func (r *run) losePower(m *member) error {
	part, how := 0, ""
	if r.g.rng.IntN(2) == 0 {
		part, how = 50, "half of "
	}
	switch r.g.rng.IntN(3) {
	case 0:
		r.res.Power[how+"what the log had not synced"]++
		return m.cutPower(part, everything)
	case 1:
		r.res.Power[how+"what the store had not synced"]++
		return m.cutPower(everything, part)
	}
	r.res.Power[how+"what both had not synced"]++
	return m.cutPower(part, part)
}

func (r *run) leaderLosesPower(ctx context.Context) error {
	return r.leaderOnDisk(ctx, func(m *member) error {
		rest(ctx, r.aWhile())
		return errors.Join(r.goesOn(ctx, "power failure of the leader", func() error { return r.losePower(m) }), m.down())
	})
}

func (r *run) followerLosesPower(ctx context.Context) error {
	return r.followerOnDisk(ctx, func(m *member) error {
		rest(ctx, r.aWhile())
		return errors.Join(r.goesOn(ctx, "power failure of a follower", func() error { return r.losePower(m) }), m.down())
	})
}

func (r *run) allLosePower(ctx context.Context) error {
	all := r.g.all()
	return r.onDisk(ctx, all, func() (err error) {
		rest(ctx, r.aWhile())
		for _, m := range all {
			err = errors.Join(err, r.losePower(m))
		}
		for _, m := range all {
			err = errors.Join(err, m.down())
		}
		return err
	})
}

func (r *run) leaderSlow(ctx context.Context) error {
	return r.leaderOnDisk(ctx, func(m *member) error { return r.slow(ctx, "slow disk of the leader", m) })
}

func (r *run) followerSlow(ctx context.Context) error {
	return r.followerOnDisk(ctx, func(m *member) error { return r.slow(ctx, "slow disk of a follower", m) })
}

// slow has each sync of a member take long for a while.
func (r *run) slow(ctx context.Context, what string, m *member) error {
	o := order{Slow: r.some(20*time.Millisecond, 500*time.Millisecond), Free: roomy}
	if err := r.goesOn(ctx, what, func() error { return m.order(o) }); err != nil {
		return err
	}
	rest(ctx, r.some(0, 4*time.Second))
	return m.order(order{Free: roomy})
}

func (r *run) leaderFull(ctx context.Context) error {
	return r.leaderOnDisk(ctx, func(m *member) error { return r.full(ctx, "full disk of the leader", m) })
}

func (r *run) followerFull(ctx context.Context) error {
	return r.followerOnDisk(ctx, func(m *member) error { return r.full(ctx, "full disk of a follower", m) })
}

// full has a member's disk be full for a while. It does not lead then.
func (r *run) full(ctx context.Context, what string, m *member) error {
	r.w.badDisk.Store(true)
	err := r.goesOn(ctx, what, func() error {
		return errors.Join(m.order(order{Free: tight}), r.g.await(ctx, "another leads, as the disk of "+m.name+" is full", func() (bool, error) {
			l, err := r.g.leader(ctx)
			return l != m, err
		}))
	})
	if err != nil {
		return err
	}
	rest(ctx, r.some(0, 4*time.Second))
	if err := m.order(order{Free: roomy}); err != nil {
		return err
	}
	return r.g.settle(ctx) // the member takes what it has not taken
}

// noByteLeft makes every write of a member fail, as writes of its reserve do when others fill the disk. The member may
// end by itself.
func (r *run) noByteLeft(ctx context.Context) error {
	m := r.g.any(r.g.rng.IntN(len(r.g.all())))
	return r.onDisk(ctx, []*member{m}, func() error {
		r.w.badDisk.Store(true)
		err := r.goesOn(ctx, "no byte left on a disk", func() error { return m.order(order{NoByte: true}) })
		if err != nil {
			return err
		}
		rest(ctx, r.some(0, 4*time.Second))
		return m.kill()
	})
}
