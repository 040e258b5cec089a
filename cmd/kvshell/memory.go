package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/dustin/go-humanize"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/system"
	"github.com/sievekv/sievekv/kv"
)

// ownMemory is what the process takes besides its budgets and garbage: the program, stacks, files that are open.
const ownMemory = 24 << 20

// minMemory is the least that --memory takes. With less, ownMemory leaves too little for a store.
const minMemory, maxMemory = 64 << 20, 1 << 40

// memoryShares are the parts of --memory, in bytes. The store gets half of what ownMemory leaves, the clients of serve
// one eighth, and garbage the rest.
type memoryShares struct {
	store   int64 // kv.Options.Memory
	clients int64 // the setting maxmemory-clients
	goLimit int64 // GOMEMLIMIT, which the process may exceed for a moment: so not all that ownMemory leaves
}

func sharesOf(memory int64) memoryShares {
	if memory == 0 {
		return memoryShares{}
	}
	rest := memory - ownMemory
	return memoryShares{store: rest / 2, clients: rest / 8, goLimit: rest - rest/8}
}

// limitMemory has the garbage collector keep to --memory. With $GOMEMLIMIT set, that is the limit.
func (sh *shell) limitMemory() error {
	switch memory := int64(sh.memory); {
	case memory == 0:
	case memory < minMemory || memory > maxMemory:
		return exit.Usagef("--memory is %s, must be 64MiB to 1TiB", &sh.memory)
	case os.Getenv("GOMEMLIMIT") == "":
		debug.SetMemoryLimit(sharesOf(memory).goLimit)
	}
	return nil
}

// keepMemoryLimit returns a function that sets the limit of the garbage collector to what it is now. Tests run many
// command lines in one process.
func keepMemoryLimit() (undo func()) {
	before := debug.SetMemoryLimit(-1)
	return func() { debug.SetMemoryLimit(before) }
}

// systemMemory returns the limit of the container that the process is in, 0 for none. Tests set it.
var systemMemory = system.MemoryLimit

// compareMemory logs a warning if the budgets of a run are above the limit of the container that it is in: then the
// system may end the process. clients is the budget for clients, 0 for a run without any.
func (sh *shell) compareMemory(o kv.Options, clients int64) {
	limit, need := systemMemory(), o.Budget()+clients+ownMemory
	if limit == 0 || need <= limit || sh.lent != nil {
		return
	}
	advice := fmt.Sprintf("--memory %dMiB sets all from one number", limit>>20)
	if limit < minMemory {
		advice = "the least that --memory can make of it is 64MiB"
	}
	sh.logger().Warn("sievekv: the budgets for memory are above the limit of this container, whose system may kill the process: "+advice,
		"limit", humanize.IBytes(uint64(limit)), "budgets", humanize.IBytes(uint64(need)))
}
