package prompt

import (
	"slices"
	"strings"

	"github.com/sievekv/sievekv/module"
)

// nextWords returns the option words that may follow the words typed after a command's name. If the command has
// subcommands, these are their names, and after such a name the option words of that subcommand.
func nextWords(cmd *module.Command, typed []string) []string {
	if len(cmd.Subcommands) == 0 {
		return optionsOf(cmd.Arguments()).next(typed)
	}
	var names []string
	for i := range cmd.Subcommands {
		sub := &cmd.Subcommands[i]
		_, name, _ := strings.Cut(sub.Name, "|")
		if len(typed) > 0 && strings.EqualFold(name, typed[0]) {
			return nextWords(sub, typed[1:])
		}
		names = append(names, name)
	}
	if len(typed) > 0 {
		return nil
	}
	return names
}

// options are the option words of a command, the upper-case ones in a syntax such as
//
//	key [CAPACITY n] [ERROR r] [NOCREATE] ITEMS item [item ...]
type options struct {
	leading int // words before the first place for an option: they are no options, whatever they look like
	list    []option
}

// option is one option word.
type option struct {
	word   string
	values int  // words after it that belong to it
	rest   bool // all words after these belong to it too
	group  int  // options of a group exclude each other
}

// optionsOf returns the options among the arguments of a command.
func optionsOf(arguments []module.Argument) options {
	var o options
	leading := true
	for group := range arguments {
		a := &arguments[group]
		n := words(a)
		if leading = leading && n > 0 && !a.Optional; leading {
			o.leading += n
			leading = !a.Multiple
		}
		o.add(a, group)
	}
	return o
}

// words returns how many words an argument has, 0 for an argument that has a token.
func words(a *module.Argument) (n int) {
	switch {
	case a.Token != "", a.Kind == "pure-token", a.Kind == "oneof":
		return 0
	case a.Kind != "block":
		return 1
	}
	for i := range a.Parts {
		part := words(&a.Parts[i])
		if part == 0 {
			return 0
		}
		n += part
	}
	return n
}

// add adds the options of an argument, which exclude each other.
func (o *options) add(a *module.Argument, group int) {
	if a.Token != "" {
		option := option{word: a.Token, group: group}
		option.values, option.rest = values(a)
		o.list = append(o.list, option)
	}
	for i := range a.Parts {
		o.add(&a.Parts[i], group)
	}
}

// values returns how many words belong to the token of an argument, and whether they repeat to the end of the line,
// as in ITEMS item [item ...].
func values(a *module.Argument) (n int, rest bool) {
	switch a.Kind {
	case "pure-token", "oneof":
		return 0, false
	case "block":
	default:
		return 1, a.Multiple
	}
	for i := range a.Parts {
		part := &a.Parts[i]
		more := words(part)
		if more == 0 || part.Optional {
			return n, false
		}
		if n += more; part.Multiple {
			return n, true
		}
	}
	return n, a.Multiple
}

// next returns the option words that may follow the words typed after the command's name.
func (o options) next(typed []string) []string {
	if len(typed) < o.leading {
		return nil
	}
	var used []int // groups
	for i := o.leading; i < len(typed); i++ {
		at := slices.IndexFunc(o.list, func(other option) bool { return strings.EqualFold(other.word, typed[i]) })
		if at < 0 {
			continue
		}
		chosen := o.list[at]
		if chosen.rest || i+chosen.values >= len(typed) {
			return nil // what follows belongs to it
		}
		i += chosen.values
		used = append(used, chosen.group)
	}
	var words []string
	for _, other := range o.list {
		if !slices.Contains(used, other.group) {
			words = append(words, other.word)
		}
	}
	return words
}
