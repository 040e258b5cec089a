package kv_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/sievekv/sievekv/kv"
)

func matches(t interface{ Fatal(...any) }, pattern, text string) bool {
	p, err := kv.NewPattern(pattern)
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

// A pattern without sets matches as path.Match has it, which knows stars and
// question marks too; its stars stop at slashes, of which there are none here.
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

// A pattern matches as in Redis, sets that are odd in any way included.
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

// Elements are at their places whatever word of bits these are in.
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

// Patterns made to try every way at every byte of the longest key match, or not, like others.
func TestMatch_hostile(t *testing.T) {
	text := strings.Repeat("a", kv.MaxKeyLen)
	for _, pattern := range []string{
		strings.Repeat("a*", kv.MaxPattern/2-1) + "b",
		"*" + strings.Repeat("a", kv.MaxPattern-2) + "b",
		"*" + strings.Repeat("[^b]", kv.MaxPattern/4-1) + "b",
		strings.Repeat("*?", kv.MaxPattern/2-1) + "b",
	} {
		if matches(t, pattern, text) {
			t.Errorf("%.20q... matches without a b", pattern)
		}
	}
}

func TestNewPattern_tooLong(t *testing.T) {
	if _, err := kv.NewPattern(strings.Repeat("a", kv.MaxPattern)); err != nil {
		t.Error(err)
	}
	_, err := kv.NewPattern(strings.Repeat("a", kv.MaxPattern+1))
	if !errors.Is(err, kv.ErrTooLarge) || !strings.Contains(fmt.Sprint(err), "pattern of 4097 bytes, at most 4096") {
		t.Errorf("a pattern of 4097 bytes: %v", err)
	}
}

// The commands that take a pattern refuse a longer one, and say what is allowed.
func TestPattern_commands(t *testing.T) {
	s := openKeys(t, nil, kv.Options{})
	defer s.close(t)
	long := strings.Repeat("[a]", 15_000)
	for _, command := range []string{"KEYS %s", "SCAN 0 MATCH %s", "CONFIG GET a %s", "COMMAND LIST FILTERBY PATTERN %s"} {
		var words [][]byte
		for _, word := range strings.Fields(command) {
			words = append(words, []byte(strings.Replace(word, "%s", long, 1)))
		}
		r := s.NewSession().Do(t.Context(), words)
		if got, want := string(r.Bytes()), "ERR too large: pattern of 45000 bytes, at most 4096"; !r.IsError() || got != want {
			t.Errorf("%s: %.200q, want %q", command, got, want)
		}
	}
}

// endsAfter is a context that ends when it was asked so often.
type endsAfter struct {
	context.Context
	n atomic.Int64
}

func (c *endsAfter) Err() error {
	if c.n.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// A scan is given up between any two keys, those that the transaction it is in has made included.
func TestScan_givenUp(t *testing.T) {
	s := openKeys(t, nil, kv.Options{})
	defer s.close(t)
	const keys = 100
	set := func(w *kv.Writer, prefix string) error {
		for i := range keys {
			if _, err := w.Set(fmt.Append(nil, prefix, i), []byte("v"), kv.SetOptions{}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.DB.Update(t.Context(), kv.NoSync, func(tx *kv.Transaction) error {
		return tx.Write(func(w *kv.Writer) error { return set(w, "k") })
	}); err != nil {
		t.Fatal(err)
	}
	for name, begin := range map[string]func(w *kv.Writer) error{
		"stored": func(*kv.Writer) error { return nil },
		"staged": func(w *kv.Writer) error { w.DeleteEverything(); return set(w, "l") },
		"both":   func(w *kv.Writer) error { return set(w, "l") },
	} {
		rollback := errors.New("rollback")
		err := s.DB.Update(t.Context(), kv.NoSync, func(tx *kv.Transaction) error {
			if err := tx.Write(begin); err != nil {
				return err
			}
			return tx.Read(func(r kv.Reader) error {
				for n := range keys {
					ctx := &endsAfter{Context: context.Background()}
					ctx.n.Store(int64(n))
					found, _, err := r.ScanFrom(ctx, 0, 1<<20, kv.ScanOptions{})
					if !errors.Is(err, context.Canceled) || len(found) > n {
						t.Errorf("%s: a scan that ends after %d looks: %d keys, %v", name, n, len(found), err)
						break
					}
				}
				return rollback
			})
		})
		if !errors.Is(err, rollback) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a pattern takes while keys are compared with it is counted, and no longer.
func TestPattern_charged(t *testing.T) {
	s := openKeys(t, nil, kv.Options{})
	defer s.close(t)
	pattern := []byte(strings.Repeat("?*", kv.MaxPattern/2))
	full := errors.New("no room")
	for name, words := range map[string][][]byte{
		"SCAN": {[]byte("SCAN"), []byte("0"), []byte("MATCH"), pattern}, "KEYS": {[]byte("KEYS"), pattern},
	} {
		session := s.NewSession()
		held, most, room := 0, 0, 1<<20
		session.Charge = func(n int) error {
			if held += n; held > room {
				return full
			}
			most = max(most, held)
			return nil
		}
		if r := session.Do(t.Context(), words); r.IsError() || most < 256*kv.MaxPattern/16 || held != 0 {
			t.Errorf("%s: %v, %d bytes were counted, %d are left", name, r, most, held)
		}
		room = 50_000
		if r := session.Do(t.Context(), words); !r.IsError() || !strings.Contains(string(r.Bytes()), "no room") || held != 0 {
			t.Errorf("%s with little room: %v, %d bytes are left", name, r, held)
		}
	}
}

func FuzzMatch(f *testing.F) {
	for _, pattern := range []string{"*", "[a-c]*", "[^", "\\", "[\\]", "[a-", "?*?", "[]", "[z-a]"} {
		f.Add(pattern, "abc")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > kv.MaxPattern {
			return
		}
		got := matches(t, pattern, text)
		if got && len(pattern) < kv.MaxPattern && !matches(t, "*"+pattern, text) {
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
		{"hostile", strings.Repeat("a*", kv.MaxPattern/2-1) + "b", strings.Repeat("a", kv.MaxKeyLen)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			p, err := kv.NewPattern(bench.pattern)
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
