package remains

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/freeze"
)

// comparer is what every MANIFEST of a store begins with.
func comparer() []any {
	name := pebble.DefaultComparer.Name
	return []any{tagComparer, len(name), name}
}

// sealOf returns a seal of MANIFESTs, by number in order: see package freeze.
func sealOf(manifests map[int][]byte) []byte {
	table := crc32.MakeTable(crc32.Castagnoli)
	b := append([]byte(freeze.SealMagic), freeze.SealVersion, byte(len(manifests)))
	for _, n := range slices.Sorted(maps.Keys(manifests)) {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
		b = binary.LittleEndian.AppendUint64(b, uint64(len(manifests[n])))
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(manifests[n], table))
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, table))
}

const formatMarker = "marker.format-version.000001.013"

// storedLog returns a log as Pebble writes it, in which each record was synced before the next was written.
func storedLog(number uint32, records ...[]byte) []byte {
	var b []byte
	for _, rec := range records {
		head := binary.LittleEndian.AppendUint16(nil, uint16(len(rec)))
		chunk := binary.LittleEndian.AppendUint32([]byte{9}, number)
		chunk = append(binary.LittleEndian.AppendUint64(chunk, uint64(len(b))), rec...)
		sum := crc32.Checksum(chunk, crc32.MakeTable(crc32.Castagnoli))
		b = binary.LittleEndian.AppendUint32(b, bits.RotateLeft32(sum, 17)+0xa282ead8)
		b = append(append(b, head...), chunk...)
	}
	return b
}

// commitOf returns a commit that sets a key's header.
func commitOf(seq uint64, key string) []byte {
	stored := format.AppendHeaderKey(nil, 7, []byte(key))
	b := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, seq), 1)
	b = binary.AppendUvarint(append(b, byte(pebble.InternalKeyKindSet)), uint64(len(stored)))
	return append(binary.AppendUvarint(append(b, stored...), 1), 'v')
}

// wholeStore returns the files of a store without tables that was not closed: its log has the commits 10 and 11.
func wholeStore() map[string][]byte {
	manifest := manifestOf(edit(append(comparer(), tagMinLog, 5, tagNextFile, 6)...), edit(tagLastSeq, 9))
	return map[string][]byte{
		"MANIFEST-000004": manifest, "marker.manifest.000001.MANIFEST-000004": {}, formatMarker: {},
		freeze.SealName: sealOf(map[int][]byte{4: manifest}), "000005.log": storedLog(5, commitOf(10, "a"), commitOf(11, "b")),
		format.SidecarName: format.AppendSidecar(nil, [16]byte{1}, 11), "OPTIONS-000003": []byte("[Version]\n"),
	}
}

// remainsOf examines a store with some files.
func remainsOf(t *testing.T, files map[string][]byte, deep Deep) (*Remains, error) {
	t.Helper()
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("store", 0o755))
	for name, data := range files {
		write(t, mem, "store/"+name, data)
	}
	return Examine(t.Context(), mem, "store", deep)
}

// examined returns the findings about a store in which some files are replaced.
type examined struct {
	change   map[string][]byte // nil for a file that is gone
	problems string            // apart by lines
	guessed  bool
	tail     bool
	closed   bool
	maybe    bool // FS.MaybeEarlier
	nameless bool // no file besides the tables tells the store's identity
}

func (x examined) check(t *testing.T) {
	t.Helper()
	files := wholeStore()
	maps.Copy(files, x.change)
	maps.DeleteFunc(files, func(_ string, data []byte) bool { return data == nil })
	r, err := remainsOf(t, files, false)
	must(t, err)
	_, problems := r.FS.Lost()
	_, named := r.FS.Identity()
	x.change = nil
	got := examined{nil, strings.Join(problems, "\n"), r.Guessed, r.Tail, !r.Unclosed, r.FS.MaybeEarlier(), !named}
	if !reflect.DeepEqual(got, x) {
		t.Errorf("%+v,\nwant %+v", got, x)
	}
}

// Of several MANIFESTs the right one is read, and a wrong one is named.
func TestExamine_manifest(t *testing.T) {
	whole := wholeStore()["MANIFEST-000004"]
	older := manifestOf(edit(append(comparer(), tagMinLog, 2, tagNextFile, 4)...))
	const unmarked, unsealed = "marker.manifest is missing: it names the MANIFEST in use", "SEAL is missing"
	const marker = "marker.manifest.000001.MANIFEST-000004"
	torn := append(bytes.Clone(whole), whole[:9]...)
	for name, x := range map[string]examined{
		"whole":      {},
		"not sealed": {change: map[string][]byte{freeze.SealName: nil}, problems: unsealed},
		"not marked": {
			change:   map[string][]byte{marker: nil, "MANIFEST-000003": older, "MANIFEST-000006": []byte("of no seal")},
			problems: unmarked,
		},
		"neither": {
			change:   map[string][]byte{marker: nil, freeze.SealName: nil, "MANIFEST-000003": older, "MANIFEST-000002": older},
			problems: unsealed + "\n" + unmarked,
		},
		"marked after the seal": {change: map[string][]byte{ // a crash between the two
			"MANIFEST-000006": older, freeze.SealName: sealOf(map[int][]byte{4: whole, 6: older}),
		}},
		"older than the seal": {
			change: map[string][]byte{
				"MANIFEST-000003": older, marker: nil, "marker.manifest.000001.MANIFEST-000003": {},
			},
			problems: "MANIFEST-000003 is out of date: MANIFEST 4 was in use", guessed: true,
		},
		"other bytes": {
			change:   map[string][]byte{"MANIFEST-000004": flipped(bytes.Clone(whole), len(whole)-1)},
			problems: "MANIFEST-000004 is damaged: it is not what was written to it", guessed: true,
		},
		"torn behind the seal": {change: map[string][]byte{"MANIFEST-000004": torn}},
		"torn, not sealed": {
			change: map[string][]byte{"MANIFEST-000004": torn, freeze.SealName: nil}, guessed: true,
			problems: unsealed + "\nMANIFEST-000004 is damaged: it does not end with a whole record, and no seal says how long it has to be",
		},
		"an edit that nobody knows": {
			change:   map[string][]byte{"MANIFEST-000004": manifestOf(edit(77)), freeze.SealName: nil},
			problems: unsealed + "\nMANIFEST-000004 is damaged: " + errManifest.Error(), guessed: true,
		},
		"of another database": {
			change:   map[string][]byte{"MANIFEST-000004": manifestOf(edit(tagComparer, 3, "cmp")), freeze.SealName: nil},
			problems: unsealed + "\nMANIFEST-000004 is not that of a store", guessed: true,
		},
		"an old one": {
			change: map[string][]byte{
				"MANIFEST-000003": flipped(bytes.Clone(older), len(older)-1), freeze.SealName: sealOf(map[int][]byte{3: older, 4: whole}),
			},
			problems: "MANIFEST-000003 is damaged; it is not in use any more",
		},
	} {
		t.Run(name, x.check)
	}
}

// Small files, and files of others, are named, and nothing is lost with them.
func TestExamine_small(t *testing.T) {
	const stray = "20261128.log"
	for name, x := range map[string]examined{
		"no format":        {change: map[string][]byte{formatMarker: nil}, problems: "marker.format-version is missing"},
		"a stray":          {change: map[string][]byte{stray: []byte("a log of a crawler\n")}, problems: stray + " was not written by the store: it has the name of a log, but does not begin as one"},
		"nobody's options": {change: map[string][]byte{"OPTIONS-x": []byte("nothing")}},
		"other options": {
			change:   map[string][]byte{"OPTIONS-000003": []byte("[Version]\n[Options]\n  merger=other\n")},
			problems: `OPTIONS-000003 is damaged: pebble: merger name from file "other" != merger name from options "` + block.MergerName + `"`,
		},
		"no sidecar": {
			change:   map[string][]byte{format.SidecarName: nil},
			problems: "DURABLE is missing" + blindness, maybe: true, nameless: true,
		},
		"no sidecar's": {
			change:   map[string][]byte{format.SidecarName: []byte("nothing")},
			problems: "DURABLE is damaged: " + plain(sidecarError()) + blindness, maybe: true, nameless: true,
		},
		"closed": {change: map[string][]byte{format.SidecarName: format.AppendSidecar(nil, [16]byte{1}, 12)}, closed: true},
		"cut": {
			change: map[string][]byte{format.SidecarName: format.AppendSidecar(nil, [16]byte{1}, 13)}, tail: true,
			problems: "the log ends at sequence 11, but everything up to 12 was on stable storage: the commits after 11 are lost",
		},
		"just made, without a log": {
			change: map[string][]byte{"000005.log": nil, format.SidecarName: format.AppendSidecar(nil, [16]byte{1}, format.SidecarUnknown)},
			tail:   true, problems: "the log is missing: commits since the last flush may be lost",
		},
	} {
		t.Run(name, x.check)
	}
}

// A file that the store did not write is not shown as one of the store's.
func TestExamine_stray(t *testing.T) {
	files := wholeStore()
	files["20261128.log"] = []byte("a log of a crawler\n")
	r, err := remainsOf(t, files, false)
	must(t, err)
	for name, shown := range map[string]bool{"20261128.log": false, "000005.log": true} {
		if _, err := r.FS.Stat("store/" + name); (err == nil) != shown {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func sidecarError() error {
	_, _, err := format.DecodeSidecar([]byte("nothing"))
	return err
}

// Problems come in the same order whatever the order in which a file system lists names, or a map has them.
func TestExamine_order(t *testing.T) {
	files := wholeStore()
	files["MANIFEST-000004"] = nil
	want := []string{"MANIFEST-000004"}
	for n := 10; n < 30; n++ {
		name := fmt.Sprintf("%06d.sst", n)
		files[name], want = []byte("no table\x00"), append(want, name)
	}
	for n := 10; n < 30; n++ {
		name := fmt.Sprintf("OPTIONS-%06d", n)
		files[name], want = []byte("[Version]\nno options\n"), append(want, name)
	}
	maps.DeleteFunc(files, func(_ string, data []byte) bool { return data == nil })
	r, err := remainsOf(t, files, true)
	must(t, err)
	var got []string
	for _, d := range r.FS.damages {
		if len(got) == 0 || got[len(got)-1] != d.File {
			got = append(got, d.File)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A store of a newer Pebble is not examined.
func TestExamine_newer(t *testing.T) {
	for _, value := range []string{"999", strings.Repeat("9", 30)} {
		files := wholeStore()
		files["marker.format-version.000002."+value] = []byte{}
		if _, err := remainsOf(t, files, false); !errors.Is(err, format.ErrUnsupportedVersion) {
			t.Errorf("format %s: %v", value, err)
		}
	}
}

// Names that are not as Pebble gives them are others.
func TestExamination_list(t *testing.T) {
	e := &examination{found: map[string]map[uint64]string{".log": {}, ".sst": {}, "MANIFEST-": {}}}
	e.list([]string{"x.log", "000007.sst", "MANIFEST-x", "000006.txt", "000005.log", "MANIFEST-000004"})
	want := map[string]map[uint64]string{".log": {5: "000005.log"}, ".sst": {7: "000007.sst"}, "MANIFEST-": {4: "MANIFEST-000004"}}
	if others := []string{"000006.txt", "MANIFEST-x", "x.log"}; !reflect.DeepEqual(e.found, want) || !slices.Equal(e.others, others) {
		t.Errorf("%v and %q", e.found, e.others)
	}
}

// The marker with the greatest number counts, and what is not like a marker does not.
func TestMarker(t *testing.T) {
	names := []string{
		"7.MANIFEST-000009", "marker.manifest.000003.MANIFEST-000008", "marker.manifest.000002.MANIFEST-000007",
		"marker.manifest.000009", "marker.manifest.x.MANIFEST-000006", "marker.other.000005.MANIFEST-000005",
	}
	for range names {
		if value, ok := marker(names, "manifest"); value != "MANIFEST-000008" || !ok {
			t.Errorf("of %q: %q, %t", names, value, ok)
		}
		names = append(names[1:], names[0])
	}
	for _, name := range []string{"marker.manifest.x.MANIFEST-000006", "7.MANIFEST-000009", "marker.manifest.000009"} {
		if value, ok := marker([]string{name}, "manifest"); ok {
			t.Errorf("%s is a marker of %s", name, value)
		}
	}
	for _, value := range []string{"000004", "MANIFEST-x", "MANIFEST-", ""} {
		if n, ok := manifestNumber([]string{"marker.manifest.000001." + value}); ok {
			t.Errorf("%q names the MANIFEST %d", value, n)
		}
	}
}

// Without a marker no MANIFEST counts, also not one with the number 0.
func TestKnown_unmarked(t *testing.T) {
	mem := vfs.NewMem()
	write(t, mem, "MANIFEST-000000", wholeStore()["MANIFEST-000004"])
	if k, err := known(mem, "", []string{"MANIFEST-000000"}); k.Table != nil || err != nil {
		t.Errorf("%+v, %v", k, err)
	}
}

// Only a MANIFEST that knows of later commits than the sidecar does makes it necessary to read the log.
func TestReached(t *testing.T) {
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("store", 0o755))
	for name, data := range wholeStore() {
		write(t, mem, "store/"+name, data)
	}
	for least, want := range map[uint64]uint64{10: 12, 11: 0} {
		if next, err := Reached(t.Context(), mem, "store", least); next != want || err != nil {
			t.Errorf("at least %d: %d, %v, want %d", least, next, err, want)
		}
	}
}

// Only a deep look reads tables that are there with the right size.
func TestExamine_tables(t *testing.T) {
	w := newTable(t, false, false)
	v := version{comparer: pebble.DefaultComparer.Name, minLog: 5, nextFile: w.Number + 10, lastSeq: 500, tables: map[uint64]Table{w.Number: w.Table}}
	name := fmt.Sprintf("%06d.sst", w.Number)
	damaged := flipped(bytes.Clone(w.data), len(w.data)/2)
	for what, tt := range map[string]struct {
		data []byte
		deep Deep
		lost bool
	}{
		"whole": {w.data, true, false}, "whole, not deep": {w.data, false, false},
		"damaged": {damaged, true, true}, "damaged, not deep": {damaged, false, false},
		"longer, not deep": {append(bytes.Clone(damaged), 0), false, true}, "missing, not deep": {nil, false, true},
	} {
		files := wholeStore()
		files["MANIFEST-000004"] = v.encode()
		files[freeze.SealName] = sealOf(map[int][]byte{4: files["MANIFEST-000004"]})
		if tt.data != nil {
			files[name] = tt.data
		}
		r, err := remainsOf(t, files, tt.deep)
		must(t, err)
		if _, problems := r.FS.Lost(); (len(r.Lost) > 0) != tt.lost || tt.lost != (len(problems) > 0) {
			t.Errorf("%s: lost %v, %v", what, r.Lost, problems)
		}
	}
	_, problems, err := CheckTable(t.Context(), vfs.NewMem(), "", w.Table, true)
	if len(problems) != 1 || problems[0] != name+" is missing" || err != nil {
		t.Errorf("%q, %v", problems, err)
	}
}

// A MANIFEST that was guessed goes on behind the files, the tables and the logs.
func TestExamine_guessed(t *testing.T) {
	w := newTable(t, false, false)
	table := fmt.Sprintf("%06d.sst", w.Number)
	for name, tt := range map[string]struct {
		files          map[string][]byte
		seq, file, max uint64
	}{
		"tables": {map[string][]byte{table: w.data}, w.LargestSeq, w.Number, w.Number + 1},
		"logs":   {map[string][]byte{table: w.data, "000777.log": logOf(600, 1, 2)}, 602, 777, 778},
	} {
		r, err := remainsOf(t, tt.files, false)
		must(t, err)
		manifest := manifestName(tt.max)
		v, clean, err := readManifest(read(t, r.FS, "store/"+manifest))
		must(t, err)
		if !r.Guessed || !clean || v.lastSeq != tt.seq || v.nextFile != tt.max+1 {
			t.Errorf("%s: %+v", name, v)
		}
		must(t, func() error { _, err := r.FS.Stat("store/marker.manifest.000001." + manifest); return err }())
	}
}

// Logs are read in their order. Those behind a damaged one are named.
func TestLogs_order(t *testing.T) {
	mem := vfs.NewMem()
	e := &examination{base: mem, fs: newFS(mem, ""), found: map[string]map[uint64]string{".log": {}}}
	for n := uint64(0); n < 30; n++ {
		name := fmt.Sprintf("%06d.log", 10+n)
		e.found[".log"][10+n] = name
		data := logOf(10+n, 1)
		if n == 27 {
			data = flipped(data, 10)
		}
		write(t, mem, name, data)
	}
	next, err := e.logs(&version{minLog: 10, loggedBy: 9})
	must(t, err)
	const later = "comes after a damaged log: its commits are left out"
	if next != 37 || len(e.damages) != 3 || e.damages[1] != (Damage{"000038.log", later}) || e.damages[2] != (Damage{"000039.log", later}) {
		t.Errorf("next %d: %v", next, e.damages)
	}
}

// Of the commits that can still be read, those behind the damage have changed what is lost, and no others.
func TestLogs_changedLater(t *testing.T) {
	before := [][]byte{commitOf(10, "a"), commitOf(11, "b")}
	damaged := len(storedLog(5, before...)) + 30
	files := wholeStore()
	files["000005.log"] = flipped(storedLog(5, append(before, commitOf(12, "c"), []byte("short"), commitOf(13, "d"))...), damaged)
	r, err := remainsOf(t, files, false)
	must(t, err)
	if want := map[string]bool{"d": true}; !r.Tail || !maps.Equal(r.Later.Keys, want) || len(r.Later.Objects) > 0 {
		t.Errorf("the end is lost: %t, then %v were changed, want %v", r.Tail, r.Later, want)
	}
}
