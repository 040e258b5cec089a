package main

import "slices"

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
	case both:
		if t.row = true; live {
			k.item = true
		}
	case add, addAway:
		if live {
			k.item = true
			if k.until != 0 {
				k.until = 2 // that of the newest slice
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

// The steps of a lookup.
const (
	fastBegin = iota
	fastWord
	fastClock
	fastVersion
	fastBlock
	fastNote
	fastValid
	slowBegin
	slowFind
	slowLock
	slowRead
	slowPut
	slowAgain
	slowMissing
	slowWord
	slowClock
	slowVersion
	slowBlock
	slowRegister
	slowWait
	slowDisk
	slowInstall
	slowValid
	slowSnapshot
)

// usable reports whether a lookup may begin with an object.
func (o *incarnation) usable() bool { return !o.shut && !o.busy }

// timed reports whether the time matters.
func (h *header) timed() bool { return h.expires != 0 || h.until != [2]uint8{} }

// slow sends a lookup the slow way; an add that has found nothing goes on as a commit, which is not its matter here.
func (s *state) slow(t int) {
	th := &s.threads[t]
	if th.op == known {
		s.end(t, undecided)
		return
	}
	th.step = slowBegin
}

func (x *explorer) lookup(s *state, t int) bool {
	th := &s.threads[t]
	if th.step >= slowBegin {
		return x.slowly(s, t)
	}
	if th.op == row {
		return x.row(s, t)
	}
	if th.step == fastBegin {
		th.object = s.handles[th.key]
	}
	if th.object == 0 {
		th.begun = true
		s.slow(t)
		return true
	}
	o := &s.objects[th.object-1]
	switch th.step {
	case fastBegin:
		th.begun, th.step = true, fastWord
		return x.lookup(s, t)
	case fastWord:
		if !o.usable() {
			s.slow(t)
			break
		}
		th.count, th.layer = o.count, 0
		if th.step = fastVersion; o.timed() {
			th.step = fastClock
		}
	case fastClock:
		th.clock = s.clock
		if th.step = fastVersion; over(o.expires, th.clock) {
			s.slow(t)
		}
	case fastVersion:
		i := x.nextLayer(o, th)
		if i < 0 {
			th.step = fastValid
			return x.lookup(s, t)
		}
		if x.slots && !x.skips(notedFirst) {
			th.versions[i] = s.tables[o.tables[i]].version
			th.step = fastBlock
			break
		}
		th.step = fastBlock
		return x.lookup(s, t)
	case fastBlock:
		b := &s.tables[o.tables[th.layer]]
		if !b.resident {
			s.slow(t)
			break
		}
		if th.item = b.item; th.item && th.op == has {
			s.end(t, present)
			break
		}
		if th.step = fastNote; !x.slots || !x.skips(notedFirst) {
			return x.lookup(s, t)
		}
	case fastNote:
		if x.skips(notedFirst) {
			th.versions[th.layer] = s.tables[o.tables[th.layer]].version
		}
		th.layer++
		if th.step = fastVersion; th.item {
			th.step = fastValid
		}
	case fastValid:
		switch {
		case th.item && (x.valid(s, th, o) || x.skips(wordWhenKnown)):
			s.end(t, present)
		case th.op == known:
			s.end(t, undecided)
		case x.valid(s, th, o):
			s.end(t, absent)
		default:
			s.slow(t)
		}
	}
	return true
}

// row looks a row up in memory, which says what the last commit has left that has put it there.
func (x *explorer) row(s *state, t int) bool {
	th := &s.threads[t]
	switch th.step {
	case 0:
		if s.odd && !s.failed {
			return false
		}
		th.begun, th.step = true, 1
		if s.failed {
			s.end(t, refused)
		}
	case 1:
		said := absent
		if s.row {
			said = present
		}
		s.end(t, said)
	}
	return true
}

// nextLayer returns the place of the next layer that counts, from the one at hand on, or -1.
func (x *explorer) nextLayer(o *incarnation, th *thread) int {
	for ; th.layer < 2; th.layer++ {
		if o.layers[th.layer] != none && !over(o.until[th.layer], th.clock) {
			return int(th.layer)
		}
	}
	return -1
}

// valid reports whether the word and the versions are what they were.
func (x *explorer) valid(s *state, th *thread, o *incarnation) bool {
	if x.slots && !x.skips(versionsAtEnd) {
		for i := range min(int(th.layer), 2) {
			if o.tables[i] != none && (th.versions[i]&1 != 0 || s.tables[o.tables[i]].version != th.versions[i]) {
				return false
			}
		}
	}
	return x.skips(wordAtEnd) || o.usable() && o.count == th.count
}

func (x *explorer) again(s *state, th *thread) {
	th.tries++
	th.step = slowBegin
}

func (x *explorer) slowly(s *state, t int) bool {
	th := &s.threads[t]
	var o *incarnation
	if th.object != 0 {
		o = &s.objects[th.object-1]
	}
	switch th.step {
	case slowBegin:
		if s.odd && !s.failed {
			return false // it waits for the commit
		}
		th.sequence, th.layer, th.versions = s.sequence, 0, [2]uint8{}
		switch th.step = slowFind; {
		case s.failed:
			s.end(t, refused)
		case th.tries == 2:
			th.step = slowSnapshot
		}
	case slowFind:
		th.object = s.open[th.key]
		if th.step = slowWord; th.object == 0 {
			th.step = slowLock
		}
	case slowLock:
		if s.alone {
			return false
		}
		s.shared++
		if th.step = slowRead; s.open[th.key] != 0 {
			th.object = s.open[th.key]
			th.step = slowAgain
		}
	case slowRead:
		th.before = s.stored[th.key]
		if th.step = slowPut; !th.before.there {
			s.shared--
			th.step = slowMissing
		}
	case slowPut:
		switch {
		case s.open[th.key] != 0:
			th.object = s.open[th.key]
			th.step = slowAgain
		default:
			was := s.stored[th.key]
			s.stored[th.key] = th.before
			th.object = s.newObject(th.key, 0)
			s.stored[th.key] = was
			s.open[th.key] = th.object
			th.step = slowAgain
		}
	case slowAgain:
		s.shared--
		if th.step = slowWord; s.failed && !x.skips(openLooksAgain) {
			o.shut = true
		}
	case slowMissing:
		if s.odd || s.sequence != th.sequence {
			x.again(s, th)
			break
		}
		s.end(t, absent)
	case slowWord:
		s.handles[th.key] = th.object
		if !o.usable() {
			x.again(s, th)
			break
		}
		th.count = o.count
		if th.step = slowVersion; o.timed() {
			th.step = slowClock
		}
	case slowClock:
		th.clock = s.clock
		if th.step = slowVersion; over(o.expires, th.clock) {
			if th.step = slowValid; x.skips(expiredAtEnd) {
				s.end(t, absent)
			}
		}
	case slowVersion:
		i := x.nextLayer(o, th)
		if i < 0 {
			th.step = slowValid
			return x.slowly(s, t)
		}
		th.versions[i] = s.tables[o.tables[i]].version
		th.step = slowBlock
		if !x.slots {
			return x.slowly(s, t)
		}
	case slowBlock:
		if b := &s.tables[o.tables[th.layer]]; b.resident {
			x.found(s, t, b.item)
			break
		}
		th.step = slowRegister
	case slowRegister:
		b := &s.tables[o.tables[th.layer]]
		switch {
		case b.resident && !x.skips(registersMissing):
			x.found(s, t, b.item)
		case b.flight != 0:
			x.share(s, th, b.flight)
		case b.cancelled != 0 && x.skips(sharesOnlyLive):
			x.share(s, th, b.cancelled)
		default:
			b.flight = uint8(t) + 1
			th.step = slowDisk
		}
	case slowWait:
		from := &s.threads[th.shares]
		if from.loads <= th.load {
			return false
		}
		x.found(s, t, from.loaded[th.load])
	case slowDisk:
		th.item = s.items[o.layers[th.layer]]
		th.step = slowInstall
	case slowInstall:
		b := &s.tables[o.tables[th.layer]]
		if mine := b.flight == uint8(t)+1; !b.resident && (mine || x.skips(onlyRegistered)) {
			b.resident, b.item = true, th.item
			b.block++
		}
		if b.flight == uint8(t)+1 {
			b.flight = 0
		}
		if b.cancelled == uint8(t)+1 {
			b.cancelled = 0
		}
		th.loaded[th.loads] = th.item
		th.loads++
		x.found(s, t, th.item)
	case slowValid:
		if !x.valid(s, th, o) {
			x.again(s, th)
			break
		}
		s.end(t, absent)
	case slowSnapshot:
		if s.alone || s.shared > 0 {
			return false
		}
		s.end(t, s.disk(th.key))
	}
	return true
}

// share has a thread wait for the load of another.
func (x *explorer) share(s *state, th *thread, flight uint8) {
	th.shares, th.load = flight-1, s.threads[flight-1].loads
	th.step = slowWait
}

// cancel takes back the registration of a load.
func (x *explorer) cancel(b *table) {
	if !x.skips(cancels) && b.flight != 0 {
		b.flight, b.cancelled = 0, b.flight
	}
}

// found goes on with what a block says.
func (x *explorer) found(s *state, t int, item bool) {
	if item {
		s.end(t, present)
		return
	}
	th := &s.threads[t]
	th.layer++
	th.step = slowVersion
}

// disk is the answer of what is stored.
func (s *state) disk(key uint8) answer {
	h := &s.stored[key]
	if s.failed {
		return refused
	}
	if h.there && !over(h.expires, s.clock) {
		for i, layer := range h.layers {
			if layer != none && !over(h.until[i], s.clock) && s.items[layer] {
				return present
			}
		}
	}
	return absent
}

// single runs a commit that changes bits or slots under the first key.
func (x *explorer) single(s *state, t int) bool {
	th := &s.threads[t]
	const (
		lock = iota
		share
		odd
		disk
		look
		cancel
		patch
		settle
		even
	)
	key := one(th.op == addAway)
	h := &s.stored[key]
	var b *table
	if th.step > share {
		b = &s.tables[s.objects[th.object-1].tables[th.layer]]
	}
	adds := th.op == add || th.op == addAway
	switch th.step {
	case lock:
		if s.locked {
			return false
		}
		th.begun, s.locked, th.step = true, true, share
	case share:
		if s.alone {
			return false
		}
		if s.failed {
			s.locked = false
			s.end(t, refused)
			break
		}
		if !h.there || over(h.expires, s.clock) {
			s.locked = false
			s.end(t, undecided)
			break
		}
		s.shared++
		if s.open[key] == 0 {
			s.open[key] = s.newObject(key, 0)
			if s.failed {
				s.objects[s.open[key]-1].shut = true
			}
		}
		th.object = s.open[key]
		if th.layer = 0; th.op.slots() && h.layers[1] != none && s.items[h.layers[1]] {
			th.layer = 1
		}
		if th.step = disk; x.slots && !x.skips(oddBefore) {
			th.step = odd
		}
	case odd:
		b.version++
		th.step = disk
	case disk:
		s.items[h.layers[th.layer]] = th.op != remove && (adds || s.items[h.layers[th.layer]])
		th.step = look
	case look:
		th.block = b.block
		if th.step = patch; !b.resident {
			th.step = cancel
		}
	case cancel:
		if b.resident && !x.skips(looksTwice) {
			th.block, th.step = b.block, patch
			break
		}
		x.cancel(b)
		th.step = even
	case patch:
		was := b.item
		if b.resident && b.block == th.block {
			b.item = adds
		}
		if th.step = even; th.op == move {
			if th.step = settle; !was {
				th.step = even
			}
		}
	case settle:
		if x.skips(oddBefore) {
			b.version++
		}
		if b.resident && b.block == th.block {
			b.item = true
		}
		th.step = even
	case even:
		b.version += b.version & 1
		s.shared--
		s.locked = false
		s.end(t, undecided)
	}
	return true
}

// structural runs a commit that changes more than bits and slots under one key.
func (x *explorer) structural(s *state, t int) bool {
	th := &s.threads[t]
	const (
		lock = iota
		alone
		busy
		disk
		first
		second
		release
		done
	)
	held := func(f func(o *incarnation)) {
		for _, n := range th.held {
			if n != 0 {
				f(&s.objects[n-1])
			}
		}
	}
	makeBusy := func() { held(func(o *incarnation) { o.busy = true }) }
	letGo := func() {
		for _, n := range slices.Concat(th.held[:], th.next[:]) {
			if n != 0 && s.objects[n-1].busy {
				s.objects[n-1].busy = false
				s.objects[n-1].count++
			}
		}
	}
	switch th.step {
	case lock:
		if s.locked {
			return false
		}
		th.begun, s.locked, th.step = true, true, alone
	case alone:
		if s.alone || s.shared > 0 {
			return false
		}
		if s.failed {
			s.locked = false
			s.end(t, refused)
			break
		}
		s.alone, s.odd, th.step = true, true, busy
		th.held[0] = s.open[0]
		if th.op == rename || th.op == renameBack {
			th.held[1] = s.open[1]
		}
	case busy:
		if th.step = disk; !x.skips(busyBefore) {
			makeBusy()
		}
	case disk:
		changed := x.store(s, th.op)
		if th.step = first; !changed {
			th.step = release
		}
		if x.skips(releaseLast) {
			letGo()
		}
	case first:
		x.remember(s, th)
		if th.step = second; x.skips(busyBefore) {
			makeBusy()
		}
	case second:
		x.forget(s, th)
		th.step = release
	case release:
		letGo()
		for _, n := range th.next {
			if n != 0 && s.failed && !x.skips(putLooksAgain) {
				s.objects[n-1].shut = true
			}
		}
		th.step = done
	case done:
		s.odd, s.alone, s.locked = false, false, false
		s.sequence++
		s.end(t, undecided)
	}
	return true
}

// store stores what a commit changes, and reports whether that is anything.
func (x *explorer) store(s *state, o op) bool {
	k := &s.stored[0]
	live := func(h *header) bool { return h.there && !over(h.expires, s.clock) }
	switch o {
	case both:
		if live(k) {
			s.items[k.layers[0]] = true
		}
	case moveLayers:
		if !live(k) || k.layers[1] == none || !s.items[k.layers[1]] {
			return false
		}
		s.items[k.layers[1]], s.items[k.layers[0]] = false, true
	case grow:
		if !live(k) || k.layers[0] == layerC {
			return false
		}
		s.items[layerC] = s.items[k.layers[0]] || k.layers[1] != none && s.items[k.layers[1]]
		s.deleteBlocks(k)
		k.layers, k.until = [2]uint8{layerC, none}, [2]uint8{}
	case turn:
		if !live(k) || !over(k.until[1], s.clock) || k.layers[1] == none {
			return false
		}
		s.items[k.layers[1]] = false
		k.layers, k.until = [2]uint8{layerC, k.layers[0]}, [2]uint8{3, k.until[0]}
		s.items[layerC] = false
	case rename:
		if !live(k) {
			return false
		}
		s.stored[1], s.stored[0] = *k, header{}
	case renameBack:
		if !live(&s.stored[1]) {
			return false
		}
		s.stored[0], s.stored[1] = s.stored[1], header{}
	case remake, refill:
		s.deleteBlocks(k)
		*k = header{there: true, layers: [2]uint8{layerC, none}}
		s.items[layerC] = o == refill
	case drop:
		if !k.there {
			return false
		}
		s.deleteBlocks(k)
		*k = header{}
	case persist:
		if !live(k) || k.expires == 0 {
			return false
		}
		k.expires = 0
	case sweep:
		if !k.there || live(k) {
			return false
		}
		s.deleteBlocks(k)
		*k = header{}
	}
	return true
}

// deleteBlocks deletes the stored blocks of a filter.
func (s *state) deleteBlocks(h *header) {
	for _, layer := range h.layers {
		if h.there && layer != none && layer != layerC {
			s.items[layer] = false
		}
	}
}

// remember puts into memory what a commit makes.
func (x *explorer) remember(s *state, th *thread) {
	from, to := uint8(0), uint8(0)
	switch th.op {
	case moveLayers:
		x.change(s, th, 1, false)
		return
	case both:
		s.row = true
		return
	case drop, sweep:
		return
	case rename:
		to = 1
	case renameBack:
		from = 1
	}
	old := th.held[from]
	if th.op == remake || th.op == refill {
		old = 0
	}
	n := s.newObject(to, old)
	s.objects[n-1].busy = true
	th.next[to], s.open[to] = n, n
	if th.op == refill { // what a commit makes is in memory
		b := &s.tables[s.objects[n-1].tables[0]]
		b.resident, b.item = true, true
	}
}

// forget takes out of memory what a commit has replaced.
func (x *explorer) forget(s *state, th *thread) {
	if th.op == moveLayers || th.op == both {
		x.change(s, th, 0, true)
		return
	}
	for key, n := range th.held {
		if n == 0 {
			continue
		}
		s.objects[n-1].shut = true
		if s.open[key] == n {
			s.open[key] = 0
		}
	}
}

// change changes the memory of a layer of the first key.
func (x *explorer) change(s *state, th *thread, layer int, item bool) {
	if th.held[0] == 0 {
		return
	}
	o := &s.objects[th.held[0]-1]
	if o.tables[layer] == none {
		return
	}
	if b := &s.tables[o.tables[layer]]; b.resident {
		b.item = item
	} else {
		x.cancel(b)
	}
}

// around runs what happens around lookups and commits.
func (x *explorer) around(s *state, t int) bool {
	th := &s.threads[t]
	switch th.op {
	case evictBlock:
		b := &s.tables[th.key]
		if int(th.key) >= int(s.tabled) || !b.resident {
			return false
		}
		b.resident = false
		th.ended = true
	case evictObject:
		return x.evict(s, th)
	case tick, tickBack:
		s.ways = s.ways.grow(s)
		if s.clock++; th.op == tickBack {
			s.clock -= 2
		}
		s.ways = s.ways.set(s.clock)
		if th.step++; th.step == 2 || th.op == tickBack {
			th.ended = true
		}
	case fail:
		switch th.step {
		case 0:
			th.begun, s.failed = true, true
		case 1, 2:
			if n := s.open[th.step-1]; n != 0 && !x.skips(failShuts) {
				s.objects[n-1].shut = true
			}
		case 3:
			s.end(t, undecided)
		}
		th.step++
	}
	return true
}

// evict closes the object under the first key to save memory.
func (x *explorer) evict(s *state, th *thread) bool {
	switch th.step {
	case 0:
		if s.open[0] == 0 || s.alone || s.locked && !x.skips(keyLock) {
			return false
		}
		if !x.skips(keyLock) {
			s.locked = true
		}
		th.object, th.step = s.open[0], 1
	case 1:
		if s.open[0] == th.object {
			s.open[0] = 0
			if !x.skips(evictShuts) {
				s.objects[th.object-1].shut = true
			}
		}
		th.step = 2
	case 2:
		for _, n := range s.objects[th.object-1].tables {
			if n != none {
				s.tables[n].resident = false
			}
		}
		if !x.skips(keyLock) {
			s.locked = false
		}
		th.ended = true
	}
	return true
}
