// Package salvage reads stores that are damaged: it checks them, and makes a new store of what is whole. It never
// changes the damaged store.
//
// # What is recovered
//
// A key is recovered if all that is stored of it can be read, and nothing that cannot be read may be a newer version of
// it: see package internal/storage/remains. All other keys are named, and left out. So a recovered string is the newest
// one, and a recovered filter has every item that was added to it. A filter that LOADCHUNK has not loaded to its end is
// not recovered: no lookup finds its key. Report.Loading has the names.
//
// With Options.Lossy the others are recovered too, as far as they can be read. Such a filter may miss items that were
// added to it. It is marked: INFO and SIEVE.STATS say so, and copies and merged filters are marked too. Such a string
// may be an older one, or one that was deleted: strings have no mark, but the Report names them.
//
// If the end of the log is lost, the new store is an earlier state of the old one, with everything up to some commit:
// Report.Earlier says so. That is no reason to leave anything out: a crash before these commits would have left the same.
// But filters may miss items that were added after that, and which filters these are is known only of commits that can be
// read behind the damage: Report.Changed has their keys. So all filters are marked, as with Options.Lossy. It is the same if
// all of the log is lost, or the file DURABLE, which says how far the log has to reach: then the end of the log may be lost
// and nothing tells. Report.MaybeEarlier says so.
//
// If the MANIFEST is lost, tables that were obsolete cannot be told from the others: what they hold may come back.
// Then no key is known to be whole, so nothing is recovered without Options.Lossy.
package salvage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/check"
	"github.com/sievekv/sievekv/internal/dirsync"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
	"github.com/sievekv/sievekv/internal/storage/remains"
	"github.com/sievekv/sievekv/kv"
)

// ErrNotRecovered is returned if nothing can be recovered without Options.Lossy.
var ErrNotRecovered = errors.New("salvage: no store was made")

// Options say what is recovered.
type Options struct {
	// Lossy also recovers keys that are not whole, see the package comment.
	Lossy bool

	// Progress, if not nil, is called after each key.
	Progress func(done, total uint64)
}

// Key is a key that has lost something.
type Key = check.Key

// Report is what Recover has done.
type Report struct {
	Damage    []string // what is wrong with files
	Recovered uint64   // keys, with the keys in Lossy
	Lossy     []Key    // recovered though they are not whole
	Left      []Key    // left out
	Loading   []Key    // left out too: LOADCHUNK had not brought all bytes of these filters, so their keys were not there yet
	Missing   uint64   // the number of keys that may be lost with their names
	Unknown   bool     // there may be more such keys: their number is lost too
	Earlier   bool     // the end of the log is lost: the new store is an earlier state, and all filters are marked lossy
	Changed   []string // if Earlier: keys that lost commits have changed, of those commits that can still be read
	Unclosed  bool     // the store was not closed: if the commits of its last seconds are lost, nothing tells of it
	Guessed   bool     // the MANIFEST is lost: what was deleted may have come back

	// MaybeEarlier means that the log is missing, or the file that says how far it has to reach. So the end of the log may
	// be lost and nothing tells. The new store is treated as if Earlier were true.
	MaybeEarlier bool
}

// Whole reports whether nothing was lost.
func (r *Report) Whole() bool {
	return len(r.Lossy) == 0 && len(r.Left) == 0 && r.Missing == 0 && !r.Unknown && !r.Earlier && !r.MaybeEarlier && !r.Guessed
}

// Check checks the store in dir without a change, also one that kv.Open refuses. Only the FS, the Modules, the cache
// sizes, the Clock and the Logger of the options count. If it finds a problem it reads every table, as with
// CheckOptions.Deep, so that the same damage is reported in the same way.
//
// With CheckOptions.Repair it is a deep check of the store as it was, and the report also has what is mended: the store is
// then opened with all of the options, unless some of it is lost or that is refused. Then nothing is repaired.
func Check(ctx context.Context, dir string, o kv.Options, c kv.CheckOptions) (*kv.CheckReport, error) {
	// Log, MANIFEST and all tables must be whole before anything is changed.
	report, from, err := look(ctx, dir, o, c.Deep || c.Repair)
	if err == nil && !c.Deep && len(report.Problems) > 0 {
		report, from, err = look(ctx, dir, o, true)
	}
	if err != nil || !c.Repair {
		return report, err
	}
	if !from.whole() {
		report.Notes = append(report.Notes, "nothing was repaired, as some of the store is lost, or may be")
		return report, nil
	}
	return report, repair(ctx, dir, o, report, from)
}

// look checks the store without a change. What it returns of the store is closed.
func look(ctx context.Context, dir string, o kv.Options, deep bool) (report *kv.CheckReport, from *left, err error) {
	from, err = open(ctx, dir, o, remains.Deep(deep))
	if !deep && errors.Is(err, kv.ErrCorrupt) { // what opening reads is in a damaged block: all tables have to be read
		from, err = open(ctx, dir, o, true)
	}
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, from.close()) }()
	report, err = from.db.CheckWith(ctx, kv.CheckOptions{Deep: deep})
	if err == nil {
		err = from.tell(ctx, report)
	}
	return report, from, err
}

// repair mends a store that was found to be whole, and adds to the report what it has mended.
func repair(ctx context.Context, dir string, o kv.Options, report *kv.CheckReport, from *left) error {
	db, err := kv.Open(dir, &o)
	if errors.Is(err, kv.ErrCorrupt) {
		report.Notes = append(report.Notes, "nothing was repaired, as the store does not open")
		return nil
	}
	if err != nil {
		return err
	}
	mended, err := db.CheckWith(ctx, kv.CheckOptions{Repair: true})
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	report.Repaired = mended.Repaired
	for _, note := range mended.Notes {
		if !slices.Contains(report.Notes, note) {
			report.Notes = append(report.Notes, note)
		}
	}
	after, err := open(ctx, dir, o, false)
	if err != nil {
		return err
	}
	_, still := after.FS.Lost()
	_, before := from.FS.Lost()
	for _, problem := range before {
		if !slices.Contains(still, problem) && !strings.Contains(problem, ".sst ") { // tables were not read again
			report.Repaired = append(report.Repaired, problem+": mended by opening the store")
		}
	}
	return after.close()
}

// left is the rest of a damaged store, open read-only.
type left struct {
	*remains.Remains
	db       *kv.DB
	Archives []string // directories that unfinished archives have left
	unlock   func() error
}

// whole reports whether no part of the store is lost, or may be.
func (l *left) whole() bool {
	return len(l.Lost) == 0 && !l.Tail && !l.maybeEarlier() && !l.Guessed
}

// maybeEarlier reports whether the end of the log may be lost, and nothing tells.
func (l *left) maybeEarlier() bool { return !l.Tail && l.FS.MaybeEarlier() }

// lostChanges is in Key.Lost if commits have changed the key that are lost.
const lostChanges = "changes by commits that are lost"

// tell adds to a report what a check of the keys does not see.
func (l *left) tell(ctx context.Context, report *kv.CheckReport) error {
	for _, name := range l.Archives {
		report.Notes = append(report.Notes, name+" was left by an archive that was not finished: opening the store for writing removes it")
	}
	if l.Guessed {
		report.Notes = append(report.Notes, "the MANIFEST is lost, so no key is known to be whole: each may be an older version, and some may have been deleted")
	}
	changed, err := l.changed(ctx)
	damaged := make(map[string]int, len(report.Damaged)) // where a key is
	for i, k := range report.Damaged {
		damaged[k.Key] = i
	}
	for _, k := range changed {
		if i, ok := damaged[k.Key]; ok {
			report.Damaged[i].Lost = append(report.Damaged[i].Lost, lostChanges)
			continue
		}
		report.Damaged = append(report.Damaged, k)
	}
	return err
}

// changed returns the keys that lost commits have changed, as far as these and the keys can be read, in order.
func (l *left) changed(ctx context.Context) (keys []Key, err error) {
	if len(l.Later.Keys)+len(l.Later.Objects) == 0 {
		return nil, nil
	}
	types := make(map[string]string) // by key, "" if that is not known
	for key := range l.Later.Keys {
		types[key] = ""
	}
	err = eachKey(ctx, l.db, func(key string) error {
		return l.db.Read(func(r kv.Reader) error {
			o, err := r.Lookup([]byte(key))
			if err != nil || o == nil {
				return nil // a header that is damaged is reported by the check
			}
			if l.Later.Keys[key] || l.Later.Objects[o.ID()] {
				types[key] = o.TypeName()
			}
			return nil
		})
	})
	if errors.Is(err, kv.ErrCorrupt) { // the check has reported it
		err = nil
	}
	for _, key := range slices.Sorted(maps.Keys(types)) {
		keys = append(keys, Key{Key: key, Type: types[key], Lost: []string{lostChanges}})
	}
	return keys, err
}

// eachKey calls f with each key.
func eachKey(ctx context.Context, db *kv.DB, f func(key string) error) error {
	const batch = 1000
	for cursor := uint64(0); ; {
		var keys []string
		from := cursor // Read may call the function again
		err := db.Read(func(read kv.Reader) (err error) {
			keys, cursor, err = read.ScanFrom(ctx, from, batch, kv.ScanOptions{})
			return err
		})
		if err != nil {
			return err
		}
		for _, key := range keys {
			if err := f(key); err != nil {
				return err
			}
		}
		if cursor == 0 {
			return nil
		}
	}
}

func (l *left) close() error { return errors.Join(l.db.Close(), l.unlock()) }

// open opens the rest of a store.
func open(ctx context.Context, dir string, o kv.Options, deep remains.Deep) (*left, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if info, err := o.FS.Stat(dir); err == nil && !info.IsDir() { // to open a named pipe could take for ever
		return nil, fmt.Errorf("salvage: open %s: it is no directory", dir)
	}
	l := &left{}
	unlock, err := storage.Examine(storage.Options{FS: o.FS}, dir, func(fsys vfs.FS, real string) (err error) {
		dir = real
		if l.Archives, err = storage.LeftArchives(fsys, real); err != nil {
			return err
		}
		l.Remains, err = remains.Examine(ctx, fsys, real, deep)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, remains.ErrNoStore) {
		return nil, fmt.Errorf("%w: %s", kv.ErrNotExist, dir)
	}
	if err != nil {
		return nil, err
	}
	l.unlock = unlock
	o.FS, o.ReadOnly, o.MustExist = l.FS, true, true
	if l.db, err = kv.Open(dir, &o); err != nil {
		return nil, errors.Join(err, unlock())
	}
	return l, nil
}

// Recover makes a store in newDir, which must not exist, from what it can recover of the store in dir; it makes missing
// parents. The store in newDir appears when it is whole and on stable storage. A process that is killed may leave a
// directory whose name is newDir's with ".partial-" and more behind it. The options of the new store are o, with the
// same file system for both.
func Recover(ctx context.Context, dir, newDir string, o kv.Options, opts Options) (report *Report, err error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if _, err := o.FS.Stat(newDir); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("salvage: new store: %w", dirsync.Taken(o.FS, newDir, cmp.Or(err, fs.ErrExist)))
	}
	from, err := open(ctx, dir, o, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.close()) }()
	newDir = o.FS.PathJoin(newDir)                                 // without a separator at its end
	part := fmt.Sprintf("%s.partial-%016x", newDir, rand.Uint64()) // a new one: what is there may be the user's
	if err := dirsync.Make(o.FS, part, dirsync.Tolerant); err != nil {
		return nil, err
	}
	finished, err := storage.Unfinished(o.FS, part)
	if err == nil {
		report, err = recoverTo(ctx, from, part, o, opts)
		err = errors.Join(err, finished())
	}
	if err == nil {
		if err = o.FS.Rename(part, newDir); err != nil {
			err = fmt.Errorf("salvage: new store: %w", dirsync.Taken(o.FS, newDir, err))
		}
	}
	if err == nil {
		err = dirsync.Tolerant(o.FS, o.FS.PathDir(newDir))
	}
	if err != nil {
		return report, errors.Join(err, o.FS.RemoveAll(part))
	}
	return report, nil
}

func recoverTo(ctx context.Context, from *left, part string, o kv.Options, opts Options) (report *Report, err error) {
	checked, err := from.db.CheckWith(ctx, kv.CheckOptions{Deep: true})
	if err != nil {
		return nil, err
	}
	report = &Report{
		Earlier: from.Tail, MaybeEarlier: from.maybeEarlier(), Guessed: from.Guessed, Unclosed: from.Unclosed,
		Unknown: from.Guessed || check.Overlaps(from.Lost, format.AppendMetaKey(nil, format.MetaKeys), format.AppendMetaKey(nil, format.MetaKeys+1)),
	}
	_, report.Damage = from.FS.Lost()
	if from.Guessed && !opts.Lossy {
		return report, fmt.Errorf("%w: the MANIFEST is lost, which says what tables belong to the store, so no key is known to be whole", ErrNotRecovered)
	}
	sure := checked.Keys // keys that were there at the end
	for _, k := range checked.Damaged {
		if slices.Contains(k.Lost, check.LostVersion) {
			sure--
		}
	}
	size, err := from.db.Size()
	if err != nil {
		return report, err
	}
	report.Missing = size - min(size, sure)
	db, err := kv.Open(part, &o)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	r := &recovery{ctx: ctx, from: from, to: db, opts: opts, report: report, damaged: make(map[string]Key)}
	for _, k := range checked.Damaged {
		if !slices.ContainsFunc(k.Lost, isLoss) {
			continue // the copy gets notes of its own
		}
		r.damaged[k.Key] = k
	}
	for _, k := range checked.Loading {
		if _, damaged := r.damaged[k.Key]; !damaged {
			report.Loading = append(report.Loading, k)
		}
	}
	if err := r.all(checked.Keys); err != nil {
		return report, err
	}
	changed, err := from.changed(ctx)
	if err != nil {
		return report, err
	}
	for _, k := range changed {
		report.Changed = append(report.Changed, k.Key)
	}
	return report, db.Sync()
}

func isLoss(lost string) bool { return lost != check.LostNote && lost != check.LostWake }

type recovery struct {
	ctx     context.Context
	from    *left
	to      *kv.DB
	opts    Options
	report  *Report
	damaged map[string]Key // not met yet
}

// all copies the keys.
func (r *recovery) all(total uint64) error {
	done := uint64(0)
	err := eachKey(r.ctx, r.from.db, func(key string) error {
		if err := r.key(key); err != nil {
			return err
		}
		if done++; r.opts.Progress != nil {
			r.opts.Progress(min(done, total), total)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, k := range r.damaged { // that have no header
		r.report.Left = append(r.report.Left, k)
	}
	return nil
}

// key copies a key.
func (r *recovery) key(key string) error {
	k, lossy := r.damaged[key]
	delete(r.damaged, key)
	if r.from.Guessed && !lossy {
		k, lossy = Key{Key: key, Lost: []string{check.LostVersion}}, true
	}
	if lossy && !r.opts.Lossy {
		r.report.Left = append(r.report.Left, k)
		return nil
	}
	there := false
	err := r.to.Write(kv.NoSync, [][]byte{[]byte(key)}, func(w *kv.Writer) (err error) {
		c := &copying{ctx: r.ctx, from: r.from.db, key: []byte(key), lossy: lossy, marked: r.from.Tail || r.from.maybeEarlier()}
		there, err = c.to(w)
		return err
	})
	switch {
	case err == nil && !there: // expired
	case err == nil:
		r.report.Recovered++
		if lossy {
			r.report.Lossy = append(r.report.Lossy, k)
		}
	case r.ctx.Err() != nil, errors.Is(err, kv.ErrFailed), errors.Is(err, kv.ErrNoSpace):
		return err
	default:
		k.Key = key
		k.Lost = append(k.Lost, err.Error())
		r.report.Left = append(r.report.Left, k)
	}
	return nil
}
