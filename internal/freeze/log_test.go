package freeze_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/freeze"
)

const (
	logBlock     = 32 << 10
	sector       = 512
	chunkHeadLen = 19
)

// logChunk is a chunk of a log: where it is, and how far the log had been synced by its header.
type logChunk struct{ at, end, synced int }

// chunksOf returns the chunks of a log without damage.
func chunksOf(data string, number uint32) (list []logChunk) {
	at := 0
	for at+chunkHeadLen <= len(data) {
		if logBlock-at%logBlock < chunkHeadLen {
			at = (at/logBlock + 1) * logBlock
			continue
		}
		head := []byte(data[at : at+chunkHeadLen])
		if head[6] < 9 || binary.LittleEndian.Uint32(head[7:]) != number {
			break
		}
		c := logChunk{at, at + chunkHeadLen + int(binary.LittleEndian.Uint16(head[4:])), int(binary.LittleEndian.Uint64(head[11:]))}
		list = append(list, c)
		at = c.end
	}
	return list
}

// killedLog returns the only log of a store that was killed: some 80 KiB in three blocks, with its name and number.
// Every record was synced, the last three by one sync.
func killedLog(t *testing.T) (name string, number uint32, data string) {
	t.Helper()
	r := newRun()
	opts := smallOptions(r.disk, &listener{})
	opts.MemTableSize = 1 << 20
	db := must(pebble.Open(dir, opts))
	check(t, db.Close()) // the first session writes another format
	db = must(pebble.Open(dir, opts))
	for range 100 {
		check(t, r.write(db))
	}
	for i, o := range []*pebble.WriteOptions{pebble.NoSync, pebble.NoSync, pebble.Sync} {
		b := db.NewBatch()
		for _, k := range keysOf(r.next + i) {
			check(t, b.Set(k, valueOf(r.next+i), nil))
		}
		check(t, errors.Join(db.Apply(b, o), b.Close()))
	}
	killed := copyOf(r.disk)
	check(t, db.Close())
	for _, entry := range must(killed.List(dir)) {
		if data := must(readFile(killed, "db/"+entry)); strings.HasSuffix(entry, ".log") && len(data) > 1000 {
			n := must(strconv.ParseUint(strings.TrimSuffix(entry, ".log"), 10, 32))
			return "db/" + entry, uint32(n), data
		}
	}
	t.Fatal("no log")
	return "", 0, ""
}

// openLog opens a log, which checks it as before a replay.
func openLog(t *testing.T, name string, data []byte) error {
	t.Helper()
	disk := newDir()
	writeFile(disk, name, string(data))
	frozen := freeze.New(disk, dir, nil)
	check(t, frozen.Verify())
	f, err := frozen.Open(name)
	if err == nil {
		check(t, f.Close())
	}
	return err
}

// A flipped bit is noticed in every chunk that a later chunk, of its own or a later block, says was synced. For the
// number, length and kind in a header, and for a header in two sectors, the later chunk must be in a later block.
func TestLog_flipped(t *testing.T) {
	name, number, data := killedLog(t)
	check(t, openLog(t, name, []byte(data)))
	chunks := chunksOf(data, number)
	if len(chunks) < 100 {
		t.Fatalf("%d chunks", len(chunks))
	}
	vouched := func(c logChunk, inLaterBlock bool) bool {
		return slices.ContainsFunc(chunks, func(v logChunk) bool {
			return v.at > c.at && v.synced > c.at && (!inLaterBlock || v.at/logBlock > c.at/logBlock)
		})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	noticed, ofTwo := 0, 0
	for i, c := range chunks {
		for where, at := range map[string]int{
			"checksum": c.at + rng.IntN(4), "length": c.at + 4 + rng.IntN(2), "kind": c.at + 6, "number": c.at + 7 + rng.IntN(4),
			"synced": c.at + 11 + rng.IntN(8), "payload": c.at + chunkHeadLen + rng.IntN(c.end-c.at-chunkHeadLen), "end": c.end - 1,
		} {
			b := []byte(data)
			b[at] ^= 1 << rng.IntN(8)
			needsBlock := where == "length" || where == "kind" || where == "number" || c.at%sector > sector-chunkHeadLen
			if c.at%sector > sector-chunkHeadLen {
				ofTwo++
			}
			must := vouched(c, needsBlock)
			if must {
				noticed++
			}
			err := openLog(t, name, b)
			damaged := errors.Is(err, freeze.ErrDamaged)
			if must && !damaged || damaged && !vouched(c, false) || err != nil && !damaged {
				t.Errorf("%s of chunk %d of %d at %d: %v, to be noticed: %t", where, i, len(chunks), c.at, err, must)
			}
			if err != nil && !strings.Contains(err.Error(), "log "+strings.TrimSuffix(strings.TrimPrefix(name, "db/"), ".log")) {
				t.Errorf("the error does not name the log: %v", err)
			}
		}
	}
	// In the last block, damage to headers is not noticed.
	if all := 7 * len(chunks); noticed < all*3/4 || ofTwo == 0 {
		t.Errorf("%d of %d flips are to be noticed, %d are in a chunk whose header is in two sectors", noticed, all, ofTwo)
	}
}

// No log that a crash leaves is taken for damaged. Behind the synced part each sector may hold what was written,
// zeros, or bytes of an older log.
func TestLog_torn(t *testing.T) {
	name, number, data := killedLog(t)
	chunks := chunksOf(data, number)
	// The older log has chunks of the same lengths, as if a store had done the same again, or of other lengths.
	same := []byte(data)
	for _, c := range chunks {
		renumber(same[c.at:c.end], number-1)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for i, c := range chunks {
		// The last chunk to be written is c. What it says was synced is on the disk. Chunks are synced whole, so all
		// of the last synced chunk is there.
		synced := c.synced
		for _, s := range chunks[:i] {
			if s.at < c.synced {
				synced = max(synced, s.end)
			}
		}
		for range 20 {
			b := []byte(data)[:c.end]
			if grown := (c.end + sector - 1) / sector * sector; grown <= len(data) {
				b = slices.Concat(b, make([]byte, grown-c.end))
			}
			for at := synced / sector * sector; at < len(b); at += sector {
				from, end := max(at, synced), min(at+sector, len(b))
				switch rng.IntN(5) {
				case 0:
					clear(b[from:end])
				case 1:
					copy(b[from:end], same[from:])
				case 2:
					copy(b[from:end], same[rng.IntN(len(same)-sector):])
				}
			}
			if rng.IntN(2) == 0 {
				b = slices.Concat(b, same[len(b):])
			}
			if err := openLog(t, name, b); err != nil {
				t.Fatalf("crash after chunk %d of %d: %v", i, len(chunks), err)
			}
		}
	}
}

// A store writes, syncs now and then, and reuses logs. At whatever moment the machine crashes, the logs are not taken
// for damaged.
func TestLog_crashed(t *testing.T) {
	crashes := 3000 / thinning
	r := sealedRun(t) // the first session writes another format
	l := &listener{}
	running := freeze.New(r.disk, dir, nil)
	check(t, running.Verify())
	opts := smallOptions(running, l)
	opts.MemTableSize, opts.MaxManifestFileSize = 256<<10, 1<<20
	db := must(pebble.Open(dir, opts))
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	torn := 0
	for n := 0; n < crashes; {
		b := db.NewBatch()
		for range 1 + rng.IntN(3) {
			check(t, b.Set(binary.LittleEndian.AppendUint16(nil, uint16(rng.IntN(1000))), make([]byte, rng.IntN(3000)), nil))
		}
		o := pebble.NoSync
		if rng.IntN(4) == 0 {
			o = pebble.Sync
		}
		check(t, errors.Join(db.Apply(b, o), b.Close()))
		if rng.IntN(2) == 0 {
			continue
		}
		n++
		disk := r.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		frozen := freeze.New(disk, dir, nil)
		check(t, frozen.Verify())
		for _, entry := range must(disk.List(dir)) {
			digits, ok := strings.CutSuffix(entry, ".log")
			if !ok {
				continue
			}
			f, err := frozen.Open("db/" + entry)
			if err != nil {
				t.Fatalf("crash %d of seed %d: %v", n, seed, err)
			}
			check(t, f.Close())
			data := must(readFile(disk, "db/"+entry))
			number := uint32(must(strconv.ParseUint(digits, 10, 32)))
			if list := chunksOf(data, number); len(list) > 0 && strings.Trim(data[min(list[len(list)-1].end, len(data)):], "\x00") != "" {
				torn++
			}
		}
	}
	check(t, errors.Join(db.Close(), l.err()))
	if torn < crashes/4 {
		t.Errorf("%d crashes left %d logs that go on behind the first chunk that is not whole", crashes, torn)
	}
}

// renumber makes a chunk look like one of another log.
func renumber(chunk []byte, number uint32) {
	binary.LittleEndian.PutUint32(chunk[7:], number)
	sum(chunk)
}

// sum puts a checksum into a chunk.
func sum(chunk []byte) {
	crc := crc32.Checksum(chunk[6:], crc32.MakeTable(crc32.Castagnoli))
	binary.LittleEndian.PutUint32(chunk, bits.RotateLeft32(crc, 17)+0xa282ead8)
}

// appendChunk appends a chunk that is whole.
func appendChunk(dst []byte, number uint32, synced uint64, payload []byte) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint16(append(dst, 0, 0, 0, 0), uint16(len(payload)))
	dst = binary.LittleEndian.AppendUint32(append(dst, 9), number)
	dst = append(binary.LittleEndian.AppendUint64(dst, synced), payload...)
	sum(dst[start:])
	return dst
}

// A value can hold bytes that look like a chunk of this log which vouches for itself. These are not looked at if a
// crash may have torn the header that leads to them.
func TestLog_imitated(t *testing.T) {
	const number = 7
	// The torn chunk has zeros for its length. Its payload then seems to be the next chunk.
	forged := appendChunk(nil, number, 1<<20, []byte("a value"))
	for _, c := range []struct {
		before int // bytes in front of the torn chunk
		torn   func(chunk []byte)
	}{
		{sector - 6, func(chunk []byte) { clear(chunk[:6]) }}, // its header is in two sectors, the first is lost
		{sector - 6, func(chunk []byte) { clear(chunk[6:]) }},
		{0, func(chunk []byte) { clear(chunk[:sector]) }},
		{100, func(chunk []byte) { clear(chunk[:sector-100]) }},
	} {
		var log []byte
		if c.before > 0 {
			log = appendChunk(nil, number, 0, make([]byte, c.before-chunkHeadLen))
		}
		log = appendChunk(log, number, 0, slices.Repeat(forged, 100))
		c.torn(log[c.before:])
		check(t, openLog(t, "db/000007.log", log))
	}
}

// A broken chunk does not vouch for another.
func TestLog_notWhole(t *testing.T) {
	const number = 7
	for _, c := range []struct {
		whole bool
		want  error
	}{{true, freeze.ErrDamaged}, {false, nil}} {
		log := appendChunk(nil, number, 0, make([]byte, 100))
		log[len(log)-1]++
		log = appendChunk(log, number, 100, make([]byte, 100))
		if !c.whole {
			log[len(log)-1]++
		}
		if err := openLog(t, "db/000007.log", log); !errors.Is(err, c.want) {
			t.Errorf("behind a broken chunk one that is whole, %t: %v, want %v", c.whole, err, c.want)
		}
	}
}

// Logs that end as they should, and files that are no logs.
func TestLog_ends(t *testing.T) {
	name, _, data := killedLog(t)
	r := newRun()
	openErr, broken := r.session(r.disk, &(&fault{}).opened, 5) // the first: chunks of an older format
	check(t, errors.Join(openErr, broken, r.failed))
	ended := 0
	for _, disk := range []vfs.FS{r.disk} {
		for _, entry := range must(disk.List(dir)) {
			if strings.HasSuffix(entry, ".log") {
				check(t, openLog(t, "db/"+entry, []byte(must(readFile(disk, "db/"+entry)))))
				ended++
			}
		}
	}
	if ended == 0 {
		t.Error("no log that was closed")
	}
	check(t, openLog(t, name, nil))
	check(t, openLog(t, name, slices.Repeat([]byte{0}, 100<<10)))
	check(t, openLog(t, "db/000777.log", []byte(data))) // another's
	check(t, openLog(t, "db/x.log", []byte(data)))
}

// EachRecord finds the records that Pebble finds, and behind a broken chunk all records but the one that has it. If a header is
// broken it may miss some, but finds nothing that is no record.
func TestEachRecord(t *testing.T) {
	_, number, data := killedLog(t)
	recordsOf := func(data []byte) (list []string) {
		freeze.EachRecord(data, uint64(number), func(record []byte) { list = append(list, string(record)) })
		return list
	}
	want := []string(nil)
	r := newRecordReader(record.NewReader, strings.NewReader(data), number)
	for {
		rec, err := r.Next()
		if err != nil {
			break
		}
		want = append(want, string(must(io.ReadAll(rec))))
	}
	if got := recordsOf([]byte(data)); len(want) < 100 || !slices.Equal(got, want) {
		t.Fatalf("%d records, Pebble has %d", len(got), len(want))
	}
	at, inTwo := -1, 0 // the record of a chunk
	for _, c := range chunksOf(data, number) {
		kind := (data[c.at+6] - 9) % 4 // 0 whole, 1 first, 2 middle, 3 last
		if kind <= 1 {
			at++
		} else {
			inTwo++
		}
		for _, place := range []int{c.at, c.at + chunkHeadLen, c.end - 1} {
			b := []byte(data)
			b[place] ^= 4
			if got := recordsOf(b); !slices.Equal(got, slices.Delete(slices.Clone(want), at, at+1)) {
				t.Errorf("record %d is broken at %d: %d records of %d", at, place, len(got), len(want))
			}
		}
		for _, place := range []int{c.at + 4, c.at + 6, c.at + 7} { // length, kind, number
			for bit := range 8 {
				b := []byte(data)
				b[place] ^= 1 << bit
				rest := want
				for _, got := range recordsOf(b) {
					i := slices.Index(rest, got)
					if i < 0 {
						t.Fatalf("the header at %d is broken: no record, or one that comes too late: %.20q", c.at, got)
					}
					rest = rest[i+1:]
				}
			}
		}
	}
	if inTwo == 0 {
		t.Error("no record has several chunks")
	}
}

// newRecordReader calls record.NewReader, one of whose types cannot be named here.
func newRecordReader[N ~uint64](open func(io.Reader, N) *record.Reader, log io.Reader, number uint32) *record.Reader {
	return open(log, N(number))
}
