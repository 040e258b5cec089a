package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/sievekv/sievekv/kv"
)

// dirVariable names the store's directory when -d does not.
const dirVariable = "SIEVEKV_DIR"

// shell is one run of the program.
type shell struct {
	stdin, stdout, stderr *os.File

	// The flags.
	directory string
	sync      durability
	cache     byteSize
	seed      uint64
	show      format
}

// run carries out a command line and returns the exit code.
func (sh *shell) run(ctx context.Context, args []string) int {
	root := sh.rootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	switch told, ok := err.(*codeError); {
	case err == nil, ok && told.err == nil:
	case err == context.Canceled:
		fmt.Fprintln(sh.stderr, "kvshell: interrupted")
	default:
		fmt.Fprintln(sh.stderr, "kvshell:", strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; "))
	}
	return exitCode(err)
}

// rootCommand returns the command line's grammar. Cobra finds the own words and their flags; whatever
// else the first word is, it and all after it go to the store.
func (sh *shell) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "kvshell -d DIR [flags] [word [arg ...]]",
		Short: "Runs commands of a store in a directory",
		Long:  rootHelp,
		Args:  cobra.ArbitraryArgs,
		RunE:  sh.runWords,

		// Cobra would check this itself, but its error is none of usage.
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return withCode(exitUsage, cmd.ValidateFlagGroups())
		},

		SilenceErrors:              true,
		SilenceUsage:               true,
		DisableFlagsInUseLine:      true,
		SuggestionsMinimumDistance: 2,
		CompletionOptions:          cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetOut(sh.stdout)
	root.SetErr(sh.stderr)
	root.SetUsageTemplate(usageTemplate)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if errors.Is(err, pflag.ErrHelp) { // -h, which no flag has
			return err
		}
		return usagef("%w; see %s --help", err, cmd.CommandPath())
	})

	flags := root.PersistentFlags()
	flags.StringVarP(&sh.directory, "dir", "d", "", "the store's `DIR`ectory; without it, that in $"+dirVariable)
	flags.Var(&sh.sync, "sync", "when a write is reported as done: always, everysec or no")
	flags.Var(&sh.cache, "cache", "memory for the store's blocks, such as 64MiB (default 256MiB)")
	flags.Uint64Var(&sh.seed, "seed", 0, "hash seed `N` of filters made by this run, for reproducible ones (default the store's own, random)")
	flags.BoolP("help", "?", false, "this help")
	flags.SortFlags = false

	local := root.Flags()
	local.SetInterspersed(false)
	local.SortFlags = false
	sh.show.register(local)
	root.MarkFlagsMutuallyExclusive(formatFlags...)

	root.AddCommand(sh.dedupCommand(), sh.planCommand(), sh.checkCommand())
	root.SetHelpCommand(sh.helpCommand())
	return root
}

// runWords runs the words as a command of the store, or a script if there are none.
func (sh *shell) runWords(cmd *cobra.Command, words []string) error {
	switch {
	case len(words) > 0:
		forced := cmd.ArgsLenAtDash() == 0
		return sh.runCommand(cmd, words, forced)
	case term.IsTerminal(int(sh.stdin.Fd())):
		cmd.SetOut(sh.stderr)
		if err := cmd.Help(); err != nil {
			return err
		}
		return &codeError{code: exitUsage}
	}
	return sh.runScript(cmd.Context())
}

// exactArgs is for own words: a wrong number of arguments is a usage error that shows the usage.
func exactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("usage: %s", cmd.UseLine())
		}
		return nil
	}
}

// durability is the flag --sync.
type durability kv.Durability

func (d *durability) String() string {
	if kv.Durability(*d) == kv.DurabilityDefault {
		return kv.Always.String()
	}
	return kv.Durability(*d).String()
}

func (d *durability) Type() string { return "LEVEL" }

func (d *durability) Set(word string) error {
	for _, level := range []kv.Durability{kv.Always, kv.EverySec, kv.NoSync} {
		if strings.EqualFold(word, level.String()) {
			*d = durability(level)
			return nil
		}
	}
	return errors.New("must be always, everysec or no")
}

// byteSize is a flag that takes a number of bytes, with a unit if need be.
type byteSize int64

func (b *byteSize) String() string {
	if *b == 0 {
		return ""
	}
	return humanize.IBytes(uint64(*b))
}

func (b *byteSize) Type() string { return "BYTES" }

func (b *byteSize) Set(text string) error {
	n, err := humanize.ParseBytes(text)
	if err != nil || n < 1 || n > 1<<62 {
		return errors.New("must be a number of bytes, such as 64MiB")
	}
	*b = byteSize(n)
	return nil
}
