// Package kv is a durable key-value store for strings and for values made of blocks: the base of filters and other
// types, which modules add. It keeps its data in Pebble. A caller sees keys, blocks and typed objects.
//
// # Terminology
//
//   - key: what a user names a value by, any bytes up to MaxKeyLen.
//   - object: what a key maps to. An object with layers has an id that is never used twice, and RENAME moves it to
//     another key.
//   - layer: a part of an object, an array of equal blocks; a growing filter adds layers.
//   - line: 512 bits; block: 1 to 128 lines, the unit that is stored and cached.
//   - operand: a change of a block, a few bytes, which Pebble merges into the block.
//   - commit: what one Writer changes, as one. It is one batch, which goes to Pebble alone or with others: see package storage.
//   - number: what a commit gets when it is applied to Pebble or becomes pending. All commits up to the durable watermark
//     are on stable storage.
//   - resident: in memory, in the block table of its layer.
//   - module: types and more that a program opens the store with; see package module.
//
// # How it works
//
// A write takes the write lock of its key, reads what it needs, stages its changes in a Writer and commits them as one
// batch. The batch is applied to Pebble without waiting for the disk, and then to the resident blocks; the locks are
// given back; only then does the caller wait for the disk, together with other callers. commit.go has the crash argument.
//
// A lookup of a resident block takes no lock: a few atomic loads. A block that is not resident is read from Pebble and
// put into the block table, unless it may lack a commit: see load.go. Ristretto decides which blocks stay: see cache.go.
//
// A lookup must not see part of a commit that touches several keys, or drops or replaces an object. Such commits are
// applied under the sequence lock: see DB.Read.
//
// Strings are kept in the headers of their keys. Headers are sorted by a hash of the key, so that a 64-bit cursor is a
// place that never changes: see scan.go. A key that expires is missing from that moment on; see expiry.go for its removal.
//
// A Transaction is one Writer that holds off all others, or a snapshot. Package txn builds its commands and methods on it.
//
// # Guarantees
//
// All methods of DB may be called from any goroutine. A write reported at the level Always is there after any crash, and
// so is everything that its answer was based on. A write that was not reported is there whole or not at all. A store
// whose disk has failed refuses everything; opened again, it has everything that it reported at Always. Lookups may see
// commits that are not on stable storage yet.
//
// Package format has every stored byte except the bytes of blocks, which package block has.
package kv
