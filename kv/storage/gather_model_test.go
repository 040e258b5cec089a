package storage

import "testing"

// The protocol of gathered commits, one step at a time. A writer adds an item, which is a
// bit of a block; what is gathered is put into Pebble once or twice; the block is evicted
// once or twice; two lookups, one after the other, ask for the item. Every order of these
// steps is tried. A lookup that begins when the add has been acknowledged finds the item,
// and so does every one after the end: a block in memory has it.

// gatherModel is a state: where the bit is, and how far everyone has come.
type gatherModel struct {
	pebble, filling, draining bool
	batch                     bool // what goes to Pebble has it
	resident, block           bool // the block is in memory; with the bit
	started, finished         uint8

	writer, drainer, evictor, lookup uint8 // the next step of each
	acknowledged                     bool

	// The lookup's own.
	due           bool // must find the item
	began, ended  uint8
	taken, loaded bool // the bit was among what is gathered; is in the block read
}

// gatherVariant is a protocol with a part left out.
type gatherVariant struct {
	name       string
	noStarted  bool // the writer does not count itself started and finished
	noLook     bool // a lookup does not look at what is gathered
	lookLast   bool // it does after it has read from Pebble
	noDraining bool // it does not look at what is being put into Pebble
	resetFirst bool // what is gathered is forgotten before it is in Pebble
}

const (
	gatherDrains    = 2
	gatherEvictions = 2
	gatherLookups   = 2

	drainSteps  = 3
	writerSteps = 4
	lookupSteps = 7
)

// steps returns the states that can follow, and whether a lookup on the way there missed
// the item.
func (m gatherModel) steps(v gatherVariant) (next []gatherModel, missed bool) {
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
	if m.drainer < gatherDrains*drainSteps {
		n := m
		n.drainer++
		step := m.drainer % drainSteps
		if v.resetFirst && step > 0 {
			step = drainSteps - step
		}
		switch step {
		case 0:
			n.batch, n.draining, n.filling = m.filling, m.filling, false
		case 1:
			n.pebble = m.pebble || m.batch
		case 2:
			n.draining = false
		}
		next = append(next, n)
	}
	if m.evictor < gatherEvictions {
		n := m
		n.evictor++
		n.resident, n.block = false, false
		next = append(next, n)
	}
	if m.lookup < gatherLookups*lookupSteps {
		n := m
		n.lookup++
		answer := func(there bool) {
			missed = m.due && !there
			n.lookup = (m.lookup/lookupSteps + 1) * lookupSteps
			n.began, n.ended, n.taken, n.loaded, n.due = 0, 0, false, false, false
		}
		look := func() { n.taken = !v.noLook && (m.filling || m.draining && !v.noDraining) }
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
func (v gatherVariant) wrong() bool {
	seen := make(map[gatherModel]bool)
	todo := []gatherModel{{}, {resident: true}}
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

func TestGatherModel(t *testing.T) {
	if (gatherVariant{}).wrong() {
		t.Error("the protocol loses an item")
	}
	for _, v := range []gatherVariant{
		{name: "writers are not counted", noStarted: true},
		{name: "lookups leave out what is gathered", noLook: true},
		{name: "lookups ask Pebble first", lookLast: true},
		{name: "lookups leave out what is being put into Pebble", noDraining: true},
		{name: "what is gathered is forgotten before it is in Pebble", resetFirst: true},
	} {
		if !v.wrong() {
			t.Errorf("%s, and the model finds no order of steps that loses an item", v.name)
		}
	}
}
