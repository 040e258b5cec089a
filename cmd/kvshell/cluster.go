package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/module/reply"
)

func (sh *shell) clusterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster WORD",
		Short: "Looks at a group of stores, and changes it",
		Long:  clusterHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return exit.Usagef("cluster: no word is called %q: want status, token, transfer, remove, rejoin, force or try", args[0])
		},
	}
	word := func(use, short string, least, most int, words func(args []string) []string) {
		cmd.AddCommand(&cobra.Command{
			Use: use, Short: short, Args: rangeArgs(least, most), DisableFlagsInUseLine: true,
			RunE: func(cmd *cobra.Command, args []string) error {
				return sh.askMember(cmd.Context(), append([]string{"SIEVE.CLUSTER"}, words(args)...))
			},
		})
	}
	named := func(name string) func([]string) []string {
		return func(args []string) []string { return append([]string{name}, args...) }
	}
	word("status", "Shows what the member knows of the group", 0, 0, named("STATUS"))
	word("token NAME PEER-ADDR [CLIENT-ADDR]", "Adds a member, and prints the token with which it joins", 2, 3, named("TOKEN"))
	word("transfer [MEMBER]", "Hands the leadership over", 0, 1, named("TRANSFER"))
	word("remove MEMBER", "Removes a member for good", 1, 1, named("REMOVE"))
	word("rejoin MEMBER [PEER-ADDR [CLIENT-ADDR]]", "Puts a new member in the place of one that has found damage", 1, 3, named("REJOIN"))
	sh.addSure(cmd, "remove", "also if fewer than three members are left")
	sh.addSure(cmd, "rejoin", "also if the member is healthy")
	cmd.AddCommand(sh.clusterTryCommand(), sh.clusterForceCommand())
	return cmd
}

// addSure gives a word the flag --yes.
func (sh *shell) addSure(cmd *cobra.Command, word, usage string) {
	sub, _, _ := cmd.Find([]string{word})
	sure := sub.Flags().Bool("yes", false, usage)
	sub.RunE = func(cmd *cobra.Command, args []string) error {
		words := append([]string{"SIEVE.CLUSTER", strings.ToUpper(word)}, args...)
		if *sure {
			words = append(words, "YES")
		}
		return sh.askMember(cmd.Context(), words)
	}
}

const clusterHelp = `status                                   what the member knows of the group
token NAME PEER-ADDR [CLIENT-ADDR]       adds a member, and prints the token with which it joins
transfer [MEMBER]                        hands the leadership over
remove MEMBER [--yes]                    removes a member for good
rejoin MEMBER [PEER-ADDR [CLIENT-ADDR]]  puts a new member in the place of one that has found damage, and prints its token
force DIR... [--from DIR --yes]          makes a new group of what is left of one that has lost its majority
try DIR [--port PORT]                    runs a group of three on this machine

cluster asks a member of a group, which -h, -p or -u names, and has it change the group. A MEMBER is named by its name, its
peer address or its id.

A group is made by kvshell serve --cluster init. For each other member, token adds it and prints a token, with which kvshell
serve --cluster join makes it on its machine. It gets everything, and votes from then on. token, transfer, remove and rejoin
are for the member that leads; status says which one that is.

A member that refuses to start, or has ended because it differs from the others, is replaced: rejoin prints a token, with which
kvshell serve --cluster rejoin makes a new member in its directory. What was there is moved aside in it. If the member was removed
already, or rejoin was cut, it needs the addresses.
`

// rangeArgs refuses other numbers of arguments.
func rangeArgs(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return exit.Usagef("%s: %d arguments, want %s", cmd.CommandPath(), len(args), cmd.Use)
		}
		return nil
	}
}

// askMember sends a command to the server that the flags name, and prints the reply.
func (sh *shell) askMember(ctx context.Context, words []string) (err error) {
	if sh.address == nil {
		return exit.Usagef("cluster: name a member by -h HOST, -p PORT or -u URL")
	}
	c := sh.client()
	defer c.Close(&err)
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	r, err := c.Do(ctx, args)
	if err != nil {
		return err
	}
	if r.IsError() && strings.HasPrefix(r.Err().Error(), "ERR unknown command") {
		return exit.WithCode(exit.Local, errors.New("cluster: the store of this server is a member of no group"))
	}
	if r.IsError() {
		return exit.WithCode(exit.Local, r.Err())
	}
	return sh.write(string(shown(r)))
}

// shown returns a reply as lines of names and values. Those of members are indented.
func shown(r reply.Reply) []byte {
	if r.Kind() != reply.KindMap && r.Kind() != reply.KindArray {
		return fmt.Appendf(nil, "%s\n", plain(r))
	}
	var b []byte
	for name, value := range fields(r) {
		if value.Kind() != reply.KindArray {
			b = fmt.Appendf(b, "%-10s %s\n", name, plain(value))
			continue
		}
		for _, m := range value.Elems() {
			b = append(b, '\n')
			for name, value := range fields(m) {
				b = fmt.Appendf(b, "  %-8s %s\n", name, plain(value))
			}
		}
	}
	return b
}

// fields visits the fields of a map.
func fields(r reply.Reply) iter.Seq2[string, reply.Reply] {
	return func(yield func(string, reply.Reply) bool) {
		for pair := range slices.Chunk(r.RESP2().Elems(), 2) {
			if len(pair) == 2 && !yield(string(pair[0].Bytes()), pair[1]) {
				return
			}
		}
	}
}

func plain(r reply.Reply) string {
	if r.Kind() == reply.KindInt {
		return strconv.FormatInt(r.Int(), 10)
	}
	return string(r.Bytes())
}
