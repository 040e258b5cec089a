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

// Running out of descriptors
//
// An open fails with EMFILE if the process has no descriptor left, and with ENFILE if the system has none. Such an
// open has changed nothing, and says nothing about the disk. It must not freeze the directory: otherwise anyone who
// can make the process open files or connections could stop the store. So the open is tried again:
//
//   - At once, as often as the reserve can give up a descriptor for it. The reserve fills up again later, see type
//     reserve.
//   - Then after pauses, for the time of patience. If there is still no descriptor, a table's error goes to Pebble,
//     which builds the table again, and a read's error goes to the reader. These errors do not count as failures of
//     the disk.
//   - The open of a vital file is tried for as long as it takes. Pebble v2.1.7 panics when it cannot create the next
//     log (DB.rotateWAL), and calls Logger.Fatalf when it cannot create a MANIFEST or its marker
//     (versionSet.UpdateVersionLocked). While Pebble waits there, it holds neither DB.mu nor anything else that reads
//     need. So only writers stall, as they do on a full disk. Before DB.rotateWAL creates the next log it closes the
//     last one, which syncs it. So a crash during the wait loses nothing.
//
// While the store is being opened or closed, the wait for a vital file ends after patience too, with an error that
// freezes the directory: Open and Close have to return.
//
// Only opens are tried again, never a write or a sync that failed: see opener.

const (
	// patience is how long any open is tried again.
	patience = 2 * time.Second

	// The pauses between two attempts double, from the first one to the longest.
	firstPause   = time.Millisecond
	longestPause = 50 * time.Millisecond
)

// DescriptorOptions configure FS.GuardDescriptors.
type DescriptorOptions struct {
	// Reserve is how many descriptors are held in reserve, to be given up when the process has no others.
	Reserve int

	// Closing, if set, reports whether the store is being closed. Then no wait is endless.
	Closing func() bool

	// Logger gets a line when an open has to wait, and one when it no longer does. nil means no lines.
	Logger *slog.Logger
}

// GuardDescriptors fills the reserve, which is held until ReleaseDescriptors. It must be called before pebble.Open.
// Without it there is no reserve, and the wait for a vital file does not end when the store is closed.
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

// errDescriptor marks the error of an open that failed for lack of a descriptor.
type errDescriptor struct{ error }

func (e errDescriptor) Unwrap() error { return e.error }

func lacksDescriptor(err error) bool {
	mark := errDescriptor{}
	return errors.As(err, &mark)
}

// opener is the file system beneath, with a mark on the errors of opens that failed for lack of a descriptor. An
// operation whose error has the mark did nothing, and may be repeated. The errno alone would not prove that: a file
// system can answer a sync with any errno, and a failed sync must never be repeated.
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

// ReuseForWrite implements vfs.FS. If the error has the mark, the file may or may not have been renamed, see
// FS.ReuseForWrite.
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

// retry runs op, and runs it again as long as it lacks a descriptor, as the comment at the top says. It holds no lock
// meanwhile, so that a freeze for another reason need not wait.
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
				fs.log.Warn("sievekv: there is no descriptor left, a file waits for one", "file", name, "error", err)
			}
			time.Sleep(pause)
			pause = min(2*pause, longestPause)
		}
		err = op()
	}
	if waited {
		fs.log.Info("sievekv: there are descriptors again", "file", name, "waited", time.Since(began))
	}
	return err
}

// isHint reports whether an open is only for reading ahead. If it fails Pebble goes on without, so it is not worth a
// wait.
func isHint(opts []vfs.OpenOption) bool { return slices.Contains(opts, vfs.SequentialReadsOption) }

// reserve holds open descriptors, to be given up when the process has no others. They are closed one at a time, each
// right before an open is repeated, so that the rest of the process hardly ever gets one of them first.
type reserve struct {
	mu    sync.Mutex
	want  int         // how many to hold; guarded by mu
	files []*os.File  // at most want; guarded by mu
	again *time.Timer // fills the reserve again; nil if that is not planned; guarded by mu
}

// reservePause is the time from giving up a descriptor to filling the reserve again, and between attempts to fill it.
// By then, the operation that needed the descriptor should have ended.
const reservePause = time.Second

// hold opens or closes descriptors until the reserve has want of them.
func (r *reserve) hold(want int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.want = want
	r.fill()
}

// fill brings the reserve to its size, or as near to it as is possible now. The caller holds mu.
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

// fillLater plans to fill the reserve after reservePause, unless that is planned already. The caller holds mu.
func (r *reserve) fillLater() {
	if r.again == nil {
		r.again = time.AfterFunc(reservePause, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.fill()
		})
	}
}

// pop closes one descriptor of the reserve. The caller holds mu.
func (r *reserve) pop() {
	last := len(r.files) - 1
	_ = r.files[last].Close() // nothing was written to it
	r.files = r.files[:last]
}

// give gives up one descriptor, and reports whether the reserve had one.
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
