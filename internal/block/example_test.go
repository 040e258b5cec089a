package block_test

import (
	"fmt"

	"github.com/sievekv/sievekv/internal/block"
)

// Two changes are merged into a stored block, and into the same block in memory.
func Example() {
	resident := make([]uint64, 2*block.LineWords)
	stored := block.AppendBlock(nil, block.FamilyBits, resident)

	first := block.AppendBitsOperand(nil, []uint16{3, 700})
	second := block.AppendBitsOperand(nil, []uint16{4})

	m := block.NewMerger(second)
	m.MergeOlder(first)
	m.MergeOlder(stored)
	stored = m.Finish()

	for _, op := range [][]byte{first, second} {
		if err := block.Patch(resident, block.FamilyBits, op); err != nil {
			fmt.Println(err)
		}
	}

	words := make([]uint64, 2*block.LineWords)
	info, err := block.Decode(words, block.FamilyBits, stored)
	fmt.Println(info.Kind, info.Operands, block.Count(words), err)
	fmt.Println(words[0] == resident[0], words[10] == resident[10])
	// Output:
	// sparse 2 3 <nil>
	// true true
}
