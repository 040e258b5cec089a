package main

// What threads do, step by step. A step is what a processor does at once, or what a lock keeps others from seeing in
// parts.

// op is what a thread runs.
type op uint8

const (
	has         op = iota // a lookup
	known                 // an add of an item that the filter has: it writes nothing if it finds the item
	row                   // a lookup of a row in memory
	add                   // a commit of bits
	addAway               // the same, under the second key
	both                  // a commit of a row, and of bits under the first key
	move                  // a commit that moves the item within a block of slots
	remove                // a commit that deletes the item from a block of slots
	moveLayers            // a commit that moves the item from one layer to the other
	grow                  // a commit that puts one larger layer in the place of two
	turn                  // a commit that drops a slice of a window and begins another
	rename                // a commit that moves the filter from the first key to the second
	renameBack            // the other way
	remake                // a commit that deletes the filter, and makes an empty one
	refill                // a commit that deletes the filter, and makes one with the item
	drop                  // a commit that deletes the filter
	persist               // a commit that takes away an expiry
	sweep                 // a commit that deletes the filter if it has expired
	evictBlock            // a block is taken out of memory
	evictObject           // a filter is closed to save memory
	tick                  // the time goes on
	tickBack              // the clock is set back
	fail                  // the store fails or is closed
)

var opNames = []string{
	"has", "known", "row", "add", "addAway", "both", "move", "remove", "moveLayers", "grow", "turn", "rename", "renameBack", "remake", "refill", "drop",
	"persist", "sweep", "evictBlock", "evictObject", "tick", "tickBack", "fail",
}

func (o op) String() string { return opNames[o] }

func (o op) lookup() bool { return o <= row }

// slots reports whether the operation changes slots.
func (o op) slots() bool { return o == move || o == remove }

// effect is what the operation does, at the moment at which it does it.
func (o op) effect(t truth) truth {
	if t.closed {
		return t
	}
	k := &t.keys[one(o == addAway)]
	live := k.there && !over(k.expires, t.clock)
	switch o {
	case both, add, addAway:
		t.row = t.row || o == both
		if live && !(k.until != 0 && over(2, t.clock)) { // the newest slice of a window takes items until 2
			k.item = true
			if k.until != 0 {
				k.until = 2
			}
		}
	case remove:
		if live {
			k.item = false
		}
	case rename:
		if live {
			t.keys[1], t.keys[0] = *k, content{}
		}
	case renameBack:
		if from := t.keys[1]; from.there && !over(from.expires, t.clock) {
			t.keys[0], t.keys[1] = from, content{}
		}
	case remake:
		*k = content{there: true}
	case refill:
		*k = content{there: true, item: true}
	case drop:
		*k = content{}
	case persist:
		if live {
			k.expires = 0
		}
	case fail:
		t.closed = true
	}
	return t
}

// without is a set of the steps of protection that are left out.
type without uint32

const (
	wordAtEnd        without = 1 << iota // a lookup that finds nothing looks at the word again
	wordWhenKnown                        // an add that finds its item does so
	busyBefore                           // words are made busy before the first change in memory
	releaseLast                          // words are released after the last change in memory
	expiredAtEnd                         // a lookup that finds that the key has expired looks at the word again
	evictShuts                           // closing an object to save memory shuts its word
	failShuts                            // failing shuts all words
	openLooksAgain                       // opening looks for a failure after the object can be found
	putLooksAgain                        // a commit looks for a failure after what it made can be found
	cancels                              // a commit cancels the load of a block that is not resident
	onlyRegistered                       // a load that was cancelled does not install
	sharesOnlyLive                       // a lookup shares only a load that is registered
	registersMissing                     // a lookup looks for the block once more when it registers a load
	looksTwice                           // a commit looks for the block once more before it cancels
	oddBefore                            // versions are odd before the first change in memory
	notedFirst                           // a lookup notes a version before it reads the block
	versionsAtEnd                        // a lookup that finds nothing looks at the versions again
	keyLock                              // an object is not closed while a writer has its key
)

// explorer explores what threads can do to a state.
type explorer struct {
	without without
	slots   bool // the filters have slots
}

func (x *explorer) skips(w without) bool { return x.without&w != 0 }

// step runs the next step of a thread. It reports false if the thread has none, or has to wait.
func (x *explorer) step(s *state, t int) bool {
	th := &s.threads[t]
	if th.ended {
		return false
	}
	switch o := th.op; {
	case o.lookup():
		return x.lookup(s, t)
	case o == add, o == addAway, o.slots():
		return x.single(s, t)
	case o == evictBlock, o == evictObject, o == tick, o == tickBack, o == fail:
		return x.around(s, t)
	default:
		return x.structural(s, t)
	}
}

// end ends a thread's operation.
func (s *state) end(t int, said answer) {
	th := &s.threads[t]
	th.ended = true
	s.ways = s.ways.grow(s).end(t, th.op, said)
	if len(s.ways) == 0 {
		s.wrong = "thread " + th.op.String() + " answers " + [...]string{"nothing", "absent", "present", "refused"}[said]
	}
}
