package scalableext_test

import (
	"testing"

	"github.com/sievekv/sievekv/scalableext"
)

func TestParseLayout(t *testing.T) {
	for _, l := range []scalableext.Layout{scalableext.LayoutNative, scalableext.LayoutCompatible} {
		if got, ok := scalableext.ParseLayout(l.String()); got != l || !ok || !l.Valid() {
			t.Errorf("ParseLayout(%q) = %v, %t, and it is valid: %t", l.String(), got, ok, l.Valid())
		}
	}
	for _, word := range []string{"", "Native", "Layout(2)"} {
		if got, ok := scalableext.ParseLayout(word); ok {
			t.Errorf("ParseLayout(%q) = %v", word, got)
		}
	}
	if scalableext.Layout(2).Valid() {
		t.Error("layout 2 is valid")
	}
}

func TestLayoutSetting(t *testing.T) {
	s := scalableext.LayoutSetting("x-layout", "filters")
	for word, want := range map[string]string{"native": "native", "COMPATIBLE": "compatible", "other": ""} {
		if got, err := s.Check(word); got != want || (err == nil) != (want != "") {
			t.Errorf("Check(%q) = %q, %v, want %q", word, got, err, want)
		}
	}
}
