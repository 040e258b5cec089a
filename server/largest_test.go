package server

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// The largest filters are found, even if more keys than one collection looks at come before them. Removed ones are
// not shown.
func TestMetrics_largest(t *testing.T) {
	db, err := kv.Open("", &kv.Options{InMemory: true, Durability: kv.NoSync, Seed: 1, Modules: coreext.With(bloomext.Module(), Module())})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	s, err := New(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * perCollect {
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
	for range 3 { // 2030 keys
		scrape()
	}
	keys, text := scrape()
	if got, want := strings.Join(keys, " "), "filter:27 filter:28 filter:29"; got != want {
		t.Errorf("shown are %s, want %s", got, want)
	}
	if want := `sievekv_filter_capacity{key="filter:29",type="MBbloom--"} 30000` + "\n"; !strings.Contains(text, want) {
		t.Errorf("the metrics have no %q:\n%s", want, text)
	}
	if _, err := db.Delete(kv.NoSync, []byte("filter:29")); err != nil {
		t.Fatal(err)
	}
	if keys, _ := scrape(); len(keys) != 3 && len(keys) != 2 || strings.Contains(strings.Join(keys, " "), "filter:29") {
		t.Errorf("shown are %s after filter:29 was deleted", keys)
	}
	if n := len(s.largest.bytes); n > 3 {
		t.Errorf("%d filters are remembered, of which 3 are shown", n)
	}
	if err := module.Of(db).SetSetting(metricsSetting, "0"); err != nil {
		t.Fatal(err)
	}
	if keys, _ := scrape(); len(keys) > 0 {
		t.Errorf("shown are %s, want none", keys)
	}
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
