package block_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sievekv/sievekv/internal/block"
)

// chooser chooses the grouping. In property tests it is rapid.T, so that failures shrink.
type chooser func(label string, n int) int

func draws(t *rapid.T) chooser {
	return func(label string, n int) int { return rapid.IntRange(0, n-1).Draw(t, label) }
}

// mergeSomehow merges values, oldest first, as a storage engine might: in partial merges of neighbours, newest first,
// oldest first, or from the middle outwards. It reuses the memory of the values that it passes on.
func mergeSomehow(choose chooser, values [][]byte) []byte {
	if len(values) == 1 && choose("alone", 2) == 0 {
		return values[0]
	}
	parts := values
	for len(parts) > 1 && choose("join", 3) > 0 {
		i := choose("from", len(parts)-1)
		j := i + 2 + choose("more", len(parts)-i-1)
		if i == 0 && j == len(parts) {
			break
		}
		parts = slices.Concat(parts[:i], [][]byte{mergeSomehow(choose, parts[i:j])}, parts[j:])
	}
	i := choose("first", len(parts))
	var m *block.Merger
	lend(parts[i], func(b []byte) { m = block.NewMerger(b) })
	older, newer := slices.Clone(parts[:i]), parts[i+1:]
	for len(older)+len(newer) > 0 {
		if len(newer) == 0 || len(older) > 0 && choose("older", 2) == 0 {
			lend(older[len(older)-1], m.MergeOlder)
			older = older[:len(older)-1]
		} else {
			lend(newer[0], m.MergeNewer)
			newer = newer[1:]
		}
	}
	return m.Finish()
}

// lend passes on a value and overwrites its bytes afterwards.
func lend(value []byte, f func([]byte)) {
	b := slices.Clone(value)
	f(b)
	for i := range b {
		b[i] = 0xaa
	}
}

// drawChanges draws changes of one family for one length, oldest first.
func drawChanges(t *rapid.T, fam block.Family, lines int) (changes []change, values [][]byte) {
	blocks := rapid.IntRange(0, 2).Draw(t, "blocks")
	for i := range rapid.IntRange(1, 9).Draw(t, "changes") {
		c := drawChange(t, fam, lines, blocks == 2 || blocks == 1 && i == 0)
		changes = append(changes, c)
		values = append(values, c.value)
	}
	return changes, values
}

// However changes are merged, decoding gives the same as applying them by age, and the merged bytes are the same.
func TestMerger_model(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fam, lines := drawFamily(t), drawLines(t)
		changes, values := drawChanges(t, fam, lines)
		model := blank(lines)
		operands := uint32(0)
		for _, c := range changes {
			c.apply(model)
			operands += c.operands
		}
		straight := merged(values...)
		value := mergeSomehow(draws(t), values)
		if !bytes.Equal(value, straight) {
			t.Fatalf("merged to %s, one after the other to %s", brief(value), brief(straight))
		}
		words := full(lines)
		info, err := block.Decode(words, fam, value)
		if err != nil {
			t.Fatal(err)
		}
		if d := diff(words, model); d != "" {
			t.Fatal(d)
		}
		if info.Operands != operands {
			t.Fatalf("%d operands, want %d", info.Operands, operands)
		}
	})
}

// drawValue draws a value that may be anything, but is mostly of the family and length. So about half of the
// sequences have a meaning.
func drawValue(t *rapid.T, fam block.Family, lines int) []byte {
	switch rapid.IntRange(0, 11).Draw(t, "what") {
	case 0:
		junk := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "bytes")
		kind := rapid.SampledFrom([]byte{0, 1, 2, 3, 0x10, 0x11, 0x12, 0x13, 0x14, 0x21, 0x23, 0x28, 0x34, 0x40}).Draw(t, "kind")
		return append([]byte{kind}, junk...)
	case 1:
		return drawChange(t, fam, drawLines(t), true).value
	case 2:
		return drawChange(t, drawFamily(t), lines, true).value
	}
	return drawChange(t, fam, lines, true).value
}

// readings returns what a value decodes to, for every family and several lengths.
func readings(value []byte) string {
	var b bytes.Buffer
	for _, fam := range families {
		for _, lines := range []int{1, 2, 3, 64, 65, 127, 128} {
			words := blank(lines)
			info, err := block.Decode(words, fam, value)
			if err == nil {
				fmt.Fprintf(&b, "%v %d %+v %x\n", fam, lines, info, words)
			} else if !errors.Is(err, block.ErrCorrupt) {
				fmt.Fprintf(&b, "%v %d: %v\n", fam, lines, err)
			}
		}
	}
	return b.String()
}

// However any values are merged, decoding gives the same.
func TestMerger_associative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fam, lines := drawFamily(t), drawLines(t)
		values := make([][]byte, rapid.IntRange(1, 6).Draw(t, "values"))
		for i := range values {
			values[i] = drawValue(t, fam, lines)
		}
		want := readings(merged(values...))
		value := mergeSomehow(draws(t), values)
		if got := readings(value); got != want {
			t.Fatalf("%s reads as\n%s\none after the other as\n%s", brief(value), got, want)
		}
	})
}

func TestMerger_kept(t *testing.T) {
	var (
		junk  = []byte("\xffnot a value")
		bits  = bitsOperand(1000)
		more  = bitsOperand(3)
		slot4 = block.AppendSlotsOperand(nil, block.FamilySlots4, slots(1, 2))
		slot8 = block.AppendSlotsOperand(nil, block.FamilySlots8, slots(1, 2))
		short = block.AppendBlock(nil, block.FamilyBits, holding(1, 5))
		long  = block.AppendBlock(nil, block.FamilyBits, holding(2, 5))
	)
	for _, c := range []struct {
		name   string
		values [][]byte // oldest first
		kept   [][]byte // what must be found in the result, in this order
	}{
		{"junk at the bottom", [][]byte{junk, bits}, [][]byte{junk, bits}},
		{"junk on top", [][]byte{bits, junk}, [][]byte{bits, junk}},
		{"junk twice", [][]byte{junk, junk, bits}, [][]byte{junk, junk, bits}},
		{"bits and slots", [][]byte{bits, slot4}, [][]byte{bits, slot4}},
		{"slots of two widths", [][]byte{slot4, slot8, slot4}, [][]byte{slot4, slot8, slot4}},
		{"blocks of two lengths", [][]byte{short, long}, [][]byte{short, long}},
		{"blocks of two lengths, the shorter above", [][]byte{long, short}, [][]byte{long, short}},
		{"operand behind a block's end", [][]byte{short, bits}, [][]byte{short, bits}},
		{"operand behind the end of a block above", [][]byte{bits, short}, [][]byte{bits, short}},
		{"junk between operands", [][]byte{bits, more, junk, more, bits}, [][]byte{merged(bits, more), junk, merged(more, bits)}},
		{"slots below a block of bits", [][]byte{slot8, short}, [][]byte{slot8, short}},
	} {
		t.Run(c.name, func(t *testing.T) {
			value := merged(c.values...)
			_, err := block.Decode(blank(2), block.FamilyBits, value)
			if !errors.Is(err, block.ErrCorrupt) {
				t.Errorf("Decode: %v, want ErrCorrupt", err)
			}
			rest := value
			for _, k := range c.kept {
				i := bytes.Index(rest, k)
				if i < 0 {
					t.Fatalf("%x lacks %x", value, k)
				}
				rest = rest[i+len(k):]
			}
			if len(rest) != 0 {
				t.Errorf("%x has %x behind what was merged", value, rest)
			}
			again := merged(value, bits)
			if _, err := block.Decode(blank(2), block.FamilyBits, again); !errors.Is(err, block.ErrCorrupt) {
				t.Errorf("after one more operand: %v, want ErrCorrupt", err)
			}
		})
	}
}

// A merge leaves nothing behind for the next one in the same memory, not even of a slot in two lines.
func TestMerger_leavesNothing(t *testing.T) {
	slot := block.AppendSlotsOperand(nil, block.FamilySlots12, slots(42, 0xfff))
	value := merged(slot, slot, bitsOperand(600), bitsOperand(601), slot, slot)
	want := []byte{0x40,
		5, 0x33, 2, 0xaf, 0x05, 0xff,
		5, 0x11, 2, 0x58, 0x02, 0,
		5, 0x33, 2, 0xaf, 0x05, 0xff}
	if !bytes.Equal(value, want) {
		t.Errorf("%x, want %x", value, want)
	}
}

func TestMerger_alone(t *testing.T) {
	notShortest := append([]byte{1, 1, 1, 0}, make([]byte, 64)...)
	for _, value := range [][]byte{{}, []byte("junk"), bitsOperand(7), notShortest} {
		for _, m := range []*block.Merger{block.NewMerger(value), block.NewMerger(nil)} {
			m.MergeNewer(nil)
			m.MergeOlder([]byte{})
			want := value
			if got := m.Finish(); !bytes.Equal(got, want) && len(got) != 0 {
				t.Errorf("%x, want %x", got, want)
			}
		}
		if got := block.NewMerger(value).Finish(); !bytes.Equal(got, value) {
			t.Errorf("%x, want %x", got, value)
		}
	}
}

// A result belongs to the caller: later merges do not change it.
func TestMerger_Finish_ownership(t *testing.T) {
	first := merged(bitsOperand(1), bitsOperand(2))
	want := slices.Clone(first)
	merged(bitsOperand(3), bitsOperand(4))
	if !bytes.Equal(first, want) {
		t.Errorf("%x, was %x", first, want)
	}
}

func TestMerger_operandsSaturate(t *testing.T) {
	most := []byte{0x11, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 0}
	_, info := mustDecode(t, block.FamilyBits, 1, merged(bitsOperand(1), most, bitsOperand(2)))
	if info.Operands != 1<<32-1 {
		t.Errorf("%d operands", info.Operands)
	}
}

// With many operands some are merged before Finish: with and without a block, in both directions.
func TestMerger_many(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, fam := range families {
		base := scattered(128, 20000)
		model := slices.Clone(base)
		var values [][]byte
		for range 30000 {
			if fam == block.FamilyBits {
				ps := adds(r, 1)
				values = append(values, block.AppendBitsOperand(nil, ps))
				for _, p := range ps {
					model[p/64] |= 1 << (p % 64)
				}
				continue
			}
			s := randomSlots(r, fam, 128, 2)
			values = append(values, block.AppendSlotsOperand(nil, fam, s))
			for _, s := range s {
				setModelSlot(model, fam, s)
			}
		}
		values = slices.Insert(values, 0, block.AppendBlock(nil, fam, base))
		want := merged(values...)

		m := block.NewMerger(values[len(values)-1])
		for _, v := range slices.Backward(values[:len(values)-1]) {
			m.MergeOlder(v)
		}
		if got := m.Finish(); !bytes.Equal(got, want) {
			t.Errorf("%v: newest first %s, oldest first %s", fam, brief(got), brief(want))
		}
		words, info := mustDecode(t, fam, 128, want)
		if d := diff(words, model); d != "" || info.Operands != 30000 {
			t.Errorf("%v: %d operands, %s", fam, info.Operands, d)
		}
	}
}

// Values that cannot be merged are kept however many they are.
func TestMerger_manyKept(t *testing.T) {
	m := block.NewMerger(nil)
	var want bytes.Buffer
	want.WriteByte(0x40)
	for i := range 50000 {
		junk := fmt.Appendf(nil, "?%09d", i)
		m.MergeNewer(junk)
		want.WriteByte(10)
		want.Write(junk)
	}
	if got := m.Finish(); !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%d bytes, want %d: %s", len(got), want.Len(), brief(got))
	}
}

// Merged operands are encoded by the same rules as a single operand with all their bits.
func TestMerger_encoding(t *testing.T) {
	for _, n := range []int{2, 62, 63, 64, 65, 300, 1022, 1023, 1024, 4095, 4096, 4097, 20000} {
		for _, step := range []int{1, 2, 3, 16, 150} {
			if n*step > block.Bits {
				continue
			}
			var ps []uint16
			for i := range n {
				ps = append(ps, uint16(i*step))
			}
			single := bitsOperand(ps...)
			both := merged(bitsOperand(ps[:n/2]...), bitsOperand(ps[n/2:]...))
			want := append([]byte{0x11, 2}, single[1:]...)
			if single[0] == 0x12 {
				want = append([]byte{0x12, 2}, single[2:]...)
			}
			if !bytes.Equal(both, want) {
				t.Errorf("%d bits %d apart: %s, merged %s", n, step, brief(single), brief(both))
			}
		}
	}
}

// Partial merges stay small: far below a block until there are thousands of bits.
func TestMerger_size(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct{ operands, max int }{
		{2, 2 + 2*9}, {10, 90}, {100, 800}, {600, 4300}, {700, 5 + block.Size}, {20000, 5 + block.Size},
	} {
		m := block.NewMerger(nil)
		for range c.operands {
			m.MergeNewer(block.AppendBitsOperand(nil, adds(r, 1)))
		}
		if got := len(m.Finish()); got > c.max {
			t.Errorf("%d operands merged take %d bytes, want at most %d", c.operands, got, c.max)
		}
	}
}
