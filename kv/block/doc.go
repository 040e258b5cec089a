// Package block encodes the blocks that filters are made of, and the small
// changes to them, and merges the changes. It is pure: bytes in, bytes out.
//
// # Terminology
//
//   - block: up to 65,536 bits in words of 64, the unit of storage and caching.
//     Bit p is bit p%64 of word p/64. An absent block is all zeros.
//   - line: 512 bits, a cache line. A block is 1 to 128 lines long; all blocks of
//     one layer are equally long.
//   - family: what the bits mean. In the bits family each bit is set or not, and
//     bits are only ever set. In a slots family the block is an array of slots of
//     4, 8, 12, 16 or 32 bits, and a slot is set to a value.
//   - operand: a change to a block, "set these bits" or "set these slots to". A
//     merged operand is what several operands became when they were merged.
//   - value: any byte string found under a block's key: a block, an operand, or
//     kept inputs (below). The empty value is the absent block.
//   - folding: writing a block with everything merged into it as a new value, so
//     that readers find one block and no operands.
//
// # Merging
//
// A value stands for a sequence of blocks and operands, oldest first. Merging two values concatenates their
// sequences; what is stored is only shorter. A reader sees the result of applying the sequence in order:
//
//   - bits: the union of all bits. A block may stand anywhere and is united with
//     the rest, so that no order of arrival can lose a bit.
//   - slots: the newest value of each slot wins. A block gives a value to every
//     slot, so that it replaces everything older than it.
//
// If the sequence has a block in it the result is a block, else a merged operand. The operands counted are those of
// the whole sequence, also of what a newer block of slots replaced.
//
// Some sequences have no meaning: one of their inputs cannot be decoded, or they are of different families, or blocks
// of different lengths meet, or an operand reaches behind the end of a block. A merge cannot fail: the storage engine
// would then never again write this key's level to disk. So the inputs are kept, oldest first: what cannot be decoded
// byte for byte, the rest merged with its neighbours where that is possible. Such a value decodes as ErrCorrupt, and
// so does everything merged with it.
//
// Whether a sequence has a meaning depends only on the families, the shortest block and the farthest change in it,
// none of which a partial merge forgets. So merging is associative: however a sequence is cut into partial merges,
// readers see the same. Where it has a meaning the bytes are the same, too.
//
// # Concurrency
//
// All functions but Patch read and write ordinary memory and are safe to call concurrently on different arguments.
// Patch changes a block that others are reading with atomic loads.
package block
