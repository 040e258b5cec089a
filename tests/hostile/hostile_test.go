package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/tests/process"
)

// The process of the attackers is this program, also where it is a test.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "--at") {
		main()
		return
	}
	code := m.Run()
	if built != nil {
		if err := built.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// build builds the server's program, once for all tests.
var build = sync.OnceValues(func() (program *process.Program, err error) {
	built, err = process.Build()
	return built, err
})

var built *process.Program // nil if no test needed it

func TestMalformed(t *testing.T) {
	var out strings.Builder
	if err := runMalformed(20_000, 1, &out); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestChoose(t *testing.T) {
	if got, err := choose("TLS,silent"); err != nil || len(got) != 2 || got[0].name != "TLS" || got[1].name != "silent" {
		t.Errorf("kinds %v, %v", got, err)
	}
	if _, err := choose("silent,none"); err == nil {
		t.Error("there is no error for a kind that is none")
	}
	if got, err := choose("metrics silent,patterns"); err != nil || len(got) != 2 || !got[0].onMetrics() || got[1].onMetrics() {
		t.Errorf("kinds %v, %v", got, err)
	}
}

func TestChooseScenes(t *testing.T) {
	if got, err := chooseScenes("metrics,memory"); err != nil || len(got) != 2 || got[0].name != "metrics" || got[1].name != "memory" {
		t.Errorf("scenes %v, %v", got, err)
	}
	got, err := chooseScenes("all")
	if err != nil || len(got) != len(scenes) {
		t.Errorf("scenes %v, %v", got, err)
	}
	for _, s := range got {
		if _, err := choose(s.only); err != nil {
			t.Errorf("scene %s: %v", s.name, err)
		}
	}
	if _, err := chooseScenes("metrics,none"); err == nil {
		t.Error("there is no error for a scene that is none")
	}
}
