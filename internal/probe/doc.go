// Package probe is the arithmetic of a blocked Bloom filter: how large the filter must be, where an item's bits are,
// and whether they are set. It is pure computation on numbers and words that the caller owns: no files, no locks, no
// goroutines.
//
// # Terminology
//
//   - Layer: one Bloom filter of fixed size. It consists of blocks that all have the same number of lines.
//   - Block: 1 to 128 lines, at most 8 KiB, read and written as a unit. An item touches one block.
//   - Line: 512 bits, a cache line; in a counting filter, 128 counters of 4 bits. An item uses g = 1, 2 or 3
//     different lines of its block.
//   - Cell: a bit, or a counter in a layer of counters. The arithmetic is the same for both.
//   - Probe: one cell of an item. An item has k probes, shared out evenly to its lines.
//   - Layout: blocks, lines, k and g of a layer.
//   - Rate: the false-positive rate, the chance that an item never added tests as present.
//
// # The rate
//
// A blocked filter is a collection of small filters. Some of them get more items than others, and the crowded ones
// cost more than the empty ones gain (Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", WEA
// 2007). With B = 512 cells in a line, or 128 counters, and k_j probes in an item's line j, the rate is
//
//	F_j  = sum over i of P(line has i items) * E[(S_i/B)^k_j]
//	rate = product of the F_j, times a correction for lines whose loads depend on each other
//
// where S_i is the number of set cells after i items. The load of a line is binomial. In a large layer it is as good
// as Poisson with mean g*B/c, for c cells per item. After m = k*i/g random throws into B cells the fill S/B has the
// classic occupancy moments
//
//	mean     = 1 - (1-1/B)^m
//	variance = (1-1/B)^m/B + (1-2/B)^m (1-1/B) - (1-1/B)^2m
//
// and E[(S/B)^k] = mean^k (1 + k(k-1)/2 * variance/mean^2) to second order. Two lines per item even out the loads: at
// a rate of 1e-4 one line needs 22.1 bits per item, two need 19.9 and a classic filter 19.2. But each further line is
// a further cache miss. So an item has one line at rates from 0.5 % up, three from 1e-6 down, and two between.
//
// # The hash bits
//
// All choices come from one 64-bit hash, which must be uniform (as Sum64Seed's is). No bit of it decides two of them:
// filters that reused bits had 1.2 times the rate of the formula. The hash is read as a binary fraction. Times the
// number of blocks, its integer part is the block, and the rest is a fresh fraction. Times the number of lines, that
// gives the first line. So far the upper bits of the hash are used up: 21 for 1e8 items at 1 %, 37 in the largest layer
// possible. The first three probes are the lowest 27 bits, nine each. All other probes come from words of 64 bits, each
// derived from the hash by one multiplication, with six probes to a word. The upper bits of such a word also choose the
// second or the third line.
//
// Positions are part of the stored format: none of this may change for layers that exist.
//
// # Concurrency
//
// Layouts are immutable. Test and Touch load words atomically, so other goroutines may set bits with atomic.OrUint64
// meanwhile.
package probe
