package dashboard

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// filtersPage is the table of filters.
type filtersPage struct {
	Seen       seenPage
	Rows       []shownRow
	Matching   int
	From, To   int
	Columns    []column
	Query      string
	Type       string
	Types      []string
	State      string
	States     []stateChoice
	Before     url.Values // of the page before, nil for none
	Next       url.Values
	Sort, Desc string
	Empty      bool
}

// column is a column of the table that it can be sorted by.
type column struct {
	Name, Title, Sorted string // Sorted is as aria-sort has it, "" if the table is not sorted by it
	Link                url.Values
}

type stateChoice struct{ Name, Title string }

// shownRow is a row as it is shown.
type shownRow struct {
	Key, Type, State, Mark, Class string
	Items, Capacity               uint64
	Estimated                     bool
	Used, Rate, Asked             float64
	Yes, No                       uint64
	Looked, New, Known            float64
	Memory, Disk                  uint64
	Left, Until                   string
}

const perPage = 50

// stateNames are the states in queries.
var stateNames = [states]string{
	stateFine: "fine", stateUnasked: "unasked", stateGrowing: "grown", stateNearlyFull: "nearly-full", stateFull: "full", stateAboveRate: "above-rate", stateLossy: "lossy",
}

// tableColumns are the columns, with how two rows compare by them.
var tableColumns = []struct {
	name, title string
	less        func(a, b *row) int
}{
	{"key", "Filter", func(a, b *row) int { return strings.Compare(a.key, b.key) }},
	{"type", "Type", func(a, b *row) int { return strings.Compare(a.kind, b.kind) }},
	{"items", "Items", func(a, b *row) int { return cmp.Compare(a.items, b.items) }},
	{"capacity", "Capacity", func(a, b *row) int { return cmp.Compare(a.capacity, b.capacity) }},
	{"used", "Used", func(a, b *row) int { return cmp.Compare(a.used(), b.used()) }},
	{"rate", "Rate now", func(a, b *row) int { return cmp.Compare(a.excess(), b.excess()) }},
	{"lookups", "Lookups", func(a, b *row) int { return cmp.Compare(a.lookupRate, b.lookupRate) }},
	{"yes", "Yes", func(a, b *row) int { return cmp.Compare(a.yes, b.yes) }},
	{"no", "No", func(a, b *row) int { return cmp.Compare(a.no, b.no) }},
	{"new", "New", func(a, b *row) int { return cmp.Compare(a.newRate, b.newRate) }},
	{"known", "Known", func(a, b *row) int { return cmp.Compare(a.knownRate, b.knownRate) }},
	{"memory", "Memory", func(a, b *row) int { return cmp.Compare(a.memory, b.memory) }},
	{"disk", "Disk", func(a, b *row) int { return cmp.Compare(a.disk, b.disk) }},
	{"full", "Full in", nil}, // by the time now
	{"until", "Forgets", func(a, b *row) int { return cmp.Compare(a.ends(), b.ends()) }},
}

// ends orders filters by when they or their items end.
func (r *row) ends() float64 {
	switch {
	case r.expiry != 0:
		return float64(r.expiry)
	case r.window != 0:
		return 1e15 + r.window
	case r.last != 0:
		return 1e17
	}
	return 1e18
}

// asked is what a query asks of the table.
type asked struct {
	text, kind, state, sort string
	desc                    bool
	page                    int
}

func parseAsked(r *request) asked {
	a := asked{text: r.FormValue("q"), kind: r.FormValue("type"), state: r.FormValue("state"), sort: r.FormValue("sort"), desc: r.FormValue("order") == "desc"}
	if !slices.Contains(stateNames[:], a.state) {
		a.state = ""
	}
	if orderOf(a.sort, r.now) == nil {
		a.sort, a.desc = "key", false
	}
	a.page, _ = strconv.Atoi(r.FormValue("page"))
	a.page = min(max(a.page, 1), maxRows/perPage+1)
	return a
}

// values returns the query that asks this.
func (a asked) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"q": a.text, "type": a.kind, "state": a.state, "sort": a.sort} {
		if value != "" && !(name == "sort" && value == "key") {
			v.Set(name, value)
		}
	}
	if a.desc {
		v.Set("order", "desc")
	}
	if a.page > 1 {
		v.Set("page", strconv.Itoa(a.page))
	}
	return v
}

// wants reports whether a row matches.
func (a *asked) wants(r *row) bool {
	return (a.kind == "" || r.kind == a.kind) && (a.text == "" || strings.Contains(r.key, a.text)) &&
		(a.state == "" || r.is(stateOf(a.state)))
}

func stateOf(name string) state { return state(slices.Index(stateNames[:], name)) }

// orderOf returns how a column compares rows, nil if there is no such column. Rows that are equal are in the order of their keys.
func orderOf(name string, now time.Time) func(a, b *row) int {
	for _, c := range tableColumns {
		switch {
		case c.name != name:
		case c.less == nil:
			return func(a, b *row) int { return cmp.Compare(leftOf(a, now), leftOf(b, now)) }
		default:
			return c.less
		}
	}
	return nil
}

// leftOf is toFull for sorting: filters that fill up come first.
func leftOf(r *row, now time.Time) time.Duration {
	if d, ok := r.toFull(now); ok {
		return d
	}
	if r.used() >= 1 && !r.forgets() {
		return 0
	}
	return 1 << 62
}

func (d *Dashboard) filters(r *request) (any, error) {
	a, seen := parseAsked(r), d.rowsOf(r)
	matching := make([]*row, 0, min(len(seen.rows), 1024))
	types := make(map[string]bool)
	for i := range seen.rows {
		one := &seen.rows[i]
		types[one.kind] = true
		if a.wants(one) {
			matching = append(matching, one)
		}
	}
	a.page = min(a.page, max(1, (len(matching)+perPage-1)/perPage))
	from := (a.page - 1) * perPage
	shown := firstRows(matching, from+perPage, a.order(r.now))
	p := &filtersPage{
		Seen: d.seenPage(seen, r.now), Matching: len(matching), From: min(from+1, len(matching)), To: len(shown), Query: a.text, Type: a.kind, State: a.state,
		Sort: a.sort, Empty: len(seen.rows) == 0,
	}
	for kind := range types {
		p.Types = append(p.Types, kind)
	}
	slices.Sort(p.Types)
	p.fill(a)
	for _, one := range shown[from:] {
		p.Rows = append(p.Rows, showRow(one, r.now))
	}
	return p, nil
}

// order returns how rows are sorted.
func (a *asked) order(now time.Time) func(x, y *row) int {
	by, sign := orderOf(a.sort, now), 1
	if a.desc {
		sign = -1
	}
	return func(x, y *row) int { return cmp.Or(sign*by(x, y), strings.Compare(x.key, y.key)) }
}

// firstRows returns the first n rows in an order. To find a few it need not sort all.
func firstRows(rows []*row, n int, order func(a, b *row) int) []*row {
	n = min(n, len(rows))
	if n > 1000 {
		slices.SortFunc(rows, order)
		return rows[:n]
	}
	first := make([]*row, 0, n+1)
	for _, r := range rows {
		if len(first) == n && order(r, first[n-1]) >= 0 {
			continue
		}
		i, _ := slices.BinarySearchFunc(first, r, order)
		first = slices.Insert(first, i, r)
		first = first[:min(len(first), n)]
	}
	return first
}

// fill sets the links.
func (p *filtersPage) fill(a asked) {
	p.Desc = ""
	if a.desc {
		p.Desc = "desc"
	}
	for _, c := range tableColumns {
		to := a
		to.sort, to.page, to.desc = c.name, 1, c.name != "key" && c.name != "type" && c.name != "full" && c.name != "until"
		one := column{Name: c.name, Title: c.title}
		if a.sort == c.name {
			to.desc = !a.desc
			one.Sorted = "ascending"
			if a.desc {
				one.Sorted = "descending"
			}
		}
		one.Link = to.values()
		p.Columns = append(p.Columns, one)
	}
	for _, s := range attentions {
		p.States = append(p.States, stateChoice{stateNames[s.state], strings.ToLower(s.name)})
	}
	p.States = append(p.States, stateChoice{stateNames[stateFine], "none of these"})
	if a.page > 1 {
		to := a
		to.page--
		p.Before = to.values()
	}
	if p.To < p.Matching {
		to := a
		to.page++
		p.Next = to.values()
	}
}

// showRow returns a row as the table shows it.
func showRow(r *row, now time.Time) shownRow {
	s := shownRow{
		Key: r.key, Type: shortType(r.kind), Items: r.items, Capacity: r.capacity, Estimated: r.estimated, Used: r.used(), Rate: r.rate, Asked: r.asked,
		Yes: r.yes, No: r.no, Looked: r.lookupRate, New: r.newRate, Known: r.knownRate, Memory: r.memory, Disk: r.disk, Left: "–", Until: until(r, now),
	}
	for _, a := range attentions {
		if a.state == r.worst() {
			s.State, s.Mark, s.Class = strings.ToLower(a.name), a.mark, a.class
		}
	}
	if left, ok := r.toFull(now); ok {
		if s.Left = showSpan(left); r.grows {
			s.Left = "grows in " + s.Left
		}
	}
	return s
}

// until says when a filter or its items end.
func until(r *row, now time.Time) string {
	var said []string
	if r.expiry != 0 {
		said = append(said, "ends in "+showSpan(max(0, time.Duration(r.expiry-now.UnixMilli())*time.Millisecond)))
	}
	if r.window != 0 {
		said = append(said, "after "+showSpan(time.Duration(r.window*float64(time.Second))))
	}
	if r.last != 0 {
		said = append(said, "all but the last "+count(r.last))
	}
	if said == nil {
		return "never"
	}
	return strings.Join(said, ", ")
}

// shortType returns what people call a type.
func shortType(kind string) string {
	switch kind {
	case bloomType:
		return "Bloom"
	case cuckooType:
		return "cuckoo"
	case countingType:
		return "counting"
	}
	return shortKey(kind)
}
