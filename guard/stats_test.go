package guard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sievekv/sievekv/guard"
)

// The rate of false positives is measured, and too many are told once for each filter.
func TestStats_falsePositives(t *testing.T) {
	var log strings.Builder // which also tells of the empty filter
	o := guard.Options{Empty: true, Capacity: 1000, ErrorRate: 0.1, Logger: slog.New(slog.NewTextHandler(&log, nil))}
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
			w.want(fmt.Sprint("nobody ", i), guard.ErrNotFound)
		}
		s := w.g.Stats()
		if s.FalsePositiveRate < 0.02 || s.FalsePositiveRate > 0.14 || s.AboveRate { // 0.1 at most, give or take a fifth
			t.Errorf("%+v", s)
		}
		if s.FalsePositives != s.Loads || s.Nulls != s.Loads || 2*s.FalsePositives+s.Refused != 10_000 {
			t.Errorf("%+v", s)
		}
		if log.Len() != 0 {
			t.Error(log.String())
		}
		gone := func() { // ids that are gone, and that a Bloom filter keeps
			for i := range 200 {
				w.unset(fmt.Sprint(i))
				w.check(w.g.Put(w.Context(), fmt.Sprint(i), nil, nil))
				w.want(fmt.Sprint(i), guard.ErrNotFound)
			}
		}
		gone()
		if s := w.g.Stats(); !s.AboveRate || strings.Count(log.String(), "absent ids") != 1 {
			t.Errorf("%+v, %s", s, log.String())
		}
		for i := range 5000 { // it is told of the filter until there is another
			w.want(fmt.Sprint("nobody ", i), guard.ErrNotFound)
		}
		if s := w.g.Stats(); !s.AboveRate {
			t.Errorf("%+v", s)
		}
		before := w.g.Stats()
		w.check(w.g.Rebuild(w.Context(), w.allRows())) // from here on the rate is the new filter's
		if s := w.g.Stats(); s.AboveRate || s.FalsePositiveRate != 0 || s.FalsePositives != before.FalsePositives || s.Refused != before.Refused {
			t.Errorf("%+v after a rebuild, %+v before", s, before)
		}
		log.Reset()
		gone()
		if s := w.g.Stats(); !s.AboveRate || strings.Count(log.String(), "absent ids") != 1 {
			t.Errorf("%+v, %s", s, log.String())
		}
	})
}

// What says nothing new of the filter is not counted: an id that is asked for often, callers that share a load, and loads
// that have failed.
func TestStats_onceForEachID(t *testing.T) {
	inWorld(t, &guard.Options{Empty: true, ErrorRate: exact, NullTTL: -1}, func(w *world) {
		w.check(w.g.Put(w.Context(), "gone", nil, nil))
		for range 100 {
			w.want("gone", guard.ErrNotFound) // nothing is remembered
			w.want("nobody", guard.ErrNotFound)
		}
		if s := w.g.Stats(); s.FalsePositives != 100 || s.AboveRate || math.Abs(s.FalsePositiveRate-0.5) > 0.001 {
			t.Errorf("%+v", s)
		}
		let := w.holding("gone")
		first, second := w.get(w.Context(), "gone"), w.get(w.Context(), "gone")
		free := let.next()
		synctest.Wait()
		free()
		wantResult(t, "gone", <-first, guard.ErrNotFound)
		wantResult(t, "gone", <-second, guard.ErrNotFound)
		if s := w.g.Stats(); s.FalsePositives != 101 || s.Shared != 1 {
			t.Errorf("%+v", s)
		}
	})
	inWorld(t, &guard.Options{Empty: true, ErrorRate: exact, FailedIsAbsent: true, BreakerFailures: -1}, func(w *world) {
		w.fail(errSource)
		for i := range 100 {
			w.put(fmt.Sprint(i), "row")
			w.check(w.g.Put(w.Context(), fmt.Sprint(i), nil, nil))
			w.want(fmt.Sprint(i), guard.ErrNotFound)
		}
		if s := w.g.Stats(); s.FalsePositives != 0 || s.AboveRate {
			t.Errorf("%+v", s)
		}
	})
}

// A filter is said to be above its rate if it has twice that, soon and once, and not if it has just that. The numbers of ids
// are those that the comment of the type derives; the bounds are six standard deviations away, or more.
func TestPassRate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	next := 0
	// run asks for up to n new absent ids, and returns after how many the alarm came, 0 for none.
	run := func(p guard.PassRate, share float64, n int) (at, told int) {
		for i := range n {
			next++
			if id := fmt.Sprint(next); rng.Float64() >= share {
				p.Refuse(id)
			} else if p.Pass(id) {
				if told++; at == 0 {
					at = i + 1
				}
			}
		}
		return at, told
	}
	for _, asked := range []float64{0.1, 0.01} {
		p := guard.NewPassRate(asked)
		if _, told := run(p, asked, int(1000/asked)); told != 0 {
			t.Errorf("rate %v as asked for: an alarm", asked)
		}
		if rate, above := p.Read(); above || math.Abs(rate/asked-1) > 0.3 {
			t.Errorf("rate %v as asked for: measured %v, above %v", asked, rate, above)
		}
		if at, told := run(p, 2*asked, int(500/asked)); at == 0 || told != 1 {
			t.Errorf("twice the rate %v, later: told %d times", asked, told)
		}
		at, told := run(guard.NewPassRate(asked), 2*asked, int(400/asked))
		if at < int(15/asked) || at > int(250/asked) || told != 1 {
			t.Errorf("twice the rate %v: after %d ids, told %d times", asked, at, told)
		}
		p = guard.NewPassRate(asked)
		if run(p, 0, int(100/asked)); true { // a good filter
			if at, _ := run(p, 5*asked, int(200/asked)); at == 0 {
				t.Errorf("five times the rate %v, after a good time: not told", asked)
			}
		}
	}
}

// Ids that are asked for again do not change what is measured.
func TestPassRate_again(t *testing.T) {
	p := guard.NewPassRate(1e-5)
	for range 1000 {
		for i := range 25 {
			if p.Pass(fmt.Sprint("passes ", i)) {
				t.Fatal("an alarm after 25 ids")
			}
		}
	}
	if p := guard.NewPassRate(1e-5); p.Pass("a") {
		t.Error("an alarm after one id")
	}
	p = guard.NewPassRate(0.01)
	for range 200 { // one that is refused does not make the others look fewer
		for range 1000 {
			p.Refuse("the same")
		}
		next := fmt.Sprint(rand.Uint64())
		p.Pass(next)
	}
	if rate, above := p.Read(); !above || rate < 0.9 {
		t.Errorf("200 of 201 ids pass: measured %v, above %v", rate, above)
	}
}

// However many absent ids a filter lets through, few are in memory, and they are told of once.
func TestPassRate_memory(t *testing.T) {
	const ids = 40_000
	p, told, most := guard.NewPassRate(0.01), 0, 0
	for i := range ids {
		if p.Pass(fmt.Sprint(i)) {
			told++
		}
		most = max(most, p.Kept())
	}
	if rate, above := p.Read(); most > ids/2 || told != 1 || rate != 1 || !above {
		t.Errorf("%d hashes are in memory, told %d times, rate %v, above %v", most, told, rate, above)
	}
}

// The different ids that are refused are counted within a tenth.
func TestPassRate_count(t *testing.T) {
	p, asked := guard.NewPassRate(1), 0
	for _, n := range []int{10, 100, 1000, 5000, 10_000, 12_000, 20_000, 50_000, 200_000, 1_000_000} {
		for ; asked < n; asked++ {
			p.Refuse(fmt.Sprint(asked))
		}
		if asked == 10 {
			p.Pass("one")
		}
		rate, _ := p.Read()
		if got := 1/rate - 1; math.Abs(got/float64(n)-1) > 0.1 {
			t.Errorf("%d ids are counted as %.0f", n, got)
		}
	}
}

// What Warm does is no miss, and so neither a shared one nor one that got a stale value.
func TestStats_warm(t *testing.T) {
	inWorld(t, &guard.Options{TTL: time.Second, Jitter: -1}, func(w *world) {
		w.set("a", "1")
		let := w.holding("a")
		first := w.get(w.Context(), "a")
		free := let.next()
		warmed := done(func() error { _, err := w.g.Warm(w.Context(), seqOf("a")); return err })
		synctest.Wait() // it shares the load
		free()
		wantResult(t, "a", <-first, "1")
		w.check(<-warmed)
		time.Sleep(time.Second)
		w.free("a")
		w.fail(errSource)
		if _, err := w.g.Warm(w.Context(), seqOf("a")); !errors.Is(err, guard.ErrUnavailable) {
			t.Error(err)
		}
		if s := w.g.Stats(); s.Misses != 1 || s.Shared != 0 || s.Stale != 0 || s.Loads != 2 || s.Failed != 1 {
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

// asking is a handler of a log that asks the guard before it handles a record.
type asking struct {
	slog.Handler
	ask func()
}

func (h asking) Handle(ctx context.Context, r slog.Record) error {
	h.ask()
	return h.Handler.Handle(ctx, r)
}

// A handler of the log may ask for the guard's Stats, also when the breaker changes.
func TestLog_asks(t *testing.T) {
	var g *guard.Guard
	var states []string
	ask := func() {
		if g != nil {
			states = append(states, g.Stats().Breaker)
		}
	}
	o := &guard.Options{Empty: true, BreakerFailures: 1, BreakerPause: time.Second, Logger: slog.New(asking{quiet.Handler(), ask})}
	inWorld(t, o, func(w *world) {
		w.check(w.g.Put(w.Context(), "a", nil, nil))
		g = w.g
		w.fail(errSource)
		w.want("a", errSource)
		time.Sleep(time.Second + 1)
		w.fail(nil)
		w.want("a", guard.ErrNotFound)
		if want := []string{"open", "half-open", "closed"}; !slices.Equal(states, want) {
			t.Errorf("the breaker was %q, want %q", states, want)
		}
	})
}

// A registry takes several collectors, of guards of any names, but no guard twice.
func TestCollector_several(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		other := w.open("other\xff", w.options(guard.Options{}))
		defer other.Close()
		r := prometheus.NewPedanticRegistry()
		w.check(r.Register(guard.NewCollector(w.g)))
		w.check(r.Register(guard.NewCollector(other)))
		if err := r.Register(guard.NewCollector(w.g)); err == nil {
			t.Error("a guard was registered twice")
		}
		families, err := r.Gather()
		w.check(err)
		for _, f := range families {
			if len(f.Metric) != 2 {
				t.Errorf("%s has %d guards, want 2", f.GetName(), len(f.Metric))
			}
		}
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
