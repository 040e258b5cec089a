package tests_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
)

// content is what a key holds: a filter with items, all different and used nowhere else, and an attribute.
type content struct {
	capacity int
	items    [][]byte // never changed, only replaced by a longer one
	position string   // the attribute of that name
}

// contents is what a set of keys holds; a missing key holds nothing.
type contents map[string]content

// commit is one that was asked for. Its times are ticks of the workload's clock.
type commit struct {
	begin uint64
	end   atomic.Uint64 // 0 while it has not returned
}

// step is what a commit does to the keys of one history.
type step struct {
	*commit
	what  string
	added [][]byte // items that no earlier step added
	after contents // what the keys hold from then on
}

// history is the sequence of the commits to a set of keys, and what they leave. One goroutine at a time goes on with
// it: the keys are a worker's own, or there is a lock.
type history struct {
	keys  []string
	start contents // before the first step

	mu      sync.Mutex
	steps   []step         // guarded by mu
	touched map[string]int // by key, the number of steps when it was last changed; guarded by mu

	// acked is how many of the first steps a crash must leave.
	acked atomic.Int64
}

func newHistory(start contents, keys ...string) *history {
	if start == nil {
		start = contents{}
	}
	return &history{keys: keys, start: start, touched: make(map[string]int)}
}

// state returns what the keys hold after n steps.
func (h *history) state(n int) contents {
	if n == 0 {
		return h.start
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.steps[n-1].after
}

func (h *history) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.steps)
}

func (h *history) now() contents { return h.state(h.len()) }

// forget takes the last step back: nothing of it was done.
func (h *history) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps = h.steps[:len(h.steps)-1]
	for key, n := range h.touched {
		h.touched[key] = min(n, len(h.steps))
	}
}

func (h *history) add(s step, keys []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps = append(h.steps, s)
	for _, key := range keys {
		h.touched[key] = len(h.steps)
	}
}

// acknowledge notes that the first n steps were acknowledged.
func (h *history) acknowledge(n int) {
	for {
		old := h.acked.Load()
		if old >= int64(n) || h.acked.CompareAndSwap(old, int64(n)) {
			return
		}
	}
}

// change is what a commit is to do to a history: keys that hold something else, or nothing, afterwards.
type change struct {
	history *history
	to      map[string]*content
	added   [][]byte
}

func (c change) step(what string, by *commit) (s step, keys []string) {
	after := maps.Clone(c.history.now())
	for key, to := range c.to {
		keys = append(keys, key)
		if to == nil {
			delete(after, key)
		} else {
			after[key] = *to
		}
	}
	return step{commit: by, what: what, added: c.added, after: after}, keys
}

// sharedKey is renamed to and from, and added to, by all workers.
const sharedKey = "shared"

// workload is what goes on in a store when it crashes: workers, each with keys of its own.
type workload struct {
	db      *kv.DB
	clock   atomic.Uint64
	calls   atomic.Int64 // of workers to the store
	workers []*worker

	world    sync.RWMutex // held exclusively by a FLUSHALL, shared by all else
	sharedMu sync.Mutex   // held by who uses the shared key, taken after world
	shared   *history

	failure atomic.Pointer[error] // the first thing that went wrong

	// tolerates says of an error that it is no surprise and the work goes on; nil if every one is.
	tolerates func(error) bool
}

// worker does random things to keys of its own, one at a time.
type worker struct {
	*workload
	id    int
	own   *history
	rng   *rand.Rand
	sync  int // how many commits in a hundred are under Always
	named int // items so far
	pad   int // the most bytes of padding in a commit
}

const keysPerWorker = 3

// newWorkload makes workers on a store that holds, for each worker and then for the shared key, what start says; nil
// is an empty store.
func newWorkload(db *kv.DB, rng *rand.Rand, workers int, start []contents) *workload {
	if start == nil {
		start = make([]contents, workers+1)
	}
	w := &workload{db: db, shared: newHistory(start[workers], sharedKey)}
	syncs := []int{0, 3, 20, 80}[rng.IntN(4)]
	for id := range workers {
		var keys []string
		for i := range keysPerWorker {
			keys = append(keys, fmt.Sprintf("w%d/%d", id, i))
		}
		w.workers = append(w.workers, &worker{
			workload: w, id: id, own: newHistory(start[id], keys...), sync: syncs, pad: 16 << 10,
			rng: rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())),
		})
	}
	return w
}

// histories returns the workers' histories and that of the shared key.
func (w *workload) histories() []*history {
	var list []*history
	for _, worker := range w.workers {
		list = append(list, worker.own)
	}
	return append(list, w.shared)
}

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
				if w.err() != nil {
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
	c := &commit{begin: w.clock.Add(1)}
	for _, ch := range changes {
		s, keys := ch.step(what, c)
		ch.history.add(s, keys)
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
	c.end.Store(w.clock.Add(1))
	if level == kv.Always {
		for _, ch := range changes {
			ch.history.acknowledge(ch.history.len())
		}
	}
}

// answer asks for something that changes nothing, because of what the key holds.
func (w *worker) answer(what, key string, f func(level kv.Durability) error) {
	level := w.level()
	if err := f(level); err != nil {
		w.fail(fmt.Errorf("worker %d: %s at level %s: %w", w.id, what, level, err))
		return
	}
	if level == kv.Always {
		w.own.mu.Lock()
		n := w.own.touched[key]
		w.own.mu.Unlock()
		w.own.acknowledge(n)
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

// newItems returns n items nobody else adds.
func (w *worker) newItems(n int) [][]byte {
	items := make([][]byte, n)
	for i := range items {
		items[i] = fmt.Appendf(nil, "%d-%d-%x", w.id, w.named, w.rng.Uint64())
		w.named++
	}
	return items
}

// act does one random thing.
func (w *worker) act() {
	if w.rng.IntN(300) == 0 {
		w.flushAll()
		return
	}
	w.world.RLock()
	defer w.world.RUnlock()
	key := w.own.keys[w.rng.IntN(len(w.own.keys))]
	have, exists := w.own.now()[key]
	const mostItems = 1000 // in a filter, so that looking for all of them takes no time
	switch r := w.rng.IntN(100); {
	case r < 10:
		w.useShared(key)
	case r < 14:
		w.look()
	case r < 17:
		w.maintain()
	case !exists && r < 22:
		w.answer("delete of "+key+", which is missing", key, func(level kv.Durability) error {
			n, err := w.db.Delete(level, []byte(key))
			return errors.Join(err, expect(n == 0, "a missing key was deleted"))
		})
	case !exists:
		w.create(key)
	case r < 25, len(have.items)+100 > min(mostItems, have.capacity):
		w.delete(key)
	case r < 32:
		w.rename(key)
	case r < 40 && len(have.items) > 0:
		w.addAgain(key, have)
	case r < 65:
		w.addOne(w.own, key, have)
	case r < 85:
		w.addMany(w.own, key, have)
	default:
		w.addWithPosition(key, have)
	}
}

func expect(ok bool, otherwise string) error {
	if ok {
		return nil
	}
	return errors.New(otherwise)
}

func (w *worker) filter(key string, level kv.Durability) *bloomext.Filter {
	return bloomext.New(w.db, key).With(level)
}

// rate is so low that no item is ever found that was not added.
const rate = 1e-9

// create makes a filter, of one block, of a dozen, or one that grows, in a commit of its own or together with its first
// items.
func (w *worker) create(key string) {
	to := content{capacity: []int{400, 20_000}[w.rng.IntN(2)]}
	config := bloomext.Config{Capacity: uint64(to.capacity), ErrorRate: rate, NonScaling: true}
	if w.rng.IntN(2) == 0 {
		to.capacity = math.MaxInt
		// 64 layers of 20 take all items.
		config = bloomext.Config{Capacity: 20 + w.rng.Uint64N(40), ErrorRate: rate, Expansion: 1 + w.rng.Uint32N(4)}
	}
	if w.rng.IntN(2) == 0 {
		w.commit("reserve "+key, []change{{history: w.own, to: map[string]*content{key: &to}}}, func(level kv.Durability) error {
			return w.filter(key, level).Reserve(config)
		})
		return
	}
	to.items = w.newItems(1 + w.rng.IntN(60))
	ch := change{history: w.own, to: map[string]*content{key: &to}, added: to.items}
	w.commit(fmt.Sprintf("reserve %s with %d items", key, len(to.items)), []change{ch}, func(level kv.Durability) error {
		return w.write(level, key, func(kw *kv.Writer) error {
			f := w.filter(key, level)
			if err := f.ReserveStaged(kw, config); err != nil {
				return err
			}
			return addAllStaged(f, kw, to.items)
		})
	})
}

// write stages and commits.
func (w *worker) write(level kv.Durability, key string, stage func(*kv.Writer) error) error {
	kw, err := w.db.Begin(level, []byte(key))
	if err != nil {
		return err
	}
	if err := stage(kw); err != nil {
		kw.Discard()
		return err
	}
	return kw.Commit()
}

func addAllStaged(f *bloomext.Filter, kw *kv.Writer, items [][]byte) error {
	added := make([]bool, len(items))
	_, err := f.AddStaged(kw, items, added)
	return errors.Join(err, expect(!slices.Contains(added, false), "a new item was found"))
}

// with returns c with more items.
func (c content) with(items [][]byte) *content {
	c.items = slices.Concat(c.items, items)
	return &c
}

func (w *worker) addOne(h *history, key string, have content) {
	items := w.newItems(1)
	ch := change{h, map[string]*content{key: have.with(items)}, items}
	w.commit("add to "+key, []change{ch}, func(level kv.Durability) error {
		added, err := w.filter(key, level).Add(items[0])
		return errors.Join(err, expect(added, "a new item was found"))
	})
}

func (w *worker) addMany(h *history, key string, have content) {
	items := w.newItems(1 + w.rng.IntN(60))
	ch := change{h, map[string]*content{key: have.with(items)}, items}
	w.commit(fmt.Sprintf("add %d to %s", len(items), key), []change{ch}, func(level kv.Durability) error {
		added := make([]bool, len(items))
		_, err := w.filter(key, level).AddMany(items, added)
		return errors.Join(err, expect(!slices.Contains(added, false), "a new item was found"))
	})
}

// addWithPosition adds items and says in the same commit how far that goes. A second attribute fills memtables.
func (w *worker) addWithPosition(key string, have content) {
	items := w.newItems(1 + w.rng.IntN(30))
	to := have.with(items)
	to.position = string(items[0])
	ch := change{w.own, map[string]*content{key: to}, items}
	w.commit(fmt.Sprintf("add %d with a position to %s", len(items), key), []change{ch}, func(level kv.Durability) error {
		return w.write(level, key, func(kw *kv.Writer) error {
			o, err := kw.Object([]byte(key))
			if err != nil {
				return err
			}
			kw.SetAttribute(o, "position", []byte(to.position))
			kw.SetAttribute(o, "padding", make([]byte, w.rng.IntN(w.pad)))
			return addAllStaged(w.filter(key, level), kw, items)
		})
	})
}

func (w *worker) addAgain(key string, have content) {
	item := have.items[w.rng.IntN(len(have.items))]
	w.answer("add of a known item to "+key, key, func(level kv.Durability) error {
		f := w.filter(key, level)
		if w.rng.IntN(2) == 0 {
			added := make([]bool, 1)
			_, err := f.AddMany([][]byte{item}, added)
			return errors.Join(err, expect(!added[0], "an item was forgotten"))
		}
		added, err := f.Add(item)
		return errors.Join(err, expect(!added, "an item was forgotten"))
	})
}

func (w *worker) delete(key string) {
	to := map[string]*content{key: nil}
	keys := [][]byte{[]byte(key)}
	if other := w.own.keys[w.rng.IntN(keysPerWorker)]; other != key && w.rng.IntN(3) == 0 {
		to[other], keys = nil, append(keys, []byte(other)) // may be missing
	}
	w.commit(fmt.Sprintf("delete %s", keys), []change{{history: w.own, to: to}}, func(level kv.Durability) error {
		n, err := w.db.Delete(level, keys...)
		return errors.Join(err, expect(n > 0, "a key was missing"))
	})
}

func (w *worker) rename(key string) {
	other := w.own.keys[w.rng.IntN(keysPerWorker)]
	if other == key {
		w.answer("rename of "+key+" to itself", key, func(level kv.Durability) error {
			return w.db.Rename(level, []byte(key), []byte(key))
		})
		return
	}
	have := w.own.now()[key]
	ch := change{history: w.own, to: map[string]*content{key: nil, other: &have}}
	w.commit("rename "+key+" to "+other, []change{ch}, func(level kv.Durability) error {
		return w.db.Rename(level, []byte(key), []byte(other))
	})
}

// useShared moves a filter to the shared key, takes the one there, or adds to it.
func (w *worker) useShared(key string) {
	w.sharedMu.Lock()
	defer w.sharedMu.Unlock()
	own, exists := w.own.now()[key]
	shared, sharedExists := w.shared.now()[sharedKey]
	move := func(from, to string, fromHistory, toHistory *history, c content) {
		changes := []change{
			{history: fromHistory, to: map[string]*content{from: nil}},
			{history: toHistory, to: map[string]*content{to: &c}},
		}
		w.commit("rename "+from+" to "+to, changes, func(level kv.Durability) error {
			return w.db.Rename(level, []byte(from), []byte(to))
		})
	}
	switch r := w.rng.IntN(3); {
	case sharedExists && r == 0:
		move(sharedKey, key, w.shared, w.own, shared)
	case sharedExists && r == 1 && len(shared.items)+100 < min(shared.capacity, 1200):
		w.addMany(w.shared, sharedKey, shared)
	case exists:
		move(key, sharedKey, w.own, w.shared, own)
	}
}

func (w *worker) flushAll() {
	w.world.Lock()
	defer w.world.Unlock()
	var changes []change
	for _, h := range w.histories() {
		to := make(map[string]*content)
		for _, key := range h.keys {
			to[key] = nil
		}
		changes = append(changes, change{history: h, to: to})
	}
	w.commit("flushall", changes, w.db.DeleteAll)
}

// look looks for every item of the worker's keys. It reads blocks, and so has those folded that need it.
func (w *worker) look() {
	for key, c := range w.own.now() {
		present := make([]bool, len(c.items))
		if err := w.filter(key, kv.DurabilityDefault).MayContainMany(c.items, present); err != nil {
			w.fail(fmt.Errorf("worker %d: look at %s: %w", w.id, key, err))
		}
		// An error does not read as absent.
		if err := expect(!slices.Contains(present, false), "an item was forgotten"); err != nil {
			w.failure.CompareAndSwap(nil, &err)
		}
	}
}

// maintain does what is done in the background, and sometimes syncs: then all that has returned must stay.
func (w *worker) maintain() {
	var err error
	switch w.rng.IntN(4) {
	case 0:
		_, err = w.db.Reclaim(context.Background())
	case 1:
		n := w.own.len()
		if err = w.db.Sync(); err == nil {
			w.own.acknowledge(n)
		}
	default:
		_, err = w.db.Fold(context.Background(), 64<<10)
	}
	if err != nil {
		w.fail(fmt.Errorf("worker %d: maintenance: %w", w.id, err))
	}
}
