package freeze

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Running out of descriptors.
//
// An open that fails with EMFILE (the process has no descriptor left) or ENFILE (the system has none) has done nothing
// and says nothing about the disk. It must not freeze the directory: whoever can make the process open files or
// connections could end the store. So such an open is tried again:
//
//   - At once, for each descriptor that the reserve gives up. The reserve is taken back later, see reserve.
//   - After pauses, for as long as patience. Then a table's error goes to Pebble, which builds the table again, and a
//     read's error to the reader. They are never counted as failures of the disk.
//   - A vital file is waited for as long as it takes. Pebble v2.1.7 panics when it cannot create the next log
//     (DB.rotateWAL), and calls Logger.Fatalf when it cannot create a MANIFEST or its marker
//     (versionSet.UpdateVersionLocked). While it waits it holds neither DB.mu nor anything that reads need, so this
//     is a stall of the writers, as on a full disk. DB.rotateWAL closes the log before, which syncs it: a crash during the
//     wait loses nothing.
//
// Two things end the wait for a vital file with an error, which freezes: the store is being opened, since Open should
// return, or closed, since Close should.
//
// Only opens are tried again, never a write or a sync: see opener.

const (
	// patience is how long an open is tried again whoever asked for it.
	patience = 2 * time.Second

	// The pauses between two attempts double from the first to the longest.
	firstPause   = time.Millisecond
	longestPause = 50 * time.Millisecond
)

// DescriptorOptions are the options of FS.GuardDescriptors.
type DescriptorOptions struct {
	// Reserve is how many descriptors are held to be given up when there are no others.
	Reserve int

	// Closing, if set, reports whether the store is being closed: then nothing is waited for without end.
	Closing func() bool

	// Logger gets a line when an open has to wait, and when it need not any more. nil means none.
	Logger *slog.Logger
}

// GuardDescriptors has the file system hold descriptors in reserve, until ReleaseDescriptors. It is to be called before
// pebble.Open. Without it, there is no reserve and a vital file is waited for without end.
func (fs *FS) GuardDescriptors(opts DescriptorOptions) {
	if opts.Closing != nil {
		fs.closing = opts.Closing
	}
	if opts.Logger != nil {
		fs.log = opts.Logger.With("dir", fs.dir)
	}
	fs.reserve.hold(opts.Reserve)
}

// ReleaseDescriptors gives up the reserve for good.
func (fs *FS) ReleaseDescriptors() { fs.reserve.hold(0) }

// errDescriptor marks the error of an open for which there was no descriptor.
type errDescriptor struct{ error }

func (e errDescriptor) Unwrap() error { return e.error }

func lacksDescriptor(err error) bool {
	mark := errDescriptor{}
	return errors.As(err, &mark)
}

// opener is the file system beneath, with the errors of opens marked that lacked a descriptor. What has the mark did
// nothing and may be repeated. An errno alone would not tell: a file system can answer a sync with any, and a failed
// sync must never be repeated.
type opener struct{ vfs.FS }

func mark(err error) error {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return errDescriptor{err}
	}
	return err
}

// Create implements vfs.FS.
func (o opener) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := o.FS.Create(name, category)
	return f, mark(err)
}

// Open implements vfs.FS.
func (o opener) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := o.FS.Open(name, opts...)
	return f, mark(err)
}

// OpenReadWrite implements vfs.FS.
func (o opener) OpenReadWrite(
	name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption,
) (vfs.File, error) {
	f, err := o.FS.OpenReadWrite(name, category, opts...)
	return f, mark(err)
}

// ReuseForWrite implements vfs.FS. A marked error leaves it open whether the file was renamed, see FS.ReuseForWrite.
func (o opener) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := o.FS.ReuseForWrite(oldname, newname, category)
	return f, mark(err)
}

// OpenDir implements vfs.FS.
func (o opener) OpenDir(name string) (vfs.File, error) {
	f, err := o.FS.OpenDir(name)
	return f, mark(err)
}

// List implements vfs.FS.
func (o opener) List(dir string) ([]string, error) {
	names, err := o.FS.List(dir)
	return names, mark(err)
}

// retry repeats an operation for which there is no descriptor, as the comment at the top says. Nothing is locked
// meanwhile: a freeze for another reason need not wait.
func (fs *FS) retry(name string, vital bool, op func() error) error {
	err := op()
	if !lacksDescriptor(err) {
		return err
	}
	began, waited, pause := time.Now(), false, firstPause
	for lacksDescriptor(err) {
		if !fs.reserve.give() {
			if time.Since(began) >= fs.patience && !(vital && fs.open.Load() && !fs.closing()) {
				return err
			}
			if !waited {
				waited = true
				fs.log.Warn("freeze: there is no descriptor left, a file waits for one", "file", name, "err", err)
			}
			time.Sleep(pause)
			pause = min(2*pause, longestPause)
		}
		err = op()
	}
	if waited {
		fs.log.Info("freeze: there are descriptors again", "file", name, "waited", time.Since(began))
	}
	return err
}

// isHint reports whether an open is for reading ahead. Pebble goes without if it fails, so that it is not worth
// waiting for.
func isHint(opts []vfs.OpenOption) bool { return slices.Contains(opts, vfs.SequentialReadsOption) }

// reserve holds descriptors to give up when there are no others. They are closed one at a time, each right before an
// open is repeated, so that hardly anybody else in the process gets one of them first.
type reserve struct {
	mu    sync.Mutex
	want  int         // guarded by mu
	files []*os.File  // at most want; guarded by mu
	again *time.Timer // nil unless the reserve is to be taken back; guarded by mu
}

// reservePause is when the reserve is taken back after something was given up, and, if that fails, tried again. What
// needed the descriptor should have ended by then.
const reservePause = time.Second

// hold takes or gives up descriptors until there are want.
func (r *reserve) hold(want int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.want = want
	r.fill()
}

// fill brings the reserve to its size, or as near as it can now. The caller holds mu.
func (r *reserve) fill() {
	if r.again != nil {
		r.again.Stop()
		r.again = nil
	}
	for len(r.files) > r.want {
		r.pop()
	}
	for len(r.files) < r.want {
		f, err := os.Open(os.DevNull)
		if err != nil {
			r.fillLater()
			return
		}
		r.files = append(r.files, f)
	}
}

// fillLater has the reserve filled in a while, if that is not planned already. The caller holds mu.
func (r *reserve) fillLater() {
	if r.again == nil {
		r.again = time.AfterFunc(reservePause, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.fill()
		})
	}
}

// pop closes one. The caller holds mu.
func (r *reserve) pop() {
	last := len(r.files) - 1
	_ = r.files[last].Close() // nothing was written to it
	r.files = r.files[:last]
}

// give gives up one descriptor. It reports whether there was one.
func (r *reserve) give() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.files) == 0 {
		return false
	}
	r.pop()
	r.fillLater()
	return true
}
