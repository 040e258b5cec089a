package remains

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/freeze"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// written is a table that Pebble has written.
type written struct {
	Table
	data    []byte
	deletes bool // it has a deletion of a range of keys
}

// newTable returns the only table of a database with 400 keys, in many blocks.
func newTable(t *testing.T, deletes, compacted bool) *written {
	t.Helper()
	w := tableOf(t, func(db *pebble.DB) {
		if deletes {
			must(t, db.DeleteRange([]byte("key 0100"), []byte("key 0200"), nil))
		}
		for i := range 400 {
			must(t, db.Set(fmt.Appendf(nil, "key %04d", i), bytes.Repeat([]byte{byte(i)}, 100), nil))
		}
		must(t, db.Flush())
		if compacted { // two tables, as one would only be moved
			must(t, db.Set([]byte("key 0000"), make([]byte, 100), nil))
			must(t, db.Flush())
			must(t, db.Compact(t.Context(), []byte("a"), []byte("z"), false))
		}
	})
	w.deletes = deletes
	return w
}

// tableOf returns the only table that a database has after some changes.
func tableOf(t *testing.T, change func(db *pebble.DB)) *written {
	t.Helper()
	mem := vfs.NewMem()
	o := &pebble.Options{FS: mem, FormatMajorVersion: pebble.FormatNewest, DisableAutomaticCompactions: true, Logger: silent{}}
	o.Merger = &pebble.Merger{Name: block.MergerName, Merge: pebble.DefaultMerger.Merge}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	db, err := pebble.Open("db", o)
	must(t, err)
	change(db)
	levels, err := db.SSTables()
	must(t, err)
	var list []*written
	for _, level := range levels {
		for _, info := range level {
			list = append(list, &written{
				Table: Table{
					Number: uint64(info.FileNum), Size: info.Size, Smallest: info.Smallest, Largest: info.Largest,
					SmallestSeq: uint64(info.SmallestSeqNum), LargestSeq: uint64(info.LargestSeqNum),
				},
				data: read(t, mem, fmt.Sprintf("db/%06d.sst", info.FileNum)),
			})
		}
	}
	must(t, db.Close())
	if len(list) != 1 {
		t.Fatalf("%d tables", len(list))
	}
	return list[0]
}

type silent struct{}

func (silent) Infof(string, ...any)         {}
func (silent) Errorf(string, ...any)        {}
func (silent) Fatalf(form string, a ...any) { panic(fmt.Sprintf(form, a...)) }

func read(t *testing.T, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(name)
	must(t, err)
	info, err := f.Stat()
	must(t, err)
	data := make([]byte, info.Size())
	_, err = f.ReadAt(data, 0)
	must(t, err)
	must(t, f.Close())
	return data
}

func write(t *testing.T, fsys vfs.FS, name string, data []byte) {
	t.Helper()
	f, err := fsys.Create(name, vfs.WriteCategoryUnspecified)
	must(t, err)
	_, err = f.Write(append([]byte(nil), data...))
	must(t, err)
	must(t, f.Close())
}

// examined examines other bytes in place of the table's, nil for none. It returns which of the 400 keys are lost. Each of
// the others has to be in the new table, and so has the deletion of a range of keys.
func (w *written) examined(t *testing.T, what string, data []byte) (lost map[int]bool, problems []string) {
	t.Helper()
	mem := vfs.NewMem()
	if data != nil {
		write(t, mem, "table", data)
	}
	c := newChecker(t.Context(), mem)
	state, err := c.table("table", w.Table, true)
	must(t, err)
	lost = make(map[int]bool)
	if state.repaired == nil {
		if !bytes.Equal(data, w.data) {
			t.Errorf("%s: no damage is found", what)
		}
		return lost, state.problems
	}
	if len(state.problems) == 0 {
		t.Errorf("%s: something is lost without a word", what)
	}
	write(t, mem, "repaired", state.repaired)
	r, err := c.reader("repaired")
	must(t, err)
	defer func() { must(t, r.Close()) }()
	it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	must(t, err)
	found := make(map[string][]byte)
	for kv := it.First(); kv != nil; kv = it.Next() {
		value, _, err := kv.Value(nil)
		must(t, err)
		found[string(kv.K.UserKey)] = bytes.Clone(value)
	}
	must(t, it.Close())
	isLost := func(key []byte) bool {
		return slices.ContainsFunc(state.lost, func(r Range) bool { return r.Contains(key) })
	}
	spans := &rebuild{checker: c}
	spans.deletions("repaired")
	for i := range 400 {
		key := fmt.Appendf(nil, "key %04d", i)
		value, there := found[string(key)]
		switch {
		case isLost(key):
			lost[i] = true
		case !there || !bytes.Equal(value, bytes.Repeat([]byte{byte(i)}, 100)):
			t.Errorf("%s: key %d is neither whole nor lost", what, i)
		case w.deletes && i >= 100 && i < 200 && len(spans.spans) == 0:
			t.Errorf("%s: key %d is not lost, but a deletion of it is", what, i)
		}
		delete(found, string(key))
	}
	if len(found) > 0 {
		t.Errorf("%s: the new table has keys that were never written", what)
	}
	return lost, state.problems
}

// TestTable_flipped flips a bit in many places of tables: nothing is lost without a word, and no more than has to be.
func TestTable_flipped(t *testing.T) {
	for name, w := range map[string]*written{
		"flushed": newTable(t, false, false), "compacted": newTable(t, false, true), "deletions": newTable(t, true, false),
	} {
		t.Run(name, func(t *testing.T) {
			if lost, problems := w.examined(t, "nothing", w.data); len(lost)+len(problems) > 0 {
				t.Fatal("a whole table is damaged:", lost, problems)
			}
			mem := vfs.NewMem()
			write(t, mem, "table", w.data)
			layout, _, err := newChecker(t.Context(), mem).layout("table")
			must(t, err)
			if len(layout.Data) < 8 {
				t.Fatalf("%d blocks", len(layout.Data))
			}
			end := layout.Data[len(layout.Data)-1]
			behind := end.Offset + end.Length + trailerLen // the index and what follows it
			most := 0
			for at := uint64(0); at < uint64(len(w.data)); at += 3 {
				if at < behind {
					at += 197
				}
				data := bytes.Clone(w.data)
				at = min(at, uint64(len(data))-1)
				data[at] ^= 1 << (at % 8)
				lost, _ := w.examined(t, fmt.Sprintf("bit in byte %d of %d", at, len(data)), data)
				if at < behind {
					most = max(most, len(lost))
				}
			}
			// A block of data has less than 50 of the keys.
			if most == 0 || most > 50 {
				t.Errorf("a damaged block of data takes away %d keys", most)
			}
		})
	}
}

// TestTable_cut cuts tables, and removes them.
func TestTable_cut(t *testing.T) {
	for name, w := range map[string]*written{
		"flushed": newTable(t, false, false), "compacted": newTable(t, false, true), "deletions": newTable(t, true, false),
	} {
		t.Run(name, func(t *testing.T) {
			for n := len(w.data) - 1; n >= 0; n -= 331 {
				lost, _ := w.examined(t, fmt.Sprintf("cut to %d of %d", n, len(w.data)), w.data[:n])
				switch {
				case name == "deletions" && len(lost) != 400, name == "flushed" && n < len(w.data)/2 && len(lost) != 400:
					t.Errorf("cut to %d of %d: %d keys are lost, though all may have been deleted", n, len(w.data), len(lost))
				case name == "compacted" && n > len(w.data)/2 && len(lost) > 300: // no deletion can have the sequence 0
					t.Errorf("cut to %d of %d: %d keys are lost", n, len(w.data), len(lost))
				}
			}
			lost, problems := w.examined(t, "removed", nil)
			if len(lost) != 400 || len(problems) != 1 {
				t.Errorf("removed: %d keys are lost: %v", len(lost), problems)
			}
			longer := append(bytes.Clone(w.data), "more"...)
			_, problems = w.examined(t, "longer", longer)
			if want := fmt.Sprintf("has %d bytes in place of %d", len(longer), len(w.data)); !slices.Contains(problems, want) {
				t.Errorf("a longer table: %q, want %q", problems, want)
			}
		})
	}
}

// logOf returns a log with commits of some changes each, the first with the given sequence.
func logOf(first uint64, counts ...uint32) []byte {
	var b bytes.Buffer
	w := record.NewWriter(&b)
	for _, n := range counts {
		commit := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, first), n)
		_, _ = w.WriteRecord(append(commit, "changes"...))
		first += uint64(n)
	}
	_ = w.Close()
	return b.Bytes()
}

func flipped(data []byte, at int) []byte {
	data[at] ^= 1
	return data
}

// A missing log has lost no commit that is known if the tables have every one that the sidecar knows of. It may have lost
// others.
func TestLogs_noneWithSidecar(t *testing.T) {
	for tabled, tail := range map[uint64]bool{7: false, 6: true, 5: true} { // the sidecar knows of commits up to 7
		mem := vfs.NewMem()
		write(t, mem, format.SidecarName, format.AppendSidecar(nil, [16]byte{1}, 8))
		e := &examination{base: mem, fs: newFS(mem, ""), tabled: tabled}
		must(t, e.sidecar(8))
		if e.noLog(); e.tail != tail || e.unclosed == tail || e.fs.MaybeEarlier() == tail || len(e.damages) != 1 {
			t.Errorf("tables up to %d: the end is lost: %t, not closed: %t, %v", tabled, e.tail, e.unclosed, e.damages)
		}
	}
}

// That the MANIFEST knows of later commits, because a compaction has written into it, does not prove that the log has them.
func TestLogs_manifestAhead(t *testing.T) {
	for what, tt := range map[string]struct {
		log   []byte
		least uint64 // in the sidecar
		v     version
		tail  bool
	}{
		"whole":            {logOf(10, 1, 2), 13, version{loggedBy: 9, lastSeq: 12}, false},
		"cut":              {logOf(10, 1), 13, version{loggedBy: 9, lastSeq: 12}, true},
		"cut, flushed":     {logOf(10, 1), 13, version{loggedBy: 9, tabled: 9, lastSeq: 12}, true},
		"emptied, flushed": {nil, 13, version{loggedBy: 9, tabled: 9, lastSeq: 12}, true},
		"empty, flushed":   {nil, 10, version{loggedBy: 9, tabled: 9, lastSeq: 9}, false},
		"empty":            {nil, 10, version{loggedBy: 9, lastSeq: 9}, false},
	} {
		mem := vfs.NewMem()
		write(t, mem, "000005.log", tt.log)
		write(t, mem, format.SidecarName, format.AppendSidecar(nil, [16]byte{1}, tt.least))
		e := &examination{base: mem, fs: newFS(mem, ""), found: map[string]map[uint64]string{".log": {5: "000005.log"}}}
		next, err := e.commits(&tt.v)
		must(t, err)
		if e.tail != tt.tail || next != tt.v.lastSeq+1 {
			t.Errorf("%s: the end is lost: %t, next %d, %v", what, e.tail, next, e.damages)
		}
	}
}

// TestLogs_missing has logs, some of them lost.
func TestLogs_missing(t *testing.T) {
	known := version{minLog: 5, flushed: 9, loggedBy: 30, lastSeq: 100}
	unknown := version{minLog: 5, loggedBy: 12, lastSeq: 100}
	for name, tt := range map[string]struct {
		v       version
		guessed bool
		logs    map[uint64][]byte
		next    uint64 // 0: whatever was there
		tail    bool
		passed  string
	}{
		"all":                 {known, false, map[uint64][]byte{5: logOf(10, 1, 2), 7: logOf(13, 4)}, 17, false, "5 7"},
		"an obsolete one too": {known, false, map[uint64][]byte{4: logOf(3, 1), 5: logOf(10, 1)}, 11, false, "5"},
		"none":                {known, false, nil, 10, true, ""},
		"the first missing":   {known, false, map[uint64][]byte{7: logOf(13, 4)}, 10, true, ""},
		"the second missing":  {known, false, map[uint64][]byte{5: logOf(10, 1, 2), 8: logOf(14, 4)}, 13, true, "5"},
		"all, not flushed":    {unknown, false, map[uint64][]byte{5: logOf(13, 1, 2), 7: logOf(16, 4)}, 20, false, "5 7"},
		"the first missing, the others not flushed": {unknown, false, map[uint64][]byte{7: logOf(14, 4)}, 0, true, ""},
		"the first empty, the others not flushed":   {unknown, false, map[uint64][]byte{5: nil, 7: logOf(14, 4)}, 0, true, "5"},
		"the first damaged, the others not flushed": {unknown, false, map[uint64][]byte{5: flipped(logOf(13, 1, 2), 10), 7: logOf(16, 4)}, 0, true, ""},
		"guessed":   {unknown, true, map[uint64][]byte{7: logOf(14, 4)}, 18, false, "7"},
		"no commit": {known, false, map[uint64][]byte{5: commitless()}, 10, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			e := &examination{base: mem, fs: newFS(mem, ""), guessed: tt.guessed, found: map[string]map[uint64]string{".log": {}}}
			for n, data := range tt.logs {
				e.found[".log"][n] = fmt.Sprintf("%06d.log", n)
				write(t, mem, fmt.Sprintf("%06d.log", n), data)
			}
			next, err := e.logs(&tt.v)
			must(t, err)
			var passed []string
			for _, name := range slices.Sorted(maps.Keys(e.fs.passed)) {
				passed = append(passed, strings.TrimLeft(strings.TrimSuffix(name, ".log"), "0"))
			}
			if e.logless {
				e.noLog()
			}
			if next != tt.next || e.tail != tt.tail || strings.Join(passed, " ") != tt.passed || tt.tail != (len(e.damages) > 0) {
				t.Errorf("next %d, the end is lost: %t, taken %v, %v", next, e.tail, passed, e.damages)
			}
		})
	}
}

// commitless returns a log with a record that is too short for a commit.
func commitless() []byte {
	var b bytes.Buffer
	w := record.NewWriter(&b)
	_, _ = w.WriteRecord([]byte("short"))
	_ = w.Close()
	return b.Bytes()
}

// edit returns an edit of a MANIFEST. Its parts are numbers, and strings that are taken as they are.
func edit(parts ...any) []byte {
	var e []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			e = binary.AppendUvarint(e, uint64(p))
		case string:
			e = append(e, p...)
		}
	}
	return e
}

// manifestOf returns a MANIFEST of edits.
func manifestOf(edits ...[]byte) []byte {
	var b bytes.Buffer
	w := record.NewWriter(&b)
	for _, e := range edits {
		_, _ = w.WriteRecord(e)
	}
	_ = w.Close()
	return b.Bytes()
}

// TestManifest reads what says where the logs begin, and which tables there are.
func TestManifest(t *testing.T) {
	key := "\x09k\x01\x05\x00\x00\x00\x00\x00\x00" // the key "k", set by the commit 5
	table := func(level, n, least, greatest int) []any {
		return []any{tagNewFile2, level, n, 100, key, key, least, greatest}
	}
	whole := edit(tagComparer, 3, "cmp", tagMinLog, 5, tagNextFile, 9)
	for name, tt := range map[string]struct {
		edits  [][]byte
		want   version // without its tables
		tables string
	}{
		"a new store":            {[][]byte{whole, edit(tagLastSeq, 40)}, version{minLog: 5, nextFile: 9, lastSeq: 40, loggedBy: 40}, ""},
		"a compaction":           {[][]byte{whole, edit(tagLastSeq, 40), edit(tagLastSeq, 90)}, version{minLog: 5, nextFile: 9, lastSeq: 90, loggedBy: 40}, ""},
		"a log that was changed": {[][]byte{whole, edit(tagMinLog, 7, tagLastSeq, 40), edit(tagLastSeq, 90)}, version{minLog: 7, nextFile: 9, lastSeq: 90, loggedBy: 40, tabled: 40}, ""},
		"a flush": {
			[][]byte{whole, edit(tagLastSeq, 40), edit(append([]any{tagMinLog, 8, tagLastSeq, 60}, table(0, 6, 41, 55)...)...), edit(tagLastSeq, 90)},
			version{minLog: 8, nextFile: 9, lastSeq: 90, loggedBy: 60, flushed: 55, tabled: 55}, "6",
		},
		"a flush, and another log": { // that does not begin behind the flush
			[][]byte{whole, edit(append([]any{tagMinLog, 8, tagLastSeq, 60}, table(0, 6, 41, 55)...)...), edit(tagMinLog, 9, tagLastSeq, 70)},
			version{minLog: 9, nextFile: 9, lastSeq: 70, loggedBy: 70, tabled: 70}, "6",
		},
		"a flush beside a move": {
			[][]byte{whole, edit(append(append([]any{tagMinLog, 8, tagLastSeq, 60}, table(0, 6, 41, 55)...), table(3, 5, 10, 58)...)...)},
			version{minLog: 8, nextFile: 9, lastSeq: 60, loggedBy: 60, flushed: 55, tabled: 55}, "5 6",
		},
		"all tables": { // none of them tells what is not in the log
			[][]byte{edit(append([]any{tagComparer, 3, "cmp", tagMinLog, 5, tagPrevLog, 0, tagNextFile, 9}, append(table(6, 7, 2, 3), table(0, 6, 41, 55)...)...)...)},
			version{minLog: 5, nextFile: 9, sequenceNext: true}, "6 7",
		},
		"a table that is moved": {
			[][]byte{whole, edit(table(0, 6, 41, 55)...), edit(append([]any{tagLastSeq, 70, tagDeletedFile, 0, 6}, table(3, 6, 41, 55)...)...)},
			version{minLog: 5, nextFile: 9, lastSeq: 70, loggedBy: 0}, "6",
		},
		"a table with a field that looks like the end": {
			[][]byte{whole, edit(append(append([]any{tagNewFile4}, table(0, 6, 41, 55)[1:]...), 6, 3, customEnd, 77, 77, customEnd)...)},
			version{minLog: 5, nextFile: 9}, "6",
		},
		"a table that goes": {
			[][]byte{whole, edit(append(table(0, 6, 41, 55), tagLastSeq, 40)...), edit(tagDeletedFile, 0, 6)},
			version{minLog: 5, nextFile: 9, lastSeq: 40, loggedBy: 40}, "",
		},
	} {
		v, clean, err := readManifest(manifestOf(tt.edits...))
		must(t, err)
		var tables []string
		for _, table := range v.sorted() {
			tables = append(tables, fmt.Sprint(table.Number))
		}
		tt.want.comparer, tt.want.tables = "cmp", v.tables
		if !clean || !reflect.DeepEqual(*v, tt.want) || strings.Join(tables, " ") != tt.tables {
			t.Errorf("%s: %+v, want %+v and the tables %q", name, v, tt.want, tt.tables)
		}
		again, clean, err := readManifest(v.encode())
		must(t, err)
		if !clean || !reflect.DeepEqual(again.sorted(), v.sorted()) || again.minLog != v.minLog || again.lastSeq != v.lastSeq || again.nextFile != v.nextFile {
			t.Errorf("%s: written and read again: %+v, want %+v", name, again, v)
		}
	}
	for name, bad := range map[string][]byte{
		"tag": edit(77), "cut": edit(tagComparer, 9, "cmp"), "cut before an edit": edit(tagComparer, 9, tagMinLog, 5), "short key": edit(tagNewFile2, 0, 6, 100, 2, "ab", 2, "ab", 1, 1),
		"no number": edit(tagMinLog), "endless number": edit(tagMinLog, strings.Repeat("\xff", 11)),
		"fields without an end":    edit(append(append([]any{tagNewFile4}, table(0, 6, 41, 55)[1:]...), 2, 0)...),
		"field that must be known": edit(append(append([]any{tagNewFile4}, table(0, 6, 41, 55)[1:]...), customBad|2, 0, customEnd)...),
	} {
		if _, _, err := readManifest(manifestOf(bad)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	data := manifestOf(whole, edit(tagLastSeq, 40))
	if _, clean, err := readManifest(data[:len(data)-1]); clean || err != nil {
		t.Errorf("cut: whole %t, %v", clean, err)
	}
}

// TestMerged has ranges that overlap, touch, or have others in them.
func TestMerged(t *testing.T) {
	r := func(low, high string) Range { return Range{[]byte(low), []byte(high)} }
	got := Merged([]Range{r("m", "p"), r("a", "c"), r("c", "d"), r("n", "o"), r("q", "q")})
	if want := []Range{r("a", "d"), r("m", "p"), r("q", "q")}; !reflect.DeepEqual(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestPlain has errors with bytes of damaged files.
func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"a line\nmore": "a line", "\x1b[31mred\x07": `\x1b[31mred\a`, "caf\u00e9 \"x\"": "caf\u00e9 \"x\"", "\xff": `\ufffd`, "a\rb": `a\rb`,
	} {
		if got := plain(errors.New(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Blocks of data are taken in the order of their keys alone: one that is found behind its place is none of the table.
func TestBlock_order(t *testing.T) {
	w := newTable(t, false, false)
	mem := vfs.NewMem()
	write(t, mem, "table", w.data)
	c := newChecker(t.Context(), mem)
	layout, _, err := c.layout("table")
	must(t, err)
	blockOf := func(i int) []byte {
		h := layout.Data[i]
		return w.data[h.Offset : h.Offset+h.Length]
	}
	r := &rebuild{checker: c, table: w.Table}
	for _, step := range []struct {
		block int
		taken bool
	}{{1, true}, {1, false}, {0, false}, {2, true}} {
		n := len(r.points)
		if got := r.block(blockOf(step.block), 0); got != step.taken || !got && len(r.points) != n {
			t.Errorf("block %d: taken: %t, want %t; %d points, before %d", step.block, got, step.taken, len(r.points), n)
		}
	}
}

// The facts that a MANIFEST would have about an unknown table come from its entries and its deletions of ranges. The
// end of such a range is not deleted.
func TestBounds(t *testing.T) {
	const most = 1<<56 - 1
	p := func(key string, seq uint64) point {
		return point{key: pebble.MakeInternalKey([]byte(key), pebble.SeqNum(seq), pebble.InternalKeyKindSet)}
	}
	for name, tt := range map[string]struct {
		points    []point
		low, high string
		seqs      []uint64
		want      string
	}{
		"entries":                         {[]point{p("b", 4), p("d", 3)}, "", "", nil, "b#4,SET d#3,SET 3 4"},
		"a deletion alone":                {nil, "b", "d", []uint64{7, 5}, "b#7,RANGEDEL d#inf,RANGEDEL 5 7"},
		"a deletion between entries":      {[]point{p("a", 4), p("e", 3)}, "b", "d", []uint64{7}, "a#4,SET e#3,SET 3 7"},
		"a deletion around entries":       {[]point{p("b", 4), p("c", 3)}, "a", "d", []uint64{1}, "a#1,RANGEDEL d#inf,RANGEDEL 1 4"},
		"a deletion from the first entry": {[]point{p("b", 4), p("e", 3)}, "b", "d", []uint64{7}, "b#7,RANGEDEL e#3,SET 3 7"},
		"a deletion up to the last entry": {[]point{p("a", 4), p("d", 3)}, "b", "d", []uint64{7}, "a#4,SET d#3,SET 3 7"},
	} {
		r := &rebuild{points: tt.points, spanSeqs: tt.seqs}
		if tt.seqs != nil {
			r.spanLow, r.spanHigh = []byte(tt.low), []byte(tt.high)
		}
		got := Table{Largest: pebble.InternalKey{UserKey: []byte{0xff}}} // as foundTable has it before
		r.bounds(&got)
		text := func(k pebble.InternalKey) string {
			if k.SeqNum() == most {
				return fmt.Sprintf("%s#inf,%s", k.UserKey, k.Kind())
			}
			return fmt.Sprintf("%s#%d,%s", k.UserKey, k.SeqNum(), k.Kind())
		}
		if got := fmt.Sprintf("%s %s %d %d", text(got.Smallest), text(got.Largest), got.SmallestSeq, got.LargestSeq); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// A table that no MANIFEST knows is taken with what is left of it, and left out if that is nothing.
func TestFoundTable(t *testing.T) {
	mem := vfs.NewMem()
	w := newTable(t, false, false)
	write(t, mem, "whole", w.data)
	write(t, mem, "nothing", []byte(strings.Repeat("no table ", 100)))
	c := newChecker(t.Context(), mem)
	table, _, err := c.foundTable("whole", 7)
	if must(t, err); table == nil || table.Number != 7 || string(table.Smallest.UserKey) != "key 0000" || string(table.Largest.UserKey) != "key 0399" {
		t.Errorf("a whole table: %+v", table)
	}
	if table, _, err := c.foundTable("nothing", 8); table != nil || err != nil {
		t.Errorf("nothing of a table: %+v, %v", table, err)
	}
}

// Without a MANIFEST that says what there is, no table is a stray, and nothing is known of how far the store has come.
func TestKnown_nothing(t *testing.T) {
	for name, manifest := range map[string][]byte{
		"empty": {}, "of no store": manifestOf(edit(tagMinLog, 5)), "damaged": manifestOf(edit(77)), "missing": nil,
	} {
		mem := vfs.NewMem()
		must(t, mem.MkdirAll("store", 0o755))
		write(t, mem, "store/marker.manifest.000001.MANIFEST-000004", nil)
		if manifest != nil {
			write(t, mem, "store/MANIFEST-000004", manifest)
		}
		names, err := mem.List("store")
		must(t, err)
		if k, err := known(mem, "store", names); k.Table != nil || err != nil {
			t.Errorf("%s: %+v, %v", name, k, err)
		}
		if next, err := Reached(t.Context(), mem, "store", 1); next != 0 || err != nil {
			t.Errorf("%s: reached %d, %v", name, next, err)
		}
	}
}

// An old MANIFEST may be gone, and the one in use goes on behind its seal.
func TestOldManifests(t *testing.T) {
	mem := vfs.NewMem()
	found := make(map[uint64]string)
	for _, n := range []uint64{2, 3, 4} {
		found[n] = manifestName(n)
		write(t, mem, found[n], manifestOf(edit(tagMinLog, int(n))))
	}
	e := &examination{base: mem, fs: newFS(mem, ""), found: map[string]map[uint64]string{"MANIFEST-": found}}
	must(t, e.oldManifests([]freeze.Sealed{{Number: 1, Length: 1 << 20}, {Number: 3, Length: 1 << 20}, {Number: 4, Length: 1 << 20}}, 4))
	if len(e.damages) != 1 || e.damages[0].File != manifestName(3) {
		t.Errorf("%v", e.damages)
	}
}

// What is not as Pebble writes a block of data is none.
func TestDecode_refused(t *testing.T) {
	w := newTable(t, false, false)
	mem := vfs.NewMem()
	write(t, mem, "table", w.data)
	c := newChecker(t.Context(), mem)
	layout, _, err := c.layout("table")
	must(t, err)
	h := layout.Data[0]
	whole := w.data[h.Offset : h.Offset+h.Length]
	if points, err := c.decode(whole, 0); len(points) == 0 || err != nil {
		t.Fatalf("%d points, %v", len(points), err)
	}
	head := int(c.schema().HeaderSize) + 4
	with := func(at int, b ...byte) []byte {
		return append(append(bytes.Clone(whole[:at]), b...), whole[at+len(b):]...)
	}
	for name, tt := range map[string]struct {
		data        []byte
		compression byte
	}{
		"compressed": {whole, 1}, "nothing": {nil, 0}, "cut in its header": {whole[:head+6], 0}, "another version": {with(head, 9), 0},
		"more columns": {with(head+1, whole[head+1]+1), 0}, "no rows": {with(head+3, 0, 0, 0, 0), 0},
		"more rows than all": {with(head+3, 255, 255, 255, 127), 0},
	} {
		if points, err := c.decode(tt.data, tt.compression); len(points) > 0 || err == nil {
			t.Errorf("%s: %d points, %v", name, len(points), err)
		}
	}
}
