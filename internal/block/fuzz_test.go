package block_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sievekv/sievekv/internal/block"
)

// fuzzValues are the seeds of all fuzzing: one value of each kind, and the corrupt values.
func fuzzValues(f *testing.F) (values [][]byte) {
	for _, g := range goldens {
		values = append(values, g.value)
	}
	for _, c := range corrupt {
		value, err := hex.DecodeString(c.hex)
		if err != nil {
			f.Fatal(err)
		}
		values = append(values, value)
	}
	return values
}

// lengths returns the numbers of lines that values may be for.
func lengths(values ...[]byte) []int {
	lines := []int{1, 128}
	for _, v := range values {
		for _, at := range []int{1, 2} { // in items, and in blocks
			if len(v) > at && v[at] >= 1 && v[at] <= block.MaxLines {
				lines = append(lines, int(v[at]))
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// Any bytes are an error or a block, which can then be written and read again.
func FuzzDecode(f *testing.F) {
	for _, v := range fuzzValues(f) {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, fam := range families {
			for _, lines := range lengths(value) {
				words := full(lines)
				info, err := block.Decode(words, fam, value)
				if err != nil {
					if !errors.Is(err, block.ErrCorrupt) {
						t.Fatalf("%d lines of %v: %v", lines, fam, err)
					}
					continue
				}
				if (info.Kind == block.KindAbsent) != (len(value) == 0) {
					t.Fatalf("%d bytes are %v", len(value), info.Kind)
				}
				again, folded := mustDecode(t, fam, lines, block.AppendBlock(nil, fam, words))
				if d := diff(again, words); d != "" || folded.Operands != 0 {
					t.Fatalf("%d lines of %v, %d operands: %s", lines, fam, folded.Operands, d)
				}
			}
		}
	})
}

// Any three values can be merged, with the same result in every grouping. A corrupt value makes the result corrupt.
func FuzzMerge(f *testing.F) {
	values := fuzzValues(f)
	for i, v := range values {
		f.Add(v, values[(i+1)%len(values)], values[(i+2)%len(values)])
		f.Add(v, v, bitsOperand(5))
	}
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		want := merged(a, b, c)
		lost := false
		for _, v := range [][]byte{a, b, c} {
			lost = lost || len(v) > 0 && !readable(v)
		}
		if lost && readable(want) {
			t.Fatalf("corruption is gone: %s", brief(want))
		}
		for name, got := range map[string][]byte{
			"newest first":          newestFirst(c, b, a),
			"the older two before":  merged(merged(a, b), c),
			"the newer two before":  merged(a, merged(b, c)),
			"the older two, newest": newestFirst(c, newestFirst(b, a)),
			"the newer two, newest": newestFirst(newestFirst(c, b), a),
		} {
			if bytes.Equal(got, want) {
				continue
			}
			if readable(got) || readable(want) {
				t.Fatalf("%s: %s, one after the other %s", name, brief(got), brief(want))
			}
		}
	})
}

func newestFirst(values ...[]byte) []byte {
	m := block.NewMerger(nil)
	for _, v := range values {
		m.MergeOlder(v)
	}
	return m.Finish()
}

// readable reports whether a value can be read as a block of some family and
// length. A block says how long it is; an operand fits into the longest.
func readable(value []byte) bool {
	for _, fam := range families {
		for _, lines := range lengths(value) {
			if _, err := block.Decode(blank(lines), fam, value); err == nil {
				return true
			}
		}
	}
	return false
}

// Patching a block gives the same as merging and decoding. If that is an error, the block does not change.
func FuzzPatch(f *testing.F) {
	for _, v := range fuzzValues(f) {
		f.Add([]byte("\x01\x02\x03\x04\x05\x06\x07\x08"), v)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{3, 100} {
		layout, blk, hashes := randomItems(random, 3, n)
		f.Add([]byte{0, 1}, block.AppendItemsOperand(nil, layout, blk, hashes))
	}
	f.Fuzz(func(t *testing.T, pattern, value []byte) {
		for _, fam := range families {
			for _, lines := range lengths(value) {
				before := patterned(lines, pattern)
				words := slices.Clone(before)
				err := block.Patch(words, fam, value)
				want := blank(lines)
				_, mergeErr := block.Decode(want, fam, merged(block.AppendBlock(nil, fam, before), value))
				if (err == nil) != (mergeErr == nil) {
					t.Fatalf("%d lines of %v: Patch: %v, merge: %v", lines, fam, err, mergeErr)
				}
				if err != nil {
					want = before
				}
				if d := diff(words, want); d != "" {
					t.Fatalf("%d lines of %v, %v: %s", lines, fam, err, d)
				}
			}
		}
	})
}

// patterned returns a block that repeats the pattern.
func patterned(lines int, pattern []byte) []uint64 {
	words := blank(lines)
	if len(pattern) == 0 {
		return words
	}
	bytes := bytes.Repeat(pattern, len(words)*8/len(pattern)+1)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(bytes[8*i:])
	}
	return words
}
