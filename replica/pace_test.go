package replica

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv"
)

// A log is slow if one of 100 writes takes more than 100 ms, in ten seconds in a row. Seconds without a write say nothing.
func TestPace_look(t *testing.T) {
	const ms = time.Millisecond
	times := func(n int, took time.Duration) []time.Duration { return slices.Repeat([]time.Duration{took}, n) }
	fast, slow := times(50, ms), slices.Concat(times(50, ms), times(2, 150*ms))
	for _, tt := range []struct {
		name    string
		seconds [][]time.Duration
		slow    bool
		p99     time.Duration
	}{
		{"nothing", [][]time.Duration{nil}, false, 0},
		{"fast", [][]time.Duration{fast}, false, ms},
		{"nine slow seconds", slices.Repeat([][]time.Duration{slow}, 9), false, 200 * ms},
		{"ten", slices.Repeat([][]time.Duration{slow}, 10), true, 200 * ms},
		{"ten, and a fast one", slices.Concat(slices.Repeat([][]time.Duration{slow}, 10), [][]time.Duration{fast}), false, 200 * ms},
		{"ten, with pauses", slices.Repeat([][]time.Duration{slow, nil}, 10), true, 200 * ms},
		{"a fast one among them", slices.Concat(slices.Repeat([][]time.Duration{slow}, 9), [][]time.Duration{fast, slow}), false, 200 * ms},
		{"one of 100", slices.Repeat([][]time.Duration{append(times(99, ms), time.Second)}, 12), false, ms},
		{"exactly 100 ms", slices.Repeat([][]time.Duration{times(1, 100*ms)}, 12), false, 100 * ms},
		{"a minute each", slices.Repeat([][]time.Duration{times(1, time.Minute)}, 10), true, 10 * time.Second},
		{"long ago", slices.Concat([][]time.Duration{slow}, slices.Repeat([][]time.Duration{nil}, 9)), false, 0},
	} {
		var p pace
		is := false
		for _, second := range tt.seconds {
			for _, took := range second {
				p.note(took)
			}
			is = p.look(time.Now())
		}
		if got := p.p99(); is != tt.slow || got != tt.p99 {
			t.Errorf("%s: slow %t, p99 %v, want %t and %v", tt.name, is, got, tt.slow, tt.p99)
		}
	}
}

// A write that does not end counts in each second.
func TestPace_hangs(t *testing.T) {
	var p pace
	ended := p.begin()
	now := time.Now()
	for i := range paceLooks {
		if slow := p.look(now.Add(time.Duration(i+1) * time.Second)); slow != (i == paceLooks-1) {
			t.Errorf("after %d seconds: slow %t", i+1, slow)
		}
	}
	ended()
	if p.note(0); p.look(now.Add(time.Hour)) {
		t.Error("it has ended, and is slow still")
	}
}

// sluggish is a file system whose syncs can be slow.
type sluggish struct {
	vfs.FS
	slow atomic.Bool
}

func (s *sluggish) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.Create(name, c)
	return sluggishFile{f, s}, err
}

func (s *sluggish) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.ReuseForWrite(old, name, c)
	return sluggishFile{f, s}, err
}

func (s *sluggish) wait() {
	if s.slow.Load() {
		time.Sleep(20 * slowWrite)
	}
}

type sluggishFile struct {
	vfs.File
	of *sluggish
}

func (f sluggishFile) Sync() error {
	f.of.wait()
	return f.File.Sync()
}

func (f sluggishFile) SyncData() error {
	f.of.wait()
	return f.File.SyncData()
}

func (f sluggishFile) SyncTo(length int64) (bool, error) {
	f.of.wait()
	return f.File.SyncTo(length)
}

// A leader whose disk is slow hands over, and nothing is lost by it.
func TestPace_slowDisk(t *testing.T) {
	t.Parallel()
	disks := make([]*sluggish, 3)
	g := newTrioWith(t, func(i int, o *Options) {
		disks[i] = &sluggish{FS: vfs.Default}
		o.Store.FS = disks[i]
		o.probeEvery, o.keepEvery = 10*time.Millisecond, 50*time.Millisecond
	})
	g.write("before")
	leader := g.leader()
	disks[slices.Index(g.nodes, leader)].slow.Store(true)
	g.await("another leads", func() bool {
		_, err := g.leader().DB.Incr("counter", 1)
		if err != nil && !errors.Is(err, kv.ErrNotLeader) && !errors.Is(err, kv.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		return g.leader() != leader
	})
	if took := leader.Status().member(leader.id).LogTime; took <= slowWrite {
		t.Errorf("99 of 100 writes of its log took at most %v", took)
	}
	g.write("after")
	disks[slices.Index(g.nodes, leader)].slow.Store(false)
	g.have("before", "after")
}
