package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/sievekv/sievekv/tests/cluster/rounds"
	"github.com/sievekv/sievekv/tests/process"
)

// inRounds runs rounds with a group of processes. If something is wrong, what the group has left is kept.
func inRounds(seed uint64, n int, program string, w io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if program == "" {
		built, err := process.Build()
		if err != nil {
			return err
		}
		defer func() { _ = built.Remove() }() // it is in a temporary directory
		program = built.Path()
	}
	dir, err := os.MkdirTemp("", "rounds")
	if err != nil {
		return err
	}
	result, err := rounds.Run(ctx, rounds.Options{Program: program, Dir: dir, Rounds: n, Seed: seed, Log: os.Stderr})
	fmt.Fprint(w, result)
	if err != nil {
		return errors.Join(err, fmt.Errorf("the stores and logs are in %s", dir))
	}
	return os.RemoveAll(dir)
}
