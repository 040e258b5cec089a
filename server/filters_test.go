package server

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// memoryServer returns a server over a store in memory that has all types of filter. A nil logger is the default one.
func memoryServer(t testing.TB, logger *slog.Logger) (*kv.DB, *Server) {
	t.Helper()
	db, err := kv.Open("", &kv.Options{
		InMemory: true, Durability: kv.NoSync, Seed: 1, Logger: logger,
		Modules: coreext.With(bloomext.Module(), cuckooext.Module(), countingext.Module(), Module()),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := New(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	return db, s
}

// The largest filters are found, even if more keys than one collection looks at come before them. Removed ones are
// not shown.
func TestMetrics_largest(t *testing.T) {
	db, s := memoryServer(t, nil)
	for i := range 20 * perStep {
		if _, err := db.Set(kv.NoSync, fmt.Appendf(nil, "string:%d", i), []byte("v"), kv.SetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 30 {
		c := bloomext.Config{Capacity: uint64(1000 * (i + 1)), ErrorRate: 0.01, NonScaling: true}
		if err := bloomext.New(db, fmt.Sprintf("filter:%02d", i)).Reserve(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := module.Of(db).SetSetting(metricsSetting, "3"); err != nil {
		t.Fatal(err)
	}
	h := s.MetricsHandler(&MetricsOptions{Hosts: []string{"example.com"}, Keys: true})
	scrape := func() (keys []string, text string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		for line := range strings.Lines(w.Body.String()) {
			if rest, ok := strings.CutPrefix(line, `sievekv_filter_capacity{key="`); ok {
				key, _, _ := strings.Cut(rest, `"`)
				keys = append(keys, key)
			}
		}
		return keys, w.Body.String()
	}
	s.filters.pause = func(time.Duration) {}
	scrape()
	s.awaitPass()
	keys, text := scrape()
	if got, want := strings.Join(keys, " "), "filter:00 filter:01 filter:02 filter:27 filter:28 filter:29"; got != want {
		t.Errorf("shown are %s, want %s", got, want)
	}
	if want := `sievekv_filter_capacity{key="filter:29",type="MBbloom--"} 30000` + "\n"; !strings.Contains(text, want) {
		t.Errorf("the metrics have no %q:\n%s", want, text)
	}
	if _, err := db.Delete(kv.NoSync, []byte("filter:29")); err != nil {
		t.Fatal(err)
	}
	if keys, _ := scrape(); len(keys) != 5 || strings.Contains(strings.Join(keys, " "), "filter:29") {
		t.Errorf("shown are %s after filter:29 was deleted", keys)
	}
	if n := len(s.filters.last.largest); n > 3 {
		t.Errorf("%d filters are remembered, of which 3 are shown", n)
	}
	if err := module.Of(db).SetSetting(metricsSetting, "0"); err != nil {
		t.Fatal(err)
	}
	if keys, _ := scrape(); len(keys) > 0 {
		t.Errorf("shown are %s, want none", keys)
	}
}

// The facts of real filters of every kind at their capacity, of many sizes and rates: chance and RedisBloom's roundings
// never put one above its rate. Filters that hold far more than they were made for are above it.
func TestFilters_aboveRate(t *testing.T) {
	db, s := memoryServer(t, nil)
	session, ctx := module.NewSession(db), context.Background()
	do := func(line string) reply.Reply {
		var words [][]byte
		for _, word := range strings.Fields(line) {
			words = append(words, []byte(word))
		}
		return session.Do(ctx, words)
	}
	fill := func(name, command string, items int) {
		var line strings.Builder
		line.WriteString(command)
		for i := range items {
			fmt.Fprintf(&line, " %s:%d", name, i)
		}
		if r := do(line.String()); r.IsError() {
			t.Fatalf("%.60s: %s", line.String(), r)
		}
	}
	above := 0
	filled := func(made, add string, capacity int) {
		for round := range max(1, min(10, 300/capacity)) {
			do("DEL f")
			if r := do(made); r.IsError() {
				t.Fatalf("%s: %s", made, r)
			}
			fill(fmt.Sprintf("%s %d", strings.ReplaceAll(made, " ", "-"), round), add, capacity)
			f := s.factsOf(session, "f")
			if above = above + 1; f.isAboveRate() {
				t.Errorf("%s with %d items is above its rate: %g, made for %g", made, capacity, f.number("expected_rate"), f.number("error_rate"))
			}
		}
	}
	for _, layout := range []string{"native", "compatible"} {
		do("CONFIG SET bf-layout " + layout + " cf-layout " + layout + " growth-log-bytes 0")
		for _, capacity := range []int{1, 3, 10, 100, 1000, 5000} {
			for _, rate := range []string{"0.2", "0.01", "0.000000001"} {
				filled(fmt.Sprintf("BF.RESERVE f %s %d NONSCALING", rate, capacity), "BF.MADD f", capacity)
				if layout == "native" {
					filled(fmt.Sprintf("CBF.RESERVE f %s %d NONSCALING", rate, capacity), "CBF.MADD f", capacity)
				}
			}
			filled(fmt.Sprintf("BF.RESERVE f 0.01 %d EXPANSION 2", max(1, capacity/7)), "BF.MADD f", capacity)
			filled(fmt.Sprintf("CF.RESERVE f %d EXPANSION 0", max(8, capacity)), "CF.INSERT f ITEMS", capacity)
		}
	}
	if above < 200 {
		t.Errorf("only %d filters were looked at", above)
	}
}

// A scrape of a small store sees it as it is, also when a pass has ended just now.
func TestFilters_small(t *testing.T) {
	db, s := memoryServer(t, nil)
	l := &s.filters
	for _, key := range []string{"a", "b"} {
		if err := bloomext.New(db, key).Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.01}); err != nil {
			t.Fatal(err)
		}
		if key == "a" {
			l.due = time.Time{}
			l.tick(s)
			<-l.done
		}
	}
	l.ask(s)
	if l.last == nil || l.last.all != 2 {
		t.Errorf("the scrape sees %+v, want 2 filters", l.last)
	}
}

// A filter is above its rate if chance does not explain it. The smaller a filter, the more chance explains.
func TestFacts_isAboveRate(t *testing.T) {
	for _, test := range []struct {
		capacity       int64
		rate, expected float64
		want           bool
	}{
		{1_000_000, 0.01, 0.0119, false}, {1_000_000, 0.01, 0.0125, true}, {1000, 0.01, 0.013, false}, {1000, 0.01, 0.02, true}, {100, 0.01, 0.02, false},
		{100, 0.01, 0.04, true}, {1, 0.01, 1, false}, {1000, 0, 1, false}, {1000, 0.01, 0, false}, {1_000_000, 1e-9, 2e-9, true},
	} {
		f := facts{"capacity": reply.Int(test.capacity), "error_rate": reply.Double(test.rate), "expected_rate": reply.Double(test.expected)}
		if got := f.isAboveRate(); got != test.want {
			t.Errorf("capacity %d, made for %g, expected %g: %t, want %t", test.capacity, test.rate, test.expected, got, test.want)
		}
	}
}

// What a pass has found of the fullest filters, of full ones and of growing ones. The log is told once of each.
func TestFilters_census(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	db, s := memoryServer(t, logger)
	for name, items := range map[string]int{"half": 50, "at80": 80, "at95": 97, "at100": 100} {
		f := bloomext.New(db, name)
		if err := f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 1e-9, NonScaling: true}); err != nil {
			t.Fatal(err)
		}
		for i := range items {
			if _, err := f.Add(fmt.Appendf(nil, "%s:%d", name, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	grown := bloomext.New(db, "grown")
	if err := grown.Reserve(bloomext.Config{Capacity: 10, ErrorRate: 1e-9, GrowthLog: -1}); err != nil {
		t.Fatal(err)
	}
	for i := range 25 {
		if _, err := grown.Add(fmt.Appendf(nil, "%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	h := s.MetricsHandler(&MetricsOptions{Hosts: []string{"example.com"}})
	for range 3 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		for _, want := range []string{"sievekv_filters 5\n", "sievekv_filters_nearly_full 2\n", "sievekv_filters_full 1\n", "sievekv_filters_growing 1\n", "sievekv_filters_above_rate 0\n"} {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("the metrics have no %q", want)
			}
		}
		if strings.Contains(w.Body.String(), "at100") {
			t.Error("the metrics show keys")
		}
	}
	if got := fmt.Sprint(s.filters.last.fullest); got != "[{at100 1} {at95 0.97} {at80 0.8} {half 0.5}]" {
		t.Errorf("the fullest are %s", got)
	}
	for _, want := range []string{`"sievekv: a filter is 80 percent full" key=at80 items=80 capacity=100`, `"sievekv: a filter is 95 percent full" key=at95`, `"sievekv: a filter is full" key=at100`} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("the log has not once %s:\n%s", want, log.String())
		}
	}
	if n := strings.Count(log.String(), "percent full") + strings.Count(log.String(), "is full"); n != 3 {
		t.Errorf("the log tells %d times of filters, want 3:\n%s", n, log.String())
	}
}

// BenchmarkScrape asks a server for the metrics of a store with 100,000 filters, whose first pass has ended.
func BenchmarkScrape(b *testing.B) {
	quiet := slog.New(slog.DiscardHandler)
	db, s := memoryServer(b, quiet)
	for i := range 100_000 {
		if err := bloomext.New(db, fmt.Sprint(i)).Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.01, NonScaling: true}); err != nil {
			b.Fatal(err)
		}
	}
	pause := s.filters.pause
	s.filters.pause = func(time.Duration) {}
	h := s.MetricsHandler(&MetricsOptions{Hosts: []string{"example.com"}, Keys: true})
	scrape := func() { h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil)) }
	scrape()
	begin := time.Now()
	s.awaitPass()
	pass := time.Since(begin)
	s.filters.pause, s.filters.again, s.limits.metricsEvery = pause, time.Time{}, 0
	for b.Loop() {
		scrape()
	}
	b.ReportMetric(pass.Seconds(), "s/pass")
	_ = s.Shutdown(context.Background())
}

func TestLabel(t *testing.T) {
	long := strings.Repeat("k", maxLabel)
	seen := make(map[string]string)
	for _, key := range []string{"", "a", "\xff", `"\xff"`, "\xfe", long, long + "a", long + "b", long + "\xff", "é"} {
		got := label(key)
		if other, twice := seen[got]; twice {
			t.Errorf("%q and %q have the label %q", key, other, got)
		}
		seen[got] = key
		if len(got) > 2*maxLabel {
			t.Errorf("the label of %q has %d bytes", key, len(got))
		}
	}
}

// The most used filter is shown, though it is neither large nor full, with counts by kind. INFO has the sums of all filters.
func TestMetrics_used(t *testing.T) {
	db, s := memoryServer(t, nil)
	session := module.NewSession(db)
	do := func(line string) {
		var words [][]byte
		for _, word := range strings.Fields(line) {
			words = append(words, []byte(word))
		}
		if r := session.Do(context.Background(), words); r.IsError() {
			t.Fatalf("%s: %s", line, r)
		}
	}
	do("CONFIG SET metrics-largest 1")
	do("BF.RESERVE large 0.01 100000")
	do("BF.RESERVE full 0.01 4 NONSCALING")
	do("BF.MADD full a b c d")
	do("BF.RESERVE used 0.01 1000")
	do("BF.MADD used a b c a")
	do("BF.MEXISTS used a b c d e")
	do("BF.RESERVE other 0.01 1000")
	do("BF.ADD other a")
	w := httptest.NewRecorder()
	s.MetricsHandler(&MetricsOptions{Hosts: []string{"example.com"}, Keys: true}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`sievekv_filter_lookups_total{answer="yes",key="used",type="MBbloom--"} 3`, `sievekv_filter_lookups_total{answer="no",key="used",type="MBbloom--"} 2`,
		`sievekv_filter_adds_total{item="new",key="used",type="MBbloom--"} 3`, `sievekv_filter_adds_total{item="known",key="used",type="MBbloom--"} 1`,
	} {
		if !strings.Contains(w.Body.String(), "\n"+want+"\n") {
			t.Errorf("the metrics have no %s:\n%s", want, w.Body.String())
		}
	}
	if strings.Contains(w.Body.String(), `key="other"`) {
		t.Error("the metrics have a filter that is neither large, full nor used")
	}
	var info strings.Builder
	for _, field := range filtersInfo(s) {
		fmt.Fprintf(&info, "%s=%v ", field.Name, field.Value)
	}
	if got, want := info.String(), "filters=4 filters_nearly_full=0 filters_full=1 filters_growing=0 filters_above_rate=0 filter_lookups_yes=3 filter_lookups_no=2 filter_adds_new=8 filter_adds_known=1 "; got != want {
		t.Errorf("INFO has %s, want %s", got, want)
	}
}
