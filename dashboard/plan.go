package dashboard

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/scalableext"
)

// planPage is the form of a plan, and what it comes to. The sizes are those that filters are made with: of Planned.
type planPage struct {
	Type, Name             string
	Capacity, Rate, Window string
	Fixed                  bool
	Types                  []string
	Wrong                  string // what is wrong with the form, "" for nothing
	Sizes                  []planned
	Cost, Shell            string
	Made                   made
}

// planned is a row of the result.
type planned struct {
	What    string
	Items   uint64
	Bytes   uint64
	PerItem float64 // bits
	Layers  int
	Rate    float64
	Note    string
}

// planGrown is how many times its capacity a filter holds when a plan shows it grown.
const planGrown = 10

// planAsked is what the form asks for.
type planAsked struct {
	kind     string
	capacity uint64
	rate     float64
	window   time.Duration
	fixed    bool
}

func (d *Dashboard) plan(r *request) (any, error) {
	value := func(name, fallback string) string { return cmp.Or(strings.TrimSpace(r.FormValue(name)), fallback) }
	p := &planPage{
		Type: value("type", "bloom"), Name: value("name", "seen"), Capacity: value("capacity", "1000000"), Rate: value("rate", "0.01"), Window: value("window", ""),
		Fixed: r.FormValue("fixed") != "", Types: []string{"bloom", "cuckoo", "counting"},
	}
	a, err := p.asked()
	if err == nil {
		err = p.compute(a, d.db.MaxFilterBytes())
	}
	if err != nil {
		p.Wrong, p.Sizes = plain(err), nil
	}
	return p, nil
}

// asked reads the form.
func (p *planPage) asked() (a planAsked, err error) {
	a.kind, a.fixed = p.Type, p.Fixed
	capacity, ok := text.ParseFloat([]byte(strings.ReplaceAll(p.Capacity, " ", "")))
	switch {
	case !ok || capacity < 1 || capacity > 1<<40 || capacity != float64(uint64(capacity)):
		return a, fmt.Errorf("capacity is %.60q, must be a whole number from 1 to 2^40, such as 1000000 or 1e6", p.Capacity)
	}
	a.capacity = uint64(capacity)
	rate := strings.TrimSpace(p.Rate)
	share, isPercent := strings.CutSuffix(rate, "%")
	if a.rate, err = strconv.ParseFloat(strings.TrimSpace(share), 64); err != nil || !(a.rate > 0) {
		return a, fmt.Errorf("error rate is %.60q, must be above 0 and below 1, such as 0.01 or 1%%", p.Rate)
	}
	if isPercent {
		a.rate /= 100
	}
	if p.Window == "" {
		return a, nil
	}
	switch a.window, err = time.ParseDuration(p.Window); {
	case err != nil:
		return a, fmt.Errorf("window is %.60q, must be a time such as 24h or 90m", p.Window)
	case a.kind != "bloom":
		return a, fmt.Errorf("window is %v of a %s filter: only Bloom filters forget", a.window, a.kind)
	case a.fixed:
		return a, fmt.Errorf("window is %v, and the filter is not to grow: one that forgets grows", a.window)
	}
	return a, nil
}

func (p *planPage) compute(a planAsked, most uint64) (err error) {
	switch a.kind {
	case "bloom":
		err = p.bloom(a)
	case "cuckoo":
		err = p.cuckoo(a)
	case "counting":
		err = p.counting(a)
	default:
		return fmt.Errorf("type is %.60q, must be bloom, cuckoo or counting", a.kind)
	}
	if err == nil && p.Sizes[0].Bytes > most {
		err = fmt.Errorf("the filter has %s bytes, and this store allows %s", count(p.Sizes[0].Bytes), count(most))
	}
	p.Shell = p.shell(a)
	return err
}

func (p *planPage) add(what string, items, bytes uint64, layers int, rate float64, note string) {
	p.Sizes = append(p.Sizes, planned{what, items, bytes, 8 * float64(bytes) / float64(items), layers, rate, note})
}

func (p *planPage) bloom(a planAsked) error {
	c := bloomext.Config{Capacity: a.capacity, ErrorRate: a.rate, NonScaling: a.fixed, Window: a.window}
	i, err := c.Planned(a.capacity)
	if err != nil {
		return err
	}
	p.add("as it is made", a.capacity, i.Bytes, len(i.Layers), i.ExpectedRate, "")
	first := i.Layers[0]
	p.Cost = lookupCost(first.Hashes, first.Lines, len(i.Layers))
	if a.window != 0 {
		p.Sizes[0].Note = fmt.Sprintf("%d slices, of which one is filled at a time", len(i.Slices))
	}
	if !a.fixed {
		if grown, err := c.Planned(planGrown * a.capacity); err == nil {
			note := ""
			if grown.LogBytes > 0 {
				note = size(grown.LogBytes) + " more on disk for the log from which it grows"
			}
			p.add(fmt.Sprintf("grown to %d times as many items", planGrown), planGrown*a.capacity, grown.Bytes, len(grown.Layers), grown.ExpectedRate, note)
		}
	}
	if a.window == 0 {
		p.redisBloom(bloomext.Config{Capacity: a.capacity, ErrorRate: a.rate, NonScaling: a.fixed, Layout: scalableext.LayoutCompatible})
	}
	i.Window = a.window
	i.Slices = nil // of the default number
	p.Made = madeBloom(i, scalableext.DefaultGrowthLog).named(p.Name)
	return nil
}

// redisBloom adds what RedisBloom takes for the same, by the layout that is RedisBloom's bit for bit.
func (p *planPage) redisBloom(c bloomext.Config) {
	of := []uint64{c.Capacity, planGrown * c.Capacity}
	for n, what := range []string{"RedisBloom, as it is made", fmt.Sprintf("RedisBloom, grown to %d times as many items", planGrown)} {
		if i, err := c.Planned(of[n]); err == nil {
			p.add(what, of[n], i.Bytes, len(i.Layers), i.ExpectedRate, "by its formula")
		}
	}
}

func (p *planPage) cuckoo(a planAsked) error {
	c := cuckooext.Config{Capacity: a.capacity, ErrorRate: a.rate, NonScaling: a.fixed}
	i, err := c.Planned(a.capacity)
	if err != nil {
		return err
	}
	p.add("as it is made", a.capacity, i.Bytes, len(i.Layers), i.ExpectedRate, fmt.Sprintf("fingerprints of %d bits, in buckets of %d", i.FingerprintBits, i.BucketSize))
	p.Cost = fmt.Sprintf("2 buckets of %d slots in one block of at most 8 KiB, for each of %d layers", i.BucketSize, len(i.Layers))
	if !a.fixed {
		if grown, err := c.Planned(planGrown * a.capacity); err == nil {
			p.add(fmt.Sprintf("grown to %d times as many items", planGrown), planGrown*a.capacity, grown.Bytes, len(grown.Layers), grown.ExpectedRate, "")
		}
	}
	same := cuckooext.Config{Capacity: a.capacity, Layout: scalableext.LayoutCompatible}
	if i, err := same.Planned(1); err == nil {
		p.add("RedisBloom, as it is made", a.capacity, i.Bytes, 1, full(same), "fingerprints of 8 bits: the rate cannot be chosen")
	}
	p.Made = madeCuckoo(i).named(p.Name)
	return nil
}

// full returns the rate of a compatible cuckoo filter whose slots are all taken.
func full(c cuckooext.Config) float64 {
	c.NonScaling = true
	i, err := c.Planned(1)
	if err != nil {
		return 0
	}
	return i.ErrorRate
}

func (p *planPage) counting(a planAsked) error {
	c := countingext.Config{Capacity: a.capacity, ErrorRate: a.rate, NonScaling: a.fixed}
	i, err := c.Planned(a.capacity)
	if err != nil {
		return err
	}
	p.add("as it is made", a.capacity, i.Bytes, len(i.Layers), i.ExpectedRate, "counters of 4 bits")
	p.Cost = lookupCost(i.Layers[0].Hashes, i.Layers[0].Lines, len(i.Layers))
	if !a.fixed {
		if grown, err := c.Planned(planGrown * a.capacity); err == nil {
			p.add(fmt.Sprintf("grown to %d times as many items", planGrown), planGrown*a.capacity, grown.Bytes, len(grown.Layers), grown.ExpectedRate, "")
		}
	}
	p.Made = madeCounting(i).named(p.Name)
	return nil
}

func lookupCost(hashes, lines, layers int) string {
	return fmt.Sprintf("%d bits in %s of 64 bytes, within one block of at most 8 KiB; for an absent item in each of %s", hashes, many(lines, "line"), many(layers, "layer"))
}

// many shows a number of things.
func many(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%s %s", count(n), thing)
}

// shell is the command of kvshell that prints the same plan.
func (p *planPage) shell(a planAsked) string {
	words := []string{"kvshell plan", "--type", a.kind, "--capacity", fmt.Sprint(a.capacity), "--error", float(a.rate)}
	if a.fixed {
		words = append(words, "--nonscaling")
	}
	if a.window != 0 {
		words = append(words, "--window", a.window.String())
	}
	return strings.Join(words, " ")
}
