package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// Workload draws commands of all kinds.
type Workload struct {
	Now       *atomic.Int64 // the clock, in Unix milliseconds
	ByCommand map[string]int
	Refused   int
	Err       error // of folding
	Keep      bool  // no command removes the keys of others

	rng     *rand.Rand
	db      *kv.DB
	session *module.Session
	queued  int // commands of a transaction that is under way
}

// NewWorkload returns a workload that follows from the seed.
func NewWorkload(seed uint64, now *atomic.Int64) *Workload {
	return &Workload{rng: rand.New(rand.NewPCG(seed, 7)), Now: now, ByCommand: make(map[string]int)}
}

// On has the workload use another store from now on. What a session had begun is given up.
func (w *Workload) On(db *kv.DB) {
	if w.db != db {
		w.db, w.session, w.queued = db, module.NewSession(db), 0
	}
}

func (w *Workload) word(words ...string) string { return words[w.rng.IntN(len(words))] }

func (w *Workload) number(n int) string { return fmt.Sprint(w.rng.IntN(n)) }

// key returns a key of the keys of a type. Some get objects of other types by RENAME and COPY.
func (w *Workload) key(kind string) string { return kind + w.number(6) }

func (w *Workload) items(n int) (items []string) {
	for range 1 + w.rng.IntN(n) {
		items = append(items, "item"+w.number(30_000))
	}
	return items
}

// Step runs a command.
func (w *Workload) Step() {
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
	w.Now.Add(w.rng.Int64N(20))
	if w.rng.IntN(500) == 0 && w.queued == 0 {
		if _, err := w.db.Fold(context.Background(), 1<<20); err != nil {
			w.Err = errors.Join(w.Err, err)
		}
	}
}

func (w *Workload) do(words []string) {
	w.ByCommand[words[0]]++
	r := w.session.Do(context.Background(), bytesOf(words))
	if r.IsError() {
		w.Refused++
	}
}

func bytesOf(words []string) (b [][]byte) {
	for _, word := range words {
		b = append(b, []byte(word))
	}
	return b
}

// Lookup returns a command that reads.
func (w *Workload) Lookup() [][]byte {
	kind := w.word("b", "g", "w", "c", "n")
	name := map[string]string{"b": "BF.EXISTS", "g": "BF.EXISTS", "w": "BF.EXISTS", "c": "CF.EXISTS", "n": "CBF.EXISTS"}[kind]
	return bytesOf([]string{name, w.key(kind), w.items(1)[0]})
}

// command returns a command.
func (w *Workload) command() []string {
	switch n := w.rng.IntN(1000); {
	case n < 60:
		return w.reservation()
	case n < 640:
		return w.change()
	case n < 740:
		return w.strings()
	case n < 741 && !w.Keep:
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
	words := w.Lookup()
	return []string{string(words[0]), string(words[1]), string(words[2])}
}

func (w *Workload) reservation() []string {
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

func (w *Workload) change() []string {
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

func (w *Workload) strings() []string {
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

func (w *Workload) merge() []string {
	if w.rng.IntN(3) == 0 {
		return []string{"CBF.MERGE", w.key("n"), w.key("n"), w.key("n")}
	}
	return []string{"BF.MERGE", w.key("b"), w.key("b"), w.key("b")}
}

func (w *Workload) keys() []string {
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
func (w *Workload) dump() {
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
