package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/sievekv/sievekv/tests/cluster/rounds"
	"github.com/sievekv/sievekv/tests/process"
)

// inRounds runs rounds with a group of processes, half of them with TLS, or upgrades groups from a commit, without TLS and with it. If
// something is wrong, what the group has left is kept.
func inRounds(o rounds.Options, only, commit string, w io.Writer) error {
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
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if commit != "" {
		older, err := buildOf(commit)
		if err != nil {
			return err
		}
		defer func() { _ = older.Remove() }() // as above
		o.Older, o.Rounds = older.Path(), 2
	}
	o.Member = []string{program, "-member"}
	dir, err := os.MkdirTemp("", "rounds")
	if err != nil {
		return err
	}
	var all rounds.Result
	n := o.Rounds
	for _, half := range []struct {
		name   string
		tls    bool
		rounds int
	}{{"plain", false, n - n/2}, {"tls", true, n / 2}} {
		o.Dir, o.TLS, o.Rounds = filepath.Join(dir, half.name), half.tls, half.rounds
		if o.Rounds == 0 || err != nil {
			continue
		}
		if err = os.Mkdir(o.Dir, 0o700); err == nil {
			var result rounds.Result
			result, err = rounds.Run(ctx, o)
			all.Add(result)
			o.Seed++
		}
	}
	if fmt.Fprint(w, all); err != nil {
		return errors.Join(err, fmt.Errorf("the stores and logs are in %s", dir))
	}
	return os.RemoveAll(dir)
}

// buildOf builds kvshell as of a commit of this repository.
func buildOf(commit string) (program *process.Program, err error) {
	dir, err := os.MkdirTemp("", "older")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	tree := filepath.Join(dir, "tree")
	if out, err := exec.Command("git", "worktree", "add", "--detach", tree, commit).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("--upgrade-from %s: git worktree add: %w\n%s", commit, err, out)
	}
	defer func() { err = errors.Join(err, exec.Command("git", "worktree", "remove", "--force", tree).Run()) }()
	return process.BuildIn(tree)
}
