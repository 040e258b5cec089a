package memory

import (
	"testing"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
)

// object returns an open object of one layer of 100 blocks, in memory, and the layer.
func object(family block.Family, now *int64) (*Object, *Layer) {
	spec := format.LayerSpec{Number: 3, Blocks: 100, Lines: 128}
	h := &format.Header{ID: 7, Family: family, Layers: []format.LayerSpec{spec}}
	if now != nil {
		h.Expiry = 1000
	}
	o, l := new(Object), NewLayer(7, spec)
	o.Init(h, func() int64 { return *now })
	l.MakeTable()
	return o, l
}

// What happens to an object while a lookup goes on, whether the lookup is valid afterwards, in memory and on the disk, and
// whether another one begins.
func TestSection(t *testing.T) {
	for _, family := range []block.Family{block.FamilyBits, block.FamilySlots8} {
		slots := family != block.FamilyBits
		for name, c := range map[string]struct {
			happens       func(o *Object, l *Layer)
			memory, disk  bool
			begins        bool
			onlyWithSlots bool
		}{
			"nothing":             {func(*Object, *Layer) {}, true, true, true, false},
			"ended":               {func(o *Object, _ *Layer) { o.End() }, false, false, false, false},
			"closed":              {func(o *Object, _ *Layer) { o.Close() }, false, !slots, false, false},
			"shut":                {func(o *Object, _ *Layer) { o.Shut() }, false, false, false, false},
			"changing":            {func(o *Object, _ *Layer) { o.Hold() }, false, false, false, false},
			"changed":             {func(o *Object, _ *Layer) { o.Hold(); o.MoveOn() }, false, false, true, false},
			"closed and changing": {func(o *Object, _ *Layer) { o.Close(); o.Hold() }, false, false, false, false},
			"slots changing":      {func(o *Object, l *Layer) { o.Changes().Begin(o.PlaceOf(l, 5)) }, false, false, true, true},
			"slots changed": {func(o *Object, l *Layer) {
				o.Changes().Begin(o.PlaceOf(l, 5))
				o.Changes().End(o.PlaceOf(l, 5), 9)
			}, false, false, true, true},
			"other slots changed": {func(o *Object, l *Layer) {
				o.Changes().Begin(o.PlaceOf(l, 6))
				o.Changes().End(o.PlaceOf(l, 6), 9)
			}, true, true, true, true},
		} {
			if c.onlyWithSlots && !slots {
				continue
			}
			o, l := object(family, nil)
			valid, onDisk := begin(t, o, l)
			c.happens(o, l)
			if valid() != c.memory || onDisk() != c.disk {
				t.Errorf("%v, %s: valid in memory %t, on the disk %t, want %t and %t", family, name, valid(), onDisk(), c.memory, c.disk)
			}
			if begins := usable(o); begins != c.begins {
				t.Errorf("%v, %s: another lookup begins: %t, want %t", family, name, begins, c.begins)
			}
		}
	}
}

// usable reports whether a lookup of an object begins.
func usable(o *Object) bool {
	s := o.BeginSlots()
	return o.Begin().Usable() || o.word.Load()&wordSlots != 0 && s.Usable()
}

// begin begins lookups in memory and on the disk that read two blocks, and returns whether they are valid.
func begin(t *testing.T, o *Object, l *Layer) (valid, onDisk func() bool) {
	t.Helper()
	if !usable(o) {
		t.Fatal("a lookup of an open object does not begin")
	}
	bits, slots, disk := o.Begin(), o.BeginSlots(), o.BeginOnDisk()
	onDisk = func() bool {
		still := disk.ValidOnDisk(true)
		if without := disk.ValidOnDisk(false); without != (still && o.word.Load()&wordClosed == 0) {
			t.Errorf("on the disk it is valid: %t, and %t if a commit came meanwhile", still, without)
		}
		return still
	}
	if o.word.Load()&wordSlots == 0 {
		bits.Block(l, 5)
		return bits.Valid, onDisk
	}
	for _, blk := range []uint64{5, 5, 7} {
		slots.Block(l, blk)
		disk.Note(l, blk)
	}
	return slots.Valid, onDisk
}

// A block that a commit is changing when it is read makes the lookup invalid, also when the commit has failed since.
func TestSection_changing(t *testing.T) {
	o, l := object(block.FamilySlots8, nil)
	o.Changes().Begin(o.PlaceOf(l, 5))
	valid, onDisk := begin(t, o, l)
	o.Changes().End(o.PlaceOf(l, 5), 0)
	if valid() || onDisk() {
		t.Error("a lookup that has read a block while it changed is valid")
	}
}

// A lookup of bits does not begin with an object of slots: nobody would notice that they change.
func TestSection_wrongKind(t *testing.T) {
	o, _ := object(block.FamilySlots8, nil)
	if o.Begin().Usable() {
		t.Error("a lookup of bits begins with an object of slots")
	}
}

// The time is read after the word, and once.
func TestSection_Now(t *testing.T) {
	now := int64(0)
	o, _ := object(block.FamilyBits, &now)
	for _, c := range []struct {
		now    int64
		begins bool
	}{{999, true}, {1000, false}, {1001, false}, {5, true}} {
		now = c.now
		s := o.Begin()
		if s.Usable() != c.begins {
			t.Errorf("at %d, a lookup of a key that expires at 1000 begins: %t", c.now, s.Usable())
		}
		now = 1 << 40
		if got := s.Now(); c.begins && got != c.now {
			t.Errorf("the time of the lookup is %d, want %d", got, c.now)
		}
	}
	o.End()
	now = 5
	if o.Begin().Usable() {
		t.Error("a lookup of an object that expires and has ended begins")
	}
}

// The time of a lookup is known if a type has said that it matters, or if the key expires.
func TestObject_SetTimed(t *testing.T) {
	o, _ := object(block.FamilyBits, nil)
	o.clock = func() int64 { return 7 }
	if now := o.Begin().Now(); now != 0 {
		t.Errorf("the time is %d, though it does not matter", now)
	}
	o.SetTimed()
	if now := o.Begin().Now(); now != 7 {
		t.Errorf("the time is %d, want 7", now)
	}
}

// No lookup of an object that is hidden begins, even if its header says that it never expires.
func TestObject_hidden(t *testing.T) {
	o := new(Object)
	o.Init(&format.Header{ID: 7, Hidden: true}, func() int64 { return 7 })
	if usable(o) {
		t.Error("a lookup begins")
	}
}

// Objects of slots have at most as many places as a section can note, and a log has one.
func TestPlaces(t *testing.T) {
	log := format.LayerSpec{Number: 1, Blocks: 1 << 40, Lines: 128, Layout: format.LayoutLog}
	large := format.LayerSpec{Number: 2, Blocks: 1 << 60, Lines: 128}
	small := format.LayerSpec{Number: 3, Blocks: 2, Lines: 128}
	for _, c := range []struct {
		family block.Family
		layers []format.LayerSpec
		bytes  int64
	}{
		{block.FamilySlots8, []format.LayerSpec{large, large, small}, 64 * 8},
		{block.FamilyBits, []format.LayerSpec{large, large, small}, 512 * 8},
		{block.FamilyBits, []format.LayerSpec{small, log}, 4 * 8},
		{block.FamilySlots8, []format.LayerSpec{small}, 2 * 8},
	} {
		o := new(Object)
		o.Init(&format.Header{ID: 1, Family: c.family, Layers: c.layers}, nil)
		if got := o.Changes().Bytes(); got != c.bytes {
			t.Errorf("%v, %d layers: %d bytes, want %d", c.family, len(c.layers), got, c.bytes)
		}
	}
	o := new(Object)
	if o.Init(&format.Header{}, nil); o.Changes().Bytes() != 0 {
		t.Error("a string in its header has places for blocks")
	}
}
