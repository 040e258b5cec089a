package dashboard_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/dashboard"
)

// still is a world whose dashboard does nothing in the background, at a time that the test sets.
type still struct {
	*world
	now time.Time
}

func openStill(t *testing.T, o *dashboard.Options) *still {
	t.Helper()
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true, Durability: sievekv.NoSync, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // nothing is kept
	s := &still{&world{t: t, db: db}, time.Now()}
	if s.d, err = dashboard.Stopped(db.Store(), o, func() time.Time { return s.now }); err != nil {
		t.Fatal(err)
	}
	return s
}

// see returns a page as it is at the time, of the listing that there is.
func (s *still) see(path string) string {
	s.t.Helper()
	a := httptest.NewRecorder()
	s.d.ServeHTTP(a, request(path))
	if a.Code != 200 {
		s.t.Fatalf("%s: %d", path, a.Code)
	}
	return text(a.Body.String())
}

// list has the listing read everything, in steps.
func (s *still) list() (steps int) {
	s.t.Helper()
	for {
		steps++
		s.d.Step()
		if _, whole := s.d.Listed(); whole {
			return steps
		}
	}
}

// A page about 100,000 filters reads none of them but by a step of the listing now and then, is small, and sorts and filters all.
func TestListing_many(t *testing.T) {
	const filters = 100_000
	s := openStill(t, nil)
	for i := range filters {
		capacity := "100"
		if i == 77_777 {
			capacity = "877"
		}
		s.run("BF.RESERVE", fmt.Sprintf("tenant:%06d", i), "0.01", capacity, "NONSCALING")
	}
	s.fill("BF.MADD", "tenant:077777", 0, 850)
	full := fmt.Sprint(s.stats("tenant:077777")["items"].Int())
	if first := s.see("/filters"); s.d.Read() > 1000 || !strings.Contains(first, "the listing is being read for the first time") {
		t.Errorf("the first page has read %d keys: %.500s", s.d.Read(), first)
	}
	if steps := s.list(); steps < 100 {
		t.Errorf("%d steps", steps)
	}
	read := s.d.Read()
	if read != filters {
		t.Errorf("a pass has read %d keys", read)
	}
	for path, want := range map[string][]string{
		"/filters":                              {"1 to 50 of 100000 filters", "tenant:000000", "tenant:000049"},
		"/filters?page=2000":                    {"99951 to 100000 of 100000 filters", "tenant:099999"},
		"/filters?page=999999":                  {"99951 to 100000 of 100000 filters"},
		"/filters?sort=items&order=desc":        {"1 to 50", "tenant:077777 ◧ nearly full Bloom " + full + " 877"},
		"/filters?q=:09999":                     {"1 to 10 of 10 filters"},
		"/filters?state=nearly-full":            {"1 to 1 of 1 filters", "tenant:077777"},
		"/filters?type=CBloom---":               {"No filter matches."},
		"/filters?sort=nonsense&page=x&state=y": {"1 to 50 of 100000 filters"},
		"/":                                     {"100000 filters", "Nearly full: 1", "tenant:077777 " + full + " of 877 items"},
		"/busy":                                 {"tenant:077777"},
	} {
		a := httptest.NewRecorder()
		s.d.ServeHTTP(a, request(path))
		page := text(a.Body.String())
		for _, one := range want {
			if !strings.Contains(page, one) {
				t.Errorf("%s lacks %q: %.1500s", path, one, page)
			}
		}
		if n := a.Body.Len(); n > 100_000 {
			t.Errorf("%s has %d bytes", path, n)
		}
	}
	if n := s.d.Read() - read; n != 0 {
		t.Errorf("pages have read %d keys", n)
	}
	s.now = s.now.Add(time.Hour)
	s.see("/filters")
	if n := s.d.Read() - read; n == 0 || n > 1000 {
		t.Errorf("a page whose listing is old has read %d keys", n)
	}
}

// Rates and the time to full are those between two passes.
func TestListing_rates(t *testing.T) {
	s := openStill(t, nil)
	s.do("BF.RESERVE seen 0.01 1000 NONSCALING", "BF.RESERVE grows 0.01 1000")
	s.fill("BF.MADD", "seen", 0, 100)
	s.list()
	if page := s.see("/filters"); !strings.Contains(page, "seen ○ never asked Bloom 100 1000") || !strings.Contains(page, "– 0 0 – –") {
		t.Errorf("rates are known at once: %s", page)
	}
	s.fill("BF.MADD", "seen", 90, 140)
	s.fill("BF.MADD", "grows", 0, 100)
	s.fill("BF.MEXISTS", "seen", 0, 40)
	s.now = s.now.Add(20 * time.Second)
	items := s.stats("seen")["items"].Int()
	pace := float64(items-100) / 20
	page := s.see("/filters?sort=lookups&order=desc")
	if !strings.Contains(page, "2/s 40 0 ") {
		t.Errorf("40 lookups in 20 s: %s", page)
	}
	left := fmt.Sprintf("%.0f min never", (1000-float64(items))/pace/60)
	if !strings.Contains(page, " "+left) {
		t.Errorf("the time to full is not %s: %s", left, page)
	}
	if !strings.Contains(page, "grows in 3 min never") {
		t.Errorf("no time to grow: %s", page)
	}
}
