package storage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/dirsync"
	"github.com/sievekv/sievekv/internal/format"
)

// A backup is a second store in a directory of its own, as of one commit. It is made in a directory with another name
// next to it, and renamed when it is whole. Pebble makes it, as a checkpoint: it links the tables, which never change,
// or copies them where the file system cannot link. It copies the log: package freeze shows it the part that has been
// written so far. So the backup is what a crash of the process would have left at that moment: a prefix of the commits,
// with everything that was acknowledged before the backup began.

// ErrUnfinishedBackup is returned when a backup could not be made. There is nothing under the backup's name then.
var ErrUnfinishedBackup = errors.New("kv: the backup was not made")

// BackupOptions say how a backup is made.
type BackupOptions struct {
	// Copy copies tables also where they could be linked. A linked table is one file with two names: it takes no
	// space, but damage to the file is damage to both stores.
	Copy bool

	// Progress, if not nil, is called while files are linked and copied, from the goroutine that makes the backup.
	// Done and total are bytes. Total is an estimate; done does not exceed it.
	Progress func(done, total uint64)
}

// Backup makes a backup of a store in dir, which must not exist. Before the backup gets its name, verify is given the directory in
// which it was made; if verify returns an error, the backup is removed. The errors are ErrUnfinishedBackup, with the
// cause, and ErrFailed.
func Backup(ctx context.Context, s *Store, dir string, o BackupOptions, verify func(dir string) error) error {
	err := s.refuseInside(dir)
	if err == nil {
		err = s.backup(ctx, dir, o, verify)
	}
	return s.backupError(dir, err)
}

// backupError returns the error of a backup.
func (s *Store) backupError(dir string, err error) error {
	if err == nil {
		return nil // even if the store has failed since it was copied
	}
	if failure := s.failure(); failure != nil {
		return failure
	}
	return fmt.Errorf("%w: %s: %w", ErrUnfinishedBackup, dir, plainError{err})
}

// refuseInside refuses a backup at or below the store's directory: it would go with the store, and be in the way of what
// the store makes there.
func (s *Store) refuseInside(dir string) error {
	target := &Store{opts: s.opts}
	at, err := target.cleanDir(dir)
	if err != nil || s.opts.InMemory {
		return err
	}
	for up := at; ; up = s.opts.FS.PathDir(up) {
		if up == s.Dir {
			return fmt.Errorf("it would be inside the directory of the store, %s", s.Dir)
		}
		if parent := s.opts.FS.PathDir(up); parent == up || parent == "." {
			return nil
		}
	}
}

func (s *Store) backup(ctx context.Context, dir string, o BackupOptions, verify func(dir string) error) error {
	fsys := s.fileSystem()
	dir = fsys.PathDir(fsys.PathJoin(dir, "x")) // cleaned
	if _, err := fsys.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(err, fs.ErrExist)
	}
	s.backups.making.Lock()
	defer s.backups.making.Unlock()

	// Only this store uses the name, so a directory there was left by a backup that did not end.
	id := sha256.Sum256(append(s.Meta.ID[:], s.Dir...))
	part := fmt.Sprintf("%s.partial-%x", dir, id[:4])
	if err := fsys.RemoveAll(part); err != nil {
		return err
	}
	run := &backup{ctx: ctx, fs: fsys, store: s.Dir, dir: part, options: o, total: s.disk.Metrics().DiskSpaceUsage(), keep: s.backupReserve(), asked: askEvery}
	next := uint64(0)
	err := s.backups.run(run, func() error {
		s.Flush()
		next = s.lastSeq.Load() + 1
		return s.disk.Checkpoint(part, pebble.WithFlushedWAL())
	})
	if err == nil {
		err = s.failure() // then the log was not synced, and what is copied may lack its end
	}
	var finished func() error
	if err == nil {
		finished, err = Unfinished(s.opts.FS, part)
	}
	if err == nil {
		err = writeFileSync(fsys, fsys.PathJoin(part, format.SidecarName), format.AppendSidecar(nil, s.Meta.ID, next))
	}
	if err == nil {
		err = run.finish()
	}
	if err == nil {
		err = verify(part)
	}
	if finished != nil {
		err = errors.Join(err, finished())
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		if err = fsys.Rename(part, dir); err == nil {
			part = dir
			err = dirsync.Tolerant(fsys, fsys.PathDir(dir))
		}
	}
	if err != nil {
		return errors.Join(err, fsys.RemoveAll(part))
	}
	return nil
}

// backupReserve returns how many bytes a backup leaves free, so that the store goes on if the two share a disk.
func (s *Store) backupReserve() uint64 {
	low := uint64(max(0, s.opts.MinFreeSpace))
	return low + low/2
}

// backups is the file system that Pebble uses. While a backup is made, it handles the backup's directory. It passes on
// all other paths.
type backups struct {
	vfs.FS
	making sync.Mutex // one backup at a time
	under  atomic.Pointer[backup]
}

// run runs make, which makes a backup.
func (b *backups) run(r *backup, make func() error) error {
	b.under.Store(r)
	defer b.under.Store(nil)
	return errors.Join(make(), r.err)
}

// of returns the backup whose directory a path is, or is in.
func (b *backups) of(name string) *backup {
	if r := b.under.Load(); r != nil && (name == r.dir || b.PathDir(name) == r.dir) {
		return r
	}
	return nil
}

// Create implements vfs.FS.
func (b *backups) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if r := b.of(name); r != nil {
		return r.create(name, category)
	}
	return b.FS.Create(name, category)
}

// Link implements vfs.FS.
func (b *backups) Link(oldname, newname string) error {
	if r := b.of(newname); r != nil {
		return r.link(oldname, newname)
	}
	return b.FS.Link(oldname, newname)
}

// OpenDir implements vfs.FS.
func (b *backups) OpenDir(name string) (vfs.File, error) {
	f, err := b.FS.OpenDir(name)
	if r := b.under.Load(); r != nil && err == nil && name != r.store { // the backup's directory, or one above it
		return &backupDir{f, r}, nil
	}
	return f, err
}

// backup is a backup that is being made, by one goroutine.
type backup struct {
	ctx     context.Context
	fs      vfs.FS // not the store's: that would give up its reserve for the backup
	store   string // the store's directory
	dir     string
	options BackupOptions

	done, total uint64
	asked       uint64 // how much was done when there was room for more
	keep        uint64 // bytes to leave free

	markers []string // to be made when all else is there
	err     error
}

// manifestMarker begins the name of the file that makes a directory a store.
const manifestMarker = "marker.manifest."

// create makes a file of the backup. It puts off the marker until everything else is there: without a marker, a backup
// that has not ended is no store.
func (r *backup) create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	if strings.HasPrefix(r.fs.PathBase(name), manifestMarker) {
		r.markers = append(r.markers, name)
		return vfs.NewMemFile(nil), nil
	}
	f, err := r.fs.Create(name, category)
	if err != nil {
		return nil, err
	}
	return &backupFile{f, r}, nil
}

// finish makes the marker.
func (r *backup) finish() error {
	for _, name := range r.markers {
		if err := writeFileSync(r.fs, name, nil); err != nil {
			return err
		}
	}
	return dirsync.Tolerant(r.fs, r.dir)
}

// link links a table. Pebble copies the table if that fails, but not if it fails for lack of permission, as it does on
// file systems without links.
func (r *backup) link(oldname, newname string) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if r.options.Copy {
		return errCopy
	}
	if err := r.fs.Link(oldname, newname); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return errCopy
		}
		return err
	}
	info, err := r.fs.Stat(newname)
	if err == nil {
		r.progress(uint64(info.Size()))
	}
	return err
}

var errCopy = errors.New("kv: to be copied")

func (r *backup) progress(n uint64) {
	r.done = min(r.done+n, r.total)
	if r.options.Progress != nil {
		r.options.Progress(r.done, r.total)
	}
}

// askEvery is the number of bytes after which a backup asks the disk whether there is room for more.
const askEvery = 4 << 20

// room returns an error if the disk has no room for more. It asks the disk at the beginning, and again every few MiB.
func (r *backup) room(n uint64) error {
	if r.asked += n; r.asked < askEvery {
		return nil
	}
	r.asked = 0
	usage, err := r.fs.GetDiskUsage(r.dir)
	if err == nil && usage.AvailBytes < r.keep+askEvery {
		return fmt.Errorf("no space left: %d bytes are free, and a backup leaves %d for stores", usage.AvailBytes, r.keep)
	}
	return nil // a file system that cannot tell says ErrUnsupported
}

// backupFile is a file of a backup that is being made.
type backupFile struct {
	vfs.File
	r *backup
}

// Write implements vfs.File.
func (f *backupFile) Write(p []byte) (int, error) {
	if err := errors.Join(f.r.ctx.Err(), f.r.room(uint64(len(p)))); err != nil {
		return 0, err
	}
	n, err := f.File.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	f.r.progress(uint64(n))
	return n, err
}

// backupDir is a handle of a backup's directory, or of one above it. Pebble panics if a sync of the backup's directory
// fails, so backupDir keeps the error for later. If the file system cannot sync directories, a backup goes on without.
type backupDir struct {
	vfs.File
	r *backup
}

// Sync implements vfs.File.
func (d *backupDir) Sync() error {
	d.r.err = errors.Join(d.r.err, dirsync.IfSupported(d.File.Sync()))
	return nil
}
