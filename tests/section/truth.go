package main

import "slices"

// What is right. A lookup is right if there is a moment between its beginning and its end at which its answer was true;
// and all commits and lookups of a run must have such moments in one order. The order is not guessed beforehand: a run
// carries all ways in which what has begun may have taken effect so far, and each end strikes out those that it
// contradicts.

// truth is what is under the keys, and the time.
type truth struct {
	keys   [2]content
	row    bool // there is a row
	clock  uint8
	closed bool
}

// content is what is under a key. The zero value is none.
type content struct {
	there   bool
	expires uint8 // the time at which the key ceases to exist, 0 for never
	item    bool  // the item is in the filter
	until   uint8 // the time at which the item's slice ceases to count, 0 for never
}

// answer is what a lookup says.
type answer uint8

const (
	undecided answer = iota
	absent
	present
	refused
)

// lookup returns the right answer of a lookup of the item under a key, or of the row.
func (t truth) lookup(o op, key uint8) answer {
	c := t.keys[key]
	switch {
	case t.closed:
		return refused
	case o == row:
		if t.row {
			return present
		}
		return absent
	case c.there && !over(c.expires, t.clock) && c.item && !over(c.until, t.clock):
		return present
	}
	return absent
}

// over reports whether the time has come, at which 0 means never.
func over(at, clock uint8) bool { return at != 0 && at <= clock }

// way is one way in which what has begun has taken effect.
type way struct {
	now     truth
	done    uint8 // the set of operations that have taken effect
	answers [maxThreads]answer
}

// ways are all that are possible, without order.
type ways []way

// grow adds the ways in which operations that have begun, and may have taken effect, have done so.
func (list ways) grow(s *state) ways {
	for i := 0; i < len(list); i++ {
		for t := range s.threads {
			th := &s.threads[t]
			if !th.begun || list[i].done>>t&1 != 0 {
				continue
			}
			next := list[i]
			next.done |= 1 << t
			if th.op.lookup() {
				next.answers[t] = next.now.lookup(th.op, th.key)
			} else {
				next.now = th.op.effect(next.now)
			}
			if !slices.Contains(list, next) {
				list = append(list, next)
			}
		}
	}
	return list
}

// end keeps the ways in which a thread's operation has taken effect, and has had the answer that it gave. A commit that was
// refused has none.
func (list ways) end(t int, op op, said answer) ways {
	if !op.lookup() && said == refused {
		list = slices.DeleteFunc(list, func(w way) bool { return w.done>>t&1 != 0 })
		for i := range list {
			list[i].done |= 1 << t
		}
		return list
	}
	return slices.DeleteFunc(list, func(w way) bool {
		switch {
		case w.done>>t&1 == 0:
			return true
		case !op.lookup(), said == undecided, said == refused: // while the store fails, some lookups are refused before others
			return false
		case op == has && said == present: // a filter may say so of any item
			return w.answers[t] == refused
		}
		return w.answers[t] != said
	})
}

// set makes the time what it is now, in every way.
func (list ways) set(clock uint8) ways {
	for i := range list {
		list[i].now.clock = clock
	}
	return list
}
