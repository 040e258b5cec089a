package bloomext_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/coretest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/tests/faultfs"
	"github.com/sievekv/sievekv/tests/redisbloom"
)

// load loads a chunk, and returns the reply.
func load(w *coretest.World, iter int64, data []byte) string {
	return coretest.Wire(w.Do("BF.LOADCHUNK", "f", strconv.FormatInt(iter, 10), string(data)), reply.Reply.RESP2)
}

// loadAll loads a dump, in pieces of at most so many bytes.
func loadAll(t *testing.T, w *coretest.World, chunks []redisbloom.Chunk, most int) {
	t.Helper()
	for _, c := range chunks {
		if c.Iter == 1 {
			if got := load(w, 1, c.Data); got != "+OK" {
				t.Fatalf("header: %s", got)
			}
			continue
		}
		at := c.Iter - int64(len(c.Data))
		for piece := range slices.Chunk(c.Data, most) {
			at += int64(len(piece))
			if got := load(w, at, piece); got != "+OK" {
				t.Fatalf("%d bytes at %d: %s", len(piece), at, got)
			}
		}
	}
}

// A dump of RedisBloom loads, whatever the pieces: the filter answers, goes on and dumps as RedisBloom's.
func TestLoadChunk_model(t *testing.T) {
	for _, tt := range []struct {
		capacity   uint64
		rate       float64
		expansion  uint32
		nonscaling bool
		items      int
		pieces     []int
	}{
		{1000, 0.01, 2, false, 500, []int{1, 7, 16 << 20}},           // one layer
		{1000, 0.01, 2, false, 6000, []int{100, 16 << 20}},           // three
		{1000, 0.01, 2, true, 900, []int{100, 16 << 20}},             // NONSCALING
		{1000, 0.01, 0, true, 900, []int{16 << 20}},                  // EXPANSION 0
		{5, 0.01, 2, false, 70_000, []int{5000, 16 << 20}},           // fourteen
		{400_000, 0.001, 2, false, 400_000, []int{100_000, 1 << 20}}, // several blocks
	} {
		for _, most := range tt.pieces {
			t.Run(fmt.Sprintf("%d items at %d, expansion %d, pieces of %d", tt.items, tt.capacity, tt.expansion, most), func(t *testing.T) {
				for _, memTable := range []int{0, 256 << 10} {
					model, err := redisbloom.NewBloom(tt.capacity, tt.rate, tt.expansion, tt.nonscaling)
					if err != nil {
						t.Fatal(err)
					}
					for i := range tt.items {
						if _, err := model.Add(fmt.Append(nil, i)); err != nil {
							t.Fatal(err)
						}
					}
					p := &pair{t: t, w: newWorld(t, kv.Options{MemTableSize: memTable}), model: model}
					loadAll(t, p.w, p.model.Dump(), most)
					p.compare()
					for i := range 300 {
						p.do("BF.EXISTS", fmt.Sprint(i*5))
						p.do("BF.ADD", fmt.Sprint("more", i))
					}
					p.compare()
				}
			})
		}
	}
}

// What is dumped here, RedisBloom loads.
func TestScanDump_model(t *testing.T) {
	p := newPair(t, kv.Options{}, 4000, 0.001, 2)
	for i := range 9000 {
		p.do("BF.ADD", fmt.Sprint(i))
	}
	loaded, err := redisbloom.LoadBloom(p.dump())
	if err != nil {
		t.Fatal(err)
	}
	p.model = loaded
	p.compare()
}

// A chunk begins where its iterator says, and ends with its layer or after 16 MiB.
func TestScanDump_pieces(t *testing.T) {
	p := newPair(t, kv.Options{}, 20_000_000, 0.001, 1)
	p.do("BF.ADD", "a")
	p.compare()
	size := int64(p.model.Info().Size - 96)
	for _, iter := range []int64{-1 << 63, -1, 0, 1, 2, 1 << 24, 1<<24 + 1, 1<<24 + 7, size, size + 1, size + 2, math.MaxInt64} {
		c := p.model.Scan(iter)
		r := p.w.Do("BF.SCANDUMP", "f", fmt.Sprint(iter)).Elems()
		if r[0].Int() != c.Iter || string(r[1].Bytes()) != string(c.Data) {
			t.Errorf("iterator %d: %d and %d bytes, want %d and %d", iter, r[0].Int(), len(r[1].Bytes()), c.Iter, len(c.Data))
		}
	}
}

// layerHeader is what a header says of a layer.
type layerHeader struct {
	bytes, bits, items uint64
	rate, perItem      float64
	hashes             uint32
	capacity           uint64
	n2                 byte
}

// headerOf returns a header with layers of 16 bytes, after a change.
func headerOf(items uint64, options, expansion uint32, layers ...layerHeader) []byte {
	h := binary.LittleEndian.AppendUint64(nil, items)
	for _, v := range []uint32{uint32(len(layers)), options, expansion} {
		h = binary.LittleEndian.AppendUint32(h, v)
	}
	for _, l := range layers {
		for _, v := range []uint64{l.bytes, l.bits, l.items, math.Float64bits(l.rate), math.Float64bits(l.perItem)} {
			h = binary.LittleEndian.AppendUint64(h, v)
		}
		h = binary.LittleEndian.AppendUint32(h, l.hashes)
		h = append(binary.LittleEndian.AppendUint64(h, l.capacity), l.n2)
	}
	return h
}

var small = layerHeader{16, 128, 2, 0.25, 2.885, 2, 10, 0}

func with(change func(l *layerHeader)) layerHeader {
	l := small
	change(&l)
	return l
}

func TestLoadChunk_errors(t *testing.T) {
	w := newWorld(t, kv.Options{MaxFilterBytes: 1 << 20})
	const bad = "-ERR received bad data"
	good := headerOf(4, 5, 2, small, small)
	for _, tt := range []struct {
		name   string
		header []byte
	}{
		{"empty", nil},
		{"short", good[:len(good)-1]},
		{"long", append(slices.Clone(good), 0)},
		{"no layer", headerOf(0, 5, 2)},
		{"more layers than bytes", func() []byte { h := slices.Clone(good); h[11] = 255; return h }()},
		{"65536 layers", headerOf(2<<16, 5, 2, slices.Repeat([]layerHeader{small}, 1<<16)...)},
		{"another sum of items", headerOf(5, 5, 2, small, small)},
		{"a sum of items beyond 64 bits", func() []byte {
			half := with(func(l *layerHeader) { l.items = 1 << 63 })
			return headerOf(0, 5, 2, half, half)
		}()},
		{"an unknown option", headerOf(4, 21, 2, small, small)},
		{"hashes of 32 bits", headerOf(4, 1, 2, small, small)},
		{"expansion 32769", headerOf(4, 5, 32769, small, small)},
		{"expansion 0 of a filter that grows", headerOf(4, 5, 0, small, small)},
		{"rate 0", headerOf(2, 5, 2, with(func(l *layerHeader) { l.rate = 0 }))},
		{"rate 1", headerOf(2, 5, 2, with(func(l *layerHeader) { l.rate = 1 }))},
		{"rate NaN", headerOf(2, 5, 2, with(func(l *layerHeader) { l.rate = math.NaN() }))},
		{"another k", headerOf(2, 5, 2, with(func(l *layerHeader) { l.hashes = 3 }))},
		{"bits per item NaN", headerOf(2, 5, 2, with(func(l *layerHeader) { l.perItem, l.hashes = math.NaN(), 0 }))},
		{"bits per item negative", headerOf(2, 5, 2, with(func(l *layerHeader) { l.perItem, l.hashes = -1, 0 }))},
		{"very large k", headerOf(2, 5, 2, with(func(l *layerHeader) { l.perItem, l.hashes = 2e9, 1386294362 }))},
		{"other bits than bytes", headerOf(2, 5, 2, with(func(l *layerHeader) { l.bits = 120 }))},
		{"no bits", headerOf(2, 5, 2, with(func(l *layerHeader) { l.bytes, l.bits = 0, 0 }))},
		{"bits beyond 64 bits", headerOf(2, 5, 2, with(func(l *layerHeader) { l.bytes = 1<<61 + 16 }))},
		{"n2 64", headerOf(2, 5, 2, with(func(l *layerHeader) { l.n2 = 64 }))},
		{"n2 beyond the bits", headerOf(2, 5, 2, with(func(l *layerHeader) { l.n2 = 8 }))},
		{"capacity 0", headerOf(2, 5, 2, with(func(l *layerHeader) { l.capacity = 0 }))},
	} {
		if got := load(w, 1, tt.header); got != bad {
			t.Errorf("%s: %s, want %s", tt.name, got, bad)
		}
	}
	for _, size := range []uint64{1 << 21, 1 << 43, 1 << 60} {
		header := headerOf(2, 5, 2, with(func(l *layerHeader) { l.bytes, l.bits = size, 8*size }))
		if got := load(w, 1, header); got != "-ERR Insufficient memory to create filter" {
			t.Errorf("%d bytes, more than MaxFilterBytes: %s", size, got)
		}
	}
	w.Script(`
EXISTS f => :0
BF.LOADCHUNK f x y => -ERR Second argument must be numeric
BF.LOADCHUNK f => -ERR wrong number of arguments for 'bf.loadchunk' command
BF.LOADCHUNK f 0 y => -ERR not found
BF.LOADCHUNK f 17 y => -ERR not found
BF.LOADCHUNK f -1 y => -ERR not found
SET s x => +OK
BF.LOADCHUNK s 1 y => -WRONGTYPE Operation against a key holding the wrong kind of value
BF.LOADCHUNK s 17 y => -WRONGTYPE Operation against a key holding the wrong kind of value
BF.ADD n x => :1 | #t
BF.LOADCHUNK n 17 y => -ERR received bad data`)

	if got := load(w, 1, good); got != "+OK" {
		t.Fatal(got)
	}
	const noLink, tooBig = "-ERR invalid offset - no link found", "-ERR invalid chunk - Too big for current filter"
	for _, tt := range []struct {
		iter   int64
		length int
		want   string
	}{
		{0, 0, bad},
		{-1, 1, bad},
		{math.MinInt64, 1, bad},
		{math.MinInt64 + 1, 16, bad},
		{2, 3, bad},
		{2, 2, noLink},  // begins before the first byte
		{18, 2, tooBig}, // of both layers
		{34, 1, noLink},
		{34, 2, tooBig},
		{1 << 62, 1, noLink},
		{17, 17, noLink},
		{9, 8, "+OK"},
		{9, 0, "+OK"},
		{17, 16, "+OK"},
	} {
		if got := load(w, tt.iter, make([]byte, tt.length)); got != tt.want {
			t.Errorf("iterator %d, %d bytes: %s, want %s", tt.iter, tt.length, got, tt.want)
		}
	}
	data := slices.Repeat([]byte{7, 0}, 8)
	for range 2 { // the second time the filter is complete
		if got := load(w, 33, data); got != "+OK" {
			t.Errorf("last chunk: %s", got)
		}
	}
	const debug = `BF.DEBUG f => ["size:4" "bytes:16 bits:128 hashes:2 hashwidth:64 capacity:10 size:2 ratio:0.25" "bytes:16 bits:128 hashes:2 hashwidth:64 capacity:10 size:2 ratio:0.25"]`
	w.Script(debug)
	data[15] = 1
	const other = "-ERR other data has come for this place before: load the filter anew, from its header on"
	if got := load(w, 33, data); got != other {
		t.Errorf("other bits for a complete filter: %s", got)
	}
	if got := load(w, 1, good); got != bad {
		t.Errorf("another header: %s", got)
	}
	if got := load(w, 1, nil); got != "+OK" {
		t.Errorf("an empty header: %s", got)
	}
	w.Script(debug)
}

// Old filters, whose number of bits is a power of two, answer and grow as RedisBloom's do.
func TestLoadChunk_old(t *testing.T) {
	model, err := redisbloom.LoadBloomHeader(headerOf(2, 7, 3, with(func(l *layerHeader) { l.n2 = 7 })))
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{t: t, w: newWorld(t, kv.Options{}), model: model}
	loadAll(t, p.w, model.Dump(), 16)
	p.compare()
	for i := range 50 {
		p.do("BF.ADD", fmt.Sprint(i))
		p.do("BF.EXISTS", fmt.Sprint(i+7))
	}
	p.compare()

	// Where there are more bits than 2^n2, items set the first of them.
	if got := load(p.w, 1, headerOf(2, 5, 3, with(func(l *layerHeader) { l.n2 = 6 }))); got != "-ERR received bad data" {
		t.Fatalf("a header for a key that exists: %s", got)
	}
	p.w.Script("DEL f => :1")
	header := headerOf(2, 5, 3, with(func(l *layerHeader) { l.n2, l.capacity = 6, 100 }))
	if got := load(p.w, 1, header) + load(p.w, 17, make([]byte, 16)); got != "+OK+OK" {
		t.Fatal(got)
	}
	p.w.Script(`
BF.MADD f i{1..100} => [...]
BF.SCANDUMP f 9 => [:17 "\x00\x00\x00\x00\x00\x00\x00\x00"]
RENAME f old => +OK`)

	// An error about such a filter says what is different about it.
	header = headerOf(2, 5, 3, with(func(l *layerHeader) { l.capacity = 100 }))
	if got := load(p.w, 1, header) + load(p.w, 17, make([]byte, 16)); got != "+OK+OK" {
		t.Fatal(got)
	}
	p.w.Script(`
BF.MERGE f old
  => -ERR filters differ, and cannot be merged: layout of layer 0 of "f" is 128 bits with 2 hashes, for 100 items at 0.25, expansion 3, options 5, of "old" 128 bits with 2 hashes, for 100 items at 0.25, expansion 3, options 5, n2 6`)
}

// Data that sets more bits of a place where some have come is taken, and other data is refused.
func TestLoadChunk_again(t *testing.T) {
	w := newWorld(t, kv.Options{})
	if got := load(w, 1, headerOf(2, 5, 2, small)); got != "+OK" {
		t.Fatal(got)
	}
	const other = "-ERR other data has come for this place before: load the filter anew, from its header on"
	for _, tt := range []struct{ data, want string }{
		{"\x01\x00\x00\x00\x00\x00\x00\x00", "+OK"},
		{"\x03\x00\x00\x00\x00\x00\x00\x80", "+OK"},
		{"\x03\x00\x00\x00\x00\x00\x00\x80", "+OK"},
		{"\x02\x00\x00\x00\x00\x00\x00\x80", other},
	} {
		if got := load(w, 9, []byte(tt.data)); got != tt.want {
			t.Fatalf("%x: %s, want %s", tt.data, got, tt.want)
		}
	}
	if got := load(w, 17, make([]byte, 8)); got != "+OK" {
		t.Fatal(got)
	}
	w.Script(`BF.SCANDUMP f 1 => [:17 "\x03\x00\x00\x00\x00\x00\x00\x80\x00\x00\x00\x00\x00\x00\x00\x00"]`)
}

// Whatever is loaded: the store stays whole, and holds no more than has come.
func FuzzLoadChunk(f *testing.F) {
	f.Add(headerOf(4, 5, 2, small, small), int64(17), make([]byte, 16), int64(33), []byte("0123456789abcdef"))
	f.Add(headerOf(2, 13, 2, small), int64(17), []byte("0123456789abcdef"), int64(9), []byte("x"))
	large := with(func(l *layerHeader) { l.bytes, l.bits, l.n2 = 1<<30, 1<<33, 33 })
	f.Add(headerOf(2, 5, 2, large), int64(1<<29), make([]byte, 9000), int64(1<<30), []byte("x"))
	worlds := coretest.NewWorlds(f, worldOptions(kv.Options{Durability: kv.NoSync}))
	f.Fuzz(func(t *testing.T, header []byte, iter int64, data []byte, iter2 int64, data2 []byte) {
		worlds.With(t, func(w *coretest.World) {
			load(w, 1, header)
			load(w, iter, data)
			load(w, iter2, data2)
			w.Do("BF.MADD", "f", "x", "y", "")
			w.Do("BF.SCANDUMP", "f", "0")
			w.Do("BF.EXISTS", "f", "x")
			w.Do("BF.DEBUG", "f")
		})
	})
}

// beginLoad loads a header and half of an array of 16 bytes.
func beginLoad(t *testing.T, w *coretest.World) {
	t.Helper()
	if got := load(w, 1, headerOf(2, 5, 2, small)); got != "+OK" {
		t.Fatalf("header: %s", got)
	}
	if got := load(w, 9, []byte("\x01\x02\x03\x04\x05\x00\x00\x00")); got != "+OK" {
		t.Fatalf("half of the bytes: %s", got)
	}
}

// endLoad loads the other half.
func endLoad(w *coretest.World) string { return load(w, 17, make([]byte, 8)) }

// Commands find the key of a half-loaded filter missing. Those that make or delete the key remove the filter, and so does
// the time without data.
func TestLoadChunk_half(t *testing.T) {
	const missing = "-ERR not found"
	for _, tt := range []struct{ name, script, end string }{
		{"nothing else", "", "+OK"},
		{"lookups", `
EXISTS f => :0
TYPE f => +none
BF.EXISTS f x => :0 | #f
BF.MEXISTS f x y => [:0 :0] | [#f #f]
BF.CARD f => :0
BF.INFO f => -ERR not found
BF.DEBUG f => -ERR not found
BF.SCANDUMP f 0 => -ERR not found
BF.INSERT f NOCREATE ITEMS x => -ERR not found
BF.MERGE g f => -ERR not found
COPY f g => :0`, "+OK"},
		{"DEL", "DEL f => :0", missing},
		{"BF.ADD", "BF.ADD f x => :1 | #t\nDEL f => :1", missing},
		{"BF.RESERVE", "BF.RESERVE f 0.01 100 => +OK\nDEL f => :1", missing},
		{"just below an hour", "@pass 3599s", "+OK"},
		{"an hour", "@pass 3600s\nEXISTS f => :0", missing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, kv.Options{})
			beginLoad(t, w)
			w.Script(tt.script)
			if got := endLoad(w); got != tt.end {
				t.Errorf("the other half: %s, want %s", got, tt.end)
			}
			if tt.end == "+OK" {
				w.Script(`
BF.CARD f => :2
TTL f => :-1
BF.SCANDUMP f 1 => [:17 "\x01\x02\x03\x04\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"]
@pass 10000s
BF.CARD f => :2`)
			}
		})
	}
	t.Run("in a transaction and on a snapshot", func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		beginLoad(t, w)
		look := func(tx *kv.Transaction) error {
			if _, err := bloomext.New(w.DB, "f").In(tx).MayContain([]byte("x")); !errors.Is(err, kv.ErrNotFound) {
				t.Errorf("MayContain: %v", err)
			}
			return nil
		}
		if err := errors.Join(w.DB.Update(t.Context(), kv.NoSync, look), w.DB.View(t.Context(), look)); err != nil {
			t.Fatal(err)
		}
		if got := endLoad(w); got != "+OK" {
			t.Error(got)
		}
	})
}

// dumpedAtOnce returns the dump of a filter with the native layout and one layer: the header, and all data in one chunk, as
// older versions made it.
func dumpedAtOnce(w *coretest.World, key string) (header, data []byte) {
	const sum, magic = 4, 8 + 1 + 8
	for iter := int64(0); ; {
		r := w.Do("BF.SCANDUMP", key, strconv.FormatInt(iter, 10)).Elems()
		chunk := r[1].Bytes()
		switch {
		case iter == 0:
			header = chunk
		case r[0].Int() == 0:
			n, size := binary.Uvarint(header[magic:])
			castagnoli := crc32.MakeTable(crc32.Castagnoli)
			mark := crc32.Checksum(header[:magic+size+int(n)], castagnoli)
			summed := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, mark), 0)
			return header, binary.LittleEndian.AppendUint32(data, crc32.Checksum(append(summed, data...), castagnoli))
		default:
			data = append(data, chunk[:len(chunk)-sum]...)
		}
		iter = r[0].Int()
	}
}

// Dumps have chunks of 1 MiB. Chunks of any length are loaded, so dumps of older versions are, which have chunks of 16 MiB.
func TestLoadChunk_nativeLengths(t *testing.T) {
	w := newWorld(t, kv.Options{})
	w.Script("BF.RESERVE f 0.01 3000000 NONSCALING => +OK")
	for i := range 1000 {
		w.Do("BF.ADD", "f", strconv.Itoa(i))
	}
	if first := w.Do("BF.SCANDUMP", "f", "1").Elems()[1].Bytes(); len(first) != 1<<20+4 {
		t.Errorf("the first chunk of data has %d bytes", len(first))
	}
	header, data := dumpedAtOnce(w, "f")
	w.Do("RENAME", "f", "was")
	if got := w.Do("BF.LOADCHUNK", "f", "1", string(header)); got.IsError() {
		t.Fatal(got)
	}
	if got := w.Do("BF.LOADCHUNK", "f", strconv.Itoa(len(data)-3), string(data)); got.IsError() {
		t.Fatal(got)
	}
	_, loaded := dumpedAtOnce(w, "f")
	if !bytes.Equal(loaded[:len(loaded)-4], data[:len(data)-4]) {
		t.Error("the filter that was loaded is another")
	}
	w.Script("BF.EXISTS f 999 => :1 | #t")
}

// Data that takes several commits goes into one filter: if another takes the key between two of them, the rest is refused.
func TestLoadChunk_replaced(t *testing.T) {
	w := newWorld(t, kv.Options{})
	w.Script("BF.RESERVE f 0.01 1500000 NONSCALING => +OK\nBF.ADD f x => :1 | #t")
	header, data := dumpedAtOnce(w, "f")
	if len(data) < 3<<19 {
		t.Fatalf("%d bytes are one commit", len(data))
	}

	var armed atomic.Bool
	held, release := make(chan bool), make(chan bool)
	db := open(t, faultfs.StoreDir, &kv.Options{FS: &faultfs.FS{FS: vfs.NewMem(), Before: func(at faultfs.Site, _ string) error {
		if at == (faultfs.Site{Op: "sync", Class: "log"}) && armed.CompareAndSwap(true, false) {
			held <- true
			<-release
		}
		return nil
	}}})
	defer db.Close()
	f, unsynced := bloomext.New(db, "f").With(kv.Always), bloomext.New(db, "f").With(kv.NoSync)
	if err := bloomext.BeginLoad(f, header); err != nil {
		t.Fatal(err)
	}
	loaded := make(chan error)
	armed.Store(true)
	go func() { loaded <- bloomext.Load(f, int64(len(data)-4)+1, data) }()
	<-held // the first commit has been made, and waits for the disk
	err := bloomext.BeginLoad(unsynced, header)
	close(release)
	if lerr := <-loaded; err != nil || !errors.Is(lerr, kv.ErrNotFound) {
		t.Errorf("%v; the rest of the data: %v, want %v", err, lerr, kv.ErrNotFound)
	}
}

// A dump with the native layout is loaded with its counters. A chunk that was damaged is refused, one that is sent again is not.
func TestLoadChunk_native(t *testing.T) {
	w := newWorld(t, kv.Options{})
	w.Script("BF.RESERVE g 0.01 2000 => +OK")
	for i := range 1000 {
		w.Do("BF.ADD", "g", strconv.Itoa(i))
	}
	chunk := func(iter int64) (next int64, data []byte) {
		r := w.Do("BF.SCANDUMP", "g", strconv.FormatInt(iter, 10)).Elems()
		return r[0].Int(), r[1].Bytes()
	}
	_, header := chunk(0)
	last, data := chunk(1)
	if next, _ := chunk(last); next != 0 {
		t.Fatal("more than one chunk")
	}
	if got := load(w, 1, header); got != "+OK" {
		t.Fatal(got)
	}
	const bad = "-ERR received bad data"
	damaged := slices.Clone(data)
	damaged[9] ^= 1
	for name, c := range map[string]struct {
		iter int64
		data []byte
	}{
		"damaged": {last, damaged}, "another place": {last - 64, data}, "an iterator too low": {1, data}, "less than a checksum": {last, data[:3]},
	} {
		if got := load(w, c.iter, c.data); !strings.HasPrefix(got, "-ERR") {
			t.Errorf("%s: %s, want %s", name, got, bad)
		}
	}
	for range 2 { // the second time the filter is complete
		if got := load(w, last, data); got != "+OK" {
			t.Errorf("the chunk: %s", got)
		}
	}
	if f, g := coretest.Wire(w.Do("BF.INFO", "f"), reply.Reply.RESP2), coretest.Wire(w.Do("BF.INFO", "g"), reply.Reply.RESP2); f != g {
		t.Errorf("BF.INFO of what was loaded: %s, want %s", f, g)
	}
	f, err := bloomext.New(w.DB, "f").Info()
	if err != nil || f.ItemsEstimated {
		t.Errorf("%+v, %v", f, err)
	}
}

// A number of items that the bits cannot have is estimated anew, unless it was an estimate before.
func TestLoadChunk_estimated(t *testing.T) {
	for _, estimated := range []uint64{0, 1} {
		w := newWorld(t, kv.Options{})
		w.Script("BF.RESERVE f 0.01 100 NONSCALING => +OK")
		for i := range 50 {
			w.Do("BF.ADD", "f", strconv.Itoa(i))
		}
		copyFrom(t, w.DB, "f", "g", func(*kv.Spec) {}, true, func(_ *kv.Layer, i int, n uint64) uint64 {
			switch i {
			case 0: // items
				return 150
			case 2: // flags
				return estimated
			}
			return n
		})
		w.Do("DEL", "f")
		for iter := int64(0); ; {
			r := w.Do("BF.SCANDUMP", "g", strconv.FormatInt(iter, 10)).Elems()
			if iter = r[0].Int(); iter == 0 {
				break
			}
			if got := load(w, iter, r[1].Bytes()); got != "+OK" {
				t.Fatal(got)
			}
		}
		w.Do("DEL", "g")
		info, err := bloomext.New(w.DB, "f").Info()
		if err != nil || !info.ItemsEstimated || (info.Items == 150) != (estimated == 1) || info.Items < 48 {
			t.Errorf("estimated before: %d: %+v, %v", estimated, info, err)
		}
	}
}

// So many gaps in what has come are kept, and no more.
func TestLoadChunk_gaps(t *testing.T) {
	w := newWorld(t, kv.Options{})
	if got := load(w, 1, headerOf(2, 5, 2, with(func(l *layerHeader) { l.bytes, l.bits = 4096, 4096*8 }))); got != "+OK" {
		t.Fatal(got)
	}
	for i := range int64(1025) {
		want := "+OK"
		if i == 1024 {
			want = "-ERR more than 1024 gaps in the data that has come"
		}
		if got := load(w, 2+3*i, []byte{0}); got != want {
			t.Fatalf("byte %d: %s, want %s", 3*i, got, want)
		}
	}
	if got := load(w, 4097, make([]byte, 4096)); got != "+OK" {
		t.Errorf("all: %s", got)
	}
}

// A half-loaded filter survives a restart, and is not found after it.
func TestLoadChunk_restart(t *testing.T) {
	fs := vfs.NewMem()
	run := func(words ...string) string {
		t.Helper()
		db, err := kv.Open("store", &kv.Options{FS: fs, Modules: coreext.With(bloomext.Module())})
		if err != nil {
			t.Fatal(err)
		}
		args := make([][]byte, len(words))
		for i, word := range words {
			args[i] = []byte(word)
		}
		got := coretest.Wire(module.NewSession(db).Do(t.Context(), args), reply.Reply.RESP2)
		report, err := db.Check(t.Context())
		if err := errors.Join(append(report.Problems, err, db.Close())...); err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, step := range [][]string{
		{"+OK", "BF.LOADCHUNK", "f", "1", string(headerOf(2, 5, 2, small))},
		{"+OK", "BF.LOADCHUNK", "f", "9", "\x01\x02\x03\x04\x05\x06\x07\x08"},
		{":0", "EXISTS", "f"},
		{"+OK", "BF.LOADCHUNK", "f", "17", "12345678"},
		{":1", "EXISTS", "f"},
		{`[:17 "\x01\x02\x03\x04\x05\x06\a\b12345678"]`, "BF.SCANDUMP", "f", "1"},
	} {
		if got := run(step[1:]...); got != step[0] {
			t.Fatalf("%q: %s, want %s", step[1:], got, step[0])
		}
	}
}

// A header alone takes next to no space, however large the filter is to be.
func TestLoadChunk_space(t *testing.T) {
	w := newWorld(t, kv.Options{})
	large := with(func(l *layerHeader) { l.bytes, l.bits = 1<<32, 1<<35 })
	if got := load(w, 1, headerOf(2, 5, 2, large)) + load(w, 1<<32+1, []byte("end")); got != "+OK+OK" {
		t.Fatal(got)
	}
	m, err := w.DB.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	if m.CommitBytes > 10_000 {
		t.Errorf("the header and three bytes of a filter of 4 GiB took %d bytes", m.CommitBytes)
	}
}
