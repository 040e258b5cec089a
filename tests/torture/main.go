// Torture crashes stores for as long as it is told to, and checks that each holds what it
// acknowledged. It is the long form of the tests in tests/crash.
//
//	go run ./tests/torture --duration 10m
//
// A worker for each processor takes clones of disks in memory as a crash would leave them, at
// random moments of work, opening and closing; one more kills processes that work on a store
// with kill -9; and one has disks fail or fill under stores that are compacted meanwhile.
// The last lines are the counts; the exit code is 1 unless all of what must not be is 0.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"time"

	"github.com/sievekv/sievekv/tests/crash"
)

// childArgument makes this program the process that is killed.
const childArgument = "work-until-killed"

func main() {
	if len(os.Args) == 2 && os.Args[1] == childArgument {
		if err := crash.Child(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "torture:", err)
			os.Exit(2)
		}
		return
	}
	duration := flag.Duration("duration", time.Minute, "how long to go on")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the random workloads; what goroutines do at once differs all the same")
	dir := flag.String("dir", fastDir(), "directory for the stores of processes that are killed")
	flag.Parse()
	if flag.NArg() > 0 || *duration <= 0 {
		fmt.Fprintf(os.Stderr, "torture: unexpected argument %q, or duration %s is not above 0\n", flag.Args(), *duration)
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *duration)
	defer cancel()
	t, err := run(ctx, *seed, *dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(2)
	}
	fmt.Print(t)
	if t.bad() {
		os.Exit(1)
	}
}

// fastDir returns a directory in memory if there is one: kill -9 takes nothing from the kernel, whatever its disk.
func fastDir() string {
	const shared = "/dev/shm"
	if info, err := os.Stat(shared); err == nil && info.IsDir() {
		return shared
	}
	return os.TempDir()
}

// totals are the figures.
type totals struct {
	mu                                        sync.Mutex
	clones, kills, backups, cut               int // guarded by mu, like all here
	disks, failed, filled                     int
	lost, torn, falseNegatives, refused, more int
}

// count counts what is wrong, and prints it.
func (t *totals) count(what string, seed uint64, err error) {
	if err == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known := false
	for is, n := range map[error]*int{
		crash.ErrLost: &t.lost, crash.ErrTorn: &t.torn, crash.ErrFalseNegative: &t.falseNegatives, crash.ErrRefused: &t.refused,
	} {
		if errors.Is(err, is) {
			*n++
			known = true
		}
	}
	if !known {
		t.more++
	}
	fmt.Printf("%s, seed %d: %v\n", what, seed, err)
}

func (t *totals) bad() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost+t.torn+t.falseNegatives+t.refused+t.more > 0
}

// String returns the figures, one to a line.
func (t *totals) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("other violations %d\ncrash clones %d\nkill -9 cycles %d, backups made meanwhile %d, cut off %d\n"+
		"disks that failed or filled %d, stores failed %d, full for a while %d\nacknowledged writes lost %d\n"+
		"transactions torn %d\nfalse negatives %d\nreopens refused %d\n",
		t.more, t.clones, t.kills, t.backups, t.cut, t.disks, t.failed, t.filled, t.lost, t.torn, t.falseNegatives, t.refused)
}

// run works until the context ends.
func run(ctx context.Context, seed uint64, dir string) (*totals, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	fmt.Printf("seed %d, stores in memory and in %s, %d processors\n", seed, dir, runtime.GOMAXPROCS(0))
	t := &totals{}
	var wg sync.WaitGroup
	errs := make([]error, 1+runtime.GOMAXPROCS(0))
	for i := range errs[1:] {
		wg.Go(func() { errs[1+i] = t.takeClones(ctx, seed, uint64(1+i)) })
	}
	wg.Go(func() {
		errs[0] = t.kill(ctx, seed, dir, func() *exec.Cmd { return exec.Command(self, childArgument) })
	})
	wg.Go(func() { t.fail(ctx, seed) })
	ended := make(chan struct{})
	wg.Go(func() {
		<-ctx.Done()
		close(ended)
	})
	begin := time.Now()
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	for going := true; going; {
		select {
		case <-ended:
			going = false
		case <-tick.C:
			t.mu.Lock()
			fmt.Printf("after %s: %d crash clones, %d kill -9 cycles, %d disks that failed or filled\n",
				time.Since(begin).Round(time.Second), t.clones, t.kills, t.disks)
			t.mu.Unlock()
		}
	}
	wg.Wait()
	return t, errors.Join(errs...)
}

// cloneStore is how many crashes a store in memory lives.
const cloneStore = 5000

func (t *totals) takeClones(ctx context.Context, seed, worker uint64) error {
	rng := rand.New(rand.NewPCG(seed, worker))
	for ctx.Err() == nil {
		c, err := crash.NewClones(rng)
		if err != nil {
			return err
		}
		for ctx.Err() == nil && c.Count() < cloneStore {
			before := c.Count()
			err := c.Round()
			t.mu.Lock()
			t.clones += c.Count() - before
			t.mu.Unlock()
			t.count("crash clone", seed, err)
			if err != nil {
				break
			}
		}
	}
	return nil
}

func (t *totals) kill(ctx context.Context, seed uint64, dir string, command func() *exec.Cmd) error {
	k, err := crash.NewKills(rand.New(rand.NewPCG(seed, 0)), dir, command)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		err := k.Cycle()
		t.mu.Lock()
		t.kills, t.backups, t.cut = k.Count(), k.Backups(), k.Cut()
		t.mu.Unlock()
		t.count("kill -9", seed, err)
		if err != nil {
			k.Restart()
		}
	}
	return k.Close()
}

// fail has disks fail and fill.
func (t *totals) fail(ctx context.Context, seed uint64) {
	f := crash.NewFailures(rand.New(rand.NewPCG(seed, 1<<32)))
	for ctx.Err() == nil {
		err := f.Round()
		t.mu.Lock()
		t.disks, t.failed, t.filled = f.Count()
		t.mu.Unlock()
		t.count("disk", seed, err)
	}
}
