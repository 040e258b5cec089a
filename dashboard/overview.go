package dashboard

import (
	"fmt"
	"net/url"
	"time"

	"github.com/sievekv/sievekv/internal/live"
	"github.com/sievekv/sievekv/kv"
)

// overviewPage is what the overview shows.
type overviewPage struct {
	Alerts    []string
	Attention []attention
	Seen      seenPage
	Store     *storePage   // nil for a viewer that may not see it
	Commands  *commandPage // nil without a server
	Group     *live.Group
	Charts    []*chart
	Choice    choice
	Past      string
	Empty     bool // no filter, and the viewer may see all
}

// attention is a state that filters are in, and which of them come first.
type attention struct {
	Name, What string
	Mark       string // beside the colour
	Class      string
	N          int
	First      []namedFilter
	Link       url.Values
}

type namedFilter struct{ Key, Why string }

// seenPage says how old the rows are.
type seenPage struct {
	All, Listed int
	Age         string
	Unlisted    int
	Failed      string
}

type storePage struct {
	kv.Metrics
	About          kv.About
	Opened         string
	Meters         []meter
	Disk           []diskPart
	ReadOnly       bool
	HitShare       float64
	StringLookups  uint64
	FiltersInStore int
}

type meter struct {
	Name     string
	Used, Of int64
	Share    float64
}

type diskPart struct {
	Name  string
	Bytes uint64
}

// commandPage is what there is of commands in numbers.
type commandPage struct {
	live.Counts
	PerSecond, FailedPerSecond float64 // of the last seconds; negative if not known
	Half, Slow                 float64 // microseconds, likewise; NaN if there were none
}

// attentions are the states that are told, the most important first.
var attentions = []struct {
	state                   state
	name, word, mark, class string
}{
	{stateLossy, "Lossy", "lost blocks to damage, and may miss items", "✖", "bad"},
	{stateAboveRate, "Above their rate", "answer yes to absent items more often than asked for", "▲", "bad"},
	{stateFull, "Full", "take no more items", "■", "bad"},
	{stateNearlyFull, "Nearly full", "use 80 % of their capacity or more, and do not grow", "◧", "warn"},
	{stateGrowing, "Grown", "have more than one layer: made larger, they would take less memory and time", "◆", "note"},
	{stateUnasked, "Never asked", "have items that nobody has looked up since the store was opened", "○", "note"},
}

// mostNamed is how many filters the overview names of a state.
const mostNamed = 5

func (d *Dashboard) overview(r *request) (any, error) {
	seen := d.rowsOf(r)
	p := &overviewPage{Choice: chosen(r), Seen: d.seenPage(seen, r.now), Attention: attentionOf(seen.rows, r.now)}
	p.Past = d.history.describe()
	p.Empty = len(seen.rows) == 0 && seen.unlisted == 0 && !seen.at.IsZero() && seen.err == nil
	if r.may("SIEVE.STATS") {
		if err := d.storeFacts(p); err != nil {
			return nil, err
		}
		p.Store.FiltersInStore = len(seen.rows) + seen.unlisted
	}
	if s := d.o.Server; s != nil && r.may("INFO") {
		p.Group = s.Group()
		p.Commands = d.commandFacts(s.Counts(), r.now)
	}
	p.Alerts = d.alerts(p)
	if r.may("INFO") {
		p.Charts = d.storeCharts(p.Choice, r.now)
	}
	return p, nil
}

// rowsOf returns the filters that a viewer may see.
func (d *Dashboard) rowsOf(r *request) rowsSeen {
	seen := d.listing.see(d, r.now)
	if r.mayReadAll() {
		return seen
	}
	var rows []row
	for i := range seen.rows {
		if r.mayRead(seen.rows[i].key) {
			rows = append(rows, seen.rows[i])
		}
	}
	if seen.err != nil { // its text may name keys
		seen.err = errUnread
	}
	return rowsSeen{rows: rows, at: seen.at, err: seen.err}
}

func (d *Dashboard) seenPage(seen rowsSeen, now time.Time) seenPage {
	p := seenPage{All: len(seen.rows) + seen.unlisted, Listed: len(seen.rows), Unlisted: seen.unlisted, Age: "being read for the first time"}
	if !seen.at.IsZero() {
		p.Age = showSpan(max(0, now.Sub(seen.at))) + " old"
	}
	if seen.err != nil {
		p.Failed = plain(seen.err)
	}
	return p
}

// attentionOf returns the states that filters are in.
func attentionOf(rows []row, now time.Time) (list []attention) {
	for _, a := range attentions {
		one := attention{Name: a.name, What: a.word, Mark: a.mark, Class: a.class, Link: url.Values{"state": {stateNames[a.state]}}}
		for i := range rows {
			if !rows[i].is(a.state) {
				continue
			}
			if one.N++; one.N <= mostNamed {
				one.First = append(one.First, namedFilter{rows[i].key, why(&rows[i], a.state, now)})
			}
		}
		if one.N > 0 {
			list = append(list, one)
		}
	}
	return list
}

// why says in a few words what puts a filter into a state.
func why(r *row, s state, now time.Time) string {
	switch s {
	case stateAboveRate:
		return fmt.Sprintf("%s now, %s asked for", showRate(r.rate), showRate(r.asked))
	case stateFull, stateNearlyFull:
		text := fmt.Sprintf("%s of %s items", count(r.items), count(r.capacity))
		if left, ok := r.toFull(now); ok {
			text += ", full in " + showSpan(left)
		}
		return text
	case stateGrowing:
		return fmt.Sprintf("%d layers", r.layers)
	case stateUnasked:
		return fmt.Sprintf("%s items", count(r.items))
	}
	return ""
}

func (d *Dashboard) storeFacts(p *overviewPage) error {
	m, err := d.db.Metrics()
	if err != nil {
		return err
	}
	o := d.db.Options()
	p.Store = &storePage{Metrics: m, About: d.db.About(), ReadOnly: d.db.ReadOnly()}
	p.Store.Opened = p.Store.About.Opened.UTC().Format("2006-01-02 15:04 UTC")
	p.Store.Meters = []meter{
		newMeter("blocks and open filters", m.CacheUsed, m.CacheBudget),
		newMeter("strings", m.Strings.Used, m.Strings.Budget),
		newMeter("memtables", int64(m.MemTableBytes), int64(o.MemTableSize)*2),
	}
	other := m.DiskBytes - min(m.DiskBytes, m.TableBytes+m.LogBytes)
	p.Store.Disk = []diskPart{{"tables", m.TableBytes}, {"log", m.LogBytes}, {"other files", other}, {"reserve", m.ReserveBytes}}
	if p.Store.StringLookups = m.Strings.Hits + m.Strings.Misses; p.Store.StringLookups > 0 {
		p.Store.HitShare = float64(m.Strings.Hits) / float64(p.Store.StringLookups)
	}
	return nil
}

func newMeter(name string, used, of int64) meter {
	m := meter{Name: name, Used: used, Of: of}
	if of > 0 {
		m.Share = min(1, float64(used)/float64(of))
	}
	return m
}

// alerts returns what is wrong with the store, the most important first.
func (d *Dashboard) alerts(p *overviewPage) (list []string) {
	if err := d.db.Health(); err != nil {
		list = append(list, "The store does not take all reads and writes: "+plain(err))
	}
	if p.Seen.Failed != "" {
		list = append(list, "The filters could not all be read: "+p.Seen.Failed)
	}
	if s := p.Store; s != nil {
		if s.DamagedBlocks > 0 {
			list = append(list, fmt.Sprintf("Reads of %d blocks of tables fail. Check the store, and restore a backup or salvage it.", s.DamagedBlocks))
		}
		if s.Behind {
			list = append(list, "Compactions of tables are behind: commits wait for them, or soon will.")
		}
		if s.BackgroundErrors > 0 {
			list = append(list, fmt.Sprintf("%d flushes or compactions have failed, and were tried again. The log says why.", s.BackgroundErrors))
		}
	}
	if p.Group != nil {
		list = append(list, groupAlerts(p.Group)...)
	}
	return list
}

func groupAlerts(g *live.Group) (list []string) {
	if g.Alarm {
		list = append(list, "This member has refused a leader or a vote since it was started, or has ended. Its log says why.")
	}
	leader := false
	for _, m := range g.Members {
		leader = leader || m.Role == live.Leader
		if !m.Healthy {
			list = append(list, fmt.Sprintf("The leader has not heard of member %s for a while.", shortKey(m.Name)))
		}
	}
	if !leader {
		list = append([]string{"No leader is known: writes wait or fail."}, list...)
	}
	return list
}
