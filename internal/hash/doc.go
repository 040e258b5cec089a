// Package hash has the hashes of items: the number that a filter reduces an item to before it picks the item's bits.
// It is pure computation, except that it keeps one table for each secret in use.
//
// # Terminology
//
//   - Item: what is added to a filter, any bytes. Its hash has 64 bits.
//   - Function: a hash together with its key. A filter keeps the one that it was made with.
//   - Keyed: the hash of new filters. Its key is a Secret of 256 bits, which follows from a secret of the store. Each
//     filter has its own, unless it belongs to a group of filters that can be merged.
//   - XXH64: the hash of filters made by earlier versions, and of filters that other programs build in the same way.
//     Its key is a seed of 64 bits.
//   - Murmur64A: MurmurHash64A, the hash of filters in RedisBloom's layout. Its key is a public seed.
//   - Murmur3: MurmurHash3 x64 128, the hash of filters that come from Guava or bits-and-blooms. It has no key.
//   - Highway: HighwayHash 128, the hash of filters that come from Redisson. Its key is public.
//
// # What the keyed hash promises
//
// Take any two different items, chosen by someone who does not know the secret. Over the choice of the secret, the
// probability that their hashes are equal is at most 2^-61; for items up to 16 bytes it is exactly 2^-64. Apart from
// that the two hashes are independent, uniform numbers. So everything that concerns two items has the probability
// that a filter's formulas assume: for instance that one item alone makes the other "present", or that both have the
// same fingerprint and the same buckets. Nobody can choose items for which it is higher.
//
// That is a theorem (below), given that the output of ChaCha8 cannot be told from random numbers. It is about two
// items. For larger sets, such as the items of a full filter, tests show that they behave as random items do,
// structured items too; there is no proof. And nothing is promised against someone who
//
//   - knows the secret, and so can compute which items collide. The secret is in the store's directory, in
//     every copy and backup of it, and in every dump of the filter;
//   - chooses items by the filter's answers, or by the time that they take. Such a person learns which items are false
//     positives, and can go on to use them. Every filter has some.
//
// XXH64 promises less. Each step of it is invertible, so there are pairs of items that collide under every seed. Among
// the last 31 bytes of an item, change two 8-byte words that follow each other so that bit 36 of the first one's round
// flips, and bit 63 of the second one's. In the bytes before these, pairs of words can be changed in two ways each, and
// one way leaves the hash as it was. So from 320 bytes, a million items of one hash can be made. Use XXH64 only where
// nobody chooses items to harm the filter.
//
// # How the keyed hash works
//
// The keyed hash follows Carter and Wegman ("Universal classes of hash functions", 1979). It has three steps. All keys
// come from ChaCha8, keyed with the secret, in the order of the table's fields. Words have 64 bits and are read with
// the lowest byte first.
//
//  1. The item becomes two words v and w, and a class. For up to 16 bytes the words are the item's bytes, and the class
//     is its length. Longer items are cut into pairs of words; the last pair is the item's last 16 bytes, so that
//     nothing is padded. NH is the sum of (m1+k1)(m2+k2) over the pairs, where the inner sums are modulo 2^64 and the
//     outer one is modulo 2^128 (Black, Halevi, Krawczyk, Krovetz and Rogaway, "UMAC: Fast and Secure Message
//     Authentication", CRYPTO '99; with words of 64 bits as in Dai and Krovetz, "VHASH Security", 2007). For up to 1024
//     bytes v and w are NH plus the length. A longer item is cut into blocks of 1024 bytes; the last may be shorter.
//     Then v and w are a polynomial at a secret point, modulo 2^127-1. Its coefficients are the NH of the blocks, first
//     to last, then the length.
//  2. The hash is the upper half of (f1+v)(f2+w) + o modulo 2^128. Here f1, f2 and o are secrets of 128 bits, and
//     each class has its own o (Multilinear-HM of Lemire and Kaser, "Strongly universal string hashing is fast",
//     2014; Thorup, "High speed hashing for integers and strings", 2015, has the proof for sums of products with
//     words).
//  3. A fixed permutation mixes the hash. It is the finalizer of SplitMix64 (Stafford's variant 13), with a word of
//     the key in its middle.
//
// The bound. Items of different classes have different, independent o in step 2, so their hashes are independent and
// uniform.
//
// Two different pairs v, w of one class give such hashes too. The difference of the two products is linear in f1 and
// f2, with factors below 2^64 that are not both 0. So the hashes of two items of a class are as good as random unless
// both items have the same v and w.
//
// For items up to 16 bytes that cannot happen: two overlapping words hold an item of a known length.
//
// For longer items it has a probability of at most 2^-63. If both have equally many pairs, their NH differ by a given
// number with probability 2^-64 at most; if they differ in length alone, their sums differ. If one has more pairs, its
// last pair would have to give a certain product; the most likely is 0.
//
// For items of several blocks, the NH of two different blocks are equal modulo 2^127-1 with probability 5 * 2^-64 at
// most, since five differences of 128-bit numbers are multiples of the prime. Two different polynomials of degree n
// agree at n of the 2^127 points at most. Together that is below 2^-61 for all items shorter than 2^60 bytes.
//
// Step 3 is a permutation. It makes no hashes equal, and two hashes that are independent and uniform stay so. It
// breaks the regularity of step 2, where items that count up have hashes that count up too. Filters would see that:
// they take sums and slices of the hash to choose blocks and bits.
//
// Murmur64A, Murmur3 and Highway promise nothing either: their keys are known. The steps of the first two are invertible, and
// sets of items that collide have been published.
//
// All hashes are part of the stored format: they never change for filters that exist.
package hash
