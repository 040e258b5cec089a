package portable_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/portable"
	"github.com/sievekv/sievekv/tests/forge"
)

// fileOf returns the file of a subject.
func fileOf(t testing.TB, subject forge.Subject) []byte {
	t.Helper()
	s := forge.Make(t, subject)
	defer s.Close()
	var b bytes.Buffer
	must(t, portable.Export(t.Context(), s.DB, []byte("f"), &b))
	return b.Bytes()
}

// The length of a log, and counters, are not taken from a file as they are.
func TestImport_forgedLog(t *testing.T) {
	file := fileOf(t, forge.Subjects[0]) // which has a log
	h, counters, err := portable.HeaderOf(file)
	must(t, err)
	log := 0
	for h.Layers[log].Layout != kv.LayoutLog {
		log++
	}
	room := h.Layers[log].Blocks * 1024
	for _, lossy := range []bool{false, true} {
		for _, length := range []uint64{room + 1, 1 << 24, 1<<61 + 8, math.MaxUint64} {
			h.Lossy, counters[log][0] = lossy, length
			wantRefused(t, portable.WithHeader(file, h, counters))
		}
	}
}

// A header with what only a store has, a chunk of another kind with a header, and a gzipped file are refused.
func TestImport_forgedHeader(t *testing.T) {
	file := fileOf(t, forge.Subjects[0])
	for name, change := range map[string]func(h *format.Header){
		"another id":    func(h *format.Header) { h.ID = 2 },
		"an expiry":     func(h *format.Header) { h.Expiry = 1 << 50 },
		"not an object": func(h *format.Header) { h.ID = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			h, counters, err := portable.HeaderOf(file)
			must(t, err)
			change(h)
			wantRefused(t, portable.WithHeader(file, h, counters))
		})
	}
	wantRefused(t, forgedFile(file, func(c [][]byte) [][]byte { c[0][0] = 2; return c }))
	wantRefused(t, []byte("\x1f\x8b\x08\x00"))
}

// wantRefused checks that no door takes a file.
func wantRefused(t *testing.T, file []byte) {
	t.Helper()
	db := open(t, 1)
	_, ferr := sievekv.ReadFilter(bytes.NewReader(file))
	if err := db.Import(t.Context(), "k", bytes.NewReader(file)); !errors.Is(err, sievekv.ErrDamaged) || !errors.Is(ferr, sievekv.ErrDamaged) {
		t.Errorf("Import = %v, ReadFilter = %v, want ErrDamaged", err, ferr)
	}
}

// Whatever numbers a header has: what is accepted can be used, in a store that is opened once more, and a check finds nothing.
func FuzzForged(f *testing.F) {
	files := make([][]byte, len(forge.Subjects))
	for i, subject := range forge.Subjects {
		files[i] = fileOf(f, subject)
	}
	forge.AddSeeds(f)
	s := forge.Open(f)
	f.Cleanup(s.Close)
	f.Fuzz(func(t *testing.T, which uint8, seed uint64) {
		file := files[int(which)%len(files)]
		h, counters, err := portable.HeaderOf(file)
		must(t, err)
		forged, c := forge.New(seed).Header(h, counters)
		s.Case(t, func() {
			file := portable.WithHeader(file, forged, c)
			_ = portable.Import(t.Context(), s.DB, kv.NoSync, []byte("f"), bytes.NewReader(file), portable.ImportOptions{})
			s.Use()
		})
	})
}
