package main

// storage are what the store rests on when files fail or rot.
var storage = []mutation{
	// The seal: see internal/freeze/seal.go.
	{name: "a gap that a crash left in the sequences stays open", pkg: "./internal/storage", tests: "^TestSidecar_gap$", edits: []edit{{"internal/storage/meta.go",
		"	if s.reached > 0 && s.reached < next {\n", "	if s.reached > 0 && s.reached > next {\n"}}},
	inStore("the MANIFEST is not compared with its seal", "^TestRotManifest$", edit{"internal/storage/open.go",
		"	if err := s.Files.Verify(); err != nil {\n		return openError(s.Dir, err)\n	}\n",
		""}),
	inFreeze("a new MANIFEST is not sealed", edit{"internal/freeze/fs.go",
		"ok := manifestNumber(fs.PathBase(name)); ok && fs.keepsSeal()",
		"ok := manifestNumber(fs.PathBase(name)); ok && number == 0"}),
	inFreeze("a MANIFEST is sealed before it is synced", edit{"internal/freeze/seal.go",
		"		if err := sync(); err != nil {\n			return err\n		}\n		return f.fs.sealManifest(f.written)\n",
		"		if err := f.fs.sealManifest(f.written); err != nil {\n			return err\n		}\n		return sync()\n"}),
	inFreeze("the seal of the MANIFEST before is dropped", edit{"internal/freeze/seal.go",
		"			list = []sealed{old, m} // of two others, this keeps the newer one\n",
		""}),
	inFreeze("the directory is not synced after the seal", edit{"internal/freeze/seal.go",
		"	if err := fs.syncDir(); err != nil {\n		return err\n	}\n	fs.seal.list = list\n",
		"	fs.seal.list = list\n"}),
	inFreeze("the seal is not synced", edit{"internal/freeze/seal.go",
		"	if err = shortWrite(n, len(data), err); err == nil {\n		err = f.Sync()\n	}\n",
		"	err = shortWrite(n, len(data), err)\n"}),
	inFreeze("records found behind the seal are not synced", edit{"internal/freeze/seal.go",
		"errors.Join(f.Sync(), f.Close())",
		"f.Close()"}),
	inFreeze("records found behind the seal are not sealed", edit{"internal/freeze/seal.go",
		"	if whole != known {\n		return fs.sealFound",
		"	if known.length == 0 {\n		return fs.sealFound"}),
	inFreeze("the checksum of what is sealed is not compared", edit{"internal/freeze/seal.go",
		"part == beginning && whole != known",
		"part == beginning && whole.length != known.length"}),
	inFreeze("a marker of an older MANIFEST is believed", edit{"internal/freeze/seal.go",
		"n > 0 && number < list[n-1].number",
		"n > 0 && number < list[n-1].number && n > 9"}),
	inFreeze("an error of the seal does not freeze", edit{"internal/freeze/seal.go",
		"		return f.fs.sealManifest(f.written)\n",
		"		_ = f.fs.sealManifest(f.written)\n		return nil\n"}),

	inFreeze("a MANIFEST that was never in use takes the place of the one that is in the seal", edit{"internal/freeze/seal.go",
		"	s.list = []sealed{known}\n",
		"	s.list = list\n"}),

	// Damage in the middle of a log: see internal/freeze/log.go.
	inFreeze("damage in the middle of a log is not looked for", edit{"internal/freeze/fs.go",
		"if number, ok := logNumber(fs.PathBase(name)); ok {",
		"if number, ok := logNumber(fs.PathBase(name)); ok && false {"}),
	inFreeze("later chunks of the block do not vouch", edit{"internal/freeze/log.go",
		"if at%sector > sector-chunkHeadLen {",
		"if true {"}),
	inFreeze("a header that may be torn is believed", edit{"internal/freeze/log.go",
		"if at%sector > sector-chunkHeadLen {",
		"if false {"}),
	inFreeze("every later chunk vouches", edit{"internal/freeze/log.go",
		" && syncedTo(rest) > uint64(broken)",
		""}),
	inFreeze("chunks of an older log vouch", edit{"internal/freeze/log.go",
		" || binary.LittleEndian.Uint32(b[7:]) != number",
		""}),
	inFreeze("chunks whose checksum is wrong vouch", edit{"internal/freeze/log.go",
		"length > 0 && isWhole(rest[:length])",
		"length > 0 && (broken >= 0 || isWhole(rest[:length]))"}),

	// A store that has failed compacts nothing.
	inFailed("a failed store begins compactions", edit{"internal/storage/pebble.go",
		"return s.failure() == nil && !s.givenUp() || s.stalled.Load() == stalledByLevel0",
		"return !s.givenUp()"}),
	inFailed("a commit waits for ever for level 0 of a failed store", edit{"internal/storage/pebble.go",
		"return s.failure() == nil && !s.givenUp() || s.stalled.Load() == stalledByLevel0",
		"return s.failure() == nil && !s.givenUp()"}),
	inFailed("nobody looks at level 0 of a failed store", edit{"internal/storage/pebble.go",
		"		s.stalled.CompareAndSwap(stalled, stalledByLevel0)\n",
		""}),
	inFailed("a compaction that waits does not end with its store", edit{"internal/storage/store.go",
		"	defer context.AfterFunc(s.ending, cancel)()\n",
		""}),
	inFailed("a failure ends no compaction", edit{"internal/storage/store.go",
		"		s.end()\n",
		""}),
	inFailed("a commit that waits for level 0 has no compaction in memory", edit{"internal/storage/open.go",
		"	s.Files.KeepCompactions(s.mayCompact)\n",
		""}),
	inFailed("a compaction that a failure has ended names its end alone", edit{"internal/storage/store.go",
		"	if failure := s.failure(); failure != nil {\n		return failure\n	}\n",
		""}),
	{name: "an Open that fails leaves open what it has opened", pkg: "./tests", tests: "^TestFault_openLeavesNothing$", edits: []edit{{"internal/storage/open.go",
		"			err = errors.Join(err, s.closeAll())", "			_ = s.closeAll"}}},
	{name: "an Open that refuses a database keeps its lock", pkg: "./tests", tests: "^TestFault_openLeavesNothing$", edits: []edit{{"internal/storage/open.go",
		"		return errors.Join(err, s.ground.Close())\n	}\n	low", "		return err\n	}\n	low"}}},
	{name: "a frozen directory keeps what compactions write", edits: []edit{{"internal/freeze/fs.go",
		"	case !done && category == compactions && (fs.keep == nil || !fs.keep()):\n		return nil, ErrFrozen\n",
		""}}, pkg: "./internal/freeze", tests: "^TestFS_frozen_compaction$"},

	// Options.
	inOptions("any size of the cache is taken", edit{"kv/options.go",
		"	size(\"CacheSize\", o.CacheSize, minCacheSize, maxCacheSize)\n",
		""}),
	{name: "the number of counters overflows", edits: []edit{{"internal/residency/residency.go",
		"10*(budget/(8<<10))",
		"10*budget/(8<<10)"}}, pkg: "./internal/residency", tests: "^TestTouchCounters$"},
	inOptions("any limit of filters is taken", edit{"kv/options.go",
		"	if o.MaxFilterBytes > maxDiskSize {",
		"	if false {"}),
	inOptions("a size above its range is taken", edit{"kv/options.go",
		"value < low || value > high",
		"value < low"}),
	inOptions("only one problem is told", edit{"kv/options.go",
		"		if value < low || value > high {",
		"		if len(errs) == 0 && (value < low || value > high) {"}),
	inStore("files that look like parts of a database are taken for obsolete ones", "^TestFault_partOfStore$", edit{"internal/storage/foreign.go",
		"		if !left {", "		if !left && false {"}),
	inStore("what a crash left of a new store is taken for parts of a database", "^TestFault_newStoreBesideFiles$", edit{"internal/storage/foreign.go",
		"	return len(rest) == 0 ||", "	return"}),
	inStore("any file of a name that a crash leaves is taken for one", "^TestFault_partOfStore$", edit{"internal/storage/foreign.go",
		"bytes.Contains(rest, []byte(text))", "true"}),
	{name: "a reset of counts makes them negative", pkg: "./kv", tests: "^TestMetrics_resetMeanwhile$", edits: []edit{
		{"kv/metrics.go", "	p, cache := db.store.Metrics(), db.residency\n", "	p, cache := db.store.Metrics(), db.residency\n" +
			"	flushed, syncs = db.stats.flushedBefore.Load(), db.stats.syncsBefore.Load()\n"}}},
}

func inFreeze(name string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./internal/freeze", tests: "^(TestSeal|TestLog)_"}
}

func inStore(name, tests string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./tests", tests: tests}
}

func inOptions(name string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./kv", tests: "^TestOptions_"}
}

func inFailed(name string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./kv", tests: "^TestFailed_"}
}
