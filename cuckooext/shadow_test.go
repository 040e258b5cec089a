package cuckooext

import (
	"testing"

	"github.com/sievekv/sievekv/kv/memory"
	"github.com/sievekv/sievekv/scalableext"
	"github.com/sievekv/sievekv/tests/shadow"
)

// Each answer from memory that is valid is that of snapshots, see package shadow.
func TestShadow(t *testing.T) {
	for name, config := range map[string]Config{
		"native":            {Capacity: 200, Expansion: 1},
		"large":             {Capacity: 200_000},
		"compatible, large": {Capacity: 200_000, Layout: scalableext.LayoutCompatible},
		"compatible":        {Capacity: 200, Expansion: 1, Layout: scalableext.LayoutCompatible},
	} {
		t.Run(name, func(t *testing.T) {
			shadow.Run(t, shadow.Filters[*Filter, Config]{
				Module: Module(), New: New, Config: config, Slots: true, Keeps: config.Capacity > 200, Full: []error{ErrFull}, Begin: beginShadow,
			})
		})
	}
}

// section is what MayContain does.
type section struct {
	memory.SlotSection
	c *filter
}

func (s *section) Ask(item []byte) (present, known bool) {
	return s.c.inMemory(&s.SlotSection, s.c.hash.Sum(item))
}

func beginShadow(f *Filter) shadow.Section {
	c := f.h.Current.Load()
	if s := c.object.Memory().BeginSlots(); s.Usable() {
		return &section{s, c}
	}
	return nil
}
