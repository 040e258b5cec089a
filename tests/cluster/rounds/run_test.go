//go:build unix

package rounds_test

import (
	"testing"

	"github.com/sievekv/sievekv/tests/cluster/rounds"
	"github.com/sievekv/sievekv/tests/process"
)

// A group of processes keeps what it promises when its leader is killed, when it is cut off, and when a member is replaced.
func TestRun(t *testing.T) {
	t.Parallel()
	program, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := program.Remove(); err != nil {
			t.Error(err)
		}
	})
	result, err := rounds.Run(t.Context(), rounds.Options{
		Program: program.Path(), Dir: t.TempDir(), Rounds: 3, Seed: 1, Log: t.Output(),
		Faults: rounds.Named("kill -9 of the leader", "leader cut off", "member replaced"),
	})
	if t.Log(result); err != nil {
		t.Fatal(err)
	}
	if len(result.Rounds) != 3 || result.Checked == 0 || result.Reads == 0 || result.Keys == 0 || len(result.Failovers) != 2 {
		t.Errorf("not everything was done: %+v", result)
	}
}
