package main

// inRDB are mutations of what reads RDB files.
func inRDB(name, tests string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./cmd/kvshell/internal/rdb", tests: tests}
}

// rdbs are what the reading of RDB files rests on.
var rdbs = []mutation{
	inRDB("the checksum of an RDB file does not count", "^TestReader_damaged$", edit{"cmd/kvshell/internal/rdb/rdb.go",
		"stored != 0 && stored != sum {", "stored != 0 && stored != sum && false {"}),
	inRDB("what follows an RDB file in an append-only file is passed over", "^TestReader_bad$", edit{"cmd/kvshell/internal/rdb/rdb.go",
		"	_, err := r.in.Peek(1)\n	if err == nil {", "	_, err := r.in.Peek(1)\n	if err == nil && false {"}),
	inRDB("the base of an append-only file is taken for all of it", "^TestReader_bad$", edit{"cmd/kvshell/internal/rdb/rdb.go",
		"string(name) == \"aof-base\"", "string(name) == \"\""}),
	inRDB("a damaged RDB file is taken for one of a newer server", "^TestReader_unsupported$", edit{"cmd/kvshell/internal/rdb/rdb.go",
		"	if errors.Is(err, ErrUnsupported) && !r.ended {", "	if false {"}),
	inRDB("an RDB file whose server had checksums off is refused", "^TestReader_noChecksum$", edit{"cmd/kvshell/internal/rdb/rdb.go",
		"stored != 0 && stored != sum {", "stored != sum {"}),
	inRDB("the checksum of a dump does not count", "^TestDump$", edit{"cmd/kvshell/internal/rdb/rdb.go",
		"sum != 0 && sum != checksum(0, body) {", "sum != 0 && false {"}),
	inRDB("the length of a string is believed before its bytes come", "^TestReader_memory$", edit{"cmd/kvshell/internal/rdb/strings.go",
		"	if t.length <= 1<<16 {", "	if true {"}),
	inRDB("compressed bytes may point before their beginning", "^TestReader_bad$", edit{"cmd/kvshell/internal/rdb/strings.go",
		"	if from < 0 {\n		return damaged(\"compressed bytes point before their beginning\")\n	}\n", "	from = max(from, 0)\n"}),
	inRDB("too little is kept of what compressed bytes may point at", "^TestReader_window$", edit{"cmd/kvshell/internal/rdb/strings.go",
		"const window = 1 << 13", "const window = 1<<13 - 1"}),
	inRDB("compressed bytes may be longer than their length", "^TestReader_bad$", edit{"cmd/kvshell/internal/rdb/strings.go",
		"			if z.in.left > 0 {", "			if false {"}),
	inRDB("an expiry is kept for the next key", "^TestReader_parts$", edit{"cmd/kvshell/internal/rdb/rdb.go",
		"	var key Key\n	for {", "	key := Key{Expires: r.key.Expires, ExpireAt: r.key.ExpireAt}\n	for {"}),
	inRDB("the buckets of a cuckoo filter's sub-filters are not checked", "^TestFilter_bad$", edit{"cmd/kvshell/internal/rdb/filters.go",
		"(n != expected || bucketSize == 0 ||", "(bucketSize == 0 ||"}),
	inRDB("filters of another version are read", "^TestReader_otherTypes$", edit{"cmd/kvshell/internal/rdb/filters.go",
		" && k.version == filterVersion", ""}),
}
