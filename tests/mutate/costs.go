package main

// inCosts are mutations that make an operation cost more. Those of allocations are of lookups alone: the tests run
// without optimisation here, in which adds allocate several times as much.
func inCosts(name, tests string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./tests", tests: "^TestCosts_" + tests + "$"}
}

// costs are what keeps operations cheap.
var costs = []mutation{
	inCosts("a block that was read from disk is not kept", "blocksRead", edit{"kv/load.go",
		"	if !quiet {\n		return first, nil\n	}\n", "	if true {\n		return first, nil\n	}\n"}),
	inCosts("a load reads the block twice", "blocksRead", edit{"kv/load.go",
		"	first, err := db.readBlock(o, l, blk)\n", "	_, _ = db.readBlock(o, l, blk)\n	first, err := db.readBlock(o, l, blk)\n"}),
	inCosts("a lookup of many items reads blocks in their order", "blocksReadOnce", edit{"scalableext/batch.go",
		"return loadSorted(h, sortByBlock(items), present, load)", "return loadSorted(h, items, present, load)"}),
	inCosts("a block of bits has two operands", "entries", edit{"kv/commit.go",
		"		must(w.batch.Merge(w.scratch[:n], w.scratch[n:], nil))\n",
		"		must(w.batch.Merge(w.scratch[:n], w.scratch[n:], nil))\n		must(w.batch.Merge(w.scratch[:n], w.scratch[n:], nil))\n"}),
	inCosts("a block of slots has two operands", "entries", edit{"kv/slots.go",
		"		must(w.batch.Merge(w.scratch[:n], w.scratch[n:], nil))\n",
		"		must(w.batch.Merge(w.scratch[:n], w.scratch[n:], nil))\n		must(w.batch.Merge(w.scratch[:n], w.scratch[n:], nil))\n"}),
	inCosts("counters are written twice", "entries", edit{"kv/commit.go",
		"		if s := &w.layers[i]; s.counted {\n			w.scratch = storage",
		"		if s := &w.layers[i]; s.counted {\n			w.scratch = storage.SetCounters(w.batch, w.scratch, storage.LayerCounters{Layer: s.layer.stored(), Values: s.counters})\n			w.scratch = storage"}),
	inCosts("a lookup in a Bloom filter makes a filter", "allocationsOfLookups", edit{"bloomext/handle.go",
		"	if h.DB.Sampled(hash) {\n		c.touch(h.DB, hash)\n	}\n	// The fast path",
		"	made := *c\n	h.Current.Store(&made)\n	if h.DB.Sampled(hash) {\n		c.touch(h.DB, hash)\n	}\n	// The fast path"}),
	inCosts("a lookup in a cuckoo filter makes a filter", "allocationsOfLookups", edit{"cuckooext/handle.go",
		"	if present, known := c.Resident(hash); known {\n",
		"	made := *c\n	h.Current.Store(&made)\n	if present, known := c.Resident(hash); known {\n"}),
	inCosts("a lookup in a counting filter makes a filter", "allocationsOfLookups", edit{"countingext/handle.go",
		"	if present, known := c.Resident(hash); known {\n",
		"	made := *c\n	h.Current.Store(&made)\n	if present, known := c.Resident(hash); known {\n"}),
	inCosts("a load makes memory for five blocks", "allocationsOnDisk", edit{"kv/load.go",
		"	first, words := l.newBlock()\n	if !missing", "	for range 4 {\n		_, _ = l.newBlock()\n	}\n	first, words := l.newBlock()\n	if !missing"}),
}
