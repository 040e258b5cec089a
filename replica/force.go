package replica

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/internal/member"
	"github.com/sievekv/sievekv/internal/raftlog"
)

// A group that has lost its majority for good cannot go on by itself: nobody can tell whether the lost members had
// acknowledged writes that the remaining ones lack. An operator can decide that one of the remaining histories goes on.
// Inspect tells what there is, and Force makes a new group from it, with an id of its own, so that members of the old
// group, which may turn up again with another history, never talk to it.

// Remains describes the directory of a member. After an error (Err) the other fields are as far as they could be found
// out.
type Remains struct {
	Dir           string
	Group         [16]byte
	Info          Info
	Applied       uint64 // index up to which the store has applied the log
	AppliedTerm   uint64 // the term of that entry
	Last          uint64 // index of the log's last entry
	LastTerm      uint64
	Committed     uint64 // index up to which the member knows that the log is committed; more may be
	Err           error  // why the directory cannot go on
	InUse         bool   // Err says that the member runs
	terms         []run
	begins, whole uint64 // the first index whose term is known, and up to where it agrees with the longest history
}

// run are entries of one term.
type run struct{ from, term uint64 }

// Inspect looks at the directories of members, which must not run. The caller has to check that they belong to the same
// group.
func Inspect(dirs []string, o Options) []*Remains {
	found := make([]*Remains, 0, len(dirs))
	for _, dir := range dirs {
		r := &Remains{Dir: dir}
		r.Err = r.read(o)
		r.InUse = errors.Is(r.Err, raftlog.ErrLocked)
		found = append(found, r)
	}
	if longest := Longest(found); longest != nil {
		for _, r := range found {
			r.whole = r.agrees(longest)
		}
	}
	return found
}

// Longest returns the longest valid history, as votes of a group compare histories: the one with the higher term at its
// end, and among equal ones the longer log. It is nil if none is valid.
func Longest(found []*Remains) (longest *Remains) {
	for _, r := range found {
		if r.Err == nil && (longest == nil || longest.Less(r)) {
			longest = r
		}
	}
	return longest
}

// Less reports whether another history is longer.
func (r *Remains) Less(other *Remains) bool {
	return cmp.Or(cmp.Compare(r.LastTerm, other.LastTerm), cmp.Compare(r.Last, other.Last)) < 0
}

// Lacks returns how many entries of the longest history the member does not have, and how many it has that the longest
// history lacks: entries of a leader that had no majority.
func (r *Remains) Lacks(longest *Remains) (lacks, other uint64) {
	return longest.Last - r.whole, r.Last - r.whole
}

// read reads the state of the log and the store.
func (r *Remains) read(o Options) error {
	if w, there, err := readNote(o.fileSystem(), r.Dir); err == nil && there {
		r.Group, r.Info.ID = w.group, w.id
	}
	n, err := o.open(r.Dir, true)
	if errors.Is(err, raftlog.ErrNotExist) {
		return o.noLog(r.Dir)
	}
	if err != nil {
		return err
	}
	err = n.readMade()
	if err == nil {
		r.Group = n.group
		r.Info, err = n.noted()
	}
	if err == nil {
		err = r.readLog(n.log)
	}
	if err == nil {
		err = r.readStore(n)
	}
	return errors.Join(err, n.closeFiles())
}

func (r *Remains) readLog(log *raftlog.Log) (err error) {
	if r.Last, err = log.LastIndex(); err != nil {
		return err
	}
	first, err := log.FirstIndex()
	if err != nil {
		return err
	}
	r.begins, r.Committed = first-1, log.HardState().GetCommit()
	for i := r.begins; i <= r.Last; i++ {
		if r.LastTerm, err = log.Term(i); err != nil {
			return err
		}
		if len(r.terms) == 0 || r.terms[len(r.terms)-1].term != r.LastTerm {
			r.terms = append(r.terms, run{i, r.LastTerm})
		}
	}
	return nil
}

// readStore reads what the store has applied, without changing it.
func (r *Remains) readStore(n *Node) error {
	o := *n.opts.Store
	o.ReadOnly = true
	db, err := sievekv.Open(r.Dir, &o)
	if err != nil {
		return err
	}
	x, err := newMachine(db.Store())
	var state member.State
	if err == nil {
		state, err = x.state()
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	r.Applied, r.AppliedTerm = state.Index, state.Term
	r.Committed = max(r.Committed, r.Applied)
	if i, is := x.members.Load().infos[n.id]; is {
		r.Info = i
	}
	switch {
	case r.Applied == 0:
		return fmt.Errorf("%s: member %x has nothing of its group yet, or no more", r.Dir, n.id)
	case n.log.Installed() != 0:
		return nil // Start finishes that first
	}
	return member.Check(n.log, state)
}

// term returns the term of an entry, 0 if it is not known.
func (r *Remains) term(index uint64) (term uint64) {
	if index < r.begins || index > r.Last {
		return 0
	}
	i, at := slices.BinarySearchFunc(r.terms, index, func(x run, index uint64) int { return cmp.Compare(x.from, index) })
	if !at {
		i--
	}
	return r.terms[i].term
}

// agrees returns the index up to which two members have the same entries: two logs that both have an entry of one index
// and term have the same entries before it. Entries that both have cut were committed.
func (r *Remains) agrees(other *Remains) uint64 {
	index := min(r.Last, other.Last)
	for floor := max(r.begins, other.begins); index > floor && r.term(index) != other.term(index); {
		index--
	}
	return index
}

// Force makes the store of a member the only member of a new group, which goes on with everything that is in the member's log, also
// what was never committed. The member keeps its name and its addresses. Open goes on with it. Members of the old group cannot talk
// to the new one: others join it by AddMember and Join, with empty directories.
//
// If Force is interrupted, it can be repeated, until the member has left its old group: then Init with adopt does the
// rest.
func Force(dir string, o Options) (group [16]byte, err error) {
	r := Inspect([]string{dir}, o)[0]
	if r.Err != nil {
		return group, r.Err
	}
	if err := Leave(dir, o); err != nil {
		return group, err
	}
	o.Name, o.Peer, o.Client, o.Listener = r.Info.Name, r.Info.Peer, r.Info.Client, nil
	n, err := o.newGroup(dir, true, false)
	if err != nil {
		return group, fmt.Errorf("%s has left its group, and is a store that is alone; init with adopt makes a group of it: %w", dir, err)
	}
	return n.group, n.closeFiles()
}
