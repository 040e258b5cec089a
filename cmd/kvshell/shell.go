package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/client"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/cliflags"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/filters"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/replica"
	"github.com/sievekv/sievekv/scalableext"
)

// dirVariable names the store's directory when -d does not.
const dirVariable = "SIEVEKV_DIR"

// shell is one run of the program.
type shell struct {
	stdin, stdout *os.File
	stderr        *tty.Messages

	// name stands before messages: the program's name, or nothing at the prompt.
	name string

	// The flags.
	directory      string
	server         client.Flags
	sync           durability
	memory         cliflags.Bytes
	cache          cliflags.Bytes
	stringCache    cliflags.Bytes
	maxFilterBytes cliflags.Bytes
	memtable       cliflags.Bytes
	ballast        cliflags.Bytes
	bloomLayout    layout
	cuckooLayout   layout
	seed           uint64
	readOnly       bool
	wait           time.Duration
	show           format
	script         scriptFlags

	version bool
	yes     bool          // the prompt asks nothing
	lasted  time.Duration // of the last command at the prompt

	showLong func(text []byte, colors bool) error // at the prompt: shows replies; else nil
	keys     io.Reader                            // at the prompt: keys are read from here while no line is edited; else nil

	// lent is the store that the prompt has open, nil elsewhere. Own words that are typed at the prompt use it and
	// open none, and closeStore leaves it open. The prompt sets it while no word runs.
	lent *kv.DB

	interrupted context.Context // of the run; it ends at Ctrl-C

	shown    error // of writing the help that --help asks for
	log      logFlags
	serveLog slog.Handler // of the word serve, nil for all others

	member       bool // the store that is served is one of a group
	node         atomic.Pointer[replica.Node]
	leaveCluster bool
	repeat       repeatFlags
	watched      watchFlags

	address *client.Address // of the server that the flags ask for, nil for a store in a directory
}

// run carries out a command line and returns the exit code.
func (sh *shell) run(ctx context.Context, args []string) int {
	sh.interrupted = ctx
	root := sh.rootCommand()
	root.SetArgs(args)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		plainUsages(root)
	}
	defer keepMemoryLimit()()
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = sh.shown
	}
	sh.tell(err)
	return exit.Code(err)
}

// tell prints an error, unless it was printed before.
func (sh *shell) tell(err error) {
	switch told, ok := err.(*exit.Error); {
	case err == nil, ok && told.Err == nil:
	case !ok && errors.Is(err, context.Canceled):
		sh.stderr.Error(sh.name + "interrupted")
	default:
		plain := strings.ReplaceAll(strings.TrimSpace(text.Plain(err.Error())), "\n", "; ")
		plain = optionNames().ReplaceAllString(plain, "")
		if sh.address == nil {
			plain = strings.ReplaceAll(plain, "(max-filter-bytes)", "(--max-filter-bytes)")
		}
		sh.stderr.Error(sh.name + plain)
	}
}

// optionNames matches the names of options in errors of package kv. They are for Go programs: users of the shell know
// flags.
var optionNames = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(` \((a quarter of |7/32 of )?Options\.\w+\)`)
})

// rootCommand returns the grammar of the command line. Cobra finds own words and their flags. If the first word is
// none of them, all words are a command of the store.
func (sh *shell) rootCommand() *cobra.Command {
	var root *cobra.Command
	root = &cobra.Command{
		Use:   "kvshell -d DIR|-h HOST [flags] [word [arg ...]]",
		Short: "Runs commands of a store in a directory, or of a server",
		Long:  rootHelp,
		Args:  cobra.ArbitraryArgs,
		RunE:  sh.runWords,

		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := sh.checkTarget(cmd.Context(), cmd.Name(), cmd.Flags()); err != nil {
				return err
			}
			if err := sh.limitMemory(); err != nil {
				return err
			}
			return errors.Join(cliflags.Exclusive(root.Flags(), formatFlags...), cliflags.Exclusive(root.Flags(), flagsOfWatch...))
		},
	}
	sh.setUp(root)

	flags := root.PersistentFlags()
	flags.StringVarP(&sh.directory, "dir", "d", "", "the store's `DIR`ectory; without it, that in $"+dirVariable)
	flags.Var(&sh.sync, "sync", "when a write is reported as done: always, everysec or no")
	flags.Var(&sh.memory, "memory", "memory for the whole process, at least 64MiB, which sets --cache, --string-cache, --memtable and maxmemory-clients; such as 300MiB")
	flags.Var(&sh.cache, "cache", "memory for the store's blocks, such as 64MiB (default 256MiB)")
	flags.Var(&sh.stringCache, "string-cache", "memory for strings and their keys, besides --cache (default a quarter of it)")
	flags.Var(&sh.memtable, "memtable", "memory for what was written last, at least 256KiB (default 32MiB); a string can have 7/32 of it")
	flags.Var(&sh.ballast, "ballast", "the most `BYTES` of the reserve on the disk (default 64MiB)")
	flags.Var(&sh.maxFilterBytes, "max-filter-bytes", "the most `BYTES` of one filter, such as 1TiB (default 64GiB)")
	flags.Var(&sh.bloomLayout, filters.BloomLayoutFlag, "layout of Bloom filters that commands make: native or compatible, which is RedisBloom's")
	flags.Var(&sh.cuckooLayout, filters.CuckooLayoutFlag, "layout of cuckoo filters that commands make: native or compatible, which is RedisBloom's")
	flags.Uint64Var(&sh.seed, "seed", 0, "hash seed `N` of filters made by this run, for reproducible ones (default the store's own, random)")
	flags.BoolVar(&sh.readOnly, "read-only", false, "change nothing in DIR, beside other readers; writes are refused")
	flags.BoolVar(&sh.leaveCluster, "leave-cluster", false, "take DIR out of its group: from now on it is a store that is alone")
	flags.DurationVar(&sh.wait, "wait", 0, "wait for a store that another process has open, `TIME` such as 10s at most")
	flags.BoolP("help", "?", false, "this help")
	root.SetUsageTemplate(rootUsageTemplate(sh.server.Register(flags)))
	flags.SortFlags = false

	local := root.Flags()
	local.SetInterspersed(false)
	local.SortFlags = false
	sh.show.register(local)
	sh.script.register(local)
	sh.repeat.register(local)
	sh.watched.register(local)
	local.BoolVar(&sh.yes, "yes", false, "at the prompt, run FLUSHALL, FLUSHDB and CF.DEL without asking")
	local.BoolVarP(&sh.version, "version", "v", false, "the version of this program")

	root.AddCommand(sh.ownCommands()...)
	root.AddCommand(sh.serveCommand(), sh.clusterCommand(), sh.completionCommand(), sh.manCommand())
	help := sh.helpCommand()
	root.SetHelpCommand(help)
	if err := sh.completeWords(root, help); err != nil {
		panic(err) // a flag that is named there does not exist
	}
	return root
}

// ownCommands returns kvshell's own words for work on a store or on files. Each can run once.
func (sh *shell) ownCommands() []*cobra.Command {
	return []*cobra.Command{
		sh.dedupCommand(), sh.loadCommand(), sh.statsCommand(), sh.topCommand(), sh.planCommand(), sh.checkCommand(), sh.compactCommand(),
		sh.backupCommand(), sh.restoreCommand(), sh.exportCommand(), sh.importCommand(),
		sh.salvageCommand(), sh.importRDBCommand(), sh.pullCommand(), sh.pushCommand(),
		sh.benchCommand(), sh.versionCommand(),
	}
}

// setUp has cobra run a command, and print its help and errors, as this program does.
func (sh *shell) setUp(cmd *cobra.Command) {
	cmd.SilenceErrors, cmd.SilenceUsage, cmd.DisableFlagsInUseLine = true, true, true
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetOut(sh.stdout)
	cmd.SetErr(sh.stderr)
	cmd.SetUsageTemplate(usageTemplate)
	cmd.SetFlagErrorFunc(cliflags.Error)
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { sh.shown = sh.page(contextOf(cmd), helpText(cmd)) })
}

// checkTarget finds out whether the flags of a word ask for a server, and which.
func (sh *shell) checkTarget(ctx context.Context, word string, flags *pflag.FlagSet) (err error) {
	if !sh.server.IsGiven() {
		return nil
	}
	given := sh.server.Given()
	if word == "serve" {
		return exit.Usagef("serve: %s is for clients of a server: --addr HOST:PORT and --unixsocket PATH are where serve listens", given)
	}
	if flags.Changed("dir") {
		return exit.Usagef("-d %s and %s exclude each other: a store is in a directory, or behind a server", sh.directory, given)
	}
	for _, name := range []string{"sync", "memory", "cache", "string-cache", "memtable", "ballast", "max-filter-bytes", filters.BloomLayoutFlag, filters.CuckooLayoutFlag, "seed", "read-only", "leave-cluster", "wait"} {
		if flags.Changed(name) {
			return exit.Usagef("--%s and %s exclude each other: it is for a store in a directory, a server has its own", name, given)
		}
	}
	if sh.address, err = sh.server.Address(ctx); err != nil {
		return err
	}
	if sh.server.ShowsPassword() && !sh.server.NoWarning {
		fmt.Fprintln(sh.stderr, passwordWarning)
	}
	return nil
}

// passwordWarning is word for word what redis-cli prints: programs look for it.
const passwordWarning = "Warning: Using a password with '-a' or '-u' option on the command line interface may not be safe."

// runWords runs the words as a command of the store. Without words it runs a script, or commands that are typed at a
// prompt.
func (sh *shell) runWords(cmd *cobra.Command, words []string) error {
	fromFile := cmd.Flags().Changed(fileFlag)
	atPrompt := len(words) == 0 && !fromFile && tty.IsTerminal(sh.stdin) && tty.IsTerminal(sh.stdout)
	switch {
	case sh.version:
		return sh.write(versionText())
	case sh.watched.isGiven():
		return sh.watch(cmd.Context(), words)
	case fromFile && sh.script.file == "":
		return exit.Usagef("-f: the name of the FILE must not be empty")
	case fromFile && len(words) > 0:
		return exit.Usagef("-f %s runs a script: the words %q must be left out", sh.script.file, words)
	case sh.repeat.isGiven() && len(words) == 0:
		return exit.Usagef("-x, -r and -i are for a single command: give its words")
	case sh.script.stopOnError && (len(words) > 0 || atPrompt):
		return exit.Usagef("--stop-on-error is for scripts: give one by -f FILE, or on standard input")
	case cmd.ArgsLenAtDash() != 0 && sh.asksAboutFile(words):
		return sh.describeFile(cmd.Context(), words)
	case len(words) > 0:
		forced := cmd.ArgsLenAtDash() == 0
		return sh.runCommand(cmd, words, forced)
	case atPrompt:
		return sh.runPrompt(cmd.Context())
	}
	return sh.runScript(cmd.Context())
}

// exactArgs checks the arguments of an own word: another number than n is an error that shows the usage.
func exactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return exit.Usagef("usage: %s", cmd.UseLine())
		}
		return nil
	}
}

// layout is the flag for a setting of the layout of filters.
type layout scalableext.Layout

func (l *layout) String() string { return scalableext.Layout(*l).String() }

func (l *layout) Type() string { return "LAYOUT" }

func (l *layout) Set(word string) error {
	parsed, ok := scalableext.ParseLayout(strings.ToLower(word))
	if !ok {
		return errors.New("must be native or compatible")
	}
	*l = layout(parsed)
	return nil
}

// layouts returns the layouts of filters that own words make, from the store that the prompt has open, or from the
// flags.
func (sh *shell) layouts() filters.Layouts {
	if sh.lent == nil {
		return filters.Layouts{Bloom: scalableext.Layout(sh.bloomLayout), Cuckoo: scalableext.Layout(sh.cuckooLayout)}
	}
	return filters.Layouts{
		Bloom: scalableext.LayoutOf(sh.lent, filters.BloomLayoutFlag), Cuckoo: scalableext.LayoutOf(sh.lent, filters.CuckooLayoutFlag),
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
