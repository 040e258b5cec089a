package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/prompt"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/reference"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
	"github.com/sievekv/sievekv/module"
)

//go:generate sh -c "go run . help --markdown >../../docs/COMMANDS.md"

const rootHelp = `kvshell runs commands of a store of filters in a directory, or of a server.

  kvshell -d DIR BF.ADD seen x      runs one command, in any case; all after its name belongs to it
  kvshell -d DIR -- dedup x         -- makes a command of what would be one of the words below
  kvshell -d DIR                    runs commands typed at a prompt, with completion by Tab and a history;
                                    without a directory, in a scratch store in memory
  kvshell -d DIR -f FILE            runs the commands in FILE, one on a line, words quoted as for redis-cli;
                                    blank lines and those that begin with # are passed over
  kvshell -d DIR < FILE             the same, without the lines of errors on standard error
  kvshell -d DIR dedup KEY FILE     prints the lines of FILE that were not seen before; see kvshell help dedup
  kvshell -d DIR load KEY FILE      adds the lines of FILE to a filter
  kvshell -d DIR stats [KEY]        tells facts and figures about the store, or about a key
  kvshell -d DIR check              reads and checks all of the store
  kvshell -d DIR compact            makes the store as small as it gets
  kvshell -d DIR serve              serves the store to clients of Redis, at 127.0.0.1:6380
  kvshell -h HOST [-p PORT] ...     the same on a server, also any Redis: one command, a prompt or a script;
                                    dedup needs a store in a directory
  kvshell plan --capacity N --error P
                                    tells how large such a filter would be; needs no store
  kvshell help [WORD|COMMAND|@GROUP]
                                    tells more, also of a command, or of a group of them
  kvshell version                   tells the version of this program

Without -d, the directory is that in $SIEVEKV_DIR. The first write to a directory without a store makes
one; reads and check do not. One process at a time can use a store.

Replies are shown as redis-cli shows them: with their types on a terminal, bare in a pipe.

A write is reported as done when it is on stable storage (--sync always), or at once: --sync everysec then
loses up to about a second of writes in a crash, and --sync no more, even if only the process is killed.

Any of the flags for a server means the one on this machine if -h does not name another. Its password is taken
from $REDISCLI_AUTH if no flag gives it.

Exit codes: 0 all is well; 1 a command answered with an error, or a run was refused; 2 wrong usage; 3 the
store is not there or cannot be opened, or the server cannot be reached; 4 another process uses the store; 5 it
is damaged; 6 trouble with a local file or the disk; 130 interrupted.
`

// storeless are the annotations of the words that need no store: their usage leaves -d out.
var storeless = map[string]string{"storeless": "true"}

const usageTemplate = `Usage:
  {{if .HasParent}}{{.Root.Name}} {{if not (index .Annotations "storeless")}}-d DIR {{end}}{{.Use}}{{else}}{{.Use}}{{end}}

Flags:
{{if .HasParent}}{{.LocalFlags.FlagUsages}}{{.InheritedFlags.FlagUsages}}{{else}}{{.Flags.FlagUsages}}{{end}}`

// rootUsageTemplate is that of the program, in whose help alone the flags for a server are listed: they are many.
func rootUsageTemplate(serverFlags string) string {
	return usageTemplate + "{{if not .HasParent}}\nFlags for a server:\n" + serverFlags + "{{end}}"
}

const promptHelp = `Type a command of the store, in any case, with its words quoted as for redis-cli, or one of the words below;
-- before a command makes sure that it is none of those. Tab completes, and shows the syntax of a command where there
is nothing to complete; a tab in pasted text is shown as ` + prompt.PastedTab + ` and is a tab. Ctrl-C cancels the line or the command under
way, Ctrl-D ends kvshell. A line that begins with # is passed over. One that begins with a blank, or may hold a
password, is not kept in the history, whose file $SIEVEKV_HISTFILE names; if that is empty, there is none.
`

// helpUse is the Use line of help: see prompt.Completer.
const helpUse = "help [WORD|COMMAND|@GROUP]"

// helpCommand is help on the command line.
func (sh *shell) helpCommand() *cobra.Command {
	var markdown bool
	cmd := &cobra.Command{
		Use:                   helpUse,
		Aliases:               []string{"HELP"},
		Short:                 "Tells how a word, a command or a group of commands is used",
		DisableFlagsInUseLine: true,
		Annotations:           storeless,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch {
			case markdown && len(args) > 0:
				return exit.Usagef("--markdown is about all commands: %q must be left out", args)
			case markdown:
				return sh.helpMarkdown(cmd.Context())
			}
			table := sh.table()
			if len(args) > 0 {
				return sh.helpOn(cmd.Context(), args[0], table, root.Commands())
			}
			return sh.page(cmd.Context(), helpText(root)+"\n"+listCommands(table))
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print the reference of all commands, as in docs/COMMANDS.md")
	return cmd
}

// helpCommand is help at the prompt.
func (p *interactive) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     helpUse,
		Aliases: []string{"HELP", "?"},
		Short:   "Tells how a word, a command or a group of commands is used; ? is the same",
		RunE: func(cmd *cobra.Command, args []string) error {
			own := p.ownCommands()
			if len(args) > 0 {
				return p.shell.helpOn(cmd.Context(), args[0], p.exec.Table(), own)
			}
			text := promptHelp + "\nWords:\n"
			for _, cmd := range own {
				text += fmt.Sprintf("  %-*s %s\n", nameWidth, cmd.Name(), cmd.Short)
			}
			return p.shell.page(cmd.Context(), text+"\n"+listCommands(p.exec.Table()))
		},
	}
}

func (sh *shell) helpMarkdown(ctx context.Context) error {
	text, err := reference.Markdown(ctx)
	if err != nil {
		return err
	}
	return sh.write(text)
}

func (sh *shell) write(text string) error {
	_, err := sh.stdout.WriteString(text)
	return exit.WithCode(exit.Local, err)
}

// helpOn is the help on an own word, a group, or a command of the store.
func (sh *shell) helpOn(ctx context.Context, name string, table *module.Table, own []*cobra.Command) error {
	if word := prompt.FindWord(own, name); word != nil {
		return sh.page(ctx, helpText(word))
	}
	if strings.HasPrefix(name, "@") {
		return sh.helpOnGroup(ctx, strings.ToLower(name), table)
	}
	if c := table.Command([]byte(name)); c != nil {
		return sh.page(ctx, describe(c))
	}
	return cmp.Or(didYouMean(name, table, own), exit.Usagef("no word and no command is called %q: help lists them", name))
}

// didYouMean is the error of a name that is close to others, nil if it is to none.
func didYouMean(name string, table *module.Table, own []*cobra.Command) error {
	if names := suggestions(name, table, own); names != "" {
		return exit.Usagef("no word and no command is called %q; did you mean %s?", name, names)
	}
	return nil
}

// mistyped is didYouMean for what is no command of a store.
func (sh *shell) mistyped(name string, own []*cobra.Command) error {
	table := sh.table()
	if table.Command([]byte(name)) != nil {
		return nil
	}
	return didYouMean(name, table, own)
}

func (sh *shell) helpOnGroup(ctx context.Context, group string, table *module.Table) error {
	text := ""
	for _, c := range table.Commands() {
		if "@"+c.Group == group {
			text += fmt.Sprintf("%s\n  %s\n", c.Usage(), c.Summary)
		}
	}
	if text == "" {
		return exit.Usagef("no commands are in the group %s: there are %s", group, "@"+strings.Join(table.Groups(), ", @"))
	}
	return sh.page(ctx, text)
}

// nameWidth is the width of a column of names. Few are longer.
const nameWidth = 11

// listCommands is a list of commands by their groups.
func listCommands(table *module.Table) string {
	text := "Commands:\n"
	for _, group := range table.Groups() {
		text += "@" + group + "\n"
		for _, c := range table.Commands() {
			if c.Group == group {
				text += fmt.Sprintf("  %-*s %s\n", nameWidth, c.Name, c.Summary)
			}
		}
	}
	return text
}

// describe tells of a command what is known of it: a server need not say everything.
func describe(c *module.Command) string {
	text := c.Usage() + "\n"
	if c.Summary != "" {
		text += "  " + c.Summary + "\n"
	}
	for _, line := range [][2]string{
		{"Time:", c.Complexity}, {"Group:", "@" + c.Group}, {"Example:", strings.ReplaceAll(c.Example, "\n", "\n           ")},
	} {
		if line[1] != "" {
			text += fmt.Sprintf("  %-8s %s\n", line[0], line[1])
		}
	}
	return text
}

// page writes a text as people read it.
func (sh *shell) page(ctx context.Context, text string) error {
	t := &tty.Pager{Stdin: sh.stdin, Stdout: sh.stdout, Keys: sh.stdin}
	if sh.keys != nil {
		t.Keys = sh.keys
	}
	return t.Page(ctx, text)
}

// helpText is the help on a word as cobra would print it.
func helpText(cmd *cobra.Command) string {
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	if text = strings.TrimRight(text, " \n"); text != "" {
		text += "\n\n"
	}
	return text + cmd.UsageString()
}

// contextOf returns the context of a command that runs; one that only tells of itself has none.
func contextOf(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}
