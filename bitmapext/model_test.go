package bitmapext_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bitmapext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
)

func options(fs vfs.FS) *kv.Options {
	return &kv.Options{FS: fs, Durability: kv.NoSync, Modules: coreext.With(), BallastSize: -1, MinFreeSpace: -1, CacheSize: 4 << 20}
}

func open(t *testing.T, fs vfs.FS) *kv.DB {
	t.Helper()
	db, err := kv.Open("bitmaps", options(fs))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// model is what the keys hold, as plain bytes.
type model map[string][]byte

func (m model) clone() model {
	c := make(model, len(m))
	for key, value := range m {
		c[key] = value // values are replaced, never changed
	}
	return c
}

func (m model) setRange(key string, offset int, part []byte) {
	if len(part) > 0 {
		value := make([]byte, max(len(m[key]), offset+len(part)))
		copy(value, m[key])
		copy(value[offset:], part)
		m[key] = value
	}
}

func bitAt(value []byte, n int) bool {
	return n/8 < len(value) && value[n/8]>>(7-n%8)&1 != 0
}

func (m model) combine(op bitmapext.Op, keys ...string) []byte {
	n, values := 0, make([][]byte, len(keys))
	for i, key := range keys {
		values[i] = m[key]
		n = max(n, len(m[key]))
	}
	out := make([]byte, n)
	for i := range out {
		at := func(value []byte) byte {
			if i < len(value) {
				return value[i]
			}
			return 0
		}
		first, others, seen, twice := at(values[0]), byte(0), at(values[0]), byte(0)
		b := first
		for _, value := range values[1:] {
			other := at(value)
			others |= other
			twice |= seen & other
			seen |= other
			switch op {
			case bitmapext.And:
				b &= other
			case bitmapext.Or:
				b |= other
			case bitmapext.Xor:
				b ^= other
			}
		}
		switch op {
		case bitmapext.Not:
			b = ^first
		case bitmapext.Diff:
			b = first &^ others
		case bitmapext.Diff1:
			b = others &^ first
		case bitmapext.AndOr:
			b = first & others
		case bitmapext.One:
			b = seen &^ twice
		}
		out[i] = b
	}
	return out
}

// modelTest makes random changes of a few keys and compares what the store has with the model.
type modelTest struct {
	*testing.T
	random *rand.Rand
	db     *kv.DB
	m      model
}

var modelKeys = []string{"a", "b", "c"}

func (t *modelTest) key() string { return modelKeys[t.random.IntN(len(modelKeys))] }

// offset is often at the end of what stays in a header, of a block, or of a layer.
func (t *modelTest) offset() int {
	switch edge := []int{bitmapext.MaxInline, 8192, 64 << 10, 512 << 10}[t.random.IntN(4)]; t.random.IntN(6) {
	case 0:
		return t.random.IntN(700_000)
	case 1, 2:
		return edge - 3 + t.random.IntN(6)
	}
	return t.random.IntN(1200)
}

func (t *modelTest) bytes() []byte {
	n := t.random.IntN(20)
	switch t.random.IntN(40) {
	case 0:
		n = 64<<10 - 2 + t.random.IntN(4)
	case 1:
		n = 100_000
	case 2, 3:
		n = t.random.IntN(3000)
	}
	b := make([]byte, n)
	if t.random.IntN(4) > 0 {
		for i := range b {
			b[i] = byte(t.random.Uint32())
		}
	}
	return b
}

// change makes one change by a writer, and in the model.
func (t *modelTest) change(w *kv.Writer, m model) error {
	ctx := context.Background()
	key := t.key()
	switch t.random.IntN(20) {
	default:
		n, on := 8*t.offset()+t.random.IntN(8), t.random.IntN(4) > 0
		was, err := bitmapext.SetBit(ctx, w, []byte(key), uint64(n), on)
		if want := bitAt(m[key], n); err == nil && was != want {
			t.Fatalf("bit %d was %v, want %v", n, was, want)
		}
		b := byte(0)
		if n/8 < len(m[key]) {
			b = m[key][n/8]
		}
		b &^= 0x80 >> (n % 8)
		if on {
			b |= 0x80 >> (n % 8)
		}
		m.setRange(key, n/8, []byte{b})
		return err
	case 0, 1, 2:
		offset, part := t.offset(), t.bytes()
		n, err := bitmapext.SetRange(ctx, w, []byte(key), uint64(offset), part)
		m.setRange(key, offset, part)
		if err == nil && n != uint64(len(m[key])) {
			t.Fatalf("length %d, want %d", n, len(m[key]))
		}
		return err
	case 3, 4:
		part := t.bytes()
		if _, there := m[key]; !there {
			m[key] = []byte{}
		}
		m.setRange(key, len(m[key]), part)
		n, err := bitmapext.Append(ctx, w, []byte(key), part)
		if err == nil && n != uint64(len(m[key])) {
			t.Fatalf("length %d, want %d", n, len(m[key]))
		}
		return err
	case 5:
		m[key] = t.bytes()
		_, err := w.Set([]byte(key), m[key], kv.SetOptions{})
		return err
	case 6:
		delete(m, key)
		_, err := w.Delete([]byte(key))
		return err
	case 7:
		to := t.key()
		if value, there := m[key]; there {
			m[to] = value
		}
		_, err := w.Copy(ctx, []byte(key), []byte(to), true)
		return err
	case 8:
		to := t.key()
		value, there := m[key]
		if !there {
			return nil
		}
		delete(m, key)
		m[to] = value
		return w.Rename([]byte(key), []byte(to))
	case 9, 10:
		op := bitmapext.Op(t.random.IntN(8))
		keys := []string{t.key()}
		if op != bitmapext.Not {
			keys = append(keys, t.key(), t.key())
		}
		n, err := bitmapext.Store(ctx, w, op, []byte(key), inBytes(keys)...)
		if m[key] = m.combine(op, keys...); len(m[key]) == 0 {
			delete(m, key)
		}
		if err == nil && n != uint64(len(m[key])) {
			t.Fatalf("%v: length %d, want %d", op, n, len(m[key]))
		}
		return err
	case 11:
		set := roaring.New()
		delete(m, key)
		for range t.random.IntN(5) {
			n := uint32(8 * t.offset())
			set.Add(n)
			if !bitAt(m[key], int(n)) {
				m.setRange(key, int(n/8), []byte{0x80})
			}
		}
		return bitmapext.StoreRoaring(ctx, w, []byte(key), set)
	}
}

func inBytes(keys []string) [][]byte {
	list := make([][]byte, len(keys))
	for i, key := range keys {
		list[i] = []byte(key)
	}
	return list
}

// want compares all that can be read with the model. An error can mean that Read is to repeat the lookup.
func (t *modelTest) want(r kv.Reader, m model) error {
	for _, key := range modelKeys {
		value := m[key]
		got, err := r.Get([]byte(key))
		if _, there := m[key]; err != nil || !bytes.Equal(got, value) || (got != nil) != there {
			return fmt.Errorf("%s: %d bytes (%v), want %d: %w", key, len(got), got != nil, len(value), err)
		}
		if err := bitmapext.Look(r, []byte(key), func(s *bitmapext.String) error { return t.questions(s, value) }); err != nil {
			return err
		}
	}
	op, keys := bitmapext.Op(t.random.IntN(8)), []string{t.key()}
	if op != bitmapext.Not {
		keys = append(keys, t.key(), t.key())
	}
	want := m.combine(op, keys...)
	n, err := bitmapext.CountOf(t.Context(), r, op, inBytes(keys)...)
	if w := countIn(want, 0, 8*len(want)); err != nil || n != uint64(w) {
		return fmt.Errorf("%v %v: %d bits, want %d: %w", op, keys, n, w, err)
	}
	set, err := bitmapext.Roaring(t.Context(), r, op, inBytes(keys)...)
	if err != nil {
		return err
	}
	if set.GetCardinality() != n {
		return fmt.Errorf("%v %v: a set of %d, want %d", op, keys, set.GetCardinality(), n)
	}
	set.Iterate(func(x uint32) bool {
		if !bitAt(want, int(x)) {
			err = fmt.Errorf("%v %v: %d is in the set", op, keys, x)
		}
		return err == nil
	})
	return err
}

func countIn(value []byte, from, end int) (n int) {
	for i := from; i < min(end, 8*len(value)); {
		if i%8 == 0 && i+8 <= end {
			n += bits.OnesCount8(value[i/8])
			i += 8
			continue
		}
		if bitAt(value, i) {
			n++
		}
		i++
	}
	return n
}

// questions asks for random parts of a string.
func (t *modelTest) questions(s *bitmapext.String, value []byte) error {
	if s.Len() != uint64(len(value)) {
		return fmt.Errorf("length %d, want %d", s.Len(), len(value))
	}
	for range 2 {
		from := 8*t.offset() + t.random.IntN(8)
		end := from + t.random.IntN(1000)
		if t.random.IntN(6) == 0 {
			end = from + t.random.IntN(1<<21)
		}
		if on, err := s.Bit(uint64(from)); err != nil || on != bitAt(value, from) {
			return fmt.Errorf("bit %d is %v: %w", from, on, err)
		}
		n, err := s.Count(uint64(from), uint64(end))
		if want := countIn(value, from, end); err != nil || n != uint64(want) {
			return fmt.Errorf("%d bits from %d to %d, want %d: %w", n, from, end, want, err)
		}
		for _, on := range []bool{false, true} {
			at, found, err := s.Find(on, uint64(from), uint64(end))
			want := from
			for want < end && bitAt(value, want) != on {
				want++
			}
			if err != nil || found != (want < end) || found && at != uint64(want) {
				return fmt.Errorf("first %v from %d to %d: %d %v, want %d: %w", on, from, end, at, found, want, err)
			}
		}
		streak, want := uint64(0), uint64(0)
		for i := from; i >= 0 && bitAt(value, i); i-- {
			want++
		}
		if streak, err = s.Streak(uint64(from)); err != nil || streak != want {
			return fmt.Errorf("streak up to %d: %d, want %d: %w", from, streak, want, err)
		}
		lo, hi := min(from/8, len(value)), min(end/8, len(value))
		part, err := s.Range(uint64(lo), uint64(hi))
		if err != nil || !bytes.Equal(part, value[lo:hi]) {
			return fmt.Errorf("bytes %d to %d differ: %w", lo, hi, err)
		}
	}
	return nil
}

var errUndone = errors.New("undone on purpose")

// Random changes, in commits of their own and in transactions, some of which are undone, give what plain bytes give.
func TestModel(t *testing.T) {
	rounds := 6
	if raceEnabled {
		rounds = 1
	}
	for seed := range uint64(rounds) {
		fs := vfs.NewMem()
		x := &modelTest{T: t, random: rand.New(rand.NewPCG(seed, 1)), db: open(t, fs), m: make(model)}
		for range 40 {
			x.step()
		}
		report, err := x.db.Check(t.Context())
		if err != nil || len(report.Problems) > 0 {
			t.Fatal(err, report.Problems)
		}
		if err := x.db.Close(); err != nil {
			t.Fatal(err)
		}
		x.db = open(t, fs)
		if err := x.db.Read(func(r kv.Reader) error { return x.want(r, x.m) }); err != nil {
			t.Fatal(err)
		}
	}
}

func (t *modelTest) step() {
	t.Helper()
	switch t.random.IntN(4) {
	case 0:
		before := t.m.clone()
		err := t.db.Update(t.Context(), kv.NoSync, func(tx *kv.Transaction) error {
			after := t.m.clone()
			for range 1 + t.random.IntN(5) {
				saved := after.clone()
				err := tx.Write(func(w *kv.Writer) error {
					if err := t.change(w, after); err != nil {
						return err
					}
					if t.random.IntN(4) == 0 {
						return errUndone
					}
					return nil
				})
				if errors.Is(err, errUndone) {
					after = saved
				} else if err != nil {
					return err
				}
				if err := tx.Read(func(r kv.Reader) error { return t.want(r, after) }); err != nil {
					return err
				}
			}
			if t.random.IntN(3) == 0 {
				return errUndone
			}
			t.m = after
			return nil
		})
		if errors.Is(err, errUndone) {
			t.m = before
		} else if err != nil {
			t.Fatal(err)
		}
	case 1:
		before := t.m.clone()
		err := t.db.View(t.Context(), func(tx *kv.Transaction) error {
			t.commit()
			return tx.Read(func(r kv.Reader) error { return t.want(r, before) })
		})
		if err != nil {
			t.Fatal(err)
		}
	default:
		t.commit()
	}
	err := t.db.Read(func(r kv.Reader) error { return t.want(r, t.m) })
	if err == nil && t.random.IntN(10) == 0 {
		err = t.db.Compact(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// commit makes a change in a commit of its own.
func (t *modelTest) commit() {
	after := t.m.clone()
	if err := t.db.Write(kv.NoSync, inBytes(modelKeys), func(w *kv.Writer) error { return t.change(w, after) }); err != nil {
		t.Fatal(err)
	}
	t.m = after
}
