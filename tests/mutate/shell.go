package main

// shell are what kvshell rests on.
var shell = []mutation{
	// What is in OUT belongs to a run: nothing else is written to it, nor cut off.
	inShell("load counts lines that were there behind one that has no room", "^TestLoad_serverFull$", edit{"cmd/kvshell/internal/load/server.go",
		"\treturn s.known[i]\n", "\treturn s.after\n"}),
	inShell("dedup writes its summary over the lines of OUT", "^TestScript$/^dedup$", edit{"cmd/kvshell/internal/dedup/pass.go",
		"{stdout, p.flags.out", "{p.in.File, p.flags.out"}),
	inShell("dedup writes its notes over the lines of OUT", "^TestScript$/^dedup$", edit{"cmd/kvshell/internal/dedup/pass.go",
		"{stderr, p.flags.out", "{p.in.File, p.flags.out"}),
	inShell("a write that is refused makes a store", "^TestOpens$", edit{"cmd/kvshell/store.go",
		"			if refused = refusal.IsError(); !refused {", "			if refused = false; !refused {"}),
	inShell("a script has no hints", "^TestScript$/^hints$", edit{"cmd/kvshell/script.go",
		"	s.hint(exec, line, words, r)\n", ""}),
	inShell("a script is told a hint again and again", "^TestScript$/^hints$", edit{"cmd/kvshell/script.go",
		"	if hint == \"\" || s.hinted[hint] {", "	if hint == \"\" {"}),
	inShell("items are taken for mistyped options", "^TestScript$/^hints$", edit{"cmd/kvshell/hint.go",
		"		case does == goesByLetters && strings.HasPrefix(word, \"I\"):", "		case false:"}),
	inShell("a command of the server is a typing error", "^TestScript$/^hints$", edit{"cmd/kvshell/hint.go",
		"sh.address == nil && serverCommands", "false && serverCommands"}),
	inShell("a script that ends inside MULTI has ended well", "^TestScript$/^script$", edit{"cmd/kvshell/script.go",
		"	if s.exec != nil && s.exec.InTransaction() {", "	if false {"}),
	inShell("a single MULTI has ended well", "^TestScript$/^script$", edit{"cmd/kvshell/command.go",
		"	if exec.InTransaction() {", "	if false {"}),
	{name: "compressed files are read as lines", pkg: "./cmd/kvshell/internal/input", tests: "^TestInput_unread$", edits: []edit{{"cmd/kvshell/internal/input/input.go",
		"	if err := in.refuseUnread(in.r); err != nil {", "	if err := in.refuseUnread(in.r); false {"}}},
	{name: "a compressed file is refused only when it is read", pkg: "./cmd/kvshell/internal/input", tests: "^TestInput_unread$", edits: []edit{{"cmd/kvshell/internal/input/input.go",
		"in.refuseUnread(bufio.NewReader(io.NewSectionReader(in.File, 0, 16))); err != nil {", "in.refuseUnread(bufio.NewReader(io.NewSectionReader(in.File, 0, 16))); false {"}}},
	inShell("a run of dedup does not claim OUT", "^TestScript$/^orphan$", edit{"cmd/kvshell/internal/dedup/pass.go",
		"	if !p.claimed {\n",
		"	if false {\n"}),
	inShell("a claim on OUT is not looked at", "^TestScript$/^orphan$", edit{"cmd/kvshell/internal/dedup/pass.go",
		"	if p.out != nil {\n		if claimed, err = storedClaim",
		"	if false {\n		if claimed, err = storedClaim"}),
	inShell("a claim on OUT is anybody's", "^TestScript$/^orphan$", edit{"cmd/kvshell/internal/dedup/pass.go",
		"	case claimed == nil || claimed.Run != r.run:",
		"	case false:"}),
	inShell("a claim stays behind the run", "^TestScript$/^orphan$", edit{"cmd/kvshell/internal/dedup/pass.go",
		"			return errors.Join(err, dropClaim(w, p.out.path))",
		"			return err"}),
	inShell("a run that is forgotten takes away another's claim", "^TestScript$/^orphan$", edit{"cmd/kvshell/internal/dedup/pass.go",
		"err != nil || c == nil || c.Run != r.run {",
		"err != nil || c == nil {"}),
	inShell("a run that is forgotten leaves its claim", "^TestScript$/^orphan$", edit{"cmd/kvshell/internal/dedup/pass.go",
		"	return dropClaim(w, r.out)",
		"	return nil"}),
	inShell("the end of OUT is not compared", "^TestScript$/^orphan$", edit{"cmd/kvshell/internal/dedup/out.go",
		"	if o.tailSum() != r.tailSum {",
		"	if false {"}),
	inShell("another file takes the place of an empty OUT", "^TestScript$/^orphan$", edit{"cmd/kvshell/internal/dedup/out.go",
		"err == nil && moved && length == 0 && o.found > 0",
		"false"}),
	inShellPackage("dedup", "what is in OUT is not compared with what is written over it", "^TestOutFile$", edit{"cmd/kvshell/internal/dedup/out.go",
		"		if c != lines[i] && c != 0 {",
		"		if c != lines[i] && false {"}),
	inShellPackage("dedup", "zeros in OUT are somebody's", "^TestPass_powerLoss$", edit{"cmd/kvshell/internal/dedup/out.go",
		"		if c != lines[i] && c != 0 {",
		"		if c != lines[i] {"}),
	inShell("what is left in OUT at the end of a run stays", "^TestScript$/^resume$|^TestDedup_crashPoints$", edit{"cmd/kvshell/internal/dedup/pass.go",
		"		if err == nil || filters.HasNoRoom(err) {",
		"		if false {"}),
	inShellPackage("dedup", "what is cut off OUT is not kept", "^TestOutFile$", edit{"cmd/kvshell/internal/dedup/out.go",
		"	if err == nil && !zeros {",
		"	if err == nil && !zeros && false {"}),
	inShell("OUT is made before the run is sure", "^TestScript$/^orphan$", edit{"cmd/kvshell/internal/dedup/out.go",
		"		return &outFile{path: system.RealPath(name)}, nil",
		"		o := &outFile{path: system.RealPath(name)}\n		return o, o.make()"}),
	inShellPackage("dedup", "the tail of OUT is not kept up", "^TestOutFile$", edit{"cmd/kvshell/internal/dedup/out.go",
		"	o.tail = append(o.tail, lines[:n]...)\n",
		""}),
	inShellPackage("dedup", "a run of an earlier version does not claim OUT", "^TestPass_version1$", edit{"cmd/kvshell/internal/dedup/pass.go",
		"	case r.version == 1 && claimed == nil:\n",
		"	case r.version == 1 && claimed == nil:\n		p.claimed = true\n"}),
	inShellPackage("dedup", "OUT is not synced before a commit", "^TestPass_powerLoss$", edit{"cmd/kvshell/internal/dedup/pass.go",
		"	if err := p.out.sync(); err != nil {\n		return exit.WithCode(exit.Local, err)\n	}\n	crashpoint.Reached(\"synced\")",
		"	crashpoint.Reached(\"synced\")"}),

	// Whoever is told that a store is served finds the address.
	inShell("a store is said to be served before its address can be found", "^TestServe_locked$", edit{"cmd/kvshell/internal/serve/serve.go",
		"	if err := s.leaveAddress(db.Dir()); err != nil {\n",
		"	go func() { <-ctx.Done(); _ = s.leaveAddress(db.Dir()) }()\n	if err := error(nil); err != nil {\n"}),

	// What people are told is in their words.
	inShell("errors are shown with names of packages", "^TestScript$/^(check|dedup)$", edit{"cmd/kvshell/shell.go",
		"text.Plain(err.Error())",
		"err.Error()"}),
	inText("names of packages are cut out of what is quoted", edit{"kv/text/errors.go",
		"		if found[0] == '\"' {",
		"		if false {"}),
	inKVErrors("Pebble's note stays in errors", edit{"kv/storage/errors.go",
		"	err = plainError{err}\n",
		""}),
	{name: "who has the store open is always somebody else", pkg: "./tests", tests: "^TestFault_locked$", edits: []edit{{"kv/storage/open.go",
		"	if isOwnLock(err) {",
		"	if false {"}}},
	inShellPackage("suggest", "a name of two other letters is suggested", "^TestClosest$", edit{"cmd/kvshell/internal/suggest/suggest.go",
		"(n <= 1 || beginAlike(mistyped, strings.ToUpper(name)))",
		"true"}),
	inShellPackage("cliflags", "a count too large for its flag is cut", "^TestCountValue$", edit{"cmd/kvshell/internal/cliflags/flags.go",
		"	n, err := parseCount(text, most)\n",
		"	n, err := parseCount(text, max(most, math.MaxUint64))\n"}),
	inShellPackage("cliflags", "a part of one is dropped from a count", "^TestParseCount$", edit{"cmd/kvshell/internal/cliflags/flags.go",
		"	case !n.IsInt():",
		"	case false:"}),

	// The prompt.
	inShellPackage("prompt", "a pasted tab completes", "^TestPastes$", edit{"cmd/kvshell/internal/prompt/keyboard.go",
		"	if p.inside && c == '\\t' {",
		"	if false {"}),
	inShellPackage("prompt", "a mark of a paste that is cut in two is none", "^TestPastes_cut$", edit{"cmd/kvshell/internal/prompt/keyboard.go",
		"	if all && !p.inside && len(p.held) == 1 {",
		"	if len(p.held) > 0 {"}),
	inShell("a pasted tab stays a symbol", "^TestPrompt_pastedTab$", edit{"cmd/kvshell/prompt.go",
		"	line = prompt.WithTabs(line)\n",
		""}),
	inShell("the terminal goes on to mark pastes", "^TestPrompt_pastedTab$", edit{"cmd/kvshell/internal/prompt/editor.go",
		"		err = e.write(UnmarkPastes)\n",
		""}),
	inShellPackage("tty", "help is broken within words", "^TestWrap$", edit{"cmd/kvshell/internal/tty/pager.go",
		"			if last == 0 {",
		"			if last >= 0 {"}),
	inShell("the pager leaves the terminal raw", "^TestPrompt_pager$", edit{"cmd/kvshell/internal/tty/pager.go",
		"	defer func() { err = errors.Join(err, exit.WithCode(exit.Local, term.Restore(int(t.Stdin.Fd()), mode))) }()\n",
		"	_ = mode\n"}),
	inShellPackage("client", "what a server says before it closes is lost", "^TestClient_wordTooLong$", edit{"cmd/kvshell/internal/client/connection.go",
		"		if last, ok := c.farewell(ctx); ok {\n			return last, nil\n		}\n",
		""}),
}

func inShell(name, tests string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./cmd/kvshell", tests: tests}
}

// inShellPackage is inShell for a test in a package below.
func inShellPackage(pkg, name, tests string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./cmd/kvshell/internal/" + pkg, tests: tests}
}

func inText(name string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./kv/text", tests: "^TestPlain$"}
}

func inKVErrors(name string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./kv", tests: "^TestCorrupt_text$"}
}
