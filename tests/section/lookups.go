package main

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
