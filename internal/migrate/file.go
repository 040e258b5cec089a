package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/sievekv/sievekv/internal/migrate/rdb"
)

// chunkSize is the length of the chunks of a file's filters.
const chunkSize = 4 << 20

// Check reads all of an RDB file, and returns an error if it is damaged, or of a version that is not known. It reads no further
// than where it finds that.
func Check(ctx context.Context, file io.Reader) error {
	return each(ctx, file, func(r *rdb.Reader, key rdb.Key) (err error) {
		switch {
		case key.Type == "string":
			_, err = r.CheckString()
		case key.IsFilter():
			_, err = r.Filter()
		}
		return err
	})
}

// Import copies from an RDB file, which Check has found to be whole.
func Import(ctx context.Context, file io.ReaderAt, to Doer, o Options) (Report, error) {
	f := &fileRun{run: newRun(to, o), file: file}
	err := each(ctx, io.NewSectionReader(file, 0, math.MaxInt64), func(r *rdb.Reader, key rdb.Key) error { return f.copyKey(ctx, r, key) })
	if err == nil {
		err = f.flush(ctx)
	}
	return f.report, err
}

// fileRun is a run over a file.
type fileRun struct {
	*run
	file  io.ReaderAt
	texts []item // strings that are not copied yet
	bytes int    // of texts
}

// each reads all of the file, and calls visit for each key, which may read its value.
func each(ctx context.Context, file io.Reader, visit func(*rdb.Reader, rdb.Key) error) error {
	r, err := rdb.NewReader(file)
	for err == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		var key rdb.Key
		if key, err = r.Next(); err == nil {
			err = visit(r, key)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// copyKey copies a key, or reports why not. It reads no value that it does not copy.
func (f *fileRun) copyKey(ctx context.Context, r *rdb.Reader, key rdb.Key) error {
	f.report.seenKeys++
	f.report.BytesRead = r.Offset()
	i := item{key: key.Name}
	if key.Expires {
		i.expires = time.UnixMilli(max(key.ExpireAt, 0)) // what has expired before 1970 must not look like never
	}
	_, lives := f.life(i)
	isText := key.Type == "string"
	switch {
	case key.Database != f.Database:
		f.report.OfOtherDatabases++
	case isCopy(key.Name):
		f.report.Copies++
	case !lives:
		f.report.Expired++
	case !isText && words(key.Type) == "":
		f.report.leaveOut(key.Type)
	case key.Length > rdb.MaxName:
		f.report.fail(key.Name, fmt.Sprintf("a key of %d bytes, at most %d", key.Length, rdb.MaxName))
	case !isText && !key.IsFilter():
		f.report.fail(key.Name, "a "+key.Type+" in a form of another version of RedisBloom, which is not read")
	case isText:
		return f.copyString(ctx, r, i)
	default:
		return f.copyFilter(ctx, r, i)
	}
	return nil
}

func (f *fileRun) copyString(ctx context.Context, r *rdb.Reader, i item) (err error) {
	if f.DryRun {
		length, err := r.CheckString()
		if err != nil {
			return err
		}
		return f.list("string", i.key, fmt.Sprintf(" %d bytes", length))
	}
	if i.value, err = r.String(); err != nil {
		return err
	}
	f.texts = append(f.texts, i)
	if f.bytes += len(i.value); f.bytes > most || len(f.texts) >= scanCount {
		return f.flush(ctx)
	}
	return nil
}

func (f *fileRun) copyFilter(ctx context.Context, r *rdb.Reader, i item) error {
	read, err := r.Filter()
	if err != nil {
		return err
	}
	if f.DryRun {
		return f.list(read.Type, i.key, fmt.Sprintf(" %d items, %d bytes", read.Items, read.Size()))
	}
	i.filter = &fileFilter{read, f.file}
	if err := f.putFilter(ctx, i); err != nil {
		return err
	}
	f.show()
	return nil
}

// flush copies the strings that are not copied yet.
func (f *fileRun) flush(ctx context.Context) error {
	err := f.putStrings(ctx, f.texts)
	f.texts, f.bytes = nil, 0
	f.show()
	return err
}

// fileFilter is a filter of a file, or of a DUMP.
type fileFilter struct {
	*rdb.Filter
	file io.ReaderAt
}

func (f *fileFilter) words() string { return words(f.Type) }

func (f *fileFilter) changed(context.Context) (bool, error) { return false, nil }

func (f *fileFilter) chunks(ctx context.Context, give func(rdb.Chunk) error) error {
	if err := give(rdb.Chunk{Iter: 1, Data: f.Header}); err != nil {
		return err
	}
	return f.Chunks(f.file, chunkSize, func(c rdb.Chunk) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return give(c)
	})
}
