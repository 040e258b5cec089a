package block_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/probe"
)

// Stores contain these bytes. A change of any of them needs a new kind beside the old one, and a new case.

// slots returns slots from index, value, index, value and so on.
func slots(pairs ...uint32) []block.Slot {
	var s []block.Slot
	for i := 0; i < len(pairs); i += 2 {
		s = append(s, block.Slot{Index: uint16(pairs[i]), Value: pairs[i+1]})
	}
	return s
}

// holdingSlots returns a block with the slots set.
func holdingSlots(fam block.Family, lines int, s []block.Slot) []uint64 {
	words := blank(lines)
	for _, s := range s {
		setModelSlot(words, fam, s)
	}
	return words
}

// merged returns the result of merging values, oldest first.
func merged(values ...[]byte) []byte {
	m := block.NewMerger(nil)
	for _, v := range values {
		m.MergeNewer(v)
	}
	return m.Finish()
}

func bitsOperand(positions ...uint16) []byte { return block.AppendBitsOperand(nil, positions) }

type golden struct {
	name  string
	value []byte // as written now
	hex   string // as written ever since
	fam   block.Family
	words []uint64
	info  block.Info
}

var goldens = []golden{
	{
		"raw block",
		block.AppendBlock(nil, block.FamilySlots8, alternating()),
		"01" + "08" + "01" + "00" + strings.Repeat("55", 64),
		block.FamilySlots8, alternating(), block.Info{Kind: block.KindDense},
	},
	{
		"block as positions",
		block.AppendBlock(nil, block.FamilyBits, holding(2, 3, 4, 200, 1023)),
		"02" + "01" + "02" + "00" + "0300" + "00" + "c301" + "b606",
		block.FamilyBits, holding(2, 3, 4, 200, 1023), block.Info{Kind: block.KindSparse},
	},
	{
		"block as roaring bitmap",
		block.AppendBlock(nil, block.FamilySlots4, holding(5, everyTenth...)),
		"03" + "04" + "05" + "00" + "3a300000" + "01000000" + "00008000" + "10000000" + hex16(everyTenth),
		block.FamilySlots4, holding(5, everyTenth...), block.Info{Kind: block.KindSparse},
	},
	{
		"block of zeros",
		block.AppendBlock(nil, block.FamilySlots12, blank(128)),
		"02" + "0c" + "80" + "00",
		block.FamilySlots12, blank(128), block.Info{Kind: block.KindSparse},
	},
	{
		"block with operands merged into it",
		merged(block.AppendBlock(nil, block.FamilyBits, holding(128, 65535)), bitsOperand(1), bitsOperand(2)),
		"02" + "01" + "80" + "02" + "0100" + "00" + "fcff03",
		block.FamilyBits, holding(128, 1, 2, 65535), block.Info{Kind: block.KindSparse, Operands: 2},
	},
	{
		"bits operand",
		bitsOperand(5120, 5121, 5200, 5407, 5631),
		"10" + "0014" + "00" + "4e" + "ce01" + "df01",
		block.FamilyBits, holding(128, 5120, 5121, 5200, 5407, 5631), block.Info{Kind: block.KindOperands, Operands: 1},
	},
	{
		"merged bits operand",
		merged(bitsOperand(65535), bitsOperand(5), bitsOperand(4, 6)),
		"11" + "03" + "0400" + "00" + "00" + "f8ff03",
		block.FamilyBits, holding(128, 4, 5, 6, 65535), block.Info{Kind: block.KindOperands, Operands: 3},
	},
	{
		"bits operand as bitmap",
		bitsOperand(evens(512)...),
		"12" + "01" + strings.Repeat("55", 64),
		block.FamilyBits, alternating(), block.Info{Kind: block.KindOperands, Operands: 1},
	},
	{
		"run",
		block.AppendRunOperand(nil, 6, []uint64{0, 1 << 63}),
		"14" + "01" + "0600" + "0000000000000000" + "0000000000000080",
		block.FamilyBits, holding(1, 511), block.Info{Kind: block.KindOperands, Operands: 1},
	},
	{
		"runs merged",
		merged(block.AppendRunOperand(nil, 6, []uint64{2}), block.AppendRunOperand(nil, 7, []uint64{1 << 63, 0})),
		"14" + "02" + "0600" + "0200000000000000" + "0000000000000080",
		block.FamilyBits, holding(1, 6*64+1, 511), block.Info{Kind: block.KindOperands, Operands: 2},
	},
	{
		"run merged with bits",
		merged(bitsOperand(1), block.AppendRunOperand(nil, 6, []uint64{2})),
		"11" + "02" + "0100" + "ff02",
		block.FamilyBits, holding(1, 1, 6*64+1), block.Info{Kind: block.KindOperands, Operands: 2},
	},
	{
		"items operand, of a layer of one block",
		block.AppendItemsOperand(nil, &oneBlock, 0, []uint64{0x8123456789abcdef, 0}),
		"13" + "02" + "03" + "01" + "01" + "00" + "efcdab8967452381" + "0000000000000000",
		block.FamilyBits, holding(2, 0, 512+0x1ef, 512+0x1e6, 512+0x06a), block.Info{Kind: block.KindOperands, Operands: 1},
	},
	{
		"items operand, of the last block of 300",
		block.AppendItemsOperand(nil, &manyBlocks, 299, []uint64{math.MaxUint64, 0xff258bf258bf258c}),
		"13" + "80" + "06" + "02" + "ac02" + "ab02" + "73da40a70d74da" + "00000000000000",
		block.FamilyBits, holdingItems(&manyBlocks, math.MaxUint64, 0xff258bf258bf258c), block.Info{Kind: block.KindOperands, Operands: 1},
	},
	{
		"items operands merged",
		merged(block.AppendItemsOperand(nil, &oneBlock, 0, []uint64{0}), block.AppendItemsOperand(nil, &oneBlock, 0, []uint64{0x1ff})),
		"11" + "02" + "0000" + "fe03",
		block.FamilyBits, holding(2, 0, 511), block.Info{Kind: block.KindOperands, Operands: 2},
	},
	{
		"4-bit slots operand",
		block.AppendSlotsOperand(nil, block.FamilySlots4, slots(7, 15, 8, 1, 16383, 9)),
		"21" + "7f" + "01" + "e9fe0f",
		block.FamilySlots4, holdingSlots(block.FamilySlots4, 128, slots(7, 15, 8, 1, 16383, 9)), block.Info{Kind: block.KindOperands, Operands: 1},
	},
	{
		"8-bit slots operand",
		block.AppendSlotsOperand(nil, block.FamilySlots8, slots(0, 255, 200, 1)),
		"22" + "00ff" + "c70101",
		block.FamilySlots8, holdingSlots(block.FamilySlots8, 128, slots(0, 255, 200, 1)), block.Info{Kind: block.KindOperands, Operands: 1},
	},
	{
		"10-bit slots operand",
		block.AppendSlotsOperand(nil, block.FamilySlots10, slots(5, 0x2ab, 6552, 1)),
		"2a" + "17aa" + "c9cc0100",
		block.FamilySlots10, holdingSlots(block.FamilySlots10, 128, slots(5, 0x2ab, 6552, 1)), block.Info{Kind: block.KindOperands, Operands: 1},
	},
	{
		"12-bit slots operand",
		block.AppendSlotsOperand(nil, block.FamilySlots12, slots(5, 0xabc, 5460, 0x123)),
		"23" + "5cab" + "e3a90512",
		block.FamilySlots12, holdingSlots(block.FamilySlots12, 128, slots(5, 0xabc, 5460, 0x123)), block.Info{Kind: block.KindOperands, Operands: 1},
	},
	{
		"14-bit slots operand",
		block.AppendSlotsOperand(nil, block.FamilySlots14, slots(1, 0x2abc, 4680, 0x3f)),
		"2e" + "7caa" + "bfa31200",
		block.FamilySlots14, holdingSlots(block.FamilySlots14, 128, slots(1, 0x2abc, 4680, 0x3f)), block.Info{Kind: block.KindOperands, Operands: 1},
	},
	{
		"16-bit slots operand",
		block.AppendSlotsOperand(nil, block.FamilySlots16, slots(4095, 0xabcd)),
		"24" + "ff1f" + "cdab",
		block.FamilySlots16, holdingSlots(block.FamilySlots16, 128, slots(4095, 0xabcd)), block.Info{Kind: block.KindOperands, Operands: 1},
	},
	{
		"18-bit slots operand",
		block.AppendSlotsOperand(nil, block.FamilySlots18, slots(3, 0x2abcd)),
		"29" + "0df3aa",
		block.FamilySlots18, holdingSlots(block.FamilySlots18, 128, slots(3, 0x2abcd)), block.Info{Kind: block.KindOperands, Operands: 1},
	},
	{
		"20-bit slots operand",
		block.AppendSlotsOperand(nil, block.FamilySlots20, slots(2, 0xabcde)),
		"25" + "2ecdab",
		block.FamilySlots20, holdingSlots(block.FamilySlots20, 128, slots(2, 0xabcde)), block.Info{Kind: block.KindOperands, Operands: 1},
	},
	{
		"24-bit slots operand",
		block.AppendSlotsOperand(nil, block.FamilySlots24, slots(2, 0x123456)),
		"26" + "02563412",
		block.FamilySlots24, holdingSlots(block.FamilySlots24, 128, slots(2, 0x123456)), block.Info{Kind: block.KindOperands, Operands: 1},
	},
	{
		"32-bit slots operand",
		block.AppendSlotsOperand(nil, block.FamilySlots32, slots(2, 0x89abcdef)),
		"28" + "02" + "efcdab89",
		block.FamilySlots32, holdingSlots(block.FamilySlots32, 128, slots(2, 0x89abcdef)), block.Info{Kind: block.KindOperands, Operands: 1},
	},
	{
		"merged slots operand",
		merged(
			block.AppendSlotsOperand(nil, block.FamilySlots12, slots(5, 0xabc, 7, 0x777)),
			block.AppendSlotsOperand(nil, block.FamilySlots12, slots(5, 0))),
		"33" + "02" + "5000" + "1777",
		block.FamilySlots12, holdingSlots(block.FamilySlots12, 128, slots(7, 0x777)), block.Info{Kind: block.KindOperands, Operands: 2},
	},
}

var (
	oneBlock   = mustLayout(1, 2, 3, 1)
	manyBlocks = mustLayout(300, 128, 6, 2)
)

func mustLayout(blocks, lines, hashes, linesPerItem uint64) probe.Layout {
	l, err := probe.NewLayout(blocks, lines, hashes, linesPerItem)
	if err != nil {
		panic(err)
	}
	return l
}

// holdingItems returns a block with the bits of items set.
func holdingItems(layout *probe.Layout, hashes ...uint64) []uint64 {
	words := blank(int(layout.Lines))
	for _, p := range positionsOf(layout, hashes) {
		words[p/64] |= 1 << (p % 64)
	}
	return words
}

// alternating returns a line with every other bit set, which no encoding can shorten.
func alternating() []uint64 {
	words := blank(1)
	for i := range words {
		words[i] = 0x5555555555555555
	}
	return words
}

// everyTenth are more positions than a block may be stored as.
var everyTenth = func() (ps []int) {
	for i := range 129 {
		ps = append(ps, 10*i)
	}
	return ps
}()

// hex16 returns numbers of 16 bits, the lower byte first.
func hex16(numbers []int) (s string) {
	for _, n := range numbers {
		s += fmt.Sprintf("%02x%02x", n&0xff, n>>8)
	}
	return s
}

func evens(below uint16) (ps []uint16) {
	for p := uint16(0); p < below; p += 2 {
		ps = append(ps, p)
	}
	return ps
}

func TestFormat_golden(t *testing.T) {
	for _, g := range goldens {
		t.Run(g.name, func(t *testing.T) {
			want, err := hex.DecodeString(g.hex)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(g.value, want) {
				t.Errorf("written as %x, want %x", g.value, want)
			}
			lines := len(g.words) / block.LineWords
			words, info := mustDecode(t, g.fam, lines, want)
			if d := diff(words, g.words); d != "" {
				t.Error(d)
			}
			if info != g.info {
				t.Errorf("info %+v, want %+v", info, g.info)
			}
		})
	}
}

func TestFormat_golden_kept(t *testing.T) {
	slot := block.AppendSlotsOperand(nil, block.FamilySlots8, slots(1, 2))
	got := merged(bitsOperand(1), []byte("\xffjunk"), bitsOperand(2), bitsOperand(3), slot)
	want, err := hex.DecodeString("40" + "03" + "100100" + "05" + "ff6a756e6b" + "05" + "1102020000" + "03" + "220102")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("written as %x, want %x", got, want)
	}
}

func TestMergerName(t *testing.T) {
	// A store made under one name cannot be opened under another.
	if block.MergerName != "sievekv.block.v1" {
		t.Errorf("MergerName = %q", block.MergerName)
	}
}

func TestAppendBitsOperand_size(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for _, c := range []struct {
		adds int
		max  float64 // bytes for an add of six bits, on average
	}{{1, 9}, {7, 8.2}, {100, 7}, {600, 6}, {1000, 8.3}} {
		size := 0
		for range 200 {
			size += len(block.AppendBitsOperand(nil, adds(r, c.adds)))
		}
		if got := float64(size) / 200 / float64(c.adds); got > c.max {
			t.Errorf("operands of %d adds take %.2f bytes an add, want at most %.2f", c.adds, got, c.max)
		}
	}
}

func TestAppendBitsOperand_appends(t *testing.T) {
	for _, ps := range [][]uint16{{}, {9}, evens(512), evens(65534)} {
		got := block.AppendBitsOperand([]byte("before"), ps)
		if want := append([]byte("before"), block.AppendBitsOperand(nil, ps)...); !bytes.Equal(got, want) {
			t.Errorf("%d positions: %s, want %s", len(ps), brief(got), brief(want))
		}
	}
}

// Whatever its bits are, a block takes no more bytes than its encodings promise.
func TestAppendBlock_size(t *testing.T) {
	for _, c := range []struct {
		name  string
		words []uint64
		max   int
	}{
		{"zeros", blank(128), 4},
		{"one bit", holding(128, 40000), 4 + 2},
		{"60 bits of 1024", scattered(2, 60), 4 + 62},
		{"128 bits", scattered(128, 128), 4 + 240},
		{"1000 bits", scattered(128, 1000), 4 + 16 + 2000},
		{"4000 bits", scattered(128, 4000), 4 + 16 + 8000},
		{"4500 bits", scattered(128, 4500), 4 + block.Size},
		{"half full", scattered(128, 32768), 4 + block.Size},
		{"half full, short", scattered(3, 768), 4 + 3*64},
		{"full", full(128), 4 + block.Size},
		{"64 bits in a line", scattered(1, 64), 4 + 64},
		{"128 bits in two lines", scattered(2, 128), 4 + 128},
		{"longest roaring bitmap", scattered(48, 1527), 4 + 16 + 2*1527},
		{"roaring as long as raw", scattered(48, 1528), 4 + 48*64},
	} {
		value := block.AppendBlock([]byte("before"), block.FamilyBits, c.words)
		value, ok := bytes.CutPrefix(value, []byte("before"))
		if !ok {
			t.Fatalf("%s: what was there is gone", c.name)
		}
		if len(value) > c.max {
			t.Errorf("%s: %d bytes, want at most %d", c.name, len(value), c.max)
		}
		words, _ := mustDecode(t, block.FamilyBits, len(c.words)/block.LineWords, value)
		if d := diff(words, c.words); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func TestAppend_refusesBlocksThatCannotBeStored(t *testing.T) {
	for name, f := range map[string]func(){
		"no words":         func() { block.AppendBlock(nil, block.FamilyBits, nil) },
		"half a line":      func() { block.AppendBlock(nil, block.FamilyBits, make([]uint64, 12)) },
		"too many words":   func() { block.AppendBlock(nil, block.FamilyBits, make([]uint64, 1032)) },
		"no family":        func() { block.AppendBlock(nil, 0, blank(1)) },
		"unknown family":   func() { block.AppendBlock(nil, 64, blank(1)) },
		"slots of bits":    func() { block.AppendSlotsOperand(nil, block.FamilyBits, slots(0, 1)) },
		"slots of 28 bits": func() { block.AppendSlotsOperand(nil, 28, slots(0, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if r, ok := recover().(string); !ok || !strings.HasPrefix(r, "block: ") {
					t.Errorf("recovered %v, want a message of this package", r)
				}
			}()
			f()
		})
	}
}

// A slot's value is cut to its width, so that it cannot reach into its neighbours.
func TestAppendSlotsOperand_cutsValues(t *testing.T) {
	for _, fam := range slotFamilies[:4] {
		wide := block.AppendSlotsOperand(nil, fam, slots(3, 0xffffffff))
		fits := block.AppendSlotsOperand(nil, fam, slots(3, 1<<fam.Width()-1))
		if !slices.Equal(wide, fits) {
			t.Errorf("%v: %x, want %x", fam, wide, fits)
		}
	}
}
