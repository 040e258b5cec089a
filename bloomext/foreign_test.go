package bloomext_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/coretest"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/portable"
	"github.com/sievekv/sievekv/scalableext"
)

var updateForeign = flag.Bool("update-foreign", false, "write the files of other libraries in testdata")

// item returns an item of 0 to 40 bytes, which depend on its number.
func item(i int) []byte {
	b := fmt.Appendf(nil, "%d of the items of a test, some of which are long", i)
	return b[:min(len(b), 6+i%35)]
}

// imported imports a filter with some items, as f.
func imported(t *testing.T, w *coretest.World, kind foreignKind, m, k uint64, items int) *foreign {
	t.Helper()
	f := newForeign(kind, m, k)
	for i := range items {
		f.add(item(i))
	}
	how := f.how()
	how.Replace = true
	if err := bloomext.New(w.DB, "f").ImportForeign(t.Context(), bytes.NewReader(f.file(f)), how); err != nil {
		t.Fatalf("%s with %d bits and %d hashes: %v", kind.name, m, k, err)
	}
	return f
}

// compareForeign compares the bits that are set, and the answers for items that were added and others.
func compareForeign(t *testing.T, w *coretest.World, f *foreign, added int) (positives int) {
	t.Helper()
	b := bloomext.New(w.DB, "f")
	info, err := b.Info()
	if err != nil || info.Layers[0].Ones != f.ones() || info.Layers[0].Bits != f.m || info.Layers[0].Hashes != int(f.k) {
		t.Fatalf("%+v, %v, want %d of %d bits set", info, err, f.ones(), f.m)
	}
	items := make([][]byte, added+3000)
	present := make([]bool, len(items))
	for i := range items {
		items[i] = item(i)
	}
	if err := b.MayContainMany(items, present); err != nil {
		t.Fatal(err)
	}
	for i := range items {
		want := f.has(items[i])
		one, err := b.MayContain(items[i])
		if present[i] != want || one != want || err != nil {
			t.Fatalf("item %d: %t, %t, %v, want %t", i, present[i], one, err, want)
		}
		if i >= added && want {
			positives++
		}
	}
	return positives
}

// A filter of another library answers as it did there, false positives included, also after more items were added.
func TestImportForeign(t *testing.T) {
	for _, kind := range foreignKinds {
		t.Run(kind.name, func(t *testing.T) {
			positives := 0
			for _, tt := range []struct {
				m, k  uint64
				items int
			}{
				{64, 1, 3}, {1, 1, 1}, {7, 2, 1}, {13, 3, 2}, {64, 7, 0}, {448, 5, 30}, {449, 5, 30}, {512, 4, 40}, {1000, 8, 90}, {9584, 7, 1000},
				{9585, 255, 20}, {65536, 3, 9000}, {65537, 4, 9000}, {300_011, 5, 40_000}, {1 << 20, 6, 90_000}, {10_000, 1100, 5},
			} {
				if kind.whole {
					tt.m = (tt.m + 63) / 64 * 64
				}
				tt.k = min(tt.k, kind.most)
				w := newWorld(t, kv.Options{CacheSize: 1 << 20})
				f := imported(t, w, kind, tt.m, tt.k, tt.items)
				positives += compareForeign(t, w, f, tt.items)
				b := bloomext.New(w.DB, "f")
				for i := range 200 { // one by one
					isNew, err := b.Add(item(tt.items + i))
					if want := f.add(item(tt.items + i)); isNew != want || err != nil {
						t.Fatalf("%d bits, %d hashes: Add = %t, %v, want %t", tt.m, tt.k, isNew, err, want)
					}
				}
				more, isNew := make([][]byte, 300), make([]bool, 300) // in a batch, and again
				for i := range more {
					more[i] = item(tt.items + 100 + i)
				}
				for range 2 {
					if _, err := b.AddMany(more, isNew); err != nil {
						t.Fatal(err)
					}
					for i := range more {
						if want := f.add(more[i]); isNew[i] != want {
							t.Fatalf("%d bits, %d hashes: AddMany of item %d: %t, want %t", tt.m, tt.k, i, isNew[i], want)
						}
					}
				}
				compareForeign(t, w, f, tt.items+400)
			}
			if positives < 50 {
				t.Errorf("%d false positives were compared", positives)
			}
		})
	}
}

// The forms of an item are the same item, and commands find it.
func TestImportForeign_forms(t *testing.T) {
	for _, kind := range foreignKinds {
		w := newWorld(t, kv.Options{})
		f := imported(t, w, kind, 64_000, 7, 100)
		b := bloomext.New(w.DB, "f")
		number := binary.LittleEndian.AppendUint64(nil, 77)
		if present, err := b.MayContain(scalableext.Uint64(77)); err != nil || present != f.has(number) {
			t.Errorf("%s: number: %t, %v", kind.name, present, err)
		}
		if isNew, err := b.Add(scalableext.Uint64(77)); err != nil || isNew != f.add(number) {
			t.Errorf("%s: new number: %t, %v", kind.name, isNew, err)
		}
		if n, err := b.AddMany(scalableext.Uint64s([]uint64{77, 78}...), nil); err != nil || n != 1 || !f.add(binary.LittleEndian.AppendUint64(nil, 78)) {
			t.Errorf("%s: %d new numbers, %v", kind.name, n, err)
		}
		if n, err := b.AddMany(scalableext.BytesOfAll([]string{"a", "b"}), nil); err != nil || n != 2 || !f.add([]byte("a")) || !f.add([]byte("b")) {
			t.Errorf("%s: %d new strings, %v", kind.name, n, err)
		}
		present := make([]bool, 2)
		if err := b.MayContainMany(scalableext.Uint64s([]uint64{77, 78}...), present); err != nil || !present[0] || !present[1] {
			t.Errorf("%s: %t, %v", kind.name, present, err)
		}
		if err := b.MayContainMany(scalableext.BytesOfAll([]string{"a", "b"}), present); err != nil || !present[0] || !present[1] {
			t.Errorf("%s: %t, %v", kind.name, present, err)
		}
		w.Script(`
BF.EXISTS f a => :1 | #t
BF.MEXISTS f a b zebra => [:1 :1 :0] | [#t #t #f]
BF.ADD f a => :0 | #f
BF.ADD f zebra => :1 | #t
BF.MADD f zebra giraffe => [:0 :1] | [#f #t]
BF.INSERT f NOCREATE ITEMS giraffe => [:0] | [#f]`)
		f.add([]byte("zebra"))
		f.add([]byte("giraffe"))
		compareForeign(t, w, f, 100)
	}
}

// What commands say of an imported filter.
func TestImportForeign_commands(t *testing.T) {
	w := newWorld(t, kv.Options{})
	kind := foreignKinds[1]
	imported(t, w, kind, 64_000, 7, 3000)
	info, err := bloomext.New(w.DB, "f").Info()
	if err != nil || info.Layout != scalableext.LayoutForeign || info.Scheme != "guava MURMUR128_MITZ_64" || info.Hash != hash.Murmur3 ||
		!info.ItemsEstimated || math.Abs(float64(info.Items)-3000) > 60 || info.Capacity != 6337 || info.Expansion != 0 ||
		info.Bytes != 8000 || info.ErrorRate != 1.0/128 {
		t.Errorf("%+v, %v", info, err)
	}
	items := info.Items
	w.Script(fmt.Sprintf(`
BF.CARD f => :%d
BF.ADD f new => :1 | #t
BF.CARD f => :%d
BF.INFO f EXPANSION => [_] | {+Expansion rate _}
BF.INFO f HASH => ["murmur3"] | {+Hash "murmur3"}
BF.INFO f => [+Capacity :6337 +Size :8096 +Number of filters :1 +Number of items inserted :%[2]d +Expansion rate _ +Number of items is estimated :1]
  | {+Capacity :6337 +Size :8096 +Number of filters :1 +Number of items inserted :%[2]d +Expansion rate _ +Number of items is estimated :1}
BF.DEBUG f => ["size:%[2]d" "bytes:8000 bits:64000 hashes:7 hashwidth:64 capacity:6337 size:%[2]d ratio:0.0078125"]
BF.SCANDUMP f 0 => [:1 "\x89SVKD\r\n\x1a\x02..."]
BF.LOADCHUNK f 9 x => -ERR received bad data
BF.RESERVE f 0.01 100 => -ERR item exists
BF.RESERVE native 0.01 100 => +OK
BF.MERGE f native => -ERR filters differ, and cannot be merged: "f" has the foreign layout, in which filters cannot be merged
BF.MERGE native f => -ERR filters differ, and cannot be merged: "f" has the foreign layout, in which filters cannot be merged
BF.MERGE g f => -ERR filters differ, and cannot be merged: "f" has the foreign layout, in which filters cannot be merged
COPY f g => :1
BF.EXISTS g new => :1 | #t
RENAME g h => +OK
BF.EXISTS h new => :1 | #t
EXPIRE h 10 => :1
@pass 11s
EXISTS h => :0
DEL f => :1
BF.EXISTS f new => :0 | #f`, items, items+1))
	if err := bloomext.New(w.DB, "native").OpenOrReserve(bloomext.Config{Capacity: 100, ErrorRate: 0.01}); err != nil {
		t.Error(err)
	}
	imported(t, w, foreignKinds[3], 64_000, 7, 3000)
	w.Script(`BF.INFO f HASH => ["highwayhash"] | {+Hash "highwayhash"}`)
	err = bloomext.New(w.DB, "f").OpenOrReserve(bloomext.Config{Capacity: 100, ErrorRate: 0.01})
	if !errors.Is(err, scalableext.ErrMismatch) || !strings.Contains(err.Error(), "layout is foreign, asked for native") {
		t.Errorf("OpenOrReserve: %v", err)
	}
}

// A filter that has all of its bits set refuses no item: each is known.
func TestImportForeign_full(t *testing.T) {
	for _, kind := range foreignKinds {
		w := newWorld(t, kv.Options{})
		f := imported(t, w, kind, 64, 3, 0)
		b := bloomext.New(w.DB, "f")
		for i := range 2000 {
			isNew, err := b.Add(item(i))
			if want := f.add(item(i)); isNew != want || err != nil {
				t.Fatalf("%s: item %d: %t, %v, want %t", kind.name, i, isNew, err, want)
			}
		}
		compareForeign(t, w, f, 2000)
		info, err := b.Info()
		if err != nil || info.Fill != 1 || info.ExpectedRate != 1 || info.Items < info.Capacity {
			t.Errorf("%s: %+v, %v", kind.name, info, err)
		}
		imported(t, w, kind, 64, 3, 2000)
		if info, err = b.Info(); err != nil || info.Items < 50 || info.Items > 200 {
			t.Errorf("%s: an imported full filter: %+v, %v", kind.name, info, err)
		}
	}
}

// A string of Redis may be shorter than its filter by any number of blocks.
func TestImportForeign_short(t *testing.T) {
	for _, last := range []int{0, 7, 8, 511, 65_535, 65_536, 70_000, 131_071, 131_072, 299_999} {
		w := newWorld(t, kv.Options{})
		f := newForeign(foreignKinds[3], 300_000, 3)
		for i := range last + 1 {
			f.set[i] = i == last || i%5 == 0
		}
		if err := bloomext.New(w.DB, "f").ImportForeign(t.Context(), bytes.NewReader(f.file(f)), f.how()); err != nil {
			t.Fatal(err)
		}
		compareForeign(t, w, f, 0)
	}
}

// A filter may have fewer bits than a byte.
func TestImportForeign_small(t *testing.T) {
	w := newWorld(t, kv.Options{})
	f := imported(t, w, foreignKinds[2], 3, 2, 1)
	info, err := bloomext.New(w.DB, "f").Info()
	if err != nil || info.Bytes != 1 || info.Fill != float64(f.ones())/3 {
		t.Errorf("%+v, %v, want %d of 3 bits set", info, err, f.ones())
	}
}

// The files in testdata are those of the models, and are imported.
func TestImportForeign_golden(t *testing.T) {
	for _, kind := range foreignKinds {
		path := filepath.Join("testdata", kind.name+".bloom")
		f := newForeign(kind, 1000, 5)
		if kind.whole {
			f = newForeign(kind, 1024, 5)
		}
		for i := range 100 {
			f.add(item(i))
		}
		if *updateForeign {
			if err := os.WriteFile(path, f.file(f), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(file, f.file(f)) {
			t.Errorf("%s differs from what the model writes", path)
		}
		w := newWorld(t, kv.Options{})
		if err := bloomext.New(w.DB, "f").ImportForeign(t.Context(), bytes.NewReader(file), f.how()); err != nil {
			t.Fatal(err)
		}
		compareForeign(t, w, f, 100)
	}
}

// A file that is not what it should be is refused with the place, whether the key exists or not, and nothing changes.
// inGob is encoded as a filter of bits-and-blooms is.
type inGob []byte

func (b inGob) GobEncode() ([]byte, error) { return b, nil }

// gobOf returns the gob of a filter with this file.
func gobOf(file []byte) []byte {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(inGob(file)); err != nil {
		panic(err) // a buffer takes all
	}
	return b.Bytes()
}

// A filter of bits-and-blooms that was made of words by FromWithM may have more bits in its file than it looks at, or fewer.
func TestImportForeign_fromWithM(t *testing.T) {
	for _, m := range []uint64{1, 64, 650, 65_537} {
		f := newForeign(foreignKinds[2], m, 3)
		for i := range 40 {
			f.add(item(i))
		}
		file := f.file(f)
		for name, tt := range map[string]struct {
			length uint64
			words  []byte
		}{
			"as many words":  {(m + 63) / 64 * 64, nil},
			"more words":     {(m+63)/64*64 + 640, bytes.Repeat([]byte{0xff}, 80)},
			"a block more":   {(m+63)/64*64 + 80_000, bytes.Repeat([]byte{0xa5}, 10_000)},
			"bits behind it": {(m+63)/64*64 + 64, bytes.Repeat([]byte{1}, 8)},
		} {
			more := append(bytes.Clone(file), tt.words...)
			binary.BigEndian.PutUint64(more[16:], tt.length)
			if m%64 != 0 { // in the last word the filter does not look at the highest bits
				more[24+(m/64)*8] |= 0x80
			}
			w := newWorld(t, kv.Options{})
			how := bloomext.ForeignFile{Format: bloomext.BitsAndBlooms}
			if err := bloomext.New(w.DB, "f").ImportForeign(t.Context(), bytes.NewReader(more), how); err != nil {
				t.Fatalf("%d bits, %s: %v", m, name, err)
			}
			compareForeign(t, w, f, 40)
		}
		last := uint64(0) // the words end after the last bit that is set
		for i := range m {
			if f.set[i] {
				last = i
			}
		}
		fewer := bytes.Clone(file[:24+(last/64+1)*8])
		binary.BigEndian.PutUint64(fewer[16:], last+1)
		w := newWorld(t, kv.Options{})
		if err := bloomext.New(w.DB, "f").ImportForeign(t.Context(), bytes.NewReader(fewer), f.how()); err != nil {
			t.Fatalf("%d bits, fewer words: %v", m, err)
		}
		compareForeign(t, w, f, 40)
	}
}

func TestImportForeign_damaged(t *testing.T) {
	file := func(kind int, m, k uint64) []byte {
		f := newForeign(foreignKinds[kind], m, k)
		f.add([]byte("there"))
		return f.file(f)
	}
	with := func(b []byte, at int, more ...byte) []byte {
		return append(b[:at:at], append(more, b[at+len(more):]...)...)
	}
	guava, bnb := file(1, 640, 3), file(2, 650, 3)
	redisson := newForeign(foreignKinds[3], 650, 3)
	for i := range 300 {
		redisson.add(item(i))
	}
	for name, tt := range map[string]struct {
		file []byte
		how  bloomext.ForeignFile
		want string
	}{
		"guava: empty":          {nil, bloomext.ForeignFile{Format: bloomext.Guava}, "at byte 0: the file ends here"},
		"guava: no words":       {guava[:6], bloomext.ForeignFile{Format: bloomext.Guava}, "at byte 6: the file ends here, want 86 bytes for 640 bits"},
		"guava: head":           {guava[:5], bloomext.ForeignFile{Format: bloomext.Guava}, "at byte 5: the file ends here"},
		"guava: short":          {guava[:85], bloomext.ForeignFile{Format: bloomext.Guava}, "at byte 85: the file ends here, want 86 bytes for 640 bits"},
		"guava: long":           {append(guava[:86:86], 0, 0), bloomext.ForeignFile{Format: bloomext.Guava}, "at byte 86: more follows the last of 640 bits"},
		"guava: strategy":       {with(guava, 0, 2), bloomext.ForeignFile{Format: bloomext.Guava}, "at byte 0: the strategy is 2, want 0 or 1"},
		"guava: old strategy":   {with(guava, 0, 0xff), bloomext.ForeignFile{Format: bloomext.Guava}, "at byte 0: the strategy is 255, want 0 or 1"},
		"guava: hashes":         {with(guava, 1, 0), bloomext.ForeignFile{Format: bloomext.Guava}, "at byte 1: the number of hash functions is 0, want 1 to 255"},
		"guava: no longs":       {with(guava, 2, 0, 0, 0, 0), bloomext.ForeignFile{Format: bloomext.Guava}, "at byte 2: the number of longs is 0, want at least 1"},
		"guava: negative longs": {with(guava, 2, 0xff, 0, 0, 0), bloomext.ForeignFile{Format: bloomext.Guava}, "at byte 2: the number of longs is -16777216, want at least 1"},
		"guava: very many":      {with(guava, 2, 0x7f, 0xff, 0xff, 0xff), bloomext.ForeignFile{Format: bloomext.Guava}, "at byte 86: the file ends here, want 17179869182 bytes"},
		"bnb: empty":            {nil, bloomext.ForeignFile{Format: bloomext.BitsAndBlooms}, "at byte 0: the file ends here"},
		"bnb: head":             {bnb[:23], bloomext.ForeignFile{Format: bloomext.BitsAndBlooms}, "at byte 23: the file ends here"},
		"bnb: short":            {bnb[:111], bloomext.ForeignFile{Format: bloomext.BitsAndBlooms}, "at byte 111: the file ends here, want 112 bytes for 650 bits"},
		"bnb: long":             {append(bnb[:112:112], 0), bloomext.ForeignFile{Format: bloomext.BitsAndBlooms}, "at byte 112: more follows the last of 650 bits"},
		"bnb: no bits":          {with(bnb, 6, 0, 0), bloomext.ForeignFile{Format: bloomext.BitsAndBlooms}, "at byte 0: the number of bits is 0, want 1 to 70368744177664"},
		"bnb: very many bits":   {with(bnb, 0, 0xff), bloomext.ForeignFile{Format: bloomext.BitsAndBlooms}, "at byte 0: the number of bits is "},
		"bnb: no hashes":        {with(bnb, 15, 0), bloomext.ForeignFile{Format: bloomext.BitsAndBlooms}, "at byte 8: the number of hash functions is 0, want 1 to 1100"},
		"bnb: very many hashes": {with(bnb, 14, 4, 77), bloomext.ForeignFile{Format: bloomext.BitsAndBlooms}, "at byte 8: the number of hash functions is 1101, want 1 to 1100"},
		"bnb: very long":        {with(bnb, 16, 0xff), bloomext.ForeignFile{Format: bloomext.BitsAndBlooms}, "at byte 16: the bit set has 18374686479671624330 bits, want at most 70368744177664"},
		"bnb: another length":   {with(bnb, 22, 3, 139), bloomext.ForeignFile{Format: bloomext.BitsAndBlooms}, "at byte 112: the file ends here, want 144 bytes for 907 bits"},
		"bnb: gzip":             {[]byte("\x1f\x8b\x08 and more than a beginning"), bloomext.ForeignFile{Format: bloomext.BitsAndBlooms}, "at byte 0: it is compressed by gzip, and no file of bits-and-blooms: give what gzip -dc makes of it"},
		"bnb: JSON":             {[]byte(`{"m":650,"k":3,"b":"AAAAAAAAAooAAAAAAAAAAA=="}`), bloomext.ForeignFile{Format: bloomext.BitsAndBlooms}, "at byte 0: it is JSON, and no file of bits-and-blooms: "},
		"bnb: gob":              {gobOf(bnb), bloomext.ForeignFile{Format: bloomext.BitsAndBlooms}, "at byte 0: it is a gob, and no file of bits-and-blooms: "},
		"guava: Java":           {[]byte("\xac\xed\x00\x05sr\x00&com.google.common.hash"), bloomext.ForeignFile{Format: bloomext.Guava}, "at byte 0: it is a serialized Java object, and no file of guava: in Java, read it and give what writeTo writes"},
		"guava: short JSON":     {[]byte(`{}`), bloomext.ForeignFile{Format: bloomext.Guava}, "at byte 0: it is JSON"},
		"bnb: behind the end":   {with(bnb, 104, 0, 0, 0, 0, 0, 0, 4), bloomext.ForeignFile{Format: bloomext.BitsAndBlooms}, "at byte 111: bits behind the end of 650 are set"},
		"redisson: long":        {make([]byte, 83), redisson.how(), "at byte 82: more follows the last of 650 bits"},
		"redisson: behind the end": {append(redisson.file(redisson)[:81:81], 0xff), redisson.how(),
			"at byte 81: bits behind the end of 650 are set"},
	} {
		w := newWorld(t, kv.Options{})
		f := bloomext.New(w.DB, "f")
		tt.how.Replace = true
		check := func() {
			t.Helper()
			in := bytes.NewReader(append([]byte("before"), tt.file...))
			if _, err := in.Seek(6, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			err := f.ImportForeign(t.Context(), in, tt.how)
			if !errors.Is(err, scalableext.ErrDamaged) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %s", name, err, tt.want)
			}
		}
		check()
		if n, err := w.DB.Exists([]byte("f")); n != 0 || err != nil {
			t.Errorf("%s: %d keys, %v", name, n, err)
		}
		w.Script("SET f old => +OK")
		check()
		w.Script(`GET f => "old"`)
	}
}

// Values that no file has, or that are for another kind of file, are refused.
func TestForeignFile_config(t *testing.T) {
	for _, tt := range []struct {
		how  bloomext.ForeignFile
		want string
	}{
		{bloomext.ForeignFile{}, "format is ForeignFormat(0), want guava, bits-and-blooms or redisson"},
		{bloomext.ForeignFile{Format: 4}, "format is ForeignFormat(4), want guava"},
		{bloomext.ForeignFile{Format: bloomext.Guava, Bits: 1}, "bits are 1 and hashes 0 for a file of guava, want 0"},
		{bloomext.ForeignFile{Format: bloomext.BitsAndBlooms, Hashes: 1}, "bits are 0 and hashes 1 for a file of bits-and-blooms, want 0"},
		{bloomext.ForeignFile{Format: bloomext.Redisson, Hashes: 1}, "bits are 0 for a file of redisson, want 1 to 4294967296"},
		{bloomext.ForeignFile{Format: bloomext.Redisson, Bits: 1<<32 + 1, Hashes: 1}, "bits are 4294967297 for a file of redisson"},
		{bloomext.ForeignFile{Format: bloomext.Redisson, Bits: 1}, "hashes are 0 for a file of redisson, want 1 to 1100"},
		{bloomext.ForeignFile{Format: bloomext.Redisson, Bits: 1, Hashes: 1101}, "hashes are 1101 for a file of redisson, want 1 to 1100"},
		{bloomext.ForeignFile{Format: bloomext.Redisson, Bits: 1, Hashes: -1}, "hashes are -1 for a file of redisson, want 1 to 1100"},
	} {
		err := tt.how.Check(bytes.NewReader(nil))
		if !errors.Is(err, scalableext.ErrConfig) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %s", tt.how, err, tt.want)
		}
	}
	for f := bloomext.Guava; f.Valid(); f++ {
		if got, ok := bloomext.ParseForeignFormat(f.String()); got != f || !ok {
			t.Errorf("ParseForeignFormat(%q) = %v, %t", f.String(), got, ok)
		}
	}
	for _, word := range []string{"", "Guava", "ForeignFormat(0)"} {
		if got, ok := bloomext.ParseForeignFormat(word); ok {
			t.Errorf("ParseForeignFormat(%q) = %v", word, got)
		}
	}
}

// Check leaves the reader where it was.
func TestForeignFile_Check(t *testing.T) {
	f := newForeign(foreignKinds[1], 640, 3)
	in := bytes.NewReader(append([]byte("before"), f.file(f)...))
	if _, err := in.Seek(6, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if err := f.how().Check(in); err != nil {
		t.Fatal(err)
	}
	if at, err := in.Seek(0, io.SeekCurrent); at != 6 || err != nil {
		t.Errorf("the reader is at %d, %v", at, err)
	}
}

// shrinking is a file that becomes shorter after its length was asked for, or fails.
type shrinking struct {
	*bytes.Reader
	left int
	err  error
}

func (s *shrinking) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b[:min(len(b), s.left)])
	if s.left -= n; s.left == 0 {
		return n, s.err
	}
	return n, err
}

// If the file ends or fails in the middle, or the context ends, what is under the key stays, and the blocks that were
// written ahead go.
func TestImportForeign_halfway(t *testing.T) {
	w := newWorld(t, kv.Options{})
	b := bloomext.New(w.DB, "f")
	kind := foreignKinds[1]
	old := imported(t, w, kind, 64_000, 5, 100)
	f := newForeign(kind, 32<<20, 5)
	for i := range f.set {
		f.set[i] = i%3 == 0
	}
	file := f.file(f)
	how := f.how()
	how.Replace = true
	err := b.ImportForeign(t.Context(), &shrinking{bytes.NewReader(file), 3 << 20, io.EOF}, how)
	if !errors.Is(err, scalableext.ErrDamaged) || !strings.Contains(err.Error(), "at byte 3145728: the file ends here") {
		t.Errorf("a file that becomes shorter: %v", err)
	}
	failed := errors.New("the disk of the file failed")
	if err := b.ImportForeign(t.Context(), &shrinking{bytes.NewReader(file), 3 << 20, failed}, how); !errors.Is(err, failed) {
		t.Errorf("a file that fails: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := b.ImportForeign(ended, bytes.NewReader(file), how); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	compareForeign(t, w, old, 100)
	if err := b.ImportForeign(t.Context(), bytes.NewReader(file), how); err != nil {
		t.Fatal(err)
	}
	compareForeign(t, w, f, 0)
}

func TestImportForeign_keys(t *testing.T) {
	w := newWorld(t, kv.Options{MaxFilterBytes: 16 << 10})
	f := newForeign(foreignKinds[2], 64_001, 3)
	file := f.file(f)
	b := bloomext.New(w.DB, "f")
	w.Script("SET f x EX 100 => +OK")
	if err := b.ImportForeign(t.Context(), bytes.NewReader(file), f.how()); !errors.Is(err, kv.ErrExists) {
		t.Errorf("a key that exists: %v", err)
	}
	how := f.how()
	how.Replace = true
	if err := b.ImportForeign(t.Context(), bytes.NewReader(file), how); err != nil {
		t.Error(err)
	}
	w.Script("TTL f => :-1\nTYPE f => +MBbloom--")
	large := newForeign(foreignKinds[2], 400_001, 3)
	err := bloomext.New(w.DB, "g").ImportForeign(t.Context(), bytes.NewReader(large.file(large)), large.how())
	if !errors.Is(err, kv.ErrTooLarge) || !strings.Contains(err.Error(), "at most 16384 (max-filter-bytes)") {
		t.Errorf("a filter that is too large: %v", err)
	}
	w.Script("EXISTS g => :0")
}

// An import is part of a transaction, or of none of it.
func TestImportForeign_transaction(t *testing.T) {
	w := newWorld(t, kv.Options{})
	f := newForeign(foreignKinds[0], 640_000, 3)
	f.add([]byte("there"))
	file := bytes.NewReader(f.file(f))
	back := errors.New("rolled back")
	for _, end := range []error{back, nil} {
		err := w.DB.Update(t.Context(), kv.NoSync, func(tx *kv.Transaction) error {
			if err := bloomext.New(w.DB, "f").ImportForeign(tx.Context(), file, f.how()); !errors.Is(err, kv.ErrNested) {
				t.Errorf("beside the transaction: %v", err)
			}
			if _, err := file.Seek(0, io.SeekStart); err != nil {
				return err
			}
			b := bloomext.New(w.DB, "f").In(tx)
			if err := b.ImportForeign(tx.Context(), file, f.how()); err != nil {
				return err
			}
			if present, err := b.MayContain([]byte("there")); !present || err != nil {
				t.Errorf("in the transaction: %t, %v", present, err)
			}
			if isNew, err := b.Add([]byte("more")); !isNew || err != nil {
				t.Errorf("added in the transaction: %t, %v", isNew, err)
			}
			if _, err := file.Seek(0, io.SeekStart); err != nil {
				return err
			}
			return end
		})
		if !errors.Is(err, end) {
			t.Fatal(err)
		}
		if n, err := w.DB.Exists([]byte("f")); err != nil || (n == 1) != (end == nil) {
			t.Errorf("after %v: %d keys, %v", end, n, err)
		}
	}
	f.add([]byte("more"))
	compareForeign(t, w, f, 0)
}

// A store that is opened again has the filter as it was, and so has one that takes its file of export.
func TestImportForeign_again(t *testing.T) {
	dir := t.TempDir()
	for i, kind := range foreignKinds {
		key := kind.name
		db := open(t, dir, &kv.Options{})
		f := newForeign(kind, 128_000+64*uint64(i), 4)
		for i := range 20_000 {
			f.add(item(i))
		}
		if err := bloomext.New(db, key).ImportForeign(t.Context(), bytes.NewReader(f.file(f)), f.how()); err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			if _, err := bloomext.New(db, key).Add(item(30_000 + i)); err != nil {
				t.Fatal(err)
			}
			f.add(item(30_000 + i))
		}
		before, err := bloomext.New(db, key).Info()
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = open(t, dir, &kv.Options{})
		after, err := bloomext.New(db, key).Info()
		before.DiskBytes, before.ResidentBytes, after.DiskBytes, after.ResidentBytes = 0, 0, 0, 0
		if fmt.Sprintf("%+v", before) != fmt.Sprintf("%+v", after) || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", kind.name, after, err, before)
		}
		var exported bytes.Buffer
		if err := portable.Export(t.Context(), db, []byte(key), &exported); err != nil {
			t.Fatal(err)
		}
		frozen, err := portable.ReadFilter(bytes.NewReader(exported.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, kv.Options{})
		if err := portable.Import(t.Context(), w.DB, kv.NoSync, []byte("f"), &exported, portable.ImportOptions{}); err != nil {
			t.Fatal(err)
		}
		compareForeign(t, w, f, 20_000)
		for i := range 40_000 {
			if frozen.MayContain(item(i)) != f.has(item(i)) {
				t.Fatalf("%s: item %d without a store: %t", kind.name, i, !f.has(item(i)))
			}
		}
		err = portable.Import(t.Context(), w.DB, kv.NoSync, []byte("f"), bytes.NewReader(exportOf(t, w.DB)), portable.ImportOptions{Merge: true})
		if !errors.Is(err, scalableext.ErrUnequal) || !strings.Contains(err.Error(), "has the foreign layout") {
			t.Errorf("%s: merged with itself: %v", kind.name, err)
		}
	}
}

func exportOf(t *testing.T, db *kv.DB) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := portable.Export(t.Context(), db, []byte("f"), &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Adds and lookups by many goroutines lose no item.
func TestImportForeign_together(t *testing.T) {
	w := newWorld(t, kv.Options{CacheSize: 1 << 20, MemTableSize: 256 << 10})
	f := imported(t, w, foreignKinds[2], 700_001, 6, 1000)
	errs := make(chan error)
	for g := range 4 {
		go func() {
			b := bloomext.New(w.DB, "f").With(kv.NoSync)
			var err error
			for i := range 300 {
				at := 1000 + 300*g + i
				if _, err = b.Add(item(at)); err != nil {
					break
				}
				if present, failed := b.MayContain(item(at)); !present || failed != nil {
					err = fmt.Errorf("item %d: %t, %w", at, present, failed)
					break
				}
			}
			errs <- err
		}()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for i := range 1200 {
		f.add(item(1000 + i))
	}
	compareForeign(t, w, f, 2200)
}

// Batches of more than fits into a commit.
func TestImportForeign_many(t *testing.T) {
	w := newWorld(t, kv.Options{MemTableSize: 256 << 10})
	f := imported(t, w, foreignKinds[2], 3_000_017, 9, 0)
	items, isNew := make([][]byte, 30_000), make([]bool, 30_000)
	for i := range items {
		items[i] = item(i)
	}
	if _, err := bloomext.New(w.DB, "f").AddMany(items, isNew); err != nil {
		t.Fatal(err)
	}
	for i := range items {
		if want := f.add(items[i]); isNew[i] != want {
			t.Fatalf("item %d: %t, want %t", i, isNew[i], want)
		}
	}
	compareForeign(t, w, f, 30_000)
}

// parse is the model's reading of a file, nil for one that is not such a filter.
func parse(file []byte, kind foreignKind) *foreign {
	wide := func(at int) uint64 { return binary.BigEndian.Uint64(file[at:]) }
	var f *foreign
	switch head := 0; {
	case kind.format == bloomext.Redisson:
		f = newForeign(kind, 1000, 5)
		for i := range min(1000, 8*len(file)) {
			f.set[i] = file[i/8]&(0x80>>(i%8)) != 0
		}
		if full := append(f.file(f), make([]byte, len(file))...); len(file) > 125 || !bytes.Equal(full[:len(file)], file) {
			return nil
		}
		return f
	case kind.format == bloomext.Guava:
		head = 6
		if len(file) < head || (len(file)-head)/8 != int(int32(binary.BigEndian.Uint32(file[2:]))) || len(file) == head {
			return nil
		}
		f = newForeign(foreignKinds[min(file[0], 1)], uint64(len(file)-head)/8*64, uint64(file[1]))
		f.read(file[head:])
	default:
		head = 24
		if len(file) < head || wide(0) > 8*uint64(len(file)) {
			return nil
		}
		f = newForeign(kind, wide(0), wide(8))
		if 8*((f.m+63)/64) != uint64(len(file)-head) {
			return nil
		}
		f.read(file[head:])
	}
	if f.k > f.most || f.k == 0 || f.m == 0 || !bytes.Equal(f.file(f), file) {
		return nil
	}
	return f
}

func (f *foreign) read(b []byte) {
	for i := range f.set {
		f.set[i] = binary.BigEndian.Uint64(b[i/64*8:])>>(i%64)&1 != 0
	}
}

// Whatever the bytes are, a file is taken if and only if the model takes it. Then it answers as the model, takes more items,
// and a check finds nothing.
func FuzzImportForeign(f *testing.F) {
	for i, kind := range foreignKinds {
		file, err := os.ReadFile(filepath.Join("testdata", kind.name+".bloom"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file, uint8(i))
		f.Add(file[:len(file)-1], uint8(i))
	}
	db := open(f, "", nil)
	f.Cleanup(func() {
		if err := db.Close(); err != nil {
			f.Error(err)
		}
	})
	f.Fuzz(func(t *testing.T, file []byte, which uint8) {
		kind := foreignKinds[int(which)%len(foreignKinds)]
		model := parse(file, kind)
		how := newForeign(kind, 1000, 5).how()
		b := bloomext.New(db, "f").With(kv.NoSync)
		if err := b.ImportForeign(t.Context(), bytes.NewReader(file), how); (err == nil) != (model != nil) {
			t.Fatalf("%s of %d bytes: %v", kind.name, len(file), err)
		} else if err != nil {
			if !errors.Is(err, scalableext.ErrDamaged) {
				t.Errorf("%v is not scalableext.ErrDamaged", err)
			}
			return
		}
		for i := range 64 {
			if present, err := b.MayContain(item(i)); err != nil || present != model.has(item(i)) {
				t.Errorf("item %d: %t, %v", i, present, err)
			}
		}
		for i := range 8 {
			if isNew, err := b.Add(item(1000 + i)); err != nil || isNew != model.add(item(1000+i)) {
				t.Errorf("new item %d: %t, %v", i, isNew, err)
			}
		}
		if report, err := db.Check(t.Context()); err != nil || len(report.Problems) > 0 {
			t.Errorf("Check = %v, %v", report.Problems, err)
		}
		if _, err := b.Drop(); err != nil {
			t.Fatal(err)
		}
	})
}

// A random mixture of commands answers as the model.
func TestImportForeign_model(t *testing.T) {
	for _, kind := range foreignKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(7, uint64(len(kind.name))))
			w := newWorld(t, kv.Options{CacheSize: 1 << 20})
			f := imported(t, w, kind, 192_000, 4, 5000)
			for range 4000 {
				words, want := []string{}, []reply.Reply{}
				exists := r.IntN(2) == 0
				for range 1 + r.IntN(6) {
					b := item(r.IntN(60_000))
					words = append(words, string(b))
					if exists {
						want = append(want, reply.Bool(f.has(b)))
					} else {
						want = append(want, reply.Bool(f.add(b)))
					}
				}
				command := map[bool]string{true: "BF.MEXISTS", false: "BF.MADD"}[exists]
				got := w.Do(slices.Concat([]string{command, "f"}, words)...)
				if g, h := coretest.Wire(got, reply.Reply.RESP2), coretest.Wire(reply.Array(want...), reply.Reply.RESP2); g != h {
					t.Fatalf("%s %q: %s, want %s", command, words, g, h)
				}
			}
			compareForeign(t, w, f, 0)
		})
	}
}

// Lookups and adds of items that are there do not allocate.
func TestImportForeign_allocations(t *testing.T) {
	for _, kind := range foreignKinds {
		db := open(t, "", nil)
		m := newForeign(kind, 640_000, 7)
		m.add([]byte("present"))
		f := bloomext.New(db, "f").With(kv.NoSync)
		if err := f.ImportForeign(t.Context(), bytes.NewReader(m.file(m)), m.how()); err != nil {
			t.Fatal(err)
		}
		items, present := scalableext.Uint64s(make([]uint64, 50)...), make([]bool, 50)
		if _, err := f.AddMany(items, nil); err != nil {
			t.Fatal(err)
		}
		if err := f.MayContainMany(items, present); err != nil {
			t.Fatal(err)
		}
		for i := range 10_000 { // reads every block
			if _, err := f.MayContain(item(i)); err != nil {
				t.Fatal(err)
			}
		}
		for name, call := range map[string]func() error{
			"MayContain":     func() error { _, err := f.MayContain([]byte("present")); return err },
			"MayContainMany": func() error { return f.MayContainMany(items, present) },
			"Add":            func() error { _, err := f.Add([]byte("present")); return err },
		} {
			var err error
			if n := testing.AllocsPerRun(500, func() { err = call() }); n != 0 || err != nil {
				t.Errorf("%s: %s: %v allocations, %v", kind.name, name, n, err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The first bytes of a file tell how long it is.
func TestForeignFile_Size(t *testing.T) {
	for i, kind := range foreignKinds {
		f := newForeign(kind, 650, 3)
		if i < 2 {
			f = newForeign(kind, 640, 3)
		}
		file := f.file(f)
		got, err := f.how().Size(file[:min(bloomext.ForeignHead, len(file))])
		if want := int64(len(file)); kind.name != "redisson" && got != want || kind.name == "redisson" && got < want || err != nil {
			t.Errorf("%s: %d bytes, %v; want %d", kind.name, got, err, want)
		}
	}
	for _, how := range []bloomext.ForeignFile{{Format: bloomext.Guava}, {Format: bloomext.BitsAndBlooms}} {
		if _, err := how.Size(make([]byte, 5)); !errors.Is(err, scalableext.ErrDamaged) {
			t.Errorf("%v: the error of 5 bytes is %v", how.Format, err)
		}
	}
	if _, err := (bloomext.ForeignFile{}).Size(make([]byte, 24)); !errors.Is(err, scalableext.ErrConfig) {
		t.Errorf("without a format the error is %v", err)
	}
}
