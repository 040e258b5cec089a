package dashboard

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/sievekv/sievekv/internal/live"
)

// busyPage shows what takes time, and which clients are connected.
type busyPage struct {
	Server                       bool
	Seen                         seenPage
	Hot                          []shownRow
	Commands                     []shownCommand
	Latency                      *histogram
	Errors                       []live.Kind
	Slow                         []shownSlow
	AllSlow                      int
	Clients                      []shownClient
	All                          int
	MaySlow, MayClients, MayInfo bool
}

// shownCommand is a command as the table shows it.
type shownCommand struct {
	live.Command
	Mean, Half, Slow float64 // microseconds
	Share            float64 // of the time of all
}

type shownSlow struct {
	At, Took, Words, Client string
}

type shownClient struct {
	live.Client
	Age, Idle string
}

// histogram is how long commands took, as bars.
type histogram struct {
	Bars    []bar
	Summary string
	Height  int
}

type bar struct {
	Label, Title string
	Y            int
	Width        float64
	N            uint64
}

const (
	mostHot     = 20
	mostSlow    = 50
	mostClients = 100
	barHeight   = 14
	barWidth    = 200.0
)

func (d *Dashboard) busy(r *request) (any, error) {
	seen := d.rowsOf(r)
	p := &busyPage{Server: d.o.Server != nil, Seen: d.seenPage(seen, r.now), MaySlow: r.may("SLOWLOG", "GET"), MayClients: r.may("CLIENT", "LIST"), MayInfo: r.may("INFO")}
	p.Hot = hot(seen.rows, r.now)
	if !p.Server {
		return p, nil
	}
	if p.MayInfo {
		counts := d.o.Server.Counts()
		p.Commands, p.Errors = showCommands(counts.Commands), counts.Errors
		p.Latency = drawLatency(&counts.Latency)
	}
	if p.MaySlow {
		var list []live.SlowCommand
		list, p.AllSlow = d.o.Server.Slow(mostSlow)
		for _, s := range list {
			p.Slow = append(p.Slow, showSlow(s))
		}
	}
	if p.MayClients {
		var list []live.Client
		list, p.All = d.o.Server.Clients(mostClients)
		for _, c := range list {
			p.Clients = append(p.Clients, shownClient{c, showSpan(c.Age), showSpan(c.Idle)})
		}
	}
	return p, nil
}

// hot returns the filters that were used most since the pass before, or if nothing is known of that, since the store was opened.
func hot(rows []row, now time.Time) (list []shownRow) {
	used := make([]*row, 0, 64)
	lately := false
	for i := range rows {
		if rows[i].uses() > 0 {
			used = append(used, &rows[i])
			lately = lately || rows[i].usesLately() > 0
		}
	}
	for _, r := range firstRows(used, mostHot, func(a, b *row) int {
		by := cmp.Compare(b.uses(), a.uses())
		if lately {
			by = cmp.Or(cmp.Compare(b.usesLately(), a.usesLately()), by)
		}
		return cmp.Or(by, strings.Compare(a.key, b.key))
	}) {
		list = append(list, showRow(r, now))
	}
	return list
}

// showCommands returns the commands, the one that took most time first.
func showCommands(list []live.Command) (shown []shownCommand) {
	all := time.Duration(0)
	for _, c := range list {
		all += c.Took
	}
	for _, c := range list {
		s := shownCommand{Command: c, Half: float64(c.Latency.Quantile(0.5).Microseconds()), Slow: float64(c.Latency.Quantile(0.99).Microseconds())}
		if c.Calls > 0 {
			s.Mean = float64(c.Took.Nanoseconds()) / 1000 / float64(c.Calls)
		}
		if all > 0 {
			s.Share = float64(c.Took) / float64(all)
		}
		shown = append(shown, s)
	}
	slices.SortFunc(shown, func(a, b shownCommand) int {
		return cmp.Or(cmp.Compare(b.Took, a.Took), strings.Compare(a.Name, b.Name))
	})
	return shown
}

// drawLatency draws how long commands took, nil if none ran.
func drawLatency(l *live.Latency) *histogram {
	total := l.Total()
	if total == 0 {
		return nil
	}
	first, last, most := -1, 0, uint64(0)
	for i, n := range l {
		if n > 0 {
			last, most = i, max(most, n)
			if first < 0 {
				first = i
			}
		}
	}
	h := &histogram{}
	for i := first; i <= last; i++ {
		label := "< " + showMicros(float64(uint64(1)<<i))
		if i == len(l)-1 {
			label = "longer"
		}
		h.Bars = append(h.Bars, bar{label, label + ": " + count(l[i]) + " commands", barHeight * (i - first), barWidth * float64(l[i]) / float64(most), l[i]})
	}
	h.Height = barHeight * len(h.Bars)
	h.Summary = "Half of " + count(total) + " commands took at most " + showMicros(float64(l.Quantile(0.5).Microseconds())) + ", 99 of 100 at most " +
		showMicros(float64(l.Quantile(0.99).Microseconds())) + "."
	return h
}

func showSlow(s live.SlowCommand) shownSlow {
	words := make([]string, len(s.Words))
	for i, w := range s.Words {
		words[i] = word(w)
	}
	client := s.Client
	if s.Name != "" {
		client += " " + s.Name
	}
	return shownSlow{s.At.UTC().Format("01-02 15:04:05"), showMicros(float64(s.Took.Microseconds())), strings.Join(words, " "), client}
}
