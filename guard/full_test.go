package guard_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/guard"
)

// small are options of filters that can grow to hold only a few ids.
var small = []guard.Options{
	{Filter: guard.Bloom, Capacity: 1, ErrorRate: 1e-16},
	{Filter: guard.Counting, Capacity: 1, ErrorRate: 1e-16},
	{Filter: guard.Cuckoo, Capacity: 100, ErrorRate: 3.4e-9},
}

// more returns by how many ids a grown filter must be exceeded before they are too many for a new one with these
// options. A Bloom filter that is rebuilt from its log has more room; but by their hashes alone, 2,000 ids are too many
// for 1e-16.
func more(o guard.Options) int {
	if o.Filter == guard.Bloom {
		return 2_000
	}
	return 0
}

// Ids that outgrow the filter are put all the same. The filter is dropped, and lookups are let through, until a Rebuild has
// made a larger one. A Rebuild for which there is no room drops what it has made, and tells why.
func TestFull(t *testing.T) {
	defer guard.SetRebuildBatch(16)() // for more a filter makes one layer
	for _, o := range small {
		if raceEnabled && o.Filter == guard.Cuckoo {
			continue // one goroutine puts 9,000 ids
		}
		var log strings.Builder
		o.Empty, o.NullTTL, o.Logger = true, -1, slog.New(slog.NewTextHandler(&log, nil))
		inWorld(t, &o, func(w *world) {
			ids := 0
			if o.Filter == guard.Cuckoo {
				for ; ids < 5_000; ids++ {
					w.set(fmt.Sprint(ids), "row")
				}
				w.check(w.g.Rebuild(w.Context(), w.allRows()))
			}
			log.Reset()
			for end := ids + 20_000; ids < end && w.g.Stats().FullFilters == 0; ids++ {
				w.put(fmt.Sprint(ids), "row")
			}
			w.put(fmt.Sprint(ids), "row")
			ids++
			if s := w.g.Stats(); s.FullFilters != 1 {
				t.Fatalf("%s: %+v", o.Filter, s)
			}
			if n := strings.Count(log.String(), "larger Capacity"); n != 1 {
				t.Errorf("%s: %d lines in the log: %s", o.Filter, n, log.String())
			}
			for _, id := range []string{"0", "7", fmt.Sprint(ids - 1)} {
				w.want(id, "row")
			}
			w.want("nobody", guard.ErrNotFound)
			w.wantLoads("nobody", 1)

			for range more(o) {
				w.set(fmt.Sprint(ids), "row")
				ids++
			}
			for range 2 {
				err := w.g.Rebuild(w.Context(), w.allRows())
				if !errors.Is(err, sievekv.ErrFull) && !errors.Is(err, sievekv.ErrCannotGrow) || !strings.Contains(err.Error(), fmt.Sprint("Capacity ", o.Capacity)) {
					t.Errorf("%s: %v", o.Filter, err)
				}
				if p, err := w.g.Progress(); p != (guard.Progress{}) || err != nil {
					t.Errorf("%s: %+v, %v", o.Filter, p, err)
				}
				if n, err := w.db.Exists("guard:users:filter", "guard:users:next"); n != 0 || err != nil {
					t.Errorf("%s: %d filters, %v", o.Filter, n, err)
				}
			}

			w.g.Close()
			o.Capacity, o.ErrorRate = uint64(2*ids), 0.01
			w.g = w.open("users", w.options(o))
			w.check(w.g.Rebuild(w.Context(), w.allRows()))
			w.want("nobody", guard.ErrNotFound)
			w.wantLoads("nobody", 1)
			for i := range ids {
				w.want(fmt.Sprint(i), "row")
			}
		})
	}
}

// A Put that the next filter has no room for drops that one, and ends its Rebuild. The filter in use stays.
func TestFull_whileRebuilt(t *testing.T) {
	defer guard.SetRebuildBatch(1)()
	for _, o := range small[:2] {
		inWorld(t, &guard.Options{Empty: true, Filter: o.Filter, ErrorRate: exact, NullTTL: -1}, func(w *world) {
			for i := range 4 {
				w.put(fmt.Sprint(i), "row")
			}
			w.g.Close()
			w.g = w.open("users", w.options(o))
			at := make(gate)
			rebuilt := done(func() error { return w.g.Rebuild(w.Context(), paused(at, w.allRows())) })
			goOn := at.next()
			for i := range 50 + more(o) {
				w.put(fmt.Sprint("new ", i), "row")
			}
			goOn()
			if err := <-rebuilt; !errors.Is(err, sievekv.ErrCannotGrow) || !strings.Contains(err.Error(), "Capacity 1:") {
				t.Errorf("%s: %v", o.Filter, err)
			}
			if p, err := w.g.Progress(); p != (guard.Progress{Filled: true}) || err != nil {
				t.Errorf("%s: %+v, %v", o.Filter, p, err)
			}
			w.want("nobody", guard.ErrNotFound)
			w.wantLoads("nobody", 0)
			for id := range w.rows {
				w.want(id, "row")
			}
			if s := w.g.Stats(); s.FullFilters != 0 {
				t.Errorf("%s: %+v", o.Filter, s)
			}
		})
	}
}

// A Rebuild that ends since its filter is full leaves keys alone that were changed in the meantime: a filter that has another
// number, and a meta record that is gone. If the record came back without the filter in use, that filter would miss every Put.
func TestFull_keysChanged(t *testing.T) {
	inWorld(t, &guard.Options{Empty: true, ErrorRate: exact}, func(w *world) {
		failing := func(yield func(string, error) bool) { yield("", errSource) }
		if err := w.g.Rebuild(w.Context(), failing); !errors.Is(err, errSource) {
			t.Fatal(err)
		}
		if err := w.g.DropNext(7); !errors.Is(err, sievekv.ErrFull) {
			t.Error(err)
		}
		if p, err := w.g.Progress(); !p.Filled || !p.Rebuilding || err != nil {
			t.Errorf("%+v, %v", p, err)
		}
		if _, err := w.db.Delete("guard:users"); err != nil {
			t.Fatal(err)
		}
		if err := w.g.DropNext(2); !errors.Is(err, sievekv.ErrFull) {
			t.Error(err)
		}
		w.put("a", "row")
		w.want("a", "row")
	})
}
