// Package image moves the whole content of a store to another: as a stream, and then as tables that replace the whole
// content of the other store at once.
//
// The stream, with integers as unsigned varints:
//
//	8 bytes      "sievimg" and the version, 1
//	for each key, in ascending order:
//	             its length, which is not 0, and the key
//	             the length of its value, and the value
//	1 byte       0
//	             the number of keys
//	32 bytes     SHA-256 of everything before
package image

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
)

const magic = "sievimg\x01"

const (
	// maxKey and maxValue are more than any key and value of a store has: a string of 8 MiB is the largest.
	maxKey   = 1 << 20
	maxValue = 64 << 20

	// tableSize is about the size of a table.
	tableSize = 64 << 20
)

// Write writes what an iterator visits. The iterator is of a snapshot of everything.
func Write(ctx context.Context, it *pebble.Iterator, w io.Writer) (keys uint64, err error) {
	sum := sha256.New()
	b := bufio.NewWriterSize(w, 1<<18)
	out := io.MultiWriter(b, sum)
	head := []byte(magic)
	for ok := it.First(); ok; ok = it.Next() {
		if keys++; keys%1024 == 0 && ctx.Err() != nil {
			return keys, context.Cause(ctx)
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return keys, err
		}
		head = binary.AppendUvarint(head, uint64(len(it.Key())))
		head = append(head, it.Key()...)
		head = binary.AppendUvarint(head, uint64(len(value)))
		if _, err := out.Write(head); err != nil {
			return keys, err
		}
		if _, err := out.Write(value); err != nil {
			return keys, err
		}
		head = head[:0]
	}
	if err := it.Error(); err != nil {
		return keys, err
	}
	if _, err := out.Write(binary.AppendUvarint(append(head, 0), keys)); err != nil {
		return keys, err
	}
	if _, err := b.Write(sum.Sum(nil)); err != nil {
		return keys, err
	}
	return keys, b.Flush()
}

// Tables are the tables of an image that was received whole.
type Tables struct {
	Paths []string
	Keys  uint64
	Meta  map[string][]byte // the values of the keys of metadata
}

// Receive reads an image, and makes tables of it in a directory, which must be empty. They are on stable storage when it returns.
// The error wraps format.ErrCorrupt if the image is not as it was written.
func Receive(ctx context.Context, fs vfs.FS, dir string, r io.Reader) (t Tables, err error) {
	t.Meta = make(map[string][]byte)
	in := &reader{ctx: ctx, from: bufio.NewReaderSize(r, 1<<18), sum: sha256.New()}
	w := &writer{fs: fs, dir: dir}
	defer w.abort()
	if err := in.readMagic(); err != nil {
		return t, err
	}
	for {
		key, value, err := in.next()
		if err != nil {
			return t, err
		}
		if key == nil {
			break
		}
		if key[0] == format.TagMeta {
			t.Meta[string(key)] = bytes.Clone(value)
		}
		if err := w.add(key, value); err != nil {
			return t, err
		}
	}
	if err := in.readEnd(); err != nil {
		return t, err
	}
	if err := w.finish(); err != nil {
		return t, err
	}
	d, err := fs.OpenDir(dir)
	if err != nil {
		return t, err
	}
	t.Paths, t.Keys = w.paths, in.keys
	return t, errors.Join(d.Sync(), d.Close())
}

// reader reads an image.
type reader struct {
	ctx        context.Context
	from       *bufio.Reader
	sum        hash.Hash
	keys       uint64
	key, value []byte
}

func (r *reader) readMagic() error {
	head := make([]byte, len(magic))
	if err := r.fill(head); err != nil {
		return err
	}
	if string(head) != magic {
		return format.Corruptf("image begins with %q, want %q", head, magic)
	}
	return nil
}

// next returns the next key and its value, and no key at the end. They are valid until it is called again.
func (r *reader) next() (key, value []byte, err error) {
	if r.keys%1024 == 0 && r.ctx.Err() != nil {
		return nil, nil, context.Cause(r.ctx)
	}
	before := bytes.Clone(r.key)
	if r.key, err = r.piece(r.key, maxKey, "key"); err != nil || len(r.key) == 0 {
		return nil, nil, err
	}
	if r.keys > 0 && bytes.Compare(before, r.key) >= 0 {
		return nil, nil, format.Corruptf("image: key %.40x comes after %.40x", r.key, before)
	}
	r.keys++
	r.value, err = r.piece(r.value, maxValue, "value")
	return r.key, r.value, err
}

// piece reads a length and that number of bytes. It takes memory for the bytes that have come, not for the length.
func (r *reader) piece(into []byte, most uint64, what string) ([]byte, error) {
	n, err := r.number()
	if err != nil {
		return into, err
	}
	if n > most {
		return into, format.Corruptf("image: %s %d has %d bytes, want at most %d", what, r.keys, n, most)
	}
	into = into[:0]
	for n > 0 {
		step := min(n, 1<<16)
		at := len(into)
		into = append(into, make([]byte, step)...)
		if err := r.fill(into[at:]); err != nil {
			return into, err
		}
		n -= step
	}
	return into, nil
}

func (r *reader) number() (n uint64, err error) {
	var b [1]byte
	for shift := 0; shift < 64; shift += 7 {
		if err := r.fill(b[:]); err != nil {
			return 0, err
		}
		n |= uint64(b[0]&0x7f) << shift
		if b[0] < 0x80 {
			return n, nil
		}
	}
	return 0, format.Corruptf("image: the length of key %d has more than 9 bytes", r.keys)
}

// fill reads exactly len(b) bytes, and adds them to the checksum.
func (r *reader) fill(b []byte) error {
	if _, err := io.ReadFull(r.from, b); err != nil {
		return r.cut(err)
	}
	r.sum.Write(b)
	return nil
}

func (r *reader) cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: image ends after %d keys", io.ErrUnexpectedEOF, r.keys)
	}
	return err
}

// readEnd reads the end of the stream, behind the keys.
func (r *reader) readEnd() error {
	keys, err := r.number()
	if err != nil {
		return err
	}
	if keys != r.keys {
		return format.Corruptf("image has %d keys, and says %d", r.keys, keys)
	}
	want, got := r.sum.Sum(nil), make([]byte, sha256.Size)
	if _, err := io.ReadFull(r.from, got); err != nil {
		return r.cut(err)
	}
	if !bytes.Equal(got, want) {
		return format.Corruptf("image of %d keys has checksum %x, and says %x", r.keys, want, got)
	}
	return nil
}

// writer makes tables.
type writer struct {
	fs    vfs.FS
	dir   string
	table *sstable.Writer
	paths []string
}

func (w *writer) add(key, value []byte) error {
	if w.table == nil {
		path := w.fs.PathJoin(w.dir, fmt.Sprintf("%06d.table", len(w.paths)))
		f, err := w.fs.Create(path, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		w.paths = append(w.paths, path)
		w.table = sstable.NewWriter(objstorageprovider.NewFileWritable(f), tableOptions())
	}
	if err := w.table.Set(key, value); err != nil {
		return err
	}
	if w.table.Raw().EstimatedSize() < tableSize {
		return nil
	}
	return w.finish()
}

func (w *writer) finish() error {
	if w.table == nil {
		return nil
	}
	err := w.table.Close() // syncs the table
	w.table = nil
	return err
}

// abort closes a table that is not finished.
func (w *writer) abort() {
	if w.table != nil {
		_ = w.table.Close() // nobody uses it
	}
}

// tableOptions are options for tables that every store of this version can read. In time the store's compactions
// replace these tables.
func tableOptions() sstable.WriterOptions {
	return sstable.WriterOptions{
		TableFormat: pebble.FormatNewest.MaxTableFormat(),
		BlockSize:   16 << 10,
		Compression: sstable.NoCompression,
		MergerName:  block.MergerName,
	}
}
