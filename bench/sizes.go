package main

import "fmt"

const sizesAbout = `Lookups and AddMany by the size of the filter, from 100,000 items to ten million (with --full, to 100
million). A filter above some megabytes is no longer in the caches of the processor, and each lookup waits for memory.`

// sizes measures lookups and fills of filters of many sizes.
func sizes(b *bench) error {
	counts := pick(b, []uint64{1e5, 1e6}, []uint64{1e5, 1e6, 1e7}, []uint64{1e5, 1e6, 1e7, 1e8})
	p := picture{name: "sizes", title: "Time of one lookup by number of items in the filter", x: "items in the filter", y: "time (ns)", log: true}
	curves := []line{
		{name: "sievekv, present"}, {name: "blobloom, present"}, {name: "sievekv, absent"}, {name: "blobloom, absent"},
	}
	for _, n := range counts {
		filters, err := b.fullFilters(n, false)
		if err != nil {
			return err
		}
		const slice = 200_000
		figures, err := b.interleave(pick(b, 7, 21, 41),
			side{"sievekv, present", func() (float64, error) { return filters.ours(0, slice) }},
			side{"blobloom, present", func() (float64, error) { return filters.blobloom(0, slice) }},
			side{"sievekv, absent", func() (float64, error) { return filters.ours(absent, slice) }},
			side{"blobloom, absent", func() (float64, error) { return filters.blobloom(absent, slice) }})
		filters.end()
		if err != nil {
			return err
		}
		const peer = "blobloom with XXH64"
		b.row(row{what: fmt.Sprintf("present item of %s", format(float64(n))), unit: "ns", ours: figures[0], peer: peer, theirs: figures[1]})
		b.row(row{what: fmt.Sprintf("absent item, filter of %s", format(float64(n))), unit: "ns", ours: figures[2], peer: peer, theirs: figures[3]})
		for i := range curves {
			curves[i].add(float64(n), figures[i].median())
		}
	}
	for _, n := range counts {
		start := uint64(0)
		figures, err := b.interleave(pick(b, 1, 3, 3),
			side{"AddMany", func() (float64, error) { start += n; return b.fillStored(n, n, start) }},
			side{"blobloom", func() (float64, error) { return fillBlobloom(n, n, start) }})
		if err != nil {
			return err
		}
		b.row(row{
			what: fmt.Sprintf("AddMany of %s items", format(float64(n))), unit: "ns/item", ours: figures[0],
			peer: "blobloom with XXH64", theirs: figures[1],
		})
	}
	p.lines = curves
	b.plot(p)
	return nil
}
