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
	{name: "MurmurHash64A leaves out the last bytes", pkg: "./kv/hash", tests: "^TestMurmur64A$", edits: []edit{{"kv/hash/murmur.go",
		"h = (h ^ tail) * murmurFactor", "h ^= min(tail, 0)"}}},
	{name: "MurmurHash64A has one seed", pkg: "./kv/hash", tests: "^TestMurmur64A$", edits: []edit{{"kv/hash/murmur.go",
		"h := seed ^", "h := min(seed, 0) ^"}}},
	{name: "a stored MurmurHash64A is read as XXH64", pkg: "./kv/hash", tests: "^TestFunction_Append$", edits: []edit{{"kv/hash/hash.go",
		"return NewMurmur64A(binary.LittleEndian.Uint64(b[1:])), 1 + 8", "return NewXXH64(binary.LittleEndian.Uint64(b[1:])), 1 + 8"}}},
	{name: "filters have XXH64 unless asked for another", pkg: "./bloomext", tests: "^TestFilter_chosen", edits: []edit{{"kv/meta.go",
		"if kind == hash.XXH64 {", "if kind != hash.Keyed {"}}},
	{name: "the secret is not stored", pkg: "./tests", tests: "^TestOldStore$", edits: []edit{{"kv/meta.go",
		"if err := db.set(format.AppendMetaKey(nil, format.MetaSecret), secret[:]); err != nil {",
		"if err := db.failure(); err != nil {"}}},
	{name: "the stored secret is not read", pkg: "./kv", tests: "^TestDB_ItemHash", edits: []edit{{"kv/meta.go",
		"	db.keyed = &f\n	return nil\n", "	_ = f\n	return nil\n"}}},
	{name: "the store's secret follows from the seed", pkg: "./kv", tests: "^TestDB_ItemHash", edits: []edit{{"kv/meta.go",
		"	secret, err := hash.NewSecret()\n", "	secret, err := hash.SecretOf(db.opts.Seed), error(nil)\n"}}},
	{name: "filters with hashes of different keys are merged", pkg: "./bloomext", tests: "^TestFilter_Merge_hash", edits: []edit{{"scalableext/format.go",
		"	case p.Hash == q.Hash:", "	case p.Hash.Kind() == q.Hash.Kind():"}}},
	{name: "filters with different hashes are merged", pkg: "./tests", tests: "^TestOldStore$", edits: []edit{{"scalableext/format.go",
		"	case p.Hash == q.Hash:", "	case true:"}}},
	{name: "an error shows the end of a header", pkg: "./kv/format", tests: "^TestFormat_secret$", edits: []edit{{"kv/format/format.go",
		"b[:min(len(b), 20)]", "b"}}},
	{name: "an error shows the parameters of a filter", pkg: "./scalableext", tests: "^TestParams_refused$", edits: []edit{{"scalableext/format.go",
		"bad := fmt.Errorf(\"%w: chain parameters of %d bytes\", kv.ErrCorrupt, len(b))",
		"bad := fmt.Errorf(\"%w: chain parameters %x\", kv.ErrCorrupt, b)"}}},
	{name: "a secret is printed", pkg: "./kv/hash", tests: "^TestFunction_printed$", edits: []edit{{"kv/hash/hash.go",
		"func (Secret) Format(to fmt.State, _ rune) { io.WriteString(to, \"secret\") }",
		"func (Secret) String() string { return \"secret\" }"}}},
	{name: "a secret is all zeros", pkg: "./kv/hash", tests: "^TestNewSecret$", edits: []edit{{"kv/hash/hash.go",
		"err = seeds.Read(s[:])", "err = seeds.Read(nil)"}}},
	{name: "RESERVE does not hear HASH", pkg: "./bloomext", tests: "^TestDifferences$", edits: []edit{{"bloomext/commands.go",
		"TTL: a.TTL, Hash: a.Hash,", "TTL: a.TTL,"}}},
	inHash("keyed hash: no permutation", edit{"kv/hash/keyed.go",
		"h = (h^h>>30)*0xBF58476D1CE4E5B9 ^ t.middle\n	h = (h ^ h>>27) * 0x94D049BB133111EB\n	return h ^ h>>31", "return h"}),
}
