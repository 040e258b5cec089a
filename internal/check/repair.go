package check

import (
	"fmt"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
)

// Repair adds changes to a batch that mend those problems found by Run that need no guessing, and reports whether there
// is anything to mend. What it mends is in Report.Repaired. If something could not be read, it mends nothing: an object
// whose header is lost looks like one that no key has.
func (c *Checker) Repair(b *storage.Batch) bool {
	if !c.Whole() {
		c.Report.Notes = append(c.Report.Notes, "nothing was repaired, as some of the store cannot be read")
		return false
	}
	for _, id := range c.orphans {
		b.DeleteRange(format.AppendObjectKey(nil, id), format.AppendObjectKey(nil, id+1))
		b.Set(format.AppendDroppedKey(nil, id), nil)
		c.repaired("object %d, which no key has: removed", id)
	}
	for _, n := range c.lostNotes {
		b.Set(n.key, n.value)
		at, key, _ := format.DecodeExpiryKey(n.key)
		c.repaired("key %q: noted that it expires at %d", key, at)
	}
	for _, key := range c.badNotes {
		b.Delete(key)
		c.repaired("note %x of an expiry, which no key needs: removed", key)
	}
	for _, note := range c.lostWakes {
		b.Set(note, nil)
		at, key, _ := format.DecodeWakeKey(note)
		c.repaired("key %q: noted that it is to be compacted at %d", key, at)
	}
	for _, note := range c.badWakes {
		b.Delete(note)
		c.repaired("note %x of when to compact a key, which no key needs: removed", note)
	}
	for i, n := range c.Found {
		if n != c.Counts[i] {
			b.Set(format.AppendKeyCountKey(nil, uint8(i)), format.AppendKeyCounts(nil, n))
			c.repaired("group %d: the counts say %d keys and %d that expire in place of %d and %d", i,
				n.Keys, n.Expiring, c.Counts[i].Keys, c.Counts[i].Expiring)
		}
	}
	return !b.Empty()
}

func (c *Checker) repaired(form string, args ...any) {
	c.Report.Repaired = append(c.Report.Repaired, fmt.Sprintf(form, args...))
}
