package block_test

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/sievekv/sievekv/internal/block"
)

func TestDecode_absent(t *testing.T) {
	for _, value := range [][]byte{nil, {}} {
		words, info := mustDecode(t, block.FamilySlots16, 3, value)
		if d := diff(words, blank(3)); d != "" || info != (block.Info{Kind: block.KindAbsent}) {
			t.Errorf("%+v %s", info, d)
		}
	}
}

// Every single change, of every family and length, in every encoding, reads back.
func TestDecode_model(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fam, lines := drawFamily(t), drawLines(t)
		c := drawChange(t, fam, lines, true)
		want := blank(lines)
		c.apply(want)
		got := full(lines)
		info, err := block.Decode(got, fam, c.value)
		if err != nil {
			t.Fatalf("%s: %v", brief(c.value), err)
		}
		if d := diff(got, want); d != "" {
			t.Fatal(d)
		}
		if info.Operands != c.operands {
			t.Fatalf("%d operands, want %d", info.Operands, c.operands)
		}
	})
}

// corrupt are values that are invalid for a block of two lines of the family.
var corrupt = []struct {
	name string
	fam  block.Family
	hex  string
	want string // in the error
}{
	{"unknown kind", block.FamilyBits, "00", "unknown kind"},
	{"unknown kind of one byte", block.FamilyBits, "ff", "unknown kind"},
	{"block without header", block.FamilyBits, "01", "header"},
	{"block without length", block.FamilyBits, "0101", "header"},
	{"block without count", block.FamilyBits, "010102", "header"},
	{"block with long count", block.FamilyBits, "0201028000", "header"},
	{"block with count above 32 bits", block.FamilyBits, "0201028080808010", "header"},
	{"block of no lines", block.FamilyBits, "02010000", "0 lines"},
	{"block of 129 lines", block.FamilyBits, "02018100", "129 lines"},
	{"block of no family", block.FamilyBits, "02000200", "family 0"},
	{"block of another family", block.FamilyBits, "02040200", "4-bit slots in a block of bits"},
	{"block of another length", block.FamilyBits, "02010100", "1 lines in a block of 2"},
	{"raw block cut short", block.FamilyBits, "01010200" + strings.Repeat("00", 127), "127 bytes for 2 lines"},
	{"raw block too long", block.FamilyBits, "01010200" + strings.Repeat("00", 129), "129 bytes for 2 lines"},
	{"position cut short", block.FamilyBits, "0201020001", "positions"},
	{"position behind the end", block.FamilyBits, "020102000004", "positions"},
	{"gap behind the end", block.FamilyBits, "02010200ff0300", "positions"},
	{"gap cut short", block.FamilyBits, "020102000000" + "80", "positions"},
	{"gap not minimal", block.FamilyBits, "020102000000" + "8000", "positions"},
	{"gap of four bytes", block.FamilyBits, "020102000000" + "80808001", "positions"},
	{"roaring of nothing", block.FamilyBits, "03010200", "not a roaring bitmap"},
	{"roaring with junk", block.FamilyBits, "03010200" + "deadbeef", "not a roaring bitmap"},
	{"roaring with runs", block.FamilyBits, "03010200" + "3b300000" + "01" + "0000ff01" + "0100" + "0000ff01", "without runs"},
	{"roaring longer than raw", block.FamilyBits, "03010200" + strings.Repeat("00", 128), "128 bytes of roaring bitmap"},
	{"roaring of no size", block.FamilyBits, "03010200" + "3a300000" + "0000", "kind 0x03"},
	{"roaring of many containers", block.FamilyBits, "03010200" + "3a300000" + "ffffffff", "kind 0x03"},
	{"roaring without offset", block.FamilyBits, "03010200" + "3a300000" + "01000000" + "00000100", "kind 0x03"},
	{"roaring cut short", block.FamilyBits, "03010200" + "3a300000" + "01000000" + "00000100" + "10000000" + "040005", "kind 0x03"},
	{"roaring with more behind", block.FamilyBits, "03010200" + "3a300000" + "01000000" + "00000000" + "10000000" + "0400" + "00", "1 bytes behind"},
	{"roaring behind the end", block.FamilyBits, "03010200" + "3a300000" + "01000000" + "00000000" + "10000000" + "0004", "positions"},
	{"roaring above 65,535", block.FamilyBits, "03010200" + "3a300000" + "01000000" + "01000000" + "10000000" + "0400", "positions"},
	{"roaring unsorted", block.FamilyBits, "03010200" + "3a300000" + "01000000" + "00000100" + "10000000" + "05000400", "kind 0x03"},
	{"roaring of one key twice", block.FamilyBits, "03010200" + "3a300000" + "02000000" + "0000000000000000" + "1000000012000000" + "0500" + "0600", "kind 0x03"},
	{"operand in slots", block.FamilySlots4, "100000", "bits in a block of 4-bit slots"},
	{"operand behind the end", block.FamilyBits, "100004", "bit 1024 in a block of 1024"},
	{"operand above 65,535", block.FamilyBits, "10ffff00", "positions"},
	{"merged operand without count", block.FamilyBits, "11", "header"},
	{"merged operand of none", block.FamilyBits, "11000100", "header"},
	{"merged slots of none", block.FamilySlots4, "310000", "header"},
	{"bitmap without lines", block.FamilyBits, "1201", "positions"},
	{"bitmap of half a line", block.FamilyBits, "1201" + strings.Repeat("01", 32), "positions"},
	{"bitmap with an empty line at its end", block.FamilyBits, "1201" + strings.Repeat("00", 64), "positions"},
	{"bitmap behind the end", block.FamilyBits, "1201" + strings.Repeat("01", 192), "bit 1528 in a block of 1024"},
	{"bitmap of 129 lines", block.FamilyBits, "1201" + strings.Repeat("01", 129*64), "positions"},
	{"items without header", block.FamilyBits, "13020301", "header"},
	{"items of no layout", block.FamilyBits, "1300030101" + "00", "lines per block is 0"},
	{"items of many lines", block.FamilyBits, "1381030101" + "00", "lines per block is 129"},
	{"items of a block that is not there", block.FamilyBits, "1302030101" + "01", "header"},
	{"items of a long number", block.FamilyBits, "130203018100" + "00", "header"},
	{"item cut short", block.FamilyBits, "1302030101" + "00" + "00000000000000", "items"},
	{"item of the next block", block.FamilyBits, "1302030102" + "00" + "0000000000000080", "items"},
	{"item of the first block", block.FamilyBits, "1302030102" + "01" + "0000000000000080", "items"},
	{"item behind the end", block.FamilyBits, "1304030101" + "00" + "ffffffffffffffff", "bit 2047 in a block of 1024"},
	{"items in slots", block.FamilySlots4, "1302030101" + "00" + "0000000000000000", "bits in a block of 4-bit slots"},
	{"run without count", block.FamilyBits, "14", "header"},
	{"run of no operands", block.FamilyBits, "14000000" + "0100000000000000", "header"},
	{"run without place", block.FamilyBits, "140100", "header"},
	{"run of no words", block.FamilyBits, "14010000", "run"},
	{"run of half a word", block.FamilyBits, "14010000" + "010000000000000001000000", "run"},
	{"run behind any end", block.FamilyBits, "1401ff03" + "00000000000000000000000000000000", "run"},
	{"run behind the end", block.FamilyBits, "14010f00" + "00000000000000000100000000000000", "bit 1024 in a block of 1024"},
	{"run in slots", block.FamilySlots4, "14010000" + "0100000000000000", "bits in a block of 4-bit slots"},
	{"slots of no width", block.FamilySlots4, "20", "unknown width"},
	{"slots of 28 bits", block.FamilySlots4, "27", "unknown width"},
	{"slots of 60 bits", block.FamilySlots4, "3f01", "unknown width"},
	{"slots of another width", block.FamilySlots4, "220000", "8-bit slots in a block of 4-bit slots"},
	{"slot behind the end", block.FamilySlots4, "218020", "bit 1027 in a block of 1024"},
	{"slot behind any end", block.FamilySlots16, "24" + "8020" + "0000", "slots"},
	{"last 12-bit slot is not whole", block.FamilySlots12, "23" + "d00a" + "00", "bit 1031 in a block of 1024"},
	{"slot without value", block.FamilySlots16, "24" + "0000", "slots"},
	{"slot of long gap", block.FamilySlots16, "24" + "8000" + "0000", "slots"},
	{"merged slots without count", block.FamilySlots4, "31", "header"},
	{"nothing kept", block.FamilyBits, "40", "list of kept inputs"},
	{"kept input of no bytes", block.FamilyBits, "4000", "list of kept inputs"},
	{"kept input cut short", block.FamilyBits, "40031000", "list of kept inputs"},
	{"kept inputs", block.FamilyBits, "40" + "03100000" + "03210000", "2 inputs that could not be merged"},
}

func TestDecode_corrupt(t *testing.T) {
	for _, c := range corrupt {
		t.Run(c.name, func(t *testing.T) {
			value, err := hex.DecodeString(c.hex)
			if err != nil {
				t.Fatal(err)
			}
			_, err = block.Decode(blank(2), c.fam, value)
			if !errors.Is(err, block.ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Decode: %v, want ErrCorrupt with %q", err, c.want)
			}
			words := scattered(2, 100)
			err = block.Patch(words, c.fam, value)
			if !errors.Is(err, block.ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Patch: %v, want ErrCorrupt with %q", err, c.want)
			}
			if d := diff(words, scattered(2, 100)); d != "" {
				t.Errorf("Patch failed and changed the block: %s", d)
			}
		})
	}
}

func TestKind_String(t *testing.T) {
	for kind, want := range map[block.Kind]string{
		block.KindAbsent: "absent", block.KindSparse: "sparse", block.KindDense: "dense",
		block.KindOperands: "operands", 9: "unknown kind 9",
	} {
		if got := kind.String(); got != want {
			t.Errorf("kind %d is %q, want %q", uint8(kind), got, want)
		}
	}
}

// Patching a block with a value gives the same as merging the two and decoding the result.
func TestPatch_model(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fam, lines := drawFamily(t), drawLines(t)
		resident := scattered(lines, rapid.IntRange(0, lines*block.LineBits).Draw(t, "ones"))
		stored := block.AppendBlock(nil, fam, resident)
		model := slices.Clone(resident)
		for range rapid.IntRange(1, 6).Draw(t, "changes") {
			c := drawChange(t, fam, lines, true)
			c.apply(model)
			stored = merged(stored, c.value)
			if err := block.Patch(resident, fam, c.value); err != nil {
				t.Fatal(err)
			}
		}
		if d := diff(resident, model); d != "" {
			t.Fatalf("resident: %s", d)
		}
		read := blank(lines)
		if _, err := block.Decode(read, fam, stored); err != nil {
			t.Fatal(err)
		}
		if d := diff(read, model); d != "" {
			t.Fatalf("stored: %s", d)
		}
	})
}

func TestPatch_empty(t *testing.T) {
	words := scattered(1, 9)
	if err := block.Patch(words, block.FamilyBits, nil); err != nil || diff(words, scattered(1, 9)) != "" {
		t.Errorf("%v %s", err, diff(words, scattered(1, 9)))
	}
}

// However the patches fall, readers see a set bit stay set, and a slot within a word with one of the values that it
// had.
func TestPatch_readers(t *testing.T) {
	sets, slotted := blank(128), blank(1)
	var stop atomic.Bool
	failures := make(chan string, 2)
	go func() {
		ones := 0
		for !stop.Load() {
			n := 0
			for i := range sets {
				if atomic.LoadUint64(&sets[i]) != 0 {
					n++
				}
			}
			if n < ones {
				failures <- "a bit was lost"
				return
			}
			ones = n
		}
		failures <- ""
	}()
	go func() {
		for !stop.Load() {
			if w := atomic.LoadUint64(&slotted[0]); w != 0 && w != 0x1111<<32 && w != 0xffff<<32 {
				failures <- "half a slot was seen"
				return
			}
		}
		failures <- ""
	}()
	for p := range block.Bits {
		if err := block.Patch(sets, block.FamilyBits, bitsOperand(uint16(p))); err != nil {
			t.Fatal(err)
		}
		value := []uint32{0x1111, 0xffff}[p%2]
		op := block.AppendSlotsOperand(nil, block.FamilySlots16, slots(2, value))
		if err := block.Patch(slotted, block.FamilySlots16, op); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	for range 2 {
		if f := <-failures; f != "" {
			t.Error(f)
		}
	}
	if block.Count(sets) != block.Bits {
		t.Errorf("%d bits set, want all", block.Count(sets))
	}
}

func TestOperands_doNotAllocate(t *testing.T) {
	words, dense := blank(128), scattered(128, 30000)
	buf := make([]byte, 0, 2*block.Size)
	bits := bitsOperand(1, 2, 300)
	bitmap := bitsOperand(evens(block.LineBits)...)
	slot := block.AppendSlotsOperand(nil, block.FamilySlots12, slots(5, 0xabc))
	for name, f := range map[string]func() error{
		"patch bits":     func() error { return block.Patch(words, block.FamilyBits, bits) },
		"patch a bitmap": func() error { return block.Patch(words, block.FamilyBits, bitmap) },
		"patch slots":    func() error { return block.Patch(words, block.FamilySlots12, slot) },
		"decode bits":    func() error { _, err := block.Decode(words, block.FamilyBits, bits); return err },
		"append bits":    func() error { buf = block.AppendBitsOperand(buf[:0], []uint16{1, 2, 300}); return nil },
		"append a block": func() error { buf = block.AppendBlock(buf[:0], block.FamilyBits, dense); return nil },
	} {
		if n := testing.AllocsPerRun(100, func() {
			if err := f(); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
