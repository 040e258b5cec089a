package tests

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// looked is a context that counts how often it is looked at.
type looked struct {
	context.Context
	looks atomic.Int64
}

func (c *looked) Err() error {
	c.looks.Add(1)
	return c.Context.Err()
}

func (c *looked) Done() <-chan struct{} {
	c.looks.Add(1)
	return c.Context.Done()
}

// boundedTime are commands that take no longer than the server has settings or commands, or than a chunk of a dump, or that
// hardly read anything.
var boundedTime = []string{"COMMAND", "CONFIG", "INFO", "MODULE", "OBJECT", "BF.SCANDUMP", "CF.SCANDUMP"}

// longer are lines in place of examples that are over at once.
var longer = map[string]string{
	"COPY":     "BF.RESERVE user:1 0.01 1000\nBF.ADD user:1 x\nCOPY user:1 user:2",
	"GETRANGE": "SETBIT user:1 100000 1\nGETRANGE user:1 0 100000",
	"MEMORY":   "BF.ADD user:1 x\nMEMORY USAGE user:1",
	"SETRANGE": "SETRANGE greeting 0 " + strings.Repeat("x", 100_000),
}

// Every command that may take long looks at its context while it runs, so that it ends when its client is gone: each is run
// as in its example.
func TestCommands_lookAtContext(t *testing.T) {
	db, err := sievekv.Open("store", &kv.Options{InMemory: true, Durability: kv.NoSync})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // only reads what it has
	session := module.NewSession(db.Store())
	do := func(ctx context.Context, line string) string {
		var words [][]byte
		for word := range strings.FieldsSeq(line) {
			words = append(words, []byte(strings.Trim(word, `"`)))
		}
		return session.Do(ctx, words).String()
	}
	for _, cmd := range module.Of(db.Store()).Commands() {
		if cmd.Flags&(module.Fast|module.Brief) != 0 || slices.Contains(boundedTime, cmd.Name) {
			continue
		}
		do(t.Context(), "FLUSHALL")
		lines := strings.Split(cmd.Example, "\n")
		if other := longer[cmd.Name]; other != "" {
			lines = strings.Split(other, "\n")
		}
		for _, line := range lines[:len(lines)-1] {
			do(t.Context(), line)
		}
		ctx := &looked{Context: t.Context()}
		answer := do(ctx, lines[len(lines)-1])
		if n := ctx.looks.Load(); n < 2 { // one look is before the command
			t.Errorf("%.50s, which answers %.50s, has looked at its context %d times", lines[len(lines)-1], answer, n)
		}
	}
}
