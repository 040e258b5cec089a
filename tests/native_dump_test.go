package tests_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/dump"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// dumping is a store whose filters are dumped, or loaded.
type dumping struct {
	t       *testing.T
	db      *kv.DB
	session *module.Session
}

func openDumping(t *testing.T, seed uint64) *dumping {
	t.Helper()
	d := &dumping{t: t}
	d.use(kv.Options{InMemory: true, Seed: seed, Durability: kv.NoSync}, "memory")
	t.Cleanup(func() { must(t, d.db.Close()) })
	return d
}

func (d *dumping) use(o kv.Options, dir string) {
	d.t.Helper()
	o.Modules = coreext.With(bloomext.Module(), cuckooext.Module())
	db, err := kv.Open(dir, &o)
	must(d.t, err)
	d.db, d.session = db, module.NewSession(db)
}

func (d *dumping) do(words ...string) reply.Reply {
	args := make([][]byte, len(words))
	for i, word := range words {
		args[i] = []byte(word)
	}
	return d.session.Do(context.Background(), args)
}

func (d *dumping) mustDo(words ...string) reply.Reply {
	d.t.Helper()
	r := d.do(words...)
	if r.IsError() {
		d.t.Fatalf("%.100q: %v", words, r.Err())
	}
	return r
}

// dumpedChunk is a chunk, and the number that LOADCHUNK takes with it.
type dumpedChunk struct {
	iter string
	data string
}

// dump returns the chunks of SCANDUMP, whose commands begin with BF or CF. Between is called after each, if it is set.
func (d *dumping) dump(family, key string, between func()) (chunks []dumpedChunk) {
	d.t.Helper()
	for iter := "0"; ; {
		r := d.mustDo(family+".SCANDUMP", key, iter).Elems()
		if r[0].Int() == 0 {
			return chunks
		}
		iter = strconv.FormatInt(r[0].Int(), 10)
		chunks = append(chunks, dumpedChunk{iter, string(r[1].Bytes())})
		if between != nil {
			between()
		}
	}
}

func (d *dumping) load(family, key string, chunks []dumpedChunk) {
	d.t.Helper()
	for _, c := range chunks {
		d.mustDo(family+".LOADCHUNK", key, c.iter, c.data)
	}
}

// content returns what chunk i of a dump says of the filter.
func content(chunks []dumpedChunk, i int) []byte {
	return dump.DumpContent([]byte(chunks[i].data), i == 0)
}

// answers returns what EXISTS says of many items; a third of them were added.
func (d *dumping) answers(family, key string, added int) string {
	d.t.Helper()
	words := []string{family + ".MEXISTS", key}
	for i := range 3 * added {
		words = append(words, dumpItem(i))
	}
	return d.mustDo(words...).String()
}

func dumpItem(i int) string { return fmt.Sprintf("item %d", i) }

var dumpCases = []struct {
	name, family string
	reserve      []string
	items        int
}{
	{"Bloom of a line", "BF", []string{"0.01", "20"}, 20},
	{"Bloom of a block", "BF", []string{"0.01", "5000", "NONSCALING"}, 4000},
	{"Bloom of many layers", "BF", []string{"0.001", "100"}, 20_000},
	{"Bloom of many blocks", "BF", []string{"1e-6", "300000"}, 5000},
	{"Bloom of the last items", "BF", []string{"0.01", "5000", "LAST", "5000"}, 4000},
	{"Bloom without items", "BF", []string{"0.01", "1000"}, 0},
	{"Bloom of more than a chunk", "BF", []string{"0.0001", "8000000"}, 100},
	{"cuckoo of 8 bits", "CF", []string{"1000"}, 900},
	{"cuckoo of 12 bits", "CF", []string{"20000", "ERROR", "0.001"}, 18_000},
	{"cuckoo of 16 bits", "CF", []string{"20000", "ERROR", "0.0005", "BUCKETSIZE", "2"}, 9000},
	{"cuckoo of 32 bits", "CF", []string{"1000", "ERROR", "0.000001"}, 900},
	{"cuckoo of blocks that are cut", "CF", []string{"2500", "ERROR", "0.00001"}, 9000},
	{"cuckoo of a block that is cut", "CF", []string{"4000", "ERROR", "0.001", "EXPANSION", "0"}, 3900},
	{"cuckoo of many layers", "CF", []string{"500", "EXPANSION", "2"}, 8000},
	{"cuckoo without items", "CF", []string{"1000"}, 0},
}

// A dump of a filter with the native layout makes a filter with the same answers, in a store with another seed, whether
// its chunks come in order or not; and that filter's dump is the same.
func TestNativeDump(t *testing.T) {
	for _, tt := range dumpCases {
		t.Run(tt.name, func(t *testing.T) {
			from, to := openDumping(t, 1), openDumping(t, 2)
			from.mustDo(append([]string{tt.family + ".RESERVE", "f"}, tt.reserve...)...)
			for i := 0; i < tt.items; i += 500 {
				words := []string{tt.family + ".INSERT", "f", "ITEMS"}
				for j := i; j < min(i+500, tt.items); j++ {
					words = append(words, dumpItem(j))
				}
				from.mustDo(words...)
			}
			if tt.family == "CF" && tt.items > 0 {
				from.mustDo("CF.DEL", "f", dumpItem(0))
				from.mustDo("CF.ADD", "f", dumpItem(0))
			}
			chunks := from.dump(tt.family, "f", nil)
			info, answers := from.mustDo(tt.family+".INFO", "f").String(), ""
			if tt.items > 0 {
				answers = from.answers(tt.family, "f", tt.items)
			}
			loaded := func(key string) {
				t.Helper()
				if got := to.mustDo(tt.family+".INFO", key).String(); got != info {
					t.Errorf("INFO of what was loaded: %s, want %s", got, info)
				}
				if tt.items > 0 && to.answers(tt.family, key, tt.items) != answers {
					t.Error("what was loaded answers in another way")
				}
				again := to.dump(tt.family, key, nil)
				if len(again) != len(chunks) {
					t.Fatalf("the dump of what was loaded has %d chunks, want %d", len(again), len(chunks))
				}
				for i := range again {
					if again[i].iter != chunks[i].iter || !bytes.Equal(content(again, i), content(chunks, i)) {
						t.Errorf("chunk %d of the dump of what was loaded differs", i)
					}
				}
			}
			to.load(tt.family, "in order", chunks)
			loaded("in order")
			for i := range chunks {
				if i == 0 {
					to.load(tt.family, "backwards", chunks[:1])
					continue
				}
				if to.mustDo("EXISTS", "backwards").Int() != 0 {
					t.Error("half of a filter is seen")
				}
				to.load(tt.family, "backwards", chunks[len(chunks)-i:][:1])
			}
			loaded("backwards")
			if last := chunks[len(chunks)-1]; len(chunks) > 1 { // a client repeats what was not answered
				to.load(tt.family, "backwards", []dumpedChunk{last})
			}
			report, err := to.db.Check(t.Context())
			must(t, err)
			if len(report.Problems) > 0 {
				t.Errorf("check of what was loaded: %v", report.Problems)
			}
			to.mustDo(tt.family+".ADD", "in order", "another item")
			if to.mustDo(tt.family+".EXISTS", "in order", "another item").Int() != 1 {
				t.Error("an item that was added to what was loaded is missing")
			}
		})
	}
}

// A chunk that is damaged, cut short, or of another dump is refused, and so is a header; nothing is seen then.
func TestNativeDump_damaged(t *testing.T) {
	for _, family := range []string{"BF", "CF"} {
		t.Run(family, func(t *testing.T) {
			from, to := openDumping(t, 1), openDumping(t, 2)
			for _, key := range []string{"f", "g"} {
				from.mustDo(append([]string{family + ".RESERVE", key}, map[string][]string{"BF": {"0.01", "1000"}, "CF": {"2000"}}[family]...)...)
				from.mustDo(family+".INSERT", key, "ITEMS", "a", "b", key)
			}
			from.mustDo(append([]string{family + ".RESERVE", "other"}, map[string][]string{"BF": {"0.02", "1000"}, "CF": {"4000"}}[family]...)...)
			chunks, other := from.dump(family, "f", nil), from.dump(family, "other", nil)
			header, data := chunks[0], chunks[1]
			refused := func(what, iter, data string) {
				t.Helper()
				if r := to.do(family+".LOADCHUNK", "f", iter, data); !r.IsError() {
					t.Errorf("%s: %s", what, r)
				}
				if to.mustDo("EXISTS", "f").Int() != 0 {
					t.Fatalf("%s, and the key is seen", what)
				}
			}
			flip := func(s string, i int) string {
				b := []byte(s)
				b[i] ^= 1 << (i % 8)
				return string(b)
			}
			for i := range header.data {
				refused(fmt.Sprintf("header with byte %d flipped", i), header.iter, flip(header.data, i))
				refused(fmt.Sprintf("header of %d bytes", i), header.iter, header.data[:i])
			}
			refused("header with a byte behind it", header.iter, header.data+"x")
			to.load(family, "f", chunks[:1])
			for i := 0; i < len(data.data); i += 13 {
				refused(fmt.Sprintf("chunk with byte %d flipped", i), data.iter, flip(data.data, i))
			}
			refused("chunk that is cut short", data.iter, data.data[:len(data.data)-1])
			refused("chunk of 3 bytes", data.iter, "abc")
			refused("chunk of nothing", data.iter, "")
			refused("chunk at another place", data.iter+"0", data.data)
			refused("chunk of another dump", other[1].iter, other[1].data)
			to.load(family, "f", chunks[1:])
			if to.mustDo(family+".MEXISTS", "f", "a", "b", "f").String() != from.mustDo(family+".MEXISTS", "f", "a", "b", "f").String() {
				t.Error("what was loaded after all that answers in another way")
			}
		})
	}
}

// A chunk is taken at its own place only.
func TestNativeDump_place(t *testing.T) {
	from, to := openDumping(t, 1), openDumping(t, 2)
	from.mustDo("BF.RESERVE", "f", "1e-9", "100", "EXPANSION", "1", "GROWTHLOG", "0")
	for i := range 800 {
		from.mustDo("BF.ADD", "f", dumpItem(i))
	}
	chunks := from.dump("BF", "f", nil)
	tried := 0
	for i := 1; i < len(chunks); i++ {
		for j := 1; j < len(chunks); j++ {
			if i == j || len(chunks[i].data) != len(chunks[j].data) {
				continue
			}
			tried++
			to.load("BF", "f", chunks[:1])
			if r := to.do("BF.LOADCHUNK", "f", chunks[i].iter, chunks[j].data); !r.IsError() {
				t.Errorf("chunk %d is taken in place of chunk %d: %s", j, i, r)
			}
		}
	}
	if tried == 0 {
		t.Errorf("no two of %d chunks are equally long", len(chunks))
	}
}

// A client may make chunks of its own, with right checksums. None makes the program fail.
func TestNativeDump_forged(t *testing.T) {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	for _, family := range []string{"BF", "CF"} {
		from, to := openDumping(t, 1), openDumping(t, 2)
		reserve := map[string][]string{"BF": {"0.01", "90000"}, "CF": {"9000", "ERROR", "0.001"}}[family]
		from.mustDo(append([]string{family + ".RESERVE", "f"}, reserve...)...)
		header := from.dump(family, "f", nil)[0].data
		end := len(header) - 4
		if family == "BF" { // the mark is without the counters
			end = 18 + int(header[17])
		}
		mark, taken := crc32.Checksum([]byte(header[:end]), castagnoli), 0
		for _, at := range []int{0, 1, 3, 4096, 8191, 8192, 8193, 16384} {
			for _, n := range []int{0, 1, 3, 8, 4096, 8191, 8192, 8193, 12288} {
				place := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, mark), uint64(at))
				data := bytes.Repeat([]byte{0x11}, n)
				sum := crc32.Update(crc32.Checksum(place, castagnoli), castagnoli, data)
				to.mustDo(family+".LOADCHUNK", "f", "1", header)
				if r := to.do(family+".LOADCHUNK", "f", strconv.Itoa(at+n+1), string(binary.LittleEndian.AppendUint32(data, sum))); !r.IsError() {
					taken++
				}
			}
		}
		if taken == 0 {
			t.Errorf("%s: no chunk was taken", family)
		}
	}
}

// A Bloom filter may be added to while it is dumped: what it had before is in the dump. Of a cuckoo filter the dump is
// refused then, as it could lack an entry that was moved.
func TestNativeDump_changedMeanwhile(t *testing.T) {
	from, to := openDumping(t, 1), openDumping(t, 2)
	from.mustDo("BF.RESERVE", "f", "0.01", "10000")
	from.mustDo("CF.RESERVE", "f2", "10000")
	for i := range 200 {
		from.mustDo("BF.ADD", "f", dumpItem(i))
		from.mustDo("CF.ADD", "f2", dumpItem(i))
	}
	next := 1000
	add := func(family, key string) func() {
		return func() { next++; from.mustDo(family+".ADD", key, dumpItem(next)) }
	}
	to.load("BF", "f", from.dump("BF", "f", add("BF", "f")))
	for i := range 200 {
		if to.mustDo("BF.EXISTS", "f", dumpItem(i)).Int() != 1 {
			t.Errorf("item %d is missing", i)
		}
	}
	report, err := to.db.Check(t.Context())
	must(t, err)
	if len(report.Problems) > 0 {
		t.Errorf("check of what was loaded: %v", report.Problems)
	}
	chunks := from.dump("CF", "f2", add("CF", "f2"))
	to.load("CF", "f2", chunks[:1])
	r := to.do("CF.LOADCHUNK", "f2", chunks[1].iter, chunks[1].data)
	if !r.IsError() || !strings.Contains(r.Err().Error(), "changed while it was dumped") {
		t.Errorf("a chunk of a cuckoo filter that was changed: %s", r)
	}
}

// Items that are added to a Bloom filter while it is dumped are more than its header counts. The number of what was loaded is an
// estimate then.
func TestNativeDump_countedBefore(t *testing.T) {
	from, to := openDumping(t, 1), openDumping(t, 2)
	from.mustDo("BF.RESERVE", "f", "0.01", "1000")
	chunks := from.dump("BF", "f", func() {
		for i := range 300 {
			from.mustDo("BF.ADD", "f", dumpItem(i))
		}
	})
	to.load("BF", "f", chunks)
	if n := to.mustDo("BF.CARD", "f").Int(); n < 280 || n > 320 {
		t.Errorf("%d items, want about 300", n)
	}
	report, err := to.db.Check(t.Context())
	must(t, err)
	if len(report.Problems) > 0 {
		t.Errorf("check of what was loaded: %v", report.Problems)
	}
}

// A deletion, an add and a compaction leave the numbers of entries and deletions of a cuckoo filter as they were. The dump is
// refused all the same.
func TestNativeDump_compactedMeanwhile(t *testing.T) {
	from, to := openDumping(t, 1), openDumping(t, 2)
	from.mustDo("CF.RESERVE", "f", "10000")
	from.mustDo("CF.ADD", "f", dumpItem(0))
	chunks := from.dump("CF", "f", func() {
		from.mustDo("CF.DEL", "f", dumpItem(0))
		from.mustDo("CF.ADD", "f", dumpItem(1))
		from.mustDo("CF.COMPACT", "f")
	})
	to.load("CF", "f", chunks[:1])
	r := to.do("CF.LOADCHUNK", "f", chunks[1].iter, chunks[1].data)
	if !r.IsError() || !strings.Contains(r.Err().Error(), "changed while it was dumped") {
		t.Errorf("a chunk of a cuckoo filter that was changed: %s", r)
	}
}

// A filter that is half-loaded is there after a restart, and takes the rest.
func TestNativeDump_restart(t *testing.T) {
	from, to := openDumping(t, 1), &dumping{t: t}
	from.mustDo("BF.RESERVE", "f", "0.001", "100")
	for i := range 2000 {
		from.mustDo("BF.ADD", "f", dumpItem(i))
	}
	chunks, dir := from.dump("BF", "f", nil), t.TempDir()
	for i, c := range chunks {
		to.use(kv.Options{Seed: 7}, dir)
		to.load("BF", "f", []dumpedChunk{c})
		if there := to.mustDo("EXISTS", "f").Int() == 1; there != (i == len(chunks)-1) {
			t.Errorf("after chunk %d of %d the key is seen: %t", i, len(chunks), there)
		}
		if report, err := to.db.Check(t.Context()); err != nil || len(report.Problems)+len(report.Notes) > 0 {
			t.Errorf("check after chunk %d of %d: %+v, %v", i, len(chunks), report, err)
		}
		must(t, to.db.Close())
	}
	to.use(kv.Options{}, dir)
	if to.answers("BF", "f", 2000) != from.answers("BF", "f", 2000) {
		t.Error("what was loaded answers in another way")
	}
	must(t, to.db.Close())
}

// version1 returns a dump as it was before it had the filter's id. Moves says that entries of the filter move.
func version1(chunks []dumpedChunk, moves bool) (old []dumpedChunk) {
	table := crc32.MakeTable(crc32.Castagnoli)
	summed := func(sum uint32, b []byte) string {
		return string(binary.LittleEndian.AppendUint32(b, crc32.Update(sum, table, b)))
	}
	const magic = 8
	var mark uint32
	for i, c := range chunks {
		b := content(chunks, i)
		if i == 0 {
			b[magic] = 1
			n, size := binary.Uvarint(b[magic+1:])
			if mark = crc32.Checksum(b, table); !moves {
				mark = crc32.Checksum(b[:magic+1+size+int(n)], table)
			}
			old = append(old, dumpedChunk{c.iter, summed(0, b)})
			continue
		}
		end, _ := strconv.ParseUint(c.iter, 10, 64)
		place := binary.LittleEndian.AppendUint32(nil, mark)
		place = binary.LittleEndian.AppendUint64(place, end-1-uint64(len(b)))
		old = append(old, dumpedChunk{c.iter, summed(crc32.Checksum(place, table), b)})
	}
	return old
}

// A filter that is made under the same key while another is dumped, with equal parameters, does not become one with it.
func TestNativeDump_madeAnew(t *testing.T) {
	for _, tt := range []struct {
		family  string
		reserve []string
	}{{"BF", []string{"0.0001", "8000000", "NONSCALING"}}, {"CF", []string{"20000000"}}} {
		d := openDumping(t, 1)
		make := func(item string) {
			d.mustDo(append([]string{tt.family + ".RESERVE", "f"}, tt.reserve...)...)
			d.mustDo(tt.family+".ADD", "f", item)
		}
		make("one")
		n := 0
		chunks := d.dump(tt.family, "f", func() {
			if n++; n == 2 {
				d.mustDo("DEL", "f")
				make("other")
			}
		})
		if len(chunks) < 3 {
			t.Fatalf("%d chunks, want a header and two", len(chunks))
		}
		refused := false
		for _, c := range chunks {
			refused = refused || d.do(tt.family+".LOADCHUNK", "copy", c.iter, c.data).IsError()
		}
		if !refused || d.mustDo("EXISTS", "copy").Int() != 0 {
			t.Errorf("%s: chunks of two filters were loaded as one", tt.family)
		}
	}
}

// A dump has the bytes that it always had.
func TestNativeDump_golden(t *testing.T) {
	d := openDumping(t, 1)
	for _, tt := range []struct{ family, reserve, header, data string }{
		{
			"BF", "BF.RESERVE f 0.01 20 NONSCALING",
			"8953564b440d0a1a01510100094d42626c6f6f6d2d2d0262660101000101000001010b06017b14ae47e17a843f14010001bc3fa31983c687bb3f" +
				"e3f1749ec76aac8d6c132caa0f9cff7df29810490ddd857b14ae47e17a843f1400020106dff79068",
			"68 bytes, de097a149053ffd6",
		}, {
			"CF", "CF.RESERVE f 1000 MAXITERATIONS 20",
			"8953564b440d0a1a014d0100094d42626c6f6f6d43460263660101000c010000012b0602041400e60c010001bc3fa31983c687bb3fe3f1749ec7" +
				"6aac8d6c132caa0f9cff7df29810490ddd85988511c3d303ac3fe80702010113823fd4",
			"2756 bytes, 5cb9d4087804b282",
		}, { // of a block that is cut
			"CF", "CF.RESERVE f 2000 MAXITERATIONS 20",
			"8953564b440d0a1a014d0100094d42626c6f6f6d43460263660101000c010000014006030414009713010001bc3fa31983c687bb3fe3f1749ec7" +
				"6aac8d6c132caa0f9cff7df29810490ddd85988511c3d303ac3fd00f02010105d7b28e",
			"4100 bytes, df23943f3d863ef4",
		}, { // of a whole block
			"CF", "CF.RESERVE f 4900 MAXITERATIONS 20",
			"8953564b440d0a1a014d0100094d42626c6f6f6d43460263660101000c01000001800601041400b226010001bc3fa31983c687bb3fe3f1749ec7" +
				"6aac8d6c132caa0f9cff7df29810490ddd85988511c3d303ac3fa426020101ae71c458",
			"8196 bytes, 74b31f618e954065",
		},
	} {
		d.mustDo(strings.Fields(tt.reserve)...)
		d.mustDo(tt.family+".ADD", "f", "x")
		chunks := version1(d.dump(tt.family, "f", nil), tt.family == "CF")
		if header := fmt.Sprintf("%x", chunks[0].data); header != tt.header {
			t.Errorf("header of %s:\n%s, want\n%s", tt.reserve, header, tt.header)
		}
		sum := sha256.Sum256([]byte(chunks[1].data))
		if data := fmt.Sprintf("%d bytes, %x", len(chunks[1].data), sum[:8]); data != tt.data || len(chunks) != 2 || chunks[1].iter != strconv.Itoa(len(chunks[1].data)-3) {
			t.Errorf("%d chunks of %s, the first is loaded as %s and has %s, want 2, and %s", len(chunks), tt.reserve, chunks[1].iter, data, tt.data)
		}
		d.load(tt.family, "loaded", chunks)
		if d.mustDo(tt.family+".EXISTS", "loaded", "x").Int() != 1 {
			t.Errorf("a dump of version 1 of %s lacks an item", tt.reserve)
		}
		d.mustDo("DEL", "f", "loaded")
	}

	// Headers of filters for so few items, of 1000 and of 2000, were of whole blocks, and are taken.
	for _, end := range []string{"e8070201011210d740", "d00f020101e1ac7ee7"} {
		old, err := hex.DecodeString("8953564b440d0a1a014d0100094d42626c6f6f6d43460263660101000c01000001800601041400b226010001bc3fa31983c687bb3fe3f1749ec7" +
			"6aac8d6c132caa0f9cff7df29810490ddd85988511c3d303ac3f" + end)
		must(t, err)
		d.mustDo("CF.LOADCHUNK", "f", "1", string(old))
		d.mustDo("DEL", "f")
	}
}
