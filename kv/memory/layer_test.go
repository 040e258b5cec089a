package memory

import (
	"testing"

	"github.com/sievekv/sievekv/kv/format"
)

// A layer of one block keeps the first that it gets, and none once it is closed: nobody would count it, and no commit change it.
func TestLayer_Install_one(t *testing.T) {
	l := NewLayer(7, format.LayerSpec{Number: 3, Blocks: 1, Lines: 2})
	l.MakeTable()
	first, _ := l.NewBlock()
	second, _ := l.NewBlock()
	if !l.Install(nil, 0, first) || l.InMemory(0) != first {
		t.Error("the first block is not in memory")
	}
	if l.Install(nil, 0, second) || l.InMemory(0) != first {
		t.Error("the second block took the place of the first one")
	}
	if l.Close(); l.InMemory(0) != nil {
		t.Error("a closed layer has a block")
	}
	if l.Install(nil, 0, first); l.InMemory(0) != nil {
		t.Error("a closed layer has got a block")
	}
	l.Reopen()
	if !l.Install(nil, 0, second) || l.InMemory(0) != second {
		t.Error("a layer that was opened again has no block")
	}
}
