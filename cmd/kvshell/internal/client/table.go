package client

import (
	"slices"
	"strings"

	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// commandTable makes the command table of a server of its replies to COMMAND and to COMMAND DOCS. It has what the shell
// helps with: names, numbers of words, places of keys, and the texts. What is not as expected is left out.
func commandTable(commands, docs reply.Reply) []*module.Command {
	texts := Fields(docs)
	table := make([]*module.Command, 0, len(commands.Elems())) // not nil, also without commands
	for _, entry := range commands.Elems() {
		e := entry.Elems()
		if len(e) < 6 {
			continue
		}
		name := string(e[0].Bytes())
		cmd := &module.Command{
			Name:     strings.ToUpper(name),
			Arity:    int(e[1].Int()),
			Flags:    flagsNamed(e[2].Elems()),
			FirstKey: int(e[3].Int()), LastKey: int(e[4].Int()), KeyStep: int(e[5].Int()),
		}
		describeBy(cmd, Fields(texts[name]))
		table = append(table, cmd)
	}
	slices.SortFunc(table, func(a, b *module.Command) int { return strings.Compare(a.Name, b.Name) })
	return table
}

// describeBy fills in the texts of a command.
func describeBy(cmd *module.Command, docs map[string]reply.Reply) {
	text := func(name string) string { return string(docs[name].Bytes()) }
	cmd.Summary, cmd.Group = text("summary"), text("group")
	cmd.Complexity, cmd.Example = text("complexity"), text("example")
	if cmd.Group == "" {
		cmd.Group = "other"
	}
	switch {
	case text("syntax") != "": // with the name
		_, cmd.Syntax, _ = strings.Cut(text("syntax"), " ")
	case docs["subcommands"].Kind() != reply.KindNil:
		cmd.Syntax = subcommandSyntax(docs["subcommands"].Elems())
	default:
		cmd.Syntax = argumentsSyntax(docs["arguments"].Elems(), " ")
	}
}

// subcommandSyntax is what the subcommands of a command look like. In COMMAND DOCS their names are such as config|get.
func subcommandSyntax(docs []reply.Reply) string {
	var forms []string
	for i := 0; i+1 < len(docs); i += 2 {
		_, name, _ := strings.Cut(string(docs[i].Bytes()), "|")
		arguments := Fields(docs[i+1])["arguments"].Elems()
		forms = append(forms, strings.TrimSpace(strings.ToUpper(name)+" "+argumentsSyntax(arguments, " ")))
	}
	slices.Sort(forms)
	return strings.Join(forms, " | ")
}

// argumentsSyntax returns what arguments of COMMAND DOCS look like, in the manner of the command table.
func argumentsSyntax(arguments []reply.Reply, separator string) string {
	var texts []string
	for _, argument := range arguments {
		if text := argumentSyntax(Fields(argument)); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, separator)
}

func argumentSyntax(argument map[string]reply.Reply) string {
	token, kind := string(argument["token"].Bytes()), string(argument["type"].Bytes())
	value := string(argument["name"].Bytes())
	switch kind {
	case "pure-token":
		value = ""
	case "oneof":
		value = argumentsSyntax(argument["arguments"].Elems(), "|")
	case "block":
		value = argumentsSyntax(argument["arguments"].Elems(), " ")
	}
	text := strings.TrimSpace(token + " " + value)
	switch flags := argument["flags"].Elems(); {
	case hasStatus(flags, "multiple_token"):
		text += " [" + text + " ...]"
	case hasStatus(flags, "multiple"):
		text += " [" + value + " ...]"
	}
	if hasStatus(argument["flags"].Elems(), "optional") {
		text = "[" + text + "]"
	}
	return text
}

// Fields returns the values of a map by their names; RESP2 has maps as arrays of names and values in turn.
func Fields(r reply.Reply) map[string]reply.Reply {
	values, elems := make(map[string]reply.Reply), r.Elems()
	for i := 0; i+1 < len(elems); i += 2 {
		values[string(elems[i].Bytes())] = elems[i+1]
	}
	return values
}

func hasStatus(elems []reply.Reply, name string) bool {
	return slices.ContainsFunc(elems, func(e reply.Reply) bool { return string(e.Bytes()) == name })
}

// flagsNamed returns those flags of a command that the command table has.
func flagsNamed(names []reply.Reply) (flags module.Flags) {
	for flag := module.Flags(1); flag != 0; flag <<= 1 {
		if known := flag.Names(); len(known) > 0 && hasStatus(names, known[0]) {
			flags |= flag
		}
	}
	return flags
}
