package portable_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/portable"
)

// open opens a store in memory.
func open(t testing.TB, seed uint64, change ...func(*sievekv.Options)) *sievekv.DB {
	t.Helper()
	o := &sievekv.Options{InMemory: true, Seed: seed}
	for _, f := range change {
		f(o)
	}
	db, err := sievekv.Open("", o)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func export(t testing.TB, db *sievekv.DB, key string) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, db.Export(t.Context(), key, &b))
	return b.Bytes()
}

// subject is one key to export.
type subject struct {
	name string
	make func(t testing.TB, db *sievekv.DB, key string)
	same func(t *testing.T, a, b *sievekv.DB, key string) // compares all answers
}

func fill(t testing.TB, f sievekv.Filter, n int) {
	t.Helper()
	items := make([]uint64, n)
	for i := range items {
		items[i] = uint64(i)
	}
	_, err := f.AddMany(sievekv.Uint64s(items...), nil)
	must(t, err)
}

// probes is how many items are looked up: up to 30,000 that were added, and others.
var probes = flag.Int("probes", 60_000, "how many items are looked up in each filter")

func sameFilter(of func(db *sievekv.DB, key string) sievekv.Filter) func(t *testing.T, a, b *sievekv.DB, key string) {
	return func(t *testing.T, a, b *sievekv.DB, key string) {
		t.Helper()
		items := make([]uint64, *probes)
		for i := range items {
			items[i] = uint64(i)
		}
		want, have := make([]bool, *probes), make([]bool, *probes)
		must(t, of(a, key).MayContainMany(sievekv.Uint64s(items...), want))
		must(t, of(b, key).MayContainMany(sievekv.Uint64s(items...), have))
		if !slices.Equal(want, have) {
			t.Errorf("lookups differ")
		}
		if n := count(want); n == 0 || n == *probes {
			t.Errorf("%d of %d items are present", n, *probes)
		}
	}
}

func count(answers []bool) (n int) {
	for _, a := range answers {
		if a {
			n++
		}
	}
	return n
}

func sameString(t *testing.T, a, b *sievekv.DB, key string) {
	t.Helper()
	want, err := a.Get(key)
	must(t, err)
	have, err := b.Get(key)
	must(t, err)
	if !bytes.Equal(want, have) {
		t.Errorf("strings of %d and %d bytes differ", len(want), len(have))
	}
}

func bloom(db *sievekv.DB, key string) sievekv.Filter    { return db.Bloom(key) }
func cuckoo(db *sievekv.DB, key string) sievekv.Filter   { return db.Cuckoo(key) }
func counting(db *sievekv.DB, key string) sievekv.Filter { return db.Counting(key) }

var subjects = []subject{
	{"bloom", func(t testing.TB, db *sievekv.DB, key string) {
		must(t, db.Bloom(key).Reserve(sievekv.Capacity(30_000, 0.01), nil))
		fill(t, db.Bloom(key), 20_000)
	}, sameFilter(bloom)},
	{"small bloom", func(t testing.TB, db *sievekv.DB, key string) {
		must(t, db.Bloom(key).Reserve(sievekv.Capacity(100, 0.01), &sievekv.BloomConfig{TTL: time.Hour}))
		fill(t, db.Bloom(key), 50)
	}, sameFilter(bloom)},
	{"bloom with XXH64", func(t testing.TB, db *sievekv.DB, key string) {
		must(t, db.Bloom(key).Reserve(sievekv.Capacity(30_000, 0.001), &sievekv.BloomConfig{Hash: sievekv.HashXXH64}))
		fill(t, db.Bloom(key), 30_000)
	}, sameFilter(bloom)},
	{"grown bloom", func(t testing.TB, db *sievekv.DB, key string) {
		must(t, db.Bloom(key).Reserve(sievekv.Capacity(1000, 0.01), nil))
		fill(t, db.Bloom(key), 20_000)
	}, sameFilter(bloom)},
	{"cuckoo", func(t testing.TB, db *sievekv.DB, key string) {
		must(t, db.Cuckoo(key).Reserve(sievekv.Capacity(20_000, 0.01), nil))
		fill(t, db.Cuckoo(key), 20_000)
		fill(t, db.Cuckoo(key), 5_000)
		_, err := db.Cuckoo(key).Delete(sievekv.Uint64(17))
		must(t, err)
	}, sameFilter(cuckoo)},
	{"grown cuckoo", func(t testing.TB, db *sievekv.DB, key string) {
		must(t, db.Cuckoo(key).Reserve(sievekv.Capacity(8_000, 0), nil))
		fill(t, db.Cuckoo(key), 30_000)
	}, sameFilter(cuckoo)},
	{"counting", func(t testing.TB, db *sievekv.DB, key string) {
		must(t, db.Counting(key).Reserve(sievekv.Capacity(1000, 0.01), nil))
		fill(t, db.Counting(key), 20_000)
		fill(t, db.Counting(key), 1_000)
	}, sameFilter(counting)},
	{"compatible bloom", func(t testing.TB, db *sievekv.DB, key string) {
		must(t, db.Bloom(key).Reserve(sievekv.Capacity(30_000, 0.01), &sievekv.BloomConfig{Layout: sievekv.LayoutCompatible}))
		fill(t, db.Bloom(key), 20_000)
	}, sameFilter(bloom)},
	{"grown compatible bloom", func(t testing.TB, db *sievekv.DB, key string) {
		must(t, db.Bloom(key).Reserve(sievekv.Capacity(1000, 0.01), &sievekv.BloomConfig{Layout: sievekv.LayoutCompatible}))
		fill(t, db.Bloom(key), 20_000)
	}, sameFilter(bloom)},
	{"compatible cuckoo", func(t testing.TB, db *sievekv.DB, key string) {
		must(t, db.Cuckoo(key).Reserve(sievekv.Capacity(40_000, 0), &sievekv.CuckooConfig{Layout: sievekv.LayoutCompatible}))
		fill(t, db.Cuckoo(key), 20_000)
		_, err := db.Cuckoo(key).Delete(sievekv.Uint64(17))
		must(t, err)
	}, sameFilter(cuckoo)},
	{"grown compatible cuckoo", func(t testing.TB, db *sievekv.DB, key string) {
		must(t, db.Cuckoo(key).Reserve(sievekv.Capacity(4_000, 0), &sievekv.CuckooConfig{Expansion: 2, Layout: sievekv.LayoutCompatible}))
		fill(t, db.Cuckoo(key), 20_000)
	}, sameFilter(cuckoo)},
	{"string", func(t testing.TB, db *sievekv.DB, key string) {
		must(t, db.Set(key, []byte("a string")))
	}, sameString},
	{"empty string", func(t testing.TB, db *sievekv.DB, key string) {
		must(t, db.Set(key, nil))
	}, sameString},
	{"large string", func(t testing.TB, db *sievekv.DB, key string) {
		must(t, db.Set(key, bytes.Repeat([]byte("0123456789"), 100_000)))
	}, sameString},
	{"bitmap", func(t testing.TB, db *sievekv.DB, key string) {
		for _, n := range []uint32{0, 3, 70_000, 5_000_000, 90_000_000} {
			_, err := db.Bitmap(key).Set(n)
			must(t, err)
		}
	}, sameString},
}

// A key has the same answers in another store, whose options and seed are others, and what was found wrong with the
// store after it is nothing.
func TestImport(t *testing.T) {
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			a, b := open(t, 1), open(t, 2, func(o *sievekv.Options) {
				o.CacheSize, o.MemTableSize = 1<<20, 4<<20
			})
			s.make(t, a, "from")
			file := export(t, a, "from")
			for _, r := range []io.Reader{bytes.NewReader(file), onlyReader{bytes.NewReader(file)}} {
				must(t, b.ImportWith(t.Context(), "from", r, sievekv.ImportOptions{Replace: true}))
				s.same(t, a, b, "from")
			}
			if ttl, err := b.TTL("from"); ttl != 0 || err != nil {
				t.Errorf("TTL = %v, %v, want 0", ttl, err)
			}
			if again := export(t, b, "from"); !bytes.Equal(again, file) && s.name != "large string" { // there it is in blocks
				t.Errorf("the file of the second store has %d bytes, and differs from that of the first with %d", len(again), len(file))
			}
			sound(t, b, 1)
		})
	}
}

// onlyReader hides that a reader can seek.
type onlyReader struct{ io.Reader }

// sound checks a store with the given number of keys, in which nothing is left to reclaim.
func sound(t testing.TB, db *sievekv.DB, keys uint64) {
	t.Helper()
	for {
		found, err := db.Store().Reclaim(context.Background())
		must(t, err)
		if !found {
			break
		}
	}
	report, err := db.Check(t.Context())
	must(t, err)
	if report.Keys != keys || len(report.Problems) > 0 {
		t.Errorf("%d keys, want %d; problems %v", report.Keys, keys, report.Problems)
	}
	if keys == 0 && report.Blocks > 0 {
		t.Errorf("%d blocks without a key", report.Blocks)
	}
}

// An imported filter goes on growing, and its items can be deleted.
func TestImport_goesOn(t *testing.T) {
	for _, s := range subjects {
		of := map[string]func(*sievekv.DB, string) sievekv.Filter{"grown bloom": bloom, "grown cuckoo": cuckoo, "counting": counting}[s.name]
		if of == nil {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			a, b := open(t, 1), open(t, 2)
			s.make(t, a, "k")
			must(t, b.Import(t.Context(), "k", bytes.NewReader(export(t, a, "k"))))
			for _, db := range []*sievekv.DB{a, b} {
				items := make([]uint64, 20_000)
				for i := range items {
					items[i] = uint64(30_000 + i)
				}
				_, err := of(db, "k").AddMany(sievekv.Uint64s(items...), nil)
				must(t, err)
			}
			s.same(t, a, b, "k")
			sound(t, b, 1)
		})
	}
}

func TestImport_exists(t *testing.T) {
	db := open(t, 1)
	must(t, db.Set("a", []byte("1")))
	must(t, db.Set("b", []byte("2")))
	_, err := db.Expire("b", time.Hour)
	must(t, err)
	file := export(t, db, "a")
	if err := db.Import(t.Context(), "b", bytes.NewReader(file)); !errors.Is(err, sievekv.ErrExists) {
		t.Errorf("Import = %v, want %v", err, sievekv.ErrExists)
	}
	if err := db.Import(t.Context(), "b", iotest.ErrReader(errors.New("nothing is to be read"))); !errors.Is(err, sievekv.ErrExists) {
		t.Errorf("Import = %v, want %v", err, sievekv.ErrExists)
	}
	if v, _ := db.Get("b"); string(v) != "2" {
		t.Errorf("b is %q", v)
	}
	both := sievekv.ImportOptions{Replace: true, Merge: true}
	if err := db.ImportWith(t.Context(), "b", bytes.NewReader(file), both); !errors.Is(err, sievekv.ErrOptions) {
		t.Errorf("Import = %v, want %v", err, sievekv.ErrOptions)
	}
	must(t, db.ImportWith(t.Context(), "b", bytes.NewReader(file), sievekv.ImportOptions{Replace: true}))
	if v, _ := db.Get("b"); string(v) != "1" {
		t.Errorf("b is %q", v)
	}
	if ttl, err := db.TTL("b"); ttl != 0 || err != nil {
		t.Errorf("TTL = %v, %v", ttl, err)
	}
	if err := db.Export(t.Context(), "c", io.Discard); !errors.Is(err, sievekv.ErrNotFound) {
		t.Errorf("Export = %v, want %v", err, sievekv.ErrNotFound)
	}
}

// A key that appears while the file is read is not replaced.
func TestImport_existsByThen(t *testing.T) {
	db := open(t, 1)
	must(t, db.Set("a", []byte("1")))
	file := export(t, db, "a")
	r := &hook{Reader: bytes.NewReader(file), do: func() { must(t, db.Set("b", []byte("2"))) }}
	if err := db.Import(t.Context(), "b", r); !errors.Is(err, sievekv.ErrExists) {
		t.Errorf("Import = %v, want %v", err, sievekv.ErrExists)
	}
	if v, _ := db.Get("b"); string(v) != "2" {
		t.Errorf("b is %q", v)
	}
}

// hook calls do before the first read.
type hook struct {
	io.Reader
	do func()
}

func (h *hook) Read(b []byte) (int, error) {
	if h.do != nil {
		h.do()
		h.do = nil
	}
	return h.Reader.Read(b)
}

func TestImport_merge(t *testing.T) {
	merge := sievekv.ImportOptions{Merge: true}
	for name, make := range map[string]func(db *sievekv.DB) sievekv.Filter{
		"bloom": func(db *sievekv.DB) sievekv.Filter {
			must(t, db.Bloom("k").Reserve(sievekv.Capacity(10_000, 0.01), nil))
			return db.Bloom("k")
		},
		"counting": func(db *sievekv.DB) sievekv.Filter {
			must(t, db.Counting("k").Reserve(sievekv.Capacity(10_000, 0.01), nil))
			return db.Counting("k")
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, other := open(t, 7), open(t, 7), open(t, 8)
			for db, item := range map[*sievekv.DB]string{a: "of a", b: "of b", other: "of other"} {
				_, err := make(db).AddString(item)
				must(t, err)
			}
			f := map[string]func(*sievekv.DB, string) sievekv.Filter{"bloom": bloom, "counting": counting}[name](b, "k")
			must(t, b.ImportWith(t.Context(), "k", bytes.NewReader(export(t, a, "k")), merge))
			for _, item := range []string{"of a", "of b"} {
				if present, err := f.MayContainString(item); !present || err != nil {
					t.Errorf("MayContain(%q) = %t, %v", item, present, err)
				}
			}
			err := b.ImportWith(t.Context(), "k", bytes.NewReader(export(t, other, "k")), merge)
			if !errors.Is(err, sievekv.ErrUnequal) {
				t.Errorf("Import = %v, want %v", err, sievekv.ErrUnequal)
			}
			if present, _ := f.MayContainString("of other"); present {
				t.Errorf("a filter that cannot be merged was merged")
			}
			must(t, b.ImportWith(t.Context(), "new", bytes.NewReader(export(t, other, "k")), merge))
			must(t, b.Set("s", []byte("s")))
			if err := b.ImportWith(t.Context(), "s", bytes.NewReader(export(t, a, "k")), merge); !errors.Is(err, sievekv.ErrWrongType) {
				t.Errorf("Import = %v, want %v", err, sievekv.ErrWrongType)
			}
			if err := b.ImportWith(t.Context(), "s", bytes.NewReader(export(t, b, "s")), merge); !errors.Is(err, sievekv.ErrWrongType) {
				t.Errorf("Import = %v, want %v", err, sievekv.ErrWrongType)
			}
			sound(t, b, 3)
		})
	}
}

// Bloom filters with the compatible layout are merged, cuckoo filters are not: what was there stays as it is.
func TestImport_mergeCompatible(t *testing.T) {
	a, b := open(t, 7), open(t, 7)
	for db, item := range map[*sievekv.DB]string{a: "of a", b: "of b"} {
		must(t, db.Bloom("bloom").Reserve(sievekv.Capacity(10_000, 0.01), &sievekv.BloomConfig{Layout: sievekv.LayoutCompatible}))
		must(t, db.Cuckoo("cuckoo").Reserve(sievekv.Capacity(10_000, 0), &sievekv.CuckooConfig{Layout: sievekv.LayoutCompatible}))
		for _, f := range []sievekv.Filter{db.Bloom("bloom"), db.Cuckoo("cuckoo")} {
			_, err := f.AddString(item)
			must(t, err)
		}
	}
	merge := sievekv.ImportOptions{Merge: true}
	must(t, b.ImportWith(t.Context(), "bloom", bytes.NewReader(export(t, a, "bloom")), merge))
	if err := b.ImportWith(t.Context(), "cuckoo", bytes.NewReader(export(t, a, "cuckoo")), merge); !errors.Is(err, sievekv.ErrWrongType) {
		t.Errorf("Import of a cuckoo filter = %v, want %v", err, sievekv.ErrWrongType)
	}
	for key, f := range map[string]sievekv.Filter{"bloom": b.Bloom("bloom"), "cuckoo": b.Cuckoo("cuckoo")} {
		for item, want := range map[string]bool{"of a": key == "bloom", "of b": true, "of none": false} {
			if present, err := f.MayContainString(item); present != want || err != nil {
				t.Errorf("%s: MayContain(%q) = %t, %v", key, item, present, err)
			}
		}
	}
	sound(t, b, 2)
}

// Wherever a file is cut or damaged, it is refused with the place; there is nothing under the key then, and nothing is
// left behind.
func TestImport_damaged(t *testing.T) {
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			from, db := open(t, 1), open(t, 2)
			s.make(t, from, "k")
			file := export(t, from, "k")
			step := max(1, len(file)/150)
			if race { // to save time
				step = max(1, len(file)/20)
			}
			for i := 0; i < len(file); i++ {
				if (race || i > 300) && i < len(file)-20 && i%step != 0 {
					continue
				}
				refused(t, db, file[:i], fmt.Sprintf("cut at %d", i))
				flipped := slices.Clone(file)
				flipped[i] ^= 1 << (i % 8)
				refused(t, db, flipped, fmt.Sprintf("byte %d flipped", i))
			}
			refused(t, db, append(slices.Clone(file), 0), "one byte more")
			refused(t, db, append(slices.Clone(file), file...), "twice")
			sound(t, db, 0)
		})
	}
}

// A file that cannot be read, at whatever byte, or behind its end, is not called damaged.
func TestImport_unreadable(t *testing.T) {
	db := open(t, 1)
	must(t, db.Bloom("a").Reserve(sievekv.Capacity(10, 0.1), nil))
	_, err := db.Bloom("a").AddString("x")
	must(t, err)
	file := export(t, db, "a")
	broken := errors.New("the disk is broken")
	for n := range len(file) + 1 {
		reader := func() io.Reader { return io.MultiReader(bytes.NewReader(file[:n]), iotest.ErrReader(broken)) }
		_, rerr := sievekv.ReadFilter(reader())
		for name, err := range map[string]error{"Import": db.Import(t.Context(), "b", reader()), "ReadFilter": rerr} {
			if !errors.Is(err, broken) || errors.Is(err, sievekv.ErrDamaged) {
				t.Errorf("%s after %d bytes = %v", name, n, err)
			}
		}
	}
}

func refused(t *testing.T, db *sievekv.DB, file []byte, what string) {
	t.Helper()
	err := db.Import(t.Context(), "k", bytes.NewReader(file))
	newer := errors.Is(err, sievekv.ErrUnsupportedVersion) && strings.HasSuffix(what, "byte 8 flipped")
	if !newer && (!errors.Is(err, sievekv.ErrDamaged) || !strings.Contains(err.Error(), "at byte ")) {
		t.Fatalf("%s: Import = %v, want %v with the place", what, err, sievekv.ErrDamaged)
	}
	if _, err := sievekv.ReadFilter(bytes.NewReader(file)); err == nil {
		t.Fatalf("%s: ReadFilter has no error", what)
	}
	if n, err := db.Exists("k"); n != 0 || err != nil {
		t.Fatalf("%s: Exists = %d, %v", what, n, err)
	}
}

// A file that changes after it was checked is refused, too, and what was written ahead is reclaimed.
func TestImport_changedMeanwhile(t *testing.T) {
	from, db := open(t, 1), open(t, 2)
	must(t, from.Bloom("k").Reserve(sievekv.Capacity(3_000_000, 0.01), nil))
	fill(t, from.Bloom("k"), 1_000_000)
	file := export(t, from, "k")
	r := &changing{Reader: *bytes.NewReader(file), to: file[:len(file)-1000]}
	if err := db.Import(t.Context(), "k", r); !errors.Is(err, sievekv.ErrDamaged) {
		t.Errorf("Import = %v, want %v", err, sievekv.ErrDamaged)
	}
	sound(t, db, 0)
}

// changing is a file that is another from the second reading on.
type changing struct {
	bytes.Reader
	to []byte
}

func (c *changing) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekStart {
		c.Reset(c.to)
	}
	return c.Reader.Seek(offset, whence)
}

func TestImport_canceled(t *testing.T) {
	from, db := open(t, 1), open(t, 2)
	subjects[0].make(t, from, "k")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Import(ctx, "k", bytes.NewReader(export(t, from, "k"))); !errors.Is(err, context.Canceled) {
		t.Errorf("Import = %v, want %v", err, context.Canceled)
	}
	if err := from.Export(ctx, "k", io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("Export = %v, want %v", err, context.Canceled)
	}
	sound(t, db, 0)
}

func TestImport_tooLarge(t *testing.T) {
	from, db := open(t, 1), open(t, 2, func(o *sievekv.Options) { o.MaxFilterBytes = 10_000 })
	subjects[0].make(t, from, "k")
	if err := db.Import(t.Context(), "k", bytes.NewReader(export(t, from, "k"))); !errors.Is(err, sievekv.ErrTooLarge) {
		t.Errorf("Import = %v, want %v", err, sievekv.ErrTooLarge)
	}
	sound(t, db, 0)
}

// An import that reads from the transaction of a goroutine says so, and does not wait for itself.
func TestImport_inTransaction(t *testing.T) {
	db := open(t, 1)
	must(t, db.Set("a", []byte("1")))
	file := export(t, db, "a")
	err := db.Update(t.Context(), func(tx *sievekv.Tx) error {
		return db.Import(t.Context(), "b", bytes.NewReader(file))
	})
	if !errors.Is(err, sievekv.ErrNested) {
		t.Errorf("Import = %v, want %v", err, sievekv.ErrNested)
	}
}

// A snapshot exports what was there.
func TestSnapshot_Export(t *testing.T) {
	db := open(t, 1)
	subjects[0].make(t, db, "k")
	want := export(t, db, "k")
	must(t, db.View(t.Context(), func(s *sievekv.Snapshot) error {
		fill(t, db.Bloom("k"), 30_000)
		var b bytes.Buffer
		must(t, s.Export(t.Context(), "k", &b))
		if !bytes.Equal(b.Bytes(), want) {
			t.Errorf("the snapshot's file has %d bytes, want the %d from before", b.Len(), len(want))
		}
		return nil
	}))
	if bytes.Equal(export(t, db, "k"), want) {
		t.Errorf("the adds changed nothing")
	}
}

func TestDescribe(t *testing.T) {
	db := open(t, 1)
	subjects[3].make(t, db, "k")
	file := export(t, db, "k")
	info, err := portable.Describe(t.Context(), bytes.NewReader(file))
	must(t, err)
	if !info.Whole || info.Type != "MBbloom--" || info.FileBytes != int64(len(file)) || info.Blocks == 0 {
		t.Errorf("Describe = %+v", info)
	}
	facts := make(map[string]any)
	for _, f := range info.Facts {
		facts[f.Name] = f.Value
	}
	stored, err := db.Bloom("k").Info()
	must(t, err)
	if facts["items"] != stored.Items || facts["capacity"] != stored.Capacity || info.Bytes != stored.Bytes {
		t.Errorf("Describe = %+v, Info = %+v", info, stored)
	}
	info, err = portable.Describe(t.Context(), bytes.NewReader(file[:len(file)-1]))
	if info.Whole || info.Type != "MBbloom--" || !errors.Is(err, portable.ErrDamaged) {
		t.Errorf("Describe = %+v, %v", info, err)
	}
	for _, s := range subjects { // as SIEVE.STATS has them
		db := open(t, 3)
		s.make(t, db, "k")
		info, err := portable.Describe(t.Context(), bytes.NewReader(export(t, db, "k")))
		must(t, err)
		var stats *kv.KeyStats
		must(t, db.Store().Read(func(r kv.Reader) (err error) {
			stats, err = r.Stats([]byte("k"))
			return err
		}))
		have, want := slices.Clone(info.Facts), slices.Clone(stats.Facts)
		notOfStore := func(f kv.Fact) bool { // a setting, and how the filter was used
			return slices.Contains([]string{"max_layers", "lookups_yes", "lookups_no", "adds_new", "adds_known"}, f.Name)
		}
		have, want = slices.DeleteFunc(have, notOfStore), slices.DeleteFunc(want, notOfStore)
		if info.Type != stats.Type || info.Bytes != stats.Bytes || fmt.Sprint(have) != fmt.Sprint(want) {
			t.Errorf("%s: Describe = %+v, want %+v", s.name, info, *stats)
		}
	}
}

func TestFilter(t *testing.T) {
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			db := open(t, 1)
			s.make(t, db, "k")
			file := export(t, db, "k")
			f, err := sievekv.ReadFilter(bytes.NewReader(file))
			of := map[string]func(*sievekv.DB, string) sievekv.Filter{"MBbloom--": bloom, "MBbloomCF": cuckoo, "CBloom---": counting}
			name, terr := db.TypeOf("k")
			must(t, terr)
			if of[name] == nil {
				if !errors.Is(err, sievekv.ErrWrongType) {
					t.Errorf("ReadFilter = %v, want %v", err, sievekv.ErrWrongType)
				}
				return
			}
			must(t, err)
			var copied sievekv.FrozenFilter
			data, err := f.MarshalBinary()
			must(t, err)
			if !bytes.Equal(data, file) {
				t.Errorf("MarshalBinary has %d bytes, and differs from the file with %d", len(data), len(file))
			}
			must(t, copied.UnmarshalBinary(data))
			stored := of[name](db, "k")
			for i := range uint64(*probes) {
				want, err := stored.MayContain(sievekv.Uint64(i))
				must(t, err)
				if have := copied.MayContain(sievekv.Uint64(i)); have != want {
					t.Fatalf("MayContain(%d) = %t, want %t", i, have, want)
				}
			}
			for _, item := range []string{"\x11\x00\x00\x00\x00\x00\x00\x00", "abc"} {
				want := uint64(0)
				switch name {
				case "MBbloomCF":
					n, err := db.Cuckoo("k").CountString(item)
					must(t, err)
					want = uint64(n)
				case "CBloom---":
					n, err := db.Counting("k").CountString(item)
					must(t, err)
					want = uint64(n)
				default:
					if present, _ := stored.MayContainString(item); present {
						want = 1
					}
				}
				if n := f.CountString(item); n != want || f.MayContainString(item) != (want > 0) {
					t.Errorf("Count(%q) = %d, want %d", item, n, want)
				}
			}
		})
	}
	var zero sievekv.FrozenFilter
	if !zero.MayContainString("a") || zero.CountString("a") != 0 {
		t.Errorf("a filter that has not been read says that an item is absent")
	}
	if _, err := zero.MarshalBinary(); err == nil {
		t.Errorf("a filter that has not been read was written")
	}
	var w failing
	db := open(t, 1)
	subjects[0].make(t, db, "k")
	f, err := sievekv.ReadFilter(bytes.NewReader(export(t, db, "k")))
	must(t, err)
	for w.after = range 5 {
		if _, err := f.WriteTo(&w); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("WriteTo = %v after %d writes, want %v", err, w.after, io.ErrShortWrite)
		}
		w.n = 0
		if err := db.Export(t.Context(), "k", &w); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("Export = %v after %d writes, want %v", err, w.after, io.ErrShortWrite)
		}
		w.n = 0
	}
}

// failing takes a number of writes, and then fails.
type failing struct{ after, n int }

func (f *failing) Write(b []byte) (int, error) {
	if f.n++; f.n > min(f.after, 2) {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

// The temporary file of an import is removed.
func TestImport_temporary(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"TMPDIR", "TMP", "TEMP"} {
		t.Setenv(name, dir)
	}
	db := open(t, 1)
	must(t, db.Set("a", []byte("1")))
	file := export(t, db, "a")
	must(t, db.Import(t.Context(), "b", onlyReader{bytes.NewReader(file)}))
	if err := db.Import(t.Context(), "c", onlyReader{bytes.NewReader(file[:20])}); !errors.Is(err, sievekv.ErrDamaged) {
		t.Errorf("Import = %v, want %v", err, sievekv.ErrDamaged)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 || err != nil {
		t.Errorf("left behind: %q, %v", left, err)
	}
	must(t, os.Remove(dir))
	if err := db.Import(t.Context(), "c", onlyReader{bytes.NewReader(file)}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Import = %v, want %v", err, os.ErrNotExist)
	}
}
