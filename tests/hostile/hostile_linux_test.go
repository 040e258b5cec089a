package main

import (
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
	r, err := attackServer(program, t.TempDir(), scene{connections: 4 * len(attacks), duration: 3 * time.Second, seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.verdict(); err != nil {
		t.Error(err)
	}
	for _, a := range attacks {
		if r.connects[a.name] == 0 {
			t.Errorf("nobody attacked by %s", a.name)
		}
	}
}
