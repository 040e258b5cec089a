// Package countingext has counting Bloom filters: sets of items from which items can
// be deleted again, and which say how often an item was added.
//
// Terminology
//
//   - counter: 4 bits, 0 to 15. One that has come to 15 sticks: nobody knows any more
//     how often it was counted up, so it is never counted down.
//   - line: 128 counters, 64 bytes; block: up to 128 lines, the unit stored and cached.
//   - k: hashes, which are probes of an item, in two or three lines of one block (one, if
//     it has only one). Two of them may be of one counter, which then counts once for both.
//   - layer: one filter of fixed size; RedisBloom says sub-filter.
//   - fill of a layer: adds into it that counted something up, less deletions that
//     counted something down.
//
// # How it works
//
// The item's seeded XXH64 hash picks a block, lines of it and k counters of those
// (package probe). Adding counts them up, deleting down; an item with one counter at 0 is
// not there. As a set the filter is a Bloom filter of counters above 0, with the same
// false-positive rate, four times the bits, and a little more for its short lines.
//
// New items go to the newest layer alone. Adds and deletions of an item that seems to be
// there are made in the oldest layer that seems to have it. An older layer gets no new
// counters above 0 then, so an item that it did not seem to have when the item was added to
// a newer one it never seems to have. The oldest layer that seems to have an item is the one
// that has it, and deleting leaves nothing behind. Such a filter is ordered.
//
// It grows when its newest layer is full, also if deletions have made room in older ones.
// With an expansion of 1, where that would go on for ever, and where there can be no further
// layer, new items go to older layers too; a merge of two filters that have grown fills
// them as well. Then the filter is not ordered any more. Where several layers seem to
// have an item, it may be that only one has it, and no one can tell which: nothing is counted
// down, and the deletion is counted as kept. The item goes on to seem there, a false
// positive; counting down the wrong layer would have made others absent. If the same items
// come and go for ever, the kept ones become more and more: Info tells how many adds are
// left over, and what share of the items that are deleted still seem to be there.
//
// A layer takes new items until its fill, and the counters that stick in it, come to its
// capacity: so the rate holds for items never added, however often others come and go.
//
// # What it promises
//
// An item that was added, and not deleted as often, is found. Deleting an item that was
// never added may count down those of others, which are then not found any more.
// A filter in which few items are added very often, 15 times and more, and deleted, fills
// up with counters that stick: Info tells how many do, and how many deletions were kept.
// If they are many, make the filter anew.
//
// All methods may be called from any goroutine. Writes to one filter are made one after
// the other; lookups wait for nobody, but for a filter that changes under them again and
// again. A lookup that fails answers true together with the error.
package countingext
