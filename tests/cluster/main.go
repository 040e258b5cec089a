// Command cluster runs simulated groups of members, which lose messages, power, disks and members, and looks whether they keep
// what they promise: see package sim. It prints what it counted, and the seed of each violation.
//
//	go run ./tests/cluster --seeds 100000
//	go run ./tests/cluster --from 4711 --seeds 1
//
// With --rounds it runs groups of processes instead, and does that number of bad things to them: see package rounds.
// The first half is without TLS between the members, the second, whose seed is the next one, with it.
//
//	go run ./tests/cluster --rounds 100
//
// With --upgrade-from it starts a group of processes with kvshell as of a commit, and replaces it, member by member, by
// the present one, while clients write:
//
//	go run ./tests/cluster --upgrade-from af0c1054~1
//
// Every second seed also loses logs and stores of a minority, or puts older ones in their place. Then members may refuse to go on, but no
// two may differ in silence.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"

	"github.com/sievekv/sievekv/tests/cluster/rounds"
	"github.com/sievekv/sievekv/tests/cluster/sim"
)

func main() {
	from := flag.Uint64("from", 1, "first seed")
	seeds := flag.Uint64("seeds", 10_000, "number of seeds")
	n := flag.Int("rounds", 0, "number of rounds with a group of processes, in place of the simulation; --from is their seed")
	only := flag.String("only", "", "the one bad thing that the rounds do, such as "+strconv.Quote("kill -9 of the leader")+" (default: all in turn)")
	sync := flag.String("sync", "always", "level of the writes of the rounds; below always some are lost, which shows that the rounds find it")
	older := flag.String("upgrade-from", "", "a `COMMIT`, from whose kvshell to upgrade a group of processes, in place of the simulation")
	program := flag.String("kvshell", "", "program for the rounds (default: it is built)")
	worker := flag.Bool("worker", false, "run the seeds in this process, and print a line of JSON")
	member := flag.String("member", "", "serve a member of the rounds, whose disk is in memory, as this JSON says")
	flag.Parse()
	run := inProcesses
	if *worker {
		run = inThis
	}
	if *member != "" {
		run = func(uint64, uint64, io.Writer) error { return rounds.ServeMember(*member) }
	}
	if *n > 0 || *older != "" {
		run = func(seed, _ uint64, w io.Writer) error {
			return inRounds(rounds.Options{Program: *program, Rounds: *n, Seed: seed, Sync: *sync, Log: os.Stderr}, *only, *older, w)
		}
	}
	if err := run(*from, *seeds, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// report is what a process has found.
type report struct {
	Whole, Damaged sim.Result // of seeds without damage, and with it
	Violations     []string
}

// inThis runs seeds one after the other: all of a process share the source that raft draws from.
func inThis(from, seeds uint64, w io.Writer) error {
	var r report
	for seed := from; seed < from+seeds; seed++ {
		damage := seed%2 == 0
		found := sim.Run(seed, sim.Choose(seed, damage))
		if found.Violation != nil {
			r.Violations = append(r.Violations, fmt.Sprintf("seed %d: %v", seed, found.Violation))
		}
		if damage {
			r.Damaged.Add(found)
		} else {
			r.Whole.Add(found)
		}
	}
	return json.NewEncoder(w).Encode(r)
}

// inProcesses has a process for each processor run a part of the seeds.
func inProcesses(from, seeds uint64, w io.Writer) error {
	n := min(uint64(runtime.GOMAXPROCS(0)), max(1, seeds))
	reports, errs := make([]report, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		first, next := from+seeds*i/n, from+seeds*(i+1)/n
		all.Go(func() {
			cmd := exec.Command(os.Args[0], "-worker", "-from", fmt.Sprint(first), "-seeds", fmt.Sprint(next-first))
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err == nil {
				err = json.Unmarshal(out, &reports[i])
			}
			errs[i] = err
		})
	}
	all.Wait()
	var sum report
	for _, r := range reports {
		sum.Whole.Add(r.Whole)
		sum.Damaged.Add(r.Damaged)
		sum.Violations = append(sum.Violations, r.Violations...)
	}
	fmt.Fprintf(w, "seeds %d, violations %d\n  disks that keep what is synced: %v\n  disks that lose a minority: %v\n", seeds, len(sum.Violations), sum.Whole, sum.Damaged)
	for _, v := range sum.Violations {
		fmt.Fprintln(w, v)
	}
	if len(sum.Violations) > 0 {
		errs = append(errs, fmt.Errorf("%d violations", len(sum.Violations)))
	}
	return errors.Join(errs...)
}
