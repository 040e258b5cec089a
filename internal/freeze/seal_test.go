package freeze_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"github.com/sievekv/sievekv/internal/freeze"
	"github.com/sievekv/sievekv/internal/kvtest"
)

const sealFile = "db/SEAL"

// sealedRun returns a run after one session.
func sealedRun(t *testing.T) *run {
	t.Helper()
	r := newRun()
	openErr, broken := r.session(r.disk, &(&fault{}).opened, 45)
	check(t, errors.Join(openErr, broken, r.failed))
	return r
}

// copyOf returns a disk with the same files, all synced.
func copyOf(disk *kvtest.Disk) *kvtest.Disk {
	return disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 0))})
}

// manifestOf returns the name of the MANIFEST that is in use.
func manifestOf(disk vfs.FS) string { return must(atomicfs.ReadMarker(disk, dir, "manifest")) }

// sealOf encodes a seal as seal.go describes it.
func sealOf(manifests ...string) string {
	b := append([]byte("SVSL"), 1, byte(len(manifests)/2))
	for i := 0; i < len(manifests); i += 2 {
		var number uint64
		must(fmt.Sscanf(manifests[i], "MANIFEST-%d", &number))
		data := manifests[i+1]
		b = binary.LittleEndian.AppendUint64(b, number)
		b = binary.LittleEndian.AppendUint64(b, uint64(len(data)))
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum([]byte(data), crc32.MakeTable(crc32.Castagnoli)))
	}
	return withSum(b)
}

// withSum appends the checksum of a seal.
func withSum(b []byte) string {
	return string(binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))))
}

// TestSeal_format pins the bytes, and what Verify returns for other bytes.
func TestSeal_format(t *testing.T) {
	r := sealedRun(t)
	name := manifestOf(r.disk)
	data := must(readFile(r.disk, "db/"+name))
	got := must(readFile(r.disk, sealFile))
	const head, each, sum = 6, 20, 4
	if n := len(got); n != head+2*each+sum || !strings.HasSuffix(got[head+each:n-sum], sealOf(name, data)[head:head+each]) {
		t.Fatalf("the seal is %x, and does not end with %s", got, name)
	}
	whole := sealOf(name, data)
	for _, c := range []struct {
		name, seal string
		want       error
	}{
		{"as it is", got, nil},
		{"of one MANIFEST", whole, nil},
		{"of the beginning", sealOf(name, data[:len(data)/2]), nil},
		{"of an older one", sealOf("MANIFEST-000001", "x"), nil},
		{"of an older one and this", sealOf("MANIFEST-000001", "x", name, data), nil},
		{"of this one and a newer", sealOf(name, data, "MANIFEST-000999", "x"), nil},
		{"of a newer one", sealOf("MANIFEST-000999", "x"), freeze.ErrDamaged},
		{"of more than there is", sealOf(name, data+"x"), freeze.ErrDamaged},
		{"of something else", sealOf(name, string([]byte{data[0] ^ 1})+data[1:]), freeze.ErrDamaged},
		{"of none", sealOf(), freeze.ErrDamaged},
		{"of three", sealOf(name, data, name, data, name, data), freeze.ErrDamaged},
		{"too long", whole + "x", freeze.ErrDamaged},
		{"too short", whole[:len(whole)-1], freeze.ErrDamaged},
		{"empty", "", freeze.ErrDamaged},
		{"newer", withSum([]byte(whole[:4] + "\x02" + whole[5:len(whole)-sum])), freeze.ErrVersion},
		{"newer and longer", withSum([]byte("SVSL\x02" + strings.Repeat("x", 4096))), freeze.ErrVersion},
		{"newer and shorter", withSum([]byte("SVSL\x02x")), freeze.ErrVersion},
		{"of another version by a flipped bit", whole[:4] + "\x03" + whole[5:], freeze.ErrDamaged},
	} {
		disk := copyOf(r.disk)
		writeFile(disk, sealFile, c.seal)
		frozen := freeze.New(disk, dir, nil)
		if err := frozen.Verify(); !errors.Is(err, c.want) || frozen.Failed() != nil {
			t.Errorf("%s: %v, %v", c.name, err, frozen.Failed())
		}
		if c.want == nil {
			r.acked = maps.Clone(r.acked)
			check(t, r.verify(disk))
		}
	}
}

// TestSeal_adopted opens a store that has no seal, and one that a program without seals has written to. Both have a
// seal from then on.
func TestSeal_adopted(t *testing.T) {
	r := sealedRun(t)
	check(t, r.disk.Remove(sealFile))
	for range 2 {
		name := manifestOf(r.disk)
		check(t, freeze.New(r.disk, dir, nil).Verify())
		if got, want := must(readFile(r.disk, sealFile)), sealOf(name, must(readFile(r.disk, "db/"+name))); got != want {
			t.Fatalf("the seal is %x, want %x", got, want)
		}
		writeFile(r.disk, sealFile, sealOf("MANIFEST-000001", "x"))
	}
	check(t, r.verify(r.disk))
}

// TestSeal_found has a record at the end of a MANIFEST that is neither sealed nor synced, as a killed process leaves
// it. When the store was opened it is both, since Pebble acts on it.
func TestSeal_found(t *testing.T) {
	r := sealedRun(t)
	name := manifestOf(r.disk)
	data := must(readFile(r.disk, "db/"+name))
	sealed := data[:len(data)-10]
	writeFile(r.disk, sealFile, sealOf(name, sealed))
	writeFile(r.disk, "db/"+name, sealed)
	f := must(r.disk.OpenReadWrite("db/"+name, category))
	must(f.WriteAt([]byte(data[len(sealed):]), int64(len(sealed))))
	check(t, f.Close())

	check(t, freeze.New(r.disk, dir, nil).Verify())
	crashed := r.disk.CrashClone(vfs.CrashCloneCfg{})
	if got := must(readFile(crashed, "db/"+name)); got != data {
		t.Errorf("what was found is not on the disk: %d bytes of %d", len(got), len(data))
	}
	if got := must(readFile(crashed, sealFile)); got != sealOf(name, data) {
		t.Errorf("what was found is not sealed: %x", got)
	}
	check(t, r.verify(crashed))
}

// TestSeal_fails has a call fail that writes the seal. That freezes the directory.
func TestSeal_fails(t *testing.T) {
	for _, op := range []string{"create", "write", "sync", "close", "rename"} {
		r := newRun()
		f := &fault{site: site{op, "SEAL.tmp"}, nth: 2}
		openErr, broken := r.session(&faultFS{FS: r.disk, dir: dir, fault: f}, &f.opened, 45)
		if broken != nil || openErr == nil && r.failed == nil {
			t.Errorf("%s: %v, %v; Failed returned %v", op, openErr, broken, r.failed)
		}
		check(t, r.verify(r.disk))
	}
}

// TestSeal_crashes crashes a store before every call to its file system. The store begins new MANIFESTs all the time.
// After each crash it opens, and has everything that was acknowledged, even if the MANIFEST loses all that is not
// sealed.
func TestSeal_crashes(t *testing.T) {
	type shot struct {
		disk  *kvtest.Disk
		acked map[int]bool
		next  int
	}
	var shots []shot
	var mu sync.Mutex // guards shots; the run's own maps belong to the writer
	rng := rand.New(rand.NewPCG(1, 2))
	r := newRun()
	calls := 0
	var acked atomicMap
	f := &fault{before: func() {
		mu.Lock()
		defer mu.Unlock()
		calls++
		percent := 50 * (calls % 3)
		is, next := acked.load()
		shots = append(shots, shot{r.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}), is, next})
	}}
	r.onAck = func() { acked.store(r.acked, r.next) }
	for _, n := range sessions {
		openErr, broken := r.session(&faultFS{FS: r.disk, dir: dir, fault: f}, &f.opened, n)
		check(t, errors.Join(openErr, broken, r.failed))
	}
	cuts := 0
	for i, s := range shots {
		if i%thinning != 0 {
			continue
		}
		after := &run{disk: s.disk, acked: s.acked, next: r.next}
		cut := copyOf(s.disk)
		if cutToSeal(cut) {
			cuts++
			if err := after.verify(cut); err != nil {
				t.Errorf("call %d of %d, after %d writes, without what is not sealed: %v", i, len(shots), s.next, err)
			}
		}
		if err := after.verify(s.disk); err != nil {
			t.Errorf("call %d of %d, after %d writes: %v", i, len(shots), s.next, err)
		}
	}
	t.Logf("%d crashes, %d with a record that was not sealed", len(shots), cuts)
	if cuts == 0 {
		t.Error("every record was sealed at once")
	}
}

// TestSeal_crashedTwice opens a store that crashes each time at the moment when the seal names the new MANIFEST and
// the marker does not yet. The MANIFEST in use stays in the seal.
func TestSeal_crashedTwice(t *testing.T) {
	r := sealedRun(t)
	var crashed *run // with a log to replay, so that each opening begins a MANIFEST of another number
	r.onAck = func() {
		if crashed == nil {
			crashed = &run{disk: r.disk.CrashClone(vfs.CrashCloneCfg{}), acked: maps.Clone(r.acked), next: r.next}
		}
	}
	openErr, broken := r.session(r.disk, &(&fault{}).opened, 5)
	check(t, errors.Join(openErr, broken, r.failed))
	r = crashed
	for range 3 {
		var mu sync.Mutex
		var between *kvtest.Disk // guarded by mu
		before := must(readFile(r.disk, sealFile))
		f := &fault{before: func() {
			mu.Lock()
			defer mu.Unlock()
			disk := r.disk.CrashClone(vfs.CrashCloneCfg{})
			seal := must(readFile(disk, sealFile))
			var number uint64
			must(fmt.Sscanf(manifestOf(disk), "MANIFEST-%d", &number))
			if between == nil && seal != before && binary.LittleEndian.Uint64([]byte(seal[len(seal)-24:])) > number {
				between = disk
			}
		}}
		openErr, broken := r.session(&faultFS{FS: r.disk, dir: dir, fault: f}, &f.opened, 0)
		check(t, errors.Join(openErr, broken, r.failed))
		if between == nil {
			t.Fatal("the marker was moved before the seal")
		}
		r = &run{disk: between, acked: crashed.acked, next: crashed.next}
	}
	check(t, r.verify(r.disk))
}

// cutToSeal cuts the MANIFEST in use to its sealed part, and reports whether there was more.
func cutToSeal(disk *kvtest.Disk) bool {
	name, err := atomicfs.ReadMarker(disk, dir, "manifest")
	if err != nil || name == "" {
		return false // there is no store yet
	}
	seal := must(readFile(disk, sealFile))
	data := must(readFile(disk, "db/"+name))
	var number uint64
	must(fmt.Sscanf(name, "MANIFEST-%d", &number))
	for list := seal[6 : len(seal)-4]; list != ""; list = list[20:] {
		length := binary.LittleEndian.Uint64([]byte(list[8:]))
		if binary.LittleEndian.Uint64([]byte(list)) == number && length < uint64(len(data)) {
			writeFile(disk, "db/"+name, data[:length])
			return true
		}
	}
	return false
}

// atomicMap is a copy of what was acknowledged.
type atomicMap struct {
	mu    sync.Mutex
	acked map[int]bool
	next  int
}

func (m *atomicMap) store(acked map[int]bool, next int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.acked, m.next = maps.Clone(acked), next
}

func (m *atomicMap) load() (map[int]bool, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.acked, m.next
}
