package module

import (
	"slices"
	"strings"

	"github.com/sievekv/sievekv/module/reply"
)

// Argument is a part of a command's syntax, in the terms of COMMAND DOCS.
type Argument struct {
	Name     string // a placeholder in lower case
	Kind     string // key, string, integer, double, pattern, pure-token, oneof or block
	Token    string // a word that users type as it is, before the rest
	Optional bool
	Multiple bool       // may be repeated, without the token
	Parts    []Argument // of oneof and block

	// MultipleToken is Multiple with the token. Commands of Redis have it; a Syntax cannot express it.
	MultipleToken bool
}

// Arguments returns the arguments in a command's Syntax, or its subcommands. It returns none for a Syntax that is not
// valid.
func (c *Command) Arguments() []Argument {
	if len(c.Subcommands) == 0 {
		list, ok := c.arguments, true
		if list == nil {
			list, ok = parseSyntax(c)
		}
		if !ok {
			return nil
		}
		return list
	}
	family := Argument{Kind: "oneof"}
	for i := range c.Subcommands {
		sub := &c.Subcommands[i]
		_, name, _ := strings.Cut(sub.Name, "|")
		family.Parts = append(family.Parts, withToken(name, sub.Arguments()))
	}
	return []Argument{family}
}

// withToken returns one argument for a token and the arguments after it.
func withToken(token string, list []Argument) Argument {
	if len(list) == 0 {
		return Argument{Name: strings.ToLower(token), Kind: "pure-token", Token: token}
	}
	return Argument{Name: list[0].Name, Kind: "block", Token: token, Parts: list}
}

// brackets separates brackets from words.
var brackets = strings.NewReplacer("[", " [ ", "]", " ] ")

// parseSyntax parses a command's Syntax. Words in lower case are placeholders, words in upper case stand for
// themselves, brackets enclose optional parts, and
//
//	item [item ...]        means one item or more
//	EX seconds | KEEPTTL   means one of both; single words need no blanks, as in ON|OFF
//
// It is not ok if the syntax has anything else.
func parseSyntax(c *Command) (list []Argument, ok bool) {
	text := brackets.Replace(c.Syntax)
	p := &syntaxParser{tokens: strings.Fields(text), hasKeys: c.FirstKey != 0}
	list = p.alternatives()
	return list, !p.failed && len(p.tokens) == 0
}

type syntaxParser struct {
	tokens  []string // the remaining tokens
	hasKeys bool
	failed  bool
}

// next returns the next token, "" at the end.
func (p *syntaxParser) next() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

func (p *syntaxParser) take() string {
	token := p.next()
	p.tokens = p.tokens[min(1, len(p.tokens)):]
	return token
}

// alternatives parses up to a closing bracket or the end.
func (p *syntaxParser) alternatives() []Argument {
	list := p.sequence()
	if p.next() != "|" {
		return list
	}
	choice := Argument{Kind: "oneof", Parts: []Argument{together(list)}}
	for p.next() == "|" {
		p.take()
		choice.Parts = append(choice.Parts, together(p.sequence()))
	}
	choice.Name = choice.Parts[0].Name
	return []Argument{choice}
}

// together returns one argument for several.
func together(list []Argument) Argument {
	if len(list) == 1 {
		return list[0]
	}
	block := Argument{Kind: "block", Parts: list}
	if len(list) > 0 {
		block.Name = list[0].Name
	}
	return block
}

// sequence parses arguments that follow each other.
func (p *syntaxParser) sequence() (list []Argument) {
	for {
		switch token := p.next(); {
		case token == "", token == "]", token == "|", p.failed:
			return list
		case token == "[":
			p.take()
			part := together(p.alternatives())
			part.Optional = true
			list = append(list, part)
			p.failed = p.failed || p.take() != "]"
		case isToken(token):
			list = append(list, p.tokenWithValues())
		default:
			values := p.values()
			p.failed = p.failed || len(values) == 0 // otherwise the loop would not end
			list = append(list, values...)
		}
	}
}

// tokenWithValues parses a word in upper case, or a choice of several, and the placeholders after it.
func (p *syntaxParser) tokenWithValues() Argument {
	words := strings.Split(p.take(), "|")
	token := Argument{Name: strings.ToLower(words[0]), Kind: "pure-token", Token: words[0]}
	if len(words) > 1 {
		choice := Argument{Name: token.Name, Kind: "oneof"}
		for _, word := range words {
			choice.Parts = append(choice.Parts, Argument{Name: strings.ToLower(word), Kind: "pure-token", Token: word})
		}
		token = choice
	}
	values := p.values()
	switch {
	case len(values) == 0:
		return token
	case len(words) > 1:
		return together(append([]Argument{token}, values...))
	}
	part := together(values)
	part.Token = words[0]
	return part
}

// values parses placeholders, and the brackets that mark the last ones as repeatable.
func (p *syntaxParser) values() (list []Argument) {
	for {
		word := p.next()
		if isValue(word) {
			list = append(list, Argument{Name: p.take(), Kind: p.kindOf(word)})
			continue
		}
		n := p.repeated()
		if n == 0 {
			p.failed = p.failed || word == "..."
			return list
		}
		from := len(list) - n
		for i := range n {
			if from < 0 || list[from+i].Name != p.tokens[1+i] {
				p.failed = true // the brackets repeat something else
				return list
			}
		}
		p.tokens = p.tokens[1+n+2:]
		part := together(slices.Clone(list[from:]))
		part.Multiple = true
		list = append(list[:from], part)
	}
}

// repeated returns the number of placeholders in brackets that end in dots, 0 if the next tokens are something else.
func (p *syntaxParser) repeated() int {
	end := slices.Index(p.tokens, "]")
	if end < 3 || p.tokens[0] != "[" || p.tokens[end-1] != "..." {
		return 0
	}
	if slices.ContainsFunc(p.tokens[1:end-1], func(token string) bool { return !isValue(token) }) {
		return 0
	}
	return end - 2
}

// isToken reports whether a token is a word that users type as it is.
func isToken(s string) bool { return s != "" && 'A' <= s[0] && s[0] <= 'Z' }

// isValue reports whether a token is a placeholder.
func isValue(s string) bool { return s != "" && !isToken(s) && !strings.ContainsAny(s, "[]|.") }

// kinds are the kinds of placeholders, by name. All others are strings.
var kinds = map[string]string{
	"pattern": "pattern", "error_rate": "double", "r": "double", "rate": "double",
	"capacity": "integer", "n": "integer", "e": "integer", "b": "integer", "m": "integer", "count": "integer",
	"cursor": "integer", "offset": "integer", "start": "integer", "end": "integer", "decrement": "integer",
	"seconds": "integer", "milliseconds": "integer",
	"unix-seconds": "unix-time", "unix-milliseconds": "unix-time",
}

func (p *syntaxParser) kindOf(word string) string {
	switch word {
	case "key", "newkey", "source", "destination", "dest", "src":
		if p.hasKeys {
			return "key"
		}
	}
	if kind := kinds[word]; kind != "" {
		return kind
	}
	return "string"
}

// argumentReplies returns arguments in the form of COMMAND DOCS.
func argumentReplies(list []Argument) reply.Reply {
	replies := make([]reply.Reply, len(list))
	for i := range list {
		a := &list[i]
		fields := []reply.Pair{reply.Field("name", reply.BulkString(a.Name)), reply.Field("type", reply.BulkString(a.Kind))}
		if a.Kind == "key" {
			fields = append(fields, reply.Field("key_spec_index", reply.Int(0)))
		}
		if a.Token != "" {
			fields = append(fields, reply.Field("token", reply.BulkString(a.Token)))
		}
		var flags []string
		if a.Optional {
			flags = append(flags, "optional")
		}
		if a.Multiple {
			flags = append(flags, "multiple")
		}
		if len(flags) > 0 {
			fields = append(fields, reply.Field("flags", reply.Set(statuses(flags)...)))
		}
		if len(a.Parts) > 0 {
			fields = append(fields, reply.Field("arguments", argumentReplies(a.Parts)))
		}
		replies[i] = reply.Map(fields...)
	}
	return reply.Array(replies...)
}
