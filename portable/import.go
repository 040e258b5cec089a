package portable

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"

	"github.com/sievekv/sievekv/bitmapext"
	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/kv"
)

// ImportOptions say what Import does with a key that exists. The zero value makes that an error.
type ImportOptions struct {
	Replace bool // what is under the key is replaced, and its expiry removed

	// Merge adds what the file has to the filter under the key, if there is one, as the filter's Merge does. Both must
	// have been made with the same parameters and the same secret of the hash. Cuckoo filters and strings cannot be
	// merged.
	Merge bool
}

// Import puts what a file has under a key, in one commit. The key does not expire.
//
// Import reads the file twice: once to check all of it, before anything is written, and once more while other writes to
// the key, and transactions, wait. What cannot seek is copied to a file in os.TempDir on the way. Blocks are written
// ahead of the commit, and belong to no key until then: what a crash or an error leaves of them is reclaimed.
//
// The errors are ErrDamaged, kv.ErrExists, kv.ErrUnsupportedVersion for a file of a newer version, kv.ErrNoModule for a
// type that the store does not know, kv.ErrOptions and kv.ErrTooLarge; with Merge kv.ErrWrongType and errors of the
// filter's Merge; and errors of reading and writing.
func Import(ctx context.Context, db *kv.DB, level kv.Durability, key []byte, r io.Reader, o ImportOptions) error {
	if o.Replace && o.Merge {
		return fmt.Errorf("%w: ImportOptions has Replace and Merge, want at most one of them", kv.ErrOptions)
	}
	if err := db.Outside(ctx); err != nil {
		return err
	}
	if n, err := db.Exists(key); err != nil || n > 0 && !o.Replace && !o.Merge { // before much is read
		return exists(key, err)
	}
	var t types
	if modules := db.Options().Modules; modules != nil {
		var err error
		if t, err = modules.Types(); err != nil {
			return err
		}
	}
	checked, done, err := check(ctx, r, t)
	if err != nil {
		return err
	}
	defer done()
	im := importer{ctx, newReading(ctx, checked), key, fmt.Append(nil, "the file ", rand.Text()[:8]), o}
	if err := im.in.open(t); err != nil {
		return err
	}
	return db.Write(level, [][]byte{key, im.beside}, im.stage)
}

func exists(key []byte, err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %q", kv.ErrExists, key)
}

// check reads and checks all of a file, and returns a reader of the same bytes. The caller calls done when it has read
// them.
func check(ctx context.Context, r io.Reader, t types) (again io.Reader, done func(), err error) {
	if s, ok := r.(io.ReadSeeker); ok {
		if start, err := s.Seek(0, io.SeekCurrent); err == nil {
			if _, err := read(ctx, r, t); err != nil {
				return nil, nil, err
			}
			_, err := s.Seek(start, io.SeekStart)
			return r, func() {}, err
		}
	}
	file, err := os.CreateTemp("", "sievekv-import-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { // errors are of no interest: nobody needs the file any more
		_ = file.Close()
		_ = os.Remove(file.Name())
	}
	defer func() {
		if err != nil {
			remove()
		}
	}()
	copied := bufio.NewWriterSize(file, chunkSize)
	if _, err := read(ctx, io.TeeReader(r, copied), t); err != nil {
		return nil, nil, err
	}
	if err := copied.Flush(); err != nil {
		return nil, nil, err
	}
	_, err = file.Seek(0, io.SeekStart)
	return file, remove, err
}

// importer stages what a file has.
type importer struct {
	ctx     context.Context
	in      *reading // of a file that was checked; it is open
	key     []byte
	beside  []byte // the key of a filter to be merged; it exists only in the writer
	options ImportOptions
}

func (im *importer) stage(w *kv.Writer) error {
	o, err := w.Object(im.key)
	if err != nil {
		return err
	}
	switch {
	case o == nil || im.options.Replace:
		return im.put(w, im.key)
	case !im.options.Merge:
		return exists(im.key, nil)
	case o.TypeName() != im.in.info.Type:
		return fmt.Errorf("%w: %q holds a %s, the file has a %s", kv.ErrWrongType, im.key, o.TypeName(), im.in.info.Type)
	}
	merge := mergeOf(w.DB(), o.TypeName())
	if merge == nil {
		return fmt.Errorf("%w: %q holds a %s, which cannot be merged", kv.ErrWrongType, im.key, o.TypeName())
	}
	if err := im.put(w, im.beside); err != nil {
		return err
	}
	if err := merge(im.ctx, w, im.key, im.beside); err != nil {
		return err
	}
	_, err = w.Delete(im.beside)
	return err
}

// mergeOf returns what merges the filter under another key into that under a key, nil for a type that has no Merge.
func mergeOf(db *kv.DB, name string) func(ctx context.Context, w *kv.Writer, key, other []byte) error {
	switch name {
	case bloomext.Module().Types[0].Name:
		return func(ctx context.Context, w *kv.Writer, key, other []byte) error {
			return bloomext.New(db, string(key)).MergeStaged(ctx, w, bloomext.New(db, string(other)))
		}
	case countingext.Module().Types[0].Name:
		return func(ctx context.Context, w *kv.Writer, key, other []byte) error {
			return countingext.New(db, string(key)).MergeStaged(ctx, w, countingext.New(db, string(other)))
		}
	}
	return nil
}

// put stages what the file has under a key.
func (im *importer) put(w *kv.Writer, key []byte) error {
	if im.in.object == nil {
		return im.putString(w, key)
	}
	h, typ := im.in.c.header, *im.in.typ
	typ.Version = h.TypeVersion
	spec := kv.Spec{Type: &typ, Family: h.Family, Layers: h.Layers, Params: h.Params, Lossy: h.Lossy}
	_, err := w.Build(im.ctx, key, spec, func(b *kv.Builder) error {
		layers := b.Object().Layers()
		for i, counters := range im.in.c.counters {
			for n, v := range counters {
				if v != 0 {
					w.SetCounter(layers[i], n, v)
				}
			}
		}
		im.in.sink.block = func(layer int, blk uint64, words []uint64) error { return b.Put(layers[layer], blk, words) }
		return im.in.rest()
	})
	return err
}

// putString stages a string in one piece. One that is too long for this store to keep so is put into blocks.
func (im *importer) putString(w *kv.Writer, key []byte) error {
	var value []byte
	im.in.sink.bytes = func(part []byte) { value = append(value, part...) }
	if err := im.in.rest(); err != nil {
		return err
	}
	if len(value) <= w.DB().MaxValueLen() {
		_, err := w.Set(key, value, kv.SetOptions{})
		return err
	}
	if _, err := w.Delete(key); err != nil {
		return err
	}
	_, err := bitmapext.SetRange(im.ctx, w, key, 0, value)
	return err
}
