package main

// foreignBloom is what Bloom filters that were imported from other libraries rest on.
var foreignBloom = []mutation{
	inForeign("the first bit of Guava's 32-bit strategy has the number 0", "^TestImportForeign$",
		"int32(j+1)*int32(p.a>>32)", "int32(j)*int32(p.a>>32)"),
	inForeign("negative numbers of Guava's 32-bit strategy are negated", "^TestImportForeign$",
		"		return uint64(n ^ n>>31)\n", "		return uint64(max(n, -n))\n"),
	inForeign("Guava's 64-bit strategy keeps the highest bit", "^TestImportForeign$",
		"(p.a + j*p.b) & math.MaxInt64", "(p.a + j*p.b) & math.MaxUint64"),
	inForeign("the numbers of bits-and-blooms have one step", "^TestImportForeign$",
		"	if (j+1)/2%2 == 1 {\n", "	if j < 0 {\n"),
	inForeign("the numbers of bits-and-blooms begin with one hash", "^TestImportForeign$",
		"	if j%2 == 1 {\n", "	if j < 0 {\n"),
	inForeign("Redisson's numbers have one step", "^TestImportForeign$",
		"((1+j/2)*p.a + (j+1)/2*p.b)", "(p.a + j*p.b)"),
	inForeign("a layer that grows is opened", "^TestForeign_damaged$",
		"|| chain.Expansion != 0 ||", "||"),
	inForeign("any hash is opened", "^TestForeign_damaged$",
		"chain.Hash != opened.flat.scheme.hash()", "false"),
	inForeign("a later scheme is opened", "^TestForeign_damaged$",
		"	case p.scheme >= numSchemes:\n", "	case p.scheme > numSchemes+1:\n"),
	inForeignFile("bytes may follow the last bit", "^TestImportForeign_damaged$",
		"	case f.size > want:\n", "	case f.size > want+8:\n"),
	inForeignFile("a file may be cut", "^TestImportForeign_damaged$",
		"	case f.size < want && f.scheme != schemeRedisson:\n", "	case f.size < f.head:\n"),
	inForeignFile("bits behind the end are taken", "^TestImportForeign_damaged$",
		"if at += n; l.checkEnd(blk, words) != nil {", "if at += n; l.checkEnd(blk, words) != nil && at == 0 {"),
	inForeignFile("the words have their lowest byte first", "^TestImportForeign_golden$",
		"words[i] = binary.BigEndian.Uint64(bytes[8*i:])", "words[i] = binary.LittleEndian.Uint64(bytes[8*i:])"),
	inForeignFile("the highest bit of Redis is the last", "^TestImportForeign_golden$",
		"words[i] = bits.Reverse64(words[i])", "words[i] = bits.ReverseBytes64(words[i])"),
	inForeignFile("what a string of Redis lacks is that of the block before", "^TestImportForeign_short$",
		"		clear(bytes[n:])\n", ""),
	inForeignFile("the bits are not counted", "^TestImportForeign$",
		"onesCounter, ones)", "onesCounter, ones/2)"),
	inForeignFile("the number of items is no estimate", "^TestImportForeign_commands$",
		"flagsCounter, flagEstimated)", "flagsCounter, 0)"),
	inForeignFile("a key that exists is replaced", "^TestImportForeign_keys$",
		"		if old != nil && !how.Replace {\n", "		if old != nil && how.Bits > 0 {\n"),
	inForeignFile("a file that ends in the middle is whole", "^TestImportForeign_halfway$",
		"if err == io.EOF || err == io.ErrUnexpectedEOF {\n		return damaged(at+int64(n), \"the file ends here\")", "if n >= 0 && (err == io.EOF || err == io.ErrUnexpectedEOF) {\n		return nil"),
	{name: "imported Bloom filters: an item too many is refused", pkg: "./bloomext", tests: "^TestImportForeign_full$", edits: []edit{{"bloomext/filter.go",
		"return l.flat.scheme == schemeCompatible && s.w", "return s.w"}}},
	{name: "imported Bloom filters: items of a batch have RedisBloom's bits", pkg: "./bloomext", tests: "^TestImportForeign$", edits: []edit{{"bloomext/flat_many.go",
		"		return s.pair(bytesOf(item, &number))\n", "		return s.pair(number[:])\n"}}},
	{name: "imported Bloom filters: numbers have the bytes of others", pkg: "./bloomext", tests: "^TestImportForeign_forms$", edits: []edit{{"bloomext/flat_many.go",
		"		*number = scalableext.LittleEndian(item)\n", "		*number = scalableext.LittleEndian(item + 1)\n"}}},
	{name: "imported Bloom filters: bits that no byte has are not in the size", pkg: "./bloomext", tests: "^TestImportForeign_small$", edits: []edit{{"bloomext/info.go",
		"		info.Bytes += (li.Bits + 7) / 8\n", "		info.Bytes += li.Bits / 8\n"}}},
	{name: "imported Bloom filters: Guava's 32-bit strategy has bits above 2^31", pkg: "./bloomext", tests: "^TestForeign_large$", edits: []edit{{"bloomext/flat.go",
		"		f.length = min(f.length, 1<<31)\n", "		f.length = max(f.length, 1<<31)\n"}}},
	{name: "MurmurHash3 leaves out the last bytes", pkg: "./kv/hash", tests: "^TestMurmur3$", edits: []edit{{"kv/hash/murmur3.go",
		"	copy(last[:], rest)\n", ""}}},
	{name: "MurmurHash3 of the item and a byte forgets the block that the byte fills", pkg: "./kv/hash", tests: "^TestMurmur3$", edits: []edit{{"kv/hash/murmur3.go",
		"c, d = m.end(m.blocks(longer[:n+1]), len(item)+1)", "c, d = m.end(longer[:n+1], len(item)+1)"}}},
	{name: "HighwayHash has no rest", pkg: "./kv/hash", tests: "^TestHighway$", edits: []edit{{"kv/hash/highway.go",
		"	if len(item) > 0 {\n		h.rest(item)\n	}\n", ""}}},
	{name: "HighwayHash takes three bytes of a rest as one", pkg: "./kv/hash", tests: "^TestHighway$", edits: []edit{{"kv/hash/highway.go",
		"more[0], more[len(more)/2], more[len(more)-1]", "more[0], more[0], more[len(more)-1]"}}},
}

func inForeign(name, tests, from, to string) mutation {
	return mutation{name: "imported Bloom filters: " + name, pkg: "./bloomext", tests: tests, edits: []edit{{"bloomext/foreign.go", from, to}}}
}

func inForeignFile(name, tests, from, to string) mutation {
	return mutation{name: "files of other libraries: " + name, pkg: "./bloomext", tests: tests, edits: []edit{{"bloomext/foreign_file.go", from, to}}}
}
