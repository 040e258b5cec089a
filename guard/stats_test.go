package guard_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sievekv/sievekv/guard"
)

// The rate of false positives is measured, and too many are told once.
func TestStats_falsePositives(t *testing.T) {
	var log strings.Builder // which also tells of the empty filter
	o := guard.Options{Empty: true, Capacity: 1000, ErrorRate: 0.1, NullTTL: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	inWorld(t, &o, func(w *world) {
		if n := strings.Count(log.String(), "begins empty"); n != 1 {
			t.Errorf("%d lines in the log: %s", n, log.String())
		}
		log.Reset()
		for i := range 1000 {
			w.put(fmt.Sprint(i), "row")
		}
		for i := range 5000 {
			w.want(fmt.Sprint("nobody ", i), guard.ErrNotFound)
		}
		s := w.g.Stats()
		if s.FalsePositiveRate < 0.02 || s.FalsePositiveRate > 0.13 || s.AboveRate { // 0.1 at most, give or take 0.004
			t.Errorf("%+v", s)
		}
		if s.FalsePositives != s.Loads || s.FalsePositives+s.Refused != 5000 {
			t.Errorf("%+v", s)
		}
		if log.Len() != 0 {
			t.Error(log.String())
		}
		for id := range w.allRows() { // ids that are gone
			w.unset(id)
			w.check(w.g.Put(w.Context(), id, nil, nil))
		}
		for range 3 {
			for i := range 1000 {
				w.want(fmt.Sprint(i), guard.ErrNotFound)
			}
		}
		if s := w.g.Stats(); !s.AboveRate {
			t.Errorf("%+v", s)
		}
		if n := strings.Count(log.String(), "absent ids"); n != 1 {
			t.Errorf("%d lines in the log: %s", n, log.String())
		}
		before := w.g.Stats()
		w.check(w.g.Rebuild(w.Context(), w.allRows())) // the rate is that of the new filter from here on
		if s := w.g.Stats(); s.AboveRate || s.FalsePositiveRate != 0 || s.FalsePositives != before.FalsePositives || s.Refused != before.Refused {
			t.Errorf("%+v after a rebuild, %+v before", s, before)
		}
		for i := range 1000 {
			w.want(fmt.Sprint(i), guard.ErrNotFound)
		}
		if s := w.g.Stats(); s.AboveRate || s.FalsePositiveRate > 0.13 {
			t.Errorf("%+v", s)
		}
		log.Reset()
		for range 4 { // a filter can have too many false positives again
			for i := range 400 {
				w.check(w.g.Put(w.Context(), fmt.Sprint(i), nil, nil))
				w.want(fmt.Sprint(i), guard.ErrNotFound)
			}
		}
		if s := w.g.Stats(); !s.AboveRate || strings.Count(log.String(), "absent ids") != 1 {
			t.Errorf("%+v, %s", s, log.String())
		}
		for i := range 2000 { // and then none, so that no lookup but those that are refused is counted
			w.want(fmt.Sprint("nobody ", i), guard.ErrNotFound)
		}
		if s := w.g.Stats(); s.AboveRate {
			t.Errorf("%+v", s)
		}
	})
}

// Without a filter nothing is a false positive.
func TestStats_unfiltered(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		for range 3 {
			w.want("a", guard.ErrNotFound)
		}
		w.g.GetMany(w.Context(), "a", "b")
		if s := w.g.Stats(); s.FalsePositives != 0 || s.Nulls != 3 || s.FilterFaults != 4 {
			t.Errorf("%+v", s)
		}
	})
}

// The log tells when something begins to fail and when it ends, and what the breaker does.
func TestLog(t *testing.T) {
	var log strings.Builder
	c := newOutside()
	o := guard.Options{
		Cache: c, BreakerFailures: 1, BreakerPause: time.Second,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}
	inWorld(t, &o, func(w *world) {
		told := func(want ...string) {
			t.Helper()
			got := log.String()
			log.Reset()
			for _, part := range want {
				if strings.Count(got, part) != 1 {
					t.Errorf("the log has not %q once:\n%s", part, got)
				}
			}
			if n := strings.Count(got, "\n"); n != len(want) {
				t.Errorf("the log has %d lines, want %d:\n%s", n, len(want), got)
			}
		}
		w.set("a", "1")
		told("there is no filter until Rebuild ends")
		w.want("a", "1")
		w.want("a", "1")
		told("the filter fails")
		w.check(w.g.Rebuild(w.Context(), w.allRows()))
		w.want("a", "1")
		w.want("a", "1")
		told("rebuild begins", "rebuild ends", "the filter works again")
		c.change(func() { c.err = errOther })
		w.want("a", "1")
		w.want("a", "1")
		told("reading the cache fails", "writing the cache fails")
		c.change(func() { c.err = nil; clear(c.entries) })
		w.want("a", "1")
		told("reading the cache works again", "writing the cache works again")
		c.change(func() { clear(c.entries) })
		w.fail(errSource)
		w.want("a", errSource)
		told("to=open")
		time.Sleep(2 * time.Second)
		w.fail(nil)
		w.want("a", "1")
		told("to=half-open", "to=closed")
	})
}

func TestCollector(t *testing.T) {
	inWorld(t, &guard.Options{Empty: true, ErrorRate: exact, BreakerFailures: 1}, func(w *world) {
		other := w.open("other", w.options(guard.Options{Empty: true, ErrorRate: 0.5, BreakerFailures: -1}))
		defer other.Close()
		w.put("a", "1")
		w.want("a", "1")
		w.want("b", guard.ErrNotFound)
		w.set("c", "1")
		w.check(w.g.Put(w.Context(), "c", nil, nil))
		w.fail(errSource)
		w.want("c", errSource)
		synctest.Wait()
		r := prometheus.NewPedanticRegistry()
		w.check(r.Register(guard.NewCollector(w.g, other)))
		page := httptest.NewRecorder()
		promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest("GET", "/", nil))
		got := make(map[string]float64)
		for line := range strings.Lines(page.Body.String()) {
			var value float64
			name, text, found := strings.Cut(strings.TrimSpace(line), "\"} ")
			if _, err := fmt.Sscan(text, &value); !found || err != nil {
				continue
			}
			got[strings.Replace(strings.TrimPrefix(name, "sievekv_guard_"), "{guard=\"", " ", 1)] = value
		}
		for name, want := range map[string]float64{
			"asked_total users": 3, "refused_total users": 1, "hits_total users": 1, "misses_total users": 1, "failed_total users": 1,
			"loads_total users": 1, "breaker users": 1, "breaker other": 0, "false_positive_ratio_asked other": 0.5, "asked_total other": 0,
			"soft_total users": 0, "full_filters_total users": 0, "nulls_total users": 0, "stale_total users": 0, "shared_total users": 0, "filter_faults_total users": 0,
			"cache_faults_total users": 0, "false_positives_total users": 0, "false_positive_ratio users": 0,
			"false_positives_above_asked users": 0,
		} {
			if value, there := got[name]; !there || value != want {
				t.Errorf("%s is %v, %v, want %v", name, value, there, want)
			}
		}
	})
}
