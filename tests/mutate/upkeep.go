package main

// upkeep are what runs in the background, and the space and time of the store, rest on.
var upkeep = []mutation{
	upkeepOf("a clock before 1970 tells a time below 0", "./kv", "^TestClock", edit{"kv/keys.go",
		"return max(0, db.opts.Clock().UnixMilli())",
		"return db.opts.Clock().UnixMilli()"}),
}

func upkeepOf(name, pkg, tests string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: pkg, tests: tests}
}
