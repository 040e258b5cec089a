package sim

import (
	"math/rand/v2"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sievekv/sievekv/internal/member"
)

// disk is what a node has stored: its log, and the state of its machine. Each of them is a list of the states that the writes since
// the last sync have made. A crash leaves one of them, whole: a write is one batch. States are never changed.
type disk struct {
	rng     *rand.Rand
	log     []logState
	machine []member.State

	// A write panics with errCrash when this number of others has come before it, unless it is negative. The write may
	// be on the disk.
	crashIn int
	// A write fails when this number of others has come before it, unless it is negative. Later ones succeed, but
	// nothing of them is on the disk after a crash: Linux behaves like this when an fsync has failed.
	failIn int
	failed bool
}

type logState struct {
	hs         *pb.HardState
	before     uint64 // index of what was before the first entry
	beforeTerm uint64
	entries    []*pb.Entry
	installing uint64
}

type crash struct{}

type diskError struct{}

func (diskError) Error() string { return "no space left on device" }

// write is called before each write. It reports whether the write is made, and ends with a crash or an error after it.
func (d *disk) write(do func()) error {
	if d.failIn == 0 {
		if d.rng.IntN(2) == 0 {
			do() // a failed write may be on the disk all the same
		}
		d.failIn, d.failed = -1, true
		return diskError{}
	}
	if d.failIn > 0 {
		d.failIn--
	}
	if d.crashIn == 0 {
		if d.rng.IntN(2) == 0 {
			do()
		}
		panic(crash{})
	}
	if d.crashIn > 0 {
		d.crashIn--
	}
	do()
	return nil
}

// cut leaves what a crash leaves: of the log and of the machine any state since the last sync.
func (d *disk) cut() {
	d.log = d.log[:1+d.rng.IntN(len(d.log))]
	d.log = d.log[len(d.log)-1:]
	d.machine = d.machine[:1+d.rng.IntN(len(d.machine))]
	d.machine = d.machine[len(d.machine)-1:]
	d.crashIn, d.failIn, d.failed = -1, -1, false
}

func (d *disk) now() logState { return d.log[len(d.log)-1] }

func (d *disk) addLog(s logState) { d.log = append(d.log, s) }

func (d *disk) syncLog() {
	if !d.failed {
		d.log = d.log[len(d.log)-1:]
	}
}

func (d *disk) syncMachine() {
	if !d.failed {
		d.machine = d.machine[len(d.machine)-1:]
	}
}

// synced returns the state of the machine that no crash takes back.
func (d *disk) synced() member.State { return d.machine[0] }

// The disk is a member.Log.

func (d *disk) HardState() *pb.HardState { return d.now().hs }

func (d *disk) FirstIndex() (uint64, error) { return d.now().before + 1, nil }

func (d *disk) LastIndex() (uint64, error) { return d.now().before + uint64(len(d.now().entries)), nil }

func (d *disk) Term(i uint64) (uint64, error) {
	s := d.now()
	switch {
	case i < s.before:
		return 0, raft.ErrCompacted
	case i == s.before:
		return s.beforeTerm, nil
	case i > s.before+uint64(len(s.entries)):
		return 0, raft.ErrUnavailable
	}
	return s.entries[i-s.before-1].GetTerm(), nil
}

func (d *disk) Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	s := d.now()
	if lo <= s.before {
		return nil, raft.ErrCompacted
	}
	if hi > s.before+uint64(len(s.entries))+1 {
		return nil, raft.ErrUnavailable
	}
	found := s.entries[lo-s.before-1 : hi-s.before-1 : hi-s.before-1]
	size := uint64(0)
	for i, e := range found {
		if size += uint64(len(e.GetData())) + 16; size > maxSize && i > 0 {
			return found[:i:i], nil
		}
	}
	return found, nil
}

func (d *disk) Append(entries []*pb.Entry, hs *pb.HardState, sync bool) error {
	if len(entries) == 0 && hs == nil && !sync {
		return nil
	}
	err := d.write(func() {
		s := d.now()
		if hs != nil {
			s.hs = hs
		}
		if len(entries) > 0 {
			keep := entries[0].GetIndex() - s.before - 1
			s.entries = append(s.entries[:keep:keep], entries...)
		}
		d.addLog(s)
	})
	if err == nil && sync {
		err = d.write(d.syncLog)
	}
	return err
}

func (d *disk) Truncate(index uint64) error {
	return d.write(func() {
		s := d.now()
		if index <= s.before {
			return
		}
		s.beforeTerm = s.entries[index-s.before-1].GetTerm()
		s.entries = s.entries[index-s.before:]
		s.before = index
		d.addLog(s)
	})
}

func (d *disk) Installing(index uint64) error {
	err := d.write(func() {
		s := d.now()
		s.installing = index
		d.addLog(s)
	})
	if err == nil {
		err = d.write(d.syncLog)
	}
	return err
}

func (d *disk) Reset(index, term uint64, hs *pb.HardState) error {
	err := d.write(func() {
		if hs == nil {
			hs = d.now().hs
		}
		hs = &pb.HardState{Term: hs.Term, Vote: hs.Vote, Commit: new(index)}
		d.addLog(logState{hs: hs, before: index, beforeTerm: term})
	})
	if err == nil {
		err = d.write(d.syncLog)
	}
	return err
}

func (d *disk) Installed() uint64 { return d.now().installing }
