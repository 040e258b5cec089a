package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/reply"
)

// hint prints, on standard error, what may help a person with the reply to a command: the names that an
// unknown one is close to, how a command is used that was not understood, and, on a terminal, that the key of a
// read does not exist. The reply itself stays what it is for programs.
func (sh *shell) hint(ctx context.Context, exec executor, words [][]byte, r reply.Reply, own []*cobra.Command) {
	onTerminals := isTerminal(sh.stdout) && isTerminal(sh.stderr)
	if !r.IsError() && !onTerminals {
		return // no table is needed: a server would be asked for it
	}
	name, table := string(words[0]), exec.commands()
	cmd := findCommand(table, name)
	switch {
	case bytes.HasPrefix(r.Bytes(), []byte("ERR unknown command")) && r.IsError():
		if names := suggestions(name, table, own); names != "" {
			fmt.Fprintf(sh.stderr, "%sunknown command '%s'; did you mean %s?\n", sh.name, name, names)
		}
	case cmd == nil:
	case r.IsError() && (!takes(cmd, len(words)) || bytes.HasPrefix(r.Bytes(), []byte("ERR syntax error"))):
		fmt.Fprintf(sh.stderr, "%susage: %s\n", sh.name, usage(cmd))
	case onTerminals && readsKey(cmd) && exec.isMissing(ctx, words[cmd.FirstKey]):
		fmt.Fprintf(sh.stderr, "(no key %s)\n", quoted(words[cmd.FirstKey]))
	}
}

// usage is a command with the words after it.
func usage(cmd *kv.Command) string { return strings.TrimSpace(cmd.Name + " " + cmd.Syntax) }

// suggestions returns the names that a name is close to as they go into a question, "" if there are none.
func suggestions(name string, table []*kv.Command, own []*cobra.Command) string {
	var names []string
	for _, cmd := range own {
		names = append(names, cmd.Name())
	}
	for _, cmd := range table {
		names = append(names, cmd.Name)
	}
	near := closest(name, names)
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
func readsKey(cmd *kv.Command) bool {
	return cmd.Flags&kv.ReadOnly != 0 && cmd.FirstKey > 0 && cmd.LastKey == cmd.FirstKey
}
