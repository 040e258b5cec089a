//go:build unix

package rounds_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/sievekv/sievekv/tests/cluster/rounds"
	"github.com/sievekv/sievekv/tests/process"
)

// TestMain runs tests, or is a member of a run whose disk is in memory.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == memberArgument {
		if err := rounds.ServeMember(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const memberArgument = "member"

// A group of processes keeps what it promises when its leader is killed, when it is cut off, when a member is
// replaced, and when the power of its leader fails.
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
		Program: program.Path(), Member: []string{os.Args[0], memberArgument}, Dir: t.TempDir(), TLS: true, Rounds: 4, Seed: 1, Log: t.Output(),
		Faults: rounds.Named("kill -9 of the leader", "leader cut off", "member replaced", "power failure of the leader"),
	})
	if t.Log(result); err != nil {
		t.Fatal(err)
	}
	if len(result.Rounds) != 4 || result.TLS != 4 || len(result.Power) == 0 || result.Checked == 0 || result.Reads == 0 || result.Keys == 0 || len(result.Failovers) != 3 {
		t.Errorf("not everything was done: %+v", result)
	}
}
