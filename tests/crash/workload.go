package crash

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
	"github.com/sievekv/sievekv/tests/redisbloom"
	"github.com/sievekv/sievekv/txn"
)

// sharedKey is renamed to and from, and changed, by all workers.
const sharedKey = "shared"

// workload is what goes on in a store when it crashes: workers, each with keys of its own.
type workload struct {
	db      *kv.DB
	ticks   atomic.Uint64 // commits begun and ended
	now     atomic.Int64  // the time of the store, in Unix milliseconds; it moves when world is held exclusively
	calls   atomic.Int64  // of workers to the store
	workers []*worker

	world    sync.RWMutex // held exclusively by a FLUSHALL and when time passes, shared by all else
	sharedMu sync.Mutex   // held while the shared key is used, taken after world
	shared   *history

	failure atomic.Pointer[error] // the first thing that went wrong
	over    atomic.Bool           // no more is to be done, though nothing is wrong
	commits atomic.Int64          // that succeeded

	// moment is called before and after time passes, if not nil.
	moment func(what string)

	// tolerates says of an error that it is no surprise and the work goes on; nil if every one is.
	tolerates func(error) bool

	backups int // that were begun

	alike  map[uint64]bool // redisbloom.Alike of all items; guarded by itemMu
	itemMu sync.Mutex

	layout scalableext.Layout // of new Bloom and cuckoo filters
	roomy  bool               // a commit may be large

	// tell is told of everything before it is done, if not nil.
	tell func(event)
}

// worker does random things to keys of its own, one at a time.
type worker struct {
	*workload
	id    int
	own   *history
	rng   *rand.Rand
	sync  int  // how many commits in a hundred are under Always
	named int  // items so far
	pad   int  // the most bytes of padding in a commit
	words bool // may use commands, whose errors are texts
}

const keysPerWorker = 3

// newWorkload makes workers on a store that holds, for each worker and then for the shared key, what start says at a
// time; nil is an empty store.
func newWorkload(rng *rand.Rand, workers int, start []contents, now int64) *workload {
	if start == nil {
		start = make([]contents, workers+1)
	}
	w := &workload{shared: newHistory(start[workers], sharedKey), alike: make(map[uint64]bool)}
	for _, c := range start {
		for _, d := range c {
			for _, item := range slices.Concat(d.Items, d.Deleted) {
				w.alike[redisbloom.Alike(item, compatibleBuckets)] = true
			}
		}
	}
	if rng.IntN(3) == 0 {
		w.layout = scalableext.LayoutCompatible
	}
	w.roomy = rng.IntN(4) == 0
	w.now.Store(now)
	syncs := []int{0, 3, 20, 80}[rng.IntN(4)]
	for id := range workers {
		var keys []string
		for i := range keysPerWorker {
			keys = append(keys, fmt.Sprintf("w%d/%d", id, i))
		}
		w.workers = append(w.workers, &worker{
			workload: w, id: id, own: newHistory(start[id], keys...), sync: syncs, pad: 16 << 10, words: true,
			rng: rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())),
		})
	}
	return w
}

// options make a few commits reach everything a store does: memtables and cache are the smallest there are, except the
// memtables of a store in which commits may be large. Every commit replaces their level by its own.
func (w *workload) options(fs vfs.FS) *kv.Options {
	memtable := 256 << 10
	if w.roomy {
		memtable = 2 << 20 // a quarter is enough for one commit of wideItems
	}
	return &kv.Options{
		FS: fs, CacheSize: 64 << 10, MemTableSize: memtable, BallastSize: -1, MinFreeSpace: -1,
		Logger: slog.New(slog.DiscardHandler),
		Clock:  func() time.Time { return time.UnixMilli(w.now.Load()) },
		Modules: coreext.With(
			bloomext.Module(), countingext.Module(), cuckooext.Module(), txn.Module(), compaction.Module(),
		),
	}
}

// use has the workload go on in a store.
func (w *workload) use(db *kv.DB) {
	w.db = db
	for _, name := range []string{"bf-layout", "cf-layout"} {
		if err := module.Of(db).SetSetting(name, w.layout.String()); err != nil {
			w.fail(err)
		}
	}
}

// histories returns the workers' histories and the shared key's.
func (w *workload) histories() []*history {
	var list []*history
	for _, worker := range w.workers {
		list = append(list, worker.own)
	}
	return append(list, w.shared)
}

// held returns what the keys of a history hold now.
func (w *workload) held(h *history) contents { return h.state(h.len()).at(w.now.Load()) }

func (w *workload) fail(err error) {
	if w.tolerates == nil || !w.tolerates(err) {
		w.failure.CompareAndSwap(nil, &err)
	}
}

func (w *workload) err() error {
	if err := w.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// run lets every worker do n things.
func (w *workload) run(n int) {
	var wg sync.WaitGroup
	for _, worker := range w.workers {
		wg.Go(func() {
			for range n {
				if w.err() != nil || w.over.Load() {
					return
				}
				worker.act()
				w.calls.Add(1)
				// Not all goroutines run at once, and the log syncs in no time: without this they would hardly meet.
				runtime.Gosched()
			}
		})
	}
	wg.Wait()
}

// commit makes a commit that changes histories.
func (w *worker) commit(what string, changes []change, f func(level kv.Durability) error) {
	level := w.level()
	c := &commit{id: w.ticks.Add(1)}
	for _, ch := range changes {
		s, keys := ch.step(what, c, w.now.Load())
		ch.history.add(s, keys)
		w.told(event{Step: &stepEvent{
			Commit: c.id, History: w.index(ch.history), What: what, Added: ch.added, After: s.after,
		}})
	}
	if err := f(level); err != nil {
		if !errors.Is(err, kv.ErrFailed) { // else the outcome is unknown
			for _, ch := range changes {
				ch.history.forget()
			}
		}
		w.fail(fmt.Errorf("worker %d: %s at level %s: %w", w.id, what, level, err))
		return
	}
	c.ended.Store(w.ticks.Add(1))
	w.commits.Add(1)
	w.told(event{Ended: &endEvent{Commit: c.id, At: c.ended.Load()}})
	if level == kv.Always {
		for _, ch := range changes {
			w.acknowledge(ch.history, ch.history.len())
		}
	}
}

func (w *workload) acknowledge(h *history, n int) {
	h.acknowledge(n)
	w.told(event{Acked: &ackEvent{History: w.index(h), Steps: n}})
}

func (w *workload) told(e event) {
	if w.tell != nil {
		w.tell(e)
	}
}

func (w *workload) index(h *history) int { return slices.Index(w.histories(), h) }

// answer asks for something that changes nothing, because of what the key holds.
func (w *worker) answer(what, key string, f func(level kv.Durability) error) {
	level := w.level()
	if err := f(level); err != nil {
		w.fail(fmt.Errorf("worker %d: %s at level %s: %w", w.id, what, level, err))
		return
	}
	if level == kv.Always {
		w.acknowledge(w.own, w.own.lastTouch(key))
	}
}

func (w *worker) level() kv.Durability {
	switch {
	case w.rng.IntN(100) < w.sync:
		return kv.Always
	case w.rng.IntN(2) == 0:
		return kv.EverySec
	default:
		return kv.NoSync
	}
}

// newItems returns n items nobody else adds, which no cuckoo filter of the compatible layout takes for others.
func (w *worker) newItems(n int) (items [][]byte) {
	w.itemMu.Lock()
	defer w.itemMu.Unlock()
	for len(items) < n {
		item := fmt.Appendf(nil, "%d-%d-%x", w.id, w.named, w.rng.Uint64())
		w.named++
		if alike := redisbloom.Alike(item, compatibleBuckets); !w.alike[alike] {
			w.alike[alike] = true
			items = append(items, item)
		}
	}
	return items
}

// act does one random thing.
func (w *worker) act() {
	switch w.rng.IntN(300) {
	case 0:
		w.flushAll()
		return
	case 1, 2, 3:
		w.passTime()
		return
	}
	w.world.RLock()
	defer w.world.RUnlock()
	key := w.own.keys[w.rng.IntN(len(w.own.keys))]
	have, exists := w.held(w.own)[key]
	switch r := w.rng.IntN(100); {
	case r < 10:
		w.useShared(key)
	case r < 14:
		w.look()
	case r < 17:
		w.maintain()
	case r < 32:
		w.transact()
	case !exists && r < 36:
		w.answer("delete of "+key+", which is missing", key, func(level kv.Durability) error {
			n, err := w.db.Delete(level, []byte(key))
			return errors.Join(err, expect(err != nil || n == 0, "a missing key was deleted"))
		})
	case !exists && r < 50:
		w.createWithItems(key)
	case types[have.Type] != nil && r < 40 && len(have.Items) > 0:
		w.addAgain(key, have)
	case have.Type == "bloom" && r < 52 && have.room() >= manyItems:
		w.addWithPosition(key, have)
	case have.Capacity == wideCapacity && w.roomy && r < 70 && have.room() >= wideItems:
		w.operate(w.addMany(types[have.Type], key, have, wideItems))
	default:
		w.operateAny()
	}
}

const manyItems = 60 // at once

// operateAny makes a commit of one operation on the worker's keys.
func (w *worker) operateAny() {
	w.operate(w.operation(&scene{w.own.keys, w.held(w.own), manyItems, w.now.Load()}))
}

// operate makes a commit of an operation on the worker's keys.
func (w *worker) operate(o operation) {
	w.commit(o.String(), []change{{w.own, o.to, o.added}}, func(level kv.Durability) error {
		return w.do(level, w.how(), []operation{o})
	})
}

// how draws the way in which operations are run.
func (w *worker) how() int {
	if !w.words {
		return 0
	}
	return w.rng.IntN(12)
}

// transact makes a commit of several operations, or a transaction that comes to nothing.
func (w *worker) transact() {
	histories := []*history{w.own}
	if w.rng.IntN(3) == 0 {
		w.sharedMu.Lock()
		defer w.sharedMu.Unlock()
		histories = append(histories, w.shared)
	}
	s := &scene{held: contents{}, most: 12, now: w.now.Load()}
	for _, h := range histories {
		s.keys = append(s.keys, h.keys...)
		for key, d := range w.held(h) {
			s.held[key] = d
		}
	}
	changes := make([]change, len(histories))
	for i, h := range histories {
		changes[i] = change{history: h, to: make(map[string]*data)}
	}
	var list []operation
	for range 2 + w.rng.IntN(4) {
		o := w.operation(s)
		s.apply(o)
		list = append(list, o)
		for i, h := range histories {
			for key, to := range o.to {
				if slices.Contains(h.keys, key) {
					changes[i].to[key] = to
				}
			}
			changes[i].added = append(changes[i].added, o.added...)
		}
	}
	changes = slices.DeleteFunc(changes, func(c change) bool { return len(c.to) == 0 })
	if w.rng.IntN(5) == 0 {
		w.refuse(list)
		return
	}
	w.commit(fmt.Sprint(list), changes, func(level kv.Durability) error { return w.do(level, w.how(), list) })
}

// createWithItems makes a filter together with its first items.
func (w *worker) createWithItems(key string) {
	t := types[[]string{"bloom", "counting", "cuckoo"}[w.rng.IntN(3)]]
	to, capacity, expansion := w.size(t)
	to.Items = w.newItems(1 + w.rng.IntN(manyItems))
	ch := change{w.own, map[string]*data{key: &to}, to.Items}
	what := fmt.Sprintf("reserve %s %s with %d items", t.name, key, len(to.Items))
	w.commit(what, []change{ch}, func(level kv.Durability) error {
		return t.createWithItems(w, level, key, capacity, expansion, to.Items)
	})
}

// createBloom does it by a writer of its own.
func (w *worker) createBloom(level kv.Durability, key string, capacity uint64, expansion uint32, items [][]byte) error {
	return w.write(level, key, func(kw *kv.Writer) error {
		f := bloomext.New(w.db, key)
		if err := f.ReserveStaged(kw, bloomConfig(w.db, capacity, expansion)); err != nil {
			return err
		}
		return addAllStaged(f, kw, items)
	})
}

// createCuckoo does it in a transaction, or by a writer of its own.
func (w *worker) createCuckoo(
	level kv.Durability, key string, capacity uint64, expansion uint32, items [][]byte,
) error {
	if len(items)%2 == 0 {
		return w.write(level, key, func(kw *kv.Writer) error {
			f, added := cuckooext.New(w.db, key), make([]bool, len(items))
			if err := f.ReserveStaged(kw, cuckooConfig(capacity, expansion)); err != nil {
				return err
			}
			_, err := f.AddIfAbsentStaged(kw, items, added)
			return errors.Join(err, expect(err != nil || !slices.Contains(added, false), "a new item was found"))
		})
	}
	return txntest.Update(background, w.db, level, func(tx *txntest.Tx) error {
		f := cuckooext.New(w.db, key).In(tx)
		if err := f.Reserve(cuckooConfig(capacity, expansion)); err != nil {
			return err
		}
		_, err := f.AddMany(items, nil)
		return err
	})
}

// createCounting does it by a writer of its own. Some more items come and go in the same commit.
func (w *worker) createCounting(
	level kv.Durability, key string, capacity uint64, expansion uint32, items [][]byte,
) error {
	passing := w.newItems(1 + w.rng.IntN(10))
	return w.write(level, key, func(kw *kv.Writer) error {
		f := countingext.New(w.db, key)
		if err := f.ReserveStaged(kw, countingConfig(capacity, expansion)); err != nil {
			return err
		}
		all, deleted := slices.Concat(passing, items), make([]bool, len(passing))
		if err := addAllStaged(f, kw, all); err != nil {
			return err
		}
		err := f.DeleteStaged(kw, passing, deleted)
		return errors.Join(err, expect(err != nil || !slices.Contains(deleted, false), "an item was forgotten"))
	})
}

// addAndDelete adds an item once more to a counting filter, and deletes it once.
func (w *worker) addAndDelete(level kv.Durability, key string, item []byte) error {
	return txntest.Update(background, w.db, level, func(tx *txntest.Tx) error {
		f := countingext.New(w.db, key).In(tx)
		added, err := f.Add(item)
		if err = errors.Join(err, expect(!added, "an item was forgotten")); err != nil {
			return err
		}
		n, err := f.Count(item)
		if err = errors.Join(err, expect(err != nil || n == 2, "an item added twice does not count twice")); err != nil {
			return err
		}
		there, err := f.Delete(item)
		return errors.Join(err, expect(err != nil || there, "an item was forgotten"))
	})
}

// write stages and commits.
func (w *worker) write(level kv.Durability, key string, stage func(*kv.Writer) error) error {
	return w.db.Write(level, [][]byte{[]byte(key)}, stage)
}

// staged is a handle on a filter that stages adds.
type staged interface {
	AddStaged(kw *kv.Writer, items [][]byte, added []bool) (int, error)
}

func addAllStaged(f staged, kw *kv.Writer, items [][]byte) error {
	added := make([]bool, len(items))
	_, err := f.AddStaged(kw, items, added)
	return errors.Join(err, expect(err != nil || !slices.Contains(added, false), "a new item was found"))
}

// addWithPosition adds items and says in the same commit how far that goes. A second attribute fills memtables.
func (w *worker) addWithPosition(key string, have data) {
	items := w.newItems(1 + w.rng.IntN(30))
	to := have.with(items)
	to.Value = string(items[0])
	ch := change{w.own, map[string]*data{key: to}, items}
	w.commit(fmt.Sprintf("add %d with a position to %s", len(items), key), []change{ch}, func(level kv.Durability) error {
		return w.write(level, key, func(kw *kv.Writer) error {
			o, err := kw.Object([]byte(key))
			if err != nil {
				return err
			}
			kw.SetAttribute(o, "position", []byte(to.Value))
			kw.SetAttribute(o, "padding", []byte(strings.Repeat("\x00", w.rng.IntN(w.pad))))
			return addAllStaged(bloomext.New(w.db, key), kw, items)
		})
	})
}

func (w *worker) addAgain(key string, have data) {
	item := have.Items[w.rng.IntN(len(have.Items))]
	w.answer("add of a known item to "+key, key, func(level kv.Durability) error {
		t := types[have.Type]
		if t.addAgain != nil {
			return t.addAgain(w, level, key, item)
		}
		f := t.open(api{db: w.db, level: level}, key)
		if have.Type == "bloom" && w.rng.IntN(2) == 0 {
			added := make([]bool, 1)
			_, err := f.AddMany([][]byte{item}, added)
			return errors.Join(err, expect(!added[0], "an item was forgotten"))
		}
		added, err := f.Add(item)
		return errors.Join(err, expect(!added, "an item was forgotten"))
	})
}

// useShared moves what a key holds to the shared key, takes what is there, or goes on with it.
func (w *worker) useShared(key string) {
	w.sharedMu.Lock()
	defer w.sharedMu.Unlock()
	own, exists := w.held(w.own)[key]
	shared, sharedExists := w.held(w.shared)[sharedKey]
	move := func(from, to string, fromHistory, toHistory *history, d data) {
		o := rename(from, to, d)
		changes := []change{
			{history: fromHistory, to: map[string]*data{from: nil}},
			{history: toHistory, to: map[string]*data{to: &d}},
		}
		w.commit(o.String(), changes, func(level kv.Durability) error {
			return w.do(level, w.how(), []operation{o})
		})
	}
	switch r := w.rng.IntN(3); {
	case sharedExists && r == 0:
		move(sharedKey, key, w.shared, w.own, shared)
	case sharedExists && r == 1 && types[shared.Type] != nil && shared.room() >= manyItems:
		o := w.addMany(types[shared.Type], sharedKey, shared, manyItems)
		w.commit(o.String(), []change{{w.shared, o.to, o.added}}, func(level kv.Durability) error {
			return w.do(level, w.how(), []operation{o})
		})
	case exists:
		move(key, sharedKey, w.own, w.shared, own)
	}
}

// flushAll removes everything, as often in a transaction that goes on with the worker's keys.
func (w *worker) flushAll() {
	w.world.Lock()
	defer w.world.Unlock()
	list := []operation{{words: []string{"FLUSHALL"}, want: "OK"}}
	s := &scene{keys: w.own.keys, held: contents{}, most: 12, now: w.now.Load()}
	var added [][]byte
	if w.words && w.rng.IntN(2) == 0 {
		for range 3 + w.rng.IntN(4) {
			o := w.operation(s)
			s.apply(o)
			list, added = append(list, o), append(added, o.added...)
		}
	}
	var changes []change
	for _, h := range w.histories() {
		to := make(map[string]*data)
		for _, key := range h.keys {
			to[key] = nil
			if d, ok := s.held[key]; ok {
				to[key] = &d
			}
		}
		changes = append(changes, change{history: h, to: to})
	}
	if len(list) == 1 {
		w.commit("flushall", changes, w.db.DeleteAll)
		return
	}
	changes[slices.Index(w.histories(), w.own)].added = added
	w.commit(fmt.Sprint(list), changes, func(level kv.Durability) error { return w.exec(w.session(level), list) })
}

// passTime makes some keys expire, and all items that a crash lost with them.
func (w *worker) passTime() {
	w.world.Lock()
	defer w.world.Unlock()
	now := w.now.Load() + w.rng.Int64N(6000)
	for _, d := range w.held(w.own) {
		if d.Expiry != 0 && w.rng.IntN(4) == 0 {
			now = d.Expiry - w.rng.Int64N(2) // the moment, or the one before
		}
	}
	if w.moment != nil {
		w.moment("before time passes")
	}
	w.told(event{Now: now})
	w.now.Store(now)
	if w.moment != nil {
		w.moment("after time has passed")
	}
}

// look looks for every item of the worker's keys. It reads blocks, and so has those folded that need it.
func (w *worker) look() {
	for key, d := range w.held(w.own) {
		var err error
		if t := types[d.Type]; t != nil {
			err = has(t.open(api{db: w.db}, key), d.Items)
		} else {
			err = holds(w.db, key, d.Value)
		}
		if errors.Is(err, ErrFalseNegative) { // an error must not read as absent
			w.failure.CompareAndSwap(nil, &err)
		}
		if err != nil {
			w.fail(fmt.Errorf("worker %d: look at %s: %w", w.id, key, err))
		}
	}
}

// has looks for items that must be there.
func has(f filter, items [][]byte) error {
	present := make([]bool, len(items))
	err := f.MayContainMany(items, present)
	if i := slices.Index(present, false); i >= 0 {
		return errors.Join(err, fmt.Errorf("%w: %s", ErrFalseNegative, items[i]))
	}
	return err
}

func holds(db *kv.DB, key, value string) error {
	got, err := db.Get([]byte(key))
	if err == nil && string(got) != value {
		err = fmt.Errorf("%q holds %q, not %q", key, got, value)
	}
	return err
}

// maintain does what is done in the background, and sometimes syncs: then all that has returned must stay.
func (w *worker) maintain() {
	var err error
	switch w.rng.IntN(6) {
	case 5:
		_, err = w.db.CompactQueued(context.Background(), 16<<10)
	case 0:
		_, err = w.db.Reclaim(context.Background())
	case 1:
		n := w.own.len()
		if err = w.db.Sync(); err == nil {
			w.acknowledge(w.own, n)
		}
	case 2:
		_, err = w.db.Sweep(context.Background())
	default:
		_, err = w.db.Fold(context.Background(), 64<<10)
	}
	if err != nil {
		w.fail(fmt.Errorf("worker %d: maintenance: %w", w.id, err))
	}
}
