package main

// clients are the lines that keep one client from harming others.
var clients = []mutation{
	{name: "a pattern may have any length", pkg: "./kv", tests: "^Test(NewPattern|Pattern)_", edits: []edit{
		{"kv/glob.go", "if len(text) > MaxPattern {", "if len(text) > 16*MaxPattern {"},
	}},
	{name: "a pattern loses what moves on from one word of bits to the next", pkg: "./kv", tests: "^TestMatch(_|$)", edits: []edit{
		{"kv/glob.go", "carry = moved >> 63", "carry = 0"},
	}},
	{name: "a star at the end takes the rest before the rest has matched", pkg: "./kv", tests: "^TestMatch(_|$)", edits: []edit{
		{"kv/glob.go", "if reached[last]&end&p.stars[last] != 0 {", "if p.stars[last]&end != 0 {"},
	}},
	{name: "ranges compare bytes as unsigned", pkg: "./kv", tests: "^TestMatch(_|$)", edits: []edit{
		{"kv/glob.go", "int(int8(text[at])), int(int8(text[at+2]))", "int(text[at]), int(text[at+2])"},
	}},
	{name: "a scan of what a transaction has made is not given up", pkg: "./kv", tests: "^TestScan_givenUp$", edits: []edit{
		{"kv/scan.go", "if givenUp = ctx.Err(); givenUp != nil {", "if givenUp != nil {"},
	}},
	inServer("the slow log keeps what is no command", "^TestSlowlog$",
		edit{"server/slowlog.go", "\tcase cmd == nil:\n\t\treturn true\n", "\tcase cmd == nil:\n\t\treturn false\n"}),
	inServer("the slow log keeps what is no subcommand", "^TestSlowlog$",
		edit{"server/slowlog.go", "return isWord(words[1], name)", "return name != \"\""}),
	inServer("a client that has gone keeps its KEYS running", "^TestSlow_clientGone$",
		edit{"server/conn.go", "\tcase looksAtAllKeys(cmd) || cmd.Name == \"EXEC\":", "\tcase cmd.Name == \"EXEC\":"}),
	inServer("a client that has gone keeps its EXEC running", "^TestSlow_clientGone$",
		edit{"server/conn.go", "\tcase looksAtAllKeys(cmd) || cmd.Name == \"EXEC\":", "\tcase looksAtAllKeys(cmd):"}),
	inServer("one byte more hides that a client has gone", "^TestSlow_clientGone$",
		edit{"server/conn.go", "\t\tfor len(c.ahead) < aheadBytes {", "\t\tfor len(c.ahead) == 0 {"}),
	inServer("the server's end waits for what does not end", "^TestShutdown_stuck$",
		edit{"server/server.go", "\tcase <-last.C:\n\t\treturn false\n", ""}),
	inShell("a disk that hangs keeps the process", "^TestServe_hangs$", edit{"cmd/kvshell/serve.go", "\t\tl.exit(exitLocal)\n", ""}),
	inShell("a disk that hangs while a store is opened keeps the process", "^TestServe_hangsAtOpening$",
		edit{"cmd/kvshell/serve.go", "\tdefer context.AfterFunc(ctx, last.begin)()", "\t_ = last.begin"}),
	inShell("a process that gave up waiting has ended well", "^TestServe_hangs$",
		edit{"server/server.go", "err = errors.Join(err, fmt.Errorf(\"%w for commands: %s\", ErrStuck, strings.Join(s.running(), \", \")))", "_ = strings.Join"}),
	inServer("what was not read resets a connection before its error was", "^TestProtocolErrors_unread$",
		edit{"server/conn.go", "if c.told && !c.killed.Load() {", "if c.told && c.killed.Load() {"}),
	inServer("what a client sends after its error is not dropped", "^TestProtocolErrors_unread$",
		edit{"server/conn.go", "for n := 0; n < lingerBytes; {", "for n := 0; n < 0; {"}),
	inServer("who is refused may see a reset in place of the reason", "^TestMaxClients_unread$",
		edit{"server/conn.go", "\tif err != nil { // it may have gone", "\tif err == nil { // it may have gone"}),
	{name: "a terminal takes a status or an error for commands", pkg: "./kv/reply", tests: "^TestAppendText$", edits: []edit{
		{"kv/reply/text.go", "|| !unicode.IsPrint(c) &&", "|| c == 0 &&"},
	}},
	{name: "a terminal takes a verbatim string for commands", pkg: "./kv/reply", tests: "^TestAppendText$", edits: []edit{
		{"kv/reply/text.go", "[]byte(Printable(string(r.data)))", "r.data"},
	}},
	{name: "a terminal takes what is no UTF-8 for commands", pkg: "./kv/reply", tests: "^TestAppendText$", edits: []edit{
		{"kv/reply/text.go", "n == 1 && c == utf8.RuneError || ", ""},
	}},
	inServer("keys are watched that there is no memory for", "^TestMemory_watch$",
		edit{"server/conn.go", "&& !c.mayWatch(words[1:])", "&& len(words) < 0"}),
	inServer("any host name leads to the metrics", "^TestMetrics_access$",
		edit{"server/metrics_access.go", "case !o.knows(r.Host):", "case r.Host == \"-\":"}),
	inServer("metrics show keys to everybody", "^TestMetrics_access$",
		edit{"server/metrics_access.go", "return o.Keys || o.Password != \"\"", "return true"}),
	inServer("metrics need no password", "^TestMetrics_access$",
		edit{"server/metrics_access.go", "&& !o.lets(r):", "&& false:"}),
	inServer("a name may take 4 KiB uncounted", "^TestClient_longNames$",
		edit{"server/client.go", "const maxName = 256", "const maxName = 4096"}),
}
