package guard

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"time"
)

// An entry is what the cache has for an id. Stored, in the store or in Options.Cache:
//
//	offset  size  field
//	0       1     kind: 1 a value, 2 the id is absent; readers take any other for a missing entry
//	1       8     born: before the value was read from the source, in Unix milliseconds, little-endian
//	9       2     share: the entry has (share+1)/65536 of the options' times, little-endian
//	11      n     the value; nothing if the id is absent
//
// Times are computed from born when the entry is read. So a change of the options holds for existing entries, too.
type entry struct {
	kind  byte
	share uint16
	born  int64
	value []byte

	age int64 // when it was read from the cache, in milliseconds by the store's clock; not stored
}

const (
	kindValue  = 1
	kindAbsent = 2

	headerBytes = 11
)

// append appends the stored form.
func (e *entry) append(b []byte) []byte {
	b = append(b, e.kind)
	b = binary.LittleEndian.AppendUint64(b, uint64(e.born))
	b = binary.LittleEndian.AppendUint16(b, e.share)
	return append(b, e.value...)
}

// decodeEntry returns an entry whose value is part of b. Bytes that are no entry become an entry of kind 0, which
// counts as missing.
func decodeEntry(b []byte) (e entry) {
	if len(b) < headerBytes || b[0] != kindValue && b[0] != kindAbsent {
		return entry{}
	}
	return entry{
		kind: b[0], born: int64(binary.LittleEndian.Uint64(b[1:])), share: binary.LittleEndian.Uint16(b[9:]),
		value: b[headerBytes:len(b):len(b)],
	}
}

// newEntry returns an entry with a random share of the times.
func (g *Guard) newEntry(value []byte, born int64) entry {
	share := 1 - g.opts.Jitter*rand.Float64() // above 1-Jitter, at most 1
	return entry{kind: kindValue, born: born, value: value, share: uint16(math.Ceil(share*65536) - 1)}
}

// newAbsent is newEntry for an id that is absent.
func (g *Guard) newAbsent(born int64) entry {
	e := g.newEntry(nil, born)
	e.kind = kindAbsent
	return e
}

// state says what an entry of some age is good for.
type state uint8

const (
	missing state = iota // nothing
	stale                // served only if the source cannot be asked
	soft                 // served, while one load refreshes it
	fresh                // served
	absent               // the id is absent
)

// slack is how far in the future an entry may have been born, in milliseconds: another goroutine may have written it
// after this one has looked at the clock. If the clock was set back further, nothing is known of the entry's age.
const slack = 1000

// at returns the state at an age, in milliseconds.
func (e *entry) at(age int64, o *Options) state {
	switch {
	case e.kind == 0 || age < -slack:
		return missing
	case e.kind == kindAbsent:
		if age < e.part(o.NullTTL) {
			return absent
		}
		return missing
	case age < e.part(o.SoftTTL):
		return fresh
	case age < e.part(o.TTL):
		return soft
	case age < e.part(o.TTL)+o.MaxStale.Milliseconds():
		return stale
	}
	return missing
}

// part returns the entry's part of a time, in milliseconds.
func (e *entry) part(d time.Duration) int64 {
	return int64(float64(d.Milliseconds()) * (float64(e.share) + 1) / 65536)
}

// lifetime returns for how long after its birth an entry is good for anything. It may be 0.
func (e *entry) lifetime(o *Options) time.Duration {
	ms := e.part(o.NullTTL)
	if e.kind == kindValue {
		ms = e.part(o.TTL) + o.MaxStale.Milliseconds()
	}
	return inMilli(ms)
}
