package portable_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/bitmapext"
	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/portable"
)

func goldenFile(t *testing.T, name string) []byte {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("testdata", name+".svkf"))
	must(t, err)
	return file
}

// What is wrong with a file is said, with the place.
func TestDescribe_damaged(t *testing.T) {
	bloom, text := goldenFile(t, "bloom-grown"), goldenFile(t, "string")
	cut := bloom[:len(bloom)-3]
	db := open(t, 1)
	must(t, db.Bloom("k").Reserve(sievekv.Capacity(10, 0.1), nil))
	empty := export(t, db, "k")
	for name, tt := range map[string]struct {
		file []byte
		want string
	}{
		"gzip":          {[]byte("\x1f\x8b\x08\x00"), "at byte 0: it is compressed by gzip: give what gzip -dc makes of it"},
		"half of gzip":  {[]byte("\x1f"), "at byte 0: it does not begin as a file of a filter, bitmap or string does"},
		"other bytes":   {[]byte("a\x8b\x08\x00"), "at byte 0: it does not begin as a file of a filter, bitmap or string does"},
		"almost gzip":   {[]byte("\x1fa"), "at byte 0: it does not begin as a file of a filter, bitmap or string does"},
		"nothing":       {nil, "at byte 0: the file ends here"},
		"a part":        {bloom[:5], "at byte 5: the file ends here"},
		"cut":           {cut, fmt.Sprintf("at byte %d: the file ends here", len(cut))},
		"half a number": {forgedFile(bloom, func(c [][]byte) [][]byte { c[1] = []byte{2, 0xff}; return c }), "block cut short"},
		"half a block":  {forgedFile(bloom, func(c [][]byte) [][]byte { c[1] = c[1][:len(c[1])-1]; return c }), "block cut short"},
		"half the counters": {
			forgedFile(bloom, func(c [][]byte) [][]byte { c[0] = c[0][:len(c[0])-1]; return c }), "header of ",
		},
		"no counters": {
			forgedFile(empty, func(c [][]byte) [][]byte { c[0] = c[0][:len(c[0])-1]; return c }), "header of ",
		},
		"bytes of a string": {
			forgedFile(bloom, func(c [][]byte) [][]byte { c[2][1]++; return [][]byte{c[0], c[1], {3, 1}, c[2]} }), "chunk of kind 3 and 1 bytes",
		},
		"no bytes of a string": {
			forgedFile(text, func(c [][]byte) [][]byte { return [][]byte{c[0], {3}, c[1], c[2]} }), "chunk of kind 3 and 0 bytes",
		},
	} {
		info, err := portable.Describe(t.Context(), bytes.NewReader(tt.file))
		if !errors.Is(err, portable.ErrDamaged) || !strings.Contains(err.Error(), tt.want) || info.Whole {
			t.Errorf("%s: %v, want %q; %+v", name, err, tt.want, info)
		}
	}
}

// Only a string without layers is in one piece.
func TestDescribe_onePiece(t *testing.T) {
	file := goldenFile(t, "string")
	for name, change := range map[string]func(h *format.Header){
		"another type":     func(h *format.Header) { h.TypeName, h.Module = "MBbloom--", "bf" },
		"another encoding": func(h *format.Header) { h.Params = []byte{format.EncodingBytes + 1} },
		"no encoding":      func(h *format.Header) { h.Params = nil },
		"a layer": func(h *format.Header) {
			h.Family, h.Layers = block.FamilyBits, []format.LayerSpec{{Blocks: 1, Lines: 1}}
		},
	} {
		h, counters, err := portable.HeaderOf(file)
		must(t, err)
		change(h)
		counters = append(counters, make([][format.NumCounters]uint64, len(h.Layers))...)
		if info, err := portable.Describe(t.Context(), bytes.NewReader(portable.WithHeader(file, h, counters))); !errors.Is(err, portable.ErrDamaged) {
			t.Errorf("%s: %v, %+v", name, err, info)
		}
	}
}

// A string in one piece is not longer than one in blocks can be, whatever the length of its file.
func TestDescribe_longString(t *testing.T) {
	_, err := portable.Describe(t.Context(), &portable.LongString{Len: bitmapext.MaxLen + 1})
	if !errors.Is(err, portable.ErrDamaged) || !strings.Contains(err.Error(), fmt.Sprintf("string of more than %d bytes", bitmapext.MaxLen)) {
		t.Errorf("%v", err)
	}
}

// A chunk has room for the layers of a file's header, or there is no file.
func TestExport_header(t *testing.T) {
	h := &format.Header{TypeName: "a", Module: "b", ID: 1}
	for n, want := range map[int]error{5_000: nil, 20_000: kv.ErrTooLarge} {
		h.Layers = nil
		for i := range n {
			h.Layers = append(h.Layers, format.LayerSpec{Number: uint64(i), Blocks: 1, Lines: 1})
		}
		if err := portable.BeginFile(io.Discard, h); !errors.Is(err, want) {
			t.Errorf("%d layers: %v, want %v", n, err, want)
		}
	}
}

// A lossy file may lack what its counters count: that is a note. Any other is damaged then.
func TestDescribe_lossy(t *testing.T) {
	whole := goldenFile(t, "bloom")
	without := func(file []byte) []byte {
		return forgedFile(file, func(c [][]byte) [][]byte { return [][]byte{c[0], {4, 0}} })
	}
	marked := bytes.Clone(whole)
	marked[bytes.Index(marked, []byte("MBbloom--"))-2] += 2 // the type code
	marked = portable.Repaired(marked)
	for name, tt := range map[string]struct {
		file []byte
		note string
		err  error
	}{
		"whole": {whole, "", nil}, "marked": {marked, "", nil}, "marked, nothing left": {without(marked), "lossy: ", nil},
		"nothing left": {without(whole), "", portable.ErrDamaged},
	} {
		info, err := portable.Describe(t.Context(), bytes.NewReader(tt.file))
		if !errors.Is(err, tt.err) || !strings.HasPrefix(info.Note, tt.note) || (info.Note == "") != (tt.note == "") {
			t.Errorf("%s: note %q, %v", name, info.Note, err)
		}
	}
}

// A filter says how long its file was.
func TestFilter_Info(t *testing.T) {
	file := goldenFile(t, "bloom")
	f, err := sievekv.ReadFilter(bytes.NewReader(file))
	must(t, err)
	if info := f.Info(); info.FileBytes != int64(len(file)) || !info.Whole {
		t.Errorf("%+v", info)
	}
}

// A large filter with few items takes little memory.
func TestFilter_few(t *testing.T) {
	db := open(t, 1)
	must(t, db.Bloom("k").Reserve(sievekv.Capacity(100_000_000, 0.01), nil))
	fill(t, db.Bloom("k"), 3)
	f, err := sievekv.ReadFilter(bytes.NewReader(export(t, db, "k")))
	must(t, err)
	if n := f.Memory(); n > 3*8<<10+100 {
		t.Errorf("%d bytes", n)
	}
}

// storeOf returns a store whose Bloom filters are of a changed type.
func storeOf(t *testing.T, change func(typ *kv.Type)) *kv.DB {
	t.Helper()
	m := bloomext.Module()
	typ := *m.Types[0]
	change(&typ)
	m.Types = []*kv.Type{&typ}
	db, err := kv.Open("", &kv.Options{InMemory: true, Modules: module.New(m)})
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

// A program that knows a newer version of a type keeps the version of what it reads. It need not describe the type.
func TestImport_olderType(t *testing.T) {
	file := goldenFile(t, "bloom")
	db := storeOf(t, func(typ *kv.Type) { typ.Version, typ.Describe = 2, nil })
	must(t, portable.Import(t.Context(), db, kv.NoSync, []byte("k"), bytes.NewReader(file), portable.ImportOptions{}))
	var again bytes.Buffer
	must(t, portable.Export(t.Context(), db, []byte("k"), &again))
	if !bytes.Equal(again.Bytes(), file) {
		t.Error("the file of what was read is another")
	}
}

// verifying is a verifier that answers every block with an error.
type verifying struct{ err error }

func (v verifying) Block(*kv.Layer, uint64, []uint64) error { return v.err }
func (v verifying) Done() (string, error)                   { return "", nil }

// Only a fault of a block is damage of the file. Other errors are the store's.
func TestImport_errors(t *testing.T) {
	full := errors.New("the disk is full")
	for _, tt := range []struct {
		err     error
		damaged bool
	}{{full, false}, {fmt.Errorf("%w: bits", kv.ErrCorrupt), true}, {fmt.Errorf("%w: bits", block.ErrCorrupt), true}} {
		db := storeOf(t, func(typ *kv.Type) { typ.Verify = func(*kv.Object) kv.Verifier { return verifying{tt.err} } })
		err := portable.Import(t.Context(), db, kv.NoSync, []byte("k"), bytes.NewReader(goldenFile(t, "bloom")), portable.ImportOptions{})
		if errors.Is(err, portable.ErrDamaged) != tt.damaged || errors.Is(err, full) == tt.damaged {
			t.Errorf("%v: %v", tt.err, err)
		}
	}
}

// The error of a merge names both types.
func TestImport_mergeTypes(t *testing.T) {
	db := open(t, 1)
	must(t, db.Set("k", []byte("a string")))
	err := db.ImportWith(t.Context(), "k", bytes.NewReader(goldenFile(t, "bloom")), sievekv.ImportOptions{Merge: true})
	if !errors.Is(err, sievekv.ErrWrongType) || !strings.Contains(err.Error(), `"k" holds a string, the file has a MBbloom--`) {
		t.Errorf("%v", err)
	}
}

type silent struct{}

func (silent) Infof(string, ...any)         {}
func (silent) Errorf(string, ...any)        {}
func (silent) Fatalf(form string, a ...any) { panic(fmt.Sprintf(form, a...)) }

// A block that does not decode makes no file with zeros in its place.
func TestExport_damagedBlock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	onDisk := func() *sievekv.DB {
		db, err := sievekv.Open(dir, &sievekv.Options{BallastSize: -1, Seed: 1})
		must(t, err)
		return db
	}
	db := onDisk()
	subjects[0].make(t, db, "k")
	var key []byte
	must(t, db.Store().Read(func(r kv.Reader) error {
		o, err := r.Lookup([]byte("k"))
		must(t, err)
		key = format.AppendBlockKey(nil, o.ID(), o.Layers()[0].Spec().Number, 0)
		return nil
	}))
	must(t, errors.Join(db.Store().CompactTables(t.Context()), db.Close()))
	p, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Merger: &pebble.Merger{Name: block.MergerName}, Logger: silent{}})
	must(t, err)
	must(t, errors.Join(p.Set(key, []byte{0xff}, pebble.Sync), p.Close()))
	must(t, os.Remove(filepath.Join(dir, "SEAL"))) // it is not of this MANIFEST, and a store can do without it
	db = onDisk()
	defer func() { must(t, db.Close()) }()
	if err := db.Export(t.Context(), "k", io.Discard); !errors.Is(err, sievekv.ErrCorrupt) {
		t.Errorf("%v", err)
	}
}
