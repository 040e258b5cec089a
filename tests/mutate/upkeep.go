package main

// upkeep are what runs in the background, and the space and time of the store, rest on.
var upkeep = []mutation{
	upkeepOf("a clock before 1970 tells a time below 0", "./kv", "^TestClock", edit{"kv/keys.go",
		"return max(0, db.opts.Clock().UnixMilli())",
		"return db.opts.Clock().UnixMilli()"}),

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
}

func upkeepOf(name, pkg, tests string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: pkg, tests: tests}
}
