package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/rdb"
)

// chunkSize is the length of the chunks of a file's filters.
const chunkSize = 4 << 20

// Check reads all of an RDB file, and returns an error if it is damaged, or of a version that is not known.
func Check(ctx context.Context, file io.ReaderAt) error {
	f := &fileRun{run: newRun(nil, Options{}), file: file}
	return f.each(ctx, func(*rdb.Reader, rdb.Key) error { return nil })
}

// Import copies from an RDB file, which Check has found to be whole.
func Import(ctx context.Context, file io.ReaderAt, to Doer, o Options) (Report, error) {
	f := &fileRun{run: newRun(to, o), file: file}
	err := f.each(ctx, func(r *rdb.Reader, key rdb.Key) error { return f.copyKey(ctx, r, key) })
	if err == nil {
		err = f.flush(ctx)
	}
	return f.report, err
}

// fileRun is a run over a file.
type fileRun struct {
	*run
	file   io.ReaderAt
	value  []byte      // of the key, if it is a string
	filter *rdb.Filter // of the key, if it is a filter
	texts  []item      // strings that are not copied yet
	bytes  int         // of texts
}

// each reads all of the file, and calls visit for each key, after its value was read.
func (f *fileRun) each(ctx context.Context, visit func(*rdb.Reader, rdb.Key) error) error {
	r, err := rdb.NewReader(io.NewSectionReader(f.file, 0, math.MaxInt64))
	for err == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		var key rdb.Key
		if key, err = r.Next(); err != nil {
			break
		}
		f.value, f.filter = nil, nil
		switch {
		case key.Type == "string":
			f.value, err = r.String()
		case key.IsFilter():
			f.filter, err = r.Filter()
		}
		if err == nil {
			err = visit(r, key)
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, rdb.ErrDamaged):
		return exit.WithCode(exit.Corrupt, err)
	case errors.Is(err, rdb.ErrUnsupported):
		return exit.WithCode(exit.Refused, err)
	}
	return err
}

func (f *fileRun) copyKey(ctx context.Context, r *rdb.Reader, key rdb.Key) error {
	f.report.seenKeys++
	f.report.BytesRead = r.Offset()
	i := item{key: key.Name, value: f.value}
	if key.Expires {
		i.expires = time.UnixMilli(max(key.ExpireAt, 0)) // what has expired before 1970 must not look like never
	}
	_, lives := f.life(i)
	switch {
	case key.Database != f.Database:
		f.report.OfOtherDatabases++
	case isCopy(key.Name):
		f.report.Copies++
	case !lives:
		f.report.Expired++
	case words(key.Type) != "" && f.filter == nil:
		f.report.Failed = append(f.report.Failed, shown(key.Name)+": a "+key.Type+" in a form of another version of RedisBloom, which is not read")
	case key.Type != "string" && f.filter == nil:
		f.report.Others[key.Type]++
	case f.DryRun && f.filter != nil:
		return f.list(key.Type, key.Name, fmt.Sprintf(" %d items, %d bytes", f.filter.Items, f.filter.Size()))
	case f.DryRun:
		return f.list(key.Type, key.Name, fmt.Sprintf(" %d bytes", len(i.value)))
	case f.filter != nil:
		i.filter = &fileFilter{f.filter, f.file}
		if err := f.putFilter(ctx, i); err != nil {
			return err
		}
		f.show()
	default:
		f.texts = append(f.texts, i)
		if f.bytes += len(i.value); f.bytes > most || len(f.texts) >= scanCount {
			return f.flush(ctx)
		}
	}
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
