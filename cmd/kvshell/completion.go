package main

import (
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/prompt"
)

// shells are the shells that completion can be had for.
var shells = []string{"bash", "fish", "powershell", "zsh"}

func (sh *shell) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "completion " + strings.Join(shells, "|"),
		Short:                 "Prints a script with which a shell completes words of kvshell",
		Long:                  completionHelp,
		Args:                  exactArgs(1),
		Annotations:           storeless,
		DisableFlagsInUseLine: true,
		RunE:                  func(cmd *cobra.Command, args []string) error { return printCompletion(cmd.Root(), args[0]) },
	}
}

const completionHelp = `completion prints a script with which a shell completes the words of kvshell by Tab: its own words and flags, the commands of
a store with their options, and names of files. Keys are completed at kvshell's prompt only. For bash, with the package
bash-completion:

  kvshell completion bash >~/.local/share/bash-completion/completions/kvshell

For zsh, in a directory of $fpath, and for fish:

  kvshell completion zsh >"${fpath[1]}/_kvshell"
  kvshell completion fish >~/.config/fish/completions/kvshell.fish
`

func printCompletion(root *cobra.Command, name string) error {
	out, err := root.OutOrStdout(), error(nil)
	switch name {
	case "bash":
		err = root.GenBashCompletionV2(out, true)
	case "fish":
		err = root.GenFishCompletion(out, true)
	case "powershell":
		err = root.GenPowerShellCompletionWithDesc(out)
	case "zsh":
		err = root.GenZshCompletion(out)
	default:
		return exit.Usagef("completion %q: want one of %s", name, strings.Join(shells, ", "))
	}
	return exit.WithCode(exit.Local, err)
}

// completeWords has shells complete flags, own words with their arguments, and commands of a store.
func (sh *shell) completeWords(root, help *cobra.Command) error {
	none := func(string) iter.Seq2[string, error] { return func(func(string, error) bool) {} }
	completer := &prompt.Completer{Table: sh.table, Keys: none, Own: root.Commands}
	commands := &prompt.Completer{Table: sh.table, Keys: none, Own: func() []*cobra.Command { return nil }} // cobra offers own words
	root.ValidArgsFunction = func(_ *cobra.Command, typed []string, partial string) ([]string, cobra.ShellCompDirective) {
		return commands.Offer(typed, partial), cobra.ShellCompDirectiveNoFileComp
	}
	complete := func(cmd *cobra.Command, typed []string, partial string) ([]string, cobra.ShellCompDirective) {
		if files := completesFiles(prompt.Places(cmd), len(typed)); files != cobra.ShellCompDirectiveNoFileComp {
			return nil, files
		}
		return completer.Offer(append([]string{cmd.Name()}, typed...), partial), cobra.ShellCompDirectiveNoFileComp
	}
	for _, cmd := range append(root.Commands(), help) {
		cmd.ValidArgsFunction = complete
	}
	levels := cobra.FixedCompletions([]string{"always", "everysec", "no"}, cobra.ShellCompDirectiveNoFileComp)
	return errors.Join(root.MarkPersistentFlagDirname("dir"), root.RegisterFlagCompletionFunc("sync", levels))
}

// plainUsages makes the descriptions of flags those that shells show. In help, the name of a value stands in backquotes.
func plainUsages(root *cobra.Command) {
	for _, cmd := range append(root.Commands(), root) {
		for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.PersistentFlags()} {
			flags.VisitAll(func(flag *pflag.Flag) { _, flag.Usage = pflag.UnquoteUsage(flag) })
		}
	}
}

// completesFiles tells what a shell completes by itself at the place of an own word's argument: files, directories or
// nothing.
func completesFiles(places []string, at int) cobra.ShellCompDirective {
	if at < len(places) {
		names := strings.Split(places[at], "|")
		switch {
		case slices.Contains(names, "FILE"), slices.Contains(names, "OUT"):
			return cobra.ShellCompDirectiveDefault
		case slices.Contains(names, "DIR"), slices.Contains(names, "TARGET"):
			return cobra.ShellCompDirectiveFilterDirs
		}
	}
	return cobra.ShellCompDirectiveNoFileComp
}
