package main

// inWindows are mutations that a test of bloomext notices.
func inWindows(name, tests, file, old, mutated string) mutation {
	return mutation{name: name, pkg: "./bloomext", tests: tests, edits: []edit{{file, old, mutated}}}
}

// windows are what filters that forget rest on, see scalableext.Window.
var windows = []mutation{
	{name: "a file tells how long ago slices began by a clock that it does not have", pkg: "./cmd/kvshell", tests: "^TestScript/export$", edits: []edit{{
		"bloomext/info.go", "		case info.Window != 0 && now == 0:\n", "		case info.Window != 0 && now < 0:\n"}}},
	inWindows("all slices take as many items as the first", "^TestWindow_lastShares$", "bloomext/window.go",
		"p.Slice(start, held)", "p.Slice(1, held)"),
	inWindows("slices that a newest one follows take all of the last items", "^TestWindow_lastShares$", "scalableext/window.go",
		"	n, of := v.Last-1, uint64(v.Slices)", "	n, of := v.Last, uint64(v.Slices)"),
	inWindows("the setting of the expansion makes filters with a log that do not grow", "^TestSettings$", "scalableext/commands.go",
		"(a.Window.Span != 0 || a.GrowthLog > 0)", "(a.Window.Span != 0)"),
	inWindows("the setting of the expansion keeps filters from having a window", "^TestSettings$", "scalableext/commands.go",
		"(a.Window.Span != 0 || a.GrowthLog > 0)", "(a.GrowthLog > 0)"),
	inWindows("an item is found for ever", "^TestWindow$", "bloomext/window.go",
		"f.window.Ends(f.layers[n-1].start) <= now {", "false {"),
	inWindows("a slice expires when the window has passed since its start", "^TestWindow$", "scalableext/window.go",
		"return start + v.Turn() + v.Span.Milliseconds()", "return start + v.Span.Milliseconds()"),
	inWindows("a slice takes adds for a moment too long", "^TestWindow$", "scalableext/window.go",
		"now < start+v.Turn()", "now <= start+v.Turn()"),
	inWindows("an add of an item that is about to be forgotten does not keep it", "^TestWindow$", "bloomext/window.go",
		"		return f.taking(db.Now())", "		return f.alive(db.Now())"),
	inWindows("an item that is kept is new", "^TestWindow$", "bloomext/window.go",
		"return added && !older[0], err", "return added, err"),
	inWindows("items of a batch that are kept are new", "^TestWindow_batch$", "bloomext/window.go",
		"added[at[i]] = !found", "added[at[i]] = !found || true"),
	inWindows("slices that have expired stay", "^TestWindow$", "bloomext/window.go",
		"	gone := len(f.layers) - f.alive(s.w.Now())\n", "	gone := 0\n"),
	inWindows("slices of a filter that nobody uses stay", "^TestWindow_unused$", "kv/wake.go",
		"	if is != 0 {\n		w.set(", "	if false {\n		w.set("),
	inWindows("a slice that begins in the future takes no adds", "^TestWindow_clockBack$", "scalableext/window.go",
		"return start != 0 && now", "return start != 0 && start <= now && now"),
	inWindows("each slice has the whole error rate", "^TestWindow_rate$", "scalableext/window.go",
		"p.ErrorRate / float64(p.Window.Slices+1)", "p.ErrorRate / 1"),
	inWindows("one slice too few is kept with Last", "^TestWindow_last$", "bloomext/window.go",
		"left := f.window.Slices // besides", "left := f.window.Slices - 1 // besides"),
}
