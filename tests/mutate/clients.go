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
	inServer("the slow log keeps what is no command", "^TestSlowlog$",
		edit{"server/slowlog.go", "\tcase cmd == nil:\n\t\treturn true\n", "\tcase cmd == nil:\n\t\treturn false\n"}),
	inServer("the slow log keeps what is no subcommand", "^TestSlowlog$",
		edit{"server/slowlog.go", "return isWord(words[1], name)", "return name != \"\""}),
	inServer("a name may take 4 KiB uncounted", "^TestClient_longNames$",
		edit{"server/client.go", "const maxName = 256", "const maxName = 4096"}),
}
