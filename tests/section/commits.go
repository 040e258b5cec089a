package main

import "slices"

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
		if !h.there || over(h.expires, s.clock) || adds && !x.takes(s, h) {
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
		if live(k) && x.takes(s, k) {
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

// takes reports whether a filter takes the item: its newest slice must not have ended, and one with slots has the item once.
func (x *explorer) takes(s *state, h *header) bool {
	stored := s.items[h.layers[0]] || h.layers[1] != none && s.items[h.layers[1]]
	return !over(h.until[0], s.clock) && !(x.slots && stored)
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
		x.change(s, th, 1)
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
		x.change(s, th, 0)
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

// change makes the memory of a layer of the first key what is stored.
func (x *explorer) change(s *state, th *thread, layer int) {
	if th.held[0] == 0 {
		return
	}
	o := &s.objects[th.held[0]-1]
	if o.tables[layer] == none {
		return
	}
	if b := &s.tables[o.tables[layer]]; b.resident {
		b.item = s.items[b.layer]
	} else {
		x.cancel(b)
	}
}
