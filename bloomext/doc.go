// Package bloomext adds Bloom filters to a store: the BF commands, and handles for Go programs that use package kv
// itself. Package sievekv has its own handles.
//
// # Terminology
//
//   - capacity: the number of distinct items that a filter is made for.
//   - error rate: the highest probability that an item that was never added seems to be present.
//   - line: 512 bits; block: up to 128 lines, the unit stored and cached.
//   - k: the number of an item's bits, its probes, which are in one, two or three lines of one block.
//
// # How it works
//
// The item's hash picks a block, lines of the block, and k bits of these lines (package probe). Adding sets the bits
// that are not set. They are written as an operand of a few bytes, which Pebble merges into the block; the block is
// not rewritten. If all bits of an item are set, it is probably present: it, or other items with these bits, was
// added. If one bit is not set, it was never added.
//
// # Guarantees and limits
//
// An item whose Add returned is present in every later lookup, as long as the filter lives; after a crash too if the
// Add was at level kv.Always. An Add that answers "already present" is as durable as a write. A lookup that fails
// answers true with the error: an error never means "absent".
//
// All methods may be called from any goroutine. Adds to one filter run one after the other. Lookups do not wait for
// the disk of a write. They wait for a moment while a commit is applied that they must see as a whole: one that grows
// or replaces the filter or is a transaction. A batch of adds is one commit: after a crash it is there whole or not
// at all. But lookups that run at the same time see its items appear one by one.
package bloomext
