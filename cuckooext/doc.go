// Package cuckooext has cuckoo filters: sets of items from which items can be deleted again, and which count copies.
// It adds the CF commands to a store, and has handles for Go programs that use package kv itself. Package sievekv has
// its own handles.
//
// # Terminology
//
//   - fingerprint: 8 to 32 bits of an item's hash, never 0.
//   - slot: room for one fingerprint; 0 means empty.
//   - bucket: b slots, the bucket size; block: n buckets, at most 8 KiB, the unit stored and cached. A block of 8 KiB is
//     whole. If whole ones would waste room, the blocks of a filter are cut: all have the same number of lines, as few as
//     its capacity allows. A filter for few items begins with one short block, with so many buckets that n of a whole block
//     is a multiple.
//   - entry: a fingerprint in a slot. It may be in two buckets, which are partners: each follows from the other and the
//     fingerprint.
//   - layer: a fixed number of blocks; RedisBloom says sub-filter. A full filter grows by a layer with a multiple of the
//     blocks; after a short one, by the fewest whole blocks that have at least as many times its buckets.
//   - load: the share of the slots that are not empty.
//
// # How it works
//
// The item's hash picks a block, a bucket of the block and a fingerprint (geometry.place). Adding puts the
// fingerprint into one of its two buckets, which are in one block. If both are full, entries move to their partner
// buckets to make room (inserter). If the fingerprint is in one of the two buckets, the item is probably present. A
// layer has room as long as each of its blocks has room, which is until about the load it is sized for
// (geometry.load).
//
// All layers of a filter divide their blocks in the same way, whole or cut, and the bucket and the fingerprint of an item are
// the same in each layer. A newer layer has a whole multiple of the blocks of an older one. (The buckets of an item in a short
// block are those in a whole one modulo the number of buckets.) So items that look alike in a
// layer also look alike in every older one (blockOf). This makes it safe to delete the newest entry that looks like
// an item. To see this, give each copy of an item an entry that looks like it. Delete x, and let e be the newest
// entry that looks like x. If e was given to y, then x's own entry is in the same or an older layer; there x and y
// look alike, so y takes it.
//
// # Guarantees and limits
//
// An item that was added and not deleted is found. Deleting an item that was never added can remove the entry of
// another item and cause a false negative.
//
// All methods may be called from any goroutine. Writes to one filter run one after the other. Lookups do not wait for
// the disk of a write. They wait for a moment while a commit is applied that they must see as a whole: one that grows
// or replaces the filter, compacts it, or is a transaction. A lookup under which the filter changes several times
// waits for its writer. A lookup that fails answers true with the error.
package cuckooext
