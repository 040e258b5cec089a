package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/client"
)

func (sh *shell) compactCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "compact",
		Short:                 "Makes a store as small as it gets",
		Long:                  compactHelp,
		Args:                  exactArgs(0),
		DisableFlagsInUseLine: true,
		RunE:                  func(cmd *cobra.Command, _ []string) error { return sh.compact(cmd.Context()) },
	}
}

// compact prints what SIEVE.COMPACT did.
func (sh *shell) compact(ctx context.Context) (err error) {
	exec, err := sh.executorOfAll()
	if err != nil {
		return err
	}
	defer exec.Close(&err)
	r, err := answer(ctx, exec, "SIEVE.COMPACT")
	if err != nil {
		return err
	}
	done := client.Fields(r)
	return sh.write(fmt.Sprintf("on disk  %d bytes before, %d now\n", done["disk_bytes_before"].Int(), done["disk_bytes"].Int()))
}

const compactHelp = `compact does at once what the store otherwise does in the background while nothing is written: it removes
deleted keys from the disk, folds blocks, and merges layers of filters whose type allows that. It takes time and, for a
while, room on the disk for what it writes anew. Ctrl-C ends it; what was done stays done.
`
