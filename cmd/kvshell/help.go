package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/kv"
)

const rootHelp = `kvshell runs commands of a store of filters in a directory.

  kvshell -d DIR BF.ADD seen x      runs one command, in any case; all after its name belongs to it
  kvshell -d DIR -- dedup x         -- makes a command of what would be one of the words below
  kvshell -d DIR < FILE             runs the commands in FILE, one on a line, words quoted as for redis-cli;
                                    blank lines and those that begin with # are passed over
  kvshell -d DIR dedup KEY FILE     prints the lines of FILE that were not seen before; see kvshell help dedup
  kvshell -d DIR check              reads and checks all of the store
  kvshell help [WORD|COMMAND]       tells more, also of a command

Without -d, the directory is that in $SIEVEKV_DIR. The first write to a directory without a store makes
one; reads and check do not. One process at a time can use a store.

Replies are shown as redis-cli shows them: with their types on a terminal, bare in a pipe.

A write is reported as done when it is on stable storage (--sync always), or at once: --sync everysec then
loses up to about a second of writes in a crash, and --sync no more, even if only the process is killed.

Exit codes: 0 all is well; 1 a command answered with an error, or a run was refused; 2 wrong usage; 3 the
store is not there or cannot be opened; 4 another process uses it; 5 it is damaged; 6 trouble with a local
file or the disk; 130 interrupted.
`

const dedupHelp = `dedup prints the lines of FILE, or of standard input for -, that were not seen before, in order. Seen are
the lines of all earlier runs with the same KEY too: it names a Bloom filter, which is made if it is missing.
A new line is taken for a seen one at the filter's false-positive rate, and then lost; a seen one is never
printed again.

FILE may be gzipped, with one member or several. Lines may have any length, and end in LF or CRLF, or with the
file; they are printed with LF. An empty line is a line. What is compared is the bytes.

With -o, the new lines are appended to OUT, each exactly once even if the run is killed or the power fails: the
same command again goes on where it was. Until then KEY takes no other input and no other OUT, unless
--restart forgets the unfinished run. FILE must not change meanwhile (standard input must have the same bytes
again), nor must OUT. A last line of OUT without a line break is given one.

Without -o, the new lines go to standard output. If such a run is killed, the next one may print its last batch
once more. Other news, such as the summary, then goes to standard error.
`

const checkHelp = `check reads every header, counter and block of the store, and checks that all of it decodes and belongs to a key.
That filters have about as many bits set as their item counts let expect can only be told statistically: such
findings are notes. A problem found makes the exit code 5.
`

const usageTemplate = `Usage:
  {{if .HasParent}}{{.Root.Name}} -d DIR {{.Use}}{{else}}{{.Use}}{{end}}

Flags:
{{if .HasParent}}{{.LocalFlags.FlagUsages}}{{.InheritedFlags.FlagUsages}}{{else}}{{.Flags.FlagUsages}}{{end}}`

func (sh *shell) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "help [WORD|COMMAND]",
		Short:                 "Tells how a word or a command is used",
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			if len(args) == 0 {
				return sh.helpAll(root)
			}
			for _, own := range root.Commands() {
				if own.Name() == args[0] {
					return own.Help()
				}
			}
			return sh.helpOn(args[0])
		},
	}
}

// helpAll is the help on kvshell and a list of the store's commands.
func (sh *shell) helpAll(root *cobra.Command) (err error) {
	if err := root.Help(); err != nil {
		return err
	}
	db, err := openScratch()
	if err != nil {
		return err
	}
	defer closeStore(db, &err)
	text := "\nCommands:\n"
	for _, c := range db.Commands() {
		text += fmt.Sprintf("  %-11s %s\n", c.Name, c.Summary)
	}
	_, err = sh.stdout.WriteString(text)
	return withCode(exitLocal, err)
}

// helpOn is the help on a command of the store.
func (sh *shell) helpOn(name string) (err error) {
	db, err := openScratch()
	if err != nil {
		return err
	}
	defer closeStore(db, &err)
	c := findCommand(db, name)
	if c == nil {
		return usagef("no word and no command is called %q: see kvshell help", name)
	}
	_, err = sh.stdout.WriteString(describe(c))
	return withCode(exitLocal, err)
}

func describe(c *kv.Command) string {
	usage := strings.TrimSpace(c.Name + " " + c.Syntax)
	return fmt.Sprintf("%s\n  %s\n  Time:    %s\n  Example: %s\n", usage, c.Summary, c.Complexity, c.Example)
}
