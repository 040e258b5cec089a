package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/cmdline"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/report"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
	"github.com/sievekv/sievekv/module/reply"
)

// watchFlags are flags in place of a command, as redis-cli has them.
type watchFlags struct{ stat, latency, bigKeys bool }

func (f *watchFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.stat, "stat", false, "in place of a command: a line about a server each second, or -i SECONDS, -r N lines at most")
	flags.BoolVar(&f.latency, "latency", false,
		"in place of a command: how long PING takes, until Ctrl-C; -i SECONDS between two, -r N at most; in a pipe for a second")
	flags.BoolVar(&f.bigKeys, "bigkeys", false, "in place of a command: the largest keys of each type; -i SECONDS after each 100 keys")
}

// flagsOfWatch exclude each other.
var flagsOfWatch = []string{"stat", "latency", "bigkeys"}

func (f *watchFlags) isGiven() bool { return f.stat || f.latency || f.bigKeys }

// watch carries out the flag.
func (sh *shell) watch(ctx context.Context, words []string) (err error) {
	switch {
	case len(words) > 0 || sh.script.file != "":
		return exit.Usagef("--stat, --latency and --bigkeys are in place of a command: the words %q and -f must be left out", words)
	case sh.repeat.lastFromStdin:
		return exit.Usagef("-x is for a single command: it must be left out")
	case sh.address == nil && !sh.watched.bigKeys:
		return exit.Usagef("--stat and --latency are about a server: give -h HOST, -p PORT, -s SOCKET or -u URI")
	}
	exec, err := sh.executorOfAll()
	if err != nil {
		return err
	}
	defer exec.Close(&err)
	switch {
	case sh.watched.stat:
		err = sh.stat(ctx, exec)
	case sh.watched.latency:
		err = sh.latency(ctx, exec)
	default:
		return sh.bigKeys(ctx, exec)
	}
	if ctx.Err() != nil { // that is how these end
		return nil
	}
	return err
}

// bigKeys prints the largest keys of each type.
func (sh *shell) bigKeys(ctx context.Context, exec executor) error {
	big := report.NewBigKeys()
	for cursor := "0"; ; {
		r, err := answer(ctx, exec, "SCAN", cursor, "COUNT", "100")
		if err != nil {
			return err
		}
		if len(r.Elems()) != 2 {
			return fmt.Errorf("SCAN: %d replies, want a cursor and keys", len(r.Elems()))
		}
		for _, key := range r.Elems()[1].Elems() {
			if err := sizeOf(ctx, exec, key.Bytes(), big); err != nil {
				return err
			}
		}
		if cursor = string(r.Elems()[0].Bytes()); cursor == "0" {
			return sh.printResult(big, sh.show.json)
		}
		if !pause(ctx, sh.repeat.every(0)) {
			return ctx.Err()
		}
	}
}

// every returns the time of -i, or another if it is not given.
func (f *repeatFlags) every(other time.Duration) time.Duration {
	if f.set.Changed("interval") {
		return time.Duration(f.interval)
	}
	return other
}

// most returns the number of -r, -1 for no end.
func (f *repeatFlags) most() times {
	if f.set.Changed("repeat") {
		return f.count
	}
	return -1
}

const statHeader = "      keys    memory  clients      commands          commands/s  connections\n"

// stat prints a line again and again, and a header above each 20.
func (sh *shell) stat(ctx context.Context, exec executor) error {
	before := uint64(0)
	for n := times(0); n != sh.repeat.most(); n++ {
		if n > 0 && !pause(ctx, sh.repeat.every(time.Second)) {
			return ctx.Err()
		}
		line, commands, err := statLine(ctx, exec, before)
		if err != nil {
			return err
		}
		if n%20 == 0 {
			line = statHeader + line
		}
		if err := sh.write(line); err != nil {
			return err
		}
		before = commands
	}
	return nil
}

// statLine returns a line, and the number of commands so far. It tells how many they are more than before, if that is not 0.
func statLine(ctx context.Context, exec executor, before uint64) (line string, commands uint64, err error) {
	info, err := askInfo(ctx, exec)
	if err != nil {
		return "", 0, err
	}
	keys, err := answer(ctx, exec, "DBSIZE")
	if err != nil {
		return "", 0, err
	}
	commands, _ = strconv.ParseUint(info["total_commands_processed"], 10, 64) // 0 if a server does not tell it
	more := ""
	if before > 0 && commands >= before {
		more = fmt.Sprintf("(+%d)", commands-before)
	}
	return fmt.Sprintf("%10d %9s %8s %13d %-10s %8s %12s\n", keys.Int(), info["used_memory_human"], info["connected_clients"], commands, more,
		info["instantaneous_ops_per_sec"], info["total_connections_received"]), commands, nil
}

// latency prints how long PING takes: on a terminal in one line that changes.
func (sh *shell) latency(ctx context.Context, exec executor) error {
	var l report.Latency
	changes := tty.IsTerminal(sh.stdout) && tty.HasCursor()
	end := time.Now().Add(time.Second) // in a pipe
	shown := time.Time{}
	for n := sh.repeat.most(); n != 0; n-- {
		begin := time.Now()
		if _, err := answer(ctx, exec, "PING"); err != nil && ctx.Err() == nil {
			return err
		}
		l.Add(time.Since(begin))
		if changes && time.Since(shown) > time.Second/10 {
			if err := sh.rewrite(l.Text()); err != nil {
				return err
			}
			shown = time.Now()
		}
		if !pause(ctx, sh.repeat.every(time.Second/100)) || !changes && n < 0 && time.Now().After(end) {
			break
		}
	}
	if changes {
		return sh.rewrite(l.Text() + "\n")
	}
	return sh.write(l.Text() + "\n")
}

// rewrite writes a text in place of the line that the cursor is in.
func (sh *shell) rewrite(text string) error {
	if _, err := sh.stdout.WriteString("\r\x1b[K"); err != nil {
		return exit.WithCode(exit.Local, err)
	}
	return sh.write(text)
}

// sizeOf adds a key, unless it is gone.
func sizeOf(ctx context.Context, exec executor, key []byte, big *report.BigKeys) error {
	size, err := exec.Do(ctx, append(cmdline.Words("MEMORY", "USAGE"), key))
	if err != nil {
		return err
	}
	typ, err := exec.Do(ctx, append(cmdline.Words("TYPE"), key))
	if err != nil {
		return err
	}
	for _, r := range []reply.Reply{size, typ} {
		if r.IsError() {
			return exit.WithCode(exit.ReplyCode(r), fmt.Errorf("%q: %s", key, r.Bytes()))
		}
	}
	if size.Kind() == reply.KindInt {
		big.Add(string(typ.Bytes()), string(key), uint64(size.Int()))
	}
	return ctx.Err()
}
