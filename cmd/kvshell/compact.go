package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
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
	defer exec.close(&err)
	r, err := figures(ctx, exec, "SIEVE.COMPACT")
	if err != nil {
		return err
	}
	done := fields(r)
	return sh.write(fmt.Sprintf("on disk  %d bytes before, %d now\n", done["disk_bytes_before"].Int(), done["disk_bytes"].Int()))
}
