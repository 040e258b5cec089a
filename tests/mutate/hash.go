package main

// inHash are mutations of the keyed hash itself. The tests of its properties must notice them, not only those that
// compare it with numbers.
func inHash(name string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./kv/hash", tests: "^TestKeyed_Sum_"}
}

// hash are what the hashes of items rest on.
var hash = []mutation{
	inHash("keyed hash: one offset for all lengths", edit{"kv/hash/keyed.go",
		"offset := &t.offsets[class]", "offset := &t.offsets[min(class, 0)]"}),
	inHash("keyed hash: the length is not added for two pairs", edit{"kv/hash/keyed.go",
		"v, c1 = bits.Add64(v, uint64(n), 0)", "v, c1 = bits.Add64(v, 0, 0)"}),
	inHash("keyed hash: the length is not added up to 1024 bytes", edit{"kv/hash/keyed.go",
		"lo, carry := bits.Add64(sum.lo, uint64(n), 0)", "lo, carry := bits.Add64(sum.lo, 0, 0)"}),
	inHash("keyed hash: the length is not added beyond 1024 bytes", edit{"kv/hash/keyed.go",
		"plus(wide{lo: uint64(n)})", "plus(wide{})"}),
	inHash("keyed hash: blocks are summed up", edit{"kv/hash/keyed.go",
		"y = y.times(t.point).plus(t.sumPairs(b[:blockBytes]", "y = y.plus(t.sumPairs(b[:blockBytes]"}),
	inHash("keyed hash: words without keys", edit{"kv/hash/keyed.go",
		"		t.pairs[i] = random.Uint64()\n", "		t.pairs[i] = 0\n"}),
	inHash("keyed hash: pairs with one key", edit{"kv/hash/keyed.go",
		"b, keys = b[2*pairBytes:], keys[4:]", "b = b[2*pairBytes:]"}),
	inHash("keyed hash: no permutation", edit{"kv/hash/keyed.go",
		"h = (h^h>>30)*0xBF58476D1CE4E5B9 ^ t.middle\n	h = (h ^ h>>27) * 0x94D049BB133111EB\n	return h ^ h>>31", "return h"}),
}
