package main

// guards are single lines beside the read and commit protocols that a fault hides behind.
var guards = []mutation{
	{name: "a sweep removes a key whose note is gone", pkg: "./kv", tests: "^TestSweep_setMeanwhile$", edits: []edit{
		{"kv/expiry.go",
			"\tif err != nil || value == nil {\n\t\treturn false, err\n\t}\n\told :=",
			"\tif err != nil {\n\t\treturn false, err\n\t}\n\told :="},
	}},
	{name: "a sweep begins at the first note for ever", pkg: "./kv", tests: "^TestSweep_longKey$", edits: []edit{
		{"kv/expiry/hint.go",
			"\t}\n\th.from = End\n\treturn from",
			"\t}\n\treturn from"},
	}},
	{name: "a sweep does not lower the hint to what it leaves", pkg: "./kv", tests: "^TestExpiry$", edits: []edit{
		{"kv/expiry.go",
			"\tdb.expiry.Leave(next)\n",
			"\t_ = next\n\tdb.expiry.Leave(expiry.End)\n"},
	}},
	{name: "a sweep does not know of another that is under way", pkg: "./kv", tests: "^TestSweep_another$", edits: []edit{
		{"kv/expiry/hint.go",
			"due || h.sweeps > 0\n",
			"due\n"},
	}},
	{name: "a handle answers for a key that has expired", pkg: "./kv", tests: "^TestExpiry$", edits: []edit{
		{"kv/object.go", "return !o.ended() && !o.expiredBy(o.db.Now())", "return !o.ended()"},
	}},
	{name: "a list of keys in a transaction has its own time", pkg: "./kv", tests: "^TestAlone_oneTime$", edits: []edit{
		{"kv/transaction.go", "tx.w.Now(), large}", "tx.db.Now(), large}"},
	}},
	{name: "an expiry set in a transaction has its own time", pkg: "./kv", tests: "^TestAlone_oneTime$", edits: []edit{
		{"kv/expiry.go", "if at <= w.Now() {", "if at <= w.db.Now() {"},
	}},
	{name: "a lookup in a transaction has its own time", pkg: "./kv", tests: "^TestAlone_oneTime$", edits: []edit{
		{"kv/source.go", "return w.db.lookup(key, access{large: large}, now)", "return w.db.lookup(key, access{large: large}, w.db.Now())"},
	}},
	{name: "a deletion in a transaction has its own time", pkg: "./kv", tests: "^TestAlone_oneTime$", edits: []edit{
		{"kv/objects.go", "return !w.expired(old), w.fits()", "return !old.expiredBy(w.db.Now()), w.fits()"},
	}},
	{name: "a sweep is under way for ever", pkg: "./kv", tests: "^TestSweep_another$", edits: []edit{
		{"kv/expiry/hint.go",
			"\th.sweeps--\n",
			""},
	}},
	{name: "a sweep forgets keys that are locked", pkg: "./kv", tests: "^TestSweep_lockedMeanwhile$", edits: []edit{
		{"kv/expiry.go",
			"			db.expiry.Lower(n.Stored())\n		}\n	}\n	return free",
			"			_ = n.At\n		}\n	}\n	return free"},
	}},
	{name: "a sweep waits for the lock of a key", pkg: "./kv", tests: "^TestSweep_lockedMeanwhile$", edits: []edit{
		{"kv/expiry.go",
			"\t\tcase free && db.keyLocks[i].TryLock():\n",
			"\t\tcase free && func() bool { db.keyLocks[i].Lock(); return true }():\n"},
	}},
	{name: "a sweep removes keys whose locks it has not", pkg: "./kv", tests: "^TestSweep_lockedMeanwhile$", edits: []edit{
		{"kv/expiry.go",
			"\t\t\tif !slices.Contains(w.keys, db.keyLockIndex(n.Key)) {\n\t\t\t\tcontinue\n\t\t\t}\n",
			""},
	}},
	{name: "a sweep removes keys before their time", pkg: "./kv", tests: "^TestExpiry$", edits: []edit{
		{"kv/expiry/notes.go",
			"\t\tif at > b.Now || len(notes)",
			"\t\tif at > b.Now+1 || len(notes)"},
	}},
	{name: "a sweep takes keys of any length", pkg: "./kv", tests: "^TestSweep_longKeys$", edits: []edit{
		{"kv/expiry/notes.go",
			" || room < 0 && len(notes) > 0 {",
			" {"},
	}},
	{name: "a sweep that cannot take one key takes none", pkg: "./kv", tests: "^TestSweep_longKey$", edits: []edit{
		{"kv/expiry/notes.go",
			"room < 0 && len(notes) > 0 {",
			"room < 0 {"},
	}},
	{name: "a sweep takes any number of keys", pkg: "./kv", tests: "^TestSweep_few$", edits: []edit{
		{"kv/expiry/notes.go",
			"len(notes) == b.Notes ||",
			"false ||"},
	}},
	{name: "a sweep leaves the object of a key", pkg: "./kv", tests: "^TestExpiry$", edits: []edit{
		{"kv/expiry.go",
			"\t\tw.dropObject(old)\n\t\tw.setKey(n.Key, nil)\n\t\treturn true, nil",
			"\t\tw.setKey(n.Key, nil)\n\t\treturn true, nil"},
	}},
	{name: "a sweep does not take filters for what they are", pkg: "./kv", tests: "^TestExpiry$", edits: []edit{
		{"kv/expiry.go",
			"\tif n.Object = len(value) > 0; n.Object {",
			"\tif n.Object = false; n.Object {"},
	}},
	{name: "a time that has passed is set", pkg: "./kv", tests: "^TestExpire_now$", edits: []edit{
		{"kv/expiry.go",
			"\tif at <= w.Now() {",
			"\tif at < w.db.Now() {"},
	}},
	{name: "EXPIRE does not look at its condition", pkg: "./kv", tests: "^TestExpire_now$", edits: []edit{
		{"kv/expiry.go",
			"|| !cond.Holds(o.header.Expiry, at) {",
			"|| false {"},
	}},
	{name: "a commit does not lower the hint of notes", pkg: "./kv", tests: "^TestSweep_earlierTimes$", edits: []edit{
		{"kv/apply.go",
			"\t\t\tp.db.expiry.Lower(key)\n",
			""},
	}},
	{name: "a commit does not count the notes it writes", pkg: "./kv", tests: "^TestExpiringKeys_counting$", edits: []edit{
		{"kv/apply.go",
			"\t\t\tp.db.expiring.Add(1)\n",
			"\t\t\t_ = key\n"},
	}},
	{name: "a commit does not count the notes it takes away", pkg: "./kv", tests: "^TestExpiringKeys_counting$", edits: []edit{
		{"kv/apply.go",
			"\t\t\tp.db.expiring.Add(-1)\n",
			"\t\t\t_ = key\n"},
	}},
	{name: "removing everything leaves the count of notes", pkg: "./kv", tests: "^TestExpiringKeys_counting$", edits: []edit{
		{"kv/apply.go",
			"\t\t\tp.db.expiring.None()\n",
			"\t\t\t_ = key\n"},
	}},
	{name: "notes of keys that do not expire any more stay", pkg: "./kv", tests: "^TestExpire_now$", edits: []edit{
		{"kv/staged_keys.go",
			"	if was != 0 {\n		w.delete(format.AppendExpiryKey",
			"	if was != 0 && is != 0 {\n		w.delete(format.AppendExpiryKey"},
	}},
	{name: "counting goes on when everything was removed", pkg: "./kv", tests: "^TestExpiringKeys_counting$", edits: []edit{
		{"kv/expiry/count.go",
			"\tif c.state != counting {\n\t\treturn false // meanwhile every key was removed\n\t}\n",
			""},
	}},
	{name: "keys that expire are counted to the end while the store is closed", pkg: "./kv", tests: "^TestExpiringKeys_counting$", edits: []edit{
		{"kv/expiring.go",
			"return !db.closing.Load()",
			"return true"},
	}},
	{name: "a watch looks at its key before it is registered", pkg: "./txn", tests: "^TestWatch$", edits: []edit{
		{"kv/watch.go",
			"\t// The watch is in place before this lookup, so it is marked by every change after it.\n\tn, err := x.db.Exists(key)\n\tif err != nil {\n\t\treturn err\n\t}\n\tx.keys[string(key)] = n > 0\n\treturn nil",
			"\treturn nil"},
	}},
	{name: "a watch is not told of changes", pkg: "./txn", tests: "^TestWatch$", edits: []edit{
		{"kv/watch/table.go",
			"\t\tmark.Store(true)\n",
			"\t\t_ = mark\n"},
	}},
	{name: "a watch does not look whether keys have expired", pkg: "./txn", tests: "^TestWatch_expired$", edits: []edit{
		{"kv/watch.go",
			"o == nil {\n\t\t\treturn true, err\n",
			"o == nil {\n\t\t\treturn err != nil, err\n"},
	}},
	{name: "a key that was missing counts as changed when it is missing", pkg: "./txn", tests: "^TestWatch$", edits: []edit{
		{"kv/watch.go",
			"\t\tif !there {\n\t\t\tcontinue\n\t\t}\n",
			"\t\t_ = there\n"},
	}},
	{name: "the removal of what had expired counts as a change", pkg: "./txn", tests: "^TestWatch_expired$", edits: []edit{
		{"kv/watch.go",
			"v.stored != nil && !w.expired(v.stored)",
			"v.stored != nil"},
	}},
	{name: "a watch is told of what is looked at", pkg: "./txn", tests: "^TestWatch$", edits: []edit{
		{"kv/watch.go",
			"if v.changed && there ||",
			"if there ||"},
	}},
	{name: "EXEC does not look whether watched keys were changed", pkg: "./txn", tests: "^TestWatch$", edits: []edit{
		{"txn/commands.go",
			"\t\t\tif err == nil && changed {",
			"\t\t\tif changed && false {"},
	}},
	{name: "UNWATCH leaves the watch", pkg: "./txn", tests: "^TestWatch$", edits: []edit{
		{"txn/commands.go",
			"\tof(c).stopWatch()\n",
			"\t_ = of(c)\n"},
	}},
	{name: "DISCARD leaves what was queued", pkg: "./txn", tests: "^TestMulti$", edits: []edit{
		{"txn/commands.go",
			"\ts.end(c.Session)\n\treturn reply.OK",
			"\t_ = s\n\treturn reply.OK"},
	}},
	{name: "EXEC runs what was queued after an error", pkg: "./txn", tests: "^TestMulti$", edits: []edit{
		{"txn/commands.go",
			"\tif s.aborted {\n",
			"\tif false {\n"},
	}},
	{name: "EXEC with words goes on", pkg: "./txn", tests: "^TestMulti_refused$", edits: []edit{
		{"txn/commands.go",
			"func endTransaction(c *module.Call) { of(c).end(c.Session) }\n",
			"func endTransaction(c *module.Call) { _ = of(c) }\n"},
	}},
	{name: "a command that is not allowed in MULTI does not abort it", pkg: "./txn", tests: "^TestMulti_refused$", edits: []edit{
		{"txn/commands.go",
			"\t\ts.aborted = true\n\t\treturn reply.Error(\"ERR Command",
			"\t\treturn reply.Error(\"ERR Command"},
	}},
	{name: "words of queued commands are borrowed", pkg: "./txn", tests: "^TestMulti_refused$", edits: []edit{
		{"txn/commands.go",
			"\t\town[i] = append([]byte{}, arg...)",
			"\t\town[i] = arg"},
	}},
	{name: "WATCH is queued", pkg: "./txn", tests: "^TestMulti$", edits: []edit{
		{"txn/commands.go",
			"\tcase \"WATCH\":\n\t\treturn reply.Error(\"ERR WATCH inside MULTI is not allowed\"), true\n",
			""},
	}},
	{name: "MULTI is nested", pkg: "./txn", tests: "^TestMulti$", edits: []edit{
		{"txn/commands.go",
			"\tcase \"MULTI\":\n\t\treturn reply.Error(\"ERR MULTI calls can not be nested\"), true\n",
			""},
	}},
	{name: "a transaction is begun inside another", pkg: "./txn", tests: "^TestTx_misuse$", edits: []edit{
		{"kv/transaction.go",
			"\tif ctx.Value(inTransaction{}) != nil {",
			"\tif false {"},
	}},
	{name: "a view stays open", pkg: "./txn", tests: "^TestTx_ends$", edits: []edit{
		{"kv/transaction.go",
			"\tdefer func() { _ = tx.Rollback() }() // it cannot fail without a writer\n",
			""},
	}},
	{name: "a change that failed stays", pkg: "./txn", tests: "^TestTx_takenBack$", edits: []edit{
		{"kv/savepoint.go",
			"\t\tif !staged {\n\t\t\tw.rollBack()\n",
			"\t\tif !staged {\n"},
	}},
	{name: "a build is not known to be under way", pkg: "./kv", tests: "^TestReclaim_building$", edits: []edit{
		{"kv/build.go",
			"\tw.db.building.Store(id, struct{}{})\n",
			""},
	}},
	{name: "a build that has ended counts as under way", pkg: "./kv", tests: "^TestReclaim_givenUp$", edits: []edit{
		{"kv/writer.go",
			"\t\tw.db.building.Delete(id)\n",
			"\t\t_ = id\n"},
	}},
	{name: "what was built is removed by a note that is gone", pkg: "./kv", tests: "^TestReclaim_builtMeanwhile$", edits: []edit{
		{"kv/reclaim.go",
			"\tif errors.Is(err, storage.ErrNotFound) {\n\t\treturn true, nil\n\t}\n\tif err != nil {\n\t\treturn false, storage.ReadError(err, \"note",
			"\tif errors.Is(err, storage.ErrNotFound) {\n\t\tcloser, err = io.NopCloser(nil), nil\n\t}\n\tif err != nil {\n\t\treturn false, storage.ReadError(err, \"note"},
		{"kv/reclaim.go",
			"\t\"errors\"\n",
			"\t\"errors\"\n\t\"io\"\n"},
	}},
	{name: "what was not built to the end stays", pkg: "./kv", tests: "^TestReclaim_givenUp$", edits: []edit{
		{"kv/reclaim.go",
			"	must(b.DeleteRange(format.AppendObjectKey(nil, object), format.AppendObjectKey(nil, object+1), nil))\n	must(b.Set(note",
			"	must(b.Set(note"},
	}},
	{name: "what was not built to the end is removed again and again", pkg: "./kv", tests: "^TestReclaim_givenUp$", edits: []edit{
		{"kv/reclaim.go",
			"\tmust(b.Set(note, nil, nil))\n",
			""},
	}},
	{name: "notes of what was reclaimed stay", pkg: "./kv", tests: "^TestReclaim_givenUp$", edits: []edit{
		{"kv/reclaim.go",
			"		must(b.Delete(format.AppendDroppedKey(nil, object), nil))\n",
			"		_ = object\n"},
	}},
	{name: "an object that was dropped leaves no note", pkg: "./kv", tests: "^TestReclaim_many$", edits: []edit{
		{"kv/objects.go",
			"		w.set(format.AppendDroppedKey(w.scratch[:0], id), nil)\n	}\n	for _, a",
			"		_ = id\n	}\n	for _, a"},
	}},
	{name: "an object that was built keeps its note", pkg: "./kv", tests: "^TestReclaim_building$", edits: []edit{
		{"kv/objects.go",
			"		w.delete(format.AppendDroppedKey(w.scratch[:0], id))\n",
			"		_ = id\n"},
	}},
	{name: "what belongs to a dropped object stays", pkg: "./kv", tests: "^TestExpiry$", edits: []edit{
		{"kv/objects.go",
			"\tfor _, id := range w.drops {\n\t\tstorage.DeleteAll(",
			"\tfor _, id := range w.drops[:0] {\n\t\tstorage.DeleteAll("},
	}},
	{name: "a build writes no note", pkg: "./kv", tests: "^TestReclaim_givenUp$", edits: []edit{
		{"kv/build.go",
			"		must(b.batch.Set(format.AppendDroppedKey(nil, l.object), []byte{format.DroppedUnwritten}, nil))\n",
			""},
	}},
	{name: "a build that fails leaves no note", pkg: "./kv", tests: "^TestBuild_refused$", edits: []edit{
		{"kv/build.go",
			"\t\tnote := w.db.set(format.AppendDroppedKey(nil, id), []byte{format.DroppedUnwritten})\n",
			"\t\tnote := error(nil)\n"},
	}},
	{name: "a build goes on while the disk is full", pkg: "./kv", tests: "^TestBuild_fullDisk$", edits: []edit{
		{"kv/build.go",
			"	if db.store.Space.Full() {\n		return db.noSpace()\n	}\n",
			""},
	}},
	{name: "the end of a build is not written", pkg: "./kv", tests: "^TestBuild_fullDisk$", edits: []edit{
		{"kv/build.go",
			"\tif err == nil {\n\t\terr = b.flush()\n\t}\n\tif err != nil { //",
			"\tif err != nil { //"},
	}},
	{name: "the one block of a layer that is built is not in memory", pkg: "./kv", tests: "^TestCopy$", edits: []edit{
		{"kv/build.go",
			"\t\tl.one.Store(first)\n",
			"\t\t_ = first\n"},
	}},
	{name: "a copy replaces what is there", pkg: "./kv", tests: "^TestCopy$", edits: []edit{
		{"kv/copy.go",
			"to.object != nil && !replace || ",
			"to.object != nil && false || "},
	}},
	{name: "a copy has no counters", pkg: "./kv", tests: "^TestCopy$", edits: []edit{
		{"kv/copy.go",
			"if v := w.Counter(l, c); v != 0 {",
			"if v := w.Counter(l, c); v != v {"},
	}},
	{name: "a copy has blocks as stored that the writer has changed", pkg: "./kv", tests: "^TestSlots_copied$", edits: []edit{
		{"kv/copy.go",
			"if err != nil || staged[k.Rest] {",
			"if err != nil {"},
	}},
	{name: "a block that took long to read is not folded", pkg: "./kv", tests: "^TestFold$", edits: []edit{
		{"kv/load.go",
			"\t\tdb.queueFold(o.key, l.object, l.spec.Number, blk)\n",
			"\t\t_ = l\n"},
	}},
	{name: "an object that needs more compacting is forgotten", pkg: "./kv", tests: "^TestCompact_queued$", edits: []edit{
		{"kv/compact.go",
			"\t\tif again {\n",
			"\t\tif again && false {\n"},
	}},
	{name: "what failed to compact stays", pkg: "./kv", tests: "^TestCompact_error$", edits: []edit{
		{"kv/compact.go",
			"\t\t\treturn fmt.Errorf(\"compact %q: %w\", key, err)\n",
			"\t\t\tdb.opts.Logger.Error(\"compact\", \"error\", fmt.Errorf(\"compact %q: %w\", key, err))\n\t\t\treturn nil\n"},
	}},
	{name: "the last layer is removed", pkg: "./kv", tests: "^TestShrink_last$", edits: []edit{
		{"kv/compact.go",
			"\tif last < 1 {",
			"\tif false {"},
	}},
	{name: "locks are taken in any order", pkg: "./kv", tests: "^TestCommit_manyObjects$", edits: []edit{
		{"kv/writer.go",
			"\tslices.Sort(w.keys)\n",
			""},
	}},
	{name: "what a rename replaces stays", pkg: "./kv", tests: "^TestGather_remove$", edits: []edit{
		{"kv/objects.go",
			"\tif old != nil {\n\t\tw.dropObject(old)\n\t}\n\tw.setKey(src, nil)",
			"\t_ = old\n\tw.setKey(src, nil)"},
	}},
	{name: "what is replaced stays", pkg: "./kv", tests: "^TestGather_remove$", edits: []edit{
		{"kv/objects.go",
			"\tif old != nil {\n\t\tw.dropObject(old)\n\t}\n\tw.setKey(key, o)",
			"\t_ = old\n\tw.setKey(key, o)"},
	}},
	{name: "the number of keys is not stored", pkg: "./kv", tests: "^TestAcknowledge_firstNotSynced$", edits: []edit{
		{"kv/commit.go",
			"		w.set(format.AppendKeyCountKey(w.scratch[:0], g.group), binary.AppendUvarint(nil, n))\n",
			"		_ = n\n"},
	}},
	{name: "the store is closed twice", pkg: "./kv", tests: "^TestClose_transactionBegins$", edits: []edit{
		{"kv/db.go",
			"\tif !db.closing.CompareAndSwap(false, true) {",
			"\tif false {"},
	}},
	{name: "an evicted object may be patched by who found it", pkg: "./kv", tests: "^TestOpen_writtenAndClosedMeanwhile$", edits: []edit{
		{"kv/keyspace.go",
			"\tdelete(sh.objects, o.key)\n\tsh.evictions++\n",
			"\tdelete(sh.objects, o.key)\n"},
	}},
	{name: "what is removed takes what is there by now", pkg: "./kv", tests: "^TestEvictObject_openedAgain$", edits: []edit{
		{"kv/residency/residency.go",
			"\tif now, ok := r.cache.Get(key); ok && now == v {",
			"\tif _, ok := r.cache.Get(key); ok {"},
	}},
	{name: "a transaction is open after its end", pkg: "./txn", tests: "^TestTx_takenBack$", edits: []edit{
		{"kv/transaction.go",
			"\ttx.ended = ErrEnded\n",
			"\t_ = ErrEnded\n"},
	}},
	{name: "a transaction goes on when its context has ended", pkg: "./txn", tests: "^TestTx_misuse$", edits: []edit{
		{"kv/transaction.go",
			"\ttx.stop = context.AfterFunc(ctx, func() { tx.end(context.Cause(ctx)) })\n",
			"\ttx.stop = func() bool { return true }\n"},
	}},
	{name: "a transaction begins where its context has ended", pkg: "./txn", tests: "^TestTx_ends$", edits: []edit{
		{"kv/transaction.go",
			"\treturn ctx.Err()\n",
			"\treturn nil\n"},
	}},
	{name: "a view takes writes", pkg: "./txn", tests: "^TestTx_misuse$", edits: []edit{
		{"kv/transaction.go",
			"\t\treturn ErrReadOnly\n",
			"\t\treturn nil\n"},
	}},
	{name: "a transaction that has ended reads", pkg: "./txn", tests: "^TestTx_ends$", edits: []edit{
		{"kv/transaction.go",
			"\tif tx.ended != nil {\n\t\treturn tx.ended\n\t}\n\ttx.uses.Begin()\n\tdefer tx.uses.End()\n\tif err := tx.db.awaitSequence",
			"\ttx.uses.Begin()\n\tdefer tx.uses.End()\n\tif err := tx.db.awaitSequence"},
	}},
	{name: "a transaction begun while the store is closed goes on", pkg: "./kv", tests: "^TestClose_transactionBegins$", edits: []edit{
		{"kv/transaction.go",
			"\tif db.closing.Load() {\n\t\ttx.end(ErrClosed)\n\t}\n",
			""},
	}},
	{name: "EXEC of reads answers that a key was changed before that is durable", pkg: "./kv", tests: "^TestAcknowledge_exec$", edits: []edit{
		{"txn/commands.go",
			"\t\tif serr := c.DB.Settle(c.Level()); serr != nil {\n",
			"\t\tif serr := error(nil); serr != nil {\n"},
	}},
	{name: "a watch that has ended stays", pkg: "./kv", tests: "^TestWatch_changes$", edits: []edit{
		{"kv/watch/table.go",
			"\tdelete(s.byKey[key], mark)\n",
			""},
	}},
	{name: "the end of a watch ends others of the key", pkg: "./kv", tests: "^TestWatch_changes$", edits: []edit{
		{"kv/watch/table.go",
			"\tif len(s.byKey[key]) == 0 {\n",
			"\tif true {\n"},
	}},
	{name: "a commit waits for those who watch other keys", pkg: "./kv/watch", tests: "^TestTable_shards$", edits: []edit{
		{"kv/watch/table.go",
			"%numShards]",
			"%1]"},
	}},
	{name: "a watch is not told of adds", pkg: "./txn", tests: "^TestWatch$", edits: []edit{
		{"kv/watch.go",
			"changed[v.object.header.ID] {",
			"changed[v.object.header.ID] && false {"},
	}},
	{name: "a watch is not told of bits alone", pkg: "./kv", tests: "^TestWatch_changes$", edits: []edit{
		{"kv/staged.go",
			"(s.counted || s.bits > 0) && s.layer", "s.counted && s.layer"},
	}},
	{name: "a watch is not told of slots alone", pkg: "./kv", tests: "^TestWatch_changes$", edits: []edit{
		{"kv/staged.go",
			"\t\t\tids[b.layer.object] = true\n",
			"\t\t\t_ = ids\n"},
	}},
	{name: "a commit of a transaction is seen item by item", pkg: "./kv", tests: "^TestSlots_seenTogether$", edits: []edit{
		{"kv/commit.go",
			"\tif w.gate == gateExclusive && (w.bitCount",
			"\tif false && (w.bitCount"},
	}},
	{name: "counters that are taken back stay", pkg: "./txn", tests: "^TestTx_takenBack$", edits: []edit{
		{"kv/staged.go",
			"\t\ts.counters, s.counted, s.counting = counters, counted, counting\n",
			"\t\ts.counting = counting\n\t\t_, _ = counters, counted\n"},
	}},
	{name: "views that change are not restored", pkg: "./txn", tests: "^TestTx_takenBack$", edits: []edit{
		{"kv/savepoint.go",
			"\tw.onUndo(func() { *w.keyOf([]byte(old.key)) = old })\n",
			"\t_ = old\n"},
	}},
	{name: "layers that are dropped and taken back stay dropped", pkg: "./txn", tests: "^TestTx_takenBack$", edits: []edit{
		{"kv/staged.go",
			"\t\tw.layers[i].gone = false\n",
			""},
	}},
	{name: "what is taken back leaves what others had staged changed", pkg: "./txn", tests: "^TestTx_takenBack$", edits: []edit{
		{"kv/savepoint.go",
			"\tfor _, undo := range slices.Backward(w.savepoint.undo) {\n\t\tundo()\n\t}\n",
			"\t_ = slices.Backward(w.savepoint.undo)\n"},
	}},
	{name: "slots that are taken back stay staged", pkg: "./kv", tests: "^TestSlots_manyBlocks$", edits: []edit{
		{"kv/slots.go",
			"\t\tb.log, b.words = b.log[:b.saved], nil\n",
			"\t\tb.words = nil\n"},
	}},
	{name: "copies of blocks stay when slots are taken back", pkg: "./kv", tests: "^TestSlots_manyBlocks$", edits: []edit{
		{"kv/slots.go",
			"\t\tb.log, b.words = b.log[:b.saved], nil\n",
			"\t\tb.log = b.log[:b.saved]\n"},
	}},
	{name: "what is staged for a layer that is taken away is written", pkg: "./kv", tests: "^TestShrink_numberUsedAgain$", edits: []edit{
		{"kv/staged.go",
			"\tw.layers[i].gone = true\n",
			"\t_ = w.layers\n"},
	}},
	{name: "a change goes on in a frozen directory", pkg: "./kv/freeze", tests: "^TestFS_callback$", edits: []edit{
		{"kv/freeze/fs.go",
			"\tif fs.failure.Load() != nil {\n\t\treturn false, nil\n\t}\n\treturn true, op()",
			"\treturn true, op()"},
	}},
	{name: "others are told of a freeze before the store is", pkg: "./kv/freeze", tests: "^TestFS_callback$", edits: []edit{
		{"kv/freeze/fs.go",
			"\tif done, err = fs.changeIfNotFrozen(op); !done {\n\t\t<-fs.told\n\t}\n\treturn",
			"\tdone, err = fs.changeIfNotFrozen(op)\n\treturn"},
	}},
	{name: "a second freeze does not wait for the first", pkg: "./kv/freeze", tests: "^TestFS_callback$", edits: []edit{
		{"kv/freeze/fs.go",
			"\tif !fs.failure.CompareAndSwap(nil, &err) {\n\t\t<-fs.told\n\t\treturn\n\t}\n",
			"\tif !fs.failure.CompareAndSwap(nil, &err) {\n\t\treturn\n\t}\n"},
	}},
	{name: "a failed write of a table freezes at once", pkg: "./kv/freeze", tests: "^TestFS_files$", edits: []edit{
		{"kv/freeze/fs.go",
			"(!fs.open.Load() || !waits && fs.failures.Add(1) >= maxFailures)",
			"(waits || !waits)"},
	}},
	{name: "a failed write of a table while the store is opened does not freeze", pkg: "./kv/freeze", tests: "^TestFS_opening$", edits: []edit{
		{"kv/freeze/fs.go",
			"(!fs.open.Load() || ",
			"("},
	}},
	{name: "tables that fail for ever do not freeze", pkg: "./kv/freeze", tests: "^TestFS_tables_failing$", edits: []edit{
		{"kv/freeze/fs.go",
			" && fs.failures.Add(1) >= maxFailures)",
			" && false)"},
	}},
	{name: "a full disk freezes for tables", pkg: "./kv/freeze", tests: "^TestFS_tables_failing$", edits: []edit{
		{"kv/freeze/fs.go",
			"vfs.IsNoSpaceError(err) || lacksDescriptor(err)",
			"lacksDescriptor(err)"},
	}},
	{name: "a table that was completed does not count", pkg: "./kv/freeze", tests: "^TestFS_tables_failing$", edits: []edit{
		{"kv/freeze/fs.go",
			"\tif done && err == nil {\n\t\tfs.failures.Store(0)",
			"\tif false {\n\t\tfs.failures.Store(0)"},
	}},
	{name: "a table is not made in a frozen directory", pkg: "./kv/freeze", tests: "^TestFS_frozen_Pebble$", edits: []edit{
		{"kv/freeze/fs.go",
			"\t\treturn fs.tables.Create(fs.PathBase(name), vfs.WriteCategoryUnspecified)\n",
			"\t\treturn nil, ErrFrozen\n"},
	}},
	{name: "a table made in a frozen directory is not found", pkg: "./kv/freeze", tests: "^TestFS_frozen_Pebble$", edits: []edit{
		{"kv/freeze/fs.go",
			"\tif fs.inMemory(name) {\n\t\treturn fs.tables.Open(fs.PathBase(name))\n\t}\n",
			""},
	}},
	{name: "the size of a table made in a frozen directory is not told", pkg: "./kv/freeze", tests: "^TestFS_frozen_tables$", edits: []edit{
		{"kv/freeze/fs.go",
			"\tif fs.inMemory(name) {\n\t\treturn fs.tables.Stat(fs.PathBase(name))\n\t}\n",
			""},
	}},
	{name: "a link is made into a frozen directory", pkg: "./kv/freeze", tests: "^TestFS_frozen_tables$", edits: []edit{
		{"kv/freeze/fs.go",
			"\tif !done {\n\t\treturn ErrFrozen\n\t}\n\treturn err\n}\n\n// Rename",
			"\t_ = done\n\treturn err\n}\n\n// Rename"},
	}},
	{name: "syncs of the directory fail", pkg: "./kv/freeze", tests: "^TestFS_OpenDir$", edits: []edit{
		{"kv/freeze/fs.go",
			"\treturn &dirFile{File: f, fs: fs}, nil",
			"\treturn f, nil"},
	}},
	{name: "renames of vital files fail", pkg: "./kv/freeze", tests: "^TestFS_Rename_failing$", edits: []edit{
		{"kv/freeze/fs.go",
			"\tif isVital(fs.PathBase(oldname)) || isVital(fs.PathBase(newname)) {",
			"\tif false {"},
	}},
	{name: "a temporary file may fail", pkg: "./kv/freeze", tests: "^TestFS_Create_failing$", edits: []edit{
		{"kv/freeze/fs.go",
			" || strings.HasSuffix(entry, \".dbtmp\") ||",
			" ||"},
	}},
	{name: "the manifest may fail", pkg: "./kv/freeze", tests: "^TestFS_frozen_Pebble$", edits: []edit{
		{"kv/freeze/fs.go",
			"\treturn strings.HasSuffix(entry, \".log\") || strings.HasSuffix(entry, \".dbtmp\") ||\n\t\tstrings.HasPrefix(entry, \"MANIFEST-\") || ",
			"\treturn strings.HasSuffix(entry, \".log\") || strings.HasSuffix(entry, \".dbtmp\") ||\n\t\t"},
	}},
	{name: "options may fail", pkg: "./kv/freeze", tests: "^TestFS_Create_failing$", edits: []edit{
		{"kv/freeze/fs.go",
			"strings.HasPrefix(entry, \"OPTIONS-\") ||\n",
			"false ||\n"},
	}},
	{name: "markers may fail", pkg: "./kv/freeze", tests: "^TestFS_Create_failing$", edits: []edit{
		{"kv/freeze/fs.go",
			"\t\tstrings.HasPrefix(entry, \"marker.\")\n",
			"\t\tfalse\n"},
	}},
	{name: "the store counts as open when it is opened again", pkg: "./kv/freeze", tests: "^TestFS_opening$", edits: []edit{
		{"kv/freeze/fs.go",
			"\t\tfs.open.Store(false) // the first thing that pebble.Open does\n",
			"\t\t_ = fs.open\n"},
	}},
	{name: "files outside of the directory freeze it", pkg: "./kv/freeze", tests: "^TestFS_files$", edits: []edit{
		{"kv/freeze/fs.go",
			"\tif !fs.inside(name) {\n\t\treturn open()\n\t}\n",
			""},
	}},
	{name: "a failed sync of the log is an error", pkg: "./kv/freeze", tests: "^TestFS_callback$", edits: []edit{
		{"kv/freeze/file.go",
			"func (f *vitalFile) Sync() error {\n\tf.fs.vital(\"sync\", f.name, f.File.Sync)\n\treturn nil",
			"func (f *vitalFile) Sync() error {\n\treturn f.File.Sync()"},
	}},
	{name: "a failed sync of part of the log is left to Pebble", pkg: "./kv/freeze", tests: "^TestFS_files$", edits: []edit{
		{"kv/freeze/file.go",
			"func (f *vitalFile) SyncTo(length int64) (fullSync bool, err error) {\n\tf.fs.vital(",
			"func (f *vitalFile) SyncTo(length int64) (fullSync bool, err error) {\n\tf.fs.other("},
	}},
	{name: "a failed stat of the log is left to Pebble", pkg: "./kv/freeze", tests: "^TestFS_files$", edits: []edit{
		{"kv/freeze/file.go",
			"\t\tf.fs.Freeze(fmt.Errorf(\"freeze: stat %s: %w\", f.name, err))\n",
			""},
	}},
	{name: "a failed close of the log is left to Pebble", pkg: "./kv/freeze", tests: "^TestFS_files$", edits: []edit{
		{"kv/freeze/file.go",
			"\t\tf.fs.Freeze(fmt.Errorf(\"freeze: close %s: %w\", f.name, err))\n",
			"\t\t_ = fmt.Sprint()\n"},
	}},
	{name: "a table that was half written goes on in a frozen directory", pkg: "./kv/freeze", tests: "^TestFS_frozen_tables$", edits: []edit{
		{"kv/freeze/file.go",
			"func (f *otherFile) Write(p []byte) (n int, err error) {\n\tdone, err := f.fs.other(\"write\", f.name, func() (err error) {\n\t\tn, err = f.File.Write(p)\n\t\treturn err\n\t})\n\tif !done {",
			"func (f *otherFile) Write(p []byte) (n int, err error) {\n\tdone, err := f.fs.other(\"write\", f.name, func() (err error) {\n\t\tn, err = f.File.Write(p)\n\t\treturn err\n\t})\n\tif !done && false {"},
	}},
	{name: "the ballast of another size is taken over", pkg: "./kv/freeze", tests: "^TestSpace_Start_ballast$", edits: []edit{
		{"kv/freeze/ballast.go",
			" && info.Size() >= b.want() && info.Size() <= b.most {",
			" && info.Size() > 0 {"},
	}},
	{name: "a ballast that was cut short stays", pkg: "./kv/freeze", tests: "^TestSpace_ballast_failing$", edits: []edit{
		{"kv/freeze/ballast.go",
			"\tif err != nil {\n\t\treturn errors.Join(err, b.fs.Remove(b.path))\n\t}\n\tb.size",
			"\tif err != nil {\n\t\treturn err\n\t}\n\tb.size"},
	}},
	{name: "a ballast that was removed counts as there", pkg: "./kv/freeze", tests: "^TestSpace_FS$", edits: []edit{
		{"kv/freeze/ballast.go",
			"\tb.size.Store(0)\n\treturn size, nil\n",
			"\treturn size, nil\n"},
	}},
	{name: "an ENOSPC is not told to the watcher", pkg: "./kv/freeze", tests: "^TestSpace_FS$", edits: []edit{
		{"kv/freeze/space.go",
			"\tcase s.struck <- struct{}{}:\n",
			""},
	}},
	{name: "writes go on between the marks", pkg: "./kv/freeze", tests: "^TestSpace_Full$", edits: []edit{
		{"kv/freeze/space.go",
			"\tif low || free <= s.opts.High || ",
			"\tif low || "},
	}},
	{name: "writes go on without a ballast", pkg: "./kv/freeze", tests: "^TestSpace_ballast_failing$", edits: []edit{
		{"kv/freeze/space.go",
			" || !s.ensureBallast(free) {",
			" || !s.ensureBallast(free) && false {"},
	}},
	{name: "space that is not known counts as enough", pkg: "./kv/freeze", tests: "^TestSpace_Full$", edits: []edit{
		{"kv/freeze/space.go",
			"\t\treturn 0, true\n\t}\n\ts.blind",
			"\t\treturn 1 << 60, false\n\t}\n\ts.blind"},
	}},
	{name: "space that is not known is told each time", pkg: "./kv/freeze", tests: "^TestSpace_Full$", edits: []edit{
		{"kv/freeze/space.go",
			"\t\tif !s.blind {\n\t\t\ts.blind = true\n",
			"\t\tif true {\n\t\t\ts.blind = true\n"},
	}},
	{name: "a ballast for which there is no room is made", pkg: "./kv/freeze", tests: "^TestSpace_ballast_room$", edits: []edit{
		{"kv/freeze/space.go",
			"\tif free-s.opts.High <= uint64(s.ballast.want()) {",
			"\tif false {"},
	}},
	{name: "a ballast that cannot be made is tried at each look", pkg: "./kv/freeze", tests: "^TestSpace_ballast_failing$", edits: []edit{
		{"kv/freeze/space.go",
			"\t\ts.pause = ballastPause\n",
			""},
	}},
	{name: "what cannot be told is looked at again", pkg: "./kv/freeze", tests: "^TestSpace_unsupported$", edits: []edit{
		{"kv/freeze/space.go",
			"\t\tif s.ballast.missing() {\n\t\t\ts.makeBallast()\n\t\t}\n\t\treturn\n",
			"\t\tif s.ballast.missing() {\n\t\t\ts.makeBallast()\n\t\t}\n"},
	}},
	{name: "the free space is first looked at when a second has gone", pkg: "./kv/freeze", tests: "^TestSpace_FS$", edits: []edit{
		{"kv/freeze/space.go",
			"\ts.check()\n\ts.watcher.Go(s.watch)",
			"\ts.watcher.Go(s.watch)"},
	}},
	{name: "a failed accept ends the server", pkg: "./server", tests: "^TestServe_temporaryFailure$", edits: []edit{
		{"server/server.go",
			"\t\t\tif temporary(err) {",
			"\t\t\tif false && temporary(err) {"},
	}},
	{name: "the end of the server is not synced", pkg: "./server", tests: "^TestShutdown_syncs$", edits: []edit{
		{"server/server.go",
			"unsynced = s.db.Sync()",
			"unsynced = nil"},
	}},
	{name: "a server leaves its store to no other", pkg: "./server", tests: "^TestNew_twice$", edits: []edit{
		{"server/server.go",
			"\ts.hub.server.CompareAndSwap(s, nil)\n",
			""},
	}},
	{name: "two servers serve a store", pkg: "./server", tests: "^TestNew_twice$", edits: []edit{
		{"server/server.go",
			"\tif !hub.server.CompareAndSwap(nil, s) {",
			"\tif false {"},
	}},
	{name: "what is looked at is that of HTTP alone", pkg: "./server", tests: "^TestWarnings$", edits: []edit{
		{"server/warnings.go",
			"\tif r := w.recent[kind]; r != nil {",
			"\tif r := w.recent[kind]; r != nil && false {"},
	}},
	{name: "what was left out is not told", pkg: "./server", tests: "^TestWarnings$", edits: []edit{
		{"server/warnings.go",
			"\t\tr.last(\"omitted\", r.count-1)\n",
			""},
	}},
	{name: "RESET leaves a transaction", pkg: "./server", tests: "^TestReset$", edits: []edit{
		{"server/conn.go",
			"\tc.leaveTransaction()\n\tc.newSession()\n\tif",
			"\tif"},
	}},
	{name: "the end of a connection leaves what it held", pkg: "./server", tests: "^TestMemory_idle$", edits: []edit{
		{"server/conn.go",
			"\tc.holds().Add(-int64(c.heldBytes))\n",
			"\t_ = c.heldBytes\n"},
	}},
	{name: "SHUTDOWN is queued", pkg: "./server", tests: "^TestShutdownCommand$", edits: []edit{
		{"server/module.go",
			"module.Admin|module.NoMulti",
			"module.Admin"},
	}},
	{name: "SHUTDOWN is answered", pkg: "./server", tests: "^TestShutdownCommand$", edits: []edit{
		{"server/module.go",
			"\town.ended, own.silent = true, true",
			"\town.ended = true"},
	}},
	{name: "passwords are in the slow log", pkg: "./server", tests: "^TestSlowlog$", edits: []edit{
		{"server/slowlog.go",
			"\twords = withoutSecrets(cmd, words)\n",
			""},
	}},
	{name: "the slow log grows without end", pkg: "./server", tests: "^TestSlowlog$", edits: []edit{
		{"server/slowlog.go",
			"\tif over := len(l.entries) - most; over > 0 {",
			"\tif over := len(l.entries) - most; false {"},
	}},
	{name: "the slow log keeps whole words", pkg: "./server", tests: "^TestSlowlog$", edits: []edit{
		{"server/slowlog.go",
			"\t\tif over := len(w) - slowWordSize; over > 0 {",
			"\t\tif over := len(w) - slowWordSize; false {"},
	}},
	{name: "the slow log keeps any number of words", pkg: "./server", tests: "^TestSlowlog$", edits: []edit{
		{"server/slowlog.go",
			"\t\tif i == slowWords-1 && len(words) > slowWords {",
			"\t\tif i == slowWords-1 && len(words) < 0 {"},
	}},
	{name: "names may have spaces", pkg: "./server", tests: "^TestClient$", edits: []edit{
		{"server/client.go",
			"\treturn len(name) <= maxName && !slices",
			"\treturn len(name) <= maxName || !slices"},
	}},
	{name: "names may be of any length", pkg: "./server", tests: "^TestClient_longNames$", edits: []edit{
		{"server/client.go",
			"\treturn len(name) <= maxName && !slices",
			"\treturn !slices"},
	}},
	{name: "CLIENT KILL kills the client that asks", pkg: "./server", tests: "^TestClientKill$", edits: []edit{
		{"server/client.go",
			"\t\tif other == c && skipMe {\n",
			"\t\tif other == c && skipMe && false {\n"},
	}},
	{name: "CLIENT KILL counts a connection twice", pkg: "./server", tests: "^TestClientKill_running$", edits: []edit{
		{"server/conn.go", "first := !c.killed.Swap(true)", "first := !c.killed.Swap(true) || true"},
	}},
	{name: "CLIENT LIST shows a killed connection", pkg: "./server", tests: "^TestClientKill_running$", edits: []edit{
		{"server/client.go", "slices.DeleteFunc(c.server.connections(), (*conn).isKilled)", "c.server.connections()"},
	}},
	{name: "CLIENT KILL kills clients that match one condition", pkg: "./server", tests: "^TestClientKill$", edits: []edit{
		{"server/client.go",
			"return !slices.ContainsFunc(conditions, func(holds func(*conn) bool) bool { return !holds(other) })",
			"return slices.ContainsFunc(conditions, func(holds func(*conn) bool) bool { return holds(other) })"},
	}},
	{name: "a key of any length is written", pkg: "./kv", tests: "^TestWrite_longKey$", edits: []edit{
		{"kv/staged_keys.go",
			"\tif len(key) > MaxKeyLen {\n\t\treturn nil, keyTooLong(key) //",
			"\tif false {\n\t\treturn nil, keyTooLong(key) //"},
	}},
	{name: "layers of any number are made", pkg: "./kv", tests: "^TestCreate_limits$", edits: []edit{
		{"kv/objects.go",
			"	if n := len(h.Layers); n > format.MaxLayers {",
			"	if n := len(h.Layers); n < 0 {"},
	}},
	{name: "filters of any size are made", pkg: "./kv", tests: "^TestCreate_limits$", edits: []edit{
		{"kv/objects.go",
			"\tif total > db.opts.MaxFilterBytes && h.TypeName != format.StringType {",
			"\tif false {"},
	}},
	{name: "the bytes of a filter are those of its last layer", pkg: "./kv", tests: "^TestCreate_limits$", edits: []edit{
		{"kv/objects.go",
			"\t\ttotal += l.Bytes()\n",
			"\t\ttotal = l.Bytes()\n"},
	}},
	{name: "a filter grows beyond what one may be made with", pkg: "./kv", tests: "^TestCreate_limits$", edits: []edit{
		{"kv/compact.go",
			"	if err := w.db.checkSpec(&h); err != nil && len(added) > 0 {",
			"	if err := w.db.checkSpec(&format.Header{}); err != nil {"},
	}},
	{name: "a commit may be of any size", pkg: "./kv", tests: "^TestCommit_tooLarge$", edits: []edit{
		{"kv/storage/store.go",
			"size > limit {",
			"size > 1<<40*limit {"},
	}},
	{name: "a commit under two strings is seen string by string", pkg: "./kv", tests: "^TestRead_renameOfString$", edits: []edit{
		{"kv/commit.go",
			"\treturn strings > 1 ||\n",
			"\treturn false ||\n"},
	}},
	{name: "a failed store takes writes", pkg: "./kv", tests: "^TestFailed_refuses$", edits: []edit{
		{"kv/db.go",
			"\tif db.word.Load()&(isFailed|isClosed) != 0 {\n\t\tdb.exit()",
			"\tif db.word.Load()&isClosed != 0 {\n\t\tdb.exit()"},
	}},
	{name: "a failed store answers from memory", pkg: "./kv", tests: "^TestFailed_refuses$", edits: []edit{
		{"kv/open.go",
			"\tdb.word.Or(isFailed)\n",
			""},
	}},
	{name: "lookups that find a store not ready go on in a failed one", pkg: "./kv", tests: "^TestFailed_refuses$", edits: []edit{
		{"kv/db.go",
			"\tif word&(isFailed|isClosed) != 0 {\n",
			"\tif word&isClosed != 0 {\n"},
	}},
	{name: "closing does not wait for who uses the store", pkg: "./kv", tests: "^TestClose_waitsForLookup$", edits: []edit{
		{"kv/db.go",
			"\tfor db.users.Load() != 0 {\n",
			"\tfor db.users.Load() < 0 {\n"},
	}},
	{name: "closing leaves transactions open", pkg: "./kv", tests: "^TestClose_endsTransactions$", edits: []edit{
		{"kv/db.go",
			"\tdb.endTransactions() // services may be waiting for them\n",
			""},
	}},
	{name: "the blocks of an object that lives on are closed", pkg: "./kv", tests: "^TestEvictObject_handedOver$", edits: []edit{
		{"kv/keyspace.go",
			"\t\tif o.handedOver.Load() {\n\t\t\tcontinue // the blocks live on in another incarnation\n\t\t}\n",
			""},
	}},
	{name: "an evicted object counts as live", pkg: "./kv", tests: "^TestEvictObject_small$", edits: []edit{
		{"kv/keyspace.go",
			"\tsh.evictions++\n\to.end()\n",
			"\tsh.evictions++\n"},
	}},
	{name: "an object left to be closed is forgotten", pkg: "./kv", tests: "^TestEvictObject_whileWriting$", edits: []edit{
		{"kv/keyspace.go",
			"\t\tif !o.ended() {\n\t\t\tdb.evictObject(o)\n\t\t\tcontinue\n\t\t}\n",
			"\t\tif !o.ended() {\n\t\t\tcontinue\n\t\t}\n"},
	}},
	{name: "the blocks of a closed object stay in memory", pkg: "./kv", tests: "^TestEvictObject_removed$", edits: []edit{
		{"kv/keyspace.go",
			"\t\tfor _, l := range o.layers {\n\t\t\tl.release(db.residency)\n\t\t}\n",
			""},
	}},
	{name: "RENAMENX replaces what is there", pkg: "./kv", tests: "^TestRename_taken$", edits: []edit{
		{"kv/objects.go",
			"\tto, err := w.Object(dst)\n\tif err != nil || to != nil {",
			"\tto, err := w.Object(dst)\n\tif err != nil || to != nil && false {"},
	}},
	{name: "a rename to itself drops the key", pkg: "./kv", tests: "^TestRename_itself$", edits: []edit{
		{"kv/objects.go",
			"\tif string(src) == string(dst) {\n\t\treturn nil\n\t}\n",
			""},
	}},
	{name: "a copy replaces itself", pkg: "./kv", tests: "^TestCopy_itself$", edits: []edit{
		{"kv/copy.go",
			" || string(src) == string(dst) {",
			" {"},
	}},
	{name: "a copy of a string does not expire", pkg: "./kv", tests: "^TestCopy_string$", edits: []edit{
		{"kv/copy.go",
			"putString(dst, value, o.header.Expiry)",
			"putString(dst, value, 0)"},
	}},
	{name: "a copy has in a block what the one before had", pkg: "./kv", tests: "^TestCopy_blocks$", edits: []edit{
		{"kv/block/decode.go",
			"\t\tclear(words)\n\t\tv.fill(words)\n",
			"\t\tv.fill(words)\n"},
	}},
	{name: "a copy goes on with a block of a layer that it has not", pkg: "./kv", tests: "^TestCopy_corrupt$", edits: []edit{
		{"kv/copy.go",
			"k.Rest >= from.spec.Blocks {",
			"false {"},
	}},
	{name: "a copy of what is damaged is made", pkg: "./kv", tests: "^TestCopy_corrupt$", edits: []edit{
		{"kv/copy.go",
			"			_, err = block.Decode(words, o.header.Family, value)\n",
			"			_, _ = block.Decode(words, o.header.Family, value)\n"},
	}},
	{name: "a fold takes what the key has by now", pkg: "./kv", tests: "^TestFold_needless$", edits: []edit{
		{"kv/fold.go",
			" || o.header.ID != req.object {",
			" {"},
	}},
	{name: "a fold writes blocks that need none", pkg: "./kv", tests: "^TestFold_needless$", edits: []edit{
		{"kv/fold.go",
			"\tif info.Operands <= foldThreshold {\n",
			"\tif info.Operands < 0 {\n"},
	}},
	{name: "an operand of many items counts as one", pkg: "./kv", tests: "^TestFold_items$", edits: []edit{
		{"kv/block/items.go",
			"	v.operands = uint32(max(1, (len(r.rest)/v.items.width+itemsPerOperand-1)/itemsPerOperand))\n",
			""},
	}},
	{name: "a fold takes no notice of its budget", pkg: "./kv", tests: "^TestFold_budget$", edits: []edit{
		{"kv/fold.go",
			"\tfor done < budget && ctx.Err() == nil {",
			"\tfor ctx.Err() == nil {"},
	}},
	{name: "a fold goes on where its context has ended", pkg: "./kv", tests: "^TestFold_canceled$", edits: []edit{
		{"kv/fold.go",
			"\tfor done < budget && ctx.Err() == nil {",
			"\tfor done < budget {"},
	}},
	{name: "what a fold wrote is not told", pkg: "./kv", tests: "^TestFold_budget$", edits: []edit{
		{"kv/fold.go",
			"\t\tdone += n\n",
			"\t\t_ = n\n"},
	}},
	{name: "one object that cannot be compacted keeps others from it", pkg: "./kv", tests: "^TestCompact_oneFails$", edits: []edit{
		{"kv/compact.go",
			"\t\t\tfor _, left := range keys[i+1:] {",
			"\t\t\tfor _, left := range keys[len(keys)-min(i, 0):] {"},
	}},
	{name: "objects are compacted where the context has ended", pkg: "./kv", tests: "^TestCompact_canceled$", edits: []edit{
		{"kv/compact.go",
			"\t\tagain, err := false, ctx.Err()\n",
			"\t\tagain, err := false, error(nil)\n"},
	}},
	{name: "Compact does not wait for what a service is compacting", pkg: "./kv", tests: "^TestCompact_besideService$", edits: []edit{
		{"kv/compact.go",
			"	db.compactingQueued.Lock() // Compact waits for what another call has taken, and does what that call leaves\n	defer db.compactingQueued.Unlock()\n",
			""},
	}},
	{name: "a compaction takes more than a commit may", pkg: "./kv", tests: "^TestCompact_budget$", edits: []edit{
		{"kv/compact.go",
			"min(budget, db.MaxCommit()/2)",
			"budget"},
	}},
	{name: "a compaction takes no notice of its budget", pkg: "./kv", tests: "^TestCompact_budget$", edits: []edit{
		{"kv/compact.go",
			"min(budget, db.MaxCommit()/2)",
			"db.MaxCommit()/2"},
	}},
	{name: "one call of Reclaim deals with all notes", pkg: "./kv", tests: "^TestReclaim_notes$", edits: []edit{
		{"kv/reclaim.go",
			"ok && len(d.done) < maxNotes;",
			"ok;"},
	}},
	{name: "the space of large objects comes back by itself", pkg: "./kv", tests: "^TestReclaim_large$", edits: []edit{
		{"kv/reclaim.go",
			"\t\tif err := db.store.Compact(ctx, start, end); err != nil {\n\t\t\treturn false, text",
			"\t\tif _, _, err := start, end, error(nil); err != nil {\n\t\t\treturn false, text"},
	}},
	{name: "large objects are taken for small ones", pkg: "./kv", tests: "^TestReclaim_large$", edits: []edit{
		{"kv/reclaim.go",
			"\t\tif size >= smallRange {",
			"\t\tif size >= smallRange && false {"},
	}},
	{name: "a build is written at its end alone", pkg: "./kv", tests: "^TestBuild_ahead$", edits: []edit{
		{"kv/build.go",
			"\tif b.batch.Len() >= buildBatch {\n\t\treturn b.flush()\n\t}\n",
			""},
	}},
	{name: "what was written of a build is written again", pkg: "./kv", tests: "^TestBuild_ahead$", edits: []edit{
		{"kv/build.go",
			"\tb.batch.Reset()\n",
			""},
	}},
	{name: "a build goes on where its context has ended", pkg: "./kv", tests: "^TestBuild_canceled$", edits: []edit{
		{"kv/build.go",
			"\tif err := b.ctx.Err(); err != nil {\n\t\treturn err\n\t}\n",
			""},
	}},
	{name: "a freeze does not wait for changes under way", pkg: "./kv/freeze", tests: "^TestFS_callback_changeUnderWay$", edits: []edit{
		{"kv/freeze/fs.go",
			"\tfs.waitForChanges()\n",
			""},
	}},
	{name: "a marker is made before the directory is synced", pkg: "./kv/freeze", tests: "^TestFS_Create_marker$", edits: []edit{
		{"kv/freeze/fs.go",
			"\t\tfs.vital(\"sync directory before\", name, fs.syncDir)\n",
			""},
	}},
	{name: "a directory that cannot be synced gets a marker", pkg: "./kv/freeze", tests: "^TestFS_Create_marker$", edits: []edit{
		{"kv/freeze/fs.go",
			"\t\tfs.vital(\"sync directory before\", name, fs.syncDir)\n",
			"\t\t_ = fs.syncDir()\n"},
	}},
	{name: "a directory that cannot be opened once freezes", pkg: "./kv/freeze", tests: "^TestFS_Create_marker$", edits: []edit{
		{"kv/freeze/fs.go",
			"\t\tif d, err = fs.FS.OpenDir(fs.dir); err != nil {\n\t\t\treturn err\n\t\t}\n",
			"\t\treturn err\n"},
	}},
	{name: "a vital file is made in a frozen directory", pkg: "./kv/freeze", tests: "^TestFS_Create_failing$", edits: []edit{
		{"kv/freeze/fs.go",
			"\t\t\treturn newSink(), nil\n",
			"\t\t\treturn nil, ErrFrozen\n"},
	}},
	{name: "a short write of the log counts", pkg: "./kv/freeze", tests: "^TestFS_short$", edits: []edit{
		{"kv/freeze/file.go",
			"\tif err == nil && n < want {\n\t\treturn io.ErrShortWrite\n\t}\n",
			""},
	}},
	{name: "making the ballast goes on where the disk is full", pkg: "./kv/freeze", tests: "^TestSpace_ballast_interrupted$", edits: []edit{
		{"kv/freeze/ballast.go",
			"\t\tif b.giveUp.Load() {\n\t\t\treturn errInterrupted\n\t\t}\n",
			""},
	}},
	{name: "making the ballast goes on when the store is closed", pkg: "./kv/freeze", tests: "^TestSpace_ballast_interrupted$", edits: []edit{
		{"kv/freeze/ballast.go",
			"\t\tcase <-stop:\n\t\t\treturn errInterrupted\n",
			""},
	}},
	{name: "the ballast is made of what was just freed", pkg: "./kv/freeze", tests: "^TestSpace_ballast_freed$", edits: []edit{
		{"kv/freeze/space.go",
			"\t\t\ts.refuseIfLow()\n\t\t}\n\t}\n}",
			"\t\t\ts.check()\n\t\t}\n\t}\n}"},
	}},
	{name: "a ballast that cannot be made is told each time", pkg: "./kv/freeze", tests: "^TestSpace_ballast_failingAgain$", edits: []edit{
		{"kv/freeze/space.go",
			"\t\tif s.failure == nil {\n",
			"\t\tif true {\n"},
	}},
	{name: "closing does not wait for the watcher", pkg: "./kv/freeze", tests: "^TestSpace_Close$", edits: []edit{
		{"kv/freeze/space.go",
			"\ts.watcher.Wait()\n",
			""},
	}},
	{name: "a name that is taken for the ballast refuses writes", pkg: "./kv/freeze", tests: "^TestSpace_ballast_failingAgain$", edits: []edit{
		{"kv/freeze/space.go",
			"\t\treturn !vfs.IsNoSpaceError(s.failure)\n",
			"\t\treturn false\n"},
	}},
	{name: "a disk without room for the ballast takes writes", pkg: "./kv/freeze", tests: "^TestSpace_ballast_failing$", edits: []edit{
		{"kv/freeze/space.go",
			"\t\treturn !vfs.IsNoSpaceError(s.failure)\n",
			"\t\treturn true\n"},
	}},
	{name: "the end of a connection leaves what it watches", pkg: "./server", tests: "^TestWatch_connectionEnds$", edits: []edit{
		{"server/conn.go",
			"\tc.cancel()\n\tc.leaveTransaction()\n",
			"\tc.cancel()\n"},
	}},
	{name: "the end of a connection in MULTI leaves what it watches", pkg: "./server", tests: "^TestWatch_connectionEnds$", edits: []edit{
		{"txn/commands.go",
			"; ok {\n\t\tst.end(s)\n",
			"; ok && !st.multi {\n\t\tst.end(s)\n"},
	}},
	{name: "a client that has gone keeps what it asked for running", pkg: "./server", tests: "^TestSlow_clientGone$", edits: []edit{
		{"server/watch.go",
			"\t\t\t\tc.cancel()\n",
			""},
	}},
	{name: "a byte that was read ahead is lost", pkg: "./server", tests: "^TestSlow_ahead$", edits: []edit{
		{"server/watch.go",
			"\t\tc.ahead = append(c.ahead, next[:n]...)\n",
			"\t\t_ = n\n"},
	}},
	{name: "a byte that was read ahead is read again", pkg: "./server", tests: "^TestSlow_ahead$", edits: []edit{
		{"server/watch.go",
			"\t\ts.ahead = s.ahead[n:]\n",
			""},
	}},
	{name: "a database that is not there is selected", pkg: "./server", tests: "^TestSelect$", edits: []edit{
		{"server/client.go",
			"\tcase n != 0:\n",
			"\tcase n > 1<<40:\n"},
	}},
	{name: "two keys of the metrics have one label", pkg: "./server", tests: "^TestLabel$", edits: []edit{
		{"server/filters.go",
			"fmt.Sprintf(\"%s... %x\", strconv.Quote(key[:maxLabel]), h.Sum(nil))",
			"fmt.Sprintf(\"%s... %x\", strconv.Quote(key[:maxLabel]), 0)"},
	}},
	{name: "metrics of filters that are gone stay", pkg: "./server", tests: "^TestMetrics_largest$", edits: []edit{
		{"server/filters.go",
			"\t\tif f := s.factsOf(session, key); f.isFilter() {\n\t\t\tf.collect(key, out)\n",
			"\t\tif f := s.factsOf(session, key); f != nil || true {\n\t\t\tf.collect(key, out)\n"},
	}},
	{name: "the metrics look at the same keys each time", pkg: "./server", tests: "^TestMetrics_largest$", edits: []edit{
		{"server/filters.go",
			"p.cursor, p.steps = next, ",
			"p.cursor, p.steps = 0, "},
	}},
	{name: "large commands run all at once", pkg: "./server", tests: "^TestMemory_largeCommands$", edits: []edit{
		{"server/limits.go",
			"\tif c.acquired = c.semaphore(cmd, words); c.acquired == nil {",
			"\tif c.acquired = nil; c.acquired == nil {"},
	}},
	{name: "huge commands run as many at once as large ones", pkg: "./server", tests: "^TestMemory_largeCommands$", edits: []edit{
		{"server/limits.go",
			"\t\treturn c.server.huge\n",
			"\t\treturn c.server.large\n"},
	}},
	{name: "a large command that has ended counts as running", pkg: "./server", tests: "^TestMemory_largeCommands$", edits: []edit{
		{"server/limits.go",
			"\t<-place\n}\n",
			"}\n"},
	}},
	{name: "what a reply took is counted for ever", pkg: "./server", tests: "^TestMemory_replies$", edits: []edit{
		{"server/conn.go",
			"\t\tc.discharge()\n",
			""},
	}},
	{name: "the place of an overdue turn is freed twice", pkg: "./server", tests: "^TestAdmission_passedOn$", edits: []edit{
		{"server/admission.go",
			"\t\t\tone.passedOn = true\n\t\t\ta.next()\n",
			"\t\t\ta.next()\n"},
	}},
	{name: "a connection that waits for a turn stays in the heap when commands are given up", pkg: "./server", tests: "^TestAdmission$", edits: []edit{
		{"server/admission.go",
			"\tif w.turn == nil {\n\t\theap.Remove(&a.waiting, w.index)\n\t}\n",
			""},
	}},
	{name: "a place that no connection waits for is lost", pkg: "./server", tests: "^TestAdmission$", edits: []edit{
		{"server/admission.go",
			"\tif len(a.waiting) == 0 {\n\t\ta.free++\n\t\treturn\n\t}\n\tw :=",
			"\tif len(a.waiting) == 0 {\n\t\treturn\n\t}\n\tw :="},
	}},
	{name: "what was used does not decrease", pkg: "./server", tests: "^TestUse$", edits: []edit{
		{"server/admission.go",
			"\tu.time = max(0, u.time-now.Sub(u.at)/spared) + d",
			"\tu.time += d"},
	}},
	{name: "commands go on after a protocol error", pkg: "./server", tests: "^TestProtocolErrors$", edits: []edit{
		{"server/conn.go",
			"\t\t\tc.ended, c.told = true, true\n\t\t\tbreak\n",
			"\t\t\tbreak\n"},
	}},
	{name: "there are more turns than places", pkg: "./server", tests: "^TestAdmission$", edits: []edit{
		{"server/admission.go",
			"\tif a.free > 0 {\n\t\ta.free--\n",
			"\tif true {\n\t\ta.free--\n"},
	}},
	{name: "the one that waited longest goes first", pkg: "./server", tests: "^TestAdmission$", edits: []edit{
		{"server/admission.go",
			"h[i].used < h[j].used",
			"h[i].index < h[j].index"},
	}},
	{name: "the place of an overdue turn is not passed on", pkg: "./server", tests: "^TestAdmission_passedOn$", edits: []edit{
		{"server/admission.go",
			"\t\tif !one.passedOn && time.Since(one.since) >= a.overdue {",
			"\t\tif false {"},
	}},
	{name: "the place of a turn is passed on twice", pkg: "./server", tests: "^TestAdmission_passedOn$", edits: []edit{
		{"server/admission.go",
			"\t\tif !one.passedOn && time.Since",
			"\t\tif time.Since"},
	}},
	{name: "the places of short turns are passed on", pkg: "./server", tests: "^TestAdmission_passedOn$", edits: []edit{
		{"server/admission.go",
			" && time.Since(one.since) >= a.overdue {",
			" {"},
	}},
	{name: "a sidecar is written when there is nothing new", pkg: "./kv/storage", tests: "^TestSidecar_store$", edits: []edit{
		{"kv/storage/sidecar.go",
			"	if durable == s.sidecarWritten {",
			"	if false {"},
	}},
	{name: "a sidecar that could not be written counts as written", pkg: "./kv/storage", tests: "^TestSidecar_fails$", edits: []edit{
		{"kv/storage/sidecar.go",
			"	if err := s.writeSidecar(s.Meta.ID, durable+1); err != nil {",
			"	s.sidecarWritten = durable\n	if err := s.writeSidecar(s.Meta.ID, durable+1); err != nil {"},
	}},
	{name: "a sidecar lets the last record be lost", pkg: "./kv/storage", tests: "^TestSidecar_store$", edits: []edit{
		{"kv/storage/sidecar.go",
			"s.writeSidecar(s.Meta.ID, durable+1)",
			"s.writeSidecar(s.Meta.ID, durable)"},
	}},
	{name: "a sidecar is not synced before it is renamed", pkg: "./kv/storage", tests: "^TestSidecar_store$", edits: []edit{
		{"kv/storage/sidecar.go",
			"	if err == nil {\n		err = f.Sync()\n	}\n",
			""},
	}},
	{name: "a sidecar written in part is put in place", pkg: "./kv/storage", tests: "^TestSidecar_fails$", edits: []edit{
		{"kv/storage/sidecar.go",
			"	if err == nil && n < len(data) {\n		err = io.ErrShortWrite\n	}\n",
			"	_ = n\n"},
	}},
	{name: "the name of a sidecar may be lost", pkg: "./kv/storage", tests: "^TestSidecar_store$", edits: []edit{
		{"kv/storage/sidecar.go",
			"	if err := dirsync.Strict(s.Files, s.Dir); err != nil {",
			"	if err := error(nil); err != nil {"},
	}},
	{name: "a sidecar is read without its checksum", pkg: "./kv/storage", tests: "^TestSidecar_decode$", edits: []edit{
		{"kv/format/format.go",
			"	if binary.LittleEndian.Uint32(b[end:]) != crc32.Checksum(b[:end], castagnoli) {\n		return id, 0,",
			"	if end > 1<<20 {\n		return id, 0,"},
	}},
	{name: "a sidecar of any length is read", pkg: "./kv/storage", tests: "^TestSidecar_decode$", edits: []edit{
		{"kv/format/format.go",
			"	if len(b) != sidecarLen {",
			"	if len(b) < sidecarLen {"},
	}},
	{name: "a sidecar of any version is read", pkg: "./kv/storage", tests: "^TestSidecar_decode$", edits: []edit{
		{"kv/format/format.go",
			"	if b[4] != sidecarVersion {",
			"	if b[4] < sidecarVersion {"},
	}},
	{name: "a sidecar of another store is believed", pkg: "./kv/storage", tests: "^TestSidecar_store$", edits: []edit{
		{"kv/storage/sidecar.go",
			"	case id != s.Meta.ID:\n",
			"	case false:\n"},
	}},
	{name: "a log may lose one record", pkg: "./kv/storage", tests: "^TestSidecar_store$", edits: []edit{
		{"kv/storage/sidecar.go",
			"	case next < least:\n",
			"	case next+1 < least:\n"},
	}},
	{name: "a sidecar that cannot be read counts as none", pkg: "./kv/storage", tests: "^TestSidecar_missing$", edits: []edit{
		{"kv/storage/sidecar.go",
			"	if err = errors.Join(err, f.Close()); err != nil {\n		return id, 0, text.After(err, \"kv: read",
			"	if err = errors.Join(err, f.Close()); err != nil {\n		return id, 0, errNoSidecar\n	}\n	if err != nil {\n		return id, 0, text.After(err, \"kv: read"},
	}},
	{name: "a store without a sidecar is refused", pkg: "./kv/storage", tests: "^TestSidecar_missing$", edits: []edit{
		{"kv/storage/sidecar.go",
			"	if errors.Is(err, fs.ErrNotExist) {\n",
			"	if errors.Is(err, fs.ErrNotExist) && false {\n"},
	}},
	{name: "compactions begin before the store is open", pkg: "./kv/storage", tests: "^TestScheduler$", edits: []edit{
		{"kv/storage/scheduler.go",
			"	return s.started && !s.closed",
			"	return !s.closed"},
	}},
	{name: "compactions are granted in a store that is closed", pkg: "./kv/storage", tests: "^TestScheduler$", edits: []edit{
		{"kv/storage/scheduler.go",
			"	return s.started && !s.closed &&",
			"	return s.started &&"},
	}},
	{name: "more compactions run than are allowed", pkg: "./kv/storage", tests: "^TestScheduler$", edits: []edit{
		{"kv/storage/scheduler.go",
			" && s.running < s.db.GetAllowedWithoutPermission()",
			""},
	}},
	{name: "a failed store is granted compactions", pkg: "./kv/storage", tests: "^TestScheduler$", edits: []edit{
		{"kv/storage/scheduler.go",
			" && s.may() &&",
			" &&"},
	}},
	{name: "a compaction that was granted is not counted", pkg: "./kv/storage", tests: "^TestScheduler$", edits: []edit{
		{"kv/storage/scheduler.go",
			"	s.running++\n	return true, s\n",
			"	return true, s\n"},
	}},
	{name: "a compaction that has ended is counted", pkg: "./kv/storage", tests: "^TestScheduler$", edits: []edit{
		{"kv/storage/scheduler.go",
			"	s.running--\n	s.mu.Unlock()\n	s.grant()\n",
			"	s.mu.Unlock()\n	s.grant()\n"},
	}},
	{name: "the end of a compaction grants no other", pkg: "./kv/storage", tests: "^TestScheduler$", edits: []edit{
		{"kv/storage/scheduler.go",
			"	s.running--\n	s.mu.Unlock()\n	s.grant()\n",
			"	s.running--\n	s.mu.Unlock()\n"},
	}},
	{name: "opening a store grants no compactions", pkg: "./kv/storage", tests: "^TestScheduler$", edits: []edit{
		{"kv/storage/scheduler.go",
			"	s.started = true\n	s.mu.Unlock()\n	s.grant()\n",
			"	s.started = true\n	s.mu.Unlock()\n"},
	}},
	{name: "a place that is not taken is lost", pkg: "./kv/storage", tests: "^TestScheduler_notTaken$", edits: []edit{
		{"kv/storage/scheduler.go",
			"			s.running--\n			if !s.refused",
			"			if !s.refused"},
	}},
	{name: "who was refused while a place was offered is forgotten", pkg: "./kv/storage", tests: "^TestScheduler_notTaken$", edits: []edit{
		{"kv/storage/scheduler.go",
			"		s.refused = true\n		return false, nil",
			"		return false, nil"},
	}},
	{name: "a place that nobody takes is offered for ever", pkg: "./kv/storage", tests: "^TestScheduler_notTaken$", edits: []edit{
		{"kv/storage/scheduler.go",
			"			if !s.refused { // else Pebble asked for one while this offer took the room: offer again\n				return\n			}\n",
			"			if s.closed {\n				return\n			}\n"},
	}},
	{name: "a place is given away while it is offered", pkg: "./kv/storage", tests: "^TestScheduler_notTaken$", edits: []edit{
		{"kv/storage/scheduler.go",
			"	for s.room() {\n		s.running++\n",
			"	for s.room() {\n"},
	}},
	{name: "a panic of Pebble is taken for a pick that was given up", pkg: "./kv/storage", tests: "^TestScheduler_panics$", edits: []edit{
		{"kv/storage/scheduler.go",
			"		if !strings.HasPrefix(fmt.Sprint(r), \"did not find manual compaction\") {",
			"		if !strings.HasPrefix(fmt.Sprint(r), \"\") {"},
	}},
	{name: "a pick that was given up keeps others waiting", pkg: "./kv/storage", tests: "^TestScheduler_panics$", edits: []edit{
		{"kv/storage/scheduler.go",
			"		accepted, s.refused = false, true // there",
			"		accepted = false // there"},
	}},
	{name: "a setting that cannot be changed is", pkg: "./coreext", tests: "^TestDB_SetSetting$", edits: []edit{
		{"module/settings.go",
			"\t\tcase s.Check == nil:\n\t\t\treturn nil, s.Name, errImmutableSetting\n",
			"\t\tcase s.Check == nil:\n\t\t\treturn nil, \"\", nil\n"},
	}},
	{name: "settings that do not go together are set", pkg: "./coreext", tests: "^TestDB_SetSetting$", edits: []edit{
		{"module/settings.go",
			"\t\t\tif err := s.Fits(toBe); err != nil {",
			"\t\t\tif err := s.Fits(toBe); err != nil && false {"},
	}},
	{name: "settings are looked at one by one", pkg: "./coreext", tests: "^TestDB_SetSetting_together$", edits: []edit{
		{"module/settings.go",
			"\t\tif v, ok := values[name]; ok {",
			"\t\tif v, ok := values[name]; ok && len(values) == 1 {"},
	}},
	{name: "a table forgets the settings it has checked", pkg: "./coreext", tests: "^TestTable_CheckSettings$", edits: []edit{
		{"module/settings.go",
			"\t\tmaps.Copy(values, changed)\n",
			"\t\tmaps.Copy(changed, values)\n"},
	}},
	{name: "a setting is set twice at once", pkg: "./coreext", tests: "^TestConfig$", edits: []edit{
		{"module/settings.go",
			"\t\tcase slices.Contains(changed[:i], s):\n",
			"\t\tcase false:\n"},
	}},
	{name: "a setting of any value is set", pkg: "./coreext", tests: "^TestDB_SetSetting$", edits: []edit{
		{"module/settings.go",
			"\t\tcase n < low || n > high:\n",
			"\t\tcase n < low && n > high:\n"},
	}},
	{name: "a setting is not a number", pkg: "./coreext", tests: "^TestDB_SetSetting$", edits: []edit{
		{"module/settings.go",
			"\t\tcase !ok || math.IsNaN(x):\n",
			"\t\tcase !ok:\n"},
	}},
	{name: "a setting keeps the form it was given in", pkg: "./coreext", tests: "^TestDB_SetSetting$", edits: []edit{
		{"module/settings.go",
			"\t\tvalues[s.Name] = canonical\n",
			"\t\t_, values[s.Name] = canonical, pairs[i][1]\n"},
	}},
	{name: "the name of a setting has to be in lower case", pkg: "./coreext", tests: "^TestDB_SetSetting$", edits: []edit{
		{"module/settings.go",
			"return text.FoldString(s.Name) == text.FoldString(name) })",
			"return s.Name == name })"},
	}},
	{name: "a default that is not allowed is taken", pkg: "./coreext", tests: "^TestOptions_settings$", edits: []edit{
		{"module/settings.go",
			"\tcase err != nil:\n\t\treturn fmt.Errorf(\"setting %q: default %q: %w\"",
			"\tcase false:\n\t\treturn fmt.Errorf(\"setting %q: default %q: %w\""},
	}},
	{name: "a default in another form is taken", pkg: "./coreext", tests: "^TestOptions_settings$", edits: []edit{
		{"module/settings.go",
			"\tcase canonical != s.Default:\n",
			"\tcase false && canonical != s.Default:\n"},
	}},
	{name: "a setting needs no summary", pkg: "./coreext", tests: "^TestOptions_settings$", edits: []edit{
		{"module/settings.go",
			" || s.Summary == \"\" {",
			" {"},
	}},
	{name: "a rate is not cut to the most", pkg: "./coreext", tests: "^TestDB_SetSetting$", edits: []edit{
		{"module/settings.go",
			"FormatFloat(min(x, most), ",
			"FormatFloat(max(x, 0*most), "},
	}},
	{name: "object ids are leased by nobody", pkg: "./kv", tests: "^TestObjectID_lease$", edits: []edit{
		{"kv/meta.go",
			"\t\tdb.leasedID += lease\n",
			"\t\tdb.leasedID += 2 * lease\n"},
	}},
	{name: "a build under way keeps others from being reclaimed", pkg: "./kv", tests: "^TestReclaim_besideBuild$", edits: []edit{
		{"kv/reclaim.go",
			"\t\tif _, building := db.building.Load(object); building {\n\t\t\tcontinue\n\t\t}\n",
			""},
	}},
	{name: "removing everything leaves no note", pkg: "./kv", tests: "^TestReclaim_all$", edits: []edit{
		{"kv/objects.go",
			"		w.set(format.AppendDroppedKey(w.scratch[:0], 0), nil)",
			"		_ = 0"},
	}},
	{name: "a sweep waits for who holds the gate", pkg: "./kv", tests: "^TestSweep_besideTransaction$", edits: []edit{
		{"kv/expiry.go",
			"\tfree := db.gate.TryRLock()\n",
			"\tfree := db.passGate(context.Background(), false) == nil\n"},
	}},
	{name: "a sweep of strings holds up lookups", pkg: "./kv", tests: "^TestSweep_lookups$", edits: []edit{
		{"kv/expiry.go",
			"\tw.unseen = true\n\tvar unread",
			"\tvar unread"},
	}},
	{name: "a sweep that is refused forgets its keys", pkg: "./kv", tests: "^TestSweep_fullDisk$", edits: []edit{
		{"kv/expiry.go",
			"	if err != nil {\n		db.expiry.Lower(notes[0].Stored())\n		return false, err\n",
			"	if err != nil {\n		return false, err\n"},
	}},
	{name: "a filter in place of a string is removed as a string", pkg: "./kv", tests: "^TestSweep_sameTime$", edits: []edit{
		{"kv/staged_keys.go",
			"\tif was == is && (is == 0 || old.inline() == now.inline()) {",
			"\tif was == is {"},
	}},
	{name: "an item that may be there in halves is not added", pkg: "./kv", tests: "^TestSlots_addIfAbsentMeanwhile$", edits: []edit{
		{"cuckooext/handle.go",
			"present && even && !c.moved(hash, before) {",
			"present && even && (!c.moved(hash, before) || c.object.Live()) {"},
	}},
	{name: "layers that do not nest are opened", pkg: "./cuckooext", tests: "^TestFilter_nested$", edits: []edit{
		{"cuckooext/filter.go",
			"return l.blocks%older.blocks == 0 && ",
			"return "},
	}},
	{name: "a lookup in counters does not look for commits", pkg: "./countingext", tests: "^TestFilter_movedByOneCommit$", edits: []edit{
		{"countingext/filter.go",
			"\treturn before != after || ",
			"\treturn before != after && false || "},
	}},
	{name: "blocks are not folded", pkg: "./compaction", tests: "^TestService_folds$", edits: []edit{
		{"compaction/compaction.go",
			"\ts.done.Go(func() { s.every(ctx, foldEvery, s.fold) })\n",
			""},
	}},
	{name: "closing does not wait for the service", pkg: "./compaction", tests: "^TestService_Stop$", edits: []edit{
		{"compaction/compaction.go",
			"\ts.done.Wait()\n",
			""},
	}},
	{name: "huge writes follow each other at once", pkg: "./server", tests: "^TestMemory_hugeRest$", edits: []edit{
		{"server/limits.go", "c.server.stats.total() > c.ranBefore {", "false {"},
	}},
	{name: "a client alone waits after each huge write", pkg: "./server", tests: "^TestMemory_hugeRest$", edits: []edit{
		{"server/limits.go", " && c.server.stats.total() > c.ranBefore {", " {"},
	}},
	{name: "a second store has the services of the first", pkg: "./module", tests: "^TestTable", edits: []edit{
		{"module/host.go", "CompareAndSwap(false, true) {", "CompareAndSwap(false, true) && false {"},
	}},
	{name: "a store that was refused frees the services of another", pkg: "./module", tests: "^TestTable", edits: []edit{
		{"module/host.go", "	if h.serving {\n", "	if h.hasServices(h.runs) {\n"},
	}},
	{name: "bits that are taken back stay", pkg: "./txn", tests: "^Test(Watch|Multi(_refused)?$|Tx|Update$|Update_rolledBack|View$)", edits: []edit{
		{"kv/bits.go",
			"\t\tw.bits[bit.block].Remove(bit.position)\n\t\tw.bitCount--\n",
			"\t\t_ = bit\n"},
	}},
	{name: "a writer of named keys deletes all", pkg: "./kv", tests: "^TestWriter_DeleteAll", edits: []edit{
		{"kv/objects.go", "\tif w.gate != gateExclusive {\n\t\treturn errors.New(\"kv: a writer", "\tif w.gate == gateNone {\n\t\treturn errors.New(\"kv: a writer"},
	}},
	{name: "a service that does not start is stopped", pkg: "./module", tests: "^TestTable", edits: []edit{
		{"module/host.go",
			"\t\t\tif err := s.Start(h.db); err != nil {\n",
			"\t\t\th.started = append(h.started, s)\n\t\t\tif err := s.Start(h.db); err != nil {\n"},
	}},
	{name: "services stop in the order in which they started", pkg: "./module", tests: "^TestTable", edits: []edit{
		{"module/host.go", "range slices.Backward(h.started)", "range slices.All(h.started)"},
	}},
}
