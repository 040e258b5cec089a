package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/storage"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/txn"
)

// result is what a run has found.
type result struct {
	commands, refused, records, keys, blocks int
	byCommand                                map[string]int
	differ                                   int
	first                                    string // of what differs
}

func (r result) String() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "commands %d, of them refused %d\n", r.commands, r.refused)
	for _, name := range slices.Sorted(maps.Keys(r.byCommand)) {
		fmt.Fprintf(&b, "  %s %d", name, r.byCommand[name])
	}
	fmt.Fprintf(&b, "\nrecords replayed %d\nkeys compared %d, of them blocks %d\nkeys that differ %d\n", r.records, r.keys, r.blocks, r.differ)
	if r.differ > 0 {
		fmt.Fprintln(&b, "the first:", r.first)
	}
	return b.String()
}

// recorder is a log that keeps what it gets.
type recorder struct {
	mu      sync.Mutex
	records [][]byte // guarded by mu
}

// Propose implements storage.Log.
func (r *recorder) Propose(record []byte) <-chan error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, bytes.Clone(record))
	ticket := make(chan error, 1)
	ticket <- nil
	return ticket
}

func (r *recorder) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.records)
}

const storeDir, copyDir = "store", "copy"

// replay runs commands, replays their records but those that lost reports, and compares.
func replay(commands int, seed uint64, lost func(i int) bool) (found result, err error) {
	disk, log := vfs.NewMem(), new(recorder)
	var now atomic.Int64
	now.Store(time.Now().UnixMilli())
	options := func(log storage.Log, more ...module.Module) *kv.Options {
		return &kv.Options{
			FS: disk, Log: log, CacheSize: 1 << 20, MemTableSize: 2 << 20, BallastSize: -1, MinFreeSpace: -1, Logger: slog.New(slog.DiscardHandler),
			Clock:   func() time.Time { return time.UnixMilli(now.Load()) },
			Modules: coreext.With(append(more, bloomext.Module(), countingext.Module(), cuckooext.Module(), txn.Module())...),
		}
	}
	db, err := kv.Open(storeDir, options(log, compaction.Module()))
	if err != nil {
		return found, err
	}
	w := &workload{rng: rand.New(rand.NewPCG(seed, 7)), db: db, session: module.NewSession(db), now: &now, byCommand: make(map[string]int)}
	first := 0
	for i := range commands {
		if i == commands/10 {
			// The services may go on meanwhile. What a backup has of their commits is in no record twice: a record says what
			// a block has afterwards, or adds to it, so that replaying it once more changes nothing.
			first = log.len()
			if err := db.Backup(context.Background(), copyDir, kv.BackupOptions{}, func(string) error { return nil }); err != nil {
				return found, errors.Join(err, db.Close())
			}
		}
		w.step()
	}
	if err := errors.Join(w.err, db.Compact(context.Background()), db.Close()); err != nil {
		return found, err
	}
	found.commands, found.refused, found.byCommand = commands, w.refused, w.byCommand

	other, err := kv.Open(copyDir, options(nil))
	if err != nil {
		return found, err
	}
	read := module.NewSession(other)
	for i, record := range log.records[first:] {
		if lost(i) {
			continue
		}
		if err := other.Replay(context.Background(), record); err != nil {
			return found, errors.Join(fmt.Errorf("record %d: %w", i, err), other.Close())
		}
		if i%16 == 0 { // lookups of what goes on in memory
			read.Do(context.Background(), w.lookup())
		}
		found.records++
	}
	if err := other.Close(); err != nil {
		return found, err
	}
	return found, found.compare(disk)
}

// compare compares what the two stores have.
func (r *result) compare(disk vfs.FS) error {
	one, err := contents(disk, storeDir)
	if err != nil {
		return err
	}
	other, err := contents(disk, copyDir)
	if err != nil {
		return err
	}
	r.keys = len(one)
	for key, value := range one {
		if key[0] == format.TagObject && value[:1] == isBlock {
			r.blocks++
		}
		if got, there := other[key]; !there || got != value {
			r.differs(key, fmt.Sprintf("%.80x in the store, %.80x in the other (%t)", value, got, there))
		}
	}
	for key, value := range other {
		if _, there := one[key]; !there {
			r.differs(key, fmt.Sprintf("nothing in the store, %.80x in the other", value))
		}
	}
	return nil
}

func (r *result) differs(key, how string) {
	if r.differ++; r.first == "" {
		r.first = fmt.Sprintf("key %x: %s", key, how)
	}
}

// What contents returns of a value begins with one of these.
const (
	isRecord = "r"
	isBlock  = "b"
)

// contents returns the keys of a store, with the bytes of records, and the words of blocks.
func contents(disk vfs.FS, dir string) (values map[string]string, err error) {
	s, err := storage.Open(dir, storage.Options{
		FS: disk, MustExist: true, TableCacheSize: 1 << 20, MemTableSize: 2 << 20, BallastSize: -1, MinFreeSpace: -1,
		FreeSpaceInterval: time.Second, Logger: slog.New(slog.DiscardHandler), Failed: func(error) {},
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		s.End(func() bool { return false })
		err = errors.Join(err, s.Close())
	}()
	headers := make(map[uint64]*format.Header)
	values = make(map[string]string)
	it, err := s.NewIterWithContext(context.Background(), &storage.IterOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Error(), it.Close()) }()
	words := make([]uint64, block.MaxWords)
	for ok := it.First(); ok; ok = it.Next() {
		key, value := it.Key(), it.Value()
		if key[0] == format.TagHeader {
			h, err := format.DecodeHeader(value)
			if err != nil {
				return nil, err
			}
			headers[h.ID] = h
		}
		text, err := decoded(headers, key, value, words)
		if err != nil {
			return nil, err
		}
		values[string(key)] = text
	}
	return values, nil
}

// decoded returns what a value says. Headers come before the blocks of their objects.
func decoded(headers map[uint64]*format.Header, key, value []byte, words []uint64) (string, error) {
	k, err := format.DecodeObjectKey(key)
	if err != nil || k.Part < format.PartLayers {
		return isRecord + string(value), nil
	}
	h := headers[k.Object]
	if h == nil { // dropped, and not reclaimed yet
		return isRecord, nil
	}
	i := slices.IndexFunc(h.Layers, func(l format.LayerSpec) bool { return l.Number == k.Part-format.PartLayers })
	if i < 0 {
		return isRecord + "of no layer", nil
	}
	words = words[:h.Layers[i].Lines*block.LineWords]
	if _, err := block.Decode(words, h.Family, value); err != nil {
		return "", fmt.Errorf("key %x: %w", key, err)
	}
	return isBlock + fmt.Sprintf("%x", words), nil
}

// workload draws commands.
type workload struct {
	rng       *rand.Rand
	db        *kv.DB
	session   *module.Session
	now       *atomic.Int64
	queued    int // commands of a transaction that is under way
	byCommand map[string]int
	refused   int
	err       error
}

func (w *workload) word(words ...string) string { return words[w.rng.IntN(len(words))] }

func (w *workload) number(n int) string { return fmt.Sprint(w.rng.IntN(n)) }

// key returns a key of the keys of a type. Some get objects of other types by RENAME and COPY.
func (w *workload) key(kind string) string { return kind + w.number(6) }

func (w *workload) items(n int) (items []string) {
	for range 1 + w.rng.IntN(n) {
		items = append(items, "item"+w.number(30_000))
	}
	return items
}

// step runs a command.
func (w *workload) step() {
	words := w.command()
	switch {
	case w.queued > 0:
		if w.queued--; w.queued == 0 {
			words = []string{w.word("EXEC", "EXEC", "EXEC", "DISCARD")}
		}
	case w.rng.IntN(60) == 0:
		words, w.queued = []string{"MULTI"}, 2+w.rng.IntN(6)
	}
	w.session.Durability = []kv.Durability{kv.Always, kv.EverySec, kv.NoSync, kv.NoSync, kv.NoSync}[w.rng.IntN(5)]
	w.do(words)
	w.now.Add(w.rng.Int64N(20))
	if w.rng.IntN(500) == 0 && w.queued == 0 {
		if _, err := w.db.Fold(context.Background(), 1<<20); err != nil {
			w.err = errors.Join(w.err, err)
		}
	}
}

func (w *workload) do(words []string) {
	w.byCommand[words[0]]++
	r := w.session.Do(context.Background(), bytesOf(words))
	if r.IsError() {
		w.refused++
	}
}

func bytesOf(words []string) (b [][]byte) {
	for _, word := range words {
		b = append(b, []byte(word))
	}
	return b
}

// lookup returns a command that reads.
func (w *workload) lookup() [][]byte {
	kind := w.word("b", "g", "w", "c", "n")
	name := map[string]string{"b": "BF.EXISTS", "g": "BF.EXISTS", "w": "BF.EXISTS", "c": "CF.EXISTS", "n": "CBF.EXISTS"}[kind]
	return bytesOf([]string{name, w.key(kind), w.items(1)[0]})
}

// command returns a command.
func (w *workload) command() []string {
	switch n := w.rng.IntN(1000); {
	case n < 60:
		return w.reservation()
	case n < 640:
		return w.change()
	case n < 740:
		return w.strings()
	case n < 741:
		return []string{w.word("FLUSHALL", "PING", "PING")}
	case n < 760:
		return w.merge()
	case n < 775:
		w.dump()
		return []string{"DBSIZE"}
	case n < 780:
		return []string{"CONFIG", "SET", w.word("bf-layout", "cf-layout"), w.word("native", "compatible")}
	case n < 783:
		return []string{"SIEVE.COMPACT"}
	case n < 800:
		return []string{"CF.COMPACT", w.key("c")}
	case n < 900:
		return w.keys()
	}
	words := w.lookup()
	return []string{string(words[0]), string(words[1]), string(words[2])}
}

func (w *workload) reservation() []string {
	rate, capacity := w.word("0.1", "0.01", "0.001", "0.00001"), w.word("1", "10", "100", "1000", "20000")
	switch w.rng.IntN(5) {
	case 0:
		return []string{"BF.RESERVE", w.key("b"), rate, capacity, w.word("NONSCALING", "EXPANSION"), w.word("1", "2")}[:4+2*w.rng.IntN(2)]
	case 1:
		return append([]string{"BF.RESERVE", w.key("g"), rate, w.word("10", "100", "1000")}, []string{"GROWTHLOG", w.word("0", "4096", "65536")}[:2*w.rng.IntN(2)]...)
	case 2:
		if w.rng.IntN(2) == 0 {
			return []string{"BF.RESERVE", w.key("w"), rate, w.word("100", "1000"), "WINDOW", w.word("1", "10"), "SLICES", "4"}
		}
		return []string{"BF.RESERVE", w.key("w"), rate, w.word("100", "1000"), "LAST", "500"}[:6]
	case 3:
		return []string{"CF.RESERVE", w.key("c"), capacity, "BUCKETSIZE", w.word("1", "2", "4"), "EXPANSION", w.word("0", "1", "2")}
	}
	return []string{"CBF.RESERVE", w.key("n"), rate, capacity}
}

func (w *workload) change() []string {
	with := func(name, kind string, most int) []string {
		return append([]string{name, w.key(kind)}, w.items(most)...)
	}
	switch w.rng.IntN(12) {
	case 0:
		return with("BF.ADD", w.word("b", "w"), 1)
	case 1:
		return with("BF.MADD", w.word("b", "w"), 80)
	case 2, 3:
		return with("BF.MADD", "g", 400)
	case 4:
		return append([]string{"BF.INSERT", w.key("g"), "CAPACITY", "500", "ITEMS"}, w.items(100)...)
	case 5:
		return with(w.word("CF.ADD", "CF.ADDNX"), "c", 1)
	case 6:
		return append([]string{w.word("CF.INSERT", "CF.INSERTNX"), w.key("c"), "ITEMS"}, w.items(60)...)
	case 7, 8:
		return with("CF.DEL", "c", 1)
	case 9:
		return with("CBF.MADD", "n", 40)
	case 10:
		return with("CBF.ADD", "n", 1)
	}
	return with("CBF.DEL", "n", 1)
}

func (w *workload) strings() []string {
	key := w.key("s")
	switch w.rng.IntN(8) {
	case 0, 1:
		return []string{"SET", key, string(bytes.Repeat([]byte("v"), w.rng.IntN(1<<w.rng.IntN(15))))}
	case 2:
		return []string{"SET", key, w.number(1000), "PX", fmt.Sprint(1 + w.rng.IntN(5000))}
	case 3:
		return []string{"SETBIT", w.key("m"), w.number(1 << 20), w.number(2)}
	case 4:
		return []string{"BITOP", w.word("AND", "OR", "XOR"), w.key("m"), w.key("m"), w.key("m")}
	case 5:
		return []string{"APPEND", key, "tail"}
	case 6:
		return []string{"SETRANGE", w.key("m"), w.number(100_000), "range"}
	}
	return []string{"BITFIELD", w.key("m"), "INCRBY", "u8", w.number(1 << 19), "3"}
}

func (w *workload) merge() []string {
	if w.rng.IntN(3) == 0 {
		return []string{"CBF.MERGE", w.key("n"), w.key("n"), w.key("n")}
	}
	return []string{"BF.MERGE", w.key("b"), w.key("b"), w.key("b")}
}

func (w *workload) keys() []string {
	kind := w.word("b", "g", "w", "c", "n", "s", "m")
	switch w.rng.IntN(8) {
	case 0:
		return []string{"DEL", w.key(kind), w.key(kind)}
	case 1:
		return []string{"RENAME", w.key(kind), w.key(kind)}
	case 2:
		return []string{"COPY", w.key(kind), w.key(kind), "REPLACE"}
	case 3, 4:
		return []string{"PEXPIRE", w.key(kind), fmt.Sprint(1 + w.rng.IntN(100_000))}
	case 5:
		return []string{"PERSIST", w.key(kind)}
	}
	return []string{"EXISTS", w.key(kind)}
}

// dump copies a filter by its chunks.
func (w *workload) dump() {
	if w.queued > 0 {
		return
	}
	kind, dump, load := "b", "BF.SCANDUMP", "BF.LOADCHUNK"
	if w.rng.IntN(2) == 0 {
		kind, dump, load = "c", "CF.SCANDUMP", "CF.LOADCHUNK"
	}
	from, to := w.key(kind), w.key(kind)
	if from == to {
		return
	}
	w.do([]string{"DEL", to})
	for at := int64(0); ; {
		r := w.session.Do(context.Background(), bytesOf([]string{dump, from, fmt.Sprint(at)}))
		if r.IsError() {
			return
		}
		e := r.Elems()
		if at = e[0].Int(); at == 0 {
			return
		}
		w.do([]string{load, to, fmt.Sprint(at), string(e[1].Bytes())})
	}
}
