package raftlog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/internal/member"
	"github.com/sievekv/sievekv/internal/raftlog"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// ready returns a log with entries 11 to 20, of term 3 up to 15 and 5 from there on. 13 is committed, and 10 truncated.
func ready(t *testing.T, disk *kvtest.Disk) *raftlog.Log {
	t.Helper()
	l := open(t, smallOptions(disk))
	must(t, l.Reset(10, 3, hard(6, 7, 0)))
	var entries []*pb.Entry
	for i := uint64(11); i <= 20; i++ {
		entries = append(entries, entry(i, 3+i/16*2, fmt.Sprint(i)))
	}
	must(t, l.Append(entries, hard(6, 7, 13), true))
	return l
}

// A call that breaks a rule of raft is an error that says which, changes nothing, and ends the log.
func TestLog_rules(t *testing.T) {
	one := func(index, term uint64) []*pb.Entry { return []*pb.Entry{entry(index, term, "x")} }
	odd := one(21, 6)
	odd[0].Type = pb.EntryType(3).Enum()
	for name, tt := range map[string]struct {
		do   func(l *raftlog.Log) error
		want string
	}{
		"gap":              {func(l *raftlog.Log) error { return l.Append(one(22, 6), nil, true) }, "append at index 22, and the log ends at 20"},
		"gap within":       {func(l *raftlog.Log) error { return l.Append(append(one(21, 6), one(23, 6)...), nil, true) }, "entry of index 23"},
		"twice":            {func(l *raftlog.Log) error { return l.Append(append(one(21, 6), one(21, 6)...), nil, true) }, "entry of index 21"},
		"committed":        {func(l *raftlog.Log) error { return l.Append(one(13, 6), nil, true) }, "everything up to 13 is committed"},
		"truncated":        {func(l *raftlog.Log) error { return l.Append(one(10, 6), nil, true) }, "everything up to 13 is committed"},
		"index 0":          {func(l *raftlog.Log) error { return l.Append(one(0, 6), nil, true) }, "append at index 0"},
		"lower term":       {func(l *raftlog.Log) error { return l.Append(one(21, 4), nil, true) }, "index 21, term 4"},
		"lower term than":  {func(l *raftlog.Log) error { return l.Append(one(17, 4), nil, true) }, "term 4"},
		"no term":          {func(l *raftlog.Log) error { return l.Append(one(16, 0), nil, true) }, "term 0"},
		"unknown term":     {func(l *raftlog.Log) error { return l.Append(one(21, 7), nil, true) }, "term 6, entry 21 has term 7"},
		"type":             {func(l *raftlog.Log) error { return l.Append(odd, nil, true) }, "type 3"},
		"older term":       {func(l *raftlog.Log) error { return l.Append(nil, hard(5, 0, 0), true) }, "term 5 after one of term 6"},
		"second vote":      {func(l *raftlog.Log) error { return l.Append(nil, hard(6, 8, 0), true) }, "vote for 8 in term 6 after a vote for 7"},
		"vote taken back":  {func(l *raftlog.Log) error { return l.Append(nil, hard(6, 0, 0), true) }, "vote for 0 in term 6"},
		"commit":           {func(l *raftlog.Log) error { return l.Append(nil, hard(6, 7, 21), true) }, "commit index is 21"},
		"truncate":         {func(l *raftlog.Log) error { return l.Truncate(21) }, "index 21"},
		"reset back":       {func(l *raftlog.Log) error { return l.Reset(12, 6, nil) }, "reset to index 12"},
		"reset to the end": {func(l *raftlog.Log) error { return l.Reset(1<<64-1, 6, nil) }, "reset to index"},
		"mark":             {func(l *raftlog.Log) error { return l.SetMark("", []byte("x")) }, "mark"},
		"long name":        {func(l *raftlog.Log) error { return l.SetMark(strings.Repeat("x", 256), nil) }, "1 to 255"},
		"long mark":        {func(l *raftlog.Log) error { return l.SetMark("m", make([]byte, 65537)) }, "65536"},
	} {
		t.Run(name, func(t *testing.T) {
			disk := kvtest.NewDisk()
			l := ready(t, disk)
			want, err := digestOf(l)
			must(t, err)
			if err := tt.do(l); !errors.Is(err, raftlog.ErrRule) || !errors.Is(err, raftlog.ErrFailed) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
			if err := l.Append(nil, nil, true); !errors.Is(err, raftlog.ErrRule) {
				t.Errorf("afterwards: %v", err)
			}
			if err := l.Close(); !errors.Is(err, raftlog.ErrRule) {
				t.Errorf("closed: %v", err)
			}
			if same, err := verify(t, disk, want); !same || err != nil {
				t.Errorf("opened again: %v, or it has changed", err)
			}
		})
	}
}

// The commit index is raised by a truncation, and does not go down.
func TestLog_commit(t *testing.T) {
	l := ready(t, kvtest.NewDisk())
	defer l.Close()
	must(t, l.Truncate(16))
	must(t, l.Truncate(12)) // was truncated before
	must(t, l.Append(nil, hard(8, 0, 14), true))
	hs := l.HardState()
	if hs.GetCommit() != 16 || hs.GetTerm() != 8 {
		t.Errorf("hard state %v", hs)
	}
	if term, err := l.Term(16); term != 5 || err != nil {
		t.Errorf("term of the base: %d, %v", term, err)
	}
	if _, err := l.Term(15); err != raft.ErrCompacted {
		t.Errorf("term below the base: %v", err)
	}
	if _, err := l.Entries(16, 18, 1); err != raft.ErrCompacted {
		t.Errorf("entries below the base: %v", err)
	}
}

// A reset knows the term of the entry that it goes on after, whatever hard state there is.
func TestLog_resetTerm(t *testing.T) {
	for want, hs := range map[uint64]*pb.HardState{9: nil, 11: hard(11, 2, 3)} {
		l := ready(t, kvtest.NewDisk())
		must(t, l.Installing(30))
		must(t, l.Reset(30, 9, hs))
		got := l.HardState()
		if got.GetTerm() != want || got.GetVote() != hs.GetVote() || got.GetCommit() != 30 || l.Installed() != 0 {
			t.Errorf("after hard state %v: %v, and %d is being installed", hs, got, l.Installed())
		}
		must(t, l.Close())
	}
}

var _ member.Log = (*raftlog.Log)(nil)

// A hard state that a caller got is its own.
func TestLog_ownHardState(t *testing.T) {
	l := ready(t, kvtest.NewDisk())
	defer l.Close()
	*l.HardState().Term = 99
	if again := l.HardState(); again.GetTerm() != 6 {
		t.Error(again)
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

func TestOpen_refused(t *testing.T) {
	must := func(err error) { must(t, err) }
	foreign := func(name string) *kvtest.Disk {
		disk := kvtest.NewDisk()
		must(disk.MkdirAll(dir, 0o700))
		writeFile(t, disk, dir+"/"+name, nil)
		return disk
	}
	other := kvtest.NewDisk()
	db, err := pebble.Open(dir, &pebble.Options{FS: other, Logger: quiet{}})
	must(err)
	must(db.Close())
	used := kvtest.NewDisk()
	l := open(t, smallOptions(used))
	defer l.Close()
	for name, tt := range map[string]struct {
		disk      *kvtest.Disk
		mustExist bool
		want      error
	}{
		"locked":             {used, false, raftlog.ErrLocked},
		"missing":            {kvtest.NewDisk(), true, raftlog.ErrNotExist},
		"empty":              {foreign("LOCK"), true, raftlog.ErrNotExist},
		"another's file":     {foreign("file"), false, raftlog.ErrForeign},
		"another's database": {other, false, raftlog.ErrForeign},
	} {
		opts := smallOptions(tt.disk)
		opts.MustExist = tt.mustExist
		before, _ := tt.disk.List(dir)
		if _, err := raftlog.Open(dir, opts); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		after, _ := tt.disk.List(dir)
		for _, file := range after {
			if file != "LOCK" && !slices.Contains(before, file) {
				t.Errorf("%s: the file %s was made", name, file)
			}
		}
		for _, file := range before {
			if tt.disk != used && !slices.Contains(after, file) { // the log that is open may remove old files of its own
				t.Errorf("%s: the file %s was removed", name, file)
			}
		}
	}
}

// A log in a directory of the operating system, which only its user can read.
func TestOpen_directory(t *testing.T) {
	dir := t.TempDir() + "/a/log"
	for range 2 {
		l, err := raftlog.Open(dir, raftlog.Options{})
		must(t, err)
		if _, err := raftlog.Open(dir, raftlog.Options{}); !errors.Is(err, raftlog.ErrLocked) {
			t.Errorf("a second time: %v", err)
		}
		must(t, l.SetMark("node", []byte("7")))
		must(t, l.Close())
		must(t, l.Close())
		if err := l.Append(nil, nil, false); !errors.Is(err, raftlog.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	info, err := vfs.Default.Stat(dir)
	must(t, err)
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		t.Errorf("mode %v", info.Mode())
	}
}

// Readers run beside calls that append, replace and truncate. What they read is a part of one log.
func TestLog_together(t *testing.T) {
	opts := smallOptions(kvtest.NewDisk())
	opts.Recent = 500 // so that most is read from Pebble
	l := open(t, opts)
	m := newModel(5)
	done := make(chan struct{})
	var readers sync.WaitGroup
	read := make([]int, 2)
	for i := range read {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 0))
			for {
				select {
				case <-done:
					return
				default:
				}
				n, err := readSome(l, rng)
				if read[i] += n; err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 600 {
		must(t, m.next().do(l))
	}
	close(done)
	readers.Wait()
	if read[0]+read[1] == 0 {
		t.Error("nothing was read")
	}
	must(t, l.Close())
}

// A slow disk holds up no reader.
func TestLog_slow(t *testing.T) {
	disk := kvtest.NewDisk()
	var armed atomic.Bool
	reached, goOn := make(chan struct{}), make(chan struct{})
	opts := smallOptions(disk)
	opts.FS = &faultfs.FS{FS: disk, Before: func(s faultfs.Site, _ string) error {
		if s == (faultfs.Site{Op: "sync", Class: "log"}) && armed.CompareAndSwap(true, false) {
			close(reached)
			<-goOn
		}
		return nil
	}}
	l := open(t, opts)
	must(t, l.Append([]*pb.Entry{entry(1, 1, "a"), entry(2, 1, "b")}, hard(1, 1, 1), true))
	armed.Store(true)
	var writing sync.WaitGroup
	writing.Go(func() {
		// So large that Pebble begins another log first, and waits for the end of this one. It replaces an entry.
		if err := l.Append([]*pb.Entry{entry(2, 1, strings.Repeat("x", 1<<20))}, nil, true); err != nil {
			t.Error(err)
		}
	})
	<-reached
	last, err := l.LastIndex()
	must(t, err)
	entries, err := l.Entries(1, last+1, 1<<20)
	if err != nil || len(entries) != int(last) || last == 2 && len(entries[1].GetData()) == 1 {
		t.Errorf("%d entries, up to %d, %v", len(entries), last, err)
	}
	if _, err := l.Term(1); err != nil || l.HardState().GetTerm() != 1 {
		t.Error(err)
	}
	close(goOn)
	writing.Wait()
	if last, err := l.LastIndex(); err != nil || last != 2 {
		t.Errorf("then up to %d, %v", last, err)
	}
	must(t, l.Close())
}

func readSome(l *raftlog.Log, rng *rand.Rand) (int, error) {
	first, err1 := l.FirstIndex()
	last, err2 := l.LastIndex()
	if err := errors.Join(err1, err2); err != nil || first > last {
		return 0, err
	}
	lo := first + rng.Uint64N(last-first+1)
	entries, err := l.Entries(lo, last+1, 1<<20)
	if err == raft.ErrCompacted || err == raft.ErrUnavailable {
		return 0, nil
	}
	for i, e := range entries {
		if e.GetIndex() != lo+uint64(i) || i > 0 && e.GetTerm() < entries[i-1].GetTerm() {
			return 0, fmt.Errorf("entry %d of term %d in place %d from %d", e.GetIndex(), e.GetTerm(), i, lo)
		}
	}
	return len(entries), err
}

// Failed is told of the error once.
func TestLog_told(t *testing.T) {
	var told []error
	opts := smallOptions(kvtest.NewDisk())
	opts.Failed = func(err error) { told = append(told, err) }
	l := open(t, opts)
	err := l.Truncate(1)
	_ = l.Append(nil, nil, true)
	_ = l.Close()
	if len(told) != 1 || told[0] != err || err == nil {
		t.Errorf("told of %v, and Truncate returned %v", told, err)
	}
}
