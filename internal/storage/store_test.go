package storage

import (
	"testing"

	"github.com/sievekv/sievekv/internal/format"
)

// A range with keys of objects makes an iterator flush. The range of the headers, which scans read, does not, so that
// a scan does not wait while Pebble makes commits wait.
func TestStore_mayBePending(t *testing.T) {
	object := format.AppendObjectKey(nil, 7)
	for _, tt := range []struct {
		name      string
		low, high []byte
		want      bool
	}{
		{"all", nil, nil, true},
		{"headers", []byte{format.TagHeader}, []byte{format.TagHeader + 1}, false},
		{"headers and objects", []byte{format.TagHeader}, object, true},
		{"objects", []byte{format.TagObject}, []byte{format.TagObject + 1}, true},
		{"one object", object, format.AppendObjectKey(nil, 8), true},
		{"from an object on", object, nil, true},
		{"dropped", []byte{format.TagDropped}, []byte{format.TagDropped + 1}, false},
		{"up to the objects", nil, []byte{format.TagObject}, false},
	} {
		if got := mayBePending(&IterOptions{LowerBound: tt.low, UpperBound: tt.high}); got != tt.want {
			t.Errorf("%s: may be pending: %t, want %t", tt.name, got, tt.want)
		}
	}
}
