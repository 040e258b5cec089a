package freeze_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv/freeze"
)

// record is about as long as each in a log.
const record = 2*(3+7+2+400) + 12 + 19

// killedLog returns what is in the only log of a store that was killed, some 80 KiB in three blocks, and its name. All
// records were synced, but the last three at once.
func killedLog(t *testing.T) (name, data string) {
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
			return "db/" + entry, data
		}
	}
	t.Fatal("no log")
	return "", ""
}

// openLog has a log looked at as before it is replayed.
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

// TestLog_flipped flips each bit of some records: those at the end, which nothing vouches for, and one that is in two
// blocks. Each is noticed.
func TestLog_flipped(t *testing.T) {
	const block = 32 << 10
	name, data := killedLog(t)
	end := len(strings.TrimRight(data, "\x00"))
	check(t, openLog(t, name, []byte(data)))
	rng := rand.New(rand.NewPCG(1, 2))
	flip := func(at, bit int) {
		if (8*at+bit)%thinning != 0 {
			return
		}
		b := []byte(data)
		b[at] ^= 1 << bit
		if err := openLog(t, name, b); !errors.Is(err, freeze.ErrDamaged) {
			t.Errorf("bit %d of byte %d of %d: %v", bit, at, end, err)
		}
	}
	for bit := range 8 {
		for at := end - record; at < end; at++ {
			flip(at, bit)
		}
		for at := block - record; at < block+record; at++ {
			flip(at, bit)
		}
		for range 50 {
			flip(rng.IntN(block), bit)
		}
	}
}

// TestLog_vouched damages more than a bit of records that a later one says were synced, and of the last, which none does.
func TestLog_vouched(t *testing.T) {
	name, data := killedLog(t)
	end := len(strings.TrimRight(data, "\x00"))
	for _, c := range []struct {
		at   int
		want error
	}{
		{end - 5*record - record/2, freeze.ErrDamaged}, // Pebble notes a sync before it makes the next
		{end - 2*record - record/2, nil},               // what follows was written before it was synced
		{end - record/2, nil},
	} {
		b := []byte(data)
		b[c.at] ^= 1
		b[c.at+8] ^= 1
		if err := openLog(t, name, b); !errors.Is(err, c.want) {
			t.Errorf("byte %d of %d: %v, want %v", c.at, end, err, c.want)
		}
	}
}

// TestLog_noBatch has something at the end that one bit makes a chunk, but that is no batch.
func TestLog_noBatch(t *testing.T) {
	name, data := killedLog(t)
	end := len(strings.TrimRight(data, "\x00"))
	log, _ := strings.CutSuffix(strings.TrimPrefix(name, "db/"), ".log")
	number := must(strconv.ParseUint(log, 10, 32))
	for _, c := range []struct {
		count byte // of one entry
		want  error
	}{{1, freeze.ErrDamaged}, {2, nil}} {
		payload := append(make([]byte, 8), c.count, 0, 0, 0, 1, 1, 'k', 1, 'v')
		chunk := binary.LittleEndian.AppendUint32(append(make([]byte, 4), byte(len(payload)), 0, 9), uint32(number))
		chunk = append(append(chunk, make([]byte, 8)...), payload...)
		crc := crc32.Checksum(chunk[6:], crc32.MakeTable(crc32.Castagnoli))
		binary.LittleEndian.PutUint32(chunk, bits.RotateLeft32(crc, 17)+0xa282ead8)
		b := append([]byte(data[:end]), chunk...)
		check(t, openLog(t, name, b))
		b[len(b)-1] ^= 4
		if err := openLog(t, name, b); !errors.Is(err, c.want) {
			t.Errorf("a batch of %d entries: %v, want %v", c.count, err, c.want)
		}
	}
}

// TestLog_torn ends a log as crashes do: none is taken for damaged.
func TestLog_torn(t *testing.T) {
	name, data := killedLog(t)
	end := len(strings.TrimRight(data, "\x00"))
	old := []byte(data[:len(data)/2])
	rng := rand.NewChaCha8([32]byte{1}) // by chance one garbled record in a million looks as if a bit had flipped
	for cut := end - 2000; cut < end; cut += thinning {
		b := []byte(data)
		check(t, openLog(t, name, b[:cut]))
		clear(b[cut:])
		check(t, openLog(t, name, b))
		copy(b[cut:], old[cut%7:]) // of a log that was used before
		check(t, openLog(t, name, b))
		rng.Read(b[cut:])
		check(t, openLog(t, name, b))
	}
	const sector = 512
	for at := end / sector * sector; at > end-800; at -= sector { // of the last record alone: those before were synced
		b := []byte(data)
		clear(b[at:min(at+sector, len(b))])
		check(t, openLog(t, name, b))
		copy(b[at:], old[:sector])
		check(t, openLog(t, name, b))
	}
}

// TestLog_ends has logs that end as they should.
func TestLog_ends(t *testing.T) {
	name, data := killedLog(t)
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
