package main

// ofLoading is what filters that are loaded from a dump rest on.
var ofLoading = []mutation{
	inLoading("a half-loaded filter is found", "kv/object.go",
		"return at != 0 && at <= now || o.header.Hidden", "return at != 0 && at <= now"),
	inLoading("a scan finds half-loaded filters", "kv/scan.go",
		"(h.Expiry == 0 || h.Expiry > r.now) && !h.Hidden", "(h.Expiry == 0 || h.Expiry > r.now)"),
	inLoading("data does not move the end of a half-loaded filter on", "scalableext/loading.go",
		"		return w.Hide(o, w.Now()+LoadTime.Milliseconds())\n", "		return nil\n"),
	inLoading("a half-loaded filter appears with the first data", "scalableext/loading.go",
		"if all[0] != (span{0, total}) {", "if len(all) == 0 {"),
	inLoading("a half-loaded filter whose time is over takes data", "kv/staged_keys.go",
		" || o.header.Expiry <= w.Now() {", " {"),
	inLoading("data may be of two layers", "scalableext/loading.go",
		"			if length > n-at {", "			if false {"),
	inLoading("any number of gaps is kept", "scalableext/loading.go",
		"	if len(all) > maxSpans {", "	if len(all) > 2*maxSpans {"),
	inLoading("a complete filter takes other slots", "cuckooext/load.go",
		"Put: putSlots, PutWhole: sameSlots,", "Put: putSlots, PutWhole: putSlots,"),
	inLoading("slots that come twice count twice", "cuckooext/load.go",
		"			case was[j] == 0:\n", "			case is[j] != 0:\n"),
	inLoading("slots that are empty the second time still count", "cuckooext/load.go",
		"			case is[j] == 0:\n				entries--\n", "			case is[j] == 0:\n"),
	inLoading("deletions are forgotten", "cuckooext/load.go",
		"deletesCounter, h.deletes)", "deletesCounter, 0)"),
	inLoading("layers of 4 GiB are loaded", "cuckooext/load.go",
		"high > 0 || slots >= slotsLimit {", "high > 0 || slots > 1<<40 {"),
	inNativeDump("a damaged chunk is taken", "scalableext/dump.go",
		"chunkSum(binary.LittleEndian.Uint32(stored), uint64(from), payload) != binary.LittleEndian.Uint32(data[end:])", "false"),
	inNativeDump("a chunk's place is not in its checksum", "scalableext/dump.go",
		"binary.LittleEndian.AppendUint32(nil, mark), offset)", "binary.LittleEndian.AppendUint32(nil, mark), 0*offset)"),
	inNativeDump("a chunk of another dump is taken", "scalableext/dump.go",
		"	b := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, mark), offset)", "	b := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, mark&0), offset)"),
	inNativeDump("a damaged header is taken", "scalableext/dump.go",
		"	if crc32.Checksum(b[:body], castagnoli) != binary.LittleEndian.Uint32(b[body:]) {", "	if false {"),
	inNativeDump("a cuckoo filter may change while it is dumped", "cuckooext/dump.go",
		"scalableext.NewDump(r, f.object, true)", "scalableext.NewDump(r, f.object, false)"),
	inNativeDump("a cuckoo filter may be compacted while it is dumped", "cuckooext/compact.go",
		"compactionsCounter, min(w.Counter(oldest, compactionsCounter)+1,", "compactionsCounter, min(w.Counter(oldest, compactionsCounter),"),
	inNativeDump("a Bloom filter may not grow fuller while it is dumped", "bloomext/dump.go",
		"scalableext.NewDump(r, f.object, false)", "scalableext.NewDump(r, f.object, true)"),
	inNativeDump("counters of a dump are forgotten", "scalableext/dump.go",
		"			if v != 0 && n != m.Counted {", "			if false {"),
	inNativeDump("bits of a dump count twice", "scalableext/dump.go",
		"			if v != 0 && n != m.Counted {", "			if v != 0 {"),
	inNativeDump("blocks of a dump are of 8 KiB", "scalableext/array.go",
		"{ return uint64(l.Spec().Lines) * lineLen }", "{ return max(uint64(l.Spec().Lines)*lineLen, min(blockLen, l.Spec().Blocks>>1<<13)) }"),
	inNativeDump("a part of a block is taken for a block", "cuckooext/load.go",
		"; at%uint64(size) != 0 || len(data)%size != 0 {", "; at > uint64(size)<<40 {"),
	inNativeDump("entries of a dump are not counted", "cuckooext/load.go",
		"			case old == 0:\n				entries++\n", "			case old == 0:\n"),
	inLoading("empty data is taken", "cuckooext/load.go",
		"	if len(data) == 0 { // RedisBloom", "	if false { // RedisBloom"),
	inLoading("a chunk of a dump begins where its iterator says", "cuckooext/dump.go",
		"			start, end = 0, l.capacity\n", "			end = l.capacity\n"),
	{name: "loading: a hidden object without an end is opened", pkg: "./kv/format", tests: "^TestHeader_refused$", edits: []edit{{"kv/format/format.go",
		" || h.Hidden && expiry == 0 ||", " ||"}}},
}

func inNativeDump(name, file, from, to string) mutation {
	return mutation{name: "dump: " + name, pkg: "./tests", tests: "^TestNativeDump", edits: []edit{{file, from, to}}}
}

func inLoading(name, file, from, to string) mutation {
	return mutation{name: "loading: " + name, pkg: "./cuckooext", tests: "^Test(LoadChunk|ScanDump)", edits: []edit{{file, from, to}}}
}
