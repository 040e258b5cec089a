package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sievekv/sievekv/module/reply"
)

// use is how a filter was used since the store was opened.
type use struct {
	LookupsYes uint64 `json:"lookups_yes"`
	LookupsNo  uint64 `json:"lookups_no"`
	AddsNew    uint64 `json:"adds_new"`
	AddsKnown  uint64 `json:"adds_known"`
}

// rows returns what is told of the use of a filter, nothing for another key.
func (u use) rows(isFilter bool) [][2]string {
	if !isFilter {
		return nil
	}
	return [][2]string{
		{"lookups", fmt.Sprintf("%d since the store was opened, %d answered yes", u.LookupsYes+u.LookupsNo, u.LookupsYes)},
		{"adds", fmt.Sprintf("%d since the store was opened, %d of new items", u.AddsNew+u.AddsKnown, u.AddsNew)},
	}
}

// all returns the number of lookups and adds.
func (u use) all() uint64 { return u.LookupsYes + u.LookupsNo + u.AddsNew + u.AddsKnown }

// By are the orders that Filters knows.
var By = []string{"fill", "growth", "use"}

// Filters are the first filters of a store in an order: by their fill, the share of their capacity that is used; by
// their growth, the number of their layers and then of new items; or by their use.
type Filters struct {
	by   string
	most int

	All  int         `json:"all"` // how many filters there are
	List []filterRow `json:"filters"`
}

type filterRow struct {
	Key      string  `json:"key"`
	Type     string  `json:"type"`
	Items    uint64  `json:"items"`
	Capacity uint64  `json:"capacity"`
	Fill     float64 `json:"fill"` // items by capacity
	Layers   int     `json:"layers"`
	use

	rate, asked float64     // error rates
	layers      [][2]uint64 // items and capacity of each
}

// NewFilters returns an empty list, for up to most filters in an order of By.
func NewFilters(by string, most int) *Filters {
	return &Filters{by: by, most: most, List: []filterRow{}}
}

// Add enters a key, given what SIEVE.STATS answers about it. It ignores keys that are not filters.
func (f *Filters) Add(r reply.Reply) error {
	s, row, err := filterOf(r)
	if s == nil {
		return err
	}
	f.All++
	f.List = insertFirst(f.List, row, f.most, f.compare)
	return nil
}

// filterOf returns what SIEVE.STATS answers about a filter, and its row; nil for another key.
func filterOf(r reply.Reply) (*keyStats, filterRow, error) {
	result, err := Stats(r, true)
	if err != nil {
		return nil, filterRow{}, err
	}
	s, _ := result.(*keyStats)
	row, is := rowOf(s)
	if !is {
		return nil, filterRow{}, nil
	}
	return s, row, nil
}

// insertFirst inserts a filter into a list in an order, and keeps at most the first ones.
func insertFirst[T any](list []T, one T, most int, order func(a, b T) int) []T {
	i, _ := slices.BinarySearchFunc(list, one, order)
	list = slices.Insert(list, i, one)
	return list[:min(len(list), most)]
}

// rowOf returns the row of a filter, and false for another key.
func rowOf(s *keyStats) (row filterRow, is bool) {
	row = filterRow{Key: s.Key, Type: s.Type, use: s.use}
	switch {
	case s.bloom != nil:
		row.Items, row.Capacity, row.rate, row.asked = s.bloom.Items, s.bloom.Capacity, s.bloom.ExpectedRate, s.bloom.ErrorRate
		for _, l := range s.bloom.Layers {
			row.layers = append(row.layers, [2]uint64{l.Items, l.Capacity})
		}
	case s.cuckoo != nil:
		row.Items, row.Capacity, row.rate, row.asked = s.cuckoo.Items, s.cuckoo.Capacity, s.cuckoo.ExpectedRate, s.cuckoo.ErrorRate
		for _, l := range s.cuckoo.Layers {
			row.layers = append(row.layers, [2]uint64{l.Items, l.Capacity})
		}
	case s.counting != nil:
		row.Items, row.Capacity, row.rate, row.asked = s.counting.Items, s.counting.Capacity, s.counting.ExpectedRate, s.counting.ErrorRate
		for _, l := range s.counting.Layers {
			row.layers = append(row.layers, [2]uint64{l.Items, l.Capacity})
		}
	default:
		return row, false
	}
	row.Layers, row.Fill = len(row.layers), float64(row.Items)/float64(max(1, row.Capacity))
	return row, true
}

// compare puts the filter first that has more, and of two that have the same, the one with the smaller key.
func (f *Filters) compare(a, b filterRow) int {
	more := 0
	switch f.by {
	case "fill":
		more = cmp.Compare(b.Fill, a.Fill)
	case "growth":
		more = cmp.Or(cmp.Compare(b.Layers, a.Layers), cmp.Compare(b.AddsNew, a.AddsNew))
	case "use":
		more = cmp.Compare(b.all(), a.all())
	}
	return cmp.Or(more, cmp.Compare(a.Key, b.Key))
}

// Text implements Result.
func (f *Filters) Text() string {
	rows := [][]string{{"items", "capacity", "fill", "layers", "found", "not found", "new", "known", "type", "key"}}
	for _, r := range f.List {
		rows = append(rows, []string{
			fmt.Sprint(r.Items), fmt.Sprint(r.Capacity), fmt.Sprintf("%.2f %%", 100*r.Fill), fmt.Sprint(r.Layers),
			fmt.Sprint(r.LookupsYes), fmt.Sprint(r.LookupsNo), fmt.Sprint(r.AddsNew), fmt.Sprint(r.AddsKnown), r.Type, fmt.Sprintf("%q", r.Key),
		})
	}
	text := columns(rows)
	if more := f.All - len(f.List); more > 0 {
		text += fmt.Sprintf("and %d more\n", more)
	}
	return text
}
