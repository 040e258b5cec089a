package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/sievekv/sievekv/tests/cluster/rounds"
	"github.com/sievekv/sievekv/tests/process"
)

// inRounds runs rounds with a group of processes. If something is wrong, what the group has left is kept.
func inRounds(o rounds.Options, only string, w io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if only != "" {
		if o.Faults = rounds.Named(only); len(o.Faults) == 0 {
			return fmt.Errorf("--only %s: must be one of %q", only, rounds.Names())
		}
	}
	if o.Program == "" {
		built, err := process.Build()
		if err != nil {
			return err
		}
		defer func() { _ = built.Remove() }() // it is in a temporary directory
		o.Program = built.Path()
	}
	var err error
	if o.Dir, err = os.MkdirTemp("", "rounds"); err != nil {
		return err
	}
	result, err := rounds.Run(ctx, o)
	fmt.Fprint(w, result)
	if err != nil {
		return errors.Join(err, fmt.Errorf("the stores and logs are in %s", o.Dir))
	}
	return os.RemoveAll(o.Dir)
}
