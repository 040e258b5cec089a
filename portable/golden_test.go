package portable_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/portable"
)

var update = flag.Bool("update", false, "write the golden files")

// small are keys whose files are short.
var small = map[string]func(t testing.TB, db *sievekv.DB){
	"bloom": func(t testing.TB, db *sievekv.DB) {
		must(t, db.Bloom("k").Reserve(sievekv.Capacity(100, 0.01), &sievekv.BloomConfig{GrowthLog: -1}))
		fill(t, db.Bloom("k"), 20)
	},
	"bloom-grown": func(t testing.TB, db *sievekv.DB) {
		must(t, db.Bloom("k").Reserve(sievekv.Capacity(20, 0.01), &sievekv.BloomConfig{Hash: sievekv.HashXXH64, GrowthLog: -1}))
		fill(t, db.Bloom("k"), 50)
	},
	"cuckoo": func(t testing.TB, db *sievekv.DB) {
		must(t, db.Cuckoo("k").Reserve(sievekv.Capacity(1000, 0), nil))
		fill(t, db.Cuckoo("k"), 20)
		fill(t, db.Cuckoo("k"), 10)
	},
	"cuckoo-cut": func(t testing.TB, db *sievekv.DB) {
		must(t, db.Cuckoo("k").Reserve(sievekv.Capacity(3000, 0), nil))
		fill(t, db.Cuckoo("k"), 20)
	},
	"cuckoo-whole": func(t testing.TB, db *sievekv.DB) { // no filter of this capacity is made with whole blocks any more
		file, err := os.ReadFile(filepath.Join("testdata", "cuckoo-whole.svkf"))
		must(t, err)
		must(t, db.Import(t.Context(), "k", bytes.NewReader(file)))
	},
	"counting": func(t testing.TB, db *sievekv.DB) {
		must(t, db.Counting("k").Reserve(sievekv.Capacity(20, 0.01), nil))
		fill(t, db.Counting("k"), 50)
		fill(t, db.Counting("k"), 10)
	},
	"string": func(t testing.TB, db *sievekv.DB) { must(t, db.Set("k", []byte("a string"))) },
	"bitmap": func(t testing.TB, db *sievekv.DB) {
		for _, n := range []uint32{1, 80_000, 40_000_000} {
			_, err := db.Bitmap("k").Set(n)
			must(t, err)
		}
	},
}

// The format does not change: the files are the same bytes as ever, and those in testdata can be read.
func TestGolden(t *testing.T) {
	for name, make := range small {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name+".svkf")
			db := open(t, 20261124)
			make(t, db)
			file := export(t, db, "k")
			if *update {
				must(t, os.WriteFile(path, file, 0o666))
			}
			want, err := os.ReadFile(path)
			must(t, err)
			if !bytes.Equal(file, want) {
				t.Errorf("the file has %d bytes, and differs from %s with %d", len(file), path, len(want))
			}
			must(t, db.ImportWith(t.Context(), "k", bytes.NewReader(want), sievekv.ImportOptions{Replace: true}))
			sound(t, db, 1)
		})
	}
	if n := len(golden(t)); n != len(small) {
		t.Errorf("%d golden files, want %d", n, len(small))
	}
}

// A filter that was salvaged with losses is marked in its file, in what is imported, and in what that is merged into.
func TestImport_lossy(t *testing.T) {
	db := open(t, 20261124)
	file, err := os.ReadFile(filepath.Join("testdata", "bloom.svkf"))
	must(t, err)
	must(t, db.Import(t.Context(), "k", bytes.NewReader(file)))
	marked := bytes.Clone(file)
	marked[bytes.Index(marked, []byte("MBbloom--"))-2] += 2 // the type code
	marked = portable.Repaired(marked)
	lossy := func(key string) bool {
		info, err := db.Bloom(key).Info()
		must(t, err)
		return info.Lossy
	}
	must(t, db.Import(t.Context(), "lossy", bytes.NewReader(marked)))
	if lossy("k") || !lossy("lossy") {
		t.Errorf("marked: %t, %t", lossy("k"), lossy("lossy"))
	}
	must(t, db.ImportWith(t.Context(), "k", bytes.NewReader(marked), sievekv.ImportOptions{Merge: true}))
	if !lossy("k") {
		t.Error("what it is merged into is not marked")
	}
	if !bytes.Equal(export(t, db, "lossy"), marked) {
		t.Error("what is exported again differs")
	}
	frozen, err := sievekv.ReadFilter(bytes.NewReader(marked))
	must(t, err)
	again, err := frozen.MarshalBinary()
	must(t, err)
	if !bytes.Equal(again, marked) || fmt.Sprint(frozen.Info().Facts[0]) != "{lossy true}" {
		t.Errorf("%v", frozen.Info().Facts)
	}
}

// A file of a newer format is refused by its number, and so is one with a newer type.
func TestImport_newer(t *testing.T) {
	db := open(t, 1)
	file, err := os.ReadFile(filepath.Join("testdata", "bloom.svkf"))
	must(t, err)
	for name, at := range map[string]int{"file": portable.PrefixLen - 1, "header": portable.PrefixLen + 5 + 1, "type": bytes.Index(file, []byte("MBbloom--")) + 9 + 3} {
		newer := bytes.Clone(file)
		newer[at]++
		err := db.Import(t.Context(), "k", bytes.NewReader(portable.Repaired(newer)))
		if !errors.Is(err, sievekv.ErrUnsupportedVersion) || errors.Is(err, sievekv.ErrDamaged) || !strings.Contains(err.Error(), "has format 2, this program knows 1") {
			t.Errorf("%s: Import = %v, want %v", name, err, sievekv.ErrUnsupportedVersion)
		}
	}
	other := bytes.Replace(file, []byte("MBbloom--"), []byte("MBbloomXX"), 1)
	if err := db.Import(t.Context(), "k", bytes.NewReader(portable.Repaired(other))); !errors.Is(err, sievekv.ErrNoModule) {
		t.Errorf("Import = %v, want %v", err, sievekv.ErrNoModule)
	}
	sound(t, db, 0)
}

// Checksums that are right do not make a file sound.
func TestImport_hostile(t *testing.T) {
	db := open(t, 1)
	for name := range small {
		file, err := os.ReadFile(filepath.Join("testdata", name+".svkf"))
		must(t, err)
		step := 1
		if race { // to save time
			step = 7
		}
		for i := portable.PrefixLen; i < len(file); i += step {
			for _, bit := range []byte{1, 0x10, 0x80} {
				changed := bytes.Clone(file)
				changed[i] ^= bit
				accepted(t, db, portable.Repaired(changed))
			}
		}
	}
	sound(t, db, 0)
}

// forge returns a file with another header or other chunks, whose checksums are right. Each chunk is a kind and a payload.
func forgedFile(file []byte, change func(chunks [][]byte) [][]byte) []byte {
	var chunks [][]byte
	for rest := file[portable.PrefixLen:]; len(rest) > 0; {
		n := int(binary.LittleEndian.Uint32(rest[1:]))
		chunks = append(chunks, append([]byte{rest[0]}, rest[5:5+n]...))
		rest = rest[5+n+4:]
	}
	forged := bytes.Clone(file[:portable.PrefixLen])
	for _, c := range change(chunks) {
		forged = binary.LittleEndian.AppendUint32(append(forged, c[0]), uint32(len(c)-1))
		forged = append(append(forged, c[1:]...), 0, 0, 0, 0)
	}
	return portable.Repaired(forged)
}

// Every field is checked, though all checksums are right.
func TestImport_forged(t *testing.T) {
	db := open(t, 1)
	file, err := os.ReadFile(filepath.Join("testdata", "bloom-grown.svkf"))
	must(t, err)
	blocks := func(list ...[]byte) []byte { return append([]byte{2}, bytes.Join(list, nil)...) }
	for name, change := range map[string]func(chunks [][]byte) [][]byte{
		"more in the header":   func(c [][]byte) [][]byte { c[0] = append(c[0], 0); return c },
		"two headers":          func(c [][]byte) [][]byte { return [][]byte{c[0], c[0], c[1], c[2]} },
		"no header":            func(c [][]byte) [][]byte { return c[1:] },
		"no blocks":            func(c [][]byte) [][]byte { return [][]byte{c[0], {4, 0}} },
		"an empty chunk":       func(c [][]byte) [][]byte { return [][]byte{c[0], {2}, c[1], c[2]} },
		"an unknown chunk":     func(c [][]byte) [][]byte { return [][]byte{c[0], c[1], {5, 1}, c[2]} },
		"bytes of a string":    func(c [][]byte) [][]byte { return [][]byte{c[0], c[1], {3, 1}, c[2]} },
		"blocks twice":         func(c [][]byte) [][]byte { return [][]byte{c[0], c[1], c[1], {4, 2 * c[2][1]}} },
		"another number":       func(c [][]byte) [][]byte { c[2][1]++; return c },
		"more in the end":      func(c [][]byte) [][]byte { c[2] = append(c[2], 0); return c },
		"no number":            func(c [][]byte) [][]byte { c[2] = c[2][:1]; return c },
		"a layer too many":     func(c [][]byte) [][]byte { c[1] = blocks([]byte{9, 0, 1, 0}); return c },
		"a block too many":     func(c [][]byte) [][]byte { c[1][2] = 1; return c },
		"a block cut short":    func(c [][]byte) [][]byte { c[1] = c[1][:len(c[1])-1]; return c },
		"a change for a block": func(c [][]byte) [][]byte { c[1] = blocks([]byte{0, 0, 3, 0x10, 1, 0}); c[2] = []byte{4, 1}; return c },
		"an endless number":    func(c [][]byte) [][]byte { c[1] = blocks(bytes.Repeat([]byte{0xff}, 11)); return c },
		"an empty block":       func(c [][]byte) [][]byte { c[1] = blocks([]byte{0, 0, 0}); c[2] = []byte{4, 1}; return c },
	} {
		forged := forgedFile(file, change)
		err := db.Import(t.Context(), "k", bytes.NewReader(forged))
		if !errors.Is(err, sievekv.ErrDamaged) || !strings.Contains(err.Error(), "at byte ") {
			t.Errorf("%s: Import = %v, want %v", name, err, sievekv.ErrDamaged)
		}
	}
	for n := range portable.HeaderLen(file) {
		forged := forgedFile(file, func(c [][]byte) [][]byte { c[0] = c[0][:1+n]; return c })
		if err := db.Import(t.Context(), "k", bytes.NewReader(forged)); !errors.Is(err, sievekv.ErrDamaged) {
			t.Errorf("a header of %d bytes: Import = %v, want %v", n, err, sievekv.ErrDamaged)
		}
	}
	must(t, db.Bloom("empty").Reserve(sievekv.Capacity(10, 0.1), nil))
	endless := forgedFile(export(t, db, "empty"), func(c [][]byte) [][]byte { return [][]byte{c[0], {4}} })
	if err := db.Import(t.Context(), "k", bytes.NewReader(endless)); !errors.Is(err, sievekv.ErrDamaged) {
		t.Errorf("an end without a number: Import = %v, want %v", err, sievekv.ErrDamaged)
	}
	_, err = db.Delete("empty")
	must(t, err)
	// Verifying a bitmap does not find these.
	bitmap, err := os.ReadFile(filepath.Join("testdata", "bitmap.svkf"))
	must(t, err)
	operand := block.AppendSlotsOperand(nil, block.FamilySlots8, []block.Slot{{Index: 0, Value: 0x40}})
	for name, change := range map[string]func(chunks [][]byte) [][]byte{
		"blocks of a bitmap twice": func(c [][]byte) [][]byte { return [][]byte{c[0], c[1], c[1], {4, 2 * c[2][1]}} },
		"a block of a bitmap twice": func(c [][]byte) [][]byte {
			c[1] = blocks(c[1][1:4+c[1][3]], c[1][1:])
			c[2][1]++
			return c
		},
		"a change for a block of a bitmap": func(c [][]byte) [][]byte {
			rest := c[1][4+c[1][3]:]
			c[1] = blocks([]byte{0, 0, byte(len(operand))}, operand, rest)
			return c
		},
	} {
		if err := db.Import(t.Context(), "k", bytes.NewReader(forgedFile(bitmap, change))); !errors.Is(err, sievekv.ErrDamaged) {
			t.Errorf("%s: Import = %v, want %v", name, err, sievekv.ErrDamaged)
		}
	}
	same := forgedFile(file, func(c [][]byte) [][]byte { return c })
	if !bytes.Equal(same, file) {
		t.Errorf("a file that is not changed is another")
	}
	sound(t, db, 0)
}

// A chunk that is right where it stood is not right at another place or in another file.
func TestImport_moved(t *testing.T) {
	db := open(t, 1)
	must(t, db.Set("a", bytes.Repeat([]byte("a"), 200_000)))
	must(t, db.Bloom("b").Reserve(sievekv.Capacity(100, 0.01), nil))
	a := export(t, db, "a")
	const chunk = 5 + 64<<10 + 4
	header := portable.PrefixLen + 5 + int(a[portable.PrefixLen+1]) + 4
	first, rest := a[:header], a[header:]
	twice := bytes.Join([][]byte{first, rest[:chunk], rest[:chunk], rest[2*chunk:]}, nil)
	if len(twice) != len(a) || bytes.Equal(twice, a) {
		t.Fatalf("the chunks are not where they are expected")
	}
	if err := db.Import(t.Context(), "k", bytes.NewReader(twice)); !errors.Is(err, sievekv.ErrDamaged) {
		t.Errorf("a chunk at another place: Import = %v, want %v", err, sievekv.ErrDamaged)
	}
	// Two filters that differ in their secrets alone.
	other := open(t, 2)
	var files [][]byte
	for _, db := range []*sievekv.DB{db, other} {
		must(t, db.Bloom("c").Reserve(sievekv.Capacity(100, 0.01), nil))
		_, err := db.Bloom("c").AddString("c")
		must(t, err)
		files = append(files, export(t, db, "c"))
	}
	at := portable.PrefixLen + 5 + int(binary.LittleEndian.Uint32(files[0][portable.PrefixLen+1:])) + 4
	mixed := append(bytes.Clone(files[0][:at]), files[1][at:]...)
	if err := db.Import(t.Context(), "k", bytes.NewReader(mixed)); !errors.Is(err, sievekv.ErrDamaged) {
		t.Errorf("chunks of another file: Import = %v, want %v", err, sievekv.ErrDamaged)
	}
	sound(t, db, 3)
}

// The blocks of a file that has far less bytes than they have are kept as they are in the file, beyond a limit.
func TestFilter_memory(t *testing.T) {
	db := open(t, 1)
	must(t, db.Bloom("k").Reserve(sievekv.Capacity(100_000_000, 0.01), nil))
	fill(t, db.Bloom("k"), 40_000)
	file := export(t, db, "k")
	f, err := sievekv.ReadFilter(bytes.NewReader(file))
	must(t, err)
	if n, most := f.Memory(), 64<<20+17*len(file); n > most || n < 32<<20 {
		t.Errorf("blocks take %d bytes, want at most %d for a file of %d", n, most, len(file))
	}
	for i := range uint64(60_000) {
		want, err := db.Bloom("k").MayContain(sievekv.Uint64(i))
		must(t, err)
		if f.MayContain(sievekv.Uint64(i)) != want {
			t.Fatalf("MayContain(%d) = %t, want %t", i, !want, want)
		}
	}
	again, err := f.MarshalBinary()
	must(t, err)
	if !bytes.Equal(again, file) {
		t.Errorf("MarshalBinary differs from the file")
	}
}

// A file that is damaged at its end is not read a second time, for writing.
func TestImport_checksFirst(t *testing.T) {
	db := open(t, 1)
	file, err := os.ReadFile(filepath.Join("testdata", "bloom.svkf"))
	must(t, err)
	r := &changing{Reader: *bytes.NewReader(file[:len(file)-1]), to: file}
	if err := db.Import(t.Context(), "k", r); !errors.Is(err, sievekv.ErrDamaged) {
		t.Errorf("Import = %v, want %v", err, sievekv.ErrDamaged)
	}
	sound(t, db, 0)
}
