package rounds

import (
	"context"
	"fmt"
	"time"
)

func (r *run) leaderClock(ctx context.Context) error {
	return r.leaderOnDisk(ctx, func(m *member) error {
		return r.clock(ctx, m, func() error {
			return r.g.await(ctx, "another leads, as the clock of "+m.name+" is wrong", func() (bool, error) {
				l, err := r.g.leader(ctx)
				return l != m, err
			})
		})
	})
}

func (r *run) followerClock(ctx context.Context) error {
	return r.followerOnDisk(ctx, func(m *member) error {
		return r.clock(ctx, m, func() error { return r.lead(ctx, m) })
	})
}

// lifetime is how long keys live that must not expire: longer than a round takes, and shorter than a clock is wrong.
const lifetime = 30 * time.Minute

// clock has the clock of a member be wrong by an hour or a day, ahead or behind, until something has come. No key expires early by it,
// whether it was there before, or is written meanwhile or afterwards.
func (r *run) clock(ctx context.Context, m *member, come func() error) error {
	wrong := []time.Duration{time.Hour, -time.Hour, 24 * time.Hour, -24 * time.Hour}[r.g.rng.IntN(4)]
	r.keys++
	key := func(when string) string { return fmt.Sprintf("expires%d:%s", r.keys, when) }
	var keys []string
	expiring := func(when string) error {
		keys = append(keys, key(when))
		return r.setExpiring(ctx, key(when))
	}
	err := expiring("before")
	for _, step := range []func() error{
		func() error { return m.order(order{Free: roomy, Ahead: wrong}) },
		func() error { return expiring("at once") },
		come,
		func() error { return expiring("meanwhile") },
		func() error {
			return r.haveKeys(ctx, fmt.Sprintf("with the clock of %s ahead by %v", m.name, wrong), keys)
		},
		func() error { return m.order(order{Free: roomy}) },
		func() error { return expiring("afterwards") },
		func() error { return r.haveKeys(ctx, "after the clock was set right", keys) },
	} {
		if err == nil {
			err = step()
		}
	}
	return err
}

// setExpiring sets a key that lives for lifetime.
func (r *run) setExpiring(ctx context.Context, key string) error {
	return r.g.await(ctx, "SET "+key, func() (bool, error) {
		return r.w.clients[0].Set(ctx, key, key, lifetime).Err() == nil, nil
	})
}

// haveKeys expects all members to have keys.
func (r *run) haveKeys(ctx context.Context, when string, keys []string) error {
	for _, m := range r.g.all() {
		var states []state
		err := r.g.await(ctx, "reads of "+m.name, func() (ok bool, err error) {
			states, err = readStrings(ctx, reader{m.direct}, keys)
			return err == nil, m.check()
		})
		if err != nil {
			return err
		}
		for i, s := range states {
			if s != whole {
				return fmt.Errorf("%s %s lacks %s, which lives for %v", when, m.name, keys[i], lifetime)
			}
		}
	}
	return nil
}
