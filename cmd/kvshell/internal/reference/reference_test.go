package reference

import (
	"slices"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
)

// Every command has an example of its own, and none is answered with an error, alone or within an array, except
// SIEVE.BACKUP's, which would leave a directory.
func TestRunExamples(t *testing.T) {
	runs, err := runExamples(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ran []string
	for _, run := range runs {
		name, _, _ := strings.Cut(run.lines[len(run.lines)-1], " ")
		if name != run.command.Name {
			t.Errorf("%s: the example is of %q", run.command.Name, name)
		}
		for i, r := range run.replies {
			if exit.ReplyCode(r) != exit.OK && name != "SIEVE.BACKUP" {
				t.Errorf("%s: the reply is %s", run.lines[i], r)
			}
		}
		ran = append(ran, run.command.Name)
	}
	for _, c := range memberTable().Commands() {
		if !slices.Contains(ran, c.Name) {
			t.Errorf("the example of %s was not run", c.Name)
		}
	}
	for _, name := range examplesVary {
		if !slices.Contains(ran, name) {
			t.Errorf("examplesVary has %s, which is no command", name)
		}
	}
}
