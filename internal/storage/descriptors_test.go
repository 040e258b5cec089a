package storage

import "testing"

func TestDescriptors(t *testing.T) {
	for _, tt := range []struct{ limit, tables, reserve int }{
		{0, 990, 16}, {1 << 20, 990, 16}, {20_000, 990, 16}, {1024, 128, 16}, {128, 16, 16}, {64, 8, 8}, {10, 4, 4},
	} {
		d := shareOf(tt.limit)
		if d.tables != tt.tables || d.reserve != tt.reserve {
			t.Errorf("a limit of %d: %d tables, %d in reserve, want %d and %d", tt.limit, d.tables, d.reserve, tt.tables, tt.reserve)
		}
		if want := 12 + tt.tables + tt.reserve; d.need() != want {
			t.Errorf("a limit of %d: %d are needed, want %d", tt.limit, d.need(), want)
		}
	}
}
