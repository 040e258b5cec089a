package main

import (
	"slices"
	"strings"
)

// syntax is what the Syntax of a command tells of its option words, the upper-case ones, as in
//
//	key [CAPACITY n] [ERROR r] [NOCREATE] ITEMS item [item ...]
type syntax struct {
	leading int // words before the first place for an option: they are what they are, whatever they look like
	options []option
}

// option is one option word.
type option struct {
	word   string
	values int  // words that belong to it
	rest   bool // all words behind those are more of the same
	group  int  // options of a group exclude each other
}

// parseSyntax reads the Syntax of a command of the table.
func parseSyntax(text string) syntax {
	for _, mark := range []string{"[", "]", "|"} {
		text = strings.ReplaceAll(text, mark, " "+mark+" ")
	}
	var s syntax
	tokens := strings.Fields(text)
	s.leading = len(tokens)
	if i := slices.IndexFunc(tokens, func(token string) bool { return !isPlaceholder(token) }); i >= 0 {
		s.leading = i
	}
	depth, group := 0, 0
	for i, token := range tokens {
		switch {
		case token == "[":
			if depth++; depth == 1 {
				group++
			}
		case token == "]":
			depth--
		case isOption(token):
			if depth == 0 && (i == 0 || tokens[i-1] != "|") {
				group++
			}
			o := option{word: token, group: group}
			o.values, o.rest = values(tokens[i+1:])
			s.options = append(s.options, o)
		}
	}
	return s
}

// isOption reports whether a token of a Syntax is a word to be typed as it is.
func isOption(token string) bool { return token[0] >= 'A' && token[0] <= 'Z' }

// isPlaceholder reports whether a token of a Syntax stands for a word.
func isPlaceholder(token string) bool { return !isOption(token) && !strings.ContainsAny(token, "[]|") }

// values returns how many words belong to the option before tokens, and whether they repeat to the end, as those in
// ITEMS item [item ...] do.
func values(tokens []string) (n int, rest bool) {
	for n < len(tokens) && isPlaceholder(tokens[n]) {
		n++
	}
	more := tokens[n:]
	if len(more) == 0 || more[0] != "[" {
		return n, false
	}
	for i, token := range more[1:] {
		if !isPlaceholder(token) {
			return n, token == "]" && more[i] == "..."
		}
	}
	return n, false
}

// next returns the option words that may follow the words typed after the command's name.
func (s syntax) next(typed []string) []string {
	if len(typed) < s.leading {
		return nil
	}
	var used []int // groups
	for i := s.leading; i < len(typed); i++ {
		at := slices.IndexFunc(s.options, func(o option) bool { return strings.EqualFold(o.word, typed[i]) })
		if at < 0 {
			continue
		}
		o := s.options[at]
		if o.rest || i+o.values >= len(typed) {
			return nil // what follows belongs to it
		}
		i += o.values
		used = append(used, o.group)
	}
	var words []string
	for _, o := range s.options {
		if !slices.Contains(used, o.group) {
			words = append(words, o.word)
		}
	}
	return words
}
