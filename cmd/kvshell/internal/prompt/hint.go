package prompt

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// Hint returns what is still missing behind a line, and may follow it, as the syntax of its command has it; "" if the line is no
// command, or has a word that does not belong to it.
func (c *Completer) Hint(line string) string {
	typed, start, ok := splitPartial(line)
	if !ok || len(typed) == 1 && start == len(line) {
		return ""
	}
	complete := typed // words; the last one may be without its end
	blank := " "
	if start == len(line) {
		complete, blank = typed[:len(typed)-1], ""
	}
	if hint := c.missing(complete); hint != "" {
		return blank + reply.Printable(hint)
	}
	return ""
}

// missing returns the syntax of what may follow the words of a line.
func (c *Completer) missing(typed []string) string {
	if typed[0] == "--" {
		typed = typed[1:]
	} else if cmd := FindWord(c.Own(), typed[0]); cmd != nil {
		return missingOfOwn(cmd, typed[1:])
	}
	table := c.Known()
	if len(typed) == 0 || table == nil {
		return ""
	}
	if cmd := table.Command([]byte(typed[0])); cmd != nil {
		return missingOf(cmd, typed[1:])
	}
	return ""
}

// missingOf returns the syntax of what may follow the words typed after a command's name.
func missingOf(cmd *module.Command, typed []string) string {
	if len(cmd.Subcommands) > 0 {
		if len(typed) == 0 {
			return strings.Join(nextWords(cmd, nil), "|")
		}
		for i := range cmd.Subcommands {
			sub := &cmd.Subcommands[i]
			if _, name, _ := strings.Cut(sub.Name, "|"); strings.EqualFold(name, typed[0]) {
				return missingOf(sub, typed[1:])
			}
		}
		return ""
	}
	arguments := cmd.Arguments()
	if len(arguments) == 0 && len(typed) == 0 {
		return cmd.Syntax // which has no arguments, or is too special
	}
	missing, left := matchAll(arguments, typed)
	if len(left) > 0 {
		return ""
	}
	return strings.Join(missing, " ")
}

// matchAll returns the syntax of what is missing of arguments, and the words that belong to none of them. Arguments that begin
// with a token, and those that may be left out, may come in any order.
func matchAll(list []module.Argument, typed []string) (missing, left []string) {
	for len(list) > 0 {
		n := 0
		for n < len(list) && (list[n].Optional || hasToken(&list[n])) {
			n++
		}
		var more []string
		if n > 0 {
			more, typed = matchOptions(list[:n], list[n:], typed)
		} else {
			n = 1
			more, typed = matchOne(&list[0], list[1:], typed)
		}
		missing = append(missing, more...)
		list = list[n:]
	}
	return missing, typed
}

// matchOptions is matchAll for arguments in any order, before others.
func matchOptions(list, after []module.Argument, typed []string) (missing, left []string) {
	rest := slices.Clone(list)
	for len(typed) > 0 && len(missing) == 0 {
		at := slices.IndexFunc(rest, func(a module.Argument) bool { return begins(&a, typed[0]) })
		if at < 0 && len(after) == 0 {
			at = slices.IndexFunc(rest, func(a module.Argument) bool { return !hasToken(&a) || a.Kind == "oneof" && hasPlain(&a) })
		}
		if at < 0 {
			break
		}
		a := rest[at]
		rest = slices.Delete(rest, at, at+1)
		missing, typed = matchOne(&a, slices.Concat(rest, after), typed)
	}
	for i := range rest {
		missing = append(missing, syntax(&rest[i]))
	}
	return missing, typed
}

// matchOne returns the syntax of what is missing of an argument that the words begin with, or that must follow.
func matchOne(a *module.Argument, after []module.Argument, typed []string) (missing, left []string) {
	if a.Token != "" && len(typed) == 0 {
		return []string{syntax(a)}, nil
	}
	for {
		if a.Token != "" && strings.EqualFold(a.Token, typed[0]) {
			typed = typed[1:]
		}
		before := len(typed)
		missing, typed = matchBody(a, typed)
		if !a.Multiple && !a.MultipleToken {
			return missing, typed
		}
		switch {
		case len(typed) == 0:
			return append(missing, again(a)), nil
		case len(typed) == before, a.MultipleToken && !begins(a, typed[0]),
			slices.ContainsFunc(after, func(b module.Argument) bool { return begins(&b, typed[0]) }):
			return missing, typed
		}
	}
}

// matchBody is matchOne for what follows the token of an argument, once.
func matchBody(a *module.Argument, typed []string) (missing, left []string) {
	switch a.Kind {
	case "pure-token":
		return nil, typed
	case "block":
		return matchAll(a.Parts, typed)
	case "oneof":
		return matchChoice(a, typed)
	}
	if len(typed) == 0 {
		return []string{a.Name}, nil
	}
	return nil, typed[1:]
}

// matchChoice is matchBody for a choice: a word says which of its parts follows, or one part takes any word.
func matchChoice(a *module.Argument, typed []string) (missing, left []string) {
	if len(typed) == 0 {
		return []string{body(a)}, nil
	}
	for _, fits := range []func(*module.Argument) bool{
		func(part *module.Argument) bool { return begins(part, typed[0]) },
		func(part *module.Argument) bool { return !hasToken(part) },
	} {
		for i := range a.Parts {
			if fits(&a.Parts[i]) {
				return matchOne(&a.Parts[i], nil, typed)
			}
		}
	}
	return nil, typed
}

// hasToken reports whether an argument begins with a word that is typed as it is, or may do so.
func hasToken(a *module.Argument) bool {
	return a.Token != "" || a.Kind == "block" && len(a.Parts) > 0 && hasToken(&a.Parts[0]) || a.Kind == "oneof" && slices.ContainsFunc(a.Parts, func(part module.Argument) bool { return hasToken(&part) })
}

// hasPlain reports whether a part of a choice takes any word.
func hasPlain(a *module.Argument) bool {
	return slices.ContainsFunc(a.Parts, func(part module.Argument) bool { return !hasToken(&part) })
}

// begins reports whether a word is the token with which an argument begins.
func begins(a *module.Argument, word string) bool {
	switch {
	case a.Token != "":
		return strings.EqualFold(a.Token, word)
	case a.Kind == "block":
		return len(a.Parts) > 0 && begins(&a.Parts[0], word)
	}
	return slices.ContainsFunc(a.Parts, func(part module.Argument) bool { return begins(&part, word) })
}

// syntax returns an argument in the form of a Syntax.
func syntax(a *module.Argument) string {
	text := body(a)
	if a.Token != "" && a.Kind != "pure-token" {
		text = a.Token + " " + text
	}
	if a.Multiple || a.MultipleToken {
		text += " " + again(a)
	}
	if a.Optional {
		text = "[" + text + "]"
	}
	return text
}

// again returns the syntax of a repetition.
func again(a *module.Argument) string {
	if a.MultipleToken {
		return "[" + a.Token + " " + body(a) + " ...]"
	}
	return "[" + body(a) + " ...]"
}

// body returns the syntax of what follows the token of an argument; of a token without anything that is the token.
func body(a *module.Argument) string {
	var parts []string
	for i := range a.Parts {
		parts = append(parts, syntax(&a.Parts[i]))
	}
	switch a.Kind {
	case "pure-token":
		return a.Token
	case "block":
		return strings.Join(parts, " ")
	case "oneof":
		if slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(part, " ") }) {
			return strings.Join(parts, " | ")
		}
		return strings.Join(parts, "|")
	}
	return a.Name
}

// missingOfOwn is missingOf for an own word.
func missingOfOwn(cmd *cobra.Command, typed []string) string {
	flags, given, positional := cmd.Flags(), make(map[string]bool), 0
	var missing []string
	for i := 0; i < len(typed); i++ {
		if !isFlagWord(typed[i]) {
			positional++
			continue
		}
		name, _, _ := strings.Cut(typed[i], "=")
		given[name] = true
		if flag := flagBefore(flags, typed[i]); flag != nil {
			if i++; i == len(typed) {
				value, _ := pflag.UnquoteUsage(flag)
				missing = append(missing, value)
			}
		}
	}
	for _, place := range placesAndFlags(cmd) {
		name, _, _ := strings.Cut(strings.Trim(place, "[]"), " ")
		switch {
		case given[name]:
		case !isFlagWord(name) && name != "flags" && positional > 0:
			positional--
		default:
			missing = append(missing, place)
		}
	}
	if positional > 0 {
		return ""
	}
	return strings.Join(missing, " ")
}

// placesAndFlags returns the parts of a Use line after the name: words, flags with their values, and what is in brackets.
func placesAndFlags(cmd *cobra.Command) (places []string) {
	whole := true
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if last := len(places) - 1; !whole {
			places[last] += " " + word
			whole = strings.HasPrefix(places[last], "[") == strings.HasSuffix(word, "]")
			continue
		}
		places = append(places, word)
		whole = strings.HasPrefix(word, "[") == strings.HasSuffix(word, "]") && !strings.HasPrefix(word, "--")
	}
	return places
}
