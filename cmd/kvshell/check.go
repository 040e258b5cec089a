package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/client"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
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

// checkReport is what a check found.
type checkReport struct {
	keys, blocks, bytes uint64
	notes, problems     []string
}

// check checks the store and prints what it found. A problem makes the exit code 5, as it does when any other command
// comes upon it.
func (sh *shell) check(ctx context.Context) error {
	check := sh.checkStore
	if sh.address != nil {
		check = sh.checkServer
	}
	report, err := check(ctx)
	if err != nil {
		return err
	}
	if err := sh.write(report.text()); err != nil {
		return err
	}
	if len(report.problems) > 0 {
		return &exit.Error{Code: exit.Corrupt} // the report has told the problems
	}
	return nil
}

// checkStore checks the store in the directory. It calls the store and not SIEVE.CHECK: an error reply would tell too
// little for the exit code.
func (sh *shell) checkStore(ctx context.Context) (report checkReport, err error) {
	db, err := sh.openExisting()
	if err != nil {
		return report, err
	}
	defer sh.closeStore(db, &err)
	found, err := db.Check(ctx)
	if err != nil {
		return report, fmt.Errorf("check of %s: %w", db.Dir(), err)
	}
	report = checkReport{keys: found.Keys, blocks: found.Blocks, bytes: found.Bytes, notes: found.Notes}
	for _, problem := range found.Problems {
		report.problems = append(report.problems, problem.Error())
	}
	return report, nil
}

func (sh *shell) checkServer(ctx context.Context) (report checkReport, err error) {
	exec, err := sh.executorOfAll()
	if err != nil {
		return report, err
	}
	defer exec.Close(&err)
	r, err := answer(ctx, exec, "SIEVE.CHECK")
	if err != nil {
		return report, err
	}
	found := client.Fields(r)
	report.keys, report.blocks = uint64(found["keys"].Int()), uint64(found["blocks"].Int())
	report.bytes = uint64(found["bytes"].Int())
	for _, note := range found["notes"].Elems() {
		report.notes = append(report.notes, string(note.Bytes()))
	}
	for _, problem := range found["problems"].Elems() {
		report.problems = append(report.problems, string(problem.Bytes()))
	}
	return report, nil
}

func (r *checkReport) text() string {
	text := fmt.Sprintf("keys    %d\nblocks  %d\nbytes   %d in blocks\n", r.keys, r.blocks, r.bytes)
	for _, note := range r.notes {
		text += fmt.Sprintf("note: %s\n", note)
	}
	for _, problem := range r.problems {
		text += fmt.Sprintf("problem: %s\n", problem)
	}
	return text + fmt.Sprintf("problems found: %d\n", len(r.problems))
}

const checkHelp = `check reads every header, counter and block of the store, and checks that each can be decoded and belongs to a
key. It also compares the bits that filters have set with their item counts. That check is statistical, so what it finds is
a note and not a problem. If there is a problem, the exit code is 5.
`
