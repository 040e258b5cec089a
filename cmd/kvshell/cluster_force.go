package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/replica"
)

func (sh *shell) clusterForceCommand() *cobra.Command {
	from, sure := "", false
	cmd := &cobra.Command{
		Use: "force DIR...", Short: "Makes a new group of what is left of one that has lost its majority for good", Long: clusterForceHelp,
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return exit.Usagef("cluster force: name the directories of the members that are left")
			case sure != (from != ""):
				return exit.Usagef("cluster force: --from and --yes: one needs the other")
			case sh.address != nil:
				return exit.Usagef("cluster force is for directories of members that do not run, and not for a server")
			}
			return sh.force(args, from)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "`DIR` whose history goes on; without it nothing is changed")
	cmd.Flags().BoolVar(&sure, "yes", false, "with --from: the other members of the group are lost for good, and so is what only they had")
	return cmd
}

const clusterForceHelp = `force is for a group of which a majority is lost for good, with its disks. Do not use it while the others may come back: what
only they have, and was acknowledged, is lost.

It lists what each DIR has, the directory of a member that is left and does not run: up to where its store has applied the log,
where its log ends, up to where it knows that the log is committed, and what it lacks beside the longest history. That is the one with
the higher term at its end, and of equal ones the longer.

With --from DIR --yes the store of DIR becomes the only member of a new group, with everything that is in its log. It is a new
group, so that members of the old one cannot talk to it if they turn up again. It is started by kvshell serve --cluster start.
Others join it by cluster token and serve --cluster join, with empty directories: move those of the old group away.
`

// force lists what members have, and makes a new group of one if from says so.
func (sh *shell) force(dirs []string, from string) error {
	o := replica.Options{Store: sh.options(dirs[0], true), Logger: sh.logger()}
	found := replica.Inspect(dirs, o)
	longest := replica.Longest(found)
	for _, r := range found {
		if err := sh.write(remains(r, longest)); err != nil {
			return err
		}
	}
	if err := canCompare(found); err != nil {
		return exit.WithCode(exit.Local, err)
	}
	if longest == nil {
		return exit.WithCode(exit.Local, errors.New("cluster force: none of the directories can go on"))
	}
	if from == "" {
		return sh.write(fmt.Sprintf("the longest history is that of %s; with --from %[1]s --yes it goes on, as a new group\n", longest.Dir))
	}
	if err := mayForce(found, from); err != nil {
		return exit.WithCode(exit.Local, err)
	}
	group, err := replica.Force(from, o)
	if err != nil {
		return exit.WithCode(exit.Local, fmt.Errorf("cluster force: %w", err))
	}
	return sh.write(fmt.Sprintf("%s is the only member of the new group %x: start it with serve --cluster start.\n"+
		"No member of the old group can talk to it. Others join by cluster token and serve --cluster join, with empty directories.\n", from, group))
}

// remains says what a directory has.
func remains(r, longest *replica.Remains) string {
	var b strings.Builder
	line := func(name, form string, args ...any) { fmt.Fprintf(&b, "%-10s %s\n", name, fmt.Sprintf(form, args...)) }
	line("directory", "%s", r.Dir)
	if r.Group != ([16]byte{}) {
		line("group", "%x", r.Group)
		line("member", "%x %s", r.Info.ID, r.Info.Name)
	}
	if r.Last > 0 {
		line("applied", "%d in term %d", r.Applied, r.AppliedTerm)
		line("log", "to %d in term %d", r.Last, r.LastTerm)
		line("committed", "%d at least", r.Committed)
	}
	switch {
	case r.Err != nil:
		line("unusable", "%v", r.Err)
	case r == longest:
		line("lacks", "nothing: no history is longer")
	default:
		lacks, other := r.Lacks(longest)
		line("lacks", "%d entries of %s, and has %d that it has not", lacks, longest.Dir, other)
	}
	return b.String() + "\n"
}

// canCompare refuses members that run, and members of different groups.
func canCompare(found []*replica.Remains) error {
	var first *replica.Remains
	for _, r := range found {
		switch {
		case r.InUse:
			return fmt.Errorf("cluster force: the member of %s runs: end it first, and start none of the old group again", r.Dir)
		case r.Group == [16]byte{}: // which one it is of cannot be told
		case first == nil:
			first = r
		case r.Group != first.Group:
			return fmt.Errorf("cluster force: %s is of group %x, and %s of group %x", first.Dir, first.Group, r.Dir, r.Group)
		}
	}
	return nil
}

// mayForce returns an error unless a directory is one of those that were looked at, and has the longest history.
func mayForce(found []*replica.Remains, from string) error {
	var chosen *replica.Remains
	for _, r := range found {
		if filepath.Clean(r.Dir) == filepath.Clean(from) {
			chosen = r
		}
	}
	longest := replica.Longest(found)
	switch {
	case chosen == nil:
		return fmt.Errorf("cluster force: --from %s is none of the directories that are given", from)
	case chosen.Err != nil:
		return fmt.Errorf("cluster force: --from %s: %w", from, chosen.Err)
	case chosen.Less(longest):
		lacks, _ := chosen.Lacks(longest)
		return fmt.Errorf("cluster force: --from %s lacks %d entries that %s has: choose that, or leave it out", from, lacks, longest.Dir)
	}
	return nil
}
