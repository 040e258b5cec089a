package check

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
	"github.com/sievekv/sievekv/internal/storage/remains"
)

// forged is a store of two keys: "s", a string that expires at 9, and "f", object 1 with a layer 3 of two blocks. Its type is to
// be called at 20. A key's hash begins with its first byte.
type forged struct {
	*storage.Store
	fs *vfs.MemFS
	t  *testing.T

	lost     []remains.Range // that cannot be read
	damage   []remains.Range // that Damage returns
	looks    int
	fails    error              // of reading what is lost; nil means that it is damaged
	stop     context.CancelFunc // is called by a read of what is lost
	badParam bool
	note     string
	wake     int64
	unknown  bool // what wake is
	usable   error
	done     error
	doneNote string
}

const (
	expiry = 9
	wakeAt = 20
)

func newForged(t *testing.T) *forged {
	fs := vfs.NewMem()
	s, err := storage.Open("store", storage.Options{FS: fs, MemTableSize: 64 << 10, Logger: slog.New(slog.DiscardHandler), Failed: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.End(func() bool { return false })
		_ = s.Close()
	})
	f := &forged{Store: s, fs: fs, t: t, wake: wakeAt}
	f.header("s", format.StringHeader([]byte{format.EncodingBytes, 'x'}, expiry))
	f.set(format.AppendExpiryKey(nil, expiry, []byte("s")), nil)
	f.header("f", f.filter(1))
	f.set(format.AppendWakeKey(nil, wakeAt, []byte("f")), nil)
	f.set(format.AppendCountersKey(nil, 1, 3), format.AppendCounters(nil, [format.NumCounters]uint64{}))
	f.set(format.AppendBlockKey(nil, 1, 3, 0), []byte("block"))
	return f
}

func (f *forged) filter(id uint64) *format.Header {
	return &format.Header{TypeName: "type", Module: "module", ID: id, Family: block.FamilyBits, Layers: []format.LayerSpec{{Number: 3, Blocks: 2, Lines: 1}}}
}

func (f *forged) commit(change func(b *storage.Batch)) {
	f.t.Helper()
	var b storage.Batch
	change(&b)
	if _, err := f.Commit(&b, storage.Now); err != nil {
		f.t.Fatal(err)
	}
}

func (f *forged) set(key, value []byte) {
	f.t.Helper()
	f.commit(func(b *storage.Batch) { b.Set(key, value) })
}

func (f *forged) remove(key []byte) {
	f.t.Helper()
	f.commit(func(b *storage.Batch) { b.Delete(key) })
}

func (f *forged) header(key string, h *format.Header) {
	f.t.Helper()
	f.set(headerKey(key), format.AppendHeader(nil, h))
}

func headerKey(key string) []byte { return format.AppendHeaderKey(nil, hashOf(key), []byte(key)) }

func hashOf(key string) uint64 { return uint64(key[0]) << 56 }

// lose makes the range from low to high unreadable. Damage knows it.
func (f *forged) lose(low, high []byte) {
	f.lost = append(f.lost, remains.Range{Low: low, High: high})
	f.damage = f.lost
}

func (f *forged) loseObject(id uint64) {
	f.lose(format.AppendObjectKey(nil, id), format.AppendBlockKey(nil, id, 1000, 0))
}

func (f *forged) NewIterWithContext(ctx context.Context, o *storage.IterOptions) (*storage.Iterator, error) {
	if Overlaps(f.lost, o.LowerBound, o.UpperBound) {
		if f.stop != nil {
			f.stop()
		}
		return nil, cmp.Or(f.fails, error(block.ErrCorrupt))
	}
	return f.Store.NewIterWithContext(ctx, o)
}

func (f *forged) Get(key []byte) ([]byte, io.Closer, error) {
	if Overlaps(f.lost, key, append(bytes.Clone(key), 0)) {
		return nil, nil, format.ErrCorrupt
	}
	return f.Store.Get(key)
}

func (f *forged) Hash(key []byte) uint64 { return hashOf(string(key)) }

func (f *forged) String(h *format.Header) error {
	_, err := format.StringOf(h)
	return err
}

func (f *forged) Damage(ctx context.Context) ([]remains.Range, []string, error) {
	f.looks++
	return f.damage, []string{"a table"}, ctx.Err()
}

func (f *forged) Object(string, *format.Header) (Object, string, error) {
	if f.badParam {
		return nil, "", format.Corruptf("parameters")
	}
	return forgedObject{f}, f.note, nil
}

type forgedObject struct{ f *forged }

func (o forgedObject) Wake() (at int64, known bool)                { return o.f.wake, !o.f.unknown }
func (o forgedObject) Counters(uint64, [format.NumCounters]uint64) {}
func (o forgedObject) Usable() error                               { return o.f.usable }
func (o forgedObject) Done() (note string, err error)              { return o.f.doneNote, o.f.done }
func (o forgedObject) Block(_, blk uint64, value []byte) error {
	if string(value) != "block" {
		return format.Corruptf("block %d", blk)
	}
	return nil
}

// said is all that a report says.
func said(r *Report) (lines []string) {
	for _, p := range r.Problems {
		lines = append(lines, "problem: "+p.Error())
	}
	for _, n := range r.Notes {
		lines = append(lines, "note: "+n)
	}
	for _, k := range r.Damaged {
		lines = append(lines, fmt.Sprintf("damaged: %s, %q: %q", k.Key, k.Type, k.Lost))
	}
	for _, k := range r.Loading {
		lines = append(lines, "loading: "+k.Key)
	}
	for _, what := range r.Repaired {
		lines = append(lines, "repaired: "+what)
	}
	return lines
}

func (f *forged) checker() *Checker {
	c := &Checker{Store: f, From: f, Mend: true, Now: 5}
	c.Counts['s'], c.Counts['f'] = format.KeyCounts{Keys: 1, Expiring: 1}, format.KeyCounts{Keys: 1}
	return c
}

// A check says what is wrong with a store, no more, and mends what is certain.
func TestRun(t *testing.T) {
	for _, tt := range []struct {
		name  string
		forge func(f *forged, c *Checker)
		want  []string
	}{
		{"sound", func(*forged, *Checker) {}, nil},
		{"a count", func(f *forged, c *Checker) { c.Counts['a'].Keys = 2 }, []string{
			"problem: kv: corrupt data: 0 keys in group 97, but the count says 2",
			"repaired: group 97: the counts say 0 keys and 0 that expire in place of 2 and 0",
		}},
		{"a number of keys that expire", func(f *forged, c *Checker) { c.Counts['s'].Expiring = 2 }, []string{
			"problem: kv: corrupt data: 1 keys expire in group 115, but the count says 2",
			"repaired: group 115: the counts say 1 keys and 1 that expire in place of 1 and 2",
		}},
		{"a header of a key that expires", func(f *forged, c *Checker) { f.set(headerKey("s"), []byte{1, 0, 200}) }, []string{
			`problem: key "s": kv: corrupt data: header of 3 bytes, 0100c8 at their beginning`,
			"problem: kv: corrupt data: 0 keys expire, but 1 are noted to",
			"note: nothing was repaired, as some of the store cannot be read",
			`damaged: s, "": ["its header"]`,
		}},
		{"a key", func(f *forged, c *Checker) { f.set([]byte{format.TagHeader, 0}, nil) }, []string{
			"problem: kv: corrupt data: header key 0200",
			"note: nothing was repaired, as some of the store cannot be read",
		}},
		{"a place", func(f *forged, c *Checker) {
			f.header("x", format.StringHeader([]byte{format.EncodingBytes, 'x'}, 0))
			value, _, _ := f.Get(headerKey("x"))
			value = bytes.Clone(value)
			f.remove(headerKey("x"))
			f.set(format.AppendHeaderKey(nil, 1, []byte("x")), value)
			c.Counts[0].Keys = 1
		}, []string{
			`problem: kv: corrupt data: key "x": stored at hash 1, has hash 7800000000000000`,
			"note: nothing was repaired, as some of the store cannot be read",
			`damaged: x, "": ["its place"]`,
		}},
		{"a header", func(f *forged, c *Checker) {
			f.set(headerKey("f"), []byte("header"))
		}, []string{
			`problem: key "f": kv: unsupported format version: header has format 104, this program knows 1`,
			"problem: kv: corrupt data: object 1 belongs to no key",
			"note: nothing was repaired, as some of the store cannot be read",
			`damaged: f, "": ["its header"]`,
		}},
		{"a string", func(f *forged, c *Checker) {
			f.header("s", format.StringHeader([]byte{7, 'x'}, expiry))
		}, []string{
			`problem: key "s": kv: unsupported format version: string with encoding 07, this program knows 0`,
			`damaged: s, "string": ["its value"]`,
		}},
		{"a note of an expiry", func(f *forged, c *Checker) { f.remove(format.AppendExpiryKey(nil, expiry, []byte("s"))) }, []string{
			`problem: kv: corrupt data: key "s" expires at 9, which is not noted`,
			"problem: kv: corrupt data: 1 keys expire, but 0 are noted to",
			`damaged: s, "string": ["the note of its expiry"]`,
			`repaired: key "s": noted that it expires at 9`,
		}},
		{"a value of a note", func(f *forged, c *Checker) { f.set(format.AppendExpiryKey(nil, expiry, []byte("s")), []byte{1}) }, []string{
			`problem: kv: corrupt data: key "s" expires at 9, which is not noted`,
			`damaged: s, "string": ["the note of its expiry"]`,
			`repaired: key "s": noted that it expires at 9`,
		}},
		{"notes of other expiries", func(f *forged, c *Checker) {
			f.set(format.AppendExpiryKey(nil, expiry+1, []byte("s")), nil)
			f.set(format.AppendExpiryKey(nil, expiry, []byte("absent")), nil)
			f.set([]byte{format.TagExpiry, 255}, nil)
		}, []string{
			"problem: kv: corrupt data: expiry key 05ff",
			"problem: kv: corrupt data: 1 keys expire, but 4 are noted to",
			"repaired: note 0509616273656e74 of an expiry, which no key needs: removed",
			"repaired: note 050a73 of an expiry, which no key needs: removed",
			"repaired: note 05ff of an expiry, which no key needs: removed",
		}},
		{"a key that is loaded, one that was", func(f *forged, c *Checker) {
			h := f.filter(1)
			h.Hidden, h.Expiry = true, 6
			f.header("f", h)
			f.set(format.AppendExpiryKey(nil, 6, []byte("f")), []byte{1})
			h = f.filter(2)
			h.Hidden, h.Expiry = true, 5
			f.header("g", h)
			f.set(format.AppendExpiryKey(nil, 5, []byte("g")), []byte{1})
			f.set(format.AppendWakeKey(nil, wakeAt, []byte("g")), nil)
			c.Counts['f'].Expiring, c.Counts['g'] = 1, format.KeyCounts{Keys: 1, Expiring: 1}
		}, []string{
			"loading: f",
		}},
		{"an object of two keys", func(f *forged, c *Checker) {
			f.header("g", f.filter(1))
			f.set(format.AppendWakeKey(nil, wakeAt, []byte("g")), nil)
			c.Counts['g'].Keys = 1
		}, []string{
			`problem: kv: corrupt data: keys "f" and "g" share object 1`,
			`damaged: g, "type": ["its blocks, which another key has"]`,
		}},
		{"an object that no key has", func(f *forged, c *Checker) { f.set(format.AppendBlockKey(nil, 7, 3, 0), []byte("block")) }, []string{
			"problem: kv: corrupt data: object 7 belongs to no key",
			"repaired: object 7, which no key has: removed",
		}},
		{"an object that is built", func(f *forged, c *Checker) {
			f.set(format.AppendBlockKey(nil, 7, 3, 0), []byte("block"))
			f.set(format.AppendDroppedKey(nil, 7), []byte{format.DroppedUnwritten})
		}, nil},
		{"an object that is to be removed", func(f *forged, c *Checker) {
			f.set(format.AppendBlockKey(nil, 7, 3, 0), []byte("block"))
			f.set(format.AppendDroppedKey(nil, 7), nil)
		}, []string{
			"problem: kv: corrupt data: object 7 belongs to no key",
			"repaired: object 7, which no key has: removed",
		}},
		{"an object with nothing stored", func(f *forged, c *Checker) {
			f.remove(format.AppendCountersKey(nil, 1, 3))
			f.remove(format.AppendBlockKey(nil, 1, 3, 0))
			f.doneNote = "nothing"
		}, []string{
			`note: key "f": nothing`,
		}},
		{"parameters", func(f *forged, c *Checker) { f.badParam = true }, []string{
			"problem: kv: corrupt data: parameters",
			`damaged: f, "type": ["its parameters"]`,
		}},
		{"a note", func(f *forged, c *Checker) { f.note = "not registered" }, []string{
			`note: key "f": not registered`,
		}},
		{"counters out of range", func(f *forged, c *Checker) { f.usable, f.done = format.ErrCorrupt, format.ErrCorrupt }, []string{
			`problem: key "f": kv: corrupt data`,
			`damaged: f, "type": ["its counters"]`,
		}},
		{"counters that count wrong", func(f *forged, c *Checker) { f.done = format.ErrCorrupt }, []string{
			`problem: key "f": kv: corrupt data`,
			`damaged: f, "type": ["what its counters count"]`,
		}},
		{"counters that count wrong, lossy", func(f *forged, c *Checker) {
			h := f.filter(1)
			h.Lossy = true
			f.header("f", h)
			f.done = format.ErrCorrupt
		}, []string{
			`note: key "f": lossy: kv: corrupt data`,
		}},
		{"an entry", func(f *forged, c *Checker) { f.set(format.AppendObjectKey(nil, 1), nil) }, []string{
			"problem: kv: corrupt data: object key 0301",
		}},
		{"an attribute", func(f *forged, c *Checker) { f.set(format.AppendAttributeKey(nil, 1, "name"), []byte("any")) }, nil},
		{"a layer", func(f *forged, c *Checker) { f.set(format.AppendBlockKey(nil, 1, 4, 0), []byte("block")) }, []string{
			`problem: kv: corrupt data: key "f": entry of layer 4, which it does not have`,
			`damaged: f, "type": ["a layer"]`,
		}},
		{"the counters of a layer", func(f *forged, c *Checker) { f.set(format.AppendCountersKey(nil, 1, 4), nil) }, []string{
			`problem: kv: corrupt data: key "f": entry of layer 4, which it does not have`,
			`damaged: f, "type": ["a layer"]`,
		}},
		{"counters", func(f *forged, c *Checker) { f.set(format.AppendCountersKey(nil, 1, 3), []byte("x")) }, nil},
		{"the last block, one more", func(f *forged, c *Checker) {
			f.set(format.AppendBlockKey(nil, 1, 3, 1), []byte("block"))
			f.set(format.AppendBlockKey(nil, 1, 3, 2), []byte("block"))
		}, []string{
			`problem: kv: corrupt data: key "f": block 2 of layer 3, which has 2`,
			`damaged: f, "type": ["block 2 of layer 3"]`,
		}},
		{"a block", func(f *forged, c *Checker) { f.set(format.AppendBlockKey(nil, 1, 3, 1), []byte("other")) }, []string{
			"problem: kv: corrupt data: block 1",
			`damaged: f, "type": ["block 1 of layer 3"]`,
		}},
		{"a note of a call", func(f *forged, c *Checker) { f.remove(format.AppendWakeKey(nil, wakeAt, []byte("f"))) }, []string{
			`problem: kv: corrupt data: key "f" is to be compacted at 20, which is not noted`,
			`damaged: f, "type": ["the note of when it is to be compacted"]`,
			`repaired: key "f": noted that it is to be compacted at 20`,
		}},
		{"a note of a call soon", func(f *forged, c *Checker) {
			f.remove(format.AppendWakeKey(nil, wakeAt, []byte("f")))
			f.set(format.AppendWakeKey(nil, format.WakeSoon, []byte("f")), nil)
		}, nil},
		{"a note of a call that nobody knows", func(f *forged, c *Checker) { f.unknown, f.wake = true, 0 }, nil},
		{"a note of a call of a key that cannot be opened", func(f *forged, c *Checker) {
			f.badParam = true
			f.set(format.AppendWakeKey(nil, wakeAt+1, []byte("f")), nil)
		}, []string{
			"problem: kv: corrupt data: parameters",
			`damaged: f, "type": ["its parameters"]`,
		}},
		{"notes of calls that no key needs", func(f *forged, c *Checker) {
			f.wake = 0
			f.set(format.AppendWakeKey(nil, wakeAt, []byte("absent")), nil)
			f.set([]byte{format.TagWake, 255}, nil)
		}, []string{
			"problem: kv: corrupt data: wake key 06ff",
			`note: key "absent": a note that it is to be compacted at 20, which it does not need`,
			`note: key "f": a note that it is to be compacted at 20, which it does not need`,
			"repaired: note 0614616273656e74 of when to compact a key, which no key needs: removed",
			"repaired: note 061466 of when to compact a key, which no key needs: removed",
			"repaired: note 06ff of when to compact a key, which no key needs: removed",
		}},
		{"lost blocks", func(f *forged, c *Checker) { f.loseObject(1) }, []string{
			"problem: kv: corrupt data: a table",
			"note: nothing was repaired, as some of the store cannot be read",
			`damaged: f, "": ["blocks, counters, or their newest version"]`,
		}},
		{"lost blocks, of a key of which more is wrong", func(f *forged, c *Checker) {
			f.usable = format.ErrCorrupt
			f.loseObject(1)
		}, []string{
			"problem: kv: corrupt data: a table",
			`problem: key "f": kv: corrupt data`,
			"note: nothing was repaired, as some of the store cannot be read",
			`damaged: f, "type": ["its counters" "blocks, counters, or their newest version"]`,
		}},
		{"lost blocks of an object without a key, and what is behind them", func(f *forged, c *Checker) {
			f.loseObject(0)
			f.lose(format.AppendObjectKey(nil, 3), format.AppendObjectKey(nil, 4))
			f.set(format.AppendBlockKey(nil, 5, 3, 0), []byte("block"))
		}, []string{
			"problem: kv: corrupt data: a table",
			"problem: kv: corrupt data: object 5 belongs to no key",
			"note: nothing was repaired, as some of the store cannot be read",
		}},
		{"lost blocks that no table is known for", func(f *forged, c *Checker) {
			f.loseObject(1)
			f.damage = nil
		}, []string{
			"problem: kv: corrupt data: a table",
			"problem: kv: corrupt data: check: corrupt value",
			"note: nothing was repaired, as some of the store cannot be read",
		}},
		{"lost headers", func(f *forged, c *Checker) {
			f.lose(headerKey("g"), headerKey("t"))
			f.set(format.AppendWakeKey(nil, wakeAt, []byte("absent")), nil)
			f.set(format.AppendExpiryKey(nil, expiry, []byte("away")), nil)
		}, []string{
			"problem: kv: corrupt data: a table",
			"problem: kv: corrupt data: 0 keys in group 115, but the count says 1",
			"problem: kv: corrupt data: 0 keys expire, but 2 are noted to",
			"note: nothing was repaired, as some of the store cannot be read",
			`damaged: away, "": ["all but the note of its expiry"]`,
			`damaged: absent, "": ["all but the note of when it is to be compacted"]`,
		}},
		{"lost headers and notes, which are left", func(f *forged, c *Checker) {
			c.Left = true
			f.set(format.AppendExpiryKey(nil, expiry, []byte("absent")), nil)
			f.set(format.AppendExpiryKey(nil, expiry+1, []byte("away")), nil)
			f.damage = []remains.Range{{Low: headerKey("g"), High: headerKey("t")}, {Low: format.AppendExpiryKey(nil, 0, nil), High: format.AppendExpiryKey(nil, expiry, []byte("b"))}}
			if err := c.Deep(f.t.Context()); err != nil {
				f.t.Fatal(err)
			}
		}, []string{
			"problem: kv: corrupt data: a table",
			"problem: kv: corrupt data: 1 keys expire, but 3 are noted to",
			"note: nothing was repaired, as some of the store cannot be read",
			`damaged: s, "": ["its newest version, or its deletion"]`,
			`damaged: away, "": ["all but the note of its expiry"]`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newForged(t)
			c := f.checker()
			tt.forge(f, c)
			if err := c.Run(t.Context(), f.Store); err != nil {
				t.Fatal(err)
			}
			c.Repair(new(storage.Batch))
			if f.looks > 1 {
				t.Errorf("the tables were read %d times", f.looks)
			}
			if got := said(&c.Report); !slices.Equal(got, tt.want) {
				t.Errorf("got\n%q\nwant\n%q", got, tt.want)
			}
		})
	}
}

// What is no damage ends a check, and so does its context.
func TestRun_ends(t *testing.T) {
	f := newForged(t)
	f.loseObject(1)
	f.fails = errors.New("no memory")
	if err := f.checker().Run(t.Context(), f.Store); !errors.Is(err, f.fails) {
		t.Errorf("%v, want %v", err, f.fails)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.fails, f.stop = nil, cancel
	if err := f.checker().Run(ctx, f.Store); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}

// A block of a table that is damaged is a problem, also if it ends an iteration.
func TestRun_table(t *testing.T) {
	f := newForged(t)
	rng := rand.NewChaCha8([32]byte{1})
	var value [8 << 10]byte
	for blk := range uint64(2) {
		_, _ = rng.Read(value[:])
		f.set(format.AppendBlockKey(nil, 1, 3, blk), value[:])
	}
	if err := f.Compact(t.Context(), []byte{0}, []byte{255}); err != nil {
		t.Fatal(err)
	}
	names, err := f.fs.List("store")
	if err != nil {
		t.Fatal(err)
	}
	damaged := 0
	for _, name := range names {
		file, err := f.fs.OpenReadWrite("store/"+name, vfs.WriteCategoryUnspecified)
		if err != nil {
			continue
		}
		info, err := file.Stat()
		if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, info.Size())
		_, _ = file.ReadAt(data, 0)
		if at := bytes.Index(data, value[4000:4100]); strings.HasSuffix(name, ".sst") && at >= 0 {
			damaged++
			_, err = file.WriteAt([]byte{value[4000] ^ 1}, int64(at))
		}
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	c := f.checker()
	if err := c.Run(t.Context(), f.Store); err != nil || damaged == 0 || f.looks != 1 || c.Whole() {
		t.Errorf("%d tables are damaged: %v, %+v", damaged, err, c.Report)
	}
}

func TestReadable(t *testing.T) {
	ranges := func(names ...string) (ranges []remains.Range) {
		for _, n := range names {
			ranges = append(ranges, remains.Range{Low: []byte(n[:1]), High: []byte(n[1:])})
		}
		return ranges
	}
	for _, tt := range []struct {
		lost []remains.Range
		want string
	}{
		{nil, "[[d h]]"},
		{ranges("ab", "ij"), "[[d h]]"},
		{ranges("ad", "hi"), "[[d\x00 h]]"},
		{ranges("ff"), "[[d f] [f\x00 h]]"},
		{ranges("de", "gi"), "[[e\x00 g]]"},
		{ranges("ci"), "[]"},
	} {
		if got := fmt.Sprintf("%s", (&Checker{ranges: tt.lost}).readable([]byte("d"), []byte("h"))); got != tt.want {
			t.Errorf("without %s: %q, want %q", tt.lost, got, tt.want)
		}
	}
}
