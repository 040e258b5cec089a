package main

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
