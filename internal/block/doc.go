// Package block encodes the blocks that filters are made of, and small changes to them, and merges the changes. It is
// pure: bytes in, bytes out.
//
// # Terminology
//
//   - block: up to 65,536 bits in words of 64, the unit of storage and caching.
//     Bit p is bit p%64 of word p/64. An absent block is all zeros.
//   - line: 512 bits, a cache line. A block is 1 to 128 lines long. All blocks of a layer are equally long.
//   - family: what the bits mean. In the bits family each bit is set or not, and a set bit stays set. In a slots
//     family the block is an array of slots of 4, 8, 10, 12, 14, 16, 18, 20, 24 or 32 bits, and each slot has a value.
//   - operand: a change to a block, "set these bits", "set the bits of these items" or "give these slots these
//     values". A merged operand is the result of merging several operands.
//   - value: any byte string stored under a block's key: a block, an operand, or kept inputs (below). The empty value
//     is an absent block.
//   - folding: merging everything stored for a block and writing the result as one value, so that readers find one
//     block and no operands.
//
// # Merging
//
// A value stands for a sequence of blocks and operands, oldest first. Merging two values concatenates their
// sequences; the stored result is just shorter. A reader sees what applying the sequence in order gives:
//
//   - bits: the union of all bits. A block may stand anywhere in the sequence and is united with the rest. So no
//     order of arrival can lose a bit.
//   - slots: the newest value of each slot. A block has a value for every slot, so it replaces everything older than
//     it.
//
// If the sequence contains a block, the result of merging is a block, else a merged operand. Its count of operands is
// the count of the whole sequence: it includes operands that a newer block of slots replaced.
//
// Some sequences have no meaning: an input cannot be decoded, or inputs are of different families, or blocks have
// different lengths, or an operand reaches behind the end of a block. A merge cannot report an error, because the
// storage engine would then never write this key's level to disk again. So the inputs are kept, oldest first. An
// input that cannot be decoded is kept byte for byte; the others are merged with their neighbours where that is
// possible. Such a value decodes as ErrCorrupt, and so does everything merged with it.
//
// Whether a sequence has a meaning depends only on its families, its shortest block and the farthest change in it. A
// partial merge forgets none of these. So merging is associative: readers see the same however a sequence is cut into
// partial merges. If the sequence has a meaning, the merged bytes are the same too.
//
// # Concurrency
//
// All functions but Patch use ordinary reads and writes of memory. They are safe to call concurrently on different
// arguments. Patch changes a block while other goroutines read it with atomic loads.
package block
