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

// hint prints, on standard error, what may help a person with the reply to a command: for an unknown command the
// names that are close to it, for a wrong number of arguments or a syntax error the syntax, and, on a terminal, that
// the key of a read does not exist. The reply itself is for programs too, and does not change.
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
		return // before the server is asked for its table, which would be in vain
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
	last := len(near) - 1
	if last < 1 {
		return strings.Join(near, "")
	}
	return strings.Join(near[:last], ", ") + " or " + near[last]
}

// readsKey reports whether a command only reads, and has a single key. The replies of commands with many keys tell
// how many they found.
func readsKey(cmd *module.Command) bool {
	return cmd.Flags&module.ReadOnly != 0 && cmd.FirstKey > 0 && cmd.LastKey == cmd.FirstKey
}
