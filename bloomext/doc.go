// Package bloomext adds Bloom filters to a store: the BF commands, and handles
// for Go programs.
//
// Terminology
//
//   - capacity, error rate: a filter that holds capacity distinct items answers
//     "present" for an absent one at most at the error rate.
//   - line: 512 bits; block: up to 128 lines, the unit stored and cached.
//   - k: probes of an item, all in one, two or three lines of one block.
//
// # How it works
//
// The item's seeded XXH64 hash picks a block, lines of it and k bits of those
// (package probe). Adding sets the bits that are not set; they are written as an
// operand of a few bytes, merged into the block by Pebble, never as a rewrite of
// the block. An item whose bits are all set is present, perhaps: it, or others
// with those bits, was added. An item with one bit not set was never added.
//
// # What it promises
//
// An item whose Add returned is present in every later lookup, for as long as
// the filter lives; after a crash too if the Add was made at kv.Always. An Add
// that answers "was there already" promises the same. A lookup that fails
// answers true together with the error: an error never reads as "absent".
//
// All methods may be called from any goroutine. Adds to one filter are made one
// after the other; lookups wait for nobody. A batch of adds is one commit, whole
// after a crash or not there at all, but lookups running at the same time see
// its items appear one by one.
package bloomext
