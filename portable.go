package sievekv

import (
	"context"
	"io"

	"github.com/sievekv/sievekv/portable"
)

// ImportOptions say what ImportWith does with a key that exists. The zero value makes that ErrExists.
//
//   - Replace: what is under the key is replaced, and its expiry removed;
//   - Merge: what the file has is added to the filter under the key, as Bloom.Merge and Counting.Merge do. The filters must
//     have been made with the same parameters, and with the same secret of the hash: one is a copy of the other, or their
//     stores have the same Options.Seed. Cuckoo filters and strings cannot be merged. A missing key is made.
type ImportOptions = portable.ImportOptions

// ErrDamaged is returned, with the place, for a file that Export has not written, or that is damaged or cut short. Bloom's
// ImportForeign returns it for a file that the other library has not written.
var ErrDamaged = portable.ErrDamaged

// Export writes the filter, bitmap or string under a key to w, as one file, for Import and ReadFilter. The file does not
// depend on the store. It has neither the key nor its expiry. It has the secret of a filter's hash: who can read it can
// choose items that collide. Export sees the key as of one commit, and other operations go on meanwhile. After an error
// what was written is of no use. The errors are ErrNotFound and errors of w.
func (db *DB) Export(ctx context.Context, key string, w io.Writer) error {
	return portable.Export(ctx, db.store, []byte(key), w)
}

// Export is DB.Export of what was under the key.
func (s *Snapshot) Export(ctx context.Context, key string, w io.Writer) error {
	return portable.ExportFrom(ctx, s.tx, []byte(key), w)
}

// Import makes a key of a file that Export has written, in this store or another; the answers to lookups are the same.
// All of it appears in one commit, or nothing. The key must be missing; it does not expire.
//
// Import checks the whole file before it writes anything, and reads it once more while transactions and other writes to
// the key wait. If r cannot seek, the file is copied to os.TempDir meanwhile. The errors are ErrExists, ErrDamaged,
// ErrUnsupportedVersion for a file of a newer version, ErrNoModule for a type that the store does not know, ErrTooLarge,
// and errors of r.
func (db *DB) Import(ctx context.Context, key string, r io.Reader) error {
	return db.ImportWith(ctx, key, r, ImportOptions{})
}

// ImportWith is Import with options. With Merge the errors are ErrWrongType, ErrUnequal and ErrRate, too.
func (db *DB) ImportWith(ctx context.Context, key string, r io.Reader, o ImportOptions) error {
	return portable.Import(ctx, db.store, db.level, []byte(key), r, o)
}

// FrozenFilter is a filter of any type in memory, read from a file of Export. It needs no store, and never changes. Its
// methods MayContain and MayContainString answer as the filter did, and Count and CountString as often
// as the item seems to have been added. Info describes it. It implements encoding.BinaryMarshaler and
// encoding.BinaryUnmarshaler, io.WriterTo and io.ReaderFrom; the zero value takes every item for present. See
// [portable.Filter].
type FrozenFilter = portable.Filter

// ReadFilter reads a filter from a file that Export has written. The errors are ErrDamaged, ErrWrongType for the file of a
// bitmap or string, ErrUnsupportedVersion for a file of a newer version, ErrNoModule for a type that is not built in, and
// errors of r.
func ReadFilter(r io.Reader) (*FrozenFilter, error) { return portable.ReadFilter(r) }
