package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/client"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/salvage"
)

func (sh *shell) checkCommand() *cobra.Command {
	var o kv.CheckOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:                   "check [flags]",
		Short:                 "Reads and checks all of a store",
		Long:                  checkHelp,
		Args:                  exactArgs(0),
		DisableFlagsInUseLine: true,
		RunE:                  func(cmd *cobra.Command, _ []string) error { return sh.check(cmd.Context(), o, asJSON) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&o.Deep, "deep", false, "read all of every table, and compare its checksums")
	cmd.Flags().BoolVar(&o.Repair, "repair", false, "mend what needs no guessing, and tell what")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON, on one line")
	return cmd
}

// checkReport is what a check found.
type checkReport struct {
	Keys     uint64       `json:"keys"`
	Blocks   uint64       `json:"blocks"`
	Bytes    uint64       `json:"bytes"`
	Notes    []string     `json:"notes"`
	Problems []string     `json:"problems"`
	Damaged  []damagedKey `json:"damaged"`
	Repaired []string     `json:"repaired"`
}

// damagedKey is a key that has lost something.
type damagedKey struct {
	Key  string   `json:"key"`
	Type string   `json:"type"`
	Lost []string `json:"lost"`
}

// check checks the store and prints what it found. A problem makes the exit code 5, as it does when any other command
// comes upon it.
func (sh *shell) check(ctx context.Context, o kv.CheckOptions, asJSON bool) error {
	check := sh.checkStore
	if sh.address != nil {
		check = sh.checkServer
	}
	report, err := check(ctx, o)
	if err != nil {
		return err
	}
	if err := sh.printResult(&report, asJSON); err != nil {
		return err
	}
	if len(report.Problems) > 0 {
		return &exit.Error{Code: exit.Corrupt} // the report has told the problems
	}
	return nil
}

// checkStore checks the store in the directory, also one that does not open. It calls the store and not SIEVE.CHECK: an
// error reply would tell too little for the exit code.
func (sh *shell) checkStore(ctx context.Context, o kv.CheckOptions) (report checkReport, err error) {
	dir, err := sh.dir()
	switch {
	case err != nil:
		return report, err
	case o.Repair && sh.readOnly:
		return report, exit.Usagef("check: --repair changes the store, and --read-only excludes that")
	}
	var found *kv.CheckReport
	if sh.lent != nil {
		found, err = sh.lent.CheckWith(ctx, o)
	} else {
		options := sh.options(dir, true)
		if found, err = salvage.Check(ctx, dir, *options, o); err != nil {
			err = withoutWrites(openError(dir, err))
		}
	}
	if err != nil {
		return report, fmt.Errorf("check of %s: %w", dir, err)
	}
	report = checkReport{
		Keys: found.Keys, Blocks: found.Blocks, Bytes: found.Bytes,
		Notes: append([]string{}, found.Notes...), Repaired: append([]string{}, found.Repaired...),
		Problems: []string{}, Damaged: damagedKeys(found.Damaged),
	}
	for _, problem := range found.Problems {
		report.Problems = append(report.Problems, text.Plain(problem.Error()))
	}
	return report, nil
}

func damagedKeys(keys []salvage.Key) []damagedKey {
	list := []damagedKey{}
	for _, k := range keys {
		list = append(list, damagedKey(k))
	}
	return list
}

func (sh *shell) checkServer(ctx context.Context, o kv.CheckOptions) (report checkReport, err error) {
	exec, err := sh.executorOfAll()
	if err != nil {
		return report, err
	}
	defer exec.Close(&err)
	words := []string{"SIEVE.CHECK"}
	if o.Deep {
		words = append(words, "DEEP")
	}
	if o.Repair {
		words = append(words, "REPAIR")
	}
	r, err := answer(ctx, exec, words...)
	if err != nil {
		return report, err
	}
	found := client.Fields(r)
	list := func(name string) []string {
		texts := []string{}
		for _, text := range found[name].Elems() {
			texts = append(texts, string(text.Bytes()))
		}
		return texts
	}
	report = checkReport{
		Keys: uint64(found["keys"].Int()), Blocks: uint64(found["blocks"].Int()), Bytes: uint64(found["bytes"].Int()),
		Notes: list("notes"), Problems: list("problems"), Repaired: list("repaired"), Damaged: []damagedKey{},
	}
	for _, k := range found["damaged"].Elems() {
		fields := client.Fields(k)
		key := damagedKey{Key: string(fields["key"].Bytes()), Type: string(fields["type"].Bytes())}
		for _, lost := range fields["lost"].Elems() {
			key.Lost = append(key.Lost, string(lost.Bytes()))
		}
		report.Damaged = append(report.Damaged, key)
	}
	return report, nil
}

// Text implements report.Result.
func (r *checkReport) Text() string {
	text := fmt.Sprintf("keys    %d\nblocks  %d\nbytes   %d in blocks\n", r.Keys, r.Blocks, r.Bytes)
	for _, note := range r.Notes {
		text += fmt.Sprintf("note: %s\n", note)
	}
	for _, problem := range r.Problems {
		text += fmt.Sprintf("problem: %s\n", problem)
	}
	for _, k := range r.Damaged {
		text += "damaged: " + k.text() + "\n"
	}
	for _, what := range r.Repaired {
		text += fmt.Sprintf("repaired: %s\n", what)
	}
	return text + fmt.Sprintf("problems found: %d\n", len(r.Problems))
}

func (k *damagedKey) text() string {
	kind := ""
	if k.Type != "" {
		kind = " (" + k.Type + ")"
	}
	return fmt.Sprintf("%q%s: lost %s", k.Key, kind, strings.Join(k.Lost, "; "))
}

const checkHelp = `check reads every header, counter and block of the store, and checks that each can be decoded and belongs to a
key. It goes on behind damage, and names the keys concerned with what each has lost. A store that does not open for its
damage is checked all the same. It also compares the bits that filters have set with their item counts.
That check is statistical, so what it finds is a note and not a problem. If there is a problem, it reads the rest too, as
with --deep, and the exit code is 5.

  kvshell -d DIR check              reads what is in use
  kvshell -d DIR check --deep       also the rest of every table: all checksums
  kvshell -d DIR check --json       prints an object with keys, blocks, bytes, notes, problems, damaged, repaired
  kvshell -d DIR check --repair     as --deep, and mends

check changes nothing without --repair, and can run beside programs that have the store open with --read-only. --repair
removes what belongs to no key, corrects the numbers of keys, and writes and removes notes of when keys expire. It mends
nothing if some of the store cannot be read: then there is salvage.
`
