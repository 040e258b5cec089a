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
	r, err := figures(ctx, exec, "SIEVE.COMPACT")
	if err != nil {
		return err
	}
	done := client.Fields(r)
	return sh.write(fmt.Sprintf("on disk  %d bytes before, %d now\n", done["disk_bytes_before"].Int(), done["disk_bytes"].Int()))
}

const compactHelp = `compact brings the store to the form it comes to by itself when nothing is written: what was deleted is
removed from the disk, blocks are folded, and filters are brought into fewer layers where their type can. It needs time
and, for a while, room on the disk for what it writes anew. Ctrl-C ends it, and what was done stays.
`
