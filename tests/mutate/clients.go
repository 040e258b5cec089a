package main

// clients are the lines that keep one client from harming others.
var clients = []mutation{
	{name: "what a pattern takes is not counted", pkg: "./coreext", tests: "^TestPattern_charged$", edits: []edit{
		{"module/call.go", "\tif c.Session.Charge == nil {\n\t\treturn func() {}, nil\n", "\tif c.Session != nil {\n\t\treturn func() {}, nil\n"},
	}},
	{name: "what a pattern took is not given back", pkg: "./coreext", tests: "^TestPattern_charged$", edits: []edit{
		{"module/call.go", "_ = c.Session.charge(-bytes) }", "}"},
	}},
	{name: "what is charged by each run of a lookup adds up", pkg: "./coreext", tests: "^TestCharge_again$", edits: []edit{
		{"module/call.go", "if again := s.charged - before; again != 0 {", "if again := s.charged - before; again < 0 {"},
	}},
	{name: "a lookup that runs again goes on with the next keys", pkg: "./coreext", tests: "^TestSieveStats_commitMeanwhile$", edits: []edit{
		{"coreext/sieve.go", "r.ScanFrom(c.Context, from, batch", "r.ScanFrom(c.Context, cursor+0*from, batch"},
	}},
	{name: "a pattern may have any length", pkg: "./coreext", tests: "^Test(NewPattern|Pattern)_", edits: []edit{
		{"kv/glob/glob.go", "if len(text) > MaxLen {", "if len(text) > 16*MaxLen {"},
	}},
	{name: "a pattern loses what moves on from one word of bits to the next", pkg: "./kv/glob", tests: "^TestMatch(_|$)", edits: []edit{
		{"kv/glob/glob.go", "carry = moved >> 63", "carry = 0"},
	}},
	{name: "a star at the end takes the rest before the rest has matched", pkg: "./kv/glob", tests: "^TestMatch(_|$)", edits: []edit{
		{"kv/glob/glob.go", "if reached[last]&end&p.stars[last] != 0 {", "if p.stars[last]&end != 0 {"},
	}},
	{name: "ranges compare bytes as unsigned", pkg: "./kv/glob", tests: "^TestMatch(_|$)", edits: []edit{
		{"kv/glob/glob.go", "int(int8(text[at])), int(int8(text[at+2]))", "int(text[at]), int(text[at+2])"},
	}},
	{name: "a scan of what a transaction has made is not given up", pkg: "./kv", tests: "^TestScan_givenUp$", edits: []edit{
		{"kv/scan.go", "if givenUp = ctx.Err(); givenUp != nil {", "if givenUp != nil {"},
	}},
	inServer("the slow log keeps what is no command", "^TestSlowlog$",
		edit{"server/slowlog.go", "if cmd == nil || !l.keeps(c.server, took) {", "if !l.keeps(c.server, took) {"}),
	inServer("the slow log keeps what is no subcommand", "^TestSlowlog$",
		edit{"server/slowlog.go", "return isWord(words[1], name)", "return name != \"\""}),
	inServer("a client that has gone keeps its command running", "^TestSlow_clientGone$",
		edit{"server/conn.go", "\treturn c.session.DoNamed(c.ctx, cmd, words)\n", "\treturn c.session.DoNamed(c.server.ctx, cmd, words)\n"}),
	inServer("one byte more hides that a client has gone", "^TestSlow_clientGone$",
		edit{"server/watch.go", "\tfor len(c.ahead) < aheadBytes {", "\tfor len(c.ahead) == 0 {"}),
	inServer("the server's end waits for what does not end", "^TestShutdown_stuck$",
		edit{"server/server.go", "\tcase <-last.C:\n\t\treturn false\n", ""}),
	inShell("a disk that hangs keeps the process", "^TestServe_hangs$", edit{"cmd/kvshell/internal/serve/shutdown.go", "\t\tl.exit(exit.Local)\n", "\t\t_ = exit.Local\n"}),
	inShell("a disk that hangs while a store is opened keeps the process", "^TestServe_hangsAtOpening$",
		edit{"cmd/kvshell/internal/serve/serve.go", "\ts.unwatch = context.AfterFunc(ctx, s.last.begin)", "\ts.unwatch = func() bool { return true }"}),
	inShell("a process that gave up waiting has ended well", "^TestServe_hangs$",
		edit{"server/server.go", "err = errors.Join(err, fmt.Errorf(\"%w for commands: %s\", ErrStuck, strings.Join(s.running(), \", \")))", "_ = strings.Join"}),
	inServer("what was not read resets a connection before its error was", "^TestProtocolErrors_unread$",
		edit{"server/conn.go", "if c.told && !c.killed.Load() {", "if c.told && c.killed.Load() {"}),
	inServer("what a client sends after its error is not dropped", "^TestProtocolErrors_unread$",
		edit{"server/conn.go", "for n := 0; n < lingerBytes; {", "for n := 0; n < 0; {"}),
	inServer("a refused client may see a reset instead of the reason", "^TestMaxClients_unread$",
		edit{"server/conn.go", "\tif err != nil { // the client may have gone", "\tif err == nil { // the client may have gone"}),
	{name: "a terminal takes a status or an error for commands", pkg: "./module/reply", tests: "^TestAppendText$", edits: []edit{
		{"module/reply/text.go", "|| !unicode.IsPrint(c) &&", "|| c == 0 &&"},
	}},
	{name: "a terminal takes a verbatim string for commands", pkg: "./module/reply", tests: "^TestAppendText$", edits: []edit{
		{"module/reply/text.go", "[]byte(Printable(string(r.data)))", "r.data"},
	}},
	{name: "a terminal takes what is no UTF-8 for commands", pkg: "./module/reply", tests: "^TestAppendText$", edits: []edit{
		{"module/reply/text.go", "n == 1 && c == utf8.RuneError || ", ""},
	}},
	inServer("keys are watched that there is no memory for", "^TestMemory_watch$",
		edit{"server/conn.go", "&& !c.mayWatch(words[1:])", "&& len(words) < 0"}),
	inServer("any host name leads to the metrics", "^TestMetrics_access$",
		edit{"server/metrics_access.go", "if !o.knows(r.Host) {", "if r.Host == \"-\" {"}),
	inServer("metrics show keys to everybody", "^TestMetrics_access$",
		edit{"server/metrics_access.go", "return o.Keys || o.Password != \"\"", "return true"}),
	inServer("metrics need no password", "^TestMetrics_access$",
		edit{"server/metrics_access.go", "	if o.Password == \"\" {\n		return 0", "	if true {\n		return 0"}),
	inServer("any password is right for the metrics", "^TestMetrics_access$",
		edit{"server/metrics_access.go", "	if o.lets(r) {\n", "	if o.lets(r) || true {\n"}),
	inServer("passwords for the metrics may be guessed without end", "^TestMetrics_guessesEnd$",
		edit{"server/metrics_access.go", "	wait, wrong := given(false)\n", "	wait, wrong := time.Duration(0), 1\n"}),
	inServer("a right password for the metrics changes nothing", "^TestMetrics_guessesEnd$",
		edit{"server/metrics_access.go", "		given(true)\n		return 0", "		return 0"}),
	inServer("an attacker keeps its connection to the metrics", "^TestMetrics_guesses$",
		edit{"server/metrics_access.go", "				w.Header().Set(\"Connection\", \"close\") // there are few connections\n", ""}),
	inServer("passwords for the metrics are looked at though too many wait", "^TestMetrics_guesses$",
		edit{"server/metrics_access.go", "	if status, why := s.delayMetrics(r.Context(), wait); status != 0 {", "	if status, why := s.delayMetrics(r.Context(), wait); status != 0 && status != http.StatusTooManyRequests {"}),
	inServer("a request for metrics that has ended makes others wait", "^TestPace_ended$",
		edit{"server/metrics_access.go", "context.WithTimeout(ctx, longestPace)", "context.WithTimeout(context.WithoutCancel(ctx), longestPace)"}),
	inServer("a request for metrics waits for any number of others", "^TestPace_bounded$",
		edit{"server/metrics_access.go", "context.WithTimeout(ctx, longestPace)", "context.WithTimeout(ctx, time.Hour)"}),
	inServer("a delayed answer of the metrics goes on without the server", "^TestMetrics_guessesShutdown$",
		edit{"server/metrics_access.go", "	case <-s.ctx.Done():\n", "	case <-make(chan struct{}):\n"}),
	inServer("a name may take 4 KiB uncounted", "^TestClient_longNames$",
		edit{"server/client.go", "const maxName = 256", "const maxName = 4096"}),
}
