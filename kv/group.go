package kv

import (
	"errors"
	"slices"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/hot"
	"github.com/sievekv/sievekv/internal/storage"
)

// A store that is a member of a group: Options.Log is set. storage.Group says what a group is, and how commits become
// messages of its log. This file has what memory does.
//
// One goroutine, the apply loop, calls ApplyMessage with each message, in the order of the log, and Lead and Follow when the role
// changes. A store begins as one that does not lead: every write returns ErrNotLeader.
//
// Locks. The apply loop takes applying, and apply exclusively. So a writer that waits for a message may hold its key
// locks or the gate, but neither apply nor applying. A goroutine that holds one of these must not flush, because a
// flush waits for the apply loop, too.

// ApplyMessage applies the next message of the group's log to the store, from its bytes alone, whether this store or
// another has proposed it. If this store has proposed a message with pending commits, memory has all of it already.
//
// It returns an error, and applies nothing, if the index is not the next one or the record does not decode
// (ErrCorrupt). After an error the caller must not go on with the log.
func (db *DB) ApplyMessage(m *storage.Message) error {
	g, err := db.enterMember()
	if err != nil {
		return err
	}
	defer db.exit()
	db.applying.Lock()
	defer db.applying.Unlock()
	b := &db.message
	defer b.Reset()
	if len(m.Record) > 0 && !g.Owns(m) {
		if err := b.Load(m.Record); err != nil {
			return err
		}
	}
	if err := g.IsNext(m); err != nil {
		return err
	}
	err = db.applyMessage(m, b)
	db.millis.Store(m.Millis)
	return err
}

// enterMember is enter for operations of members of a group.
func (db *DB) enterMember() (*storage.Group, error) {
	if err := db.enter(); err != nil {
		return nil, err
	}
	if db.store.Group == nil {
		db.exit()
		return nil, errNoMember
	}
	return db.store.Group, nil
}

var errNoMember = errors.New("kv: the store is no member of a group (Options.Log)")

// applyMessage applies a message, and the changes of b to memory.
func (db *DB) applyMessage(m *storage.Message, b *storage.Batch) error {
	g := db.store.Group
	if b.Empty() {
		_, err := g.Apply(m)
		return err
	}
	p := &db.fromLog
	p.db, p.whole = db, m.Whole
	// The lock is exclusive, even if lookups may see a part of the commit: on a store that does not lead, no key lock
	// keeps an object from being closed meanwhile, and opened again with the earlier counters.
	db.lockApply()
	defer db.apply.Unlock()
	if m.Whole {
		db.word.Add(seqOdd)
		defer db.word.Add(seqStep - seqOdd)
	}
	p.begin(b)
	defer p.end()
	defer db.forgetStrings(b)()
	db.pauseAt("commit: started")
	number, err := g.Apply(m)
	if err != nil {
		return err // the store has failed
	}
	db.pauseAt("commit: applied")
	p.number = number
	p.apply(b)
	if !g.Proposed(m) { // otherwise the writer tells them, which knows more
		p.tellWatches(b)
		db.noteReclaimed(b)
	}
	db.stats.commits.Add(1)
	db.stats.commitBytes.Add(uint64(len(m.Record)))
	return nil
}

// forgetStrings drops from the strings in memory the keys whose headers an applied commit changes.
func (db *DB) forgetStrings(b *storage.Batch) (applied func()) {
	var keys [][]byte
	all := false
	for i := range b.Count() {
		switch c := b.Change(i); {
		case c.Key[0] != format.TagHeader:
		case c.Kind == storage.KindRangeDelete:
			all = true
			db.strings.BeginAll()
		default:
			key := c.Key[format.HeaderKeyPrefix:]
			keys = append(keys, key)
			db.strings.Begin(db.hash(key), key)
		}
	}
	return func() {
		if all {
			db.strings.EndAll(false)
		}
		for _, key := range keys {
			db.strings.End(db.hash(key), key, hot.Change{}, false)
		}
	}
}

// tellWatches is Writer.tellWatches for a commit of another store. It knows the keys of headers, and of objects that
// are open or get a header. If the commit changes any other object, all watches are told. Watches are also told of
// changes of expired keys and of changes that leave the answers of lookups as they are, because tellWatches cannot tell
// these apart.
func (p *applier) tellWatches(b *storage.Batch) {
	w := &p.db.watches
	if w.Empty() {
		return
	}
	var named []uint64 // objects whose keys are told by their headers
	for i := range b.Count() {
		if c := b.Change(i); c.Key[0] == format.TagHeader && c.Kind != storage.KindRangeDelete {
			w.Set(string(c.Key[format.HeaderKeyPrefix:]))
			if h, err := format.DecodeHeaderShared(c.Value); c.Kind == storage.KindSet && err == nil {
				named = append(named, h.ID)
			}
		}
	}
	for i := range b.Count() {
		c := b.Change(i)
		// Only builds set whole blocks, and whatever is deleted belongs to objects whose headers change.
		if c.Part.Object == 0 || c.Kind != storage.KindMerge && (c.Kind != storage.KindSet || c.Part.Part != format.PartCounters) {
			continue
		}
		if slices.Contains(named, c.Part.Object) {
			continue
		}
		o := p.find(c.Part.Object)
		if o == nil {
			w.SetAll()
			return
		}
		w.Set(o.key)
	}
}

// Lead makes the store take writes, in a term of the group's log. The apply loop calls it once it has applied the first
// entry of the term, and so all before it. Proposals name the term.
func (db *DB) Lead(term uint64) error {
	g, err := db.enterMember()
	if err != nil {
		return err
	}
	defer db.exit()
	db.applying.Lock()
	defer db.applying.Unlock()
	if g.MayForget() {
		return errors.New("kv: the store leads, or led and was not told to follow")
	}
	if err := db.readMetaAgain(); err != nil {
		return err
	}
	g.Lead(term)
	return nil
}

// readMetaAgain reads what another store may have written since this one led.
func (db *DB) readMetaAgain() error {
	db.idMu.Lock()
	defer db.idMu.Unlock()
	db.secretMu.Lock()
	defer db.secretMu.Unlock()
	db.lockApply()
	defer db.apply.Unlock()
	return db.readMeta()
}

// Follow ends the leadership, and drops from memory everything that the log does not have yet: it may come later, as a
// message of the log, or never. The apply loop calls it. Writes that wait return ErrOutcomeUnknown. It does nothing in
// a store that does not lead.
func (db *DB) Follow() error {
	g, err := db.enterMember()
	if err != nil {
		return err
	}
	defer db.exit()
	if !g.Resign() {
		return nil
	}
	db.applying.Lock()
	defer db.applying.Unlock()
	db.lockApply()
	defer db.apply.Unlock()
	db.word.Add(seqOdd)
	defer db.word.Add(seqStep - seqOdd)
	db.pauseAt("follow: forgets")
	return g.Forget(db.forget)
}

// forget drops what is in memory. Lookups read it again, from Pebble.
func (db *DB) forget() error {
	db.strings.BeginAll()
	defer db.strings.EndAll(false)
	p := applier{db: db}
	p.dropAll()
	db.watches.SetAll()
	return db.readKeyCounts()
}

// Fail ends the use of a store for good: every operation returns ErrFailed, with the cause. The group's log calls it
// when the member must not go on.
func (db *DB) Fail(cause error) error { return db.store.Fail(cause) }

// Identity returns the store's identity: all members of a group have the same.
func (db *DB) Identity() format.StoreMeta { return db.store.Meta }

// Applied returns the last message of the group's log that the store has applied, with Index 0 if there is none, and
// the members of the group, as the last message about them said.
func (db *DB) Applied() (applied format.Applied, members []byte, err error) {
	if err := db.enter(); err != nil {
		return applied, nil, err
	}
	defer db.exit()
	return storage.ReadApplied(storage.Disk(db.store))
}

// SyncStore brings what a member has applied to stable storage, and returns the index up to which it is there: this
// store no longer needs the group's log up to that index. Commits do not sync the store of a member.
func (db *DB) SyncStore() (index uint64, err error) {
	g, err := db.enterMember()
	if err != nil {
		return 0, err
	}
	defer db.exit()
	return g.SyncStore()
}

// BeginAnswer begins an answer before the caller reads. EndAnswer takes its result.
func (db *DB) BeginAnswer() uint64 {
	g := db.store.Group
	if g == nil {
		return 0
	}
	epoch := g.Epoch()
	if epoch&1 != 0 { // memory is being dropped
		db.apply.RLock()
		defer db.apply.RUnlock()
		epoch = g.Epoch()
	}
	return epoch
}

// EndAnswer returns when everything that was read since BeginAnswer is applied: a store that leads a group shows commits that the
// group does not have yet. It returns ErrOutcomeUnknown or ErrNotLeader if the group may never have them. A store that is alone
// answers at once.
func (db *DB) EndAnswer(begun uint64) error {
	if g := db.store.Group; g != nil {
		return g.SettleAll(begun)
	}
	return nil
}

// leads returns what a commit has to name: 0 in a store that is alone. The error is ErrNotLeader.
func (db *DB) leads() (epoch uint64, err error) {
	if g := db.store.Group; g != nil {
		return g.Leads()
	}
	return 0, nil
}

// follows reports whether the store is a member that does not lead.
func (db *DB) follows() bool {
	_, err := db.leads()
	return err != nil
}

// commitBatch commits a batch that changes nothing in memory. The commit is in the log before any commit that begins
// later. In a group the caller holds neither apply nor applying.
func (db *DB) commitBatch(b *storage.Batch, epoch uint64) error {
	if g := db.store.Group; g != nil {
		return g.Propose(b, false, epoch)
	}
	_, err := db.store.Commit(b, storage.Now)
	return err
}

// commitInGroup gives the batch of build to the group, and gives back the locks.
func (w *Writer) commitInGroup(whole bool) error {
	g, db := w.db.store.Group, w.db
	receipt, pending, err := storage.Receipt{}, false, error(nil)
	if !whole && g.CanPend(&w.batch) {
		receipt, err = w.apply(storage.Later, false)
		pending = err == nil
	}
	if !pending && (err == nil || storage.HadNoRoom(err)) {
		if err = g.Propose(&w.batch, whole, w.epoch); err == nil {
			w.committed()
		}
	}
	w.unlock()
	switch {
	case err != nil:
		return err
	case pending && w.level == Always:
		return g.Settle(receipt.Number, w.epoch)
	}
	db.store.FlushIfMany(receipt)
	return db.failure()
}
