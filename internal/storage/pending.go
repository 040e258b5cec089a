package storage

import (
	"bytes"
	"cmp"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/text"
)

// Group commit. A commit is pending at first if it need not be in the log at once, and only changes blocks and sets
// records that are looked up by their keys: its changes are kept in memory, by their keys (index.go), and flushed to
// Pebble together with others. A group of commits becomes one Pebble batch, with one operand for each block and one
// value for each record, in the order of their keys. That costs a fraction of a batch for each commit: most of the time
// of a batch is that Pebble looks for the places of its keys in the memtable, and they are near each other if there are
// many.
//
// The store is what Pebble has and what is pending. Wherever another comment says that a commit is applied, a pending
// commit counts as applied. For this to hold, every reader and writer follows a rule:
//
//   - Block and Get look at what is pending first, and read from Pebble then. If a commit has been flushed by the
//     first step, the second step finds it in Pebble. If commits are made and flushed between the steps, Block may put
//     the older value of a slot over a newer one. The block is not put into the cache then (kv/load.go); a lookup that
//     needs a whole state finds that the block's version has changed; and writers hold the lock of the key.
//   - Every other read of what may be pending flushes first.
//   - Every commit flushes first. So what was pending before a commit is in the log before it, and a crash leaves a
//     prefix of the commits, as it does without group commit.
//   - A snapshot flushes first. If it is made while no commit is under way, it has every commit.
//   - A sync flushes before it syncs Pebble's log.
//
// A crash loses pending commits, for which nobody was promised that they survive a crash. They are at most MaxPending
// commits, and as many again that are being flushed, all made within about the last FlushAfter.

const (
	// MaxPending is the most commits that can be pending. Once that number is pending, or the room is used up
	// (index.holds), a commit goes to Pebble by itself. At half of it, the last commit asks its caller to flush, unless
	// a flush is under way.
	MaxPending  = 1 << 15
	ManyPending = MaxPending / 2

	// defaultFlushAfter is the default of Options.FlushAfter.
	defaultFlushAfter = 50 * time.Millisecond
)

// pending holds the commits that are not in Pebble yet. They are counted from the opening of the store.
type pending struct {
	added   atomic.Uint64 // how many commits have become pending; written with mu held
	flushed atomic.Uint64 // how many of them are in Pebble; written with flushes held, in a group by the apply loop

	recorded atomic.Int64 // how many records other than of objects are pending; written with mu held

	mu       sync.Mutex
	filling  index  // guarded by mu
	flushing index  // what is being flushed; written with both flushes and mu held, read with either held; see Group.land
	joiner   joiner // of lookups; guarded by mu

	flushes sync.Mutex    // held while a group is flushed
	scratch flushScratch  // guarded by flushes
	begun   chan struct{} // tells the flush loop that a group has begun; of capacity 1
	many    chan struct{} // tells the flush loop of a store of a group that much is pending; of capacity 1
}

// pend makes a batch pending and reports whether it did: if it can be, and there is room.
func (s *Store) pend(b *Batch) (r Receipt, pending bool) {
	s.pending.mu.Lock()
	defer s.pending.mu.Unlock()
	return s.pendLocked(b)
}

// pendLocked is pend for a caller that holds pending.mu.
func (s *Store) pendLocked(b *Batch) (r Receipt, pending bool) {
	p := &s.pending
	to := &p.filling
	room, half := to.holds(b, MaxCommit(s.opts.MemTableSize))
	if !room || b.now {
		return r, false
	}
	if to.commits == 0 {
		select {
		case p.begun <- struct{}{}:
		default:
		}
	}
	records := to.records
	to.add(b)
	p.recorded.Add(int64(to.records - records))
	p.added.Add(1) // before the commit has a number: whatever reads the number then finds something to flush
	r = Receipt{Number: s.last.Add(1), full: half}
	s.pauseAt("append: numbered")
	return r, true
}

// none reports whether nothing is pending.
func (p *pending) none() bool { return p.added.Load() == p.flushed.Load() }

// operand returns an operand that makes the pending changes of a block, nil if there are none. Some may be in Pebble already.
func (p *pending) operand(key []byte, blk uint64) []byte {
	if p.none() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	j := &p.joiner
	for _, from := range []*index{&p.flushing, &p.filling} { // the later ones last
		j.changes = from.appendChanges(j.changes, from.find(key))
	}
	if len(j.changes) == 0 {
		return nil
	}
	return bytes.Clone(j.join(blk))
}

// value returns a copy of the value that a pending commit has set a record to.
func (p *pending) value(key []byte) (value []byte, found bool) {
	if p.none() || len(key) == 0 || key[0] != format.TagObject && p.recorded.Load() == 0 {
		return nil, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, from := range []*index{&p.filling, &p.flushing} { // the newer one first
		if value, found = from.value(key); found {
			return bytes.Clone(value), true
		}
	}
	return nil, false
}

// Block returns Pebble's stored form of a block, as Get does, and an operand that makes the pending changes of the
// block, nil if there are none. Some of these may be stored already.
func (s *Store) Block(object, layer, blk uint64) (value []byte, closer io.Closer, operand []byte, err error) {
	var buf [24]byte
	key := format.AppendBlockKey(buf[:0], object, layer, blk)
	operand = s.pending.operand(key, blk) // before Pebble is asked, see above
	s.pauseAt("load: pending")
	value, closer, err = s.disk.Get(key)
	return value, closer, operand, err
}

// Flush puts everything into Pebble that was pending before the call. If that fails, the store fails. In a group it
// waits for the apply loop. If the store ceases to lead meanwhile, it forgets pending commits, or is about to.
func (s *Store) Flush() {
	if s.Group != nil {
		_ = s.Group.flush() // readers go on with what there is
		return
	}
	p := &s.pending
	upTo := p.added.Load()
	if p.flushed.Load() >= upTo {
		return
	}
	p.flushes.Lock()
	defer p.flushes.Unlock()
	if p.flushed.Load() < upTo {
		s.flushLocked()
	}
}

// FlushIfMany flushes pending commits if the commit has made them many, unless another goroutine is flushing. A caller
// of Commit calls it once it holds no lock. In a group another goroutine flushes.
func (s *Store) FlushIfMany(r Receipt) {
	if r.full && s.Group != nil {
		select {
		case s.pending.many <- struct{}{}:
		default:
		}
		return
	}
	if p := &s.pending; r.full && p.flushes.TryLock() {
		defer p.flushes.Unlock()
		s.flushLocked()
	}
}

// flushLocked flushes what is pending. The caller holds flushes.
func (s *Store) flushLocked() {
	p := &s.pending
	p.mu.Lock()
	p.filling, p.flushing = p.flushing, p.filling
	upTo := p.added.Load()
	p.mu.Unlock()
	s.pauseAt("flush: taken")
	if err := s.write(&p.flushing); err != nil {
		_ = s.Fail(text.After(err, "kv: commit"))
	}
	s.pauseAt("flush: applied")
	p.mu.Lock()
	p.recorded.Add(-int64(p.flushing.records))
	p.flushing.reset()
	p.mu.Unlock()
	p.flushed.Store(upTo)
}

func (s *Store) write(from *index) error {
	batch := s.disk.NewBatch()
	defer func() { _ = batch.Close() }() // releases memory, cannot fail
	from.build(batch, &s.pending.scratch)
	if err := RefuseSize(batch.Len()+PerEntry*int(batch.Count()), MaxCommit(s.opts.MemTableSize)); err != nil {
		return err // impossible: pend keeps to the limit
	}
	if _, err := s.apply(batch, Now); err != nil {
		return err
	}
	s.stats.flushedBytes.Add(uint64(batch.Len()))
	return nil
}

// must panics with the error of a change to a batch in memory, which cannot fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// flushLoop flushes every group that has waited for FlushAfter. Most are flushed before, by a commit or a reader.
func (s *Store) flushLoop() {
	defer s.loops.Done()
	for {
		select {
		case <-s.stop:
			return
		case <-s.pending.begun:
		}
		timer := time.NewTimer(cmp.Or(s.opts.FlushAfter, defaultFlushAfter))
		select {
		case <-s.stop:
			timer.Stop()
			return // Close flushes the rest
		case <-s.pending.many:
			timer.Stop()
		case <-timer.C:
		}
		s.work(s.Flush)
	}
}
