package forge_test

import (
	"testing"

	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/tests/forge"
)

// Whatever numbers the header of a dump has: what LOADCHUNK accepts can be used, in a store that is opened once more, and a check
// finds nothing.
func FuzzForgedDump(f *testing.F) {
	dumps := make([][]forge.Chunk, len(forge.Subjects))
	for i, subject := range forge.Subjects {
		if subject.Family == "BF" || subject.Family == "CF" {
			s := forge.Make(f, subject)
			dumps[i] = s.Dump(subject.Family)
			s.Close()
		}
	}
	forge.AddSeeds(f)
	s := forge.Open(f)
	f.Cleanup(s.Close)
	f.Fuzz(func(t *testing.T, which uint8, seed uint64) {
		i := int(which) % len(dumps)
		subject := forge.Subjects[i]
		if dumps[i] == nil {
			return // there are no dumps of its type
		}
		s.Case(t, func() {
			chunks := forge.New(seed).Dump(t, dumps[i], subject.Native, subject.Family == "CF")
			s.Load(subject.Family, chunks)
			s.Use()
		})
	})
}
