package main

func inGroup(name string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./kv", tests: "^TestGroup"}
}

func inGroups(name, tests string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./tests/group", tests: tests}
}

// grouped are what a store does as a member of a group: the fence, forgetting, and answers that wait.
var grouped = []mutation{
	inGroups("what is pending is not forgotten", "^TestAnswer", edit{"internal/storage/group.go",
		"	p.filling.reset()\n	p.flushing.reset()\n	p.recorded.Store(0)\n",
		"	p.flushing.reset()\n"}),
	inGroups("strings are not forgotten", "^TestAnswer", edit{"kv/group.go",
		"	db.strings.BeginAll()\n	defer db.strings.EndAll(false)\n",
		""}),
	inGroups("marks of watches are not set when the store forgets", "^TestFollow_watches", edit{"kv/group.go",
		"	p.dropAll()\n	db.watches.SetAll()\n",
		"	p.dropAll()\n"}),
	inGroups("a writer of an earlier leadership is accepted", "^TestFence", edit{"internal/storage/group.go",
		"return g.leading.Load() && g.epoch.Load() == epoch",
		"return g.leading.Load()"}),
	inGroups("a small commit is accepted whoever leads", "^TestFence", edit{"internal/storage/group.go",
		"	if !g.accepts(epoch) {\n		return Receipt{}, ErrNotLeader\n	}\n	r, pending",
		"	r, pending"}),
	inGroup("an answer of an earlier leadership is given", edit{"internal/storage/group.go",
		"if g.epoch.Load() != epoch || epoch&1 != 0 {",
		"if false {"}),
	inGroup("a command that reads does not wait for what is pending", edit{"kv/group.go",
		"		return g.SettleAll(begun)\n",
		"		_ = g\n"}),
	inGroup("a writer without changes does not wait for what is pending", edit{"kv/writer.go",
		"		return g.SettleAll(w.epoch)\n",
		"		return nil\n"}),
	inGroup("an answer from memory does not wait for what is pending", edit{"kv/durable.go",
		"		return g.Settle(o.changed.Load(), o.epoch)\n",
		"		return nil\n"}),
	inGroup("a small commit at always is reported at once", edit{"kv/group.go",
		"		return g.Settle(receipt.Number, w.epoch)\n",
		"		return nil\n"}),
	inGroup("a message is applied while an object is opened", edit{"kv/group.go",
		"	db.lockApply()\n	defer db.apply.Unlock()\n	if m.Whole {",
		"	db.apply.RLock()\n	defer db.apply.RUnlock()\n	if m.Whole {"}),
	inGroup("a snapshot takes what is pending from memory", edit{"internal/storage/message.go",
		"	return min(last, durable)\n",
		"	return max(last, durable)\n"}),
	inGroup("folding flushes", edit{"kv/fold.go",
		"db.foldedBlock(storage.Disk(db.store), o",
		"db.foldedBlock(db.store, o"}),
	inGroup("only the store that leads reclaims", edit{"kv/group.go",
		"		db.noteReclaimed(b)\n",
		""}),
	inGroups("a store that leads takes messages of other terms", "^TestMessage", edit{"internal/storage/message.go",
		"	if g.term != 0 && m.Term != g.term {",
		"	if false {"}),
	inGroups("what is applied is said to be on stable storage before it is", "^TestSyncStore", edit{"internal/storage/message.go",
		"	seq, err := g.store.syncDisk()\n",
		"	seq, err := uint64(0), error(nil)\n"}),
}
