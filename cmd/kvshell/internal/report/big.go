package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// BigKeys are the largest keys of each type.
type BigKeys struct {
	Types map[string]*bigType `json:"types"`
}

type bigType struct {
	Keys    uint64   `json:"keys"`
	Bytes   uint64   `json:"bytes"`
	Largest []bigKey `json:"largest"`
}

type bigKey struct {
	Key   string `json:"key"`
	Bytes uint64 `json:"bytes"`
}

// mostBig is how many keys of a type are told.
const mostBig = 3

// NewBigKeys returns an empty list.
func NewBigKeys() *BigKeys { return &BigKeys{Types: make(map[string]*bigType)} }

// Add enters a key.
func (b *BigKeys) Add(typ, key string, bytes uint64) {
	t := b.Types[typ]
	if t == nil {
		t = new(bigType)
		b.Types[typ] = t
	}
	t.Keys++
	t.Bytes += bytes
	t.Largest = insertFirst(t.Largest, bigKey{key, bytes}, mostBig, func(a, b bigKey) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Key, b.Key))
	})
}

// Text implements Result.
func (b *BigKeys) Text() string {
	rows := [][]string{{"type", "keys", "bytes", "mean"}}
	largest := [][]string{{"bytes", "type", "key"}}
	for _, typ := range slices.Sorted(maps.Keys(b.Types)) {
		t := b.Types[typ]
		rows = append(rows, []string{typ, fmt.Sprint(t.Keys), fmt.Sprint(t.Bytes), fmt.Sprint(t.Bytes / t.Keys)})
		for _, k := range t.Largest {
			largest = append(largest, []string{fmt.Sprint(k.Bytes), typ, fmt.Sprintf("%q", k.Key)})
		}
	}
	return columns(rows) + "\n" + columns(largest)
}

// Chart shows which share of the bytes each type has.
func (b *BigKeys) Chart(m *Marks) string {
	all := uint64(0)
	for _, t := range b.Types {
		all += t.Bytes
	}
	var rows []bar
	for _, typ := range slices.Sorted(maps.Keys(b.Types)) {
		rows = append(rows, shareBar(typ, b.Types[typ].Bytes, all))
	}
	return m.bars(rows)
}

// Latency are times of one kind.
type Latency struct {
	all, least, most time.Duration
	times            []time.Duration // the last ones, in a ring
	n                int
}

// lastTimes is how many times the 99th percentile is of.
const lastTimes = 10_000

// Add enters a time.
func (l *Latency) Add(t time.Duration) {
	if l.n == 0 {
		l.least = t
	}
	l.all, l.least, l.most = l.all+t, min(l.least, t), max(l.most, t)
	if l.n < lastTimes {
		l.times = append(l.times, t)
	} else {
		l.times[l.n%lastTimes] = t
	}
	l.n++
}

// Text returns the times in milliseconds.
func (l *Latency) Text() string {
	if l.n == 0 {
		return "no answer"
	}
	sorted := slices.Sorted(slices.Values(l.times))
	p99 := sorted[(len(sorted)*99+99)/100-1]
	ms := func(t time.Duration) string { return fmt.Sprintf("%.2f", float64(t)/float64(time.Millisecond)) }
	return fmt.Sprintf("min: %s, max: %s, avg: %s, p99: %s ms (%d samples)", ms(l.least), ms(l.most), ms(l.all/time.Duration(l.n)), ms(p99), l.n)
}
