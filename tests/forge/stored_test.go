package forge_test

import (
	"testing"

	"github.com/sievekv/sievekv/tests/forge"
)

// Whatever numbers a header and its counters have in a store's own files: the store opens, answers or says that the key is damaged,
// and keeps what else it has.
func FuzzForgedStore(f *testing.F) {
	forge.AddSeeds(f)
	s := forge.Open(f)
	f.Cleanup(s.Close)
	f.Fuzz(func(t *testing.T, which uint8, seed uint64) {
		s.Case(t, func() {
			s.Remake(forge.Subjects[int(which)%len(forge.Subjects)])
			s.Do("SET", "whole", "string")
			s.Do("BF.ADD", "whole filter", "item")
			forge.New(seed).Stored(s)
			s.Use()
			if text := string(s.Do("GET", "whole").Bytes()); text != "string" {
				t.Errorf("GET whole: %q", text)
			}
			if r := s.Do("BF.EXISTS", "whole filter", "item"); r.Int() != 1 {
				t.Errorf("BF.EXISTS: %s", r.Bytes())
			}
		})
	})
}
