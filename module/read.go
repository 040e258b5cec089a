package module

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/module/reply"
)

// ReadTable returns the command table of a server, sievekv or Redis, read from its replies to COMMAND and COMMAND
// DOCS. The commands have no handlers: the table is for help and completion. ReadTable ignores parts with an
// unexpected form. If the server has no COMMAND DOCS, docs may be any reply.
func ReadTable(commands, docs reply.Reply) *Table {
	t := &Table{commands: make(map[string]*Command)}
	texts := fields(docs)
	for _, entry := range commands.Elems() {
		e := entry.Elems()
		if len(e) < 6 {
			continue
		}
		name := string(e[0].Bytes())
		cmd := &Command{
			Name: strings.ToUpper(name), Arity: int(e[1].Int()), Flags: flagsNamed(e[2].Elems()),
			FirstKey: int(e[3].Int()), LastKey: int(e[4].Int()), KeyStep: int(e[5].Int()),
		}
		cmd.readDocs(fields(texts[name]))
		key := text.FoldString(cmd.Name)
		if t.commands[key] == nil {
			t.names = append(t.names, key)
		}
		t.commands[key] = cmd
	}
	slices.Sort(t.names)
	return t
}

// readDocs reads an entry of COMMAND DOCS, which Docs wrote.
func (c *Command) readDocs(docs map[string]reply.Reply) {
	text := func(name string) string { return string(docs[name].Bytes()) }
	c.Summary, c.Group = text("summary"), cmp.Or(text("group"), "other")
	c.Complexity, c.Example = text("complexity"), text("example")
	c.arguments = readArguments(docs["arguments"].Elems())
	subs := docs["subcommands"].Elems()
	for i := 0; i+1 < len(subs); i += 2 { // names have the form config|get
		sub := Command{Name: strings.ToUpper(string(subs[i].Bytes()))}
		sub.readDocs(fields(subs[i+1]))
		c.Subcommands = append(c.Subcommands, sub)
	}
	slices.SortFunc(c.Subcommands, func(a, b Command) int { return strings.Compare(a.Name, b.Name) })
	_, c.Syntax, _ = strings.Cut(text("syntax"), " ") // cuts the name at the start
	if text("syntax") == "" {
		c.Syntax = c.syntaxText()
	}
}

// syntaxText returns a Syntax made from the arguments or the subcommands.
func (c *Command) syntaxText() string {
	if len(c.Subcommands) == 0 {
		return argumentTexts(c.arguments, " ")
	}
	var forms []string
	for i := range c.Subcommands {
		sub := &c.Subcommands[i]
		_, name, _ := strings.Cut(sub.Name, "|")
		forms = append(forms, strings.TrimSpace(name+" "+argumentTexts(sub.arguments, " ")))
	}
	slices.Sort(forms)
	return strings.Join(forms, " | ")
}

// readArguments reads what argumentReplies wrote. The result is never nil.
func readArguments(replies []reply.Reply) []Argument {
	list := []Argument{}
	for _, r := range replies {
		docs := fields(r)
		flags := docs["flags"].Elems()
		list = append(list, Argument{
			Name: string(docs["name"].Bytes()), Kind: string(docs["type"].Bytes()), Token: string(docs["token"].Bytes()),
			Optional: hasStatus(flags, "optional"), Multiple: hasStatus(flags, "multiple"),
			MultipleToken: hasStatus(flags, "multiple_token"), Parts: readArguments(docs["arguments"].Elems()),
		})
	}
	return list
}

// argumentTexts returns arguments in the form they have in a Syntax.
func argumentTexts(list []Argument, separator string) string {
	var texts []string
	for i := range list {
		if text := list[i].text(); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, separator)
}

func (a *Argument) text() string {
	value := a.Name
	switch a.Kind {
	case "pure-token":
		value = ""
	case "oneof":
		value = argumentTexts(a.Parts, "|")
	case "block":
		value = argumentTexts(a.Parts, " ")
	}
	text := strings.TrimSpace(a.Token + " " + value)
	switch {
	case a.MultipleToken:
		text += " [" + text + " ...]"
	case a.Multiple:
		text += " [" + value + " ...]"
	}
	if a.Optional {
		text = "[" + text + "]"
	}
	return text
}

// fields returns the values of a map by name. A RESP2 server sends a map as an array of names and values.
func fields(r reply.Reply) map[string]reply.Reply {
	values, elems := make(map[string]reply.Reply), r.Elems()
	for i := 0; i+1 < len(elems); i += 2 {
		values[string(elems[i].Bytes())] = elems[i+1]
	}
	return values
}

func hasStatus(elems []reply.Reply, name string) bool {
	return slices.ContainsFunc(elems, func(e reply.Reply) bool { return string(e.Bytes()) == name })
}

// flagsNamed returns the flags with these names, and ignores unknown ones.
func flagsNamed(names []reply.Reply) (flags Flags) {
	for i, name := range flagNames {
		if hasStatus(names, name) {
			flags |= 1 << i
		}
	}
	return flags
}
