package format

import (
	"errors"
	"math"
	"testing"
)

func TestApplied(t *testing.T) {
	want := Applied{Index: math.MaxUint64, Term: 7, Hash: [16]byte{3, 15: 4}, Millis: math.MaxInt64}
	good := AppendApplied(nil, want)
	if got, err := DecodeApplied(good); got != want || err != nil {
		t.Errorf("decoded %+v, %v, want %+v", got, err, want)
	}
	for n := range good {
		if a, err := DecodeApplied(good[:n]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("the first %d bytes are %+v, %v, want ErrCorrupt", n, a, err)
		}
	}
	for what, b := range map[string][]byte{
		"a byte more":        append(AppendApplied(nil, want), 0),
		"index 0":            AppendApplied(nil, Applied{Term: 1}),
		"a time before 1970": AppendApplied(nil, Applied{Index: 1, Millis: -1}),
		"version 0":          append([]byte{0}, good[1:]...),
	} {
		if a, err := DecodeApplied(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %+v, %v, want ErrCorrupt", what, a, err)
		}
	}
	if a, err := DecodeApplied([]byte{2}); !errors.Is(err, ErrUnsupportedVersion) {
		t.Errorf("version 2: %+v, %v, want ErrUnsupportedVersion", a, err)
	}
}
