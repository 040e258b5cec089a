// Package cuckooext has cuckoo filters: sets of items from which items can be
// deleted again, and which count copies.
//
// Terminology
//
//   - fingerprint: 8, 12, 16 or 32 bits of an item's hash, never 0.
//   - slot: room for one fingerprint; 0 is an empty one.
//   - bucket: b slots, the bucket size; block: n buckets, 8 KiB, the unit stored
//     and cached. A block is never cut short.
//   - entry: a fingerprint in a slot. Its bucket and its partner bucket are the two
//     it may be in; either follows from the other and the fingerprint.
//   - layer: blocks of a number that never changes; RedisBloom says sub-filter. A
//     filter that is full grows by a layer, of a multiple of the blocks.
//   - load: the part of the slots that is not empty.
//
// # How it works
//
// The item's seeded hash picks a block, a bucket of it and a fingerprint
// (geometry.place). An item is added by putting its fingerprint into one of its two
// buckets, which are in one block; if both are full, entries move to their partner
// buckets to make room (inserter). It is present, perhaps, if its fingerprint is in
// one of the two. A layer has room as long as each of its blocks does, which is
// until about the load it is sized for (geometry.load).
//
// All layers of a filter divide their blocks alike, and bucket and fingerprint of an
// item are the same in each. A newer layer has a whole multiple of the blocks of an
// older one. So items that cannot be told apart in a layer cannot be told apart in
// any older one (blockOf), and of the copies of an item the newest can be deleted
// without ever taking away another item's only entry: what is found in a newer layer
// in place of the item is, in every older one, as good as the item.
//
// # What it promises
//
// An item that was added and not deleted is found. Deleting an item that was never
// added may delete another's entry, and that item is then not found any more.
//
// All methods may be called from any goroutine. Writes to one filter are made one after
// the other; lookups wait for nobody, but for a filter that changes under them again and
// again. A lookup that fails answers true together with the error.
package cuckooext
