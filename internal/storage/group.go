package storage

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/text"
)

// A store of a group. The members of a group have one log, Options.Log, with the same messages in the same order.
// Consensus, which is not in this package, decides which messages there are. One member leads: it takes commits, and
// proposes them. Each member applies the log with one goroutine, the apply loop: Group.Apply puts a message into
// Pebble, in one batch with the record that says so (format.Applied). Commits reach the Pebble of a member in no other
// way. So Pebble has only committed changes, and a rollback need only forget what is in memory.
//
// A commit that can be pending (pending.go) is visible in the leader's memory at once, and in an index; in a group at
// every level. All pending commits become one message. While a message is in flight, the next gathers. The apply loop
// empties the index of the message in flight once Pebble has the message. Every other commit is a message of its own,
// behind the commits that were pending before. Its caller waits until the apply loop has applied it; memory gets it at
// that moment, too.
//
// In a group, "durable" means applied here, and so in the log of a majority: Store.durable is a number up to which all commits
// are applied, or forgotten. Pebble's log is not synced by commits. SyncStore does that.
//
// The fence. Group.epoch goes up when memory forgets uncommitted changes. A writer takes the epoch once it has its
// locks, and a lookup that answers from memory takes it before its first read. A commit of another epoch is neither
// made pending nor proposed, and an answer of another epoch is not given. Epochs are compared under the locks that a
// change of the role takes (proposing and pending.mu), or after the last read.
type Group struct {
	store *Store
	log   Log

	epoch   atomic.Uint64 // odd while memory is made to forget
	leading atomic.Bool   // written with proposing and pending.mu held

	proposing sync.Mutex    // held while a message goes to the log, and while the role changes
	term      uint64        // that the store leads in, or led in, until it forgets; 0 for none; guarded by proposing
	ended     chan struct{} // closed when the store does not lead any more; written with proposing and pending.mu held

	flight  *flight // of pending commits, the last one; guarded by pending.mu
	applied atomic.Pointer[format.Applied]
}

// Log orders the messages of a group of stores.
type Log interface {
	// Propose asks for a message to be put into the log, behind all messages proposed before. It must not keep or
	// change the record, or wait for the apply loop. The ticket gets one value: nil when Group.Apply has returned for
	// the message, ErrNotLeader if the message is not in the log and never will be, and ErrOutcomeUnknown if that is
	// not known. The channel must have room for it. If Propose refuses a message, it must refuse all later ones of the
	// same term: so the log never has a commit without the commits before it. The store then takes no commits until it
	// is told Follow, and Lead. After any other error the store has failed.
	Propose(p Proposal) (ticket <-chan error)
}

// Proposal is a message for the log of a group.
type Proposal struct {
	Record []byte // the bytes of a Pebble batch
	Whole  bool   // lookups see all of it or nothing
	Group  bool   // it has commits that the leader's memory has already
	Term   uint64 // which Lead was given. The message may get into the log in this term only, and it must be the term of its entry
}

// errNotPending is returned by Pend for a commit that cannot be pending.
var errNotPending = errors.New("kv: cannot be pending")

// flight is a message that was proposed.
type flight struct {
	epoch, upTo, number uint64          // upTo counts the pending commits that it has; all others up to number were applied before
	done                chan struct{}   // of pending commits: closed when Pebble has them
	ticket              <-chan error    // gets one value, for one of those that wait
	ended               <-chan struct{} // Group.ended
}

// Leads returns the epoch that a writer's commit must name, or ErrNotLeader.
func (g *Group) Leads() (epoch uint64, err error) {
	epoch = g.epoch.Load()
	if epoch&1 != 0 || !g.leading.Load() {
		return 0, ErrNotLeader
	}
	return epoch, nil
}

// Epoch returns the epoch for Settle. It is odd while memory forgets.
func (g *Group) Epoch() uint64 { return g.epoch.Load() }

// accepts reports whether a commit of an epoch is still accepted. The caller holds proposing or pending.mu.
func (g *Group) accepts(epoch uint64) bool { return g.leading.Load() && g.epoch.Load() == epoch }

// Pend makes a batch pending, if it can be: see CanPend. It returns ErrNotLeader, or an error if there is no room for
// the batch.
func (g *Group) Pend(b *Batch, epoch uint64) (Receipt, error) {
	p := &g.store.pending
	p.mu.Lock()
	defer p.mu.Unlock()
	if !g.accepts(epoch) {
		return Receipt{}, ErrNotLeader
	}
	r, pending := g.store.pendLocked(b)
	if !pending {
		return r, errNotPending
	}
	return r, nil
}

// CanPend reports whether a batch can be pending if there is room for it.
func (g *Group) CanPend(b *Batch) bool { return !b.now && g.store.opts.FlushAfter >= 0 }

// HadNoRoom reports whether Pend found no room.
func HadNoRoom(err error) bool { return err == errNotPending }

// Propose puts a batch into the log, behind everything that is pending, and returns when the apply loop has applied it. Whole means
// that lookups see all of it or nothing. The caller must not hold a lock that the apply loop takes. The errors are ErrNotLeader,
// ErrOutcomeUnknown and ErrFailed.
func (g *Group) Propose(b *Batch, whole bool, epoch uint64) error {
	if _, err := g.send(g.store.pending.added.Load()); err != nil {
		return cmpFailed(err, ErrNotLeader)
	}
	batch := g.store.disk.NewBatch()
	defer func() { _ = batch.Close() }() // releases memory, cannot fail
	b.addTo(batch)
	f := &flight{epoch: epoch}
	if err := g.propose(f, Proposal{Record: batch.Repr(), Whole: whole}); err != nil {
		return err
	}
	return g.await(f)
}

// cmpFailed returns err if it is ErrFailed, else other.
func cmpFailed(err, other error) error {
	if errors.Is(err, ErrFailed) {
		return err
	}
	return other
}

// propose gives a message to the log, in the order in which they are proposed.
func (g *Group) propose(f *flight, p Proposal) error {
	g.proposing.Lock()
	defer g.proposing.Unlock()
	if !g.accepts(f.epoch) {
		return ErrNotLeader
	}
	p.Term, f.ended = g.term, g.ended
	f.ticket = g.log.Propose(p)
	return nil
}

// flush returns when everything that was pending before the call is applied, or forgotten.
func (g *Group) flush() error {
	f, err := g.send(g.store.pending.added.Load())
	if f == nil || err != nil {
		return err
	}
	return g.await(f)
}

// send puts the pending commits up to the given one into flight, and returns the flight of the last of them; nil if
// they are applied or forgotten. It waits for one flight before it begins the next.
func (g *Group) send(upTo uint64) (*flight, error) {
	g.store.pauseAt("group: flush")
	p := &g.store.pending
	if p.flushed.Load() >= upTo {
		return nil, nil
	}
	p.flushes.Lock()
	defer p.flushes.Unlock()
	for {
		p.mu.Lock()
		f, done := g.flight, p.flushed.Load() >= upTo
		p.mu.Unlock()
		if done {
			return nil, nil
		}
		if f == nil {
			var err error
			if f, err = g.takeOff(); err != nil {
				return nil, err
			}
		}
		if f.upTo >= upTo {
			return f, nil
		}
		if err := g.await(f); err != nil {
			return nil, err
		}
	}
}

// takeOff proposes all that is pending. No flight is under way, and the caller holds flushes.
func (g *Group) takeOff() (*flight, error) {
	s, p := g.store, &g.store.pending
	p.mu.Lock()
	p.filling, p.flushing = p.flushing, p.filling
	f := &flight{epoch: g.epoch.Load(), upTo: p.added.Load(), number: s.last.Load(), done: make(chan struct{}), ended: g.ended}
	g.flight = f
	p.mu.Unlock()
	s.pauseAt("flush: taken")
	batch := s.disk.NewBatch()
	defer func() { _ = batch.Close() }() // releases memory, cannot fail
	p.flushing.build(batch, &p.scratch)
	if err := RefuseSize(batch.Len()+PerEntry*int(batch.Count()), MaxCommit(s.opts.MemTableSize)); err != nil {
		return nil, s.Fail(text.After(err, "kv: commit")) // impossible: pend keeps to the limit
	}
	return f, g.propose(f, Proposal{Record: batch.Repr(), Group: true})
}

// await returns when a message is applied, with ErrOutcomeUnknown if the store ceases to lead before.
func (g *Group) await(f *flight) error {
	g.store.pauseAt("group: waiting")
	select {
	case <-f.done:
		return nil
	case err := <-f.ticket:
		return g.answered(f, err)
	case <-f.ended:
	case <-g.store.ending.Done():
	}
	select { // it may have been applied just before
	case <-f.done:
		return nil
	case err := <-f.ticket:
		return g.answered(f, err)
	default:
	}
	if err := g.store.failure(); err != nil {
		return err
	}
	return ErrOutcomeUnknown
}

// answered takes the log's answer about a message.
func (g *Group) answered(f *flight, err error) error {
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, ErrNotLeader) && !errors.Is(err, ErrOutcomeUnknown):
		return g.store.Fail(text.After(err, "kv: log of the group"))
	}
	g.resign(f.epoch)
	return err
}

// resign ends the leadership of an epoch. Nothing is proposed or made pending any more, and nobody waits.
func (g *Group) resign(epoch uint64) {
	p := &g.store.pending
	g.proposing.Lock()
	defer g.proposing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if g.accepts(epoch) {
		g.leading.Store(false)
		close(g.ended)
	}
}

// Settle returns when everything up to a number is applied, for an answer that was read in an epoch. It returns
// ErrNotLeader if the rest is not in the log, ErrOutcomeUnknown if memory has meanwhile forgotten changes that the
// answer may rest on, or ErrFailed.
func (g *Group) Settle(number, epoch uint64) (err error) {
	s := g.store
	if s.durable.Load() < number && !s.pending.none() {
		if err = s.shareSync(); s.durable.Load() >= number {
			err = nil // what failed came later
		}
	}
	if g.epoch.Load() != epoch || epoch&1 != 0 { // after the last look at what is pending
		return cmpFailed(err, ErrOutcomeUnknown)
	}
	if err != nil {
		return err
	}
	return s.failure()
}

// SettleAll is Settle for an answer that may rest on anything.
func (g *Group) SettleAll(epoch uint64) error { return g.Settle(g.store.last.Load(), epoch) }

// round is syncLog for a store of a group.
func (g *Group) round() error {
	number := g.store.last.Load() // before the flush, see above
	if err := g.flush(); err != nil {
		return err
	}
	Raise(&g.store.durable, number)
	return nil
}

// Lead makes the store take commits. The apply loop calls it once it has applied everything before the term.
func (g *Group) Lead(term uint64) {
	p := &g.store.pending
	g.proposing.Lock()
	defer g.proposing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	g.term, g.ended = term, make(chan struct{})
	g.leading.Store(true)
}

// Resign ends the leadership, and wakes all waiting goroutines. It reports MayForget.
func (g *Group) Resign() bool {
	g.resign(g.epoch.Load())
	return g.MayForget()
}

// MayForget reports whether there may be something to forget: the store leads, or led and has not forgotten.
func (g *Group) MayForget() bool {
	g.proposing.Lock()
	defer g.proposing.Unlock()
	return g.term != 0
}

// Forget drops pending commits, and calls memory, which drops everything else that may be uncommitted. Meanwhile no
// lookup may put anything into memory, and no commit may be under way. The caller has called Resign before.
func (g *Group) Forget(memory func() error) error {
	p := &g.store.pending
	p.flushes.Lock() // its holder waits for nothing any more
	defer p.flushes.Unlock()
	g.epoch.Add(1)
	defer g.epoch.Add(1)
	g.proposing.Lock()
	g.term = 0
	g.proposing.Unlock()
	p.mu.Lock()
	p.filling.reset()
	p.flushing.reset()
	p.recorded.Store(0)
	p.flushed.Store(p.added.Load())
	g.flight = nil
	g.store.last.Add(1) // what was remembered about a block as of the last number is not right any more
	p.mu.Unlock()
	return memory()
}
