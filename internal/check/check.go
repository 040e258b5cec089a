// Package check reads every header, counter and block of a store, as of one commit, and finds what is wrong. It goes
// on behind parts of tables that cannot be read.
package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
	"github.com/sievekv/sievekv/internal/storage/remains"
)

// Groups is the number of groups that keys are counted in, by the first bits of their hash.
const (
	groupBits = 8
	Groups    = 1 << groupBits
)

// Report is what a check found.
type Report struct {
	Keys   uint64
	Blocks uint64 // stored blocks; absent ones are zeros and take no space
	Bytes  uint64 // of the stored blocks' values

	Problems []error  // what cannot be true of a sound store: corruption, or a mistake of this program
	Notes    []string // what is unlikely, or could not be checked
	Damaged  []Key    // the keys concerned
	Loading  []Key    // hidden objects, which are not complete yet
	Repaired []string // what was mended
}

// Key is a key that something is wrong with.
type Key struct {
	Key  string
	Type string // as TYPE prints it, "" if that is not known
	Lost []string
}

// LostNote is in Key.Lost if the key expires, and the note of that is lost. No information is lost: the header has the
// time.
const LostNote = "the note of its expiry"

// LostWake is in Key.Lost if the note of when to call the key's type is lost. Lookups do not need it.
const LostWake = "the note of when it is to be compacted"

// LostVersion is in Key.Lost if a newer header of the key, or its deletion, may be lost.
const LostVersion = "its newest version, or its deletion"

// Store is what a check needs to know of a store.
type Store interface {
	// Hash returns the hash of a key, which decides where its header is stored.
	Hash(key []byte) uint64
	// String checks a string that is kept in its header.
	String(h *format.Header) error
	// Object returns the object under a key for the check, and a note if some of it cannot be checked. If it returns
	// an error, the blocks of the object are not checked.
	Object(key string, h *format.Header) (Object, string, error)
	// Damage returns the ranges of keys that tables have lost, in order, and what is wrong with the tables.
	Damage(ctx context.Context) ([]remains.Range, []string, error)
}

// Object is an object that is checked. Its methods are called in the order in which they are here.
type Object interface {
	// Wake returns when to call its type, 0 for never, and whether that is known.
	Wake() (at int64, known bool)
	// Counters sets the counters of a layer.
	Counters(layer uint64, counters [format.NumCounters]uint64)
	// Block checks a stored block.
	Block(layer, blk uint64, value []byte) error
	// Usable returns an error if the counters are out of range, so that the object cannot be opened.
	Usable() error
	// Done returns an error for what cannot be true of a sound object, and a note for what is unlikely.
	Done() (note string, err error)
}

// Checker checks a store. Every field but Report has to be set.
type Checker struct {
	Store  Store
	From   storage.Reader           // of one commit
	Counts [Groups]format.KeyCounts // keys by group, as commits counted them

	// Now is the time, in milliseconds since 1970.
	Now int64

	// Left is true if From has the rest of a damaged store: it can be read as a whole, but keys in the ranges of Damage
	// may be older versions.
	Left bool

	// Mend makes Run remember what Repair needs.
	Mend bool

	Report Report
	Found  [Groups]format.KeyCounts // keys by group, as they were found

	orphans   []uint64 // ids of objects that no key has
	lostNotes []note
	badNotes  [][]byte // keys of notes that no key needs
	lostWakes [][]byte // keys of notes of when to call a type
	badWakes  [][]byte

	owners  map[uint64]string // by object id
	wakes   map[string]int64  // when to call keys' types; -1 if that is not known
	damaged map[string]int    // indices in Report.Damaged
	ranges  []remains.Range   // that cannot be read; nil if that is not known
	looked  bool              // whether it is known
	partly  bool              // something else could not be read, or understood
}

func (c *Checker) problem(key, kind, lost, form string, args ...any) {
	c.Report.Problems = append(c.Report.Problems, fmt.Errorf(form, args...))
	if key != "" {
		c.Damage(key, kind, lost)
	}
}

// Damage notes that a key has lost something.
func (c *Checker) Damage(key, kind, lost string) {
	if c.damaged == nil {
		c.damaged = make(map[string]int)
	}
	i, ok := c.damaged[key]
	if !ok {
		i = len(c.Report.Damaged)
		c.damaged[key] = i
		c.Report.Damaged = append(c.Report.Damaged, Key{Key: key})
	}
	k := &c.Report.Damaged[i]
	if kind != "" {
		k.Type = kind
	}
	if !slices.Contains(k.Lost, lost) {
		k.Lost = append(k.Lost, lost)
	}
}

// Whole reports whether all that is stored could be read, so that a repair need not guess.
func (c *Checker) Whole() bool { return len(c.ranges) == 0 && !c.partly }

// Deep reads all tables before Run, and finds out what cannot be read. Run does so itself where it meets damage.
func (c *Checker) Deep(ctx context.Context) error {
	ranges, problems, err := c.Store.Damage(ctx)
	if err != nil {
		return err
	}
	c.looked, c.ranges = true, ranges
	for _, p := range problems {
		c.problem("", "", "", "%w: %s", format.ErrCorrupt, p)
	}
	return nil
}

// strays looks for files in the store's directory that have names like the store's and are not its own.
func (c *Checker) strays(s *storage.Store) error {
	strays, err := storage.Strays(s)
	for _, f := range strays {
		c.problem("", "", "", "%w: %s was not written by the store: %s", format.ErrCorrupt, f.Name, f.Why)
	}
	return err
}

// Run checks the whole store that From reads. It returns errors of reading that are no damage of the store.
func (c *Checker) Run(ctx context.Context, s *storage.Store) error {
	c.owners, c.wakes = make(map[uint64]string), make(map[string]int64)
	err := c.each(ctx, []byte{format.TagHeader}, []byte{format.TagHeader + 1}, func(key, value []byte) {
		c.Report.Keys++
		c.header(key, value)
	})
	if err != nil {
		return err
	}
	for i, n := range c.Found {
		if says := c.Counts[i]; n.Keys != says.Keys {
			c.problem("", "", "", "%w: %d keys in group %d, but the count says %d", format.ErrCorrupt, n.Keys, i, says.Keys)
		} else if n != says && c.Whole() {
			c.problem("", "", "", "%w: %d keys expire in group %d, but the count says %d", format.ErrCorrupt, n.Expiring, i, says.Expiring)
		}
	}
	if err := c.expiries(ctx); err != nil {
		return err
	}
	if err := c.objects(ctx); err != nil {
		return err
	}
	if err := c.wakeNotes(ctx); err != nil {
		return err
	}
	c.inRanges()
	return c.strays(s)
}

func (c *Checker) header(stored, value []byte) {
	hash, key, err := format.DecodeHeaderKey(stored)
	if err != nil {
		c.partly = true // an object may belong to this key
		c.problem("", "", "", "%w", err)
		return
	}
	found := &c.Found[hash>>(64-groupBits)]
	found.Keys++
	if Overlaps(c.ranges, stored, append(bytes.Clone(stored), 0)) {
		c.Damage(string(key), "", LostVersion)
	}
	if want := c.Store.Hash(key); hash != want {
		c.partly = true // whether the key counts, and its expiry must be noted, is a guess
		c.problem(string(key), "", "its place", "%w: key %q: stored at hash %x, has hash %x", format.ErrCorrupt, key, hash, want)
	}
	h, err := format.DecodeHeader(value)
	if err != nil {
		c.partly = true
		c.problem(string(key), "", "its header", "key %q: %w", key, err)
		return
	}
	if at := h.Expiry; at != 0 {
		found.Expiring++
		n := note{format.AppendExpiryKey(nil, at, key), format.ExpiryNoteValue(h)}
		if noted, err := c.noted(n); err != nil || !noted {
			c.lostNotes = append(c.lostNotes, n)
			c.problem(string(key), h.TypeName, LostNote, "%w: key %q expires at %d, which is not noted", errors.Join(format.ErrCorrupt, err), key, at)
		}
	}
	if h.Hidden && h.Expiry > c.Now {
		c.Report.Loading = append(c.Report.Loading, Key{Key: string(key), Type: h.TypeName})
	}
	if h.ID == 0 {
		if err := c.Store.String(h); err != nil {
			c.problem(string(key), h.TypeName, "its value", "key %q: %w", key, err)
		}
		return
	}
	if other, taken := c.owners[h.ID]; taken {
		c.wakes[other] = -1
		c.problem(string(key), h.TypeName, "its blocks, which another key has", "%w: keys %q and %q share object %d", format.ErrCorrupt, other, key, h.ID)
	}
	c.owners[h.ID] = string(key)
}

// expiries finds notes of keys that are missing or do not expire then.
func (c *Checker) expiries(ctx context.Context) error {
	notes, expiring := uint64(0), uint64(0)
	for _, n := range c.Found {
		expiring += n.Expiring
	}
	err := c.each(ctx, []byte{format.TagExpiry}, []byte{format.TagExpiry + 1}, func(key, _ []byte) {
		if _, _, err := format.DecodeExpiryKey(key); err != nil {
			c.problem("", "", "", "%w", err)
		}
		if (c.Mend || len(c.ranges) > 0) && !c.needed(key) {
			c.badNotes = append(c.badNotes, bytes.Clone(key))
		}
		notes++
	})
	if err == nil && notes != expiring {
		c.problem("", "", "", "%w: %d keys expire, but %d are noted to", format.ErrCorrupt, expiring, notes)
	}
	return err
}

// note is a note of when a key expires.
type note struct{ key, value []byte }

// needed reports whether a key expires as a note says. It also reports true if that is not known.
func (c *Checker) needed(noteKey []byte) bool {
	at, key, err := format.DecodeExpiryKey(noteKey)
	if err != nil {
		return false
	}
	h, err := c.headerOf(string(key))
	if errors.Is(err, storage.ErrNotFound) {
		return false
	}
	return err != nil || h.Expiry == at
}

func (c *Checker) headerOf(key string) (*format.Header, error) {
	value, closer, err := c.From.Get(format.AppendHeaderKey(nil, c.Store.Hash([]byte(key)), []byte(key)))
	if err != nil {
		return nil, err
	}
	h, err := format.DecodeHeader(bytes.Clone(value))
	return h, errors.Join(err, closer.Close())
}

// noted reports whether a note is stored.
func (c *Checker) noted(n note) (bool, error) {
	value, closer, err := c.From.Get(n.key)
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	same := bytes.Equal(value, n.value)
	return same, closer.Close()
}

// wakeNotes finds notes of when to call a type that no key needs. They do no harm: when the time comes, they are removed.
// One is left when a damaged key is deleted, or a key is deleted or renamed while its type's module is not registered.
func (c *Checker) wakeNotes(ctx context.Context) error {
	return c.each(ctx, []byte{format.TagWake}, []byte{format.TagWake + 1}, func(note, _ []byte) {
		at, key, err := format.DecodeWakeKey(note)
		if err != nil {
			c.problem("", "", "", "%w", err)
		}
		if needed := c.wakes[string(key)]; err == nil && (needed == at || needed < 0) {
			return
		}
		c.badWakes = append(c.badWakes, bytes.Clone(note))
		if err == nil && c.Whole() {
			c.Report.Notes = append(c.Report.Notes, fmt.Sprintf("key %q: a note that it is to be compacted at %d, which it does not need", key, at))
		}
	})
}

// objects checks the objects in the order in which they are stored.
func (c *Checker) objects(ctx context.Context) error {
	var at *object
	finish := func() {
		if at != nil {
			at.done()
		}
		at = nil
	}
	seen := make(map[uint64]bool)
	err := c.each(ctx, []byte{format.TagObject}, []byte{format.TagObject + 1}, func(key, value []byte) {
		k, err := format.DecodeObjectKey(key)
		if err != nil {
			c.problem("", "", "", "%w", err)
			return
		}
		if at == nil || at.id != k.Object {
			finish()
			at = c.object(k.Object)
			seen[k.Object] = true
		}
		at.entry(k, value)
	})
	finish()
	// The module also verifies objects that have nothing stored.
	for id := range c.owners {
		if !seen[id] {
			c.object(id).done()
		}
	}
	return err
}

// each calls f with every entry of a range that can be read.
func (c *Checker) each(ctx context.Context, from, to []byte, f func(key, value []byte)) error {
	parts := c.readable(from, to)
	for len(parts) > 0 {
		stopped, err := c.part(ctx, parts[0][0], parts[0][1], f)
		switch {
		case err == nil:
			parts = parts[1:]
			continue
		case !errors.Is(err, format.ErrCorrupt):
			return err
		case !c.looked:
			if err := c.Deep(ctx); err != nil {
				return err
			}
			if len(c.ranges) > 0 {
				parts = c.readable(stopped, to)
				continue
			}
		}
		// Nothing tells how to go on.
		c.partly = true
		c.problem("", "", "", "%w", err)
		return nil
	}
	return nil
}

// readable returns the parts of a range outside of the lost ranges: from the first key on, below the second.
func (c *Checker) readable(from, to []byte) (parts [][2][]byte) {
	if c.Left {
		return [][2][]byte{{from, to}}
	}
	for _, r := range c.ranges {
		if bytes.Compare(r.High, from) < 0 {
			continue
		}
		if bytes.Compare(r.Low, to) >= 0 {
			break
		}
		if bytes.Compare(from, r.Low) < 0 {
			parts = append(parts, [2][]byte{from, r.Low})
		}
		from = append(bytes.Clone(r.High), 0)
	}
	if bytes.Compare(from, to) < 0 {
		parts = append(parts, [2][]byte{from, to})
	}
	return parts
}

// part calls f with the entries of a range. If one cannot be read, it returns where the rest begins.
func (c *Checker) part(ctx context.Context, from, to []byte, f func(key, value []byte)) (stopped []byte, err error) {
	stopped = from
	it, err := c.From.NewIterWithContext(ctx, &storage.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return stopped, storage.ReadError(err, "check")
	}
	defer func() { // a type's verifier may panic in f
		if cerr := it.Close(); err == nil && cerr != nil {
			err = storage.ReadError(cerr, "check")
		}
	}()
	for ok := it.First(); ok; ok = it.Next() {
		if err := ctx.Err(); err != nil {
			return stopped, err
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return stopped, storage.ReadError(err, "check: key %x", it.Key())
		}
		f(it.Key(), value)
		stopped = append(bytes.Clone(it.Key()), 0)
	}
	return stopped, nil
}

// inRanges names the keys that may have lost something to a range that cannot be read.
func (c *Checker) inRanges() {
	if len(c.ranges) == 0 {
		return
	}
	for _, n := range c.badNotes {
		if _, key, err := format.DecodeExpiryKey(n); err == nil {
			c.onlyNoted(n, string(key), LostNote)
		}
	}
	for _, n := range c.badWakes {
		if _, key, err := format.DecodeWakeKey(n); err == nil {
			c.onlyNoted(n, string(key), LostWake)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.owners)) {
		if Overlaps(c.ranges, format.AppendObjectKey(nil, id), format.AppendObjectKey(nil, id+1)) {
			c.Damage(c.owners[id], "", "blocks, counters, or their newest version")
		}
	}
}

// onlyNoted names a key that may have been lost, as there is a note of it. A note in a range may be an older one.
func (c *Checker) onlyNoted(note []byte, key, what string) {
	if Overlaps(c.ranges, note, append(bytes.Clone(note), 0)) {
		return
	}
	if _, err := c.headerOf(key); errors.Is(err, storage.ErrNotFound) {
		c.Damage(key, "", "all but "+what)
	}
}

// Overlaps reports whether one of the ranges has keys from low on, below high.
func Overlaps(ranges []remains.Range, low, high []byte) bool {
	return slices.ContainsFunc(ranges, func(r remains.Range) bool {
		return bytes.Compare(r.Low, high) < 0 && bytes.Compare(low, r.High) <= 0
	})
}

// object checks one object.
type object struct {
	c      *Checker
	id     uint64
	key    string
	header *format.Header
	opened Object // nil if it cannot be opened, which has been reported
}

func (c *Checker) object(id uint64) *object {
	o := &object{c: c, id: id}
	key, owned := c.owners[id]
	if !owned {
		if unwritten, err := c.unwritten(id); err != nil || !unwritten {
			c.partly = c.partly || err != nil
			c.orphans = append(c.orphans, id)
			c.problem("", "", "", "%w: object %d belongs to no key", errors.Join(format.ErrCorrupt, err), id)
		}
		return o
	}
	header, err := c.headerOf(key)
	if err != nil {
		c.partly = true
		c.problem(key, "", "its header", "key %q: %w", key, storage.ReadError(err, "header"))
		return o
	}
	o.key, o.header = key, header
	opened, note, err := c.Store.Object(key, header)
	if err != nil {
		c.wakes[key] = -1
		o.problem("its parameters", "%w", err)
		return o
	}
	o.opened = opened
	o.wake()
	if note != "" {
		c.Report.Notes = append(c.Report.Notes, fmt.Sprintf("key %q: %s", key, note))
	}
	return o
}

// wake checks the note of when to call the object's type.
func (o *object) wake() {
	at, known := o.opened.Wake()
	switch {
	case !known:
		o.c.wakes[o.key] = -1
	case at != 0:
		n := note{key: format.AppendWakeKey(nil, at, []byte(o.key))}
		noted, err := o.c.noted(n)
		if err == nil && !noted { // the key may have got the object while the module was not registered
			if noted, err = o.c.noted(note{key: format.AppendWakeKey(nil, format.WakeSoon, []byte(o.key))}); noted {
				at = format.WakeSoon
			}
		}
		if o.c.wakes[o.key] = at; err != nil || !noted {
			o.c.lostWakes = append(o.c.lostWakes, n.key)
			o.problem(LostWake, "%w: key %q is to be compacted at %d, which is not noted", errors.Join(format.ErrCorrupt, err), o.key, at)
		}
	}
}

func (o *object) problem(lost, form string, args ...any) {
	o.c.problem(o.key, o.header.TypeName, lost, form, args...)
}

// unwritten reports whether an object belongs to a build that has not ended, or was ended by a crash.
func (c *Checker) unwritten(id uint64) (bool, error) {
	value, closer, err := c.From.Get(format.AppendDroppedKey(nil, id))
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	unwritten := len(value) > 0 && value[0] == format.DroppedUnwritten
	return unwritten, closer.Close()
}

func (o *object) entry(k format.ObjectKey, value []byte) {
	if o.opened == nil || k.Part == format.PartAttributes {
		return
	}
	number := k.Rest
	if k.Part != format.PartCounters {
		number = k.Part - format.PartLayers
	}
	i := slices.IndexFunc(o.header.Layers, func(l format.LayerSpec) bool { return l.Number == number })
	key := o.key
	switch {
	case i < 0:
		o.problem("a layer", "%w: key %q: entry of layer %d, which it does not have", format.ErrCorrupt, key, number)
	case k.Part == format.PartCounters:
		counters, err := format.DecodeCounters(value)
		if err != nil {
			o.problem(fmt.Sprintf("the counters of layer %d", number), "key %q: layer %d: %w", key, number, err)
			return
		}
		o.opened.Counters(number, counters)
	default:
		o.block(&o.header.Layers[i], k.Rest, value)
	}
}

func (o *object) block(l *format.LayerSpec, blk uint64, value []byte) {
	o.c.Report.Blocks++
	o.c.Report.Bytes += uint64(len(value))
	lost := fmt.Sprintf("block %d of layer %d", blk, l.Number)
	if blk >= l.Blocks {
		o.problem(lost, "%w: key %q: block %d of layer %d, which has %d", format.ErrCorrupt, o.key, blk, l.Number, l.Blocks)
		return
	}
	if err := o.opened.Block(l.Number, blk, value); err != nil {
		o.problem(lost, "%w", err)
	}
}

func (o *object) done() {
	if o.opened == nil {
		return
	}
	if err := o.opened.Usable(); err != nil {
		o.problem("its counters", "key %q: %w", o.key, err)
		return
	}
	note, err := o.opened.Done()
	switch {
	case err != nil && o.header.Lossy:
		note = fmt.Sprintf("lossy: %v", err)
	case err != nil:
		o.problem("what its counters count", "key %q: %w", o.key, err)
	}
	if note != "" {
		o.c.Report.Notes = append(o.c.Report.Notes, fmt.Sprintf("key %q: %s", o.key, note))
	}
}
