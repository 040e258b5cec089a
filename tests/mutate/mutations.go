package main

import (
	"bytes"
	"fmt"
	"slices"
)

// mutation takes one protection away.
type mutation struct {
	name  string
	edits []edit
	pkg   string // of the tests that must notice
	tests string // a regular expression for their names
}

// edit replaces a piece of a file, which must be in it once.
type edit struct{ file, old, new string }

func (e edit) apply(data []byte) ([]byte, error) {
	if n := bytes.Count(data, []byte(e.old)); n != 1 {
		return nil, fmt.Errorf("%s has %d times, not once, the text\n%s", e.file, n, e.old)
	}
	return bytes.Replace(data, []byte(e.old), []byte(e.new), 1), nil
}

// forcedOrders are the tests that force one order of steps each. They are fast, so every mutation faces all of them.
const forcedOrders = "^Test(Add|Load|Evict|EvictObject|Commit|Open|Read|Lookup|Fold|Acknowledge|Durable|Gather|View|Watch|Section|Slots|Shrink|Compact)(_|$)"

func inKV(name string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./kv", tests: forcedOrders}
}

func inPending(name string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./internal/storage", tests: "^Test(Index|Pend)"}
}

func inCounting(name, tests string, e edit) mutation {
	return mutation{name: name, edits: []edit{e}, pkg: "./countingext", tests: tests}
}

func inServer(name, tests string, edits ...edit) mutation {
	return mutation{name: name, edits: edits, pkg: "./server", tests: tests}
}

func inDecoder(name, old, changed string) mutation {
	return mutation{name: name, edits: []edit{{"internal/resp/decoder.go", old, changed}}, pkg: "./internal/resp", tests: "^TestDecoder(_|$)"}
}

// mutations are all mutations, an area a file. They are only for protocols, storage and transactions, where a change
// that matters can be larger than an operator's.
var mutations = slices.Concat(protocols, transactions, storage, grouped, members, logs)
