// Package raftlog is raft's log of one member of a group: the entries, the hard state, and a few marks, in a Pebble of
// their own beside the store's. Log has what raft.Storage asks of a log; the two other methods of that interface are about
// the store.
//
// # Terminology
//
//   - Entry: one message of the group, with an index and the term of the leader that proposed it.
//   - Hard state: the term, the vote and the commit index, which a member must never forget.
//   - Base: the last entry that was truncated, or that a snapshot stands for. The log begins behind it. Its term stays known.
//   - Mark: a small named value, such as the member's id.
//   - State record: a record that says where the log begins and ends, with the hard state.
//   - Batch: all changes of one call. It is there as a whole after a crash, or not at all.
//
// # How it works
//
// Every batch writes a state record, and the newest one alone says which entries count. Entries that were truncated are
// not deleted, for it says that the log begins behind them. An excise gives them back to the disk later: it drops whole
// tables and rewrites nothing (reclaim.go). Entries that are replaced are deleted by the batch that has the new ones.
// In memory are the state record, the terms as runs of equal ones, the marks and the newest entries.
//
// # What is checked
//
// Each entry has a checksum that covers its index too, and the checksum of the entry before it, so the entries are a chain
// from the base to the last, and both ends of the chain are in the state record. Open reads all entries: a gap,
// an entry of another history, a term that goes down, and a record that was changed are errors that say which and where. The
// state record also has a checksum of the marks, and the number of its batch. The file SYNCED has the number of the last batch
// that was synced. So a log that has lost its end is an error too, and not a shorter log (synced.go).
//
// # Errors
//
// Any error freezes the log: a write or a sync that failed, a file that cannot be read, damage, and a call that breaks a
// rule of raft, such as a second vote in a term. From then on every call answers the same error, nothing is written any more
// and no sync is tried again (package freeze). raft.ErrCompacted and raft.ErrUnavailable are answers, not errors of the log.
//
// # What is promised
//
// When a call that syncs has returned nil, its batch and all batches before it survive a crash of the machine. Of later
// batches a crash leaves some first ones. What is assumed of the disk: a sync keeps what it promised, and a sector of 512
// bytes is written as a whole or not at all.
//
// Calls that change the log wait for each other. Calls that read it wait for no sync, and may be made by any goroutine at any
// time before Close.
package raftlog
