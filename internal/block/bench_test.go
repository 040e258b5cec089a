package block_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/probe"
)

// The operands of the benchmarks are adds to a Bloom filter of one line and six
// probes for an item, into a block of full length.

// addOperands returns n operands of items adds each, and their bytes.
func addOperands(r *rand.Rand, n, items int) (operands [][]byte, size int) {
	for range n {
		op := block.AppendBitsOperand(nil, adds(r, items))
		operands = append(operands, op)
		size += len(op)
	}
	return operands, size
}

func BenchmarkAppendBlock(b *testing.B) {
	for _, ones := range []int{6, 60, 128, 129, 500, 1000, 2000, 4000, 32768} {
		b.Run(fmt.Sprintf("ones=%d", ones), func(b *testing.B) {
			words := scattered(block.MaxLines, ones)
			var dst []byte
			for b.Loop() {
				dst = block.AppendBlock(dst[:0], block.FamilyBits, words)
			}
			b.ReportMetric(float64(len(dst)), "B/block")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, ones := range []int{6, 60, 128, 129, 1000, 4000, 32768} {
		b.Run(fmt.Sprintf("ones=%d", ones), func(b *testing.B) {
			b.ReportAllocs()
			words := scattered(block.MaxLines, ones)
			value := block.AppendBlock(nil, block.FamilyBits, words)
			for b.Loop() {
				if _, err := block.Decode(words, block.FamilyBits, value); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkMerger(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	dense := block.AppendBlock(nil, block.FamilyBits, scattered(block.MaxLines, 32768))
	for _, c := range []struct {
		name string
		n    int
		base []byte
	}{
		{"operands=1/base=none", 1, nil},
		{"operands=2/base=none", 2, nil},
		{"operands=100/base=none", 100, nil},
		{"operands=1000/base=none", 1000, nil},
		{"operands=1/base=dense", 1, dense},
		{"operands=100/base=dense", 100, dense},
		{"operands=1000/base=dense", 1000, dense},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			operands, _ := addOperands(r, c.n, 1)
			for b.Loop() {
				m := block.NewMerger(operands[0])
				for _, op := range operands[1:] {
					m.MergeOlder(op)
				}
				m.MergeOlder(c.base)
				m.Finish()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.n), "ns/operand")
		})
	}
}

// BenchmarkRead measures what a read of a dense block takes when operands have come since it was written whole: they are
// merged, and the result is decoded. The first line is of a block that has none.
func BenchmarkRead(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	layout, err := probe.NewLayout(1_000_000, block.MaxLines, 6, 1)
	if err != nil {
		b.Fatal(err)
	}
	base := block.AppendBlock(nil, block.FamilyBits, scattered(block.MaxLines, 32768))
	ofItems := func(n int) []byte {
		hashes := make([]uint64, n)
		for i := range hashes {
			hashes[i] = r.Uint64() / layout.Blocks // of block 0
		}
		return block.AppendItemsOperand(nil, &layout, 0, hashes)
	}
	ofBits := func(int) []byte { return block.AppendBitsOperand(nil, adds(r, 1)) }
	for _, c := range []struct {
		name        string
		operands, n int
		make        func(n int) []byte
	}{
		{"folded", 0, 0, nil},
		{"operands=1/items=1", 1, 1, ofItems},
		{"operands=1/items=100", 1, 100, ofItems},
		{"operands=1/items=200", 1, 200, ofItems},
		{"operands=1/items=400", 1, 400, ofItems},
		{"operands=1/items=800", 1, 800, ofItems},
		{"operands=1/items=1600", 1, 1600, ofItems},
		{"operands=8/items=200", 8, 200, ofItems},
		{"operands=64/items=1", 64, 1, ofItems},
		{"operands=64/bits=6", 64, 6, ofBits},
	} {
		b.Run(c.name, func(b *testing.B) {
			operands := make([][]byte, c.operands)
			for i := range operands {
				operands[i] = c.make(c.n)
			}
			words := make([]uint64, block.MaxWords)
			for b.Loop() {
				value := base
				if len(operands) > 0 {
					m := block.NewMerger(operands[0])
					for _, op := range operands[1:] {
						m.MergeOlder(op)
					}
					m.MergeOlder(base)
					value = m.Finish()
				}
				if _, err := block.Decode(words, block.FamilyBits, value); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkMerger_slots(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, fam := range slotFamilies {
		b.Run(fmt.Sprintf("width=%d/operands=100", fam.Width()), func(b *testing.B) {
			b.ReportAllocs()
			base := block.AppendBlock(nil, fam, scattered(block.MaxLines, 32768))
			operands := make([][]byte, 100)
			for i := range operands {
				operands[i] = block.AppendSlotsOperand(nil, fam, randomSlots(r, fam, block.MaxLines, 6))
			}
			for b.Loop() {
				m := block.NewMerger(operands[0])
				for _, op := range operands[1:] {
					m.MergeOlder(op)
				}
				m.MergeOlder(base)
				m.Finish()
			}
		})
	}
}

func BenchmarkPatch(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, items := range []int{1, 7, 100, 600, 1000} {
		b.Run(fmt.Sprintf("adds=%d", items), func(b *testing.B) {
			b.ReportAllocs()
			operands, _ := addOperands(r, 64, items)
			words := make([]uint64, block.MaxWords)
			i := 0
			for b.Loop() {
				if i%64 == 0 {
					clear(words)
				}
				if err := block.Patch(words, block.FamilyBits, operands[i%64]); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

func BenchmarkAppendBitsOperand(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, items := range []int{1, 7, 100, 600, 1000} {
		b.Run(fmt.Sprintf("adds=%d", items), func(b *testing.B) {
			b.ReportAllocs()
			_, size := addOperands(r, 256, items)
			positions := adds(r, items)
			var dst []byte
			for b.Loop() {
				dst = block.AppendBitsOperand(dst[:0], positions)
			}
			b.ReportMetric(float64(size)/256/float64(items), "B/add")
		})
	}
}
