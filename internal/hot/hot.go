// Package hot keeps strings in memory that were read or written lately: the values of keys, with their expiries. A
// lookup that finds its key here need not ask Pebble.
//
// An entry is never stale: an entry that lookups find has the value that Pebble has.
//
//   - A commit calls Begin for each key that it changes, before it goes to Pebble, and End when Pebble has applied it,
//     before it is acknowledged. Between the two calls lookups do not find the key here. They ask Pebble, which has
//     the old value or the new one, and never the old one after the new one.
//   - A lookup that does not find its key gets a Token from Get, before it asks Pebble. Fill keeps what Pebble
//     answered only if no commit of the shard was between Begin and End at the time of the Token, and none has begun
//     since. So no commit has changed the key between the answer and Fill.
//   - The caller makes sure that no two commits that change a key overlap.
//
// The cache of a store that was empty at first also knows of keys that are missing. It counts the keys that Pebble has,
// and keeps an entry without a value for a key whose value it may not keep. While no commit is between Begin and End,
// and there are as many entries as keys, each key has an entry: a key without one is missing. That makes the first SET
// of a key as fast as the next: in a store of a million keys on disk it takes a tenth of the time, and a GET of a
// missing key a seventieth (BenchmarkMissingKey of package kv). The cache does not trust a count that another process
// has stored: in a store that was not empty, no key counts as missing until a commit has removed all keys.
//
// The memory is bounded: the entries of a shard lie in one ring of bytes, without pointers, and an index of buckets
// leads to them. When the ring is full, the oldest entry has to go. If it was found since it was put there, it goes
// to the front of the ring instead.
package hot

import (
	"math"
	"sync"
)

// Cache keeps strings by key. A nil Cache keeps nothing. Any goroutine may call its methods.
type Cache struct {
	shards []shard
	shift  uint // the bits of a hash that do not choose the shard
	limits limits
}

// Token is what Get returns to a lookup that has to ask Pebble. It is 0 if the answer must not be kept.
type Token uint64

// maxShards is the most shards, and leastShare the least memory for each of several.
const (
	maxShards  = 256
	leastShare = 64 << 10
)

// New returns a cache that takes at most budget bytes of memory; nil if these are too few to be of use. Empty says that
// Pebble has no keys.
func New(budget int64, empty bool) *Cache {
	const least = 4 << 10
	if budget < least {
		return nil
	}
	n, shift := 1, uint(64)
	for n < maxShards && budget/int64(2*n) >= leastShare {
		n, shift = 2*n, shift-1
	}
	c := &Cache{shards: make([]shard, n), shift: shift, limits: limitsOf(budget / int64(n))}
	for i := range c.shards {
		c.shards[i].version = 1 // a Token is not 0
		if !empty {
			c.shards[i].total = uncounted
		}
	}
	return c
}

func (c *Cache) shardOf(hash uint64) *shard {
	return &c.shards[hash>>c.shift] // with one shard the shift is 64, which leaves 0
}

// Found is what a lookup finds out about a key.
type Found uint8

// What Get can answer.
const (
	Unknown Found = iota // Pebble has to be asked
	String               // the key has the string that Get returns
	Nothing              // Pebble has nothing under the key
)

// Get looks a key up. It appends the string under the key to dst, and returns it with the key's expiry. If the answer
// is Unknown, it returns a Token for Fill. The caller always passes the same hash with a key.
func (c *Cache) Get(hash uint64, key, dst []byte) (found Found, value []byte, expiry int64, t Token) {
	if c == nil {
		return Unknown, nil, 0, 0
	}
	s := c.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, value, expiry, t = s.get(hash, key, dst); found == Unknown {
		s.misses++
	}
	return found, value, expiry, t
}

// Try is Get for a caller that calls Get, too, if the answer is Unknown: only Get counts a lookup that does not find its
// key.
func (c *Cache) Try(hash uint64, key, dst []byte) (found Found, value []byte, expiry int64) {
	if c == nil {
		return Unknown, nil, 0
	}
	s := c.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	found, value, expiry, _ = s.get(hash, key, dst)
	return found, value, expiry
}

// get is Get without the count of misses. The caller holds mu.
func (s *shard) get(hash uint64, key, dst []byte) (found Found, value []byte, expiry int64, t Token) {
	i := s.find(hash, key)
	switch {
	case i >= 0 && s.slots[i].changing():
	case i >= 0:
		if e := s.slots[i].entry(&s.store); e.flag(isString) {
			s.hits++
			e.set(touched)
			return String, append(dst, e.value()...), e.expiry(), 0
		}
	case s.commits > 0:
	case s.total == int64(s.n):
		s.hits++
		return Nothing, nil, 0, 0
	default:
		t = s.version
	}
	return Unknown, nil, 0, t
}

// Fill keeps what Pebble has under a key, unless a commit of the shard came after the Token. If it is not a string
// that the cache may keep, keep is false.
func (c *Cache) Fill(t Token, hash uint64, key, value []byte, expiry int64, keep bool) {
	if c == nil || t == 0 {
		return
	}
	s := c.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version == t && s.find(hash, key) < 0 {
		s.put(&c.limits, hash, key, value, expiry, keep)
	}
}

// Begin is called before a commit that changes a key goes to Pebble. End has to follow, whatever becomes of the
// commit.
func (c *Cache) Begin(hash uint64, key []byte) {
	if c == nil {
		return
	}
	s := c.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin()
	if i := s.find(hash, key); i >= 0 {
		s.slots[i] |= changing
	}
}

// Change says what a commit has done to a key.
type Change struct {
	Had, Has bool // something was under the key before the commit, and is after it

	// Value and Expiry belong to the string under the key. If the cache may not keep it, or if there is none, Keep is
	// false.
	Value  []byte
	Expiry int64
	Keep   bool
}

// End is called when Pebble has applied a commit. Known is false if the commit has failed: then what is under the key
// is not known.
func (c *Cache) End(hash uint64, key []byte, now Change, known bool) {
	if c == nil {
		return
	}
	s := c.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits--
	if !known {
		s.total = uncounted
	} else if now.Has != now.Had {
		s.total += count(now.Has) - count(now.Had)
	}
	if i := s.find(hash, key); i >= 0 {
		if e := s.slots[i].entry(&s.store); known && now.Keep && e.replace(now.Value, now.Expiry) {
			s.slots[i] &^= changing
			return
		}
		s.drop(i)
	}
	if known && now.Has {
		s.put(&c.limits, hash, key, now.Value, now.Expiry, now.Keep)
	}
}

func count(there bool) int64 {
	if there {
		return 1
	}
	return 0
}

// BeginAll is called before a commit that removes all keys goes to Pebble. It empties the cache.
func (c *Cache) BeginAll() {
	if c == nil {
		return
	}
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.begin()
		s.store = store{}
		s.mu.Unlock()
	}
}

// EndAll follows BeginAll, before the End of keys that the same commit has set. If known is false, there may be any keys.
func (c *Cache) EndAll(known bool) {
	if c == nil {
		return
	}
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.commits--
		s.total = uncounted
		if known {
			s.total = 0
		}
		s.mu.Unlock()
	}
}

// Stats are the counts of a cache.
type Stats struct {
	Budget, Used int64  // bytes
	Keys         int    // kept now
	Hits, Misses uint64 // lookups since the cache was made, or since Reset
}

// Stats returns the counts of the cache.
func (c *Cache) Stats() (t Stats) {
	if c == nil {
		return t
	}
	t.Budget = int64(len(c.shards)) * c.limits.share()
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		t.Used += int64(len(s.ring) + slotBytes*len(s.slots))
		t.Keys += s.n
		t.Hits += s.hits
		t.Misses += s.misses
		s.mu.Unlock()
	}
	return t
}

// Reset sets the counts of hits and misses to 0.
func (c *Cache) Reset() {
	if c == nil {
		return
	}
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.hits, s.misses = 0, 0
		s.mu.Unlock()
	}
}

// shard is the part of a cache for the keys whose hashes begin with the same bits.
type shard struct {
	mu      sync.Mutex
	version Token // goes up with every Begin
	commits int   // commits between Begin and End
	total   int64 // the keys that Pebble has, as of the last End; uncounted if that is not known
	store
	hits, misses uint64
	_            [16]byte // keeps neighbours in other cache lines
}

// uncounted is more than the entries of a shard will ever be, whatever commits add or remove.
const uncounted = math.MaxInt64 / 2

func (s *shard) begin() {
	s.version++
	s.commits++
}
