// Package kv is a durable key-value store for strings and for values made of blocks: the base
// that filters and other types are built on as modules. It keeps its data in
// Pebble and hides it: everything above sees keys, blocks and typed objects.
//
// # Terminology
//
//   - key: what a user names a value by, any bytes up to MaxKeyLen.
//   - object: what a key maps to, known by an id that is never used twice.
//     RENAME moves an object to another key.
//   - layer: a part of an object, an array of equal blocks; a growing filter
//     adds layers.
//   - line: 512 bits; block: 1 to 128 lines, the unit stored and cached.
//   - operand: a change of a block, a few bytes, which Pebble merges into it.
//   - commit: what one Writer applied, one Pebble batch or, if small and not to be waited
//     for, part of one.
//   - resident: in memory, in the block table of its layer.
//   - module: types and more that a program opens the store with; package module has the rest.
//   - number: of a commit, in the order in which commits were applied, or became pending; the
//     durable watermark is one up to which all are on stable storage.
//
// # How it works
//
// A write takes the write lock of its key, reads what it needs, stages its changes in a Writer and commits them as
// one batch. The batch is applied without waiting for the disk, it is applied to the resident blocks from the batch's
// bytes, the locks are let go, and only then does the caller wait for the disk, together with everyone else who does.
// Small commits that do not wait for the disk are pending at first, and go to Pebble many at a time; package storage
// says how that shows nowhere. commit.go has the crash argument.
//
// A lookup of a resident block takes no lock: a few atomic loads. A block that is not resident is read from Pebble
// and put into the block table, unless a commit to it may have been missed; load.go says how that is known. Which
// blocks stay is decided by ristretto, which is told, never asked; see cache.go.
//
// A lookup must not see part of a commit that touches several keys, or drops or
// replaces an object. Those are applied under the sequence lock: DB.Read.
//
// Strings are kept in the headers of their keys. Headers are sorted by a hash of the key, which makes a cursor of 64
// bits a place that never changes: scan.go. A key that expires is missing from that moment on, by the clock;
// expiry.go has how the rest of it is removed.
//
// A Transaction is one Writer that holds everybody else off, or a view of the store as
// of one commit. Package txn makes its commands and methods of it.
//
// # Guarantees
//
// All methods of DB may be called from any goroutine. A write reported at the level Always is there after any crash,
// and so is everything its answer was based on. Of writes not reported, each is there whole or not at all. A store
// whose disk failed refuses everything, and opens again with all it reported. Plain lookups may see commits that are
// not yet on stable storage.
//
// format.go has every stored byte, beside those of blocks in package block.
package kv
