package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/cmdline"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/suggest"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/server"
)

// hint prints, on standard error, what may help a person with the reply to a command: what hintText returns and, on a
// terminal, that the key of a read does not exist. The reply itself is for programs too, and does not change.
func (sh *shell) hint(ctx context.Context, exec executor, words [][]byte, r reply.Reply, own []*cobra.Command) {
	if hint := sh.hintText(exec.Table, words, r, own); hint != "" {
		fmt.Fprintf(sh.stderr, "%s%s\n", sh.name, hint)
		return
	}
	if r.IsError() || !tty.IsTerminal(sh.stdout) || !sh.stderr.IsTerminal() {
		return // before the server is asked for its table, which would be in vain
	}
	if cmd := exec.Table().Command(words[0]); cmd != nil && readsKey(cmd) && exec.IsMissing(ctx, words[cmd.FirstKey]) {
		fmt.Fprintf(sh.stderr, "(no key %s)\n", cmdline.Quoted(words[cmd.FirstKey]))
	}
}

// hintText returns the hint about a command and its reply, "" if there is none: for an unknown command the names that
// are close to it, for a wrong number of arguments or a syntax error the syntax, and the option that a command ignores
// without an error. It asks for the table, which may be on a server, only if it needs it.
func (sh *shell) hintText(table func() *module.Table, words [][]byte, r reply.Reply, own []*cobra.Command) string {
	said := func(text string) bool { return r.IsError() && bytes.HasPrefix(r.Bytes(), []byte(text)) }
	name := string(words[0])
	switch {
	case said("ERR Protocol error: invalid bulk length"):
		longest := slices.MaxFunc(words, func(a, b []byte) int { return len(a) - len(b) })
		return fmt.Sprintf("a word has %d bytes: more than the server takes, see proto-max-bulk-len", len(longest))
	case said("ERR unknown command") && sh.address == nil && serverCommands.Command(words[0]) != nil:
		return strings.ToUpper(name) + " is a command of the server: kvshell serve starts one, and -h HOST connects to it"
	case said("ERR unknown command"):
		if names := suggestions(name, table(), own); names != "" {
			return fmt.Sprintf("unknown command '%s'; did you mean %s?", name, names)
		}
	case said("ERR too large: filter of") && sh.address == nil:
		return "the flag --max-filter-bytes allows larger filters"
	case said("ERR wrong number of arguments"), said("ERR syntax error"), said("ERR unknown option"), said("Unknown argument"):
		if cmd := table().Command(words[0]); cmd != nil {
			return "usage: " + cmd.Usage()
		}
	case !r.IsError() && mistakesOptions[strings.ToUpper(name)] != "":
		if cmd := table().Command(words[0]); cmd != nil {
			return unknownOption(cmd, words)
		}
	}
	return ""
}

// serverCommands are the commands that a store has only when it is served.
var serverCommands = module.New(server.Module())

// mistakesOptions says what commands do with an unknown option, for which they have no error, as in RedisBloom.
var mistakesOptions = map[string]string{
	"BF.RESERVE": "ignores it", "CF.RESERVE": "ignores it",
	"BF.INSERT": goesByLetters, "CF.INSERT": goesByLetters, "CF.INSERTNX": goesByLetters,
}

const goesByLetters = "goes by its first letters"

// unknownOption returns the hint about the first unknown option of a command in mistakesOptions, "" if there is none.
func unknownOption(cmd *module.Command, words [][]byte) string {
	arguments := cmd.Arguments()
	options := make(map[string]bool) // whether the option has a value
	addOptions(options, arguments)
	names, does := slices.Sorted(maps.Keys(options)), mistakesOptions[cmd.Name]
	first := 1 + slices.IndexFunc(arguments, func(a module.Argument) bool { return a.Token != "" || a.Optional })
	for i := first; 0 < first && i < len(words); i++ {
		word := text.FoldCase(words[i])
		known := slices.IndexFunc(names, func(name string) bool {
			return name == word || does == goesByLetters && strings.HasPrefix(name, word)
		})
		switch {
		case does == goesByLetters && strings.HasPrefix(word, "I"):
			return ""
		case known < 0:
			what := "usage: " + cmd.Usage()
			if near := suggest.Closest(word, names); len(near) > 0 {
				what = "did you mean " + alternatives(near) + "?"
			}
			return fmt.Sprintf("%s has no option %s, and %s; %s", cmd.Name, cmdline.Quoted(words[i]), does, what)
		case options[names[known]]:
			i++
		}
	}
	return ""
}

// addOptions adds the words in arguments that users type as they are, and whether each has a value.
func addOptions(options map[string]bool, arguments []module.Argument) {
	for i := range arguments {
		if a := &arguments[i]; a.Token != "" {
			options[a.Token] = a.Kind != "pure-token"
		}
		addOptions(options, arguments[i].Parts)
	}
}

// suggestions returns the names that a name is close to, in the form "A, B or C" that a question needs; "" if there
// are none.
func suggestions(name string, table *module.Table, own []*cobra.Command) string {
	var names []string
	for _, cmd := range own {
		names = append(names, cmd.Name())
	}
	for _, cmd := range table.Commands() {
		names = append(names, cmd.Name)
	}
	near := suggest.Closest(name, names)
	for i, n := range near {
		if n == strings.ToLower(n) {
			near[i] = "the word " + n
		}
	}
	return alternatives(near)
}

// alternatives returns names in the form "A, B or C".
func alternatives(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// readsKey reports whether a command only reads, and has a single key. The replies of commands with many keys tell
// how many they found.
func readsKey(cmd *module.Command) bool {
	return cmd.Flags&module.ReadOnly != 0 && cmd.FirstKey > 0 && cmd.LastKey == cmd.FirstKey
}
