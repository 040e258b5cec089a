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
	for _, word := range []string{"", "Native", "foreign", "Layout(3)"} {
		if got, ok := scalableext.ParseLayout(word); ok {
			t.Errorf("ParseLayout(%q) = %v", word, got)
		}
	}
	if scalableext.LayoutForeign.Valid() || scalableext.Layout(3).Valid() {
		t.Error("a new filter may have the layout foreign, or layout 3")
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
