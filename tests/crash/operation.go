package crash

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sievekv/sievekv/bitmapext"
	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

var background = context.Background()

// operation is one thing done to keys, as a command and through the Go API.
type operation struct {
	words []string
	want  string // the command's reply, as redis-cli prints it
	api   func(api) error
	to    map[string]*data // what keys hold afterwards, nil for nothing
	added [][]byte
}

func (o operation) String() string {
	words := o.words
	if len(words) > 6 {
		words = append(slices.Clone(words[:5]), fmt.Sprintf("... (%d words)", len(words)))
	}
	return strings.Join(words, " ")
}

// scene is the keys an operation may use, and what they hold when it begins. What operations do is put into the scene,
// so that the next goes on from there.
type scene struct {
	keys []string
	held contents
	most int // items in an operation
	now  int64
}

func (s *scene) apply(o operation) {
	for key, to := range o.to {
		if to == nil {
			delete(s.held, key)
		} else {
			s.held[key] = *to
		}
	}
}

const mostItems = 1000 // in a filter, so that looking for all of them takes no time

// A Bloom filter of wideCapacity has tens of thousands of blocks. A batch of up to wideItems is in enough of them that
// two goroutines apply the commit to the cache.
const (
	wideCapacity = 50_000_000
	wideItems    = 800
)

// room returns how many more items a filter may be given.
func (d data) room() int { return min(d.Capacity, mostItems) - len(d.Items) }

// operation returns a random one for a key of the scene.
func (w *worker) operation(s *scene) operation {
	key := s.keys[w.rng.IntN(len(s.keys))]
	have, exists := s.held[key]
	t := types[have.Type]
	switch r := w.rng.IntN(100); {
	case !exists:
		return w.creation(s, key)
	case r < 6:
		return w.removal(s, key)
	case r < 14:
		return w.renaming(s, key, have)
	case r < 18 && len(have.Items) <= s.most:
		return w.copying(s, key, have)
	case r < 23:
		return w.expiring(s, key, have)
	case t == nil:
		return w.change(s, key, have)
	case t.removeMany != nil && r < 31 && len(have.Items) > 0:
		return w.deletionOfMany(t, key, have, s.most)
	case t.remove != nil && r < 38 && len(have.Items) > 0:
		return w.deletion(t, key, have)
	case t.compact != nil && r < 40:
		return w.compaction(t, key, have)
	case have.room() < s.most:
		return w.removal(s, key)
	case r < 60:
		return w.add(t, key, have)
	default:
		return w.addMany(t, key, have, s.most)
	}
}

func integer(n int) string { return fmt.Sprintf("(integer) %d", n) }

// creation makes a string or a filter, of one block, of a dozen, of thousands, or one that grows.
func (w *worker) creation(s *scene, key string) operation {
	t := types[typeNames[w.rng.IntN(len(typeNames))]]
	if t == nil {
		return w.set(s, key)
	}
	to, capacity, expansion := w.size(t)
	return operation{
		words: t.reserveWords(key, capacity, expansion), want: "OK",
		api: func(a api) error { return t.reserve(a, key, capacity, expansion) },
		to:  map[string]*data{key: &to},
	}
}

func (w *worker) size(t *filterType) (to data, capacity uint64, expansion uint32) {
	if t.name == "bloom" && w.layout == scalableext.LayoutCompatible {
		// A smaller one finds some items that were not added, however low its rate: so few are the pairs of positions.
		return data{Type: t.name, Capacity: 20_000}, 20_000, 0
	}
	if t.name == "cuckoo" && w.layout == scalableext.LayoutCompatible {
		return data{Type: t.name, Capacity: compatibleCuckoo}, compatibleCuckoo, 0
	}
	if w.rng.IntN(2) == 0 {
		// 64 layers of 20 take all items.
		return data{Type: t.name, Capacity: math.MaxInt}, 20 + w.rng.Uint64N(40), 1 + w.rng.Uint32N(4)
	}
	n := []int{400, 20_000}[w.rng.IntN(2)]
	if t.name == "bloom" && w.roomy && w.rng.IntN(2) == 0 {
		n = wideCapacity
	}
	return data{Type: t.name, Capacity: n}, uint64(n), 0
}

func (w *worker) set(s *scene, key string) operation {
	to := data{Type: stringType, Value: string(w.newItems(1)[0]) + strings.Repeat("x", w.rng.IntN(200))}
	o := operation{words: []string{"SET", key, to.Value}, want: "OK", to: map[string]*data{key: &to}}
	if w.rng.IntN(4) == 0 {
		to.Expiry = w.expiry(s.now)
		o.words = append(o.words, "PXAT", fmt.Sprint(to.Expiry))
	}
	o.api = func(a api) error { return a.set(key, to.Value, to.Expiry) }
	return o
}

// change changes a string in place, most often where its form changes or over the border of two blocks. The string stays
// valid UTF-8, and so what tells of it can be JSON.
func (w *worker) change(s *scene, key string, have data) operation {
	offset := []int{w.rng.IntN(len(have.Value) + 1), 1020, 8185, 8195}[w.rng.IntN(4)]
	tail := string(w.newItems(1)[0]) + strings.Repeat("y", w.rng.IntN(30))
	to := have
	var o operation
	keys := [][]byte{[]byte(key)}
	var stage func(w *kv.Writer) error
	switch r := w.rng.IntN(5); {
	case r == 0 || len(have.Value) > 20_000:
		return w.set(s, key)
	case r == 1:
		n := 8*offset + 1 + w.rng.IntN(7)
		value := extended(have.Value, offset+1)
		old := int(value[offset] >> (7 - n%8) & 1)
		value[offset] ^= 0x80 >> (n % 8)
		to.Value = string(value)
		o.words, o.want = []string{"SETBIT", key, fmt.Sprint(n), fmt.Sprint(1 - old)}, integer(old)
		stage = func(w *kv.Writer) error {
			was, err := bitmapext.SetBit(background, w, []byte(key), uint64(n), old == 0)
			return errors.Join(err, expect(err != nil || was == (old == 1), fmt.Sprintf("bit %d was %v", n, was)))
		}
	case r == 2:
		to.Value += tail
		o.words, o.want = []string{"APPEND", key, tail}, integer(len(to.Value))
		stage = func(w *kv.Writer) error {
			_, err := bitmapext.Append(background, w, []byte(key), []byte(tail))
			return err
		}
	case r == 3:
		other := s.keys[w.rng.IntN(len(s.keys))]
		if d, ok := s.held[other]; !ok || d.Type != stringType {
			other = key
		}
		from := s.held[other].Value
		value := extended(have.Value, len(from))
		for i := range len(from) {
			value[i] |= from[i]
		}
		to.Value, to.Expiry = string(value), 0
		o.words, o.want = []string{"BITOP", "OR", key, key, other}, integer(len(value))
		stage = func(w *kv.Writer) error {
			_, err := bitmapext.Store(background, w, bitmapext.Or, []byte(key), []byte(key), []byte(other))
			return err
		}
		keys = append(keys, []byte(other))
	default:
		value := extended(have.Value, offset+len(tail))
		copy(value[offset:], tail)
		to.Value = string(value)
		o.words, o.want = []string{"SETRANGE", key, fmt.Sprint(offset), tail}, integer(len(value))
		stage = func(w *kv.Writer) error {
			_, err := bitmapext.SetRange(background, w, []byte(key), uint64(offset), []byte(tail))
			return err
		}
	}
	o.api = func(a api) error { return a.write(keys, stage) }
	o.to = map[string]*data{key: &to}
	return o
}

// extended returns the bytes of a string, with zeros behind it if it is shorter than n.
func extended(s string, n int) []byte { return append([]byte(s), make([]byte, max(0, n-len(s)))...) }

// expiry returns a time that may come, or not.
func (w *worker) expiry(now int64) int64 { return now + 1 + w.rng.Int64N(20_000) }

func (w *worker) removal(s *scene, key string) operation {
	o := operation{words: []string{"DEL", key}, to: map[string]*data{key: nil}}
	n := 1
	if other := s.keys[w.rng.IntN(len(s.keys))]; other != key && w.rng.IntN(3) == 0 {
		o.words, o.to[other] = append(o.words, other), nil
		if _, ok := s.held[other]; ok {
			n = 2
		}
	}
	o.want = integer(n)
	o.api = func(a api) error {
		got, err := a.remove(o.words[1:]...)
		return errors.Join(err, expect(err != nil || got == n, fmt.Sprintf("%d keys were there, not %d", got, n)))
	}
	return o
}

func (w *worker) renaming(s *scene, key string, have data) operation {
	dst := s.keys[w.rng.IntN(len(s.keys))]
	return rename(key, dst, have)
}

func rename(src, dst string, have data) operation {
	o := operation{words: []string{"RENAME", src, dst}, want: "OK", to: map[string]*data{src: nil}}
	o.to[dst] = &have // also if that is src
	o.api = func(a api) error { return a.rename(src, dst) }
	return o
}

func (w *worker) copying(s *scene, key string, have data) operation {
	dst := s.keys[w.rng.IntN(len(s.keys))]
	if dst == key {
		return w.expiring(s, key, have)
	}
	if have.Type != stringType {
		have.Value = "" // attributes are not copied
	}
	return operation{
		words: []string{"COPY", key, dst, "REPLACE"}, want: integer(1), to: map[string]*data{dst: &have},
		api: func(a api) error {
			done, err := a.copy(key, dst)
			return errors.Join(err, expect(err != nil || done, "nothing was copied"))
		},
	}
}

func (w *worker) expiring(s *scene, key string, have data) operation {
	have.Expiry = w.expiry(s.now)
	return operation{
		words: []string{"PEXPIREAT", key, fmt.Sprint(have.Expiry)}, want: integer(1), to: map[string]*data{key: &have},
		api: func(a api) error {
			done, err := a.expire(key, have.Expiry)
			return errors.Join(err, expect(err != nil || done, "the key was missing"))
		},
	}
}

func (w *worker) add(t *filterType, key string, have data) operation {
	items := w.newItems(1)
	return operation{
		words: []string{t.addCommand, key, string(items[0])}, want: integer(1),
		to: map[string]*data{key: have.with(items)}, added: items,
		api: func(a api) error {
			added, err := t.open(a, key).Add(items[0])
			return errors.Join(err, expect(err != nil || added, "a new item was found"))
		},
	}
}

func (w *worker) deletion(t *filterType, key string, have data) operation {
	i := w.rng.IntN(len(have.Items))
	item := have.Items[i]
	return operation{
		words: []string{t.removeCommand, key, string(item)}, want: integer(1), to: map[string]*data{key: have.without(i)},
		api: func(a api) error {
			there, err := t.remove(a, key, item)
			return errors.Join(err, expect(err != nil || there, "an item was forgotten"))
		},
	}
}

// deletionOfMany deletes items that follow on each other, in any order.
func (w *worker) deletionOfMany(t *filterType, key string, have data, most int) operation {
	n := 1 + w.rng.IntN(min(most, len(have.Items)))
	i, left := w.rng.IntN(len(have.Items)-n+1), &have
	items := slices.Clone(have.Items[i : i+n])
	w.rng.Shuffle(n, func(a, b int) { items[a], items[b] = items[b], items[a] })
	o := operation{words: []string{t.removeManyCommand, key}}
	replies := make([]reply.Reply, n)
	for j, item := range items {
		left = left.without(i)
		o.words = append(o.words, string(item))
		replies[j] = reply.Int(1)
	}
	o.want, o.to = text(reply.Array(replies...)), map[string]*data{key: left}
	o.api = func(a api) error { return t.removeMany(a, key, items) }
	return o
}

// compaction changes nothing that can be seen.
func (w *worker) compaction(t *filterType, key string, have data) operation {
	return operation{
		words: []string{t.compactCommand, key}, want: "OK", to: map[string]*data{key: &have},
		api: func(a api) error { return t.compact(a, key) },
	}
}

func (w *worker) addMany(t *filterType, key string, have data, most int) operation {
	items := w.newItems(1 + w.rng.IntN(most))
	o := operation{words: t.addManyWords(key), to: map[string]*data{key: have.with(items)}, added: items}
	replies := make([]reply.Reply, len(items))
	for i, item := range items {
		o.words = append(o.words, string(item))
		replies[i] = reply.Int(1)
	}
	o.want = text(reply.Array(replies...))
	o.api = func(a api) error {
		added := make([]bool, len(items))
		_, err := t.open(a, key).AddMany(items, added)
		return errors.Join(err, expect(err != nil || !slices.Contains(added, false), "a new item was found"))
	}
	return o
}

func text(r reply.Reply) string { return strings.TrimSpace(string(reply.AppendText(nil, r))) }

// errReply is a reply that is not the one foretold.
var errReply = errors.New("unexpected reply")

// failureOf returns the error that a failed store has put into words, or nil.
func failureOf(r reply.Reply) error {
	for _, known := range []error{kv.ErrFailed, kv.ErrNoSpace} {
		if r.IsError() && strings.Contains(r.Err().Error(), strings.TrimPrefix(known.Error(), "kv: ")) {
			return fmt.Errorf("%w: %w", known, r.Err())
		}
	}
	return nil
}

// do runs a command and compares the reply.
func do(s *module.Session, words []string, want string) error {
	args := make([][]byte, len(words))
	for i, word := range words {
		args[i] = []byte(word)
	}
	r := s.Do(background, args)
	if err := failureOf(r); err != nil {
		return err
	}
	if got := text(r); got != want {
		return fmt.Errorf("%w to %.200q: %s, want %s", errReply, words, got, want)
	}
	return nil
}

// run makes one commit of operations, in a way drawn by how.
func (w *worker) do(level kv.Durability, how int, list []operation) error {
	switch {
	case len(list) == 1 && how%3 == 0:
		return list[0].api(api{db: w.db, level: level})
	case len(list) == 1 && how%3 == 1:
		return do(w.session(level), list[0].words, list[0].want)
	case how%2 == 0:
		return txntest.Update(background, w.db, level, func(tx *txntest.Tx) error {
			for _, o := range list {
				if err := o.api(api{db: w.db, tx: tx}); err != nil {
					return fmt.Errorf("%s: %w", o, err)
				}
			}
			return nil
		})
	default:
		return w.exec(w.session(level), list)
	}
}

func (w *worker) session(level kv.Durability) *module.Session {
	s := module.NewSession(w.db)
	s.Durability = level
	return s
}

// exec runs operations by MULTI and EXEC.
func (w *worker) exec(s *module.Session, list []operation) error {
	if err := queue(s, list); err != nil {
		return err
	}
	r := s.Do(background, [][]byte{[]byte("EXEC")})
	if err := failureOf(r); err != nil {
		return err
	}
	if len(r.Elems()) != len(list) {
		return fmt.Errorf("%w to EXEC of %d commands: %s", errReply, len(list), text(r))
	}
	for i, o := range list {
		if got := text(r.Elems()[i]); got != o.want {
			return fmt.Errorf("%w to %s: %s, want %s", errReply, o, got, o.want)
		}
	}
	return nil
}
