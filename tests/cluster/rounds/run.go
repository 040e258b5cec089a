package rounds

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	compare "github.com/sievekv/sievekv/tests/group"
)

// Options say what is run.
type Options struct {
	Program string   // kvshell
	Member  []string // a program and its arguments, which calls ServeMember with one argument more
	TLS     bool     // between the members
	Dir     string   // is there, and empty
	Rounds  int
	Seed    uint64
	Sync    string    // level of the writes, default always; with others some are lost, and the rounds find that
	Older   string    // kvshell of an older version. The group begins with it and is upgraded, in place of rounds
	Faults  []Fault   // what the rounds do; all of them if there are none
	Log     io.Writer // gets a line for each round
}

// Result is what was counted.
type Result struct {
	Rounds    map[string]int // by fault
	TLS       int            // rounds with it
	Power     map[string]int // power failures of members, by what was lost
	Answers   map[string]int // to writes, by their first word
	Reads     int            // on any member while bad things happened, of what was acknowledged
	Snapshots int            // that were received
	Checked   int            // items, each on three members
	Found
	Wrong     []error                    // what clients were told that cannot be, and more
	Keys      int                        // that were compared at the end
	Differ    int                        // keys
	Failovers map[string][]time.Duration // from what has happened to the next acknowledgment, while most of the group is there
}

// run is one run.
type run struct {
	g   *group
	w   *work
	res *Result
	o   Options

	keys int // rounds with keys that expire
}

// Run starts a group, runs the rounds, and compares the members at the end. The error says what was not as it must be.
func Run(ctx context.Context, o Options) (res Result, err error) {
	res.Rounds, res.Power, res.Failovers = make(map[string]int), make(map[string]int), make(map[string][]time.Duration)
	if len(o.Faults) == 0 {
		o.Faults = faults
	}
	o.Sync = cmp.Or(o.Sync, "always")
	g, err := newGroup(ctx, o)
	if g != nil {
		defer g.close()
	}
	if err != nil {
		return res, err
	}
	r := &run{g: g, w: newWork(g), res: &res, o: o}
	defer r.w.close()
	do := r.rounds
	if o.Older != "" {
		do = r.upgrade
	}
	if err := do(ctx); err != nil {
		return res, errors.Join(err, res.wrong())
	}
	return res, errors.Join(r.compare(ctx), res.wrong())
}

// rounds runs the rounds: each fault once in an order of chance, and so on.
func (r *run) rounds(ctx context.Context) (err error) {
	var order []int
	for i := 0; i < r.o.Rounds && err == nil && ctx.Err() == nil; i++ {
		if len(order) == 0 {
			order = r.g.rng.Perm(len(r.o.Faults))
		}
		err = r.round(ctx, i, r.o.Faults[order[0]])
		order = order[1:]
	}
	return r.last(ctx, err)
}

// last checks everything, unless there was an error.
func (r *run) last(ctx context.Context, err error) error {
	if err == nil {
		err = r.w.check(ctx, true, &r.res.Found)
	}
	r.count()
	return errors.Join(err, ctx.Err())
}

// round does one bad thing.
func (r *run) round(ctx context.Context, i int, f Fault) error {
	fmt.Fprintf(r.o.Log, "round %d: %s\n", i+1, f.name)
	r.w.start(ctx)
	defer func() { r.w.rest(); r.w.badDisk.Store(false) }()
	err := r.w.goOn(ctx)
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return f.do(r, ctx) }, r.g.settle, r.w.goOn,
	} {
		if err == nil {
			err = step(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("round %d, %s: %w", i+1, f.name, err)
	}
	r.w.rest()
	r.res.Rounds[f.name]++
	if r.o.TLS {
		r.res.TLS++
	}
	return r.w.check(ctx, false, &r.res.Found)
}

// some returns a time between two.
func (r *run) some(least, most time.Duration) time.Duration {
	return least + time.Duration(r.g.rng.Int64N(int64(most-least)))
}

// count counts what the clients have noted.
func (r *run) count() {
	w := r.w
	w.mu.Lock()
	defer w.mu.Unlock()
	r.res.Answers, r.res.Reads, r.res.Wrong = w.words, w.reads, w.wrong
	for _, x := range w.writers {
		r.res.Checked += len(x.items)
	}
	r.res.Snapshots, _ = r.g.logs("a snapshot was received")
}

// compare ends the members, and compares their stores. Before that they run once more without what they compare by themselves: it
// is in the log, which would not come to rest.
func (r *run) compare(ctx context.Context) error {
	members := r.g.all()
	err := r.g.end(ctx)
	r.g.compare = 0
	for _, m := range members {
		if err == nil {
			err = m.start(ctx, "start")
		}
	}
	if err == nil {
		err = errors.Join(r.g.settle(ctx), r.g.level(ctx), r.g.end(ctx))
	}
	for _, m := range members[1:] {
		if err != nil {
			return err
		}
		var d compare.Difference
		d, err = compare.Compare(vfs.Default, members[0].dir, vfs.Default, m.dir)
		r.res.Keys += d.Keys
		if r.res.Differ += d.Differ; d.Differ > 0 {
			r.res.Wrong = append(r.res.Wrong, fmt.Errorf("%s and %s: %s", members[0].name, m.name, d.First))
		}
	}
	return err
}

// wrong returns an error if something is not as it must be.
func (r *Result) wrong() error {
	err := errors.Join(r.Wrong...)
	if n := r.Lost + r.Torn + r.Undone + r.Strange + r.Differ; n > 0 {
		err = errors.Join(err, errors.New(r.First))
	}
	return err
}

// Add adds what another run has found.
func (r *Result) Add(other Result) {
	for _, counts := range []struct{ to, from *map[string]int }{{&r.Rounds, &other.Rounds}, {&r.Power, &other.Power}, {&r.Answers, &other.Answers}} {
		if *counts.to == nil {
			*counts.to = make(map[string]int)
		}
		for name, n := range *counts.from {
			(*counts.to)[name] += n
		}
	}
	if r.Failovers == nil {
		r.Failovers = make(map[string][]time.Duration)
	}
	for what, times := range other.Failovers {
		r.Failovers[what] = append(r.Failovers[what], times...)
	}
	for _, n := range [][2]*int{
		{&r.TLS, &other.TLS}, {&r.Reads, &other.Reads}, {&r.Snapshots, &other.Snapshots}, {&r.Checked, &other.Checked}, {&r.Keys, &other.Keys},
		{&r.Differ, &other.Differ}, {&r.Lost, &other.Lost}, {&r.Torn, &other.Torn}, {&r.Undone, &other.Undone}, {&r.Strange, &other.Strange},
	} {
		*n[0] += *n[1]
	}
	r.First = cmp.Or(r.First, other.First)
	r.Wrong = append(r.Wrong, other.Wrong...)
}

// String is what a run prints.
func (r Result) String() string {
	var b strings.Builder
	total := 0
	for _, n := range r.Rounds {
		total += n
	}
	fmt.Fprintf(&b, "rounds %d, with TLS between the members %d%s\n", total, r.TLS, byName(r.Rounds))
	fmt.Fprintf(&b, "power failures of a member, by what was lost:%s\n", byName(r.Power))
	fmt.Fprintf(&b, "answers to writes:%s\n", byName(r.Answers))
	fmt.Fprintf(&b, "reads on any member meanwhile %d, snapshots received %d\n", r.Reads, r.Snapshots)
	fmt.Fprintf(&b, "items read on each member %d: acknowledged and lost %d, torn %d, refused and made %d, impossible %d, wrong answers %d\n",
		r.Checked, r.Lost, r.Torn, r.Undone, r.Strange, len(r.Wrong))
	fmt.Fprintf(&b, "keys compared %d, different %d\n", r.Keys, r.Differ)
	fmt.Fprintln(&b, "time to the next acknowledgment of a write:")
	for _, what := range slices.Sorted(maps.Keys(r.Failovers)) {
		times := slices.Sorted(slices.Values(r.Failovers[what]))
		p := func(q int) time.Duration { return times[(len(times)-1)*q/100].Round(time.Millisecond) }
		fmt.Fprintf(&b, "  %s, %d times: p50 %v, p99 %v, most %v\n", what, len(times), p(50), p(99), p(100))
	}
	return b.String()
}

// byName returns counts, largest first, the counts of one name below another.
func byName(counts map[string]int) (s string) {
	type count struct {
		name string
		n    int
	}
	var all []count
	for name, n := range counts {
		all = append(all, count{name, n})
	}
	slices.SortFunc(all, func(a, b count) int { return cmp.Or(b.n-a.n, strings.Compare(a.name, b.name)) })
	for _, c := range all {
		s += fmt.Sprintf("\n  %d %s", c.n, c.name)
	}
	return s
}

func countLines(data []byte, text string) (n int) {
	for line := range bytes.Lines(data) {
		if bytes.Contains(line, []byte(text)) {
			n++
		}
	}
	return n
}
