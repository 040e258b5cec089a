package main

import (
	"slices"
	"testing"
	"time"

	"github.com/sievekv/sievekv/tests/process"
)

// A server that many attack takes no more memory than it is to, and answers others.
func TestAttack(t *testing.T) {
	program, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := program.Remove(); err != nil {
			t.Error(err)
		}
	}()
	for d := 3 * time.Second; ; d *= 2 {
		r, err := attackServer(program, t.TempDir(), scene{connections: 4 * len(attacks), duration: d, seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.verdict(); err != nil {
			t.Fatal(err)
		}
		idle := slices.ContainsFunc(attacks, func(a attack) bool { return r.connects[a.name] == 0 })
		if !idle {
			return
		}
		// A machine that has much else to do: they get more time.
	}
}
