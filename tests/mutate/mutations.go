package main

import (
	"bytes"
	"fmt"
)

// mutation takes one protection away.
type mutation struct {
	name  string
	edits []edit
	pkg   string // of the tests that must notice
	tests string // a regular expression for their names
}

// edit replaces a piece of a file, which must be in it once.
type edit struct{ file, old, new string }

func (e edit) apply(data []byte) ([]byte, error) {
	if n := bytes.Count(data, []byte(e.old)); n != 1 {
		return nil, fmt.Errorf("%s has %d times, not once, the text\n%s", e.file, n, e.old)
	}
	return bytes.Replace(data, []byte(e.old), []byte(e.new), 1), nil
}

// protocols are the tests that force one order of steps each. They are fast, so
// every mutation faces all of them.
const protocols = "^Test(Load|Evict|EvictObject|Commit|Open|Read|Lookup|Fold|Acknowledge|Durable|View|Watch|Slots|Shrink|Compact)(_|$)"

func inKV(name string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./kv", tests: protocols}
}

func inCounting(name, tests string, e edit) mutation {
	return mutation{name: name, edits: []edit{e}, pkg: "./countingext", tests: tests}
}

func inServer(name, tests string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./server", tests: tests}
}

func inDecoder(name, old, changed string) mutation {
	return mutation{name: name, edits: []edit{{"server/resp/decoder.go", old, changed}}, pkg: "./server/resp", tests: "^TestDecoder(_|$)"}
}

var mutations = []mutation{
	// A loader installs what it read only if no commit was at work on the stripe
	// when it read, and none has begun since.
	inKV("a loader does not look at started again", edit{"kv/load.go",
		"installed := st.started.Load() == started && word",
		"installed := word"}),
	inKV("a loader installs what it read of a replaced object", edit{"kv/load.go",
		"&& word&seqOdd == 0 && db.word.Load() == word && !o.Ended() &&",
		"&& (word&seqOdd == 0 || true) &&"}),
	inKV("an answer from a renamed object rests on what that knew", edit{"kv/durable.go",
		"if o.Ended() {",
		"if false {"}),
	inKV("an error of a lookup that saw half a commit counts", edit{"kv/keys.go",
		"db.word.Load() == before || errors.Is(err, ErrClosed)",
		"db.word.Load() == before || err != nil || errors.Is(err, ErrClosed)"}),
	inKV("a loader does not look at finished", edit{"kv/load.go",
		"quiet := started == finished",
		"quiet := finished <= started"}),
	inKV("a loader looks at finished when it installs", edit{"kv/load.go",
		"if !quiet {",
		"if quiet = started == st.finished.Load(); !quiet {"}),
	inKV("a lookup shares a load begun before a commit", edit{"kv/load.go",
		"!steady && quiet && f.started == started",
		"!steady && quiet"}),

	// Commits that replace something hold apply exclusively, and the store's word
	// is odd meanwhile; lookups look at it again when they are done.
	inKV("a replacement holds apply shared", edit{"kv/commit.go",
		"		db.apply.Lock()\n		defer db.apply.Unlock()\n		db.word.Add(seqOdd)",
		"		db.apply.RLock()\n		defer db.apply.RUnlock()\n		db.word.Add(seqOdd)"}),
	inKV("a replacement leaves the word alone", edit{"kv/commit.go",
		"		db.word.Add(seqOdd)\n		defer db.word.Add(seqStep - seqOdd)\n",
		""}),
	inKV("a lookup does not look at the word again", edit{"kv/keys.go",
		"before&seqOdd == 0 && db.word.Load() == before ||",
		"before&seqOdd == 0 ||"}),
	inKV("a lookup begins during a replacement", edit{"kv/keys.go",
		"before&seqOdd == 0 && db.word.Load() == before ||",
		"db.word.Load() == before ||"}),

	// The watermark is raised by what a sync covered, and asked by all whose
	// answer rests on another's commit.
	inKV("the watermark after a shared sync is read after it", edit{"kv/durable.go",
		"return db.synced(uint64(b.SeqNum()) - 1)",
		"return db.synced(db.lastSeq.Load())"}),
	inKV("the watermark after a shared sync is one too high", edit{"kv/durable.go",
		"return db.synced(uint64(b.SeqNum()) - 1)",
		"return db.synced(uint64(b.SeqNum()))"}),
	inKV("the watermark after a commit's own sync is read after it", edit{"kv/commit.go",
		"return db.synced(last)",
		"return db.synced(db.lastSeq.Load())"}),
	inKV("an answer from memory does not wait for the watermark", edit{"kv/durable.go",
		"	if db.durable.Load() >= seq {\n		return nil\n	}",
		"	if true {\n		return nil\n	}"}),
	inKV("an answer of a writer without changes does not wait for the watermark", edit{"kv/writer.go",
		"	return w.db.awaitDurable(seq)\n",
		"	_ = seq\n	return nil\n"}),
	inKV("a writer that refuses does not wait for the watermark", edit{"kv/writer.go",
		"	if serr := w.settleAnswer(); serr != nil {\n		return serr\n	}\n	return err\n",
		"	return err\n"}),
	inKV("a commit does not count its sequence for the store", edit{"kv/commit.go",
		"	raise(&db.lastSeq, last)\n",
		""}),
	inKV("a commit does not count its sequence for the object", edit{"kv/patch.go",
		"		raise(&o.lastSeq, p.last)\n",
		""}),
	inKV("an object opened starts without a sequence", edit{"kv/keyspace.go",
		"			o.lastSeq.Store(db.lastSeq.Load())\n",
		""}),
	inKV("an object renamed starts without a sequence", edit{"kv/patch.go",
		"	o.lastSeq.Store(p.last)\n",
		""}),

	// Memory follows the log, and only the log.
	inKV("a commit patches memory before it is applied", edit{"kv/commit.go",
		"	db.pauseAt(\"commit: started\")\n",
		"	early := patcher{db: db}\n	for _, v := range w.views {\n		early.add(v.object)\n	}\n	early.patch(w.batch.Repr())\n	db.pauseAt(\"commit: started\")\n"}),
	inKV("a commit does not patch memory", edit{"kv/commit.go",
		"	p.patch(w.batch.Repr())\n",
		""}),

	// What leaves memory is what was to leave, and nobody is writing to it.
	inKV("the eviction of a block takes a newer one", edit{"kv/cache.go",
		"b.slot.CompareAndSwap(b.first, nil)",
		"b.slot.Store(nil)"}),
	inKV("the eviction of a chunk takes a newer one", edit{"kv/cache.go",
		"c.dir.CompareAndSwap(c.c, nil)",
		"c.dir.Store(nil)"}),
	inKV("an object is closed without the lock of its key", edit{"kv/keyspace.go",
		"	if !lock.TryLock() {\n		return false\n	}\n	defer lock.Unlock()\n",
		"	_ = lock\n"}),
	inKV("an object is opened with what was read before it was closed", edit{"kv/keyspace.go",
		"if sh.evictions == evictions {",
		"if sh.evictions >= evictions {"}),
	inKV("an object is opened twice", edit{"kv/keyspace.go",
		"if now := sh.objects[string(key)]; now != nil {",
		"if now := sh.objects[string(key)]; now != nil && false {"}),

	// A block is written whole under the lock of its key, from what is read
	// under that lock.
	inKV("a fold writes without the lock of the key", edit{"kv/fold.go",
		"	db.pauseAt(\"fold: read\")\n",
		"	w.unlock()\n	db.pauseAt(\"fold: read\")\n"}),
	inKV("a loader folds what it read", edit{"kv/load.go",
		"	db.pauseAt(\"load: read\")\n",
		"	db.pauseAt(\"load: read\")\n	_ = db.pebble.Set(appendBlockKey(nil, l.object, l.spec.Number, blk), block.AppendBlock(nil, o.header.family, l.Words(first)), pebble.NoSync)\n"}),

	inKV("a watch is told before memory is patched", edit{"kv/commit.go",
		"	db.pauseAt(\"commit: applied\")\n",
		"	w.tellWatches()\n	db.pauseAt(\"commit: applied\")\n"}, edit{"kv/commit.go",
		"	w.tellWatches() // not before: who began to watch after that would see what was not patched yet\n",
		""}),

	// Views: see kv/view.go.
	inKV("a view looks at the sequence of an object before it copies a block", edit{"kv/view.go",
		"		v.db.pauseAt(\"view: found\")\n",
		"		changed := live.lastSeq.Load() > v.seq\n		v.db.pauseAt(\"view: found\")\n"}, edit{"kv/view.go",
		"		if live.lastSeq.Load() > v.seq {\n",
		"		if changed {\n"}),

	// Blocks of slots: see kv/slots.go.
	inKV("blocks of slots have no version", edit{"kv/slots.go",
		"	for _, b := range w.slots {\n		if v := b.layer.versionOf",
		"	for _, b := range w.slots[:0] {\n		if v := b.layer.versionOf"}),
	inKV("the version of a block becomes odd when Pebble has the commit", edit{"kv/commit.go",
		"	defer finishVersions(w.startVersions())\n",
		""}, edit{"kv/commit.go",
		"	db.pauseAt(\"commit: applied\")\n",
		"	defer finishVersions(w.startVersions())\n	db.pauseAt(\"commit: applied\")\n"}),
	inKV("the version of a block becomes odd around the patch", edit{"kv/commit.go",
		"	defer finishVersions(w.startVersions())\n",
		""}, edit{"kv/commit.go",
		"	p.patch(w.batch.Repr())\n",
		"	odd := w.startVersions()\n	p.patch(w.batch.Repr())\n	finishVersions(odd)\n"}),
	inKV("a lookup in a cuckoo filter does not compare versions", edit{"cuckooext/filter.go",
		"!even || f.moved(h, before) {",
		"(!even || f.moved(h, before)) && false {"}),
	inKV("moves between blocks are not under the sequence lock", edit{"kv/slots.go",
		"{ w.sequence = true }",
		"{}"}),
	inKV("compacting is not under the sequence lock", edit{"kv/compact.go",
		"	w.sequence, w.unseen = true, true\n",
		"	w.unseen = true\n"}),
	inKV("compacting tells watches", edit{"kv/compact.go",
		"	w.sequence, w.unseen = true, true\n",
		"	w.sequence = true\n"}),
	inKV("a transaction on slots is not under the sequence lock", edit{"kv/commit.go",
		"(len(w.bits) > 0 || changesSlots)",
		"(len(w.bits) > 0 || changesSlots && false)"}),
	inKV("slots that are refused in a transaction stay", edit{"kv/slots.go",
		"if w.nest.tx == nil || b.nested == w.nest.id {",
		"if true {"}),
	inKV("slots are restored as the use of a transaction before left them only once", edit{"kv/slots.go",
		"b.nested == w.nest.id {",
		"b.nested != 0 {"}),
	inKV("a copy of a block that is made again lacks what changed", edit{"kv/slots.go",
		"	block.SetSlots(words, b.object.header.family, b.kept)\n",
		""}),
	inKV("a layer is taken away without its blocks", edit{"kv/compact.go",
		"		must(w.batch.DeleteRange(from, to, nil))\n",
		"		_, _ = from, to\n"}),
	inKV("a layer is taken away without its counters", edit{"kv/compact.go",
		"		w.delete(appendCountersKey(w.scratch[:0], d.object, d.layer))\n",
		""}),
	inKV("a copy of a new layer has what is stored under its number", edit{"kv/copy.go",
		"slices.Contains(w.fresh, from)",
		"from == nil"}),
	inKV("a copy lacks staged slots", edit{"kv/copy.go",
		"		if b.layer == from {\n",
		"		if b.layer == from && false {\n"}),
	{name: "layers of a cuckoo filter are independent", edits: []edit{{"cuckooext/geometry.go",
		"	blk, _ := bits.Mul64(h, blocks)\n",
		"	blk, _ := bits.Mul64(h*(2*blocks+1), blocks)\n"}}, pkg: "./cuckooext", tests: "^TestFilter_deleteKeepsOthers$"},
	{name: "a copy is deleted from the oldest layer", edits: []edit{{"cuckooext/filter.go",
		"		if s.c.g.find(l.words(first), p) < 0 {\n",
		"		if s.c.g.find(l.words(first), p) < 0 || i < len(s.c.layers)-1 && s.inOlder(i, h) {\n"}, {"cuckooext/filter.go",
		"// countDelete counts",
		"func (s *stager) inOlder(i int, h uint64) bool {\n	for i++; i < len(s.c.layers); i++ {\n		l := &s.c.layers[i]\n		p := s.c.g.place(h, l.blocks)\n		if first, err := s.w.Load(s.c.object, l.table, p.blk); err == nil && s.c.g.find(l.words(first), p) >= 0 {\n			return true\n		}\n	}\n	return false\n}\n\n// countDelete counts"}},
		pkg: "./cuckooext", tests: "^TestFilter_deleteKeepsOthers$"},
	inCounting("an item is deleted from the newest of several layers", "^TestFilter_deletesKept$", edit{
		"countingext/filter.go",
		"	if n == 1 {\n",
		"	if n >= 1 {\n"}),
	inCounting("counters that stick are counted down", "^TestFilter_stuckCountersGrow$", edit{
		"countingext/filter.go",
		"		if was == MaxCount {\n",
		"		if was == MaxCount && by > 0 {\n"}),
	inCounting("a lookup in counters does not compare versions", "^TestFilter_movedByOneCommit$", edit{
		"countingext/filter.go",
		"	return false, !f.moved(h, before)\n",
		"	return false, !f.moved(h, before) || true\n"}),
	inCounting("a batch is sorted where counters stick", "^TestFilter_AddMany_fullByStuckCounters$", edit{
		"countingext/handle.go",
		"s.load(newest)+2*uint64(len(items))",
		"w.Counter(newest.table, fillCounter)+uint64(len(items))"}),
	{name: "removing everything takes what was built since", edits: []edit{{"kv/writer.go",
		"range slices.Sorted(slices.Values(w.built)) {",
		"range []uint64(nil) {"}}, pkg: "./tests", tests: "^TestExec_flushAllBeforeBuilds$"},
	{name: "a transaction goes on where its context has ended", edits: []edit{{"txn/commands.go",
		"		if err := c.Context.Err(); err != nil {\n",
		"		if err := error(nil); err != nil {\n"}}, pkg: "./tests", tests: "^TestCommands_givenUp$"},

	// The number of keys that expire: see kv/expiring.go.
	{name: "the counting of keys that expire begins within a commit", edits: []edit{{"kv/expiring.go",
		"	db.apply.Lock()\n	defer db.apply.Unlock()\n",
		""}}, pkg: "./kv", tests: "^TestExpiringKeys_(begin|counting|concurrent)$"},
	{name: "keys that expired before everything was removed are counted", edits: []edit{{"kv/expiring.go",
		"	e.state = counted\n}",
		"	_ = counted\n}"}}, pkg: "./kv", tests: "^TestExpiringKeys_(begin|counting|concurrent)$"},

	// The replies to a pipeline are sent when its writes are on stable storage.
	inServer("the replies to a pipeline are sent without a sync", "^TestPipeline_(oneSync|crash)$", edit{"server/conn.go",
		"		if err := c.server.db.Sync(); err != nil {\n",
		"		if err := error(nil); err != nil {\n"}),
	inServer("each write of a pipeline is synced", "^TestPipeline_oneSync$", edit{"server/conn.go",
		"		level = kv.NoSync\n",
		"		level = kv.Always\n"}),
	inServer("a pipeline whose sync failed is answered", "^TestPipeline_failingSync$", edit{"server/conn.go",
		"			c.replaceWrites(kv.ErrorReply(err))\n",
		""}),
	inServer("the error of a sync comes after the reply that it replaces", "^TestPipeline_failingSync$", edit{"server/conn.go",
		"		out = append(out, c.out[end:w.start]...)\n",
		"		out = append(out, c.out[end:w.end]...)\n"}),
	inServer("EXEC is not a write", "^TestPipeline_failingSync$", edit{"server/conn.go",
		" || cmd.Name == \"EXEC\" }",
		" }"}),
	inServer("the reply QUEUED is that of a write", "^TestPipeline_failingSync$", edit{"server/conn.go",
		" && writes(cmd) && !queued {",
		" && writes(cmd) {"}),

	// Who may do what.
	inServer("commands are run before the password is given", "^TestAuth(_|$)", edit{"server/conn.go",
		"	if !c.authenticated && (cmd == nil",
		"	if false && (cmd == nil"}),
	inServer("any password is right", "^TestAuth(_|$)", edit{"server/client.go",
		"	return same && string(user) == defaultUser\n",
		"	return (same || true) && string(user) == defaultUser\n"}),
	inServer("any user has the password", "^TestAuth(_|$)", edit{"server/client.go",
		"	return same && string(user) == defaultUser\n",
		"	return same\n"}),
	inServer("the limits of those without the password go on after it", "^TestLimits_login$", edit{"server/conn.go",
		"		if stranger == c.authenticated {\n",
		"		if stranger == c.authenticated && false {\n"}),
	inServer("RESET leaves the password given", "^TestAuth(_|$)", edit{"server/conn.go",
		"	c.protocol, c.authenticated = 2, c.server.password() == \"\"\n",
		"	c.protocol = 2\n"}),
	inServer("anybody is served without a password", "^TestProtectedMode$", edit{"server/server.go",
		"!s.opts.ProtectedModeOff && !isLocal(nc) {",
		"!s.opts.ProtectedModeOff && !isLocal(nc) && false {"}),

	// What a client may take.
	inServer("half a command may take any time", "^TestHalfCommand$", edit{"server/limits.go",
		"		return c.partialSince.Add(allowed)\n",
		"		_ = allowed\n"}),
	inServer("the time for a command begins again with each byte", "^TestHalfCommand$", edit{"server/limits.go",
		"		if c.partialSince.IsZero() {\n",
		"		if true {\n"}),
	inServer("the time for the password begins again with each byte", "^TestLogin$", edit{"server/limits.go",
		"	login := c.strangerSince.Add(",
		"	login := now.Add("}),
	inServer("what a transaction has queued is not counted", "^TestMemory_transactions$", edit{"server/conn.go",
		"		c.queuedBytes += bytesOf(words, wordBytes)\n",
		""}),
	inServer("what is watched is not counted", "^TestMemory_transactions$", edit{"server/conn.go",
		"		c.queuedBytes += bytesOf(words[1:], watchBytes)\n",
		""}),
	inServer("what RESET takes back is still counted", "^TestMemory_transactionsEnd$", edit{"server/conn.go",
		"	c.leaveTransaction()\n	c.newSession()\n",
		"	c.newSession()\n"}),
	inServer("of those that wait for their turn the one goes first that has used most", "^TestTurns$", edit{"server/turns.go",
		"h[i].used < h[j].used", "h[i].used > h[j].used"}),
	inServer("a turn that takes long keeps its place", "^TestTurns(_|$)", edit{"server/turns.go",
		"time.Since(one.since) >= long", "false"}),
	inServer("who gives back a place that was lent frees one more", "^TestTurns_lent$", edit{"server/turns.go",
		"	if !one.lent {\n", "	if true {\n"}),
	inServer("a turn is kept while replies are sent", "^TestTurns_notRead$", edit{"server/conn.go",
		"	c.giveTurn() // the disk and the client may take their time\n", ""}),
	{name: "a view that is taken back stays", pkg: "./txn", tests: "^TestLargeString", edits: []edit{{"kv/nest.go",
		"	w.truncateViews(to.views)\n", ""}}},
	{name: "large strings are copied before they are counted", pkg: "./txn", tests: "^TestLargeString", edits: []edit{{"kv/keyspace.go",
		"len(h.params) > largeValue && large != nil", "false && large != nil"}}},
	inServer("large commands are not counted before they run", "^TestMemory_words$", edit{"server/limits.go",
		"	return c.charge(len(words) * runningBytes)\n", "	return nil\n"}),
	inServer("an idle connection keeps its buffer", "^TestMemory_idle$", edit{"server/conn.go",
		"		if c.in.Rest() {\n", "		if false {\n"}),
	inServer("replies grow without bound", "^TestMemory_growingReplies$", edit{"server/limits.go",
		"	return errReplies\n",
		"	return nil\n"}),

	// What clients see.
	inServer("EXEC leaves its keys watched", "^TestWatch$", edit{"txn/commands.go",
		"	s.queued, s.multi, s.aborted = nil, false, false\n	s.stopWatch()\n",
		"	s.queued, s.multi, s.aborted = nil, false, false\n"}),
	inServer("EXEC that did nothing answers no array in RESP2", "^TestWatch$", edit{"server/conn.go",
		"\"*-1\\r\\n\"",
		"\"$-1\\r\\n\""}),
	inServer("nil is that of RESP2 in RESP3", "^TestHello$", edit{"server/resp/append.go",
		"\"_\\r\\n\"",
		"\"$-1\\r\\n\""}),
	inServer("HELLO takes version 4", "^TestHello_refused$", edit{"server/client.go",
		"		if n != 2 && n != 3 {\n",
		"		if n < 2 || n > 4 {\n"}),
	inServer("HELLO sets the protocol before the password is right", "^TestHello(_|$)", edit{"server/client.go",
		"	if user != nil {\n",
		"	c.protocol = protocol\n	if user != nil {\n"}),

	// Commands are the same however they come.
	inDecoder("a word ends before the bytes after it have come",
		"d.bulk+len(\"\\r\\n\") {",
		"d.bulk {"),
	inDecoder("a line with a length ends before its last byte has come",
		"len(line)+len(\"\\r\\n\") {",
		"len(line)+1 {"),
	inDecoder("bytes looked at stay where they were when others move",
		"	d.seen -= d.start\n",
		""),
	inDecoder("a command that has begun gets the limits of the next",
		"		if d.pos == d.start {\n",
		"		if true {\n"),
}
