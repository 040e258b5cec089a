package kv_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
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

// either are the tests whose stores do not depend on direct: they run once.
const either = "^Test(Gather_[A-Za-z]+|Errors_nameOnce)$"

func (w bothWays) Run() int {
	flag.Parse()
	skip := flag.Lookup("test.skip").Value
	if given := skip.String(); !raceEnabled && given == "" {
		direct = true
		if err := skip.Set(either); err != nil {
			panic(err)
		}
		code := w.m.Run()
		direct = false
		if err := skip.Set(given); err != nil {
			panic(err)
		}
		if code != 0 {
			return code
		}
	}
	return w.m.Run()
}
