package raftlog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/internal/raftlog"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// history is what a log was after each call, and how far a crash may go back.
type history struct {
	mu      sync.Mutex
	states  []digest // after each call that began; the first is a new log's
	durable int      // the last of them that is on stable storage
}

func newHistory(m *model) *history { return &history{states: []digest{m.digest()}} }

// run makes one call. During the call, either state may be found.
func (h *history) run(m *model, l *raftlog.Log) error {
	c := m.next()
	h.mu.Lock()
	h.states = append(h.states, m.digest())
	h.mu.Unlock()
	if err := c.do(l); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	if c.synced {
		h.mu.Lock()
		h.durable = len(h.states) - 1
		h.mu.Unlock()
	}
	return nil
}

// shot is a disk after a crash, and which states the log on it may have.
type shot struct {
	disk   *kvtest.Disk
	states []digest
	when   string
}

// shoot crashes a disk. It may be called while a call is under way.
func (h *history) shoot(disk *kvtest.Disk, rng *rand.Rand, when string) shot {
	h.mu.Lock()
	durable := h.durable
	h.mu.Unlock()
	clone := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 100, rng.IntN(101)}[rng.IntN(3)], RNG: rng})
	h.mu.Lock()
	defer h.mu.Unlock()
	return shot{clone, slices.Clone(h.states[durable:]), when}
}

// check opens the log on a disk after a crash.
func (s shot) check(t *testing.T) {
	t.Helper()
	l, err := raftlog.Open(dir, smallOptions(s.disk))
	if err != nil {
		t.Fatalf("crash at %s: %v", s.when, err)
	}
	got, err := digestOf(l)
	must(t, err)
	if !slices.Contains(s.states, got) {
		t.Fatalf("crash at %s: the log is none of %d that it may be", s.when, len(s.states))
	}
	// What was found once stays, whatever happens next.
	again := s.disk.CrashClone(vfs.CrashCloneCfg{})
	must(t, l.Close())
	l = open(t, smallOptions(again))
	if now, err := digestOf(l); err != nil || now != got {
		t.Fatalf("crash at %s, and a second one: %v, or another log", s.when, err)
	}
	must(t, l.Close())
}

// After a crash at any call of the file system the log has everything that was synced, and then some first ones of the batches
// that were not, each as a whole.
func TestLog_crash(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for seed := range uint64(3) {
		disk := kvtest.NewDisk()
		m := newModel(100 + seed)
		h := newHistory(m)
		var mu sync.Mutex
		var shots []shot
		fs := &faultfs.FS{FS: disk, Before: func(s faultfs.Site, _ string) error {
			mu.Lock()
			defer mu.Unlock()
			if s.Op != "stat" && s.Op != "list" && rng.IntN(20) == 0 {
				shots = append(shots, h.shoot(disk, rng, s.String()))
			}
			return nil
		}}
		opts := smallOptions(disk)
		opts.FS = fs
		for range 3 {
			l := open(t, opts)
			for range 60 {
				must(t, h.run(m, l))
			}
			must(t, l.Close())
			h.durable = len(h.states) - 1
		}
		for _, s := range shots {
			s.check(t)
		}
		if len(shots) < 30 {
			t.Errorf("%d crashes", len(shots))
		}
	}
}

// A flush that an excise cancels is made again.
func TestLog_cancelledFlush(t *testing.T) {
	disk := kvtest.NewDisk()
	opts := smallOptions(disk)
	opts.MemTableSize = 1 << 20
	big := strings.Repeat("y", 1<<20)
	var armed atomic.Bool
	reached, goOn := make(chan struct{}), make(chan struct{})
	opts.FS = &faultfs.FS{FS: disk, Before: func(s faultfs.Site, _ string) error {
		if s == (faultfs.Site{Op: "create", Class: "sst"}) && armed.CompareAndSwap(true, false) {
			close(reached)
			<-goOn
		}
		return nil
	}}
	l := open(t, opts)
	for i := uint64(1); i <= 100; i++ {
		must(t, l.Append([]*pb.Entry{entry(i, 1, "x")}, hard(1, 1, i), false))
	}
	must(t, l.Truncate(50))
	flushed, err := l.Flush()
	must(t, err)
	<-flushed
	// The next flush writes a mark, and entries for more than one table. What is excised lies between the mark and the entries.
	must(t, l.SetMark("a", []byte("x")))
	armed.Store(true)
	must(t, l.Append([]*pb.Entry{entry(101, 1, big), entry(102, 1, big), entry(103, 1, big)}, nil, true))
	want, err := digestOf(l)
	must(t, err)
	<-reached
	must(t, l.Excise())
	close(goOn)
	flushed, err = l.Flush()
	must(t, err)
	<-flushed
	if got, err := digestOf(l); err != nil || got != want {
		t.Errorf("another log, or %v", err)
	}
	must(t, l.Close())
	shot{disk, []digest{want}, "the end"}.check(t)
}

// After an error of any call that writes or syncs, every call answers it, nothing is written any more, and what was
// synced is there when the log is opened again.
func TestLog_failing(t *testing.T) {
	sites := map[string][]string{
		"write": {"log", "sst", "MANIFEST", "SEAL", "SYNCED", "dbtmp"},
		"sync":  {"log", "sst", "MANIFEST", "SEAL", "SYNCED", "directory"},
	}
	seed := uint64(0)
	for op, classes := range sites {
		for _, class := range classes {
			for name, failure := range map[string]error{"io": syscall.EIO, "full": syscall.ENOSPC, "short": faultfs.ErrShort} {
				for _, after := range []int{1, 2, 4, 30} {
					if op == "sync" && name == "short" || class == "SYNCED" && (name == "short" || op == "sync" && after > 2) || class == "dbtmp" && after > 2 {
						continue
					}
					seed++
					f := &failing{site: faultfs.Site{Op: op, Class: class}, after: after, err: failure}
					f.run(t, seed, fmt.Sprintf("%s of %s %d", name, f.site, after))
				}
			}
		}
	}
}

// failing fails one call that writes or syncs.
type failing struct {
	site  faultfs.Site
	after int // this number of calls of the site from now
	err   error

	mu    sync.Mutex
	later []string // writes and syncs after it
}

func (f *failing) run(t *testing.T, seed uint64, when string) {
	t.Helper()
	disk := kvtest.NewDisk()
	m := newModel(seed)
	h := newHistory(m)
	opts := smallOptions(disk)
	opts.FS = &faultfs.FS{FS: disk, Before: f.before}
	l, err := raftlog.Open(dir, opts)
	for i := 0; err == nil && i < 1000; i++ {
		err = h.run(m, l)
	}
	if err == nil || !errors.Is(err, f.err) && f.err != faultfs.ErrShort {
		t.Errorf("%s: %v", when, err)
	}
	if l != nil {
		f.checkSticky(t, l, when)
		if closed := l.Close(); closed == nil || err == nil {
			t.Errorf("%s: %v, and closing it: %v", when, err, closed)
		}
	}
	shot{disk, h.states[h.durable:], when}.check(t)
}

func (f *failing) before(s faultfs.Site, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s == f.site {
		f.after--
	}
	if f.after < 0 && (s.Op == "write" || s.Op == "sync") {
		f.later = append(f.later, s.String())
	}
	full := f.err == syscall.ENOSPC && s.Op == "write" && f.after < 0 // and stays so
	if s == f.site && f.after == 0 || full {
		f.after = -1
		return f.err
	}
	return nil
}

func (f *failing) checkSticky(t *testing.T, l *raftlog.Log, when string) {
	t.Helper()
	f.mu.Lock()
	f.later = nil
	f.mu.Unlock()
	want := l.Failed()
	_, err1 := l.FirstIndex()
	_, err2 := l.LastIndex()
	_, err4 := l.Term(1)
	_, err5 := l.Entries(1, 2, 1)
	_, err6 := l.Mark("a")
	_, err7 := l.Size()
	_, err8 := l.IndexFor(1)
	for i, err := range []error{
		want, err1, err2, err4, err5, err6, err7, err8,
		l.Append(nil, nil, true), l.Append(nil, nil, false), l.SetMark("a", nil), l.Installing(1), l.Truncate(1), l.Reset(1<<40, 1<<40, nil),
	} {
		if !errors.Is(err, raftlog.ErrFailed) || err != want {
			t.Fatalf("%s: call %d answers %v, want %v", when, i, err, want)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, later := range f.later {
		if !strings.HasSuffix(later, " sst") { // a table that was begun may be tried to the end
			t.Fatalf("%s: then there was a %s", when, later)
		}
	}
}
