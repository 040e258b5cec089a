package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSeries_median(t *testing.T) {
	for _, c := range []struct {
		s    series
		want float64
	}{{nil, 0}, {series{7}, 7}, {series{9, 1, 5}, 5}, {series{4, 1, 3, 2}, 2.5}} {
		before := slices.Clone(c.s)
		if got := c.s.median(); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.s, got, c.want)
		}
		if !slices.Equal(c.s, before) {
			t.Errorf("median changed %v to %v", before, c.s)
		}
	}
}

func TestSeries_over(t *testing.T) {
	got := series{2, 9, 5}.over(series{1, 0, 10})
	if want := (series{2, 0.5}); !slices.Equal(got, want) {
		t.Errorf("ratios %v, want %v", got, want)
	}
}

// Each repetition begins with another side, and the figures of a side stay together.
func TestInterleave(t *testing.T) {
	b := &bench{ctx: context.Background(), told: time.Now().Add(time.Hour)}
	var order []string
	make := func(name string, figure float64) side {
		return side{name, func() (float64, error) { order = append(order, name); return figure, nil }}
	}
	got, err := b.interleave(3, make("a", 1), make("b", 2), make("c", 3))
	if err != nil {
		t.Fatal(err)
	}
	if want := "abc bca cab"; strings.Join(order, "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("order %v, want %s", order, want)
	}
	for i, s := range got {
		if figure := float64(i + 1); !slices.Equal(s, series{figure, figure, figure}) {
			t.Errorf("figures of side %d: %v", i, s)
		}
	}
	failed := errors.New("failed")
	if _, err := b.interleave(1, side{"x", func() (float64, error) { return 0, failed }}); !errors.Is(err, failed) {
		t.Errorf("error %v, want %v", err, failed)
	}
}

func TestFormat(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 1: "1", 1.5: "1.5", 12.34: "12.3", 123.4: "123", 1234: "1,230", 1234567: "1,230,000", 0.7: "0.7", 0.0123: "0.0123",
		999.7: "1,000", 0.00001: "1e-05", 15.05: "15.1", 100: "100", 9.999: "10",
	} {
		if got := format(x); got != want {
			t.Errorf("format(%v) = %q, want %q", x, got, want)
		}
	}
}

func TestRow_verdict(t *testing.T) {
	for _, c := range []struct {
		row  row
		want string
	}{
		{row{ours: series{5}}, ""},
		{row{ours: series{5}, must: figureAtLeast(5)}, "met"},
		{row{ours: series{5}, must: figureAtMost(4)}, "not met"},
		{row{ours: series{5}, must: figureAtMost(4), reduced: true}, "not met (reduced)"},
		{row{ours: series{5}, theirs: series{10}, must: ratioAtMost(0.5)}, "met"},
		{row{ours: series{5}, theirs: series{10}, must: ratioAtLeast(0.7)}, "not met"},
		{row{ours: series{5}, must: ratioAtLeast(0.7)}, "not measured"}, // the peer is not installed
		{row{must: figureAtMost(1)}, "not measured"},
	} {
		if got := c.row.verdict(); got != c.want {
			t.Errorf("verdict of %+v is %q, want %q", c.row, got, c.want)
		}
	}
}

// A row shows both figures, the ratio of each repetition, and what must be reached.
func TestResult_tables(t *testing.T) {
	r := result{
		topic: topic{name: "adds", about: "About adds."},
		rows: []row{
			{what: "add | one", unit: "ns", ours: series{300, 100, 200}, peer: "other", theirs: series{100, 100, 100}, must: ratioAtMost(1.2)},
			{what: "alone", unit: "ns", ours: series{1234}},
		},
		notes: []string{"A note."},
	}
	var out strings.Builder
	r.markdown(&out)
	for _, want := range []string{
		"\n## adds\n\nAbout adds.\n\n| what | unit |",
		"| add \\| one | ns | 200 | other | 100 | 2 | 1 to 3 | ratio ≤ 1.2 | not met |\n",
		"| alone | ns | 1,230 |  |  |  |  |  |  |\n",
		"\nA note.\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	text := r.text()
	for _, want := range []string{"\nadds (0 s, of the processors 0 s)\n", "add | one", "ratio ≤ 1.2", "A note.\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if got := verdict([]result{r}); !strings.HasPrefix(got, "\n0 of 1 figures are as they must be\n  adds: add | one: 200 ns, ratio 2") {
		t.Errorf("verdict %q", got)
	}
}

func TestChoose(t *testing.T) {
	all, err := choose("")
	if err != nil || len(all) != len(topics) {
		t.Errorf("%d topics, %v, want all %d", len(all), err, len(topics))
	}
	some, err := choose("cold,adds")
	if err != nil || len(some) != 2 || some[0].name != "cold" || some[1].name != "adds" {
		t.Errorf("topics %v, %v", some, err)
	}
	if _, err := choose("nothing"); err == nil {
		t.Error("a topic that there is not was chosen")
	}
}

func TestPlot(t *testing.T) {
	p := picture{title: "T", x: "items", y: "ns", log: true, lines: []line{{name: "a line"}}}
	for _, x := range []float64{1e5, 1e6, 1e7} {
		p.lines[0].add(x, x/100)
	}
	svg, err := p.svg()
	if err != nil || !strings.Contains(string(svg), "<svg") || !strings.Contains(string(svg), "a line") {
		t.Errorf("svg %.300s, %v", svg, err)
	}
	if svg, err := (&picture{}).svg(); svg != nil || err != nil {
		t.Errorf("a plot without lines: %q, %v", svg, err)
	}
}
