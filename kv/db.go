package kv

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv/freeze"
	"github.com/sievekv/sievekv/kv/hash"
)

// DB is an open store. All methods may be called from any goroutine.
type DB struct {
	// word is what every lookup looks at first: whether a commit is under the
	// sequence lock, and whether the store is closed or failed. Bits 0 to 2 as
	// below, above them the number of commits that were under the lock. Written
	// by such commits, which hold apply, and once each by fail and Close.
	word atomic.Uint64

	residency *residency
	disk      *pebble.DB // by pebble(), but where what is gathered does not matter: gather.go
	scheduler *scheduler
	fs        *freeze.FS
	space     *freeze.Space
	dirLock   *pebble.Lock
	opts      Options
	dir       string
	meta      storeMeta
	registry  *registry
	running   Running // nil without modules
	opened    time.Time

	descriptors descriptors // see descriptors.go

	// apply, see commit.go. gate is held shared by writers of single keys and
	// exclusively by one that may touch any key.
	apply    sync.RWMutex
	gate     gate
	keyLocks [numKeyLocks]paddedMutex
	stripes  [numStripes]stripe
	shards   [numShards]shard

	lastSeq  atomic.Uint64 // sequence of the last commit applied to Pebble
	gathered gathered      // see gather.go
	durable  atomic.Uint64 // see durable.go
	syncing  atomic.Int64  // commits under Always that are on their way
	syncer   syncer

	// users counts operations that use Pebble or ristretto; Close waits for
	// them, as both panic when used after their own Close.
	users atomic.Int64
	idle  chan struct{}

	failed atomic.Pointer[error]
	// ending ends when the store fails, or is being closed; end ends it.
	ending  context.Context
	end     context.CancelFunc
	stalled atomic.Int32 // see pebble.go
	stall   sync.RWMutex // held while stalled is set

	// groups are the numbers of headers by group of keys, written under the
	// group's key lock or the gate; keys is their sum.
	groups [numKeyLocks]atomic.Uint64
	keys   atomic.Uint64

	expiry   expiryHint
	expiring expiringKeys

	ballast  atomic.Int64  // how large it is to be by now, see sizeBallast
	removed  atomic.Uint64 // keys removed while the disk was full, and not reclaimed
	everySec atomic.Bool   // a commit asked for EverySec since the last sync

	idMu     sync.Mutex // guards nextID and leasedID
	nextID   uint64
	leasedID uint64

	keyedMu sync.Mutex     // guards keyed
	keyed   *hash.Function // of the store's own secret, nil until it has one

	sidecarMu      sync.Mutex // guards sidecarWritten and the file
	sidecarWritten uint64

	building     sync.Map // ids of objects being built
	transactions sync.Map // those open
	watches      watches

	folds    requests[foldRequest]
	compacts requests[compactRequest]
	stats    stats
	closing  atomic.Bool
	gaveUp   atomic.Bool // see givenUp

	stopHousekeeper chan struct{}
	housekeeperDone chan struct{}
	drainerDone     chan struct{}
}

const (
	seqOdd   = 1 // a commit is under the sequence lock
	isFailed = 2
	isClosed = 4
	seqStep  = 8

	busyMask = seqOdd | isFailed | isClosed
)

// Open opens the store in dir, creating dir and the store if need be; nil
// options mean the defaults. What it creates is for the user of the process alone, whatever
// the umask: modes 0700 and 0600. The errors are ErrOptions, ErrLocked, ErrNotExist
// (only with MustExist), ErrUnsupportedVersion, ErrCorrupt, ErrFailed and those
// of the file system.
func Open(dir string, options *Options) (*DB, error) {
	opts, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	switch {
	case opts.InMemory:
		dir = "memory"
	case opts.FS == vfs.Default:
		if dir, err = realDir(dir); err != nil {
			return nil, err
		}
	default:
		dir = opts.FS.PathDir(opts.FS.PathJoin(dir, "x")) // one spelling
	}
	db := &DB{
		opts: opts, dir: dir, opened: opts.Clock(), descriptors: shareOf(descriptorLimit()),
		idle:     make(chan struct{}, 1),
		gathered: gathered{begun: make(chan struct{}, 1)},
	}
	if db.registry, err = newRegistry(opts.Modules); err != nil {
		return nil, err // it was checked with the options
	}
	if opts.Modules != nil {
		db.running = opts.Modules.Attach(db)
	}
	db.ending, db.end = context.WithCancel(context.Background())
	for i := range db.shards {
		db.shards[i].objects = make(map[string]*Object)
	}
	for i := range db.stripes {
		db.stripes[i].flights = make(map[flightKey]*flight)
	}
	if err := db.openStore(); err != nil {
		return nil, err
	}
	if db.residency, err = newResidency(opts.CacheSize); err != nil {
		return nil, errors.Join(fmt.Errorf("kv: block cache: %w", err), db.closeStore())
	}
	db.stopHousekeeper, db.housekeeperDone, db.drainerDone = make(chan struct{}), make(chan struct{}), make(chan struct{})
	go db.keepHouse()
	go db.keepDraining()
	if db.running != nil {
		if err := db.running.Start(); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return db, nil
}

// openStore locks the directory, opens Pebble and reads the metadata. On an
// error everything is closed again.
func (db *DB) openStore() (err error) {
	fsys := db.fileSystem()
	if err := db.lockDir(fsys); err != nil {
		return err
	}
	if err := db.refuseForeign(fsys); err != nil {
		return errors.Join(err, db.dirLock.Close())
	}
	low := uint64(max(0, db.opts.MinFreeSpace))
	db.ballast.Store(minBallast)
	db.space = freeze.NewSpace(fsys, db.dir, freeze.Options{
		Ballast: max(0, db.opts.BallastSize), Wanted: db.ballast.Load,
		Low: low, High: low + low/2, Floor: low / 4,
		Interval: db.opts.FreeSpaceInterval, Logger: db.opts.Logger,
	})
	db.space.Start()
	db.fs = freeze.New(db.space.FS(), db.dir, db.frozen)
	db.fs.KeepCompactions(db.mayCompact)
	db.fs.GiveUpCompactions(db.givenUp)
	db.guardDescriptors()
	defer func() {
		// Open can seem to succeed on a frozen directory.
		if f := db.failure(); f != nil {
			err = f
		}
		if err != nil {
			err = errors.Join(err, db.closeStore())
		}
	}()
	if err := db.openPebble(); err != nil {
		return err
	}
	fresh, err := db.readMeta()
	if err != nil || !fresh {
		return err
	}
	// The first session of a new database writes the log in the oldest format,
	// whatever is asked for. The metadata is all that is ever in it.
	if err := db.writeMeta(); err != nil {
		return err
	}
	if err := db.closePebble(); err != nil {
		return err
	}
	if err := db.openPebble(); err != nil {
		return err
	}
	if fresh, err := db.readMeta(); err != nil || fresh {
		return errors.Join(err, db.failure(), errors.New("kv: a new store's metadata is gone at once"))
	}
	return nil
}

// lockDir takes the lock of the directory, so that a second open is told whose
// it is; Pebble's own error names nothing.
func (db *DB) lockDir(fsys vfs.FS) error {
	desc, err := pebble.Peek(db.dir, fsys)
	switch {
	case err == nil && desc.Exists, !db.opts.MustExist:
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s", ErrNotExist, db.dir)
	default:
		return openError(db.dir, err)
	}
	if err := makeDir(fsys, db.dir); err != nil {
		return fmt.Errorf("kv: create %s: %w", db.dir, err)
	}
	db.dirLock, err = pebble.LockDirectory(db.dir, fsys)
	switch {
	case err == nil:
		return nil
	case isLockHeld(err):
		return fmt.Errorf("%w, by %s: %s", ErrLocked, lockHolder(err), db.dir)
	}
	return fmt.Errorf("kv: lock %s: %w", db.dir, err)
}

// makeDir makes a directory and its parents, and syncs each directory that got a
// new entry: a store whose directory a crash can take away keeps nothing.
func makeDir(fsys vfs.FS, dir string) error {
	_, err := fsys.Stat(dir)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := fsys.PathDir(dir)
	if parent != dir {
		if err := makeDir(fsys, parent); err != nil {
			return err
		}
	}
	if err := fsys.MkdirAll(dir, privateDir); err != nil {
		return err
	}
	return syncDir(fsys, parent)
}

// isLockHeld tells a lock somebody has from one that cannot be taken for another
// reason: Unix answers EAGAIN or EACCES, Windows a sharing violation, and Pebble
// a text of its own when it is this process.
func isLockHeld(err error) bool {
	const sharingViolation = syscall.Errno(32)
	return errors.Is(err, syscall.EAGAIN) ||
		errors.Is(err, syscall.EACCES) && !errors.Is(err, fs.ErrPermission) ||
		runtime.GOOS == "windows" && errors.Is(err, sharingViolation) ||
		isOwnLock(err)
}

// isOwnLock reports whether a lock is held by this process.
func isOwnLock(err error) bool { return strings.Contains(err.Error(), "lock held by current process") }

func lockHolder(err error) string {
	if isOwnLock(err) {
		return "this process"
	}
	return "another process"
}

// realDir returns the one name of a directory, which need not exist yet: locks of
// this process are by name.
func realDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("kv: directory %s: %w", dir, err)
	}
	for there, rest := abs, ""; ; there, rest = filepath.Dir(there), filepath.Join(filepath.Base(there), rest) {
		if real, err := filepath.EvalSymlinks(there); err == nil {
			return filepath.Join(real, rest), nil
		}
		if filepath.Dir(there) == there {
			return abs, nil
		}
	}
}

// refuseForeign refuses a database of somebody else's before anything is written
// to it. A store has a seal from the first, and a sidecar some seconds later; only a
// database without either is looked into, read-only.
func (db *DB) refuseForeign(fsys vfs.FS) error {
	desc, err := pebble.Peek(db.dir, fsys)
	if err != nil {
		return openError(db.dir, err)
	}
	if !desc.Exists {
		return nil
	}
	for _, name := range []string{freeze.SealName, sidecarName} {
		if _, err := fsys.Stat(fsys.PathJoin(db.dir, name)); err == nil {
			return nil
		}
	}
	look := &DB{opts: db.opts, dir: db.dir, dirLock: db.dirLock, fs: freeze.New(fsys, db.dir, func(error) {})}
	po := look.pebbleOptions()
	po.Lock, po.ReadOnly = db.dirLock, true
	if look.disk, err = pebble.Open(db.dir, po); err != nil {
		if errno := syscall.Errno(0); errors.As(err, &errno) {
			return fmt.Errorf("kv: open %s: %w", db.dir, err)
		}
		return fmt.Errorf("%w: %s holds a database that is not a store, or is damaged: %w", ErrCorrupt, db.dir, diskError{err})
	}
	value, err := look.readMetaKey(metaStore)
	if err == nil && value == nil {
		err = look.checkEmpty()
	}
	return errors.Join(err, look.disk.Close())
}

// openError gives an error of Pebble's the kind it is of: what the system below did not
// say, and that a file is missing, is about what the files hold.
func openError(dir string, err error) error {
	errno := syscall.Errno(0)
	system := errors.As(err, &errno) || errors.Is(err, io.ErrShortWrite)
	err = diskError{err}
	switch {
	case errors.Is(err, freeze.ErrVersion), strings.Contains(err.Error(), "unknown format major version"):
		err = fmt.Errorf("%w: %w", ErrUnsupportedVersion, err)
	case pebble.IsCorruptionError(err), !system, errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return fmt.Errorf("kv: open %s: %w", dir, err)
}

func (db *DB) openPebble() error {
	if err := db.fs.Verify(); err != nil {
		return openError(db.dir, err)
	}
	po := db.pebbleOptions()
	po.Lock = db.dirLock
	compactions := &scheduler{may: db.mayCompact, full: db.mustSpare}
	po.Experimental.CompactionScheduler = compactions
	po.FileCache = db.newFileCache()
	defer po.FileCache.Unref() // Pebble has taken it
	p, err := pebble.Open(db.dir, po)
	if err != nil {
		return openError(db.dir, err)
	}
	db.disk, db.scheduler = p, compactions
	compactions.start()
	return nil
}

func (db *DB) closePebble() error {
	if db.disk == nil {
		return nil
	}
	err := db.disk.Close()
	db.disk = nil
	return err
}

// closeStore undoes openStore.
func (db *DB) closeStore() error {
	err := db.closePebble()
	if db.failure() != nil {
		err = nil // Close tells of the failure; what a frozen directory adds says nothing
	}
	db.space.Close()
	db.fs.ReleaseDescriptors()
	return errors.Join(err, db.dirLock.Close())
}

// readMeta reads the store's metadata, checks that the log is whole, and sets
// the store's own state from it. Fresh means there is none yet.
func (db *DB) readMeta() (fresh bool, err error) {
	value, err := db.readMetaKey(metaStore)
	if err != nil {
		return false, err
	}
	if value == nil {
		return true, db.checkEmpty()
	}
	if db.meta, err = decodeStoreMeta(value); err != nil {
		return false, fmt.Errorf("%s: %w", db.dir, err)
	}
	if db.opts.Seed != 0 {
		db.meta.seed = db.opts.Seed
	}
	if err := db.readSecret(); err != nil {
		return false, err
	}
	if db.nextID, err = db.readMetaNumber(metaNextID, 1); err != nil {
		return false, err
	}
	db.leasedID = db.nextID
	if err := db.readKeyCounts(); err != nil {
		return false, err
	}
	return false, db.findSequence()
}

func (db *DB) readKeyCounts() error {
	for i := range db.groups {
		value, err := db.readRaw(appendKeyCountKey(nil, uint8(i)))
		if err != nil || value == nil {
			if err != nil {
				return err
			}
			continue
		}
		n, err := decodeMetaNumber(value)
		if err != nil {
			return fmt.Errorf("number of keys of group %d: %w", i, err)
		}
		db.groups[i].Store(n)
		db.keys.Add(n)
	}
	return nil
}

// checkEmpty refuses a directory that holds a database of somebody else's.
func (db *DB) checkEmpty() error {
	it, err := db.disk.NewIter(nil)
	if err != nil {
		return fmt.Errorf("kv: open %s: %w", db.dir, err)
	}
	some := it.First()
	if err := it.Close(); err != nil {
		return fmt.Errorf("kv: open %s: %w", db.dir, err)
	}
	if some {
		return corruptf("%s holds a database without a store's metadata", db.dir)
	}
	return nil
}

func (db *DB) readMetaKey(which byte) ([]byte, error) { return db.readRaw(appendMetaKey(nil, which)) }

// readRaw returns a copy of what is stored under a key of metadata, nil if nothing is.
func (db *DB) readRaw(key []byte) ([]byte, error) {
	value, closer, err := db.disk.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, db.readError(err, "store metadata %x", key)
	}
	value = append([]byte{}, value...)
	return value, closer.Close()
}

func (db *DB) readMetaNumber(which byte, missing uint64) (uint64, error) {
	value, err := db.readMetaKey(which)
	if err != nil || value == nil {
		return missing, err
	}
	v, err := decodeMetaNumber(value)
	if err != nil {
		return 0, fmt.Errorf("store metadata %d: %w", which, err)
	}
	return v, nil
}

func decodeMetaNumber(value []byte) (uint64, error) {
	v, n := binary.Uvarint(value)
	if n != len(value) {
		return 0, corruptf("number %x", value)
	}
	return v, nil
}

func (db *DB) writeMeta() error {
	m := storeMeta{seed: db.opts.Seed}
	if _, err := io.ReadFull(rand.Reader, m.id[:]); err != nil {
		return fmt.Errorf("kv: store id: %w", err)
	}
	var random [8]byte
	if _, err := io.ReadFull(rand.Reader, random[:]); err != nil {
		return fmt.Errorf("kv: seed: %w", err)
	}
	if m.seed == 0 {
		m.seed = binary.LittleEndian.Uint64(random[:])
	}
	if err := db.disk.Set(appendMetaKey(nil, metaStore), appendStoreMeta(nil, m), pebble.Sync); err != nil {
		return fmt.Errorf("kv: create %s: %w", db.dir, err)
	}
	return db.failure()
}

// findSequence learns where the log ends. What recovery found is what is on
// stable storage, once the new log is synced.
func (db *DB) findSequence() error {
	b := db.disk.NewBatch()
	defer func() { _ = b.Close() }() // releases memory, cannot fail
	if err := b.LogData(nil, nil); err != nil {
		return fmt.Errorf("kv: open %s: %w", db.dir, err)
	}
	if err := db.disk.Apply(b, pebble.Sync); err != nil {
		return fmt.Errorf("kv: open %s: %w", db.dir, err)
	}
	if err := db.failure(); err != nil {
		return err
	}
	next := uint64(b.SeqNum())
	if err := db.checkSidecar(next); err != nil {
		return err
	}
	db.lastSeq.Store(next - 1)
	db.durable.Store(next - 1)
	return nil
}

// readSecret reads the secret of keyed hashes, if the store has one.
func (db *DB) readSecret() error {
	value, err := db.readMetaKey(metaSecret)
	if err != nil || value == nil {
		return err
	}
	if len(value) != hash.SecretLen {
		return corruptf("secret of hashes: %d bytes, want %d", len(value), hash.SecretLen)
	}
	f := hash.NewKeyed(hash.Secret(value))
	db.keyed = &f
	return nil
}

// keyedHash returns the keyed hash of the store's own secret. A store that has none, as no object
// needed it yet, gets one in a commit of its own, which is in the log before any object that uses it.
func (db *DB) keyedHash() (hash.Function, error) {
	db.keyedMu.Lock()
	defer db.keyedMu.Unlock()
	if db.keyed != nil {
		return *db.keyed, nil
	}
	secret, err := hash.NewSecret()
	if err != nil {
		return hash.Function{}, fmt.Errorf("kv: secret of hashes: %w", err)
	}
	if err := db.disk.Set(appendMetaKey(nil, metaSecret), secret[:], pebble.NoSync); err != nil {
		return hash.Function{}, db.fail(fmt.Errorf("kv: secret of hashes: %w", err))
	}
	f := hash.NewKeyed(secret)
	db.keyed = &f
	return f, nil
}

// newObjectID returns an id no object had. Ids are leased in a commit of their
// own, which is in the log before any object that uses one of them.
func (db *DB) newObjectID() (uint64, error) {
	const lease = 4096
	db.idMu.Lock()
	defer db.idMu.Unlock()
	if db.nextID == db.leasedID {
		end := binary.AppendUvarint(nil, db.leasedID+lease)
		if err := db.disk.Set(appendMetaKey(nil, metaNextID), end, pebble.NoSync); err != nil {
			return 0, db.fail(fmt.Errorf("kv: lease of object ids: %w", err))
		}
		db.leasedID += lease
	}
	id := db.nextID
	db.nextID++
	return id, nil
}

// Ready reports whether a lookup may go ahead without Read.
func (db *DB) Ready() bool { return db.word.Load()&busyMask == 0 }

// settle is for a lookup that found the store not Ready. It returns the store's
// error, or waits out a commit under the sequence lock, so that nobody sees part
// of it.
func (db *DB) settle() error {
	word := db.word.Load()
	if word&(isFailed|isClosed) != 0 {
		return db.refusal()
	}
	if word&seqOdd != 0 {
		db.apply.RLock()
		//lint:ignore SA2001 having held the lock is the point
		db.apply.RUnlock()
	}
	return nil
}

func (db *DB) refusal() error {
	if db.word.Load()&isClosed != 0 {
		return ErrClosed
	}
	return db.failure()
}

// failure returns nil, or ErrFailed with its cause.
func (db *DB) failure() error {
	if cause := db.failed.Load(); cause != nil {
		return *cause
	}
	return nil
}

// Health returns nil if the store takes reads and writes; ErrNoSpace if it takes reads
// and deletions alone, and ErrFailed, with the cause, or ErrClosed if it takes neither.
func (db *DB) Health() error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.exit()
	if db.space.Full() {
		return fmt.Errorf("%w: %s", ErrNoSpace, db.dir)
	}
	return nil
}

// fail makes the store refuse everything from now on, and freezes its directory.
func (db *DB) fail(cause error) error {
	db.fs.Freeze(cause)
	return db.failure()
}

// frozen is told by the file system of the first failure.
func (db *DB) frozen(cause error) {
	err := fmt.Errorf("%w: %s: %w", ErrFailed, db.dir, cause)
	if db.failed.CompareAndSwap(nil, &err) {
		db.word.Or(isFailed)
		db.end()
		db.opts.Logger.Error("sievekv: the store has failed; close it and open it again", "dir", db.dir, "error", cause.Error())
	}
}

// enter announces a use of Pebble or ristretto; if it returns nil, exit must
// follow. Uses may nest.
func (db *DB) enter() error {
	db.users.Add(1)
	if db.word.Load()&(isFailed|isClosed) != 0 {
		db.exit()
		return db.refusal()
	}
	return nil
}

func (db *DB) exit() {
	if db.users.Add(-1) == 0 && db.word.Load()&isClosed != 0 {
		select {
		case db.idle <- struct{}{}:
		default: // Close has yet to take the last one
		}
	}
}

// Close rolls back transactions that have not ended, stops the services, gives up
// compactions of the store, or of dropped objects, and copies and merges, which return ErrClosed, waits for
// other operations under way, brings everything
// written to stable storage and closes the store. Operations begun later return
// ErrClosed; a second Close too. Of a store that has failed it returns ErrFailed,
// since that may be the first call that can tell: writes below Always may be lost.
func (db *DB) Close() error {
	if !db.closing.CompareAndSwap(false, true) {
		return ErrClosed
	}
	db.endTransactions() // they may keep services waiting
	// Before those who have asked for compactions go.
	db.gaveUp.Store(db.scheduler.reclaims())
	db.end()
	relieved := make(chan struct{})
	relief := make(chan struct{})
	go func() {
		defer close(relieved)
		db.relieve(relief)
	}()
	if db.running != nil {
		db.running.Stop()
	}
	close(db.stopHousekeeper)
	<-db.housekeeperDone
	<-db.drainerDone
	db.word.Or(isClosed)
	for db.users.Load() != 0 {
		db.pauseAt("close: waiting")
		<-db.idle
	}
	db.users.Add(1) // so that relieve helps here too
	db.drain()
	db.users.Add(-1)
	close(relief)
	<-relieved
	err := db.failure()
	if err == nil {
		if err = db.syncLog(); err == nil {
			err = db.storeSidecar()
		}
	}
	db.residency.cache.Close()
	return errors.Join(err, db.closeStore())
}

// relieve helps Close to its end, until stop is closed. Operations that wait for a
// flush which fails again and again, be it writers, the housekeeper or a service,
// would wait for ever: then the directory is frozen, which lets them end with
// ErrFailed and loses nothing acknowledged under Always.
func (db *DB) relieve(stop <-chan struct{}) {
	const patience = 200 * time.Millisecond
	ticker := time.NewTicker(patience)
	defer ticker.Stop()
	before := db.stats.backgroundErrors.Load()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		db.startCompactions() // the housekeeper, who did, has ended
		failures := db.stats.backgroundErrors.Load()
		if failures != before && db.users.Load() != 0 && db.failure() == nil {
			_ = db.fail(errors.New("closed while operations waited for flushes that fail"))
		}
		before = failures
	}
}

// Dir returns the directory the store was opened with.
func (db *DB) Dir() string { return db.dir }

// Logger returns the logger the store was opened with, for services.
func (db *DB) Logger() *slog.Logger { return db.opts.Logger }

// MaxCommit returns the limit of a commit's size, in bytes: that of its batch and
// 256 for each entry.
func (db *DB) MaxCommit() int { return db.opts.MemTableSize / 4 }

// Seed returns the seed for the item hashes of a new object that takes XXH64.
func (db *DB) Seed() uint64 { return db.meta.seed }

// ItemHash returns the hash for the items of a new object. That of a kind is the same for all
// objects of the store, so that they can be merged, unless the store is opened with another
// Options.Seed.
func (db *DB) ItemHash(kind hash.Kind) (hash.Function, error) {
	if kind == hash.XXH64 {
		return hash.NewXXH64(db.meta.seed), nil
	}
	if db.opts.Seed != 0 {
		return hash.NewKeyed(hash.SecretOf(db.opts.Seed)), nil
	}
	if err := db.enter(); err != nil {
		return hash.Function{}, err
	}
	defer db.exit()
	return db.keyedHash()
}

// Durability returns the level of writes that ask for no other.
func (db *DB) Durability() Durability { return db.opts.Durability }

func (db *DB) pauseAt(point string) {
	if db.opts.pause != nil {
		db.opts.pause(point)
	}
}
