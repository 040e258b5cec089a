package cuckooext_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/coretest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/tests/redisbloom"
)

// load loads a chunk, and returns the reply.
func load(w *coretest.World, iter int64, data []byte) string {
	return coretest.Wire(w.Do("CF.LOADCHUNK", "f", strconv.FormatInt(iter, 10), string(data)), reply.Reply.RESP2)
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

// drawn returns a model with items that random commands have left.
func drawn(t *testing.T, capacity uint64, bucketSize, expansion uint16, items int) *redisbloom.Cuckoo {
	t.Helper()
	c, err := redisbloom.NewCuckoo(capacity, bucketSize, 20, expansion)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(capacity, 0))
	for i := range items {
		if err := c.Add(fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
		if r.IntN(3) == 0 {
			c.Delete(fmt.Append(nil, r.IntN(i+1)))
		}
	}
	return c
}

// A dump of RedisBloom loads, whatever the pieces: the filter answers, goes on and dumps as RedisBloom's.
func TestLoadChunk_model(t *testing.T) {
	for _, tt := range []struct {
		capacity              uint64
		bucketSize, expansion uint16
		items                 int
		pieces                []int
	}{
		{4, 2, 1, 20, []int{1, 3, 16 << 20}},
		{1000, 3, 2, 5000, []int{100, 16 << 20}},
		{20_000, 255, 1, 30_000, []int{7000, 8192, 16 << 20}},
		{1 << 20, 4, 2, 300_000, []int{1 << 19, 16 << 20}},
	} {
		for _, most := range tt.pieces {
			t.Run(fmt.Sprintf("%d in buckets of %d, pieces of %d", tt.capacity, tt.bucketSize, most), func(t *testing.T) {
				for _, memTable := range []int{0, 256 << 10} {
					p := &pair{t: t, w: newWorld(t, kv.Options{MemTableSize: memTable}), model: drawn(t, tt.capacity, tt.bucketSize, tt.expansion, tt.items)}
					loadAll(t, p.w, p.model.Dump(), most)
					p.compare()
					if memTable == 0 {
						for i := range 200 {
							p.do("CF.COUNT", fmt.Sprint(i))
							p.do("CF.ADD", fmt.Sprint("more", i))
							p.do("CF.DEL", fmt.Sprint(i*3))
						}
						p.compact()
						p.compare()
					}
				}
			})
		}
	}
}

// What is dumped here, RedisBloom loads.
func TestScanDump_model(t *testing.T) {
	p := newPair(t, kv.Options{}, 4000, 2, 20, 2)
	for i := range 9000 {
		p.do("CF.ADD", fmt.Sprint(i))
	}
	loaded, err := redisbloom.LoadCuckoo(p.dump())
	if err != nil {
		t.Fatal(err)
	}
	p.model = loaded
	p.compare()
}

// A layer of more than 16 MiB is dumped in pieces, and an iterator inside a smaller one gives all of it.
func TestScanDump_pieces(t *testing.T) {
	p := newPair(t, kv.Options{}, 1<<24, 2, 20, 2)
	p.do("CF.ADD", "a")
	p.compare()
	for range 4 { // copies that need another layer, of 32 MiB
		p.do("CF.ADD", "a")
	}
	p.compare()
	for _, iter := range []int64{1, 2, 1 << 24, 1<<24 + 1, 1<<24 + 2, 1<<25 + 7, 3 << 24, 3<<24 + 1, 1 << 62} {
		c := p.model.Scan(iter)
		r := p.w.Do("CF.SCANDUMP", "f", fmt.Sprint(iter)).Elems()
		if r[0].Int() != c.Iter || string(r[1].Bytes()) != string(c.Data) {
			t.Errorf("iterator %d: %d and %d bytes, want %d and %d", iter, r[0].Int(), len(r[1].Bytes()), c.Iter, len(c.Data))
		}
	}
}

func headerOf(change func(h []byte)) []byte {
	h := binary.LittleEndian.AppendUint64(nil, 5)
	for _, v := range []uint64{8, 0, 2} {
		h = binary.LittleEndian.AppendUint64(h, v)
	}
	for _, v := range []uint16{2, 20, 1} {
		h = binary.LittleEndian.AppendUint16(h, v)
	}
	change(h)
	return h
}

func TestLoadChunk_errors(t *testing.T) {
	le := binary.LittleEndian
	const invalid, cannot = "-Invalid header", "-Couldn't create filter!"
	w := newWorld(t, kv.Options{MaxFilterBytes: 1 << 20})
	for _, tt := range []struct {
		name   string
		header []byte
		want   string
	}{
		{"short", headerOf(func([]byte) {})[:37], invalid},
		{"long", append(headerOf(func([]byte) {}), 0), invalid},
		{"empty", nil, invalid},
		{"buckets 0", headerOf(func(h []byte) { le.PutUint64(h[8:], 0) }), cannot},
		{"buckets 3", headerOf(func(h []byte) { le.PutUint64(h[8:], 3) }), cannot},
		{"buckets 2^63", headerOf(func(h []byte) { le.PutUint64(h[8:], 1<<63) }), cannot},
		{"4 GiB", headerOf(func(h []byte) { le.PutUint64(h[8:], 1<<31) }), cannot},
		{"more than MaxFilterBytes", headerOf(func(h []byte) { le.PutUint64(h[8:], 1<<19) }), cannot},
		{"no layer", headerOf(func(h []byte) { h[24] = 0 }), cannot},
		{"1025 layers", headerOf(func(h []byte) { h[24], h[25] = 1, 4 }), cannot},
		{"2^56 layers", headerOf(func(h []byte) { h[31] = 1 }), cannot},
		{"bucket size 0", headerOf(func(h []byte) { h[32] = 0 }), cannot},
		{"bucket size 256", headerOf(func(h []byte) { le.PutUint16(h[32:], 256) }), cannot},
		{"no iterations", headerOf(func(h []byte) { h[34] = 0 }), cannot},
		{"expansion 3", headerOf(func(h []byte) { h[36] = 3 }), cannot},
		{"expansion 65535", headerOf(func(h []byte) { le.PutUint16(h[36:], 65535) }), cannot},
		{"layers that grow beyond 64 bits", headerOf(func(h []byte) { h[24], h[36], h[37] = 64, 0, 128 }), cannot},
		{"2 layers without expansion", headerOf(func(h []byte) { h[36] = 0 }), cannot},
	} {
		if got := load(w, 1, tt.header); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	w.Script(`
EXISTS f => :0
CF.LOADCHUNK f x y => -Invalid position
CF.LOADCHUNK f 0 y => -Invalid position
CF.LOADCHUNK f => -ERR wrong number of arguments for 'cf.loadchunk' command
CF.LOADCHUNK f 17 y => -ERR not found
CF.LOADCHUNK f -1 y => -ERR not found
CF.LOADCHUNK f 17 "" => -ERR not found
SET s x => +OK
CF.LOADCHUNK s 1 y => -WRONGTYPE Operation against a key holding the wrong kind of value
CF.LOADCHUNK s 17 y => -WRONGTYPE Operation against a key holding the wrong kind of value
CF.ADD n x => :1 | #t
CF.LOADCHUNK n 1 y => -ERR item exists
CF.LOADCHUNK n 17 y => -Couldn't load chunk!`)

	if got := load(w, 1, headerOf(func([]byte) {})); got != "+OK" {
		t.Fatal(got)
	}
	for _, tt := range []struct {
		iter   int64
		length int
		want   string
	}{
		{-1, 1, "-Couldn't load chunk!"},
		{2, 2, "-Couldn't load chunk!"}, // begins before the first slot
		{2, 0, "-Couldn't load chunk!"},
		{18, 2, "-Couldn't load chunk!"}, // of both layers
		{34, 1, "-Couldn't load chunk!"},
		{1 << 62, 1, "-Couldn't load chunk!"},
		{17, 17, "-Couldn't load chunk!"},
		{9, 8, "+OK"},
		{17, 16, "+OK"},
	} {
		if got := load(w, tt.iter, make([]byte, tt.length)); got != tt.want {
			t.Errorf("iterator %d, %d bytes: %s, want %s", tt.iter, tt.length, got, tt.want)
		}
	}
	w.Script(`
EXISTS f => :0
CF.EXISTS f x => :0 | #f
CF.INFO f => -ERR not found
CF.SCANDUMP f 0 => -ERR not found`)
	data := slices.Repeat([]byte{7, 0}, 8)
	for _, want := range []string{"+OK", "+OK"} { // the second time the filter is complete
		if got := load(w, 33, data); got != want {
			t.Errorf("last chunk: %s, want %s", got, want)
		}
	}
	w.Script(`CF.DEBUG f => "bktsize:2 buckets:8 items:8 deletes:0 filters:2 max_iterations:20 expansion:1"`)
	data[15] = 1
	if got := load(w, 33, data); got != "-Couldn't load chunk!" {
		t.Errorf("other slots for a complete filter: %s", got)
	}
	if got := load(w, 1, headerOf(func([]byte) {})); got != "-ERR item exists" {
		t.Errorf("another header: %s", got)
	}
	w.Script(`CF.DEBUG f => "bktsize:2 buckets:8 items:8 deletes:0 filters:2 max_iterations:20 expansion:1"`)
}

// A chunk that comes again before the filter is complete takes the place of what came before.
func TestLoadChunk_again(t *testing.T) {
	w := newWorld(t, kv.Options{})
	if got := load(w, 1, headerOf(func(h []byte) { h[24], h[16] = 1, 9 })); got != "+OK" {
		t.Fatal(got)
	}
	for _, first := range []string{"\x01\x01\x01\x01\x01\x00\x00\x00", "\x00\x02\x01\x03\x00\x00\x00\x04"} {
		if got := load(w, 9, []byte(first)); got != "+OK" {
			t.Fatal(got)
		}
	}
	if got := load(w, 17, make([]byte, 8)); got != "+OK" {
		t.Fatal(got)
	}
	w.Script(`
CF.DEBUG f => "bktsize:2 buckets:8 items:4 deletes:9 filters:1 max_iterations:20 expansion:1"
CF.SCANDUMP f 1 => [:17 "\x00\x02\x01\x03\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00"]`)
}

// Whatever is loaded: the store stays whole, and holds no more than has come.
func FuzzLoadChunk(f *testing.F) {
	f.Add(headerOf(func([]byte) {}), int64(17), make([]byte, 16), int64(33), []byte("0123456789abcdef"))
	f.Add(headerOf(func(h []byte) { h[24] = 1 }), int64(17), []byte("0123456789abcdef"), int64(9), []byte("x"))
	f.Add(headerOf(func(h []byte) { binary.LittleEndian.PutUint64(h[8:], 1<<30); h[24] = 3 }), int64(1<<30), make([]byte, 9000), int64(1<<31), []byte("x"))
	worlds := coretest.NewWorlds(f, worldOptions(kv.Options{Durability: kv.NoSync}))
	f.Fuzz(func(t *testing.T, header []byte, iter int64, data []byte, iter2 int64, data2 []byte) {
		worlds.With(t, func(w *coretest.World) {
			load(w, 1, header)
			load(w, iter, data)
			load(w, iter2, data2)
			w.Do("CF.ADD", "f", "x")
			w.Do("CF.SCANDUMP", "f", "0")
			w.Do("CF.DEL", "f", "x")
			w.Do("CF.COMPACT", "f")
		})
	})
}

// beginLoad loads a header and half of the slots of an array of 16.
func beginLoad(t *testing.T, w *coretest.World) {
	t.Helper()
	if got := load(w, 1, headerOf(func(h []byte) { h[24] = 1 })); got != "+OK" {
		t.Fatalf("header: %s", got)
	}
	if got := load(w, 9, []byte("\x01\x02\x03\x04\x05\x00\x00\x00")); got != "+OK" {
		t.Fatalf("half of the slots: %s", got)
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
TTL f => :-2
PTTL f => :-2
GET f => _
KEYS * => []
SCAN 0 => ["0" []]
RANDOMKEY => _
CF.EXISTS f x => :0 | #f
CF.MEXISTS f x y => [:0 :0] | [#f #f]
CF.COUNT f x => :0
CF.INFO f => -ERR not found
CF.DEBUG f => -ERR not found
CF.SCANDUMP f 0 => -ERR not found
CF.COMPACT f => -Cuckoo filter was not found
CF.DEL f x => -Not found
CF.INSERT f NOCREATE ITEMS x => -ERR not found
EXPIRE f 10 => :0
PERSIST f => :0
COPY f g => :0
RENAME f g => -ERR no such key
SIEVE.STATS f => [_]`, "+OK"},
		{"DEL", "DEL f => :0", missing},
		{"SET", "SET f x => +OK", "-WRONGTYPE Operation against a key holding the wrong kind of value"},
		{"SET and DEL", "SET f x => +OK\nDEL f => :1", missing},
		{"CF.ADD", "CF.ADD f x => :1 | #t\nDEL f => :1", missing},
		{"CF.RESERVE", "CF.RESERVE f 100 => +OK\nDEL f => :1", missing},
		{"RENAME", "SET g x => +OK\nRENAME g f => +OK\nDEL f => :1", missing},
		{"FLUSHALL", "FLUSHALL => +OK", missing},
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
CF.DEBUG f => "bktsize:2 buckets:8 items:5 ..."
TTL f => :-1
CF.SCANDUMP f 1 => [:17 "\x01\x02\x03\x04\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"]
@pass 10000s
CF.DEBUG f => "bktsize:2 buckets:8 items:5 ..."`)
			}
		})
	}
	t.Run("in a transaction and on a snapshot", func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		beginLoad(t, w)
		look := func(tx *kv.Transaction) error {
			f := cuckooext.New(w.DB, "f").In(tx)
			if _, err := f.MayContain([]byte("x")); !errors.Is(err, kv.ErrNotFound) {
				t.Errorf("MayContain: %v", err)
			}
			if _, err := f.Info(); !errors.Is(err, kv.ErrNotFound) {
				t.Errorf("Info: %v", err)
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
	t.Run("each chunk begins the hour anew", func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		beginLoad(t, w)
		w.Script("@pass 3000s")
		if got := load(w, 10, []byte{0}); got != "+OK" {
			t.Fatal(got)
		}
		w.Script("@pass 3000s")
		if got := endLoad(w); got != "+OK" {
			t.Error(got)
		}
	})
	t.Run("another header", func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		beginLoad(t, w)
		beginLoad(t, w)
		if got := endLoad(w); got != "+OK" {
			t.Error(got)
		}
		w.Script(`CF.DEBUG f => "bktsize:2 buckets:8 items:5 ..."`)
	})
}

// A half-loaded filter survives a restart, and is not found after it.
func TestLoadChunk_restart(t *testing.T) {
	fs := vfs.NewMem()
	run := func(words ...string) string {
		t.Helper()
		db, err := kv.Open("store", &kv.Options{FS: fs, Modules: coreext.With(cuckooext.Module())})
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
		{"+OK", "CF.LOADCHUNK", "f", "1", string(headerOf(func(h []byte) { h[24] = 1 }))},
		{"+OK", "CF.LOADCHUNK", "f", "9", "\x01\x02\x03\x04\x05\x06\x07\x08"},
		{":0", "EXISTS", "f"},
		{"+OK", "CF.LOADCHUNK", "f", "17", "12345678"},
		{":1", "EXISTS", "f"},
		{`[:17 "\x01\x02\x03\x04\x05\x06\a\b12345678"]`, "CF.SCANDUMP", "f", "1"},
	} {
		if got := run(step[1:]...); got != step[0] {
			t.Fatalf("%q: %s, want %s", step[1:], got, step[0])
		}
	}
}

// A header alone takes next to no space, however large the filter is to be.
func TestLoadChunk_space(t *testing.T) {
	w := newWorld(t, kv.Options{})
	if got := load(w, 1, headerOf(func(h []byte) { binary.LittleEndian.PutUint64(h[8:], 1<<30) })); got != "+OK" {
		t.Fatal(got)
	}
	if got := load(w, 1<<31, []byte("end")); got != "+OK" {
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

// Data with very many gaps is refused, as the gaps are stored.
func TestLoadChunk_gaps(t *testing.T) {
	w := newWorld(t, kv.Options{})
	if got := load(w, 1, headerOf(func(h []byte) { binary.LittleEndian.PutUint64(h[8:], 1<<12); h[24] = 1 })); got != "+OK" {
		t.Fatal(got)
	}
	for i := range int64(1024) {
		if got := load(w, 2*i+3, []byte{1}); got != "+OK" {
			t.Fatalf("byte %d: %s", 2*i+1, got)
		}
	}
	if got := load(w, 5000, []byte{1}); got != "-Couldn't load chunk!" {
		t.Errorf("one gap more: %s", got)
	}
	if got := load(w, 1<<13+1, make([]byte, 1<<13)); got != "+OK" {
		t.Errorf("all: %s", got)
	}
	w.Script(`CF.DEBUG f => "bktsize:2 buckets:4096 items:0 ..."`)
}

// A filter may have as many layers as the operator allows: a dump of more than 1024, which 40 bytes ask for, too.
func TestLoadChunk_layers(t *testing.T) {
	const cannot = "-Couldn't create filter!"
	w := newWorld(t, kv.Options{})
	header := func(layers int) []byte {
		return headerOf(func(h []byte) { binary.LittleEndian.PutUint64(h[24:], uint64(layers)); h[8] = 2 })
	}
	for _, c := range []struct {
		setting       string
		least, beyond int // layers
	}{{"32", 1024, 1025}, {"2000", 2000, 2001}, {"65536", 65535, 65536}} {
		w.Do("CONFIG", "SET", "cf-max-expansions", c.setting)
		if got := load(w, 1, header(c.beyond)); got != cannot {
			t.Errorf("%d layers of at most %s: %s", c.beyond, c.setting, got)
		}
		if got := load(w, 1, header(c.least)); got != "+OK" {
			t.Errorf("%d layers of at most %s: %s", c.least, c.setting, got)
		}
	}
	const layers = 1100
	w.Do("CONFIG", "SET", "cf-max-expansions", fmt.Sprint(layers+1))
	if got := load(w, 1, header(layers)); got != "+OK" {
		t.Fatal(got)
	}
	full := bytes.Repeat([]byte{255}, 4)
	for i := range int64(layers) {
		if got := load(w, 1+4*(i+1), full); got != "+OK" {
			t.Fatal(got)
		}
	}
	w.Script(fmt.Sprintf(`
CF.SCANDUMP f %d => [:%d "\xff\xff\xff\xff"]
CF.ADD f new => :1 | #t
CF.EXISTS f new => :1 | #t
CF.DEBUG f => "... filters:%d ..."
CF.ADD f more => -Maximum expansions reached`, 1+4*(layers-1), 1+4*layers, layers+1))
}

// Layers of 4 GiB are refused even where filters may be as large.
func TestLoadChunk_largest(t *testing.T) {
	w := newWorld(t, kv.Options{MaxFilterBytes: 1 << 40})
	for buckets, want := range map[uint64]string{1 << 31: "-Couldn't create filter!", 1 << 30: "+OK"} {
		if got := load(w, 1, headerOf(func(h []byte) { binary.LittleEndian.PutUint64(h[8:], buckets) })); got != want {
			t.Errorf("2 layers of %d buckets of 2: %s, want %s", buckets, got, want)
		}
	}
}

// AddMany of items that move many entries makes as many commits as it takes.
func TestLoadChunk_addMany(t *testing.T) {
	w := newWorld(t, kv.Options{MemTableSize: 256 << 10})
	const slots = 8 << 20
	header := headerOf(func(h []byte) {
		binary.LittleEndian.PutUint64(h[8:], slots)
		binary.LittleEndian.PutUint16(h[32:], 1)
		binary.LittleEndian.PutUint16(h[34:], 65535)
		h[24] = 1
	})
	data, r := make([]byte, slots), rand.New(rand.NewPCG(3, 4))
	for i := range data {
		if r.IntN(15) > 0 {
			data[i] = byte(1 + r.IntN(255))
		}
	}
	if got := load(w, 1, header) + load(w, slots+1, data); got != "+OK+OK" {
		t.Fatal(got)
	}
	items := make([][]byte, 300)
	for i := range items {
		items[i] = fmt.Append(nil, i)
	}
	f := cuckooext.New(w.DB, "f")
	before := infoOf(t, f).Items
	if _, err := f.AddMany(items, nil); err != nil {
		t.Fatal(err)
	}
	if n := infoOf(t, f).Items - before; n != uint64(len(items)) {
		t.Errorf("%d items were added, want %d", n, len(items))
	}
}
