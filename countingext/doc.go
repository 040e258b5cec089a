// Package countingext has counting Bloom filters: sets of items from which items can be deleted again, and which say
// how often an item was added. It adds the CBF commands to a store, and has handles for Go programs that use package
// kv itself. Package sievekv has its own handles.
//
// # Terminology
//
//   - counter: 4 bits, 0 to 15. A counter that reaches 15 sticks: its true count is no longer known, so it is never counted
//     down.
//   - line: 128 counters, 64 bytes; block: up to 128 lines, the unit stored and cached.
//   - k: the number of an item's probes, each of which hits a counter, in two or three lines of one block (in one, if
//     the block has only one or k is 1). Two probes may hit the same counter, which then counts once for both.
//   - layer: one filter of fixed size; RedisBloom says sub-filter.
//   - fill of a layer: the adds that counted something up in it, minus the deletions that counted something down.
//
// # How it works
//
// The item's hash picks a block, lines of the block, and k counters of these lines (package probe). Adding counts
// them up, deleting down. If one counter of an item is 0, the item is absent. As a set the filter is a Bloom filter
// in which a counter above 0 is a set bit: it has the same false-positive rate with four times the bits, and a little
// more because its lines are short.
//
// New items go only to the newest layer. Adds and deletions of an item that seems to be present change the oldest
// layer that seems to have it. So in an older layer no counter rises from 0 any more: if the layer did not seem to
// have an item when the item was added to a newer layer, it never will. The oldest layer that seems to have an item
// is therefore the one that has it, and deleting leaves nothing behind. Such a filter is ordered (Info.Ordered).
//
// A filter grows when its newest layer is full, even if deletions have made room in older layers. In two cases new
// items go to older layers too: with an expansion of 1, because otherwise the filter would grow for ever, and if
// there can be no further layer. A merge of filters with items fills older layers as well, if one of them has grown.
// Then the filter is no longer ordered, and it fills older layers with room before it grows. If several layers seem
// to have an item, nobody can tell which of them have it. A deletion then counts nothing down, because counting down
// the wrong layer would make other items absent. Such a deletion is kept (Info.DeletesKept): the item still seems to
// be present, which is a false positive. If the same items come and go for ever, kept deletions pile up: Info says
// how many adds are left over, and which share of deleted items still seems to be present.
//
// A layer takes new items until its fill, plus one for every k counters that stick in it, reaches its capacity. So
// the error rate holds for items that were never added, however often others come and go.
//
// # Guarantees and limits
//
// An item is found as long as it was added more often than deleted. Deleting an item that was never added can count
// down the counters of other items and cause false negatives. If few items are added very often, 15 times and more,
// and deleted, the filter fills up with counters that stick. Info says how many counters stick and how many deletions
// were kept. If they are many, make the filter again.
//
// All methods may be called from any goroutine. Writes to one filter run one after the other. Lookups do not wait for
// the disk of a write. They wait for a moment while a commit is applied that they must see as a whole: one that grows
// or replaces the filter or is a transaction. A lookup under which the filter changes several times waits for its
// writer. A lookup that fails answers true with the error.
package countingext
