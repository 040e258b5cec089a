package rounds

import (
	"context"
	"fmt"

	"github.com/sievekv/sievekv/internal/entry"
)

// upgrade replaces the program of the members, one after the other, while clients write. The first of them goes back to the older
// program meanwhile, as it may. After each step every member leads for a time.
func (r *run) upgrade(ctx context.Context) error {
	l, err := r.g.leader(ctx)
	if err != nil {
		return err
	}
	order := append(r.g.others(l), l)
	steps := []Fault{
		{"member upgraded", r.exchange(order[0], r.o.Program)},
		{"member goes back to the older version", r.exchange(order[0], r.o.Older)},
	}
	for _, m := range order {
		steps = append(steps, Fault{"member upgraded", r.exchange(m, r.o.Program)})
	}
	steps = append(steps, Fault{"format level raised", (*run).raised}, Fault{"kill -9 of the leader", (*run).killLeader})
	for i, step := range steps {
		if err == nil {
			err = r.round(ctx, i, step)
		}
	}
	return r.last(ctx, err)
}

// exchange returns what ends a member, and starts it again with another program.
func (r *run) exchange(m *member, program string) func(*run, context.Context) error {
	return func(r *run, ctx context.Context) error {
		if err := m.end(); err != nil {
			return err
		}
		if r.g.program, r.g.compare = program, compareEvery; program == r.o.Older {
			r.g.compare = -1
		}
		if err := m.start(ctx); err != nil {
			return err
		}
		for _, other := range append(r.g.others(m), m) {
			if err := r.lead(ctx, other); err != nil {
				return err
			}
			if err := r.w.goOn(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// raised waits until the members have raised the format level, since now all know it.
func (r *run) raised(ctx context.Context) error {
	return r.g.await(ctx, fmt.Sprintf("all members know of format level %d", entry.Level), func() (bool, error) {
		for _, m := range r.g.all() {
			if s, err := m.status(ctx); err != nil || s.level < entry.Level {
				return false, m.check()
			}
		}
		return true, nil
	})
}
