package glob_test

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sievekv/sievekv/internal/glob"
)

func matches(t interface{ Fatal(...any) }, pattern, text string) bool {
	p, err := glob.New(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return p.Match([]byte(text))
}

// redisMatch is stringmatchlen of Redis 7, line by line, without its case folding. It tries one
// way after the other, so it is for small texts.
func redisMatch(pattern, text string) bool {
	skip := false
	return redisMatchFrom(pattern, text, &skip)
}

func redisMatchFrom(p, s string, skip *bool) bool {
	at := func(i int) byte { // Redis' strings end with a byte 0
		if i < len(p) {
			return p[i]
		}
		return 0
	}
	i := 0
	for i < len(p) && len(s) > 0 {
		switch p[i] {
		case '*':
			for at(i+1) == '*' {
				i++
			}
			if i+1 == len(p) {
				return true
			}
			for len(s) > 0 {
				if redisMatchFrom(p[i+1:], s, skip) {
					return true
				}
				if *skip {
					return false
				}
				s = s[1:]
			}
			*skip = true
			return false
		case '?':
			s = s[1:]
		case '[':
			i++
			not := at(i) == '^'
			if not {
				i++
			}
			match := false
		set:
			for ; ; i++ {
				switch {
				case len(p)-i >= 2 && p[i] == '\\':
					i++
					match = match || p[i] == s[0]
				case at(i) == ']':
					break set
				case i == len(p):
					i--
					break set
				case len(p)-i >= 3 && p[i+1] == '-':
					start, end, c := int8(p[i]), int8(p[i+2]), int8(s[0])
					if start > end {
						start, end = end, start
					}
					i += 2
					match = match || c >= start && c <= end
				default:
					match = match || p[i] == s[0]
				}
			}
			if match == not {
				return false
			}
			s = s[1:]
		case '\\':
			if len(p)-i >= 2 {
				i++
			}
			fallthrough
		default:
			if p[i] != s[0] {
				return false
			}
			s = s[1:]
		}
		i++
	}
	if len(s) == 0 {
		for at(i) == '*' {
			i++
		}
	}
	return i >= len(p) && len(s) == 0
}

// A pattern without sets matches as path.Match does, which knows stars and question marks too. Its stars stop at
// slashes; there are none here.
func TestMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.SampledFrom([]rune("ab*?")), 0, 8, -1).Draw(t, "pattern")
		key := rapid.StringOfN(rapid.SampledFrom([]rune("ab")), 0, 8, -1).Draw(t, "key")
		want, err := path.Match(pattern, key)
		if err != nil {
			t.Fatal(err)
		}
		if got := matches(t, pattern, key); got != want {
			t.Fatalf("%q matches %q: %v, want %v", pattern, key, got, want)
		}
	})
}

// Patterns match as in Redis, also with unusual sets.
func TestMatch_redis(t *testing.T) {
	bytes := rapid.SampledFrom([]byte("ab-]^\\[*?c\x00\x7f\x80\xff"))
	rapid.Check(t, func(t *rapid.T) {
		pattern := string(rapid.SliceOfN(bytes, 0, 12).Draw(t, "pattern"))
		text := string(rapid.SliceOfN(bytes, 0, 8).Draw(t, "text"))
		if got, want := matches(t, pattern, text), redisMatch(pattern, text); got != want {
			t.Fatalf("%q matches %q: %v, in Redis %v", pattern, text, got, want)
		}
	})
	for _, pattern := range []string{"[a-\xff]", "[\x80-\x00]", "[^a-\xff]", "[a-", "[a-]", "[]-^]", "[\\]]", "[\\", "[^", "[", "\\", "\\*"} {
		for b := range 256 {
			text := string([]byte{byte(b)})
			if got, want := matches(t, pattern, text), redisMatch(pattern, text); got != want {
				t.Errorf("%q matches %q: %v, in Redis %v", pattern, text, got, want)
			}
		}
	}
}

// Elements work in every word of bits that they can be in.
func TestMatch_long(t *testing.T) {
	for n := 1; n < 200; n++ {
		as := strings.Repeat("a", n)
		for _, tt := range []struct {
			pattern, text string
			want          bool
		}{
			{as, as, true},
			{as, as + "a", false},
			{as + "a", as, false},
			{as + "*", as, true},
			{as + "*", as + strings.Repeat("b", 300), true},
			{as + "b", as + "b", true},
			{as + "b", as + "a", false},
			{"*" + as + "b*c", "xx" + as + "bxc", true},
			{"*" + as + "b*c", "xx" + as + "xbc", false},
		} {
			if got := matches(t, tt.pattern, tt.text); got != tt.want {
				t.Fatalf("%q matches %q: %v, want %v", tt.pattern, tt.text, got, tt.want)
			}
		}
	}
}

// Patterns match as they should, and fast, that would make other algorithms try every way at every byte of the
// longest key.
func TestMatch_hostile(t *testing.T) {
	text := strings.Repeat("a", 64<<10)
	for _, pattern := range []string{
		strings.Repeat("a*", glob.MaxLen/2-1) + "b",
		"*" + strings.Repeat("a", glob.MaxLen-2) + "b",
		"*" + strings.Repeat("[^b]", glob.MaxLen/4-1) + "b",
		strings.Repeat("*?", glob.MaxLen/2-1) + "b",
	} {
		if matches(t, pattern, text) {
			t.Errorf("%.20q... matches without a b", pattern)
		}
	}
}

func TestNewPattern_tooLong(t *testing.T) {
	if _, err := glob.New(strings.Repeat("a", glob.MaxLen)); err != nil {
		t.Error(err)
	}
	_, err := glob.New(strings.Repeat("a", glob.MaxLen+1))
	if err == nil || !strings.Contains(fmt.Sprint(err), "pattern of 4097 bytes, at most 4096") {
		t.Errorf("a pattern of 4097 bytes: %v", err)
	}
}

func FuzzMatch(f *testing.F) {
	for _, pattern := range []string{"*", "[a-c]*", "[^", "\\", "[\\]", "[a-", "?*?", "[]", "[z-a]"} {
		f.Add(pattern, "abc")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > glob.MaxLen {
			return
		}
		got := matches(t, pattern, text)
		if got && len(pattern) < glob.MaxLen && !matches(t, "*"+pattern, text) {
			t.Errorf("%q matches %q, but not with a star before it", pattern, text)
		}
		// Redis tries one way after the other: what takes long is not compared.
		if strings.Count(pattern, "*") > 5 || len(text) > 50 {
			return
		}
		if want := redisMatch(pattern, text); got != want {
			t.Errorf("%q matches %q: %v, in Redis %v", pattern, text, got, want)
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	for _, bench := range []struct{ name, pattern, text string }{
		{"prefix", "user:*", "user:1234567"},
		{"other", "user:*", "item:1234567"},
		{"middle", "*:12*67", "user:1234567"},
		{"hostile", strings.Repeat("a*", glob.MaxLen/2-1) + "b", strings.Repeat("a", 64<<10)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			p, err := glob.New(bench.pattern)
			if err != nil {
				b.Fatal(err)
			}
			text := []byte(bench.text)
			for b.Loop() {
				p.Match(text)
			}
		})
	}
}
