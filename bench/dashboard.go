package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv/dashboard"
	"github.com/sievekv/sievekv/module"
)

const dashboardAbout = `What package dashboard takes from lookups: BF.EXISTS by as many goroutines as there are processors, in a store of
200 filters, one with a million items, without a dashboard, and with one whose pages ten browsers follow, each asking every two
seconds, two of them for each page. The history is kept meanwhile.`

// lookItem is an item of the filter that is asked.
func lookItem(i uint64) []byte { return fmt.Appendf(nil, "item %d", i%uint64(million)) }

// dashboards measures lookups beside a dashboard.
func dashboards(b *bench) error {
	s, err := b.openStore(nil)
	if err != nil {
		return err
	}
	defer s.end()
	session := module.NewSession(s.Store())
	for i := range 200 {
		if r := session.Do(b.ctx, [][]byte{[]byte("BF.RESERVE"), fmt.Appendf(nil, "filter %d", i), []byte("0.01"), []byte("1000000")}); r.IsError() {
			return fmt.Errorf("making a filter: %w", r.Err())
		}
	}
	items := make([][]byte, 10_000)
	for i := 0; i < int(million); i += len(items) {
		for j := range items {
			items[j] = lookItem(uint64(i + j))
		}
		if _, err := s.Bloom("filter 7").AddMany(items, nil); err != nil {
			return err
		}
	}
	span := pick(b, 4*time.Second, 6*time.Second, 10*time.Second)
	without := func() (float64, error) { return looked(b.ctx, s, span) }
	with := func() (float64, error) { return watched(b.ctx, s, span) }
	figures, err := b.interleave(pick(b, 3, 9, 15), side{"with a dashboard", with}, side{"without", without})
	if err != nil {
		return err
	}
	b.row(row{what: "BF.EXISTS while ten browsers follow", unit: "/s", ours: figures[0], peer: "without a dashboard", theirs: figures[1], must: ratioAtLeast(0.97), reduced: b.mode == quickMode})
	return nil
}

// looked returns how many lookups a second all processors do.
func looked(ctx context.Context, s *store, span time.Duration) (float64, error) {
	var done atomic.Uint64
	var workers sync.WaitGroup
	begin := time.Now()
	for worker := range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			session := module.NewSession(s.Store())
			words := [][]byte{[]byte("BF.EXISTS"), []byte("filter 7"), nil}
			n := uint64(0)
			for i := uint64(worker) << 40; n%1024 != 0 || time.Since(begin) < span; i++ {
				words[2] = lookItem(i)
				session.Do(ctx, words)
				n++
			}
			done.Add(n)
		})
	}
	workers.Wait()
	return perSecond(int(done.Load()), time.Since(begin)), ctx.Err()
}

// watched is looked while browsers follow the pages of a dashboard.
func watched(ctx context.Context, s *store, span time.Duration) (float64, error) {
	d, err := dashboard.New(s.Store(), nil)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range 10 {
		page := []string{"/", "/filters", "/filter?name=filter+7", "/busy", "/filters?sort=lookups&order=desc"}[i%5]
		go follow(ctx, d, page, time.Duration(i)*200*time.Millisecond)
	}
	return looked(ctx, s, span)
}

// follow asks for a page every two seconds, from a time on.
func follow(ctx context.Context, d http.Handler, page string, after time.Duration) {
	next := time.NewTimer(after)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, page, nil)
		r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
		d.ServeHTTP(httptest.NewRecorder(), r)
		next.Reset(2 * time.Second)
	}
}
