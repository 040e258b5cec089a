package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// truth is what the store must have.
type truth struct {
	counts
	db      *sievekv.DB
	objects []object // object i belongs to writer i % writers, which alone changes it
}

// object is one key.
type object struct {
	mu sync.RWMutex // held by its writer while it changes, and by readers
	state
}

// state is what a key must have.
type state struct {
	kind    int // index of kinds, while there
	there   bool
	renamed int       // how often: part of the key's name
	batch   uint64    // the items have this number, from deleted to items
	deleted int       // a first part of the items that was deleted
	items   int       // one after the last
	expires time.Time // zero for never; from then on the key is not there
	unsure  time.Time // with expires: until then the key may be there or not
}

// kind is a type of key, with the commands for it. Items are numbers, in decimal.
type kind struct {
	name string
	add  func(key string, items []string) []string
	has  func(key, item string) []string
	del  func(key, item string) []string // nil where items cannot be deleted
}

func words(first ...string) func(string, []string) []string {
	return func(key string, items []string) []string {
		line := append([]string{first[0], key}, first[1:]...)
		return append(line, items...)
	}
}

func one(name string) func(key, item string) []string {
	return func(key, item string) []string { return []string{name, key, item} }
}

var kinds = []kind{
	{"bloom", words("BF.INSERT", "CAPACITY", "100", "ITEMS"), one("BF.EXISTS"), nil},
	{"bloom for many", words("BF.INSERT", "CAPACITY", "20000", "ERROR", "0.001", "NONSCALING", "ITEMS"), one("BF.EXISTS"), nil},
	{"cuckoo", words("CF.INSERT", "CAPACITY", "200", "ITEMS"), one("CF.EXISTS"), one("CF.DEL")},
	{"counting", words("CBF.INSERT", "CAPACITY", "200", "ITEMS"), one("CBF.EXISTS"), one("CBF.DEL")},
	{
		"bitmap",
		func(key string, items []string) []string {
			line := []string{"BITFIELD", key}
			for _, item := range items {
				line = append(line, "SET", "u1", bitOf(item), "1")
			}
			return line
		},
		func(key, item string) []string { return []string{"GETBIT", key, bitOf(item)} },
		func(key, item string) []string { return []string{"SETBIT", key, bitOf(item), "0"} },
	},
	{
		"string",
		func(key string, items []string) []string { return []string{"SET", key, items[len(items)-1]} },
		func(key, _ string) []string { return []string{"EXISTS", key} },
		nil,
	},
}

// bitOf returns the bit for an item. The items of a batch have different bits, in up to 128 blocks.
func bitOf(item string) string {
	n, err := strconv.ParseUint(item, 10, 64)
	if err != nil {
		panic(err)
	}
	return strconv.FormatUint(n%batchSize*2654435761%(1<<23), 10)
}

// batchSize is above the number of items of a batch.
const batchSize = 1_000_000

// item is an item of a batch.
func item(batch uint64, n int) string { return strconv.FormatUint(batch%1000*batchSize+uint64(n), 10) }

func (o *state) key(i int) string { return fmt.Sprintf("object:%d:%d", i, o.renamed) }

type session struct {
	t *truth
	s *module.Session
}

func (t *truth) newSession() session { return session{t, module.NewSession(t.db.Store())} }

func (s session) do(ctx context.Context, line ...string) reply.Reply {
	args := make([][]byte, len(line))
	for i := range line {
		args[i] = []byte(line[i])
	}
	return s.s.Do(ctx, args)
}

// must is do for a command that must not fail.
func (s session) must(line ...string) reply.Reply {
	r := s.do(context.Background(), line...)
	if r.IsError() {
		s.t.report("%s %s: %s", line[0], line[1], r.Bytes())
	}
	return r
}

// write changes the writer's objects, one after the other, until ctx has ended or the rounds are done.
func (t *truth) write(ctx context.Context, r *rand.Rand, writer, rounds int) {
	s := t.newSession()
	for n := 0; ctx.Err() == nil && (rounds == 0 || n < rounds); n++ {
		i := r.IntN(len(t.objects)/writers)*writers + writer
		t.change(s, r, &t.objects[i], i)
		t.changes.Add(1)
	}
}

// change makes one step in the life of an object.
func (t *truth) change(s session, r *rand.Rand, o *object, i int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if !o.expires.IsZero() {
		if now.Before(o.unsure) {
			return // let it expire
		}
		if n := s.must("EXISTS", o.key(i)).Int(); n != 0 {
			t.report("%s is there %s after it has expired", o.key(i), now.Sub(o.unsure))
		}
		o.there, o.expires, o.unsure = false, time.Time{}, time.Time{}
	}
	if !o.there {
		o.state = stateAfter(&o.state, r)
		t.add(s, r, o, i)
		return
	}
	switch k := kinds[o.kind]; r.IntN(10) {
	case 0, 1:
		if n := s.must("DEL", o.key(i)).Int(); n != 1 {
			t.report("DEL %s answers %d", o.key(i), n)
		}
		o.there = false
	case 2:
		ttl := time.Duration(1+r.IntN(3000)) * time.Millisecond
		o.expires = now.Add(ttl - time.Millisecond) // the store counts whole milliseconds
		if n := s.must("PEXPIRE", o.key(i), strconv.FormatInt(ttl.Milliseconds(), 10)).Int(); n != 1 {
			t.report("PEXPIRE %s answers %d", o.key(i), n)
		}
		o.unsure = time.Now().Add(ttl)
	case 3, 4:
		from := o.key(i)
		o.renamed++
		s.must("RENAME", from, o.key(i))
	case 5:
		if k.del == nil {
			t.add(s, r, o, i)
			return
		}
		for range min(20, o.items-o.deleted) {
			s.must(k.del(o.key(i), item(o.batch, o.deleted))...)
			o.deleted++
		}
	default:
		t.add(s, r, o, i)
	}
}

// stateAfter returns the state of an object to be made in place of one that is gone.
func stateAfter(gone *state, r *rand.Rand) state {
	return state{kind: r.IntN(len(kinds)), there: true, renamed: gone.renamed % 1000, batch: gone.batch + 1}
}

// add adds some items to an object, seldom many.
func (t *truth) add(s session, r *rand.Rand, o *object, i int) {
	n := 1 + r.IntN(100)
	if r.IntN(200) == 0 {
		n = 5000
	}
	if n = min(n, 15_000-o.items); n <= 0 {
		return
	}
	items := make([]string, n)
	for j := range items {
		items[j] = item(o.batch, o.items+j)
	}
	s.must(kinds[o.kind].add(o.key(i), items)...)
	o.items += n
}

// read looks for items that must be there, and for keys, until ctx has ended.
func (t *truth) read(ctx context.Context, r *rand.Rand) {
	s := t.newSession()
	for ctx.Err() == nil {
		i := r.IntN(len(t.objects))
		t.look(s, r, &t.objects[i], i)
		t.lookups.Add(1)
	}
}

func (t *truth) look(s session, r *rand.Rand, o *object, i int) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	switch {
	case !o.there:
		if n := s.must("EXISTS", o.key(i)).Int(); n != 0 {
			t.report("%s is there, and was deleted", o.key(i))
		}
	case o.items > o.deleted:
		x := item(o.batch, o.deleted+r.IntN(o.items-o.deleted))
		found := s.must(kinds[o.kind].has(o.key(i), x)...).Int()
		if found != 1 && (o.expires.IsZero() || time.Now().Before(o.expires)) {
			t.report("%s, a %s with %d items, has no item %s", o.key(i), kinds[o.kind].name, o.items-o.deleted, x)
		}
	}
}
