package sim

import "testing"

func run(t *testing.T, seeds uint64, damage bool) (all Result) {
	t.Helper()
	for seed := uint64(1); seed <= seeds; seed++ {
		r := Run(seed, Choose(seed, damage))
		if r.Violation != nil {
			t.Fatalf("seed %d: %v", seed, r.Violation)
		}
		all.Add(r)
	}
	return all
}

func TestRun(t *testing.T) {
	all := run(t, 1000, false)
	t.Log(all)
	for what, n := range map[string]int{
		"crashes": all.Crashes, "elections": all.Elections, "commits": all.Commits, "unknown outcomes": all.Unknown,
		"snapshots": all.Snapshots, "changes of members": all.Changes, "reads": all.Reads,
	} {
		if n < 100 {
			t.Errorf("%d %s: too few to prove anything", n, what)
		}
	}
	if all.Refusals > 0 {
		t.Errorf("%d refusals, though no disk has lost anything", all.Refusals)
	}
}

func TestRun_damage(t *testing.T) {
	all := run(t, 1000, true)
	t.Log(all)
	if all.Refusals < 100 {
		t.Errorf("%d refusals: too few to prove anything", all.Refusals)
	}
}

// A seed says everything that happens.
func TestRun_same(t *testing.T) {
	for seed := uint64(1); seed <= 50; seed++ {
		o := Choose(seed, seed%2 == 0)
		if one, other := Run(seed, o), Run(seed, o); one.Trace != other.Trace {
			t.Fatalf("seed %d: %v and %v", seed, one, other)
		}
	}
}
