package main

import (
	"slices"
	"testing"
	"time"
)

// underLoad is how often the limit of memory a server may have beside other load: the limit of Go's collector is soft, and a machine that
// is busy has it late. A server without a bound of its own takes gigabytes. The program holds it to the limit itself.
const underLoad = 2

// A server that many attack takes no more memory than it is to, and answers others.
func TestAttack(t *testing.T) {
	t.Parallel()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	for d := 3 * time.Second; ; d *= 2 {
		r, err := attackServer(program, t.TempDir(), scene{connections: 4 * len(attacks), duration: d, seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		r.limit = underLoad * r.limit
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

// Beside each scene, too, the good clients are served, the store takes writes and reads after it, and the server ends well in
// the middle of it.
func TestScenes(t *testing.T) {
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scenes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.connections, s.duration, s.seed = 30, time.Second, 1
			r, err := attackServer(program, t.TempDir(), s)
			if err == nil {
				r.limit = underLoad * r.limit
				err = r.verdict()
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d and %d commands of the good client, ended in %v", len(r.alone), len(r.during), r.ended)
		})
	}
}
