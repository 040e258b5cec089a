// Package replica makes a store a member of a group: equal stores on several machines, which survive the loss of a minority of
// them without losing an acknowledged write.
//
// # Terminology
//
//   - group: members that have one log. Consensus is Raft, by etcd's library (package member).
//   - leader: the member that takes writes. The others answer them with kv.ErrNotLeader, and apply what the leader commits.
//   - learner: a member that does not vote yet. A new one is a learner until it has everything.
//   - snapshot: the whole content of a store, as of one entry of the log, for a member that is too far behind for the
//     log.
//
// # How it works
//
// A member has two databases in its directory: the store, and the log in the directory "raft" below it (package raftlog). A commit is
// put into the log, and every member applies the log in its order. The log is synced; the store need not be, since it can be made
// up to date from the log. Keep syncs the store now and then, so that the log can be cut.
//
// Keys expire by the group's time, which the clocks of a majority have reached (clock.go). Members ask each other for
// their clocks, for how fast their disks are (pace.go), and for the format levels that they know (level.go).
//
// Three goroutines run a member (run.go), which has no goroutine of its own. The store calls Node.Propose, and is called by machine.
//
// # What is promised
//
// A write at level Always that was acknowledged is on stable storage in the log of a majority, and is never lost while
// a majority of the members keeps its disks. A write at a lower level is visible in the leader's memory at once, and a
// failover may lose it: the writes of about 50 ms, and the message that is under way. A write that ends with
// kv.ErrOutcomeUnknown may have been made, or may be made yet.
package replica
