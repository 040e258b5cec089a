package bloomext

import (
	"testing"
	"time"

	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/scalableext"
	"github.com/sievekv/sievekv/tests/shadow"
)

// Each answer from memory that is valid is that of snapshots, see package shadow.
func TestShadow(t *testing.T) {
	for name, config := range map[string]Config{
		"native":            {ErrorRate: 0.01, Capacity: 200_000, NonScaling: true},
		"layers":            {ErrorRate: 0.01, Capacity: 50, Expansion: 1},
		"log":               {ErrorRate: 0.01, Capacity: 50},
		"compatible":        {ErrorRate: 0.01, Capacity: 50, Expansion: 1, Layout: scalableext.LayoutCompatible},
		"compatible, large": {ErrorRate: 0.01, Capacity: 200_000, NonScaling: true, Layout: scalableext.LayoutCompatible},
		"window":            {ErrorRate: 0.01, Capacity: 50, Window: 4 * time.Second, Slices: 2},
	} {
		t.Run(name, func(t *testing.T) {
			shadow.Run(t, shadow.Filters[*Filter, Config]{
				Module: Module(), New: New, Config: config, Keeps: config.Window == 0, Full: []error{scalableext.ErrFull, scalableext.ErrCannotGrow}, Begin: beginShadow,
			})
		})
	}
}

// beginShadow begins what MayContain does.
func beginShadow(f *Filter) shadow.Section {
	c := f.h.Current.Load()
	return shadow.Bits(c.object, func(s memory.Section, item []byte) (present, known bool) {
		if c.flat {
			return c.pairInMemory(s, c.pair(item))
		}
		return c.inMemory(s, c.hash.Sum(item), c.asked(s, false))
	})
}
