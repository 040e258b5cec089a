package crash

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// childArgument makes the test's binary the process that is killed.
const childArgument = "work-until-killed"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == childArgument {
		if err := Child(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// TestClones crashes stores at random points of a random workload, of opening and of closing, with any share of what
// was not synced. Opening always works, every acknowledged write is there, what else is there is a prefix of the
// commits, each whole, and a check of the store finds nothing.
func TestClones(t *testing.T) {
	shots := *clones
	if raceEnabled {
		shots = 50
	}
	const stores = 2
	for i := range stores {
		t.Run(fmt.Sprint("store ", i), func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			c, err := NewClones(rand.New(rand.NewPCG(seed, uint64(i))))
			if err != nil {
				t.Fatal(err)
			}
			for c.Count() < shots/stores {
				if err := c.Round(); err != nil {
					t.Fatalf("seed %d, after %d crashes: %v", seed, c.Count(), err)
				}
			}
			t.Logf("%d crashes: %v", c.Count(), c.taken)
		})
	}
}

var clones = flag.Int("clones", 350, "how many crashes TestClones takes")

var kills = flag.Int("kills", 12, "how many processes TestKills kills")

// TestKills kills processes with kill -9, which takes with it what Pebble had not yet given to the kernel.
func TestKills(t *testing.T) {
	t.Parallel()
	cycles := *kills
	if raceEnabled {
		cycles = min(cycles, 5)
	}
	seed := uint64(time.Now().UnixNano())
	k, err := NewKills(rand.New(rand.NewPCG(seed, 0)), t.TempDir(), func() *exec.Cmd {
		return exec.Command(os.Args[0], childArgument)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	// A process may be killed before it has made a backup, or after. It is a fault if none of all processes makes one,
	// or none is killed while it makes one.
	for k.Count() < cycles || (k.Backups() == 0 || k.Cut() == 0) && k.Count() < 50*cycles {
		if err := k.Cycle(); err != nil {
			t.Fatalf("seed %d, after %d kills: %v", seed, k.Count(), err)
		}
	}
	if k.Backups() == 0 {
		t.Errorf("no backup was verified after %d kills", k.Count())
	}
	if k.Cut() == 0 {
		t.Errorf("none of %d processes was killed in the middle of a backup", k.Count())
	}
	t.Logf("%d kills, %d of them in a backup, %d finished backups verified", k.Count(), k.Cut(), k.Backups())
}

// TestFailures works on stores whose disks fail or fill.
func TestFailures(t *testing.T) {
	t.Parallel()
	rounds := 10
	if raceEnabled {
		rounds = 2
	}
	seed := uint64(time.Now().UnixNano())
	f := NewFailures(rand.New(rand.NewPCG(seed, 0)))
	for range rounds {
		if err := f.Round(); err != nil {
			t.Fatalf("seed %d, round %s: %v", seed, f, err)
		}
	}
	t.Log(f)
}
