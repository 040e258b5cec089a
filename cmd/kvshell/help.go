package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/prompt"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/reference"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

//go:generate sh -c "go run . help --markdown >../../docs/COMMANDS.md"

const rootHelp = `kvshell runs commands of a store of filters in a directory, or of a server.

  kvshell -d DIR BF.ADD seen x      runs one command, in any case; all after its name belongs to it
  kvshell -d DIR -- dedup x         runs a command that is called like one of the words below
  kvshell -d DIR                    runs commands typed at a prompt, with completion by Tab and a history;
                                    without a directory, in a scratch store in memory
  kvshell -d DIR -f FILE            runs the commands in FILE, one on a line, words quoted as for redis-cli;
                                    blank lines and lines that begin with # are passed over
  kvshell -d DIR < FILE             the same, but standard error does not tell the line of an error
  kvshell -d DIR dedup KEY FILE     prints the lines of FILE that were not seen before; see kvshell help dedup
  kvshell -d DIR load KEY FILE      adds the lines of FILE to a filter
  kvshell -d DIR stats [KEY]        tells how large and how full the store is, or a key
  kvshell -h HOST top               shows the filters that are busiest and fullest, again and again
  kvshell -d DIR check              reads and checks all of the store
  kvshell salvage DIR NEWDIR        makes a new store of what is whole of a damaged one
  kvshell -d DIR compact            makes the store as small as it gets
  kvshell -d DIR backup TARGET      makes a second store, or with - an archive; restore FILE DIR is the way back
  kvshell -d DIR export KEY FILE    writes a filter, bitmap or string to a file; import KEY FILE is the way back
  kvshell -d DIR import-rdb FILE    copies strings and filters of a dump.rdb of Redis; pull --from redis://HOST
                                    copies from a running one, push --to redis://HOST to it
  kvshell info FILE                 tells what such a file has, and whether it is whole; FILE has a dot or a slash in
                                    its name, or is -: with another word, or none, info is the command INFO
  kvshell -d DIR bench              measures adds and lookups on this machine and disk
  kvshell -d DIR serve              serves the store to clients of Redis, at 127.0.0.1:6380
  kvshell -h HOST [-p PORT] ...     the same on a server, also a Redis; dedup and serve need a directory
  kvshell plan --capacity N --error P
                                    tells how large such a filter would be; needs no store
  kvshell help [WORD|COMMAND|@GROUP]
                                    tells more about a word, a command, or a group of commands
  kvshell version                   tells the version of this program

Without -d, $SIEVEKV_DIR names the directory. The first write to a directory without a store makes one,
unless it is refused; reads and check do not. One process at a time can use a store.

Replies are shown as redis-cli shows them: with their types on a terminal, bare in a pipe.

With --sync always, a write is reported as done when it is on stable storage. With everysec it is reported at
once, and a crash loses up to about a second of writes. With no a crash loses more, also if only the process
is killed.

With any flag for a server but without -h, the server is on this machine. Without a flag for it, the password
is that in $REDISCLI_AUTH.

Exit codes: 0 success; 1 a command answered with an error, or a run was refused; 2 wrong usage; 3 the store
is missing or cannot be opened, or the server cannot be reached; 4 another process uses the store; 5 the store
is damaged; 6 an error of a local file or the disk; 130 interrupted.
`

// storeless are the annotations of words that need no store. The usage of these has no -d.
var storeless = map[string]string{"storeless": "true"}

const usageTemplate = `Usage:
  {{if .HasParent}}{{.Root.Name}} {{if not (index .Annotations "storeless")}}-d DIR {{end}}{{.Use}}{{else}}{{.Use}}{{end}}

Flags:
{{if .HasParent}}{{.LocalFlags.FlagUsages}}{{.InheritedFlags.FlagUsages}}{{else}}{{.Flags.FlagUsages}}{{end}}`

// rootUsageTemplate is the usage of the program. It lists the flags for a server, which are many; the usage of a word
// does not.
func rootUsageTemplate(serverFlags string) string {
	return usageTemplate + "{{if not .HasParent}}\nFlags for a server:\n" + serverFlags + "{{end}}"
}

const promptHelp = `Type a command of the store, in any case, with its words quoted as for redis-cli, or one of the words below.
Type -- before a command that is called like one of these words. A line that begins with # is passed over.

Tab completes what you type, and opens a menu if several words fit; where there is nothing to complete, it shows the syntax of
the command. Ctrl-R searches the history. A pasted block is one text: edit it, and Enter runs its lines. A tab in it is shown
as ␉ and stays a tab. Ctrl-C cancels the line or the running command, Ctrl-Z stops kvshell, Ctrl-D ends it.

$SIEVEKV_HISTFILE names the file of the history; if it is set and empty, there is no history. Lines that begin with a blank
and lines that may hold a password are not kept.
`

// helpUse is the Use line of help: see prompt.Completer.
const helpUse = "help [WORD|COMMAND|@GROUP]"

// helpCommand returns the word help of the command line.
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

// helpCommand returns the word help of the prompt.
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

// write prints a text for people, in which there may be what a store or a server says.
func (sh *shell) write(text string) error {
	_, err := sh.stdout.WriteString(reply.Printable(text))
	return exit.WithCode(exit.Local, err)
}

// writeJSON prints a text in JSON.
func (sh *shell) writeJSON(text []byte) error {
	_, err := sh.stdout.Write(reply.PrintableJSON(text))
	return exit.WithCode(exit.Local, err)
}

// helpOn prints the help on an own word, a group, or a command of the store.
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

// didYouMean returns an error that suggests the names that a name is close to; nil if there are none.
func didYouMean(name string, table *module.Table, own []*cobra.Command) error {
	if names := suggestions(name, table, own); names != "" {
		return exit.Usagef("no word and no command is called %q; did you mean %s?", name, names)
	}
	return nil
}

// mistyped is didYouMean for a name that is no command of a store; nil for a command.
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

// listCommands returns a list of all commands, by group.
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

// describe tells what is known about a command. A server need not tell everything.
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

// page writes a text, on a terminal a screen at a time.
func (sh *shell) page(ctx context.Context, text string) error {
	t := &tty.Pager{Stdin: sh.stdin, Stdout: sh.stdout, Keys: sh.keyboard()}
	return t.Page(ctx, text)
}

// keyboard returns where keys are read from.
func (sh *shell) keyboard() io.Reader {
	if sh.keys != nil {
		return sh.keys
	}
	return sh.stdin
}

// helpText returns the help on a word, in the form that cobra prints.
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

// contextOf returns the context of a command. A command that does not run, and only prints its help, has none of its
// own.
func contextOf(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}
