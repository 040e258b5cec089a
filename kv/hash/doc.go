// Package hash has the hashes of items: what a filter reduces an item to before it picks the
// item's bits. It is pure computation, but for a table for each secret in use.
//
// # Terminology
//
//   - Item: what is added to a filter, any bytes. Its hash has 64 bits.
//   - Function: a hash with its key. A filter keeps the one it was made with.
//   - Keyed: the hash of new filters. Its key is a Secret, 256 random bits of the store.
//   - XXH64: the hash of filters of earlier versions, and of those that are to be built alike
//     elsewhere. Its key is a seed of 64 bits.
//
// # What the keyed hash promises
//
// Take any two different items that were chosen by somebody who does not know the secret. Over the
// choice of the secret their hashes are equal with a probability of at most 2^-61; of items up to 16
// bytes exactly 2^-64. But for that chance the two hashes are two independent, uniform numbers. So
// whatever concerns two items, such as whether one alone makes the other "present", or whether both have
// the same fingerprint and the same buckets, has the probability that a filter's formulas reckon with,
// and nobody can choose items so that it is higher.
//
// That is a theorem (below), given that ChaCha8 cannot be told from random numbers. It is about two
// items: of larger sets, such as what a full filter does, it is not proved but tested that they behave
// as random ones do, structured items too. And nothing is promised against somebody who
//
//   - knows the secret: he can compute which items collide. It is in the store's directory, and so in
//     every copy and backup of it;
//   - chooses items by the answers that he gets, or by how long they take: he learns which items are
//     false positives, and can go on to use those. Every filter has some.
//
// XXH64 promises less. Each step of it is invertible, so that there are pairs of items that collide under
// every seed: among the last 31 bytes of an item, change two 8-byte words that follow each other so that bit 36 of
// the first one's round flips, and bit 63 of the second one's. In the bytes before, pairs of words can be changed
// in two ways each, one of which leaves the hash as it was: from 320 bytes a million items of one hash are
// made. Use it only where nobody chooses items to harm the filter.
//
// # How the keyed hash works
//
// It is a hash of Carter and Wegman ("Universal classes of hash functions", 1979), in three steps. All
// keys come from ChaCha8 with the secret as its key, in the order of the table's fields. Words are of
// 64 bits, read with the lowest byte first.
//
//  1. The item becomes two words v, w and a class. Of up to 16 bytes they are its bytes, and the class is
//     its length. Longer ones are cut into pairs of words; the last pair is the item's last 16 bytes, so
//     that nothing is padded. NH is the sum of (m1+k1)(m2+k2) over the pairs, where the inner sums are
//     modulo 2^64 and the outer one is modulo 2^128 (Black, Halevi, Krawczyk, Krovetz and Rogaway, "UMAC:
//     Fast and Secure Message Authentication", CRYPTO '99; with words of 64 bits as in Dai and Krovetz,
//     "VHASH Security", 2007). Up to 1024 bytes v and w are NH plus the length. Beyond, the item is cut into
//     blocks of 1024 bytes, the last one shorter, and v and w are a polynomial of which the coefficients
//     are the NH of the blocks, first to last, then the length, at a secret point modulo 2^127-1.
//  2. The hash is the upper half of (f1+v)(f2+w) + o modulo 2^128, with secrets f1, f2 and o of 128 bits, o
//     being that of the class (Multilinear-HM of Lemire and Kaser, "Strongly universal string hashing is
//     fast", 2014; Thorup, "High speed hashing for integers and strings", 2015, has the proof for sums of
//     products with words).
//  3. It is mixed by a fixed permutation, the finalizer of SplitMix64 (Stafford's variant 13), with a word
//     of the key in its middle.
//
// The bound: items of different classes have different, independent o in step 2, so that their hashes are
// independent and uniform. Two different triples v, w and class give such hashes too: the difference of the
// two products is linear in f1 and f2, by factors below 2^64, of which one is not 0. So the hashes of two
// items of a class are as good as random unless both items have the same v and w. For items up to 16 bytes
// that cannot be: two overlapping words hold an item of a known length. For longer ones it has a
// probability of at most 2^-63: if there are equally many pairs, NH is equal up to any given difference with
// 2^-64, and items that differ in length alone have different sums; else the last pair of the longer item
// would have to give a certain product, 0 being the most likely one. A block's NH modulo 2^127-1 is that of
// another with at most 5 * 2^-64, as five differences of 128-bit numbers are multiples of the prime; and
// two different polynomials of degree n agree at n of the 2^127 points at most. Together that is below 2^-61
// for all items shorter than 2^60 bytes.
// Step 3 is a permutation: it makes no hashes equal, and two that are independent and uniform stay so. It is
// what breaks the regularity of step 2, where items that count up have hashes that do so too, for
// filters, which take sums and slices of the hash to choose blocks and bits.
//
// Both hashes are part of the stored format: they never change for filters that exist.
package hash
