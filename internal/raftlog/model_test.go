package raftlog_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/internal/raftlog"
	"github.com/sievekv/sievekv/tests/faultfs"
)

const dir = faultfs.StoreDir

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func entry(index, term uint64, data string) *pb.Entry {
	e := &pb.Entry{Index: &index, Term: &term, Type: pb.EntryNormal.Enum()}
	if data != "" {
		e.Data = []byte(data)
	}
	return e
}

func hard(term, vote, commit uint64) *pb.HardState {
	return &pb.HardState{Term: &term, Vote: &vote, Commit: &commit}
}

// digest is what a log has: base, entries, hard state and marks.
type digest [sha256.Size]byte

// markNames are the names of the marks that tests set.
var markNames = []string{"a", "node", "snapshot"}

// digestOf reads a log.
func digestOf(l *raftlog.Log) (d digest, err error) {
	first, err1 := l.FirstIndex()
	last, err2 := l.LastIndex()
	base, err3 := l.Term(first - 1)
	if err := errors.Join(err1, err2, err3); err != nil {
		return d, err
	}
	h, hs := sha256.New(), l.HardState()
	fmt.Fprintln(h, l.Installed(), first, last, hs.GetTerm(), hs.GetVote(), hs.GetCommit(), base)
	if first <= last {
		entries, err := l.Entries(first, last+1, math.MaxUint64)
		if err != nil {
			return d, err
		}
		for _, e := range entries {
			term, err := l.Term(e.GetIndex())
			if err != nil {
				return d, err
			}
			fmt.Fprintln(h, e.GetIndex(), e.GetTerm(), term, e.GetType(), len(e.GetData()))
			h.Write(e.GetData())
		}
	}
	for _, name := range markNames {
		value, err := l.Mark(name)
		if err != nil {
			return d, err
		}
		fmt.Fprintf(h, "%s %x\n", name, value)
	}
	return digest(h.Sum(nil)), nil
}

// model makes random calls that raft could make, and knows what they lead to.
type model struct {
	rng   *rand.Rand
	store *raft.MemoryStorage
	hard  struct{ term, vote, commit uint64 }
	marks map[string]string

	installing uint64
	big        int // the largest size of data
}

func newModel(seed uint64) *model {
	return &model{rng: rand.New(rand.NewPCG(seed, 0)), store: raft.NewMemoryStorage(), marks: map[string]string{}, big: 3000}
}

func (m *model) bounds() (first, last uint64) {
	first, _ = m.store.FirstIndex()
	last, _ = m.store.LastIndex()
	return first, last
}

// digest is digestOf of a log that is like the model.
func (m *model) digest() digest {
	h := sha256.New()
	first, last := m.bounds()
	base, _ := m.store.Term(first - 1)
	fmt.Fprintln(h, m.installing, first, last, m.hard.term, m.hard.vote, m.hard.commit, base)
	if first <= last {
		entries, _ := m.store.Entries(first, last+1, math.MaxUint64)
		for _, e := range entries {
			fmt.Fprintln(h, e.GetIndex(), e.GetTerm(), e.GetTerm(), e.GetType(), len(e.GetData()))
			h.Write(e.GetData())
		}
	}
	for _, name := range markNames {
		fmt.Fprintf(h, "%s %x\n", name, m.marks[name])
	}
	return digest(h.Sum(nil))
}

// call is a change of a log. Synced says that it is on stable storage when it returns.
type call struct {
	name   string
	synced bool
	do     func(l *raftlog.Log) error
}

// next chooses a call, and changes the model.
func (m *model) next() call {
	first, last := m.bounds()
	switch n := m.rng.IntN(20); {
	case n < 12:
		return m.append(last + 1)
	case n < 15 && last > m.hard.commit:
		m.hard.term++
		m.hard.vote = 0
		return m.append(m.hard.commit + 1 + m.rng.Uint64N(last-m.hard.commit))
	case n < 17 && first <= last:
		to := first + m.rng.Uint64N(last-first+1)
		_ = m.store.Compact(to)
		m.hard.commit = max(m.hard.commit, to)
		return call{fmt.Sprint("truncate ", to), false, func(l *raftlog.Log) error { return l.Truncate(to) }}
	case n == 17 && m.rng.IntN(4) == 0:
		return m.reset(m.hard.commit + m.rng.Uint64N(100) + 1)
	case n == 18:
		m.installing = m.rng.Uint64N(100)
		index := m.installing
		return call{fmt.Sprint("installing ", index), true, func(l *raftlog.Log) error { return l.Installing(index) }}
	default:
		name, value := markNames[m.rng.IntN(len(markNames))], fmt.Sprint(m.rng.IntN(1000))
		if m.rng.IntN(4) == 0 {
			value = ""
		}
		m.marks[name] = value
		return call{"mark " + name, true, func(l *raftlog.Log) error { return l.SetMark(name, []byte(value)) }}
	}
}

func (m *model) append(from uint64) call {
	if m.hard.term == 0 || m.rng.IntN(10) == 0 {
		m.hard.term += 1 + m.rng.Uint64N(2)
		m.hard.vote = m.rng.Uint64N(3)
	}
	var entries []*pb.Entry
	for i := range m.rng.Uint64N(5) {
		data := make([]byte, m.rng.IntN(m.big))
		for j := range data {
			data[j] = byte(m.rng.Uint32())
		}
		e := entry(from+i, m.hard.term, string(data))
		e.Type = pb.EntryType(m.rng.IntN(3)).Enum()
		entries = append(entries, e)
	}
	_ = m.store.Append(entries)
	_, last := m.bounds()
	if m.rng.IntN(3) == 0 {
		m.hard.commit += m.rng.Uint64N(last - m.hard.commit + 1)
	}
	hs, synced := hard(m.hard.term, m.hard.vote, m.hard.commit), m.rng.IntN(2) == 0
	return call{fmt.Sprintf("append %d from %d", len(entries), from), synced, func(l *raftlog.Log) error { return l.Append(entries, hs, synced) }}
}

func (m *model) reset(index uint64) call {
	m.hard.term++
	m.hard.vote = 0
	m.hard.commit, m.installing = index, 0
	term := m.hard.term
	_ = m.store.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: &index, Term: &term}})
	hs := hard(term, 0, index+7)
	return call{fmt.Sprint("reset to ", index), true, func(l *raftlog.Log) error { return l.Reset(index, term, hs) }}
}

// compare asks the log and the model the same.
func (m *model) compare(t *testing.T, l *raftlog.Log) {
	t.Helper()
	first, last := m.bounds()
	got, err := digestOf(l)
	must(t, err)
	if got != m.digest() {
		t.Fatal("the log is not like the model")
	}
	for range 5 {
		i := first + m.rng.Uint64N(last-first+5) - min(first, 3)
		term, err := l.Term(i)
		wantTerm, wantErr := m.store.Term(i)
		if term != wantTerm || err != wantErr {
			t.Fatalf("term of %d: %d, %v, want %d, %v", i, term, err, wantTerm, wantErr)
		}
	}
	for range 5 {
		lo := first + m.rng.Uint64N(last-first+2) - min(first, 2)
		if lo > last {
			continue
		}
		hi, most := lo+1+m.rng.Uint64N(last-lo+1), m.rng.Uint64N(20000)
		entries, err := l.Entries(lo, hi, most)
		want, wantErr := m.store.Entries(lo, hi, most)
		if err != wantErr || fmt.Sprint(entries) != fmt.Sprint(want) {
			t.Fatalf("entries from %d below %d of %d bytes: %d, %v, want %d, %v", lo, hi, most, len(entries), err, len(want), wantErr)
		}
	}
	if _, err := l.Entries(last+1, last+2, 1); err != raft.ErrUnavailable {
		t.Fatalf("entries behind the last: %v", err)
	}
}

func smallOptions(disk *kvtest.Disk) raftlog.Options {
	return raftlog.Options{FS: disk, MemTableSize: 32 << 10, Recent: 5000}
}

func open(t *testing.T, opts raftlog.Options) *raftlog.Log {
	t.Helper()
	l, err := raftlog.Open(dir, opts)
	must(t, err)
	return l
}

// A log answers as raft's own in memory, whatever was appended, replaced, truncated and reset, and after it was closed.
func TestLog_model(t *testing.T) {
	for seed := range uint64(4) {
		disk := kvtest.NewDisk()
		m := newModel(seed)
		l := open(t, smallOptions(disk))
		for range 400 {
			c := m.next()
			if err := c.do(l); err != nil {
				t.Fatalf("seed %d, %s: %v", seed, c.name, err)
			}
			if m.rng.IntN(5) == 0 {
				m.compare(t, l)
			}
			if m.rng.IntN(40) == 0 {
				must(t, l.Close())
				l = open(t, smallOptions(disk))
				m.compare(t, l)
			}
		}
		must(t, l.Close())
	}
}

// The size is the entries', and IndexFor the least to truncate.
func TestLog_size(t *testing.T) {
	m := newModel(7)
	l := open(t, smallOptions(kvtest.NewDisk()))
	defer l.Close()
	for range 100 {
		must(t, m.next().do(l))
		first, last := m.bounds()
		sizes := map[uint64]uint64{last: 0} // of what is behind an index
		for i := last; i >= first; i-- {
			e, _ := m.store.Entries(i, i+1, 1)
			sizes[i-1] = sizes[i] + uint64(len(e[0].GetData())) + 34
		}
		if size, err := l.Size(); err != nil || size != sizes[first-1] {
			t.Fatalf("size %d, %v, want %d", size, err, sizes[first-1])
		}
		keep := m.rng.Uint64N(sizes[first-1] + 2)
		i, err := l.IndexFor(keep)
		if err != nil || sizes[i] > keep || i >= first && sizes[i-1] <= keep {
			t.Fatalf("to keep %d of %d, up to %d, %v: leaves %d", keep, sizes[first-1], i, err, sizes[i])
		}
	}
}

// What is truncated is given back to the disk, and no entry is written again for that.
func TestLog_space(t *testing.T) {
	disk := kvtest.NewDisk()
	l := open(t, smallOptions(disk))
	const entries, keep, size = 4000, 100, 1000
	for i := uint64(1); i <= entries; i++ {
		must(t, l.Append([]*pb.Entry{entry(i, 1, string(make([]byte, size)))}, hard(1, 1, 0), false))
		if i%10 == 0 && i > keep {
			must(t, l.Truncate(i-keep))
		}
	}
	must(t, l.Reclaim())
	if flushed, compacted := l.Written(); flushed < entries*size*3/4 || compacted > 0 {
		t.Errorf("%d bytes were flushed, and %d written again", flushed, compacted)
	}
	if on, err := l.DiskSize(); err != nil || on < keep*size {
		t.Errorf("%d bytes on the disk, %v", on, err)
	}
	must(t, l.Close()) // which waits for files to be removed
	names, err := disk.List(dir)
	must(t, err)
	total := int64(0)
	for _, name := range names {
		info, err := disk.Stat(dir + "/" + name)
		must(t, err)
		total += info.Size()
	}
	// Besides the entries that are kept there are logs of a few memtables.
	if total > entries*size/4 {
		t.Errorf("%d bytes on the disk at the end", total)
	}
}
