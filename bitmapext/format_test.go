package bitmapext_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bitmapext"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/kv"
)

// stored returns what is stored of a string in blocks, except its blocks.
func stored(t *testing.T, db *kv.DB, key string) string {
	t.Helper()
	var b strings.Builder
	err := db.Read(func(r kv.Reader) error {
		_, o, err := r.String([]byte(key))
		if err != nil || o == nil {
			return fmt.Errorf("in blocks: %v, %w", o != nil, err)
		}
		fmt.Fprintf(&b, "%s %v %x expiry %d", o.TypeName(), o.Family(), o.Params(), o.Expiry())
		for _, l := range o.Layers() {
			s := l.Spec()
			fmt.Fprintf(&b, "; layer %d layout %v lines %d blocks %d params %x counters", s.Number, s.Layout, s.Lines, s.Blocks, s.Params)
			for i := range 8 {
				fmt.Fprintf(&b, " %x", l.Counter(i))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What is stored. Changing it changes the format.
func TestFormat_golden(t *testing.T) {
	db := open(t, vfs.NewMem())
	const (
		first = "string 8-bit slots 01 expiry 0; layer 0 layout 0 lines 128 blocks 1 params  counters "
		none  = " 0 0 0 0 0 0 0"
		layer = "; layer 1 layout 0 lines 128 blocks 63 params  counters 0" + none
		last  = "; layer 2 layout 0 lines 128 blocks 65473 params  counters "
	)
	block := uint64(8 * 8192)
	for _, tt := range []struct {
		bits []uint64
		want string
	}{
		{[]uint64{8 * 1024}, first + "401" + none},
		{[]uint64{block - 1}, first + "2000" + none},
		{[]uint64{block}, first + "2001" + none + layer},
		{[]uint64{64*block - 1}, first + "80000" + none + layer},
		{[]uint64{64 * block}, first + "80001" + none + layer + last + "1" + none},
		{[]uint64{(64+128)*block - 1}, first + "180000" + none + layer + last + "1" + none},
		{[]uint64{(64 + 128) * block}, first + "180001" + none + layer + last + "2" + none},
		{[]uint64{64 * block, (64 + 128) * block}, first + "180001" + none + layer + last + "3" + none},
		{[]uint64{(64 + 128*64) * block, (64 + 128*63) * block}, first + "4080001" + none + layer + last + "8000000000000000 1 0 0 0 0 0 0"},
		{[]uint64{bitmapext.MaxBit}, first + "20000000" + none + layer + last + "0 0 0 0 0 0 0 8000000000000000"},
	} {
		setBits(t, db, "k", true, tt.bits...)
		if got := stored(t, db, "k"); got != tt.want {
			t.Errorf("bits %v:\n got %s\nwant %s", tt.bits, got, tt.want)
		}
		if _, err := db.Delete(kv.NoSync, []byte("k")); err != nil {
			t.Fatal(err)
		}
	}
}

// The bits of a byte, and where it is in its block.
func TestFormat_blocks(t *testing.T) {
	db := open(t, vfs.NewMem())
	setBits(t, db, "k", true, 0, 15, 8*8192+8*9+3)
	err := db.Read(func(r kv.Reader) error {
		_, o, err := r.String([]byte("k"))
		if err != nil {
			return err
		}
		for i, want := range []struct {
			word int
			is   uint64
		}{{0, 0x0180}, {1, 0x1000}} {
			first, err := r.Load(o, o.Layers()[i], 0)
			if err != nil {
				return err
			}
			if got := o.Layers()[i].Words(first)[want.word]; got != want.is {
				t.Errorf("layer %d has %x in word %d, want %x", i, got, want.word, want.is)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The check finds what no command writes.
func TestVerify(t *testing.T) {
	far := uint64(100 * 8 * 8192) // in layer 2
	for _, tt := range []struct {
		what, want string
		harm       func(w *kv.Writer, o *kv.Object) error
	}{
		{"nothing", "", func(*kv.Writer, *kv.Object) error { return nil }},
		{"a length in the last byte's place", "length 819200, 819201 up to", func(w *kv.Writer, o *kv.Object) error {
			w.SetCounter(o.Layers()[0], 0, far/8)
			return nil
		}},
		{"a length that fits into the header", "length 1024,", func(w *kv.Writer, o *kv.Object) error {
			w.SetCounter(o.Layers()[0], 0, 1024)
			return w.SetSlots(o, o.Layers()[2], 36, []block.Slot{{Index: 0, Value: 0}})
		}},
		{"a length beyond all blocks", "length 536879105,", func(w *kv.Writer, o *kv.Object) error {
			w.SetCounter(o.Layers()[0], 0, 65537*8192+1)
			return nil
		}},
		{"no mark", "no mark says so", func(w *kv.Writer, o *kv.Object) error {
			w.SetCounter(o.Layers()[2], 0, 0)
			return nil
		}},
		{"the mark of other blocks", "block 228 has set bits, but no mark says so", func(w *kv.Writer, o *kv.Object) error {
			w.SetCounter(o.Layers()[0], 0, 2_000_000)
			return w.SetSlots(o, o.Layers()[2], 164, []block.Slot{{Index: 9, Value: 1}})
		}},
		{"a byte behind the end", "length 819201, 827393 up to", func(w *kv.Writer, o *kv.Object) error {
			return w.SetSlots(o, o.Layers()[2], 37, []block.Slot{{Index: 0, Value: 0x80}})
		}},
		{"a byte behind the end in the last word", "length 819201, 819202 up to", func(w *kv.Writer, o *kv.Object) error {
			return w.SetSlots(o, o.Layers()[2], 36, []block.Slot{{Index: 1, Value: 1}})
		}},
		{"bytes of zeros behind the end", "", func(w *kv.Writer, o *kv.Object) error {
			return w.SetSlots(o, o.Layers()[2], 36, []block.Slot{{Index: 1, Value: 1}, {Index: 1, Value: 0}})
		}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			db := open(t, vfs.NewMem())
			setBits(t, db, "k", true, far)
			err := db.Write(kv.NoSync, [][]byte{[]byte("k")}, func(w *kv.Writer) error {
				o, err := w.Object([]byte("k"))
				if err != nil {
					return err
				}
				return tt.harm(w, o)
			})
			if err != nil {
				t.Fatal(err)
			}
			report, err := db.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprint(report.Problems)
			if tt.want == "" && len(report.Problems) > 0 || !strings.Contains(got, tt.want) {
				t.Errorf("Check finds %v, want %q", got, tt.want)
			}
			if tt.want != "" && (len(report.Problems) != 1 || !errors.Is(report.Problems[0], kv.ErrCorrupt)) {
				t.Errorf("Check finds %v, want one corruption", got)
			}
		})
	}
}

// Headers that this version does not write are refused, and do not harm.
func TestOpen_refused(t *testing.T) {
	layer := func(i, blocks uint64) kv.LayerSpec {
		return kv.LayerSpec{Number: i, Layout: format.LayoutNative, Blocks: blocks, Lines: block.MaxLines}
	}
	good := kv.Spec{Type: bitmapext.Type(), Family: block.FamilySlots8, Params: []byte{1}, Layers: []kv.LayerSpec{layer(0, 1), layer(1, 63)}}
	for what, change := range map[string]func(s *kv.Spec) error{
		"":                  func(*kv.Spec) error { return nil },
		"a newer encoding":  func(s *kv.Spec) error { s.Params = []byte{2}; return kv.ErrUnsupportedVersion },
		"no encoding":       func(s *kv.Spec) error { s.Params = nil; return kv.ErrUnsupportedVersion },
		"longer parameters": func(s *kv.Spec) error { s.Params = []byte{1, 0}; return kv.ErrUnsupportedVersion },
		"another family":    func(s *kv.Spec) error { s.Family = block.FamilyBits; return kv.ErrCorrupt },
		"no layer":          func(s *kv.Spec) error { s.Layers = nil; return kv.ErrCorrupt },
		"a layer too many": func(s *kv.Spec) error {
			s.Layers = append(s.Layers, layer(2, 65473), layer(3, 1))
			return kv.ErrCorrupt
		},
		"another length":     func(s *kv.Spec) error { s.Layers[1].Blocks = 64; return kv.ErrCorrupt },
		"shorter blocks":     func(s *kv.Spec) error { s.Layers[0].Lines = 64; return kv.ErrCorrupt },
		"another number":     func(s *kv.Spec) error { s.Layers[1].Number = 2; return kv.ErrCorrupt },
		"a layer's settings": func(s *kv.Spec) error { s.Layers[0].Params = []byte{1}; return kv.ErrCorrupt },
	} {
		t.Run(what, func(t *testing.T) {
			db := open(t, vfs.NewMem())
			s := good
			s.Layers = append([]kv.LayerSpec{}, good.Layers...)
			want := change(&s)
			err := db.Write(kv.NoSync, [][]byte{[]byte("k")}, func(w *kv.Writer) error {
				_, err := w.Create([]byte("k"), s)
				return err
			})
			if !errors.Is(err, want) {
				t.Errorf("Create = %v, want %v", err, want)
			}
		})
	}
}

// A store opened without the module returns ErrNoModule for a string in blocks, and has all other strings.
func TestModule_missing(t *testing.T) {
	fs := vfs.NewMem()
	db := open(t, fs)
	setBits(t, db, "long", true, 100_000)
	if _, err := db.Set(kv.NoSync, []byte("short"), []byte("x"), kv.SetOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	o := options(fs)
	o.Modules = nil
	db, err := kv.Open("bitmaps", o)
	if err != nil {
		t.Fatal(err)
	}
	long, short := []byte("long"), []byte("short")
	if _, err := db.Get(long); !errors.Is(err, kv.ErrNoModule) {
		t.Errorf("Get = %v", err)
	}
	if _, err := db.MGet(short, long); !errors.Is(err, kv.ErrNoModule) {
		t.Errorf("MGet = %v", err)
	}
	if values, err := db.MGet(short, []byte("missing")); err != nil || string(values[0]) != "x" || values[1] != nil {
		t.Errorf("MGet = %q, %v", values, err)
	}
	if _, err := db.Incr(kv.NoSync, long, 1); !errors.Is(err, kv.ErrNoModule) {
		t.Errorf("Incr = %v", err)
	}
	report, err := db.Check(t.Context())
	if err != nil || len(report.Problems) > 0 {
		t.Error(err, report.Problems)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, fs)
	if n, err := db.Get(long); err != nil || len(n) != 12501 {
		t.Errorf("%d bytes, %v", len(n), err)
	}
}

// A bitmap that was salvaged without its newest counters may have a block that no mark tells of. That is no damage then.
func TestFormat_lossy(t *testing.T) {
	for _, lossy := range []bool{false, true} {
		db := open(t, vfs.NewMem())
		setBits(t, db, "k", true, 64*8*8192)
		err := db.Write(kv.NoSync, [][]byte{[]byte("k"), []byte("copy")}, func(w *kv.Writer) error {
			o, err := w.Object([]byte("k"))
			if err != nil {
				return err
			}
			h := o.Header()
			s := kv.Spec{Type: bitmapext.Type(), Family: h.Family, Layers: h.Layers, Params: h.Params, Lossy: lossy}
			_, err = w.Build(t.Context(), []byte("copy"), s, func(b *kv.Builder) error {
				layers := b.Object().Layers()
				w.SetCounter(layers[0], 0, w.Counter(o.Layers()[0], 0))
				words := make([]uint64, block.MaxWords)
				words[0] = 1
				return b.Put(layers[2], 0, words)
			})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		report, err := db.Check(t.Context())
		if err != nil || (len(report.Problems) == 0) != lossy {
			t.Errorf("lossy %t: %v, %v", lossy, report.Problems, err)
		}
	}
}
