package dashboard

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// The names of the types of filters, as TYPE has them.
const (
	bloomType    = "MBbloom--"
	cuckooType   = "MBbloomCF"
	countingType = "CBloom---"
)

// filterPage is what the page of a filter shows.
type filterPage struct {
	Key          string
	Row          shownRow
	Distinct     uint64
	Bytes        uint64
	Grown        []string
	Verdict      []string
	Charts       []*chart
	Curve        *chart
	Choice       choice
	Past         bool // there is a history of this filter
	Layers       []layer
	Slices       []slice
	Fill         *fill
	Item         *itemAnswer
	Made         made
	Hash         string
	Layout       string
	Sum, Encoded string // the address of the filter: one of them, for the form
	Ago          string // how long ago the store was opened
}

// layer is a layer of a filter.
type layer struct {
	Capacity, Items uint64
	Fill            float64
	Bytes           uint64
	Hashes, Lines   int     // 0 in a cuckoo filter
	Rate            float64 // its part of the rate, 0 in a cuckoo filter
}

// slice is a slice of a filter that forgets.
type slice struct {
	bloomext.SliceInfo
	Age, Left string
}

// facts are what the three types of filters tell, in one form.
type facts struct {
	distinct, bytes   uint64
	layers            []layer
	slices            []bloomext.SliceInfo
	made              made
	hash, layout      string
	planned           func(items uint64) (rate float64, err error) // the rate when the filter has this number of items
	deletes, leftover uint64
}

func (d *Dashboard) filter(r *request) (any, error) {
	key, ok := d.addressed(r.Form, r.now)
	if !ok || !r.mayRead(key) {
		return nil, errNoFilter
	}
	one, ok := d.rowFor(key)
	if !ok {
		return nil, errNoFilter
	}
	about, err := d.factsOf(key, one.kind)
	if err != nil {
		return nil, err
	}
	d.fromListing(&one, r.now)
	p := &filterPage{
		Key: key, Row: showRow(&one, r.now), Distinct: about.distinct, Bytes: about.bytes, Layers: about.layers, Choice: chosen(r), Made: about.made.named(key),
		Hash: about.hash, Layout: about.layout, Ago: showSpan(r.now.Sub(d.db.About().Opened)),
	}
	p.Sum, _ = strings.CutPrefix(address(key), "sum=")
	if p.Encoded, ok = strings.CutPrefix(address(key), "key="); ok {
		p.Sum = ""
	}
	for _, s := range about.slices {
		p.Slices = append(p.Slices, showSlice(s, r.now))
	}
	p.Verdict = verdict(&one, &about, r.now)
	p.Charts, p.Grown = d.filterCharts(key, p.Choice, r.now)
	p.Past = p.Charts != nil
	p.Curve = rateCurve(&one, about.planned)
	if p.Fill, err = d.fills.of(d, key, r.now); err != nil {
		return nil, err
	}
	if r.Form.Has("item") {
		p.Item = d.askItem(r, key, one.kind, r.FormValue("item"))
	}
	return p, nil
}

// fromListing completes a row by what the listing knows of earlier times.
func (d *Dashboard) fromListing(r *row, now time.Time) {
	r.base, r.baseAt = r.items, now.UnixMilli()
	if before, ok := find(d.listing.see(d, now), r.key); ok && before.kind == r.kind {
		r.lookupRate, r.newRate, r.knownRate = before.lookupRate, before.newRate, before.knownRate
		r.base, r.baseAt = before.base, before.baseAt
	}
}

// find returns the row of a key.
func find(seen rowsSeen, key string) (*row, bool) {
	if seen.at.IsZero() { // a pass under way is not sorted
		return nil, false
	}
	i, ok := slices.BinarySearchFunc(seen.rows, key, func(r row, key string) int { return strings.Compare(r.key, key) })
	if !ok {
		return nil, false
	}
	return &seen.rows[i], true
}

func showSlice(s bloomext.SliceInfo, now time.Time) slice {
	one := slice{SliceInfo: s, Age: "–", Left: "when enough items came"}
	if !s.Begun.IsZero() {
		one.Age, one.Left = showSpan(max(0, now.Sub(s.Begun))), "in "+showSpan(max(0, s.ExpiresAt.Sub(now)))
	}
	return one
}

func (d *Dashboard) factsOf(key, kind string) (f facts, err error) {
	switch kind {
	case bloomType:
		return bloomFacts(bloomext.New(d.db, key), uint64(module.Of(d.db).SettingInt(growthLogSetting)))
	case cuckooType:
		return cuckooFacts(cuckooext.New(d.db, key))
	case countingType:
		return countingFacts(countingext.New(d.db, key))
	}
	return facts{}, nil // a type of the program's own: there is what all types tell
}

// growthLogSetting is how large the logs of new filters may be that ask for nothing.
const growthLogSetting = "growth-log-bytes"

func bloomFacts(filter *bloomext.Filter, usual uint64) (facts, error) {
	i, err := filter.Info()
	if err != nil {
		return facts{}, gone(err)
	}
	f := facts{distinct: i.Distinct, bytes: i.Bytes, slices: i.Slices, made: madeBloom(i, usual), hash: i.Hash.String(), layout: i.Layout.String()}
	for _, l := range i.Layers {
		f.layers = append(f.layers, layer{l.Capacity, l.Items, float64(l.Ones) / float64(l.Bits), (l.Bits + 7) / 8, l.Hashes, l.Lines, l.ErrorRate})
	}
	if c := f.made.bloom; !f.made.Inexact && c.Window == 0 && c.Last == 0 {
		f.planned = func(items uint64) (float64, error) {
			i, err := c.Planned(items)
			return i.ExpectedRate, err
		}
	}
	return f, nil
}

func cuckooFacts(filter *cuckooext.Filter) (facts, error) {
	i, err := filter.Info()
	if err != nil {
		return facts{}, gone(err)
	}
	f := facts{distinct: i.Items, bytes: i.Bytes, made: madeCuckoo(i), hash: i.Hash.String(), layout: i.Layout.String(), deletes: i.Deletes}
	for _, l := range i.Layers {
		f.layers = append(f.layers, layer{Capacity: l.Capacity, Items: l.Items, Fill: l.Load, Bytes: l.Blocks * l.BlockBytes})
	}
	c := f.made.cuckoo
	f.planned = func(items uint64) (float64, error) {
		i, err := c.Planned(items)
		return i.ExpectedRate, err
	}
	return f, nil
}

func countingFacts(filter *countingext.Filter) (facts, error) {
	i, err := filter.Info()
	if err != nil {
		return facts{}, gone(err)
	}
	f := facts{distinct: i.Distinct, bytes: i.Bytes, made: madeCounting(i), hash: i.Hash.String(), layout: "native", leftover: i.Leftover}
	for _, l := range i.Layers {
		f.layers = append(f.layers, layer{l.Capacity, l.Adds, float64(l.Above) / float64(l.Counters), l.Counters / 2, l.Hashes, l.Lines, l.ErrorRate})
	}
	c := f.made.counting
	f.planned = func(items uint64) (float64, error) {
		i, err := c.Planned(items)
		return i.ExpectedRate, err
	}
	return f, nil
}

// gone is the error of a filter that was removed while its page was made.
func gone(err error) error {
	if errors.Is(err, kv.ErrNotFound) || errors.Is(err, kv.ErrWrongType) {
		return errNoFilter
	}
	return err
}

// verdict says in words how the filter is.
func verdict(r *row, f *facts, now time.Time) (said []string) {
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	about := ""
	if r.estimated {
		about = "about "
	}
	say("It holds %s%s of the %s items that it has room for now: %s.", about, count(r.items), count(r.capacity), percent(r.used()))
	say("%s", sayRate(r))
	if r.lossy {
		say("It was salvaged without all of its blocks, and may answer no to items that were added. Make it again.")
	}
	say("%s", sayRoom(r, len(f.layers), now))
	if r.lookups() == 0 && r.items > 0 {
		say("Nobody has looked anything up since the store was opened.")
	} else if r.lookups() > 0 {
		say("%s of its %s lookups were answered yes.", percent(float64(r.yes)/float64(r.lookups())), count(r.lookups()))
	}
	if adds := r.added + r.known; adds > 0 && r.known > 9*r.added {
		say("%s of what is added was known before.", percent(float64(r.known)/float64(adds)))
	}
	if f.leftover > 0 {
		say("Deletions have left %s adds behind that are still counted.", count(f.leftover))
	}
	return said
}

func sayRate(r *row) string {
	switch {
	case r.rate <= 0:
		return "It answers no to every item that was not added."
	case r.asked <= 0:
		return fmt.Sprintf("It wrongly answers yes to %s.", oneIn(r.rate))
	case r.is(stateAboveRate):
		return fmt.Sprintf("It wrongly answers yes to %s, which is more often than asked for: %s. Make a larger one.", oneIn(r.rate), oneIn(r.asked))
	}
	return fmt.Sprintf("It wrongly answers yes to %s; asked for is at most %s.", oneIn(r.rate), oneIn(r.asked))
}

// oneIn shows an error rate as people count.
func oneIn(rate float64) string {
	const few = 1e-9
	switch {
	case rate > 0.5:
		return showRate(rate) + " of absent items"
	case rate < few:
		return "fewer than 1 in " + count(uint64(1/few)) + " absent items"
	}
	n := 1 / rate
	unit := math.Pow(10, max(0, math.Floor(math.Log10(n))-2)) // three digits
	return fmt.Sprintf("1 in %s absent items", fixed(math.Round(n/unit)*unit))
}

func sayRoom(r *row, layers int, now time.Time) string {
	left, ok := r.toFull(now)
	switch {
	case r.window > 0:
		return fmt.Sprintf("It forgets items that were not added for %s.", showSpan(time.Duration(r.window*float64(time.Second))))
	case r.last > 0:
		return fmt.Sprintf("It forgets all but the last %s items.", count(r.last))
	case !r.grows && r.used() >= 1:
		return "It is full: further items are refused. It does not grow; make a larger one."
	case !r.grows && ok:
		return fmt.Sprintf("At today's pace it is full in %s. It does not grow.", showSpan(left))
	case layers > 1:
		return fmt.Sprintf("It has grown to %d layers, all of which a lookup of an absent item asks.", layers)
	case ok:
		return fmt.Sprintf("At today's pace it grows in %s.", showSpan(left))
	case !r.grows:
		return "It does not grow, and does not get more items now."
	}
	return "It grows when it is full."
}

// curvePoints is how many points the curve of a rate has.
const curvePoints = 40

// rateCurve draws how the error rate of a filter rises until it is full, nil if that cannot be planned.
func rateCurve(r *row, planned func(items uint64) (float64, error)) *chart {
	if planned == nil || r.capacity == 0 || r.capacity > math.MaxInt64/curvePoints {
		return nil
	}
	rates, limit := make([]float64, curvePoints), make([]float64, curvePoints)
	for i := range rates {
		items := max(1, r.capacity*uint64(i+1)/curvePoints)
		rate, err := planned(items)
		if err != nil {
			return nil
		}
		rates[i], limit[i] = rate, r.asked
	}
	curves := []curve{{"by the formula", rates}}
	if r.asked > 0 {
		curves = append(curves, curve{"asked for", limit})
	}
	var x []tick
	all := float64(r.capacity)
	for by, n := whole(all), 0.0; n*by <= all; n++ {
		x = append(x, tick{chartLeft + (chartRight-chartLeft)*n*by/all, short(n * by)})
	}
	c := newChart("Error rate by items", x, showRate, round10, curves...)
	if r.used() <= 1 && !c.Empty {
		c.Mark = &point{chartLeft + (chartRight-chartLeft)*r.used(), max(chartTop, c.place(r.rate))}
		c.Summary = fmt.Sprintf("The error rate is %s now, with %s items, and %s by the formula when all %s are there; asked for is %s.",
			showRate(r.rate), count(r.items), showRate(rates[curvePoints-1]), count(r.capacity), showRate(r.asked))
	}
	return c
}

// short shows a number of items in a few characters.
func short(v float64) string {
	units := []string{"", " k", " M", " G", " T"}
	i := 0
	for ; v >= 1000 && i < len(units)-1; i++ {
		v /= 1000
	}
	return fixed(v) + units[i]
}

// itemAnswer is the answer to whether an item is in a filter.
type itemAnswer struct {
	Item, Answer string
	Yes          bool
}

// askItem asks a filter about an item by the command of its type, if the viewer may.
func (d *Dashboard) askItem(r *request, key, kind, item string) *itemAnswer {
	a := &itemAnswer{Item: item}
	command := map[string]string{bloomType: "BF.EXISTS", cuckooType: "CF.EXISTS", countingType: "CBF.EXISTS"}[kind]
	if command == "" || !r.may(command, key, item) {
		a.Answer = "You may not look items up here."
		return a
	}
	answer := module.NewSession(d.db).Do(r.Context(), [][]byte{[]byte(command), []byte(key), []byte(item)})
	switch {
	case answer.IsError():
		a.Answer = "The store answers: " + string(answer.Bytes())
	case answer.RESP2().Int() == 1:
		a.Answer, a.Yes = "Yes, it may be in the filter.", true
	default:
		a.Answer = "No, it is not in the filter."
	}
	return a
}
