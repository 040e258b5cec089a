package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/cmdline"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/suggest"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// hint prints, on standard error, what may help a person with the reply to a command: the names that an
// unknown one is close to, how a command is used that was not understood, and, on a terminal, that the key of a
// read does not exist. The reply itself stays what it is for programs.
func (sh *shell) hint(ctx context.Context, exec executor, words [][]byte, r reply.Reply, own []*cobra.Command) {
	said := func(text string) bool { return r.IsError() && bytes.HasPrefix(r.Bytes(), []byte("ERR "+text)) }
	if said("Protocol error: invalid bulk length") {
		longest := slices.MaxFunc(words, func(a, b []byte) int { return len(a) - len(b) })
		fmt.Fprintf(sh.stderr, "%sa word has %d bytes: more than the server takes, see proto-max-bulk-len\n", sh.name, len(longest))
		return
	}
	unknown, misused := said("unknown command"), said("wrong number of arguments") || said("syntax error")
	onTerminals := tty.IsTerminal(sh.stdout) && tty.IsTerminal(sh.stderr)
	if !unknown && !misused && (r.IsError() || !onTerminals) {
		return // a server is not asked for its table in vain
	}
	name, table := string(words[0]), exec.Table()
	cmd := table.Command([]byte(name))
	switch {
	case unknown:
		if names := suggestions(name, table, own); names != "" {
			fmt.Fprintf(sh.stderr, "%sunknown command '%s'; did you mean %s?\n", sh.name, name, names)
		}
	case cmd == nil:
	case misused:
		fmt.Fprintf(sh.stderr, "%susage: %s\n", sh.name, cmd.Usage())
	case readsKey(cmd) && exec.IsMissing(ctx, words[cmd.FirstKey]):
		fmt.Fprintf(sh.stderr, "(no key %s)\n", cmdline.Quoted(words[cmd.FirstKey]))
	}
}

// suggestions returns the names that a name is close to as they go into a question, "" if there are none.
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
	last := len(near) - 1
	if last < 1 {
		return strings.Join(near, "")
	}
	return strings.Join(near[:last], ", ") + " or " + near[last]
}

// readsKey reports whether a command only reads, and reads a single key. Commands of many keys say themselves how many
// they found.
func readsKey(cmd *module.Command) bool {
	return cmd.Flags&module.ReadOnly != 0 && cmd.FirstKey > 0 && cmd.LastKey == cmd.FirstKey
}
