package main

// inSalvage are mutations of what reads damaged stores.
func inSalvage(name, pkg, tests string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: pkg, tests: tests}
}

// damage is what reading without writing, checks and salvages rest on.
var damage = []mutation{
	inSalvage("a store that is open read-only is locked by nobody", ".", "^TestReadOnly_locks$", edit{"kv/storage/readonly_unix.go",
		"Type: syscall.F_RDLCK", "Type: syscall.F_UNLCK"}),
	inSalvage("a writer opens a store that its own process reads", ".", "^TestReadOnly$", edit{"kv/storage/readonly.go",
		"if own && locks.readers[s.Dir] != nil {", "if false {"}),
	inSalvage("a reader opens a store that its own process writes", ".", "^TestReadOnly_locks$", edit{"kv/storage/readonly.go",
		"if locks.writers[dir] {", "if false {"}),
	inSalvage("the first reader to close takes the lock from the others", ".", "^TestReadOnly_locks$", edit{"kv/storage/readonly.go",
		"if l.stores--; l.stores > 0 {", "if l.stores--; l.stores < 0 {"}),
	inSalvage("a known item is added to a store that is open read-only", ".", "^TestReadOnly_writes$", edit{"kv/durable.go",
		"	if db.opts.ReadOnly || db.level(level) != Always {\n		return db.readOnly()\n	}\n	// If",
		"	if db.level(level) != Always {\n		return nil\n	}\n	// If"}),
	inSalvage("a command that writes nothing is answered by a store that is open read-only", ".", "^TestReadOnly_writes$", edit{"module/session.go",
		"if cmd.Flags&Write != 0 && s.host.db.ReadOnly() {", "if false {"}),
	inSalvage("what a damaged block may have had newer is not lost", "./tests", "^TestDamage$", edit{"kv/storage/remains/table.go",
		"	r.lost = append(r.lost, Range{r.last, bytes.Clone(until)})\n", ""}),
	inSalvage("what comes after the end of a table that was cut is not lost", "./tests", "^TestDamage$", edit{"kv/storage/remains/table.go",
		"		return // this is the last entry of the table\n	}\n	r.lose(r.whole.High)\n", "		return // this is the last entry of the table\n	}\n"}),
	inSalvage("a missing table has lost nothing", "./tests", "^TestDamage$", edit{"kv/storage/remains/table.go",
		`problems: []string{"is missing"}, lost: []Range{whole}}`, `problems: []string{"is missing"}}`}),
	inSalvage("deletions of ranges that cannot be read deleted nothing", "./tests", "^TestDamage$", edit{"kv/storage/remains/table.go",
		"		if !r.noDeletions() {\n", "		if r.data == nil {\n"}),
	inSalvage("a log is read on behind its damage", "./tests", "^TestDamage$", edit{"kv/storage/remains/log.go",
		"		e.tail = true\n		return next, e.fs.add(name, good)\n", "		if err := e.fs.add(name, good); err != nil {\n			return 0, err\n		}\n"}),
	inSalvage("a MANIFEST that is not what was written is believed", "./tests", "^TestDamage$", edit{"kv/storage/remains/examine.go",
		"case sealed >= 0 && !seals[sealed].Matches(data):", "case false:"}),
	inSalvage("a filter whose blocks may be lost is recovered", "./tests", "^TestDamage$", edit{"salvage/salvage.go",
		"if lossy && !r.opts.Lossy {", "if false {"}),
	inSalvage("a key whose header may be an older one is recovered", "./tests", "^TestDamage$", edit{"kv/check/check.go",
		"	if Overlaps(c.ranges, stored,", "	if len(stored) == 0 && Overlaps(c.ranges, stored,"}),
	inSalvage("a filter that was recovered with losses is not marked", "./salvage", "^TestRecover_mark$", edit{"salvage/copy.go",
		"Lossy: h.Lossy || c.lossy,", "Lossy: h.Lossy,"}),
	inSalvage("a filter that is merged from a lossy one is not marked", "./salvage", "^TestRecover_mark$", edit{"scalableext/merge.go",
		"		spec.Lossy = spec.Lossy || p.object.Lossy()\n", "		_ = p\n"}),
	inSalvage("everything is recovered though the MANIFEST is lost", "./salvage", "^TestCheck_manifest$", edit{"salvage/salvage.go",
		"if from.Guessed && !opts.Lossy {", "if false {"}),
	inSalvage("an object that no key has stays after a repair", "./tests", "^TestRepair$", edit{"kv/check/repair.go",
		"		must(b.DeleteRange(format.AppendObjectKey(nil, id), format.AppendObjectKey(nil, id+1), nil))\n", ""}),
	inSalvage("a repair leaves the numbers of keys in memory", "./tests", "^TestRepair$", edit{"kv/check.go",
		"		db.groups[i].Store(n)\n		db.keys.Add(n)\n	}\n	db.expiry", "		_ = i\n		db.keys.Add(n)\n	}\n	db.expiry"}),
}
