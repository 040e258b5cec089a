package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func (sh *shell) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "check",
		Short:                 "Reads and checks all of a store",
		Long:                  checkHelp,
		Args:                  exactArgs(0),
		DisableFlagsInUseLine: true,
		RunE:                  func(cmd *cobra.Command, _ []string) error { return sh.check(cmd.Context()) },
	}
}

// check prints what kv.DB.Check found. A problem found is exit code 5, as if it had been met by chance.
func (sh *shell) check(ctx context.Context) (err error) {
	db, err := sh.openExisting()
	if err != nil {
		return err
	}
	defer closeStore(db, &err)
	report, err := db.Check(ctx)
	if err != nil {
		return fmt.Errorf("check of %s: %w", db.Dir(), err)
	}
	text := fmt.Appendf(nil, "keys    %d\nblocks  %d\nbytes   %d in blocks\n", report.Keys, report.Blocks, report.Bytes)
	for _, note := range report.Notes {
		text = fmt.Appendf(text, "note: %s\n", note)
	}
	for _, problem := range report.Problems {
		text = fmt.Appendf(text, "problem: %v\n", problem)
	}
	text = fmt.Appendf(text, "problems found: %d\n", len(report.Problems))
	if _, err := sh.stdout.Write(text); err != nil {
		return withCode(exitLocal, err)
	}
	if len(report.Problems) > 0 {
		return &codeError{code: exitCorrupt} // the report said it
	}
	return nil
}
