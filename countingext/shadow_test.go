package countingext

import (
	"testing"

	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/scalableext"
	"github.com/sievekv/sievekv/tests/shadow"
)

// Each answer from memory that is valid is that of snapshots, see package shadow.
func TestShadow(t *testing.T) {
	for name, config := range map[string]Config{
		"layers": {Capacity: 200, ErrorRate: 0.01, Expansion: 1},
		"large":  {Capacity: 50_000, ErrorRate: 0.01, NonScaling: true},
	} {
		t.Run(name, func(t *testing.T) {
			shadow.Run(t, shadow.Filters[*Filter, Config]{
				Module: Module(), New: New, Config: config, Slots: true, Keeps: config.Capacity > 200, Full: []error{scalableext.ErrFull, scalableext.ErrCannotGrow}, Begin: beginShadow,
			})
		})
	}
}

// beginShadow begins what MayContain does.
func beginShadow(f *Filter) shadow.Section {
	c := f.h.Current.Load()
	return shadow.Slots(c.object, func(s *memory.SlotSection, item []byte) (present, known bool) { return c.inMemory(s, c.hash.Sum(item)) })
}
