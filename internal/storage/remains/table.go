package remains

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	tableblock "github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/sstable/valblk"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/block"
)

// Range is a range of stored keys, both ends included.
type Range struct{ Low, High []byte }

// Contains reports whether a key is in the range.
func (r Range) Contains(key []byte) bool {
	return bytes.Compare(r.Low, key) <= 0 && bytes.Compare(key, r.High) <= 0
}

// trailerLen is the length of what follows each block of a table: a byte for the compression, and a checksum.
const trailerLen = 5

// tableState is what was found of a table.
type tableState struct {
	problems []string
	lost     []Range
	repaired []byte          // a table with the rest; nil if the table is sound
	broken   map[uint64]bool // offsets of blocks
}

// checker checks tables, with the options of all tables of stores.
type checker struct {
	ctx     context.Context
	fs      vfs.FS
	options *pebble.Options
}

func newChecker(ctx context.Context, fsys vfs.FS) *checker {
	return &checker{ctx, fsys, storeOptions()}
}

// storeOptions returns the options of all stores, as far as they show in files.
func storeOptions() *pebble.Options {
	o := &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Merger: &pebble.Merger{Name: block.MergerName}}
	o.EnsureDefaults()
	return o
}

func (c *checker) schema() *colblk.KeySchema { return c.options.KeySchemas[c.options.KeySchema] }

// table reads all of a table. If something is lost, it makes a new table from the rest.
func (c *checker) table(path string, t Table, size bool) (s tableState, err error) {
	whole := Range{t.Smallest.UserKey, t.Largest.UserKey}
	f, err := openRegular(c.fs, path)
	if errors.Is(err, fs.ErrNotExist) {
		s = tableState{problems: []string{"is missing"}, lost: []Range{whole}}
		s.repaired, err = c.build(nil, nil)
		return s, err
	}
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return s, err
	}
	if size && uint64(info.Size()) != t.Size {
		s.problems = append(s.problems, fmt.Sprintf("has %d bytes in place of %d", info.Size(), t.Size))
	}
	layout, blocks, lerr := c.layout(path)
	if lerr != nil {
		s.problems = append(s.problems, plain(lerr))
	}
	s.broken = make(map[uint64]bool)
	for _, b := range blocks {
		if err := c.ctx.Err(); err != nil {
			return s, err
		}
		if err := checkBlock(f, b.Handle); err != nil {
			s.broken[b.Offset] = true
			s.problems = append(s.problems, fmt.Sprintf("%s at offset %d: %s", b.what, b.Offset, plain(err)))
		}
	}
	if len(s.problems) == 0 {
		return s, nil
	}
	r := &rebuild{checker: c, table: t, whole: whole}
	if err := r.read(f, path, layout, s.broken); err != nil {
		return s, err
	}
	s.lost = r.lost
	s.repaired, err = c.build(r.points, r.spans)
	return s, err
}

// foundTable reads a table that no MANIFEST describes. It returns nil if nothing remains of the table.
func (c *checker) foundTable(path string, number uint64) (t *Table, s tableState, err error) {
	t = &Table{Number: number, LargestSeq: 1}
	t.Largest.UserKey = []byte{0xff} // behind every key of a store
	if s, err = c.table(path, *t, false); err != nil {
		return nil, s, err
	}
	f, err := c.fs.Open(path)
	if err != nil {
		return nil, s, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, s, err
	}
	layout, _, _ := c.layout(path)
	r := &rebuild{checker: c, table: *t, whole: Range{nil, t.Largest.UserKey}}
	if err := r.read(f, path, layout, s.broken); err != nil {
		return nil, s, err
	}
	if len(r.points)+len(r.spans) == 0 {
		return nil, s, nil
	}
	t.Size = uint64(info.Size())
	r.bounds(t)
	return t, s, nil
}

// bounds sets the facts that a MANIFEST would have about the table.
func (r *rebuild) bounds(t *Table) {
	t.SmallestSeq, t.LargestSeq = math.MaxUint64, 0
	seen := func(seq uint64) { t.SmallestSeq, t.LargestSeq = min(t.SmallestSeq, seq), max(t.LargestSeq, seq) }
	for _, p := range r.points {
		seen(uint64(p.key.SeqNum()))
	}
	for _, seq := range r.spanSeqs {
		seen(seq)
	}
	if n := len(r.points); n > 0 {
		t.Smallest, t.Largest = r.points[0].key, r.points[n-1].key
	}
	if r.spanLow == nil {
		return
	}
	const most = 1<<56 - 1 // the sequence of the end of a deletion, which is not deleted itself
	if len(r.points) == 0 || bytes.Compare(r.spanLow, t.Smallest.UserKey) <= 0 {
		t.Smallest = pebble.MakeInternalKey(r.spanLow, pebble.SeqNum(slices.Max(r.spanSeqs)), pebble.InternalKeyKindRangeDelete)
	}
	if len(r.points) == 0 || bytes.Compare(r.spanHigh, t.Largest.UserKey) > 0 {
		t.Largest = pebble.MakeInternalKey(r.spanHigh, most, pebble.InternalKeyKindRangeDelete)
	}
}

// read collects the rest of a table.
func (r *rebuild) read(f io.ReaderAt, path string, layout *sstable.Layout, broken map[uint64]bool) (err error) {
	if r.data, err = io.ReadAll(io.NewSectionReader(f, 0, math.MaxInt64)); err != nil {
		return err
	}
	if layout != nil {
		r.listed(layout, broken)
	} else {
		r.scanned()
	}
	r.deletions(path)
	return nil
}

// plain returns the first line of an error's text. The text may have bytes of a damaged file: those that do not print are
// written as in Go, so that a terminal does not obey them.
func plain(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	var b strings.Builder
	for _, r := range text {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

type namedBlock struct {
	tableblock.Handle
	what string
}

// layout returns where the blocks of a table are. It returns nil if that cannot be read.
func (c *checker) layout(path string) (*sstable.Layout, []namedBlock, error) {
	r, err := c.reader(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = r.Close() }() // what it read has been checked
	l, err := r.Layout()
	if err != nil {
		return nil, nil, err
	}
	var list []namedBlock
	add := func(h tableblock.Handle, what string) {
		if h.Length > 0 {
			list = append(list, namedBlock{h, what})
		}
	}
	for _, h := range l.Data {
		add(h.Handle, "a block of data")
	}
	for _, h := range l.Index {
		add(h, "the index")
	}
	for _, h := range l.Filter {
		add(h.Handle, "the filter")
	}
	for _, h := range l.ValueBlock {
		add(h, "a block of values")
	}
	add(l.TopIndex, "the index")
	add(l.RangeDel, "the deletions of ranges")
	add(l.RangeKey, "the keys of ranges")
	add(l.ValueIndex, "the index of values")
	add(l.Properties, "the properties")
	add(l.MetaIndex, "the index of blocks")
	return l, list, nil
}

func (c *checker) reader(path string) (*sstable.Reader, error) {
	f, err := c.fs.Open(path)
	if err != nil {
		return nil, err
	}
	readable, err := objstorageprovider.NewFileReadable(f, c.fs, objstorageprovider.NewReadaheadConfig(), path)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(c.ctx, readable, c.options.MakeReaderOptions())
	if err != nil {
		return nil, errors.Join(err, readable.Close())
	}
	return r, nil
}

func checkBlock(f io.ReaderAt, h tableblock.Handle) error {
	b := make([]byte, h.Length+trailerLen)
	if _, err := f.ReadAt(b, int64(h.Offset)); err != nil {
		return err
	}
	if checksum(b[:h.Length+1]) != binary.LittleEndian.Uint32(b[h.Length+1:]) {
		return errors.New("wrong checksum")
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked returns a CRC-32C in the form in which Pebble stores checksums.
func masked(crc uint32) uint32 { return bits.RotateLeft32(crc, 17) + 0xa282ead8 }

func checksum(b []byte) uint32 { return masked(crc32.Checksum(b, castagnoli)) }

// point is an entry of a table.
type point struct {
	key   pebble.InternalKey
	value []byte
}

// rebuild collects the rest of a table.
type rebuild struct {
	*checker
	table  Table
	data   []byte
	whole  Range
	points []point
	spans  []func(sstable.RawWriter) error
	lost   []Range

	spanLow, spanHigh []byte // of the deletions of ranges
	spanSeqs          []uint64

	last []byte // the last key before a damaged block
	gap  bool   // there was a damaged block after last
}

// listed reads the blocks that the index lists.
func (r *rebuild) listed(l *sstable.Layout, broken map[uint64]bool) {
	r.last = r.whole.Low
	for _, h := range l.Data {
		end := h.Offset + h.Length // in the file, or the block is broken
		if broken[h.Offset] || !r.block(r.data[h.Offset:end], r.data[end]) {
			r.gap = true
		}
	}
	if r.gap {
		r.lose(r.whole.High)
	}
}

// scanned reads blocks from the beginning of the table, one after the other, without the index. A block ends where
// the checksum is right.
func (r *rebuild) scanned() {
	r.last = r.whole.Low
	at := 0
	for {
		n := r.next(at)
		if n == 0 {
			break
		}
		at += n + trailerLen
	}
	if n := len(r.points); n > 0 && pebble.DefaultComparer.Compare(r.points[n-1].key.UserKey, r.whole.High) >= 0 &&
		r.points[n-1].key.SeqNum() == r.table.Largest.SeqNum() {
		return // this is the last entry of the table
	}
	r.lose(r.whole.High)
}

// next reads the block of data that begins at an offset, and returns its length, 0 if there is none.
func (r *rebuild) next(at int) int {
	crc := uint32(0)
	for i := at; i+trailerLen <= len(r.data); i++ {
		crc = crc32.Update(crc, castagnoli, r.data[i:i+1])
		if n := i - at; n > 8 && masked(crc) == binary.LittleEndian.Uint32(r.data[i+1:]) && r.block(r.data[at:i], r.data[i]) {
			return n
		}
	}
	return 0
}

// lose ends a gap: all keys from the last one before it up to the given one are lost.
func (r *rebuild) lose(until []byte) {
	r.lost = append(r.lost, Range{r.last, bytes.Clone(until)})
	r.gap = false
}

// block adds the entries of a block. It reports false if the block is no block of data, or one that this package does
// not know.
func (r *rebuild) block(data []byte, compression byte) bool {
	points, err := r.decode(data, compression)
	if err != nil {
		return false
	}
	if n := len(r.points); n > 0 && compareInternal(r.points[n-1].key, points[0].key) >= 0 {
		return false
	}
	if r.gap {
		r.lose(points[0].key.UserKey)
	}
	r.points = append(r.points, points...)
	r.last = points[len(points)-1].key.UserKey
	return true
}

func compareInternal(a, b pebble.InternalKey) int {
	return pebble.DefaultComparer.Compare(a.UserKey, b.UserKey)*2 - int(min(1, max(-1, int64(a.Trailer)-int64(b.Trailer))))
}

var errBlock = errors.New("remains: not a block of data")

// decode decodes a block of data, which has at least one entry.
func (c *checker) decode(data []byte, compression byte) (points []point, err error) {
	defer func() {
		if why := recover(); why != nil { // Pebble panics on what is no block
			points, err = nil, errBlock
		}
	}()
	schema := c.schema()
	if compression != 0 || len(data) < int(schema.HeaderSize)+4+7 {
		return nil, errBlock
	}
	aligned := append(make([]byte, 0, len(data)+64), data...) // from a new array, which is aligned, with zeros behind it
	head := colblk.DecodeHeader(aligned[schema.HeaderSize+4:])
	if head.Version != colblk.Version1 || int(head.Columns) != len(schema.ColumnTypes)+dataColumns || head.Rows == 0 {
		return nil, errBlock
	}
	var d colblk.DataBlockDecoder
	d.Init(schema, aligned)
	var it colblk.DataBlockIter
	var elsewhere valblk.Reader // tells of values in other blocks, and reads none of them
	it.InitOnce(schema, c.options.Comparer, &elsewhere)
	if err := it.Init(&d, tableblock.NoTransforms); err != nil {
		return nil, err
	}
	for kv := it.First(); kv != nil; kv = it.Next() {
		switch kv.Kind() {
		case pebble.InternalKeyKindSet, pebble.InternalKeyKindSetWithDelete, pebble.InternalKeyKindMerge,
			pebble.InternalKeyKindDelete, pebble.InternalKeyKindSingleDelete, pebble.InternalKeyKindDeleteSized:
		default:
			return nil, errBlock
		}
		p := point{key: kv.K.Clone()}
		if kv.V.IsInPlaceValue() {
			p.value = bytes.Clone(kv.InPlaceValue())
		} else { // it is an older one of the same key, which only a snapshot has seen: a deletion does as well
			p.key.SetKind(pebble.InternalKeyKindDelete)
		}
		if n := len(points); n > 0 && compareInternal(points[n-1].key, p.key) >= 0 {
			return nil, errBlock
		}
		points = append(points, p)
	}
	if len(points) != int(head.Rows) {
		return nil, errBlock
	}
	return points, nil
}

// dataColumns is how many columns a block of data has beside the key's columns.
const dataColumns = 5

// deletions collects the deletions of ranges of keys. If they cannot be read, all keys of the table are lost.
func (r *rebuild) deletions(path string) {
	tr, err := r.reader(path)
	if err != nil {
		if !r.noDeletions() {
			r.lost = []Range{r.whole}
		}
		return
	}
	defer func() { _ = tr.Close() }()
	if err := r.spansOf(tr); err != nil {
		r.lost = []Range{r.whole}
	}
}

// spansOf collects the deletions of ranges of keys in a table that can be read.
func (r *rebuild) spansOf(tr *sstable.Reader) error {
	it, err := tr.NewRawRangeDelIter(r.ctx, tableblock.NoFragmentTransforms, sstable.NoReadEnv)
	if err != nil || it == nil {
		return err
	}
	defer it.Close()
	span, err := it.First()
	for ; span != nil; span, err = it.Next() {
		s := span.Clone()
		if r.spanLow == nil {
			r.spanLow = s.Start
		}
		r.spanHigh = s.End
		for _, k := range s.Keys {
			r.spanSeqs = append(r.spanSeqs, uint64(k.SeqNum()))
		}
		r.spans = append(r.spans, func(w sstable.RawWriter) error { return w.EncodeSpan(s) })
	}
	return err
}

// The names of two blocks in the index of blocks.
const (
	propertiesName = "rocksdb.properties"
	deletionsName  = "rocksdb.range_del"
)

// noDeletions reports whether a table whose end is damaged surely has no deletions of ranges.
func (r *rebuild) noDeletions() bool {
	if r.table.LargestSeq == 0 {
		return true // a deletion with this sequence would delete nothing
	}
	// The index of blocks is near the end, and names the blocks that there are.
	at := bytes.LastIndex(r.data, []byte(propertiesName)) // -1 if there is none: then it is not sure
	for start := at; start >= max(0, at-maxIndex); start-- {
		crc := uint32(0)
		for i := start; i+trailerLen <= min(len(r.data), at+maxIndex); i++ {
			crc = crc32.Update(crc, castagnoli, r.data[i:i+1])
			if i > at+len(propertiesName) && masked(crc) == binary.LittleEndian.Uint32(r.data[i+1:]) {
				return !bytes.Contains(r.data[start:i], []byte(deletionsName))
			}
		}
	}
	return false
}

// maxIndex is more than the index of blocks ever has.
const maxIndex = 512

// build makes a table, and returns its bytes.
func (c *checker) build(points []point, spans []func(sstable.RawWriter) error) ([]byte, error) {
	obj := &memory{}
	w := sstable.NewRawWriter(obj, c.options.MakeWriterOptions(0, c.options.FormatMajorVersion.MaxTableFormat()))
	for _, p := range points {
		if err := w.Add(p.key, p.value, false); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	for _, s := range spans {
		if err := s(w); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return obj.Bytes(), nil
}

// memory is an object in memory.
type memory struct{ bytes.Buffer }

// Write implements objstorage.Writable.
func (m *memory) Write(p []byte) error { m.Buffer.Write(p); return nil }

// Finish implements objstorage.Writable.
func (m *memory) Finish() error { return nil }

// Abort implements objstorage.Writable.
func (m *memory) Abort() {}
