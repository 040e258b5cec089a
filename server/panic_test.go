package server_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// A command that panics ends the process: nobody recovers from it, as the memory that it leaves cannot be trusted.
func TestPanic_endsProcess(t *testing.T) {
	const variable = "SIEVEKV_TEST_PANIC"
	if os.Getenv(variable) != "" {
		broken := module.Module{Name: "broken", Commands: []module.Command{{
			Name: "BROKEN", Arity: 1, Group: "server", Summary: "Panics.",
			Handler: func(*module.Call) reply.Reply { panic("on purpose") },
		}}}
		c := serveStore(t, kv.Options{InMemory: true, Modules: coreext.With(broken)}, nil).client()
		_, _ = c.Do("BROKEN")
		return // what the other process takes for a failure
	}
	child := exec.Command(os.Args[0], "-test.run=^TestPanic_endsProcess$")
	child.Env = append(os.Environ(), variable+"=1")
	out, err := child.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "panic: on purpose") {
		t.Errorf("the process ended with %v:\n%s", err, out)
	}
}
