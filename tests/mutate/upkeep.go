package main

// upkeep are what runs in the background, and the space and time of the store, rest on.
var upkeep = []mutation{
	upkeepOf("a clock before 1970 tells a time below 0", "./kv", "^TestClock", edit{"kv/keys.go",
		"return max(0, db.opts.Clock().UnixMilli())",
		"return db.opts.Clock().UnixMilli()"}),

	// What a reader, a writer or a transaction tells of keys is of one moment.
	upkeepOf("a writer looks at the clock for each key", "./txn", "^TestMoment", edit{"kv/writer.go",
		"	if !w.timed {\n",
		"	if true {\n"}),
	upkeepOf("a writer goes on with the moment of the one before", "./txn", "^TestMoment", edit{"kv/writer.go",
		"w.uses, w.timed = false, false, 0, false",
		"w.uses = false, false, 0"}),
	upkeepOf("a reader of headers looks at the clock for each key", "./txn", "^TestMoment", edit{"kv/keys.go",
		"	return r.at\n",
		"	return r.db.Now()\n"}),
	upkeepOf("a reader looks at the clock for each key", "./txn", "^TestMoment", edit{"kv/keys.go",
		"r.large}, r.at)",
		"r.large}, r.db.Now())"}),
	upkeepOf("what is left of an expiry is told by another clock than set it", "./txn", "^TestMoment", edit{"kv/registry.go",
		"_ = c.Transaction.Read(func(r Reader) error { now = r.now(); return nil })",
		""}),

	// A compaction that is given up while it waits does not end the process, nor the others.
	upkeepOf("a compaction that is given up ends the process", "./kv", "^TestScheduler_givenUp", edit{"kv/scheduler.go",
		"		r := recover()\n",
		"		var r any\n"}),

	// A header that cannot be understood hides no other key, and can be removed with all
	// that is known of it and no more.
	upkeepOf("a damaged header ends a scan", "./kv", "^TestDamaged", edit{"kv/scan.go",
		"			h = &header{}\n",
		"			return err\n"}),
	upkeepOf("a damaged key leaves the notes of its expiry", "./kv", "^TestDamaged", edit{"kv/writer.go",
		"if v.damage != nil && v.stored.header.id == 0 {",
		"if false {"}),
	upkeepOf("a damaged key is missing for a writer", "./kv", "^TestDamaged", edit{"kv/writer.go",
		"if err == nil && v.damage != nil && !v.changed {",
		"if false {"}),
	upkeepOf("a damaged header is believed", "./kv", "^TestDamaged", edit{"kv/damaged.go",
		"errors.Is(err, ErrCorrupt) && trusted:",
		"errors.Is(err, ErrCorrupt):"}),
	upkeepOf("a header of a newer version is thrown away", "./kv", "^TestDamaged", edit{"kv/damaged.go",
		"if err == nil || !errors.Is(err, ErrCorrupt) {",
		"if err == nil {"}),
	// A full disk takes removals and nothing else, as long as there is a reserve, and what
	// they free comes back.
	upkeepOf("a full disk refuses removals", "./kv", "^TestSpace", edit{"kv/commit.go",
		"if full && !onlyRemoves(w.batch.Repr()) {",
		"if full {"}),
	upkeepOf("a full disk takes every write", "./kv", "^TestSpace", edit{"kv/commit.go",
		"if full && !onlyRemoves(w.batch.Repr()) {",
		"if false {"}),
	upkeepOf("a full disk takes what is gathered", "./kv", "^TestSpace", edit{"kv/commit.go",
		"if !full && w.gathers()",
		"if w.gathers()"}),
	upkeepOf("a disk without a reserve takes removals", "./kv", "^TestSpace", edit{"kv/writer.go",
		"	if db.space.Exhausted() {\n		db.exit()",
		"	if false {\n		db.exit()"}),
	upkeepOf("a full disk is compacted for its own sake", "./kv", "^TestScheduler_full", edit{"kv/scheduler.go",
		"(s.asked > 0 || !s.full()) && ",
		""}),
	upkeepOf("reclaiming is not granted on a full disk", "./kv", "^TestScheduler_full", edit{"kv/scheduler.go",
		"(s.asked > 0 || !s.full()) && ",
		"!s.full() && "}),
	upkeepOf("many small keys removed from a full disk give nothing back", "./tests", "^TestFault_freedFromInside$", edit{"kv/reclaim.go",
		"	if removed == 0 || removed*many < keys+removed {",
		"	if true {"}),
	upkeepOf("there is always a reserve", "./kv/freeze", "^TestSpace_Exhausted$", edit{"kv/freeze/space.go",
		"s.exhausted.Store(usage.AvailBytes < floor && s.ballast.size.Load() == 0)",
		"s.exhausted.Store(false)"}),
	upkeepOf("a ballast is no reserve", "./kv/freeze", "^TestSpace_Exhausted$", edit{"kv/freeze/space.go",
		"usage.AvailBytes < floor && s.ballast.size.Load() == 0",
		"usage.AvailBytes < floor"}),
	upkeepOf("room as large as the ballast is none", "./kv/freeze", "^TestSpace_Exhausted$", edit{"kv/freeze/space.go",
		"		floor = min(floor, uint64(want)/2)",
		"		_ = want"}),

	// A small store takes little room, and says what takes it.
	upkeepOf("a log gets all its blocks at once", "./kv/freeze", "^TestFS_log_blocks$", edit{"kv/freeze/file.go",
		"	f.blocks = min(f.written+ahead, f.wanted)",
		"	f.blocks = f.wanted + 0*ahead"}),
	upkeepOf("a log gets no blocks ahead", "./kv/freeze", "^TestFS_log_blocks$", edit{"kv/freeze/file.go",
		"	f.blocks = min(f.written+ahead, f.wanted)",
		"	f.blocks = min(f.written, f.wanted) + 0*ahead"}),
	upkeepOf("the ballast of a small store is a large one", "./kv", "^TestDisk_smallStore$", edit{"kv/db.go",
		"	db.ballast.Store(minBallast)",
		"	db.ballast.Store(db.opts.BallastSize)"}),
	upkeepOf("a ballast does not grow", "./kv/freeze", "^TestSpace_ballast_grows$", edit{"kv/freeze/ballast.go",
		"return b.size.Load() < b.want() }",
		"return b.size.Load() == 0 && b.want() > 0 }"}),
	upkeepOf("a ballast that is too small is none", "./kv/freeze", "^TestSpace_ballast_grows$", edit{"kv/freeze/ballast.go",
		"info.Size() >= b.want() && info.Size() <= b.most {",
		"info.Size() == b.want() {"}),
	upkeepOf("tables that are to go are counted", "./kv", "^TestDisk_compacted$", edit{"kv/info.go",
		"return all - min(all, m.Table.Local.ObsoleteSize+m.Table.Local.ZombieSize)",
		"return all"}),

	upkeepOf("EXEC goes on past a command that a full disk has stopped", "./kv", "^TestSpace_full$", edit{"txn/commands.go",
		`strings.HasPrefix(string(r.Bytes()), "MISCONF ")`,
		`strings.HasPrefix(string(r.Bytes()), "MISCONF never ")`}),
}

func upkeepOf(name, pkg, tests string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: pkg, tests: tests}
}
