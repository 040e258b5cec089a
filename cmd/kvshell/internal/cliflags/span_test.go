package cliflags

import (
	"testing"
	"time"
)

func TestSpan(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]struct {
		span  time.Duration
		shown string
	}{
		"90":     {90 * time.Second, "90s"},
		"90s":    {90 * time.Second, "90s"},
		"30m":    {30 * time.Minute, "30m"},
		"24h":    {day, "1d"},
		"7d":     {7 * day, "1w"},
		"10d":    {10 * day, "10d"},
		"2w":     {14 * day, "2w"},
		"36600d": {36600 * day, "36600d"},
	} {
		var s Span
		if err := s.Set(text); err != nil || time.Duration(s) != want.span || s.String() != want.shown {
			t.Errorf("%q is %v, %q, %v", text, time.Duration(s), s.String(), err)
		}
	}
	for _, text := range []string{"", "d", "0d", "-1d", "1.5h", "36601d", "2y", "1d12h", "99999999999999999999s"} {
		var s Span
		if err := s.Set(text); err == nil || s != 0 {
			t.Errorf("%q is taken as %v", text, time.Duration(s))
		}
	}
}
