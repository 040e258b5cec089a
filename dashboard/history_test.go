package dashboard_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/dashboard"
)

// The history has the filters that are used most, no more than its budget has room for, and takes no more memory than that.
func TestHistory_budget(t *testing.T) {
	const budget = 2 << 20
	s := openStill(t, &dashboard.Options{HistoryBytes: budget})
	most := s.d.MostTracked()
	if most < 20 || most > 50 {
		t.Fatalf("a history of %d filters", most)
	}
	for i := range 2 * most {
		s.run("BF.RESERVE", fmt.Sprintf("f%03d", i), "0.01", "100")
	}
	s.list()
	before := heap()
	s.d.Sample(s.now)
	if n := len(s.d.Tracked()); n != most {
		t.Errorf("%d filters, want %d", n, most)
	}
	for range 3 {
		for i := most; i < most+5; i++ {
			s.fill("BF.MEXISTS", fmt.Sprintf("f%03d", i), 0, 50)
		}
		s.now = s.now.Add(2 * time.Minute)
		s.list()
		s.d.Sample(s.now)
	}
	for i := most; i < most+5; i++ {
		if !slices.Contains(s.d.Tracked(), fmt.Sprintf("f%03d", i)) {
			t.Errorf("f%03d is used, and has no history", i)
		}
	}
	for range 1000 {
		s.now = s.now.Add(5 * time.Second)
		s.d.Sample(s.now)
	}
	if took := int64(heap()) - int64(before); took > budget+budget/4 {
		t.Errorf("the history takes %d bytes, of a budget of %d", took, budget)
	}
	if n := len(s.d.Tracked()); n != most {
		t.Errorf("%d filters, want %d", n, most)
	}
	for _, n := range []int64{1, 1 << 40} {
		if _, err := dashboard.New(s.db.Store(), &dashboard.Options{HistoryBytes: n}); err == nil || !strings.Contains(err.Error(), fmt.Sprint(n)) {
			t.Errorf("a history of %d bytes: %v", n, err)
		}
	}
}

// heap returns the bytes that are in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// The charts of a filter show what was, and its page how much it has grown.
func TestHistory_filter(t *testing.T) {
	s := openStill(t, nil)
	s.do("BF.RESERVE seen 0.01 100000")
	s.list()
	s.d.Sample(s.now) // the history of the filter begins
	for i := range 13 {
		s.fill("BF.MADD", "seen", 100*i, 100*i+100)
		s.fill("BF.MEXISTS", "seen", 0, 10)
		s.now = s.now.Add(5 * time.Second)
		s.d.Sample(s.now)
	}
	grown := s.stats("seen")["items"].Int()
	page := s.see(at("seen"))
	first := s.see(at("seen"))
	if !strings.Contains(page, "items more in the last 60 s.") || !strings.Contains(page, "answered no 0") || !strings.Contains(page, "answered yes 2") {
		t.Errorf("%d items: %s", grown, page)
	}
	if !strings.Contains(s.see(at("seen")+"&span=day"), "24 h ago") || !strings.Contains(first, "60 min ago") {
		t.Error("a day and an hour are not shown")
	}
	if overview := s.see("/"); !strings.Contains(overview, "lookups 2 adds 20") {
		t.Errorf("the overview is %s", overview)
	}
	s.do("DEL seen")
	for range 2 { // the first may still find it in the listing
		s.now = s.now.Add(5 * time.Second)
		s.d.Sample(s.now)
	}
	if n := len(s.d.Tracked()); n != 0 {
		t.Errorf("a history of %d filters that are gone", n)
	}
}
