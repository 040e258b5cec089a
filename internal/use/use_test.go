package use

import "testing"

func TestTable(t *testing.T) {
	var table Table
	first := table.Of(1)
	first.Adds(3, 4)
	if got := table.Of(1).Totals(); got != (Totals{}) {
		t.Errorf("counts that were not kept are %v", got)
	}
	table.Keep(1, first)
	if got := table.Of(1); got != first {
		t.Errorf("counts that were kept are %v", got.Totals())
	}
	for id := range uint64(MaxFilters) {
		table.Keep(id+2, new(Counts))
	}
	if n := len(table.counts); n != MaxFilters {
		t.Errorf("the table has %d filters, at most %d", n, MaxFilters)
	}
	table.Keep(MaxFilters+1, first)
	if n := len(table.counts); n != MaxFilters || table.Of(MaxFilters+1) != first {
		t.Errorf("the table has %d filters", n)
	}
}

func TestCounts(t *testing.T) {
	var c Counts
	c.Lookup(true, 5)
	c.Lookup(false, 6)
	c.Add(true)
	c.Add(false)
	c.Adds(Of([]bool{true, true, false}))
	if got, want := c.Totals(), (Totals{Yes: 5, No: 6, New: 3, Known: 2}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	var none *Counts
	none.Add(true)
	if got := none.Totals(); got != (Totals{}) {
		t.Errorf("counts of nothing are %v", got)
	}
}
