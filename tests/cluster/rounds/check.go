package rounds

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// state is what there is of an item.
type state int

const (
	nothing state = iota
	whole
	torn  // one of two keys
	other // something that nobody has written
)

// reader reads on one member what was acknowledged anywhere.
type reader struct{ c *redis.Client }

func (r reader) do(ctx context.Context, command ...any) (any, error) {
	var got *redis.Cmd
	_, err := r.c.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Do(ctx, "SIEVE.READ", "LINEARIZABLE")
		got = p.Do(ctx, command...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return got.Result()
}

// list returns a reply that is a list of n elements.
func (r reader) list(ctx context.Context, n int, command ...any) ([]any, error) {
	got, err := r.do(ctx, command...)
	if err != nil {
		return nil, err
	}
	if all, ok := got.([]any); ok && len(all) == n {
		return all, nil
	}
	return nil, fmt.Errorf("%v answers %v to a read of %d", command[0], got, n)
}

func stringState(value any, item string) state {
	switch value {
	case nil:
		return nothing
	case item:
		return whole
	}
	return other
}

func readStrings(ctx context.Context, from reader, items []string) ([]state, error) {
	command := []any{"MGET"}
	for _, item := range items {
		command = append(command, item)
	}
	values, err := from.list(ctx, len(items), command...)
	states := make([]state, len(values))
	for i, v := range values {
		states[i] = stringState(v, items[i])
	}
	return states, err
}

func readPairs(ctx context.Context, from reader, items []string) ([]state, error) {
	command := []any{"MGET"}
	for _, item := range items {
		a, b := pair(item)
		command = append(command, a, b)
	}
	values, err := from.list(ctx, 2*len(items), command...)
	states := make([]state, len(values)/2)
	for i := range states {
		a, b := stringState(values[2*i], items[i]), stringState(values[2*i+1], items[i])
		if states[i] = a; a != b {
			states[i] = torn
		}
	}
	return states, err
}

// readFilter tells of items of the filter only that they are in it: what is not is found now and then, too.
func readFilter(ctx context.Context, from reader, items []string) ([]state, error) {
	command := []any{"BF.MEXISTS", filterKey}
	for _, item := range items {
		command = append(command, item)
	}
	values, err := from.list(ctx, len(items), command...)
	states := make([]state, len(values))
	for i, v := range values {
		if v == true || v == int64(1) {
			states[i] = whole
		}
	}
	return states, err
}

// Found is what a check has found.
type Found struct {
	Lost    int // acknowledged, and not there
	Torn    int // one key of a transaction
	Undone  int // refused, and there
	Strange int // values that nobody has written, and counts that cannot be
	First   string
}

func (f *Found) note(count *int, format string, args ...any) {
	if *count++; f.First == "" {
		f.First = fmt.Sprintf(format, args...)
	}
}

// batch is how many items one command reads.
const batch = 400

// check reads what was written since the last check, or everything, on each member, while the clients rest.
func (w *work) check(ctx context.Context, everything bool, f *Found) error {
	for _, m := range w.g.all() {
		for _, x := range w.writers {
			items := x.items[x.checked:]
			if everything {
				items = x.items
			}
			for len(items) > 0 {
				n := min(batch, len(items))
				if err := w.checkItems(ctx, m, x, items[:n], f); err != nil {
					return err
				}
				items = items[n:]
			}
		}
		for _, c := range w.counters {
			if err := w.checkCount(ctx, m, c, f); err != nil {
				return err
			}
		}
	}
	for _, x := range w.writers {
		x.checked = len(x.items)
	}
	return nil
}

func (w *work) checkItems(ctx context.Context, m *member, x *writer, items []item, f *Found) error {
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = item.name
	}
	var states []state
	err := w.g.await(ctx, "reads of "+m.name, func() (ok bool, err error) {
		states, err = x.read(ctx, reader{m.direct}, names)
		return err == nil, m.check()
	})
	if err != nil {
		return err
	}
	inFilter := x.name == "f"
	for i, s := range states {
		switch item := items[i]; {
		case s == torn:
			f.note(&f.Torn, "%s has one key of %s (%v)", m.name, item.name, item.outcome)
		case s == other:
			f.note(&f.Strange, "%s has another value of %s", m.name, item.name)
		case s == nothing && item.outcome == acknowledged:
			f.note(&f.Lost, "%s lacks %s, which was acknowledged", m.name, item.name)
		case s == whole && item.outcome == refused && !inFilter:
			f.note(&f.Undone, "%s has %s, which was refused", m.name, item.name)
		}
	}
	return nil
}

func (w *work) checkCount(ctx context.Context, m *member, c *counter, f *Found) error {
	var n int64
	err := w.g.await(ctx, "reads of "+m.name, func() (bool, error) {
		got, err := reader{m.direct}.do(ctx, "MGET", c.key)
		if err != nil {
			return false, m.check()
		}
		text := strings.Trim(fmt.Sprint(got), "[]")
		_, err = fmt.Sscan(text, &n)
		return true, err
	})
	if err != nil {
		return fmt.Errorf("%s of %s: %w", c.key, m.name, err)
	}
	if n < c.last || n < c.acked || n > c.acked+c.misses {
		f.note(&f.Strange, "%s: %s is %d, with %d acknowledged, the last of them %d, and %d unknown", m.name, c.key, n, c.acked, c.last, c.misses)
	}
	return nil
}
