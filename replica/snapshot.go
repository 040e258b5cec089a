package replica

import (
	"context"
	"errors"
	"fmt"
	"io"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/member"
	"github.com/sievekv/sievekv/internal/storage/image"
)

// sendSnapshot sends a snapshot of the store as it is now, which is newer than the one that raft asks for, or the same.
func (n *Node) sendSnapshot(msg *pb.Message) {
	status := raft.SnapshotFinish
	if err := n.trySnapshot(msg); err != nil {
		status = raft.SnapshotFailure
		if !errors.Is(err, context.Canceled) {
			n.logger.Warn("sievekv: a snapshot was not sent", "dir", n.dir, "to", hexID(msg.GetTo()), "error", err)
		}
	}
	n.run.do(func() { n.m.ReportSnapshot(msg.GetTo(), status) })
}

func (n *Node) trySnapshot(msg *pb.Message) error {
	i, err := n.DB.Store().Image()
	if err != nil {
		return err
	}
	defer i.Close()
	m, err := decodeMembers(i.Members)
	if err != nil {
		return err
	}
	n.logger.Info("sievekv: a snapshot is sent", "dir", n.dir, "to", hexID(msg.GetTo()), "index", i.Applied.Index)
	newer := &pb.Message{
		Type: msg.Type, To: msg.To, From: msg.From, Term: msg.Term,
		Snapshot: &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(i.Applied.Index), Term: new(i.Applied.Term), ConfState: m.state}},
	}
	n.run.do(func() { n.m.SendsSnapshot(newer) })
	return n.wire.SendSnapshot(n.ctx, msg.GetTo(), newer, func(w io.Writer) error { return i.Write(n.ctx, w) })
}

// receive receives a snapshot, and gives raft its message when the whole snapshot has come.
func (n *Node) receive(ctx context.Context, from uint64, msg *pb.Message, r io.Reader) error {
	meta := msg.GetSnapshot().GetMetadata()
	if msg.GetType() != pb.MsgSnap || meta.GetIndex() == 0 || msg.GetFrom() != from || msg.GetTo() != n.id {
		return fmt.Errorf("message of type %v from %x to %x with a snapshot of index %d", msg.GetType(), msg.GetFrom(), msg.GetTo(), meta.GetIndex())
	}
	dir := n.imageDir(n.images.Add(1))
	remove := func() { _ = n.fs.RemoveAll(dir) } // else the next start does
	if err := n.fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	t, err := n.DB.Store().ReceiveImage(ctx, dir, r)
	if err == nil {
		err = checkImage(t, meta)
	}
	if err != nil {
		remove()
		return err
	}
	n.logger.Info("sievekv: a snapshot was received", "dir", n.dir, "from", hexID(from), "index", meta.GetIndex(), "keys", t.Keys)
	n.machine.received.add(&staged{at{meta.GetIndex(), meta.GetTerm()}, t, remove})
	n.run.do(func() { n.m.Step(msg) })
	return nil
}

// checkImage returns an error if an image is not as of the entry in its message. The store checks that it belongs to
// the group.
func checkImage(t image.Tables, meta *pb.SnapshotMetadata) error {
	applied, err := format.DecodeApplied(t.Meta[string(format.AppendMetaKey(nil, format.MetaApplied))])
	if err == nil && (applied.Index != meta.GetIndex() || applied.Term != meta.GetTerm()) {
		err = fmt.Errorf("the snapshot is of index %d in term %d, its message says %d in %d", applied.Index, applied.Term, meta.GetIndex(), meta.GetTerm())
	}
	return err
}

// promote makes a learner that has everything committed a moment ago a voter. It makes one change at a time.
func (n *Node) promote(commit uint64) {
	n.run.do(func() {
		learners := n.m.CaughtUp(commit)
		if len(learners) == 0 {
			return
		}
		id := learners[0]
		n.logger.Info("sievekv: a learner has everything, and becomes a voter", "dir", n.dir, "member", hexID(id))
		err := n.m.Change(&pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{{Type: pb.ConfChangeAddNode.Enum(), NodeId: new(id)}}})
		if err != nil && !errors.Is(err, member.ErrNotLeader) {
			n.logger.Warn("sievekv: a learner does not become a voter", "dir", n.dir, "member", hexID(id), "error", err)
		}
	})
}
