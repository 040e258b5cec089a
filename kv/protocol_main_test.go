package kv_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sievekv/sievekv/kv"
	_ "github.com/sievekv/sievekv/kv/kvtest/seeded"
)

// Every store a test opens it closes: no goroutine may be left.
func TestMain(m *testing.M) { goleak.VerifyTestMain(bothWays{m}) }

// bothWays runs the tests twice: with stores that apply each commit at once, but not under
// the race detector, and with stores that gather commits.
type bothWays struct{ m *testing.M }

// direct says that stores are opened to apply each commit at once.
var direct bool

// eitherWay returns options for a store that does so, or does not.
func eitherWay(o *kv.Options) *kv.Options {
	if direct {
		return kv.Direct(o)
	}
	return o
}

func (w bothWays) Run() int {
	if !raceEnabled {
		direct = true
		if code := w.m.Run(); code != 0 {
			return code
		}
		direct = false
	}
	return w.m.Run()
}
