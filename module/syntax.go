package module

import (
	"slices"
	"strings"

	"github.com/sievekv/sievekv/module/reply"
)

// argument is a part of a command's syntax, in the terms of COMMAND DOCS.
type argument struct {
	name     string // a word in lower case, that stands for what is to be typed
	kind     string // key, string, integer, double, pattern, pure-token, oneof or block
	token    string // a word to be typed as it is, before the rest
	optional bool
	multiple bool
	parts    []argument // of oneof and block
}

// brackets makes words of them.
var brackets = strings.NewReplacer("[", " [ ", "]", " ] ")

// parseSyntax makes arguments of a command's Syntax, in which words in lower case stand for
// others, those in upper case for themselves, brackets hold what may be left out, and
//
//	item [item ...]        is one item or more
//	EX seconds | KEEPTTL   is one of both; without blanks, as in ON|OFF, of single words
//
// ok is false for a syntax with anything else in it.
func parseSyntax(c *Command) (list []argument, ok bool) {
	text := brackets.Replace(c.Syntax)
	p := &syntaxParser{tokens: strings.Fields(text), hasKeys: c.FirstKey != 0}
	list = p.alternatives()
	return list, !p.failed && len(p.tokens) == 0
}

type syntaxParser struct {
	tokens  []string // those to come
	hasKeys bool
	failed  bool
}

// next returns the token to come, "" at the end.
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

// alternatives reads up to a closing bracket, or the end.
func (p *syntaxParser) alternatives() []argument {
	list := p.sequence()
	if p.next() != "|" {
		return list
	}
	choice := argument{kind: "oneof", parts: []argument{together(list)}}
	for p.next() == "|" {
		p.take()
		choice.parts = append(choice.parts, together(p.sequence()))
	}
	choice.name = choice.parts[0].name
	return []argument{choice}
}

// together makes one argument of several.
func together(list []argument) argument {
	if len(list) == 1 {
		return list[0]
	}
	block := argument{kind: "block", parts: list}
	if len(list) > 0 {
		block.name = list[0].name
	}
	return block
}

// sequence reads arguments that follow each other.
func (p *syntaxParser) sequence() (list []argument) {
	for {
		switch token := p.next(); {
		case token == "", token == "]", token == "|", p.failed:
			return list
		case token == "[":
			p.take()
			part := together(p.alternatives())
			part.optional = true
			list = append(list, part)
			p.failed = p.failed || p.take() != "]"
		case isToken(token):
			list = append(list, p.tokenWithValues())
		default:
			values := p.values()
			p.failed = p.failed || len(values) == 0 // what is none of these would be read for ever
			list = append(list, values...)
		}
	}
}

// tokenWithValues reads a word that stands for itself, or one of several, and the values
// behind it.
func (p *syntaxParser) tokenWithValues() argument {
	words := strings.Split(p.take(), "|")
	token := argument{name: strings.ToLower(words[0]), kind: "pure-token", token: words[0]}
	if len(words) > 1 {
		choice := argument{name: token.name, kind: "oneof"}
		for _, word := range words {
			choice.parts = append(choice.parts, argument{name: strings.ToLower(word), kind: "pure-token", token: word})
		}
		token = choice
	}
	values := p.values()
	switch {
	case len(values) == 0:
		return token
	case len(words) > 1:
		return together(append([]argument{token}, values...))
	}
	part := together(values)
	part.token = words[0]
	return part
}

// values reads words that stand for others, and the brackets that say that the last of
// them may be repeated.
func (p *syntaxParser) values() (list []argument) {
	for {
		word := p.next()
		if isValue(word) {
			list = append(list, argument{name: p.take(), kind: p.kindOf(word)})
			continue
		}
		n := p.repeated()
		if n == 0 {
			p.failed = p.failed || word == "..."
			return list
		}
		from := len(list) - n
		for i := range n {
			if from < 0 || list[from+i].name != p.tokens[1+i] {
				p.failed = true // more of something that was not there before
				return list
			}
		}
		p.tokens = p.tokens[1+n+2:]
		part := together(slices.Clone(list[from:]))
		part.multiple = true
		list = append(list[:from], part)
	}
}

// repeated returns the number of words in brackets, if dots follow them there, else 0.
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

// isToken reports whether a part of a syntax is a word to be typed as it is.
func isToken(s string) bool { return s != "" && 'A' <= s[0] && s[0] <= 'Z' }

// isValue reports whether a part of a syntax stands for a word.
func isValue(s string) bool { return s != "" && !isToken(s) && !strings.ContainsAny(s, "[]|.") }

// kinds are those of words, where they are known by their names.
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

// argumentReplies has arguments as COMMAND DOCS has them.
func argumentReplies(list []argument) reply.Reply {
	replies := make([]reply.Reply, len(list))
	for i := range list {
		a := &list[i]
		fields := []reply.Pair{reply.Field("name", reply.BulkString(a.name)), reply.Field("type", reply.BulkString(a.kind))}
		if a.kind == "key" {
			fields = append(fields, reply.Field("key_spec_index", reply.Int(0)))
		}
		if a.token != "" {
			fields = append(fields, reply.Field("token", reply.BulkString(a.token)))
		}
		var flags []string
		if a.optional {
			flags = append(flags, "optional")
		}
		if a.multiple {
			flags = append(flags, "multiple")
		}
		if len(flags) > 0 {
			fields = append(fields, reply.Field("flags", reply.Set(statuses(flags)...)))
		}
		if len(a.parts) > 0 {
			fields = append(fields, reply.Field("arguments", argumentReplies(a.parts)))
		}
		replies[i] = reply.Map(fields...)
	}
	return reply.Array(replies...)
}
