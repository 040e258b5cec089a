package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/sievekv/sievekv/tests/wire"
)

// goodClient is one that does what clients do, one command after the other, and looks at the replies.
type goodClient struct {
	*wire.Conn
	n int
}

func newGoodClient(addr string) (*goodClient, error) {
	c, err := wire.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	g := &goodClient{Conn: c}
	return g, g.expect("+OK", "AUTH", password)
}

func (g *goodClient) expect(want string, words ...string) error {
	got, err := g.Do(words...)
	if err == nil && got != want {
		err = fmt.Errorf("got %.200s, want %.200s", got, want)
	}
	if err != nil {
		return fmt.Errorf("%.100q: %w", words, err)
	}
	return nil
}

// prepare makes what attackers read: a string of 4 MiB, and one of 100 KiB.
func (g *goodClient) prepare() error {
	if err := g.expect("+OK", "SET", "big", strings.Repeat("b", 4*mib)); err != nil {
		return err
	}
	return g.expect("+OK", "SET", "middling", strings.Repeat("m", 100<<10))
}

// work gives commands for a while, and returns the time each took.
func (g *goodClient) work(d time.Duration) (times []time.Duration, err error) {
	for end := time.Now().Add(d); time.Now().Before(end) || len(times) == 0; {
		g.n++
		key, item := fmt.Sprint("good:", g.n%1000), fmt.Sprint("item:", g.n)
		for _, step := range []struct {
			want  string
			words []string
		}{
			{"+OK", []string{"SET", key, item}},
			{fmt.Sprintf("%q", item), []string{"GET", key}},
			{"", []string{"BF.ADD", "good:filter", item}},
			{":1", []string{"BF.EXISTS", "good:filter", item}},
			{fmt.Sprintf(":%d", g.n), []string{"INCR", "good:count"}},
		} {
			began := time.Now()
			got, err := g.Do(step.words...)
			times = append(times, time.Since(began))
			if err == nil && got != step.want && (step.want != "" || got != ":0" && got != ":1") {
				err = fmt.Errorf("got %.200s, want %s", got, step.want)
			}
			if err != nil {
				return times, fmt.Errorf("%q: %w", step.words, err)
			}
		}
	}
	return times, nil
}

// info returns the fields of INFO.
func (g *goodClient) info() (map[string]string, error) {
	text, err := g.Do("INFO")
	if err != nil {
		return nil, err
	}
	fields := make(map[string]string)
	for line := range strings.SplitSeq(text, `\r\n`) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}
