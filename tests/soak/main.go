// Soak lets a store live through years in minutes: filters of every type, bitmaps and strings are created, filled,
// renamed, given a time to live and deleted over and over, while readers ask for what must be there, and a backup is made
// every minute.
//
//	go run ./tests/soak --duration 10m
//
// It prints the store's size on disk and in memory as it goes. At the end it checks the store, deletes all keys, and
// compacts. The exit code is 1 if an answer was wrong, a check found something, the store's size was not flat after the
// first quarter of the changes, or the disk space did not come back. It goes on after the time until there were 60 changes for
// each key: with fewer, a busy machine would see the store still fill up.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv"
)

const (
	writers = 3
	readers = 2
)

func main() {
	duration := flag.Duration("duration", 10*time.Minute, "how long to go on")
	keys := flag.Int("keys", 10_000, "how many keys there are, of all types together")
	every := flag.Duration("backup", time.Minute, "time between two backups")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of what is done; the order in which goroutines do it differs all the same")
	dir := flag.String("dir", os.TempDir(), "directory in which a directory for the store is made")
	flag.Parse()
	if flag.NArg() > 0 || *duration <= 0 || *keys < writers || *every <= 0 {
		fmt.Fprintf(os.Stderr, "soak: unexpected argument %q, or a flag is out of range: --duration and --backup must be above 0, --keys at least %d\n", flag.Args(), writers)
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	good, err := soak(ctx, settings{*dir, *duration, *every, *keys, *seed, 0})
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	}
	if !good {
		os.Exit(1)
	}
}

type settings struct {
	dir      string
	duration time.Duration // while rounds is 0
	every    time.Duration // between backups
	keys     int
	seed     uint64
	rounds   int // changes of each writer; 0 for as many as there is time for
}

// soak runs everything, and reports whether all was as it must be.
func soak(ctx context.Context, o settings) (good bool, err error) {
	parent, err := os.MkdirTemp(o.dir, "sievekv-soak-")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(parent)) }()
	storeDir := filepath.Join(parent, "store")
	db, err := sievekv.Open(storeDir, &sievekv.Options{
		Durability: sievekv.EverySec, CacheSize: 64 << 20, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	fmt.Printf("seed %d, %d keys, store in %s\n", o.seed, o.keys, storeDir)

	t := &truth{db: db, objects: make([]object, o.keys)}
	work, end := context.WithCancel(ctx)
	defer end()
	var all, others sync.WaitGroup
	for w := range writers {
		all.Go(func() { t.write(work, rand.New(rand.NewPCG(o.seed, uint64(w))), w, o.rounds) })
	}
	for r := range readers {
		others.Go(func() { t.read(work, rand.New(rand.NewPCG(o.seed, uint64(writers+r)))) })
	}
	others.Go(func() { t.backups(work, parent, o.every) })
	watch := &watch{db: db, t: t, dir: storeDir, begin: time.Now()}
	if o.rounds > 0 {
		all.Wait()
		watch.sample()
		t.backup(ctx, parent)
	} else {
		watch.during(work, o.duration)
	}
	end()
	all.Wait()
	others.Wait()
	if o.rounds == 0 && ctx.Err() == nil {
		watch.judge(t)
	}
	t.end(context.WithoutCancel(ctx), storeDir)
	fmt.Printf("%d changes, %d lookups, %d backups, %d wrong\n", t.changes.Load(), t.lookups.Load(), t.made.Load(), t.wrong.Load())
	return t.wrong.Load() == 0, nil
}

// watch samples the size of a store.
type watch struct {
	db      *sievekv.DB
	t       *truth
	dir     string
	begin   time.Time
	samples []sample
}

type sample struct {
	after        time.Duration
	changes      uint64
	disk, memory uint64
}

// changesPerKey is how many changes for each key a run has at least.
const changesPerKey = 60

// during samples until the time is over and there were enough changes, or ctx has ended.
func (w *watch) during(ctx context.Context, duration time.Duration) {
	end := time.Now().Add(duration)
	ticker := time.NewTicker(max(duration/60, time.Second))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.sample()
		}
		if !time.Now().Before(end) && w.t.changes.Load() >= changesPerKey*uint64(len(w.t.objects)) {
			return
		}
	}
}

func (w *watch) sample() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s := sample{time.Since(w.begin), w.t.changes.Load(), diskUsed(w.dir), m.Sys - m.HeapReleased}
	w.samples = append(w.samples, s)
	metrics, err := w.db.Store().Metrics()
	if err != nil {
		w.t.report("metrics: %v", err)
		return
	}
	fmt.Printf("%6s  disk %4d MiB, memory %4d MiB, %6d keys, %9d changes, %9d lookups, %3d backups, %d wrong\n", s.after.Round(time.Second),
		s.disk>>20, s.memory>>20, metrics.Keys, w.t.changes.Load(), w.t.lookups.Load(), w.t.made.Load(), w.t.wrong.Load())
}

// judge reports what has grown: the mean over the last quarter of the changes is compared with that over the second.
func (w *watch) judge(t *truth) {
	all := t.changes.Load() + 1
	mean := func(quarter int, of func(sample) uint64) float64 {
		sum, n := 0.0, 0
		for _, s := range w.samples {
			if int(4*s.changes/all) == quarter {
				sum, n = sum+float64(of(s)), n+1
			}
		}
		return sum / float64(max(n, 1))
	}
	for _, what := range []struct {
		name string
		of   func(sample) uint64
	}{{"disk", func(s sample) uint64 { return s.disk }}, {"memory", func(s sample) uint64 { return s.memory }}} {
		second, last := mean(1, what.of), mean(3, what.of)
		fmt.Printf("%s: %.0f MiB in the second quarter of the changes, %.0f in the last\n", what.name, second/(1<<20), last/(1<<20))
		if last > 1.15*second {
			t.report("%s is not flat", what.name)
		}
	}
}

// diskUsed returns the bytes of all files of a directory, without the store's reserve. Files may vanish meanwhile.
func diskUsed(dir string) (n uint64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.Name() != "BALLAST" {
			n += uint64(info.Size())
		}
	}
	return n
}

// backups makes a backup now and then until ctx has ended.
func (t *truth) backups(ctx context.Context, parent string, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			t.backup(ctx, parent)
		}
	}
}

// backup makes a backup, which is checked, and removes it.
func (t *truth) backup(ctx context.Context, parent string) {
	dir := filepath.Join(parent, "backup")
	if err := t.db.Backup(ctx, dir); err != nil {
		if ctx.Err() == nil {
			t.report("backup: %v", err)
		}
		return
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			t.report("%v", err)
		}
	}()
	db, err := sievekv.Open(dir, &sievekv.Options{MustExist: true, BallastSize: -1, CacheSize: 8 << 20, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.report("opening a backup: %v", err)
		return
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.report("closing a backup: %v", err)
		}
	}()
	if t.check(ctx, db, "a backup") {
		t.made.Add(1)
	}
}

// check reports what Check finds in a store. It returns false if it has reported something, or ctx has ended.
func (t *truth) check(ctx context.Context, db *sievekv.DB, what string) bool {
	report, err := db.CheckWith(ctx, sievekv.CheckOptions{Deep: true})
	if ctx.Err() != nil {
		return false
	}
	if err != nil || len(report.Problems)+len(report.Damaged)+len(report.Notes) > 0 {
		t.report("check of %s: %v: %+v", what, err, report)
		return false
	}
	return true
}

// end checks the store, deletes all keys, and looks whether the disk space has come back.
func (t *truth) end(ctx context.Context, dir string) {
	t.check(ctx, t.db, "the store")
	before := diskUsed(dir)
	if reply := t.newSession().do(ctx, "FLUSHALL"); reply.IsError() {
		t.report("FLUSHALL: %s", reply.Bytes())
	}
	if err := t.db.Store().Compact(ctx); err != nil {
		t.report("compact: %v", err)
	}
	t.check(ctx, t.db, "the empty store")
	metrics, err := t.db.Store().Metrics()
	if err != nil {
		t.report("metrics: %v", err)
	}
	fmt.Printf("disk: %d MiB with all keys, %d bytes in tables without\n", before>>20, metrics.TableBytes)
	if metrics.TableBytes > 1<<20 {
		t.report("%d bytes are left in tables", metrics.TableBytes)
	}
}

// report counts and prints what is wrong.
func (t *truth) report(format string, args ...any) {
	if t.wrong.Add(1) <= 100 {
		fmt.Fprintf(os.Stderr, "wrong: "+format+"\n", args...)
	}
}

// counts are what has been done.
type counts struct{ changes, lookups, made, wrong atomic.Uint64 }
