package remains

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	tableblock "github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// counted counts the files that are open.
type counted struct {
	vfs.FS
	open *int
}

func (c counted) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := c.FS.Open(name, o...)
	if err != nil {
		return nil, err
	}
	*c.open++
	return countedFile{f, c.open}, nil
}

type countedFile struct {
	vfs.File
	open *int
}

func (c countedFile) Close() error {
	*c.open--
	return c.File.Close()
}

// stateOf returns what is found of a table in which a bit of some blocks is another, and wants every file to be closed.
func (w *written) stateOf(t *testing.T, damaged ...tableblock.Handle) tableState {
	t.Helper()
	data := bytes.Clone(w.data)
	for _, h := range damaged {
		data[h.Offset] ^= 1
	}
	mem := vfs.NewMem()
	write(t, mem, "table", data)
	open := 0
	state, err := newChecker(t.Context(), counted{mem, &open}).table("table", w.Table, true)
	must(t, err)
	if open != 0 {
		t.Errorf("%d files are open", open)
	}
	return state
}

func (w *written) layout(t *testing.T) *sstable.Layout {
	t.Helper()
	mem := vfs.NewMem()
	write(t, mem, "table", w.data)
	layout, _, err := newChecker(t.Context(), mem).layout("table")
	must(t, err)
	return layout
}

// What a damaged block takes away: that is no more than can have been in it.
func TestTable_lost(t *testing.T) {
	index := func(l *sstable.Layout) tableblock.Handle { return l.Index[0] }
	deletions := func(l *sstable.Layout) tableblock.Handle { return l.RangeDel }
	properties := func(l *sstable.Layout) tableblock.Handle { return l.Properties }
	names := func(l *sstable.Layout) tableblock.Handle { return l.MetaIndex }
	type blockOf = func(l *sstable.Layout) tableblock.Handle
	flushed, compacted, deleting := newTable(t, false, false), newTable(t, false, true), newTable(t, true, false)
	for name, tt := range map[string]struct {
		table   *written
		damaged blockOf
		all     bool // is lost
	}{
		"the index":                             {flushed, index, false},
		"the index, with deletions":             {deleting, index, false},
		"the index, compacted":                  {compacted, index, false},
		"the deletions":                         {deleting, deletions, true},
		"the properties":                        {flushed, properties, false},
		"the properties, with deletions":        {deleting, properties, true},
		"the index of blocks":                   {flushed, names, true},
		"the index of blocks, with deletions":   {deleting, names, true},
		"the index of blocks, all compacted":    {compacted, names, false},
		"the properties, when all is compacted": {compacted, properties, false},
	} {
		state := tt.table.stateOf(t, tt.damaged(tt.table.layout(t)))
		var want []Range
		if tt.all {
			want = []Range{{tt.table.Smallest.UserKey, tt.table.Largest.UserKey}}
		}
		if !reflect.DeepEqual(state.lost, want) || len(state.problems) == 0 {
			t.Errorf("%s: %s is lost, want %s; %q", name, state.lost, want, state.problems)
		}
	}
}

// All that is before the first block that is whole is lost, from the table's first key on, and nothing that is before that.
func TestTable_firstBlock(t *testing.T) {
	w := newTable(t, false, false)
	l := w.layout(t)
	c := newChecker(t.Context(), vfs.NewMem())
	second := l.Data[1]
	points, err := c.decode(w.data[second.Offset:second.Offset+second.Length], 0)
	must(t, err)
	state := w.stateOf(t, l.Data[0].Handle)
	if want := []Range{{w.Smallest.UserKey, points[0].key.UserKey}}; !reflect.DeepEqual(state.lost, want) {
		t.Errorf("with an index: %s is lost, want %s", state.lost, want)
	}
	state = w.stateOf(t, l.Data[0].Handle, l.Index[0])
	if want := []Range{{w.Smallest.UserKey, w.Largest.UserKey}}; !reflect.DeepEqual(state.lost, want) {
		t.Errorf("without an index: %s is lost, want %s", state.lost, want)
	}
}

// entriesOf returns the keys of a table and the lengths of their values.
func entriesOf(t *testing.T, table []byte) (all string) {
	t.Helper()
	mem := vfs.NewMem()
	write(t, mem, "table", table)
	r, err := newChecker(t.Context(), mem).reader("table")
	must(t, err)
	it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	must(t, err)
	for kv := it.First(); kv != nil; kv = it.Next() {
		all += fmt.Sprint(kv.K, " ", kv.V.Len(), ", ")
	}
	must(t, it.Close())
	must(t, r.Close())
	return all
}

// The last key of a table may have older versions in the next block. Without an index the table's end is where the last of them is.
func TestTable_lastKeyTwice(t *testing.T) {
	w := tableOf(t, func(db *pebble.DB) {
		must(t, db.Set([]byte("a"), make([]byte, 5000), nil))
		must(t, db.Set([]byte("z"), make([]byte, 5000), nil))
		s := db.NewSnapshot() // keeps the version before
		must(t, db.Set([]byte("z"), make([]byte, 5000), nil))
		must(t, db.Flush())
		must(t, s.Close())
	})
	l := w.layout(t)
	if len(l.Data) != 3 {
		t.Fatalf("%d blocks", len(l.Data))
	}
	state := w.stateOf(t, l.Index[0])
	if len(state.lost) > 0 {
		t.Errorf("%s is lost of a table of which only the index is damaged", state.lost)
	}
	if got, want := entriesOf(t, state.repaired), "a#10,SET 5000, z#12,SET 5000, z#11,DEL 0, "; got != want {
		t.Errorf("the new table has %s, want %s", got, want)
	}
	state = w.stateOf(t, l.Index[0], l.Data[2].Handle)
	if want := []Range{{[]byte("z"), []byte("z")}}; !reflect.DeepEqual(state.lost, want) {
		t.Errorf("%s is lost, want %s", state.lost, want)
	}
}

// Blocks that are whole, but not as a store writes them, are lost.
func TestTable_unknownBlocks(t *testing.T) {
	obj := &memory{}
	c := newChecker(t.Context(), vfs.NewMem())
	o := c.options.MakeWriterOptions(0, c.options.FormatMajorVersion.MaxTableFormat())
	o.Compression = tableblock.SnappyCompression
	rw := sstable.NewRawWriter(obj, o)
	w := &written{}
	for i := range 400 {
		w.Largest = pebble.MakeInternalKey(fmt.Appendf(nil, "key %04d", i), 7, pebble.InternalKeyKindSet)
		if i == 0 {
			w.Smallest = w.Largest
		}
		must(t, rw.Add(w.Largest, bytes.Repeat([]byte("value"), 50), false))
	}
	must(t, rw.Close())
	w.data, w.Size, w.SmallestSeq, w.LargestSeq = obj.Bytes(), uint64(obj.Len()), 7, 7
	if state := w.stateOf(t); len(state.problems) > 0 {
		t.Fatalf("%q", state.problems)
	}
	want := []Range{{w.Smallest.UserKey, w.Largest.UserKey}}
	if state := w.stateOf(t, w.layout(t).Properties); !reflect.DeepEqual(state.lost, want) {
		t.Errorf("without an index: %s is lost, want %s", state.lost, want)
	}
	w.Size++ // a problem that damages no block
	if state := w.stateOf(t); !reflect.DeepEqual(state.lost, want) {
		t.Errorf("with an index: %s is lost, want %s", state.lost, want)
	}
}

// A whole block before an index of blocks that is damaged is not taken for that index.
func TestNoDeletions_otherBlock(t *testing.T) {
	stored := func(b string) []byte {
		compressed := append([]byte(b), 0)
		return binary.LittleEndian.AppendUint32(compressed, checksum(compressed))
	}
	for name, tt := range map[string]struct {
		blocks [][]byte
		want   bool
	}{
		"whole":             {[][]byte{stored("properties"), stored(propertiesName + ": 7")}, true},
		"whole, with both":  {[][]byte{stored("properties"), stored(deletionsName + ": 6" + propertiesName + ": 7")}, false},
		"damaged":           {[][]byte{stored("properties"), flipped(stored(propertiesName+": 7"), len(propertiesName))}, false},
		"without the names": {[][]byte{stored("properties")}, false},
	} {
		r := &rebuild{table: Table{LargestSeq: 7}, data: slices.Concat(tt.blocks...)}
		if got := r.noDeletions(); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

// The bounds of a table that no MANIFEST knows include its deletions of ranges.
func TestFoundTable_deletions(t *testing.T) {
	w := tableOf(t, func(db *pebble.DB) {
		must(t, db.DeleteRange([]byte("x"), []byte("z"), nil))
		must(t, db.DeleteRange([]byte("a"), []byte("b"), nil))
		must(t, db.Set([]byte("key"), nil, nil))
		must(t, db.Flush())
	})
	mem := vfs.NewMem()
	write(t, mem, "table", w.data)
	open := 0
	got, state, err := newChecker(t.Context(), counted{mem, &open}).foundTable("table", w.Number)
	must(t, err)
	if !reflect.DeepEqual(*got, w.Table) || len(state.problems) > 0 {
		t.Errorf("%+v, want %+v; %q", *got, w.Table, state.problems)
	}
	if open != 0 {
		t.Errorf("%d files are open", open)
	}
}
