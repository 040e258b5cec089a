package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/client"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/filters"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/report"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
	"github.com/sievekv/sievekv/module/reply"
)

const topHelp = `top shows the filters of a store: those that are asked and added to most first, and of equal ones the fullest. On a terminal it
looks again every 2 seconds, or at once when the space bar is pressed, until q or Ctrl-C; in a pipe it prints once.

uses/s are lookups and adds since the last look, found is the share of lookups answered yes since the store was opened, full the share
of the capacity that is used, and rate the error rate to expect now. A filter is full if it does not grow and holds what it was made
for, and above its rate if it answers yes to absent items more often than was asked for, by more than chance explains.

It looks at every filter, and in a store of many pauses for four times as long as that takes. A store in a directory is used by nobody
else while top has it open, so nothing changes there: ask its server.
`

func (sh *shell) topCommand() *cobra.Command {
	return &cobra.Command{
		Use: "top", Short: "Shows the filters that are busiest and fullest, again and again", Long: topHelp, Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return sh.top(cmd.Context()) },
	}
}

// topEvery is how often top looks at the store.
const topEvery = 2 * time.Second

func (sh *shell) top(ctx context.Context) (err error) {
	exec, err := sh.executorOfAll()
	if err != nil {
		return err
	}
	defer exec.Close(&err)
	v := &topView{sh: sh, exec: exec}
	if err := v.look(ctx); err != nil { // before the screen is another, which would hide it
		return err
	}
	screen := &tty.Screen{Stdin: sh.stdin, Stdout: sh.stdout, Keys: sh.keyboard()}
	if !screen.CanShow() {
		return sh.write(strings.Join(v.busy.Screen(v.store, 0, 0, report.ASCII), "\n") + "\n")
	}
	return screen.Show(ctx, func() time.Duration { return v.next(ctx) }, v.draw)
}

// topView is what top shows.
type topView struct {
	sh    *shell
	exec  executor
	busy  report.Busy
	store string    // what is told of the store as a whole
	at    time.Time // of the last look
	fresh bool      // the first look was made before the screen was shown
	err   error     // of the last look
}

// next looks again, and returns how long what it has seen is shown.
func (v *topView) next(ctx context.Context) time.Duration {
	begin := time.Now()
	if v.fresh {
		v.fresh = false
		return topEvery
	}
	v.err = v.look(ctx)
	return max(topEvery, 4*time.Since(begin))
}

// look looks at the store.
func (v *topView) look(ctx context.Context) error {
	elapsed := time.Duration(0)
	if !v.at.IsZero() {
		elapsed = time.Since(v.at)
	}
	v.fresh, v.at = v.at.IsZero(), time.Now()
	store, err := v.lookAtStore(ctx)
	if err != nil {
		return err
	}
	v.busy.Begin(elapsed)
	for _, typ := range filters.Types() {
		if err := eachOfType(ctx, v.exec, typ, v.busy.Add); err != nil {
			return err
		}
	}
	v.store = store
	return nil
}

// lookAtStore returns a line about the store, and about the server if there is one.
func (v *topView) lookAtStore(ctx context.Context) (string, error) {
	r, err := answer(ctx, v.exec, "SIEVE.STATS")
	if err != nil {
		return "", err
	}
	fields := client.Fields(r)
	line := fmt.Sprintf("%s  keys: %d, bytes on disk: %d", v.sh.target(v.exec), fields["keys"].Int(), fields["disk_bytes"].Int())
	if v.sh.address == nil {
		return line, nil
	}
	info, err := askInfo(ctx, v.exec)
	return line + fmt.Sprintf(", commands/s: %s, clients: %s", info["instantaneous_ops_per_sec"], info["connected_clients"]), err
}

// draw returns the lines of a screen.
func (v *topView) draw(width, height int) []string {
	lines := v.busy.Screen(v.store, width, height-1, marks())
	last := "space looks again, q ends it"
	if v.err != nil {
		last = v.err.Error()
	}
	return append(lines, last[:min(len(last), width)])
}

// askInfo returns the fields of INFO.
func askInfo(ctx context.Context, exec executor) (map[string]string, error) {
	r, err := answer(ctx, exec, "INFO")
	if err != nil {
		return nil, err
	}
	return infoFields(r), nil
}

func infoFields(r reply.Reply) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(string(r.Bytes())) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}
