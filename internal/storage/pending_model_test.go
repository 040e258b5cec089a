package storage

import "testing"

// The protocol of pending commits, tried in every order of its steps. A writer adds an item, which is one bit of a
// block. What is pending is flushed to Pebble once or twice. The block is evicted once or twice. Two lookups, one
// after the other, ask for the item. A lookup that begins after the add was acknowledged must find the item, and so
// must every lookup after the end: a block in memory must have the bit.

// pendingModel is a state: where the bit is, and which step comes next.
type pendingModel struct {
	pebble, filling, flushing bool
	batch                     bool // the batch that goes to Pebble has the bit
	resident, block           bool // the block is in memory; it has the bit there
	started, finished         uint8

	writer, flusher, evictor, lookup uint8 // the next step of each
	acknowledged                     bool

	// Of the lookup that runs.
	due           bool // it must find the item
	began, ended  uint8
	taken, loaded bool // it found the bit pending; it found the bit in Pebble
}

// protocolVariant is a protocol with a part left out.
type protocolVariant struct {
	name       string
	noStarted  bool // the writer does not count itself started and finished
	noLook     bool // a lookup does not look at what is pending
	lookLast   bool // it looks at that after it has read from Pebble
	noFlushing bool // it does not look at what is being flushed
	resetFirst bool // what is flushed is forgotten before it is in Pebble
}

const (
	modelFlushes   = 2
	modelEvictions = 2
	modelLookups   = 2

	flushSteps  = 3
	writerSteps = 4
	lookupSteps = 7
)

// steps returns the states that can follow, and whether a lookup missed the item on the way to one.
func (m pendingModel) steps(v protocolVariant) (next []pendingModel, missed bool) {
	if m.writer < writerSteps {
		n := m
		n.writer++
		switch m.writer {
		case 0:
			if !v.noStarted {
				n.started++
			}
		case 1:
			n.filling = true
		case 2:
			n.block = n.resident
		case 3:
			if !v.noStarted {
				n.finished++
			}
			n.acknowledged = true
		}
		next = append(next, n)
	}
	if m.flusher < modelFlushes*flushSteps {
		n := m
		n.flusher++
		step := m.flusher % flushSteps
		if v.resetFirst && step > 0 {
			step = flushSteps - step
		}
		switch step {
		case 0:
			n.batch, n.flushing, n.filling = m.filling, m.filling, false
		case 1:
			n.pebble = m.pebble || m.batch
		case 2:
			n.flushing = false
		}
		next = append(next, n)
	}
	if m.evictor < modelEvictions {
		n := m
		n.evictor++
		n.resident, n.block = false, false
		next = append(next, n)
	}
	if m.lookup < modelLookups*lookupSteps {
		n := m
		n.lookup++
		answer := func(there bool) {
			missed = m.due && !there
			n.lookup = (m.lookup/lookupSteps + 1) * lookupSteps
			n.began, n.ended, n.taken, n.loaded, n.due = 0, 0, false, false, false
		}
		look := func() { n.taken = !v.noLook && (m.filling || m.flushing && !v.noFlushing) }
		read := func() { n.loaded = m.pebble }
		switch m.lookup % lookupSteps {
		case 0:
			n.due = m.acknowledged
		case 1:
			if m.resident {
				answer(m.block)
			}
		case 2:
			n.began = m.started
		case 3:
			n.ended = m.finished
		case 4:
			if v.lookLast {
				read()
			} else {
				look()
			}
		case 5:
			if v.lookLast {
				look()
			} else {
				read()
			}
		case 6:
			there := m.loaded || m.taken
			if m.began == m.ended && m.started == m.began && !m.resident {
				n.resident, n.block = true, there
			}
			answer(there || n.resident && n.block)
		}
		next = append(next, n)
	}
	return next, missed
}

// wrong reports whether some order of steps loses the item.
func (v protocolVariant) wrong() bool {
	seen := make(map[pendingModel]bool)
	todo := []pendingModel{{}, {resident: true}}
	for len(todo) > 0 {
		m := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[m] {
			continue
		}
		seen[m] = true
		next, missed := m.steps(v)
		if missed || len(next) == 0 && m.resident && !m.block {
			return true
		}
		todo = append(todo, next...)
	}
	return false
}

func TestPendingModel(t *testing.T) {
	if (protocolVariant{}).wrong() {
		t.Error("the protocol loses an item")
	}
	for _, v := range []protocolVariant{
		{name: "writers are not counted", noStarted: true},
		{name: "lookups leave out what is pending", noLook: true},
		{name: "lookups ask Pebble first", lookLast: true},
		{name: "lookups leave out what is being flushed", noFlushing: true},
		{name: "what is flushed is forgotten before it is in Pebble", resetFirst: true},
	} {
		if !v.wrong() {
			t.Errorf("%s, and the model finds no order of steps that loses an item", v.name)
		}
	}
}
