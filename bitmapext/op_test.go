package bitmapext_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bitmapext"
	"github.com/sievekv/sievekv/kv"
)

// storeTest combines bitmaps of all forms, and compares the results with the model.
type storeTest struct {
	*modelTest
	keys []string
}

// fill sets what is under a key: nothing, a string in its header, or one in blocks, with few or many bits set. The set
// bits of different keys are often in the same lines.
func (t *storeTest) fill(key string, blocks bool) {
	lengths := []int{0, 1, 700, bitmapext.MaxInline, bitmapext.MaxInline + 1, 8191, 8192, 8193, 3 * 8192, 30_001, 64*8192 + 5}
	b := make([]byte, lengths[t.random.IntN(len(lengths))])
	switch t.random.IntN(3) {
	case 0: // every line
		for i := range b {
			b[i] = byte(t.random.Uint32())
		}
	case 1: // a few lines
		for range len(b) / 500 {
			b[(t.random.IntN(len(b))&^0x7ff+t.random.IntN(64))%len(b)] = byte(t.random.Uint32())
		}
	default: // the last byte
		for range min(1, len(b)) {
			b[len(b)-1] = 1 << t.random.IntN(8)
		}
	}
	t.m[key] = b
	t.write(func(w *kv.Writer) error {
		if len(b) == 0 {
			_, err := w.Delete([]byte(key))
			return err
		}
		_, err := w.Set([]byte(key), b, kv.SetOptions{})
		if err != nil || !blocks {
			return err
		}
		_, err = bitmapext.Store(t.Context(), w, bitmapext.Or, []byte(key), []byte(key))
		return err
	})
}

func (t *storeTest) write(change func(*kv.Writer) error) {
	t.Helper()
	if err := t.db.Write(kv.NoSync, inBytes(t.keys), change); err != nil {
		t.Fatal(err)
	}
}

// setBit stages a change of a bit, often in a line that other bitmaps have bits in.
func (t *storeTest) setBit(w *kv.Writer) error {
	key := t.keys[t.random.IntN(len(t.keys))]
	n := t.random.IntN(8*len(t.m[key]) + 1)
	if t.random.IntN(2) == 0 {
		n = n&^0x3fff + t.random.IntN(512)
	}
	on := t.random.IntN(2) == 0
	part := []byte{0}
	if n/8 < len(t.m[key]) {
		part[0] = t.m[key][n/8]
	}
	if part[0] &^= 0x80 >> (n % 8); on {
		part[0] |= 0x80 >> (n % 8)
	}
	t.m.setRange(key, n/8, part)
	_, err := bitmapext.SetBit(t.Context(), w, []byte(key), uint64(n), on)
	return err
}

// Every operation of up to eleven bitmaps makes what it makes of plain bytes, also where the result is one of the
// bitmaps, and where bits have changed before, in the same commit or in another.
func TestStore(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := &storeTest{modelTest: &modelTest{T: t, random: rand.New(rand.NewPCG(seed, 0)), db: open(t, vfs.NewMem()), m: model{}}}
			for i := range 12 {
				s.keys = append(s.keys, fmt.Sprint("k", i))
				s.fill(s.keys[i], i < 9)
			}
			for step := range 120 {
				op := bitmapext.And
				if s.random.IntN(3) > 0 {
					op = bitmapext.Op(s.random.IntN(int(bitmapext.One) + 1))
				}
				n := 2 + s.random.IntN(10)
				if op == bitmapext.Not {
					n = 1
				}
				dst, sources := s.keys[11], make([]string, n)
				for i := range sources {
					sources[i] = s.keys[s.random.IntN(11)]
				}
				if s.random.IntN(10) == 0 {
					dst = sources[s.random.IntN(n)]
				}
				if s.random.IntN(10) == 0 {
					s.fill(s.keys[s.random.IntN(11)], s.random.IntN(4) > 0)
				}
				s.write(s.setBit)
				staged := s.random.IntN(2)
				var want []byte
				s.write(func(w *kv.Writer) error {
					for range staged {
						if err := s.setBit(w); err != nil {
							return err
						}
					}
					want = s.m.combine(op, sources...)
					s.m[dst] = want
					length, err := bitmapext.Store(t.Context(), w, op, []byte(dst), inBytes(sources)...)
					if err == nil && length != uint64(len(want)) {
						t.Errorf("step %d: %v of %q is %d bytes long, want %d", step, op, sources, length, len(want))
					}
					return err
				})
				got, err := s.db.Get([]byte(dst))
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("step %d: %v of %q: %d bytes, %d of them as wanted at the beginning, want %d, %v",
						step, op, sources, len(got), same(got, want), len(want), err)
				}
				if step%10 == 0 {
					s.wantCount(op, sources)
				}
			}
		})
	}
}

// same returns how many bytes two values have in common at their beginning.
func same(a, b []byte) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// wantCount compares how many bits a combination has set.
func (t *storeTest) wantCount(op bitmapext.Op, sources []string) {
	t.Helper()
	ones := 0
	for _, b := range t.m.combine(op, sources...) {
		for ; b != 0; b &= b - 1 {
			ones++
		}
	}
	err := t.db.ReadWith(kv.ReadOptions{Long: true}, func(r kv.Reader) error {
		n, err := bitmapext.CountOf(t.Context(), r, op, inBytes(sources)...)
		if err == nil && n != uint64(ones) {
			t.Errorf("%v of %q has %d bits, want %d", op, sources, n, ones)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// BITOP AND knows in which lines of a block bits are set once it has read the block, until the block is changed.
func TestStore_lines(t *testing.T) {
	db := open(t, vfs.NewMem())
	for _, n := range []uint64{3, 700, 900, 1200, far + 5} {
		setBits(t, db, "a", true, n)
		setBits(t, db, "b", true, n)
	}
	keys := inBytes([]string{"a", "b", "c"})
	want := func(a, b, bits int) {
		t.Helper()
		err := db.Write(kv.NoSync, keys, func(w *kv.Writer) error {
			if _, err := bitmapext.Store(t.Context(), w, bitmapext.And, keys[2], keys[0], keys[1]); err != nil {
				return err
			}
			for i, want := range []int{a, b} {
				s, err := bitmapext.Staged(w, keys[i])
				if err != nil {
					return err
				}
				if n := bitmapext.KnownLines(s, 0); n != want {
					t.Errorf("%s has %d lines with set bits, want %d", keys[i], n, want)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		err = db.ReadWith(kv.ReadOptions{Long: true}, func(r kv.Reader) error {
			n, err := bitmapext.CountOf(t.Context(), r, bitmapext.Or, keys[2])
			if n != uint64(bits) {
				t.Errorf("the result has %d bits, want %d", n, bits)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	want(3, 3, 5)
	want(3, 3, 5)
	setBits(t, db, "a", true, 60_000)
	want(4, 3, 5)
	setBits(t, db, "b", true, 60_000)
	setBits(t, db, "b", false, 3)
	want(4, 3, 5)
	setBits(t, db, "a", false, 3, 700, 900, 1200, 60_000, far+5)
	setBits(t, db, "b", true, 3)
	want(0, -1, 0) // the result is known without b
}

// BITOP AND sees bits that its writer has set in lines that had none, and does not remember them: the writer may be given
// up.
func TestStore_staged(t *testing.T) {
	db := open(t, vfs.NewMem())
	keys := inBytes([]string{"a", "b", "c"})
	for _, key := range []string{"a", "b"} {
		setBits(t, db, key, true, 3, 60_000)
		setBits(t, db, key, false, 60_000)
	}
	errGivenUp := errors.New("given up")
	for _, staged := range []bool{false, true, false} {
		want := uint64(1)
		err := db.Write(kv.NoSync, keys, func(w *kv.Writer) error {
			for i := 0; staged && i < 2; i++ {
				if _, err := bitmapext.SetBit(t.Context(), w, keys[i], 700, true); err != nil {
					return err
				}
				want = 2
			}
			if _, err := bitmapext.Store(t.Context(), w, bitmapext.And, keys[2], keys[0], keys[1]); err != nil {
				return err
			}
			s, err := bitmapext.Staged(w, keys[2])
			if err != nil {
				return err
			}
			if n, err := s.Count(0, s.Len()); err != nil || n != want {
				t.Errorf("staged %v: %d bits, %v, want %d", staged, n, err, want)
			}
			if staged {
				return errGivenUp
			}
			if s, err = bitmapext.Staged(w, keys[0]); err == nil && bitmapext.KnownLines(s, 0) != 1 {
				t.Errorf("%d lines are known to have set bits, want 1", bitmapext.KnownLines(s, 0))
			}
			return err
		})
		if err != nil && !errors.Is(err, errGivenUp) {
			t.Fatal(err)
		}
	}
}
