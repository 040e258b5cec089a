package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/client"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/cliflags"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/cmdline"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
	"github.com/sievekv/sievekv/module/reply"
)

// repeatFlags are the flags for a single command.
type repeatFlags struct {
	lastFromStdin bool
	count         times
	interval      cliflags.Seconds
	set           *pflag.FlagSet
}

// times is a flag that takes how often something is done, -1 for ever.
type times int64

func (n *times) String() string { return strconv.FormatInt(int64(*n), 10) }

func (n *times) Type() string { return "N" }

func (n *times) Set(text string) error {
	count, err := strconv.ParseInt(text, 10, 64)
	if err != nil || count < -1 || count == 0 {
		return errors.New("must be 1 or more, or -1 for ever")
	}
	*n = times(count)
	return nil
}

func (f *repeatFlags) register(flags *pflag.FlagSet) {
	flags.BoolVarP(&f.lastFromStdin, "stdin", "x", false, "take the last word of the command from standard input")
	f.count = 1
	flags.VarP(&f.count, "repeat", "r", "run the command `N` times, -1 for ever")
	flags.VarP(&f.interval, "interval", "i", "wait `SECONDS` between the times")
	f.set = flags
}

func (f *repeatFlags) isGiven() bool {
	return f.set.Changed("stdin") || f.set.Changed("repeat") || f.set.Changed("interval")
}

// runCommand runs one command, as often as the flags say, and prints its replies. Forced is whether -- stood before the
// command, so that it is no mistyped own word.
func (sh *shell) runCommand(root *cobra.Command, words []string, forced bool) (err error) {
	args := cmdline.Words(words...)
	if sh.repeat.lastFromStdin {
		last, err := sh.lastWord(root.Context())
		if err != nil {
			return err
		}
		args = append(args, last)
	}
	if sh.address == nil {
		if _, err := sh.dir(); err != nil && !forced {
			return cmp.Or(sh.mistyped(words[0], root.Commands()), err)
		}
	}
	exec, _, err := sh.openFor(root.Context(), args)
	if err != nil {
		return err
	}
	defer exec.Close(&err)
	var own []*cobra.Command
	if !forced {
		own = root.Commands()
	}
	ctx, code := root.Context(), exit.OK
	for n := times(1); ; n++ {
		r, err := sh.do(ctx, exec, args, own)
		if err != nil {
			return err
		}
		code = max(code, exit.ReplyCode(r))
		if n == sh.repeat.count || !pause(ctx, time.Duration(sh.repeat.interval)) {
			break
		}
	}
	if exec.InTransaction() {
		return insideMulti(0, code)
	}
	if code != exit.OK {
		return &exit.Error{Code: code} // the replies have told the errors
	}
	return ctx.Err()
}

// lastWord reads the last word of a command from standard input.
func (sh *shell) lastWord(ctx context.Context) ([]byte, error) {
	word, err := io.ReadAll(io.LimitReader(reading(ctx, sh.stdin), int64(longestWord)+1))
	if err == nil && len(word) > longestWord {
		return nil, exit.Usagef("-x: standard input has more than %d bytes, and no word can be longer", longestWord)
	}
	return word, exit.WithCode(exit.Local, err)
}

// pause waits. It reports false if ctx ended meanwhile.
func pause(ctx context.Context, wait time.Duration) bool {
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
	return ctx.Err() == nil
}

// do runs a command that a person typed, and prints the reply and a hint. If the command is unknown, the hint suggests
// words of own, too.
func (sh *shell) do(ctx context.Context, exec executor, words [][]byte, own []*cobra.Command) (reply.Reply, error) {
	begin := time.Now()
	r, err := exec.Do(ctx, words)
	sh.lasted = time.Since(begin)
	if errors.Is(err, client.ErrNoReply) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	if err := sh.print(r); err != nil {
		return r, err
	}
	sh.hint(ctx, exec, words, r, own)
	return r, exec.Follow(ctx, words, r, sh.print)
}

func (sh *shell) print(r reply.Reply) error {
	text := sh.show.append(nil, r, sh.stdout)
	if r.IsError() {
		text = []byte(tty.Paint(sh.stdout, string(text)))
	}
	if sh.showLong == nil {
		return sh.put(text)
	}
	return sh.showLong(text, !r.IsError() && sh.show.hasLabels(sh.stdout) && tty.HasColors(sh.stdout))
}

// put writes a reply as it is.
func (sh *shell) put(text []byte) error {
	_, err := sh.stdout.Write(text)
	return exit.WithCode(exit.Local, err)
}
