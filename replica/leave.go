package replica

import (
	"errors"
	"io/fs"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/member"
	"github.com/sievekv/sievekv/internal/raftlog"
)

// Leave turns a member into a store of its own. The store has everything in the member's log: all acknowledged writes,
// and perhaps writes whose outcome is not known. The group goes on without the member; remove the member from it.
// Without a member in the directory the error is ErrNoMember. After an error Leave can be called again.
func Leave(dir string, o Options) error {
	n, err := o.open(dir, true)
	if errors.Is(err, raftlog.ErrNotExist) {
		return o.noLog(dir)
	}
	if err != nil {
		return err
	}
	n.opts.Store.MustExist = true
	err = n.readMarks()
	if err == nil {
		err = n.catchUp()
	}
	if err = errors.Join(err, n.closeFiles()); err != nil {
		return err
	}
	alone := *n.opts.Store
	alone.LeaveGroup = true
	db, err := sievekv.Open(dir, &alone)
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		return err
	}
	if err := n.fs.Remove(n.fs.PathJoin(dir, noteName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return n.fs.RemoveAll(n.fs.PathJoin(dir, logDir)) // last: until then it can be done again
}

// catchUp applies the whole log to the store, and syncs it.
func (n *Node) catchUp() error {
	if err := n.openStore(format.StoreMeta{}); err != nil {
		return err
	}
	state, err := n.machine.state()
	if err != nil || state.Index == 0 { // it never had anything, or has left already
		return err
	}
	n.m, err = member.Start(member.Config{ID: n.id, Log: n.log, Machine: n.machine, State: state, Level: n.opts.knows(), Now: n.DB.Store().Now, Logger: raftLogger{n.logger}})
	if err != nil {
		return err
	}
	last, err := n.log.LastIndex()
	if err != nil {
		return err
	}
	for at := state.Index + 1; at <= last; {
		entries, err := n.log.Entries(at, last+1, 1<<20)
		if err != nil {
			return err
		}
		if err := n.m.Apply(&member.Task{Message: &pb.Message{Entries: entries}}); err != nil {
			return err
		}
		at += uint64(len(entries))
	}
	_, err = n.DB.Store().SyncStore()
	return err
}
