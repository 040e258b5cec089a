package replica

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sievekv/sievekv/internal/entry"
	"github.com/sievekv/sievekv/internal/member"
	"github.com/sievekv/sievekv/kv"
)

// Members compare their content. Now and then the leader puts a message into the log that names a part of the keys.
// When a member applies it, it takes a snapshot as of exactly that entry, digests that part in the background, and
// tells the others the digest. If a majority of the voters has the same digest, and a member another, that member ends,
// and does not start again: something has changed the content of its disk, and its own checksums did not show it.
// Without a majority there is only an alarm.
//
// Only a leader whose members all know digests proposes such messages: a program that does not know them would end.

// digest is the digest of a member's part, as of an entry.
type digest struct {
	index uint64
	part  uint8
	sum   [sha256.Size]byte
}

// A digest as it is told: version 1, the index in 8 bytes, little-endian, the part, the sum. Nothing asks whether the other knows
// digests.
const (
	digestVersion = 1
	digestLen     = 1 + 8 + 1 + sha256.Size
)

func (d digest) encode() []byte {
	b := binary.LittleEndian.AppendUint64([]byte{digestVersion}, d.index)
	return append(append(b, d.part), d.sum[:]...)
}

func decodeDigest(b []byte) (d digest, err error) {
	if len(b) != digestLen || b[0] != digestVersion {
		return d, fmt.Errorf("digest of %d bytes, which begins with %.1x: want %d bytes of version %d", len(b), b, digestLen, digestVersion)
	}
	d.index, d.part = binary.LittleEndian.Uint64(b[1:]), b[9]
	copy(d.sum[:], b[10:])
	return d, nil
}

// comparing are the last comparisons.
type comparing struct {
	mu     sync.Mutex
	next   uint8    // the part after the last message's; guarded by mu
	busy   bool     // a digest is being made; guarded by mu
	rounds []*round // by index; guarded by mu
}

// round are the digests of one message.
type round struct {
	index uint64
	part  uint8
	sums  map[uint64][sha256.Size]byte // by the member
	told  bool                         // that there is no majority
}

const (
	keptRounds = 8
	tellTime   = 10 * time.Second
)

// keepComparing makes the members compare one part after the other, while this one leads.
func (n *Node) keepComparing() {
	tick := time.NewTicker(n.opts.CompareEvery)
	defer tick.Stop()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-tick.C:
		}
		if s := n.Status(); s.Leads && len(s.Members) > 1 && n.allKnow(s, entry.LevelCompare) {
			n.compare.mu.Lock()
			part := n.compare.next
			n.compare.mu.Unlock()
			n.proposeCompare(part)
		}
	}
}

func (n *Node) tell(to uint64, body []byte) error {
	ctx, cancel := context.WithTimeout(n.ctx, tellTime)
	defer cancel()
	return n.wire.Tell(ctx, to, body)
}

// proposeCompare puts a message into the log that makes the members compare a part. It may get lost.
func (n *Node) proposeCompare(part uint8) {
	p := member.Proposal{
		Leadership: member.Leadership{Term: n.machine.leads.Load(), Number: n.machine.leadership.Load()},
		Flags:      entry.Control, Record: entry.Compare(part), Done: func(error) {},
	}
	n.run.do(func() { n.m.Propose(p) })
}

// digest begins to digest a part of this member's present content. The applier calls it. While one digest is being
// made, it skips others.
func (n *Node) digest(at entry.Applied, part uint8) {
	c := &n.compare
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = part + 1
	for _, r := range c.rounds { // nobody else will tell
		n.judge(r, true)
	}
	if c.busy {
		return
	}
	i, err := n.DB.Store().Image()
	if err != nil {
		return // the store is ending
	}
	c.busy = true
	n.others.Go(func() {
		sum, err := i.Digest(n.ctx, part)
		i.Close()
		c.mu.Lock()
		c.busy = false
		c.mu.Unlock()
		if err == nil {
			n.tellAll(digest{at.Index, part, sum})
		} else if errors.Is(err, kv.ErrCorrupt) {
			n.raise(fmt.Errorf("part %d of what this member has cannot be compared: %w", part, err))
		}
	})
}

// tellAll notes a digest of this member, and tells it to the others. A member that cannot be reached misses it.
func (n *Node) tellAll(d digest) {
	n.note(n.id, d)
	for _, m := range n.Status().Members {
		if m.ID == n.id {
			continue
		}
		if err := n.tell(m.ID, d.encode()); err != nil && n.ctx.Err() == nil {
			n.logger.Debug("sievekv: a digest was not told", "dir", n.dir, "to", hexID(m.ID), "error", err)
		}
	}
}

// heard takes the digest of another member.
func (n *Node) heard(from uint64, body []byte) error {
	if len(body) == 0 {
		return nil
	}
	d, err := decodeDigest(body)
	if err == nil {
		n.note(from, d)
	}
	return err
}

// note notes the digest of a member.
func (n *Node) note(from uint64, d digest) {
	c := &n.compare
	c.mu.Lock()
	defer c.mu.Unlock()
	i, there := slices.BinarySearchFunc(c.rounds, d.index, func(r *round, index uint64) int { return cmp.Compare(r.index, index) })
	if !there {
		c.rounds = slices.Insert(c.rounds, i, &round{index: d.index, part: d.part, sums: make(map[uint64][sha256.Size]byte)})
	}
	if r := c.rounds[i]; r.part == d.part {
		r.sums[from] = d.sum
		n.judge(r, false)
	}
	if len(c.rounds) > keptRounds {
		c.rounds = slices.Delete(c.rounds, 0, 1)
	}
}

// judge ends this member if a majority of the voters has another digest. Last means that no more will be told.
func (n *Node) judge(r *round, last bool) {
	voters := n.machine.members.Load().state.GetVoters()
	majority, has := r.majority(voters)
	own, made := r.sums[n.id]
	switch {
	case has && made && own != majority:
		n.differs(r)
	case !has && !r.told && r.differ(voters) && (last || r.all(voters)):
		r.told = true
		n.raise(fmt.Errorf("members differ at index %d, in part %d of what they have, and no majority has the same: nobody can tell which is right", r.index, r.part))
	}
}

// majority returns the digest that a majority of the voters has.
func (r *round) majority(voters []uint64) (sum [sha256.Size]byte, has bool) {
	counts := make(map[[sha256.Size]byte]int)
	for _, id := range voters {
		if sum, told := r.sums[id]; told {
			if counts[sum]++; counts[sum] > len(voters)/2 {
				return sum, true
			}
		}
	}
	return sum, false
}

// differ reports whether two voters have told different digests, and all whether all have told one.
func (r *round) differ(voters []uint64) bool {
	sums := make(map[[sha256.Size]byte]bool)
	for _, id := range voters {
		if sum, told := r.sums[id]; told {
			sums[sum] = true
		}
	}
	return len(sums) > 1
}

func (r *round) all(voters []uint64) bool {
	return !slices.ContainsFunc(voters, func(id uint64) bool { _, told := r.sums[id]; return !told })
}

// differs ends this member, for good: also when it is started again.
func (n *Node) differs(r *round) {
	why := fmt.Sprintf("at index %d, part %d of what member %x has differs from what a majority has: its disk, or something else, has changed it", r.index, r.part, n.id)
	if err := n.log.SetMark(markDiffers, []byte(why)); err != nil {
		n.logger.Error("sievekv: the member cannot note that it must not be started again", "dir", n.dir, "error", err)
	}
	n.m.Fail(refusedf("%s", why))
	n.run.do(func() {}) // sees that it has failed
}

// checkDiffers refuses a member that has ended by differs.
func (n *Node) checkDiffers() error {
	why, err := n.log.Mark(markDiffers)
	if err == nil && why != nil {
		err = refusedf("%s", why)
	}
	return err
}

// raise makes an error the member's alarm.
func (n *Node) raise(err error) {
	n.logger.Error("sievekv: the members of the group may differ", "dir", n.dir, "member", hexID(n.id), "error", err)
	n.run.do(func() { n.seen.alarm = err })
}
