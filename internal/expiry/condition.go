package expiry

// If says for which keys Expire sets a new time, judging by the time that they have. The conditions can be combined as in
// Redis: IfSet with one of the last two.
type If uint8

// The conditions. A key without an expiry counts as expiring later than any other.
const (
	Always  If = 0
	IfUnset If = 1 << iota // the key does not expire
	IfSet                  // the key expires
	IfLater                // the new time is later than the key's
	IfSooner
)

// Holds reports whether a condition holds for a key that expires at old, 0 for never, and a new time.
func (c If) Holds(old, at int64) bool {
	switch {
	case c&IfUnset != 0 && old != 0,
		c&IfSet != 0 && old == 0,
		c&IfLater != 0 && (old == 0 || at <= old),
		c&IfSooner != 0 && old != 0 && at >= old:
		return false
	}
	return true
}
