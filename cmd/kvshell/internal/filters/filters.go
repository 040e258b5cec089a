// Package filters has one view of all types of filter, for the words load, dedup and plan: the flags that a filter is
// made with, adding lines to it, and facts about it.
package filters

import (
	"errors"
	"fmt"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
)

// The types of filter that load, dedup and plan know, by the names that --type takes.
const (
	Bloom    = "bloom"
	Cuckoo   = "cuckoo"
	Counting = "counting"
)

// kindUsage is the usage of --type. Tab completes the words in quotes.
const kindUsage = "type, `bloom|cuckoo|counting`, of a filter that is made; items can be deleted from the latter two"

// CheckKind returns a usage error for a word that is no type of filter.
func CheckKind(kind string) error {
	switch kind {
	case Bloom, Cuckoo, Counting:
		return nil
	}
	return exit.Usagef("--type %q: must be bloom, cuckoo or counting", kind)
}

// Filter is a filter that lines are added to.
type Filter interface {
	// ReserveStaged makes the filter as the flags say, as part of a writer's commit. It expires after ttl, or never
	// if that is 0.
	ReserveStaged(w *kv.Writer, f *Flags, ttl time.Duration) error

	// AddFitting adds the longest prefix of lines that surely fits into the writer's commit, and at least `least` of
	// them. It sets added for lines that the filter did not have. n is the length of the prefix; with an error, the
	// number of lines before the first that has no room.
	AddFitting(w *kv.Writer, lines [][]byte, added []bool, least int) (n int, err error)

	Facts() (Facts, error)
}

// addToSlots is AddFitting by a function that adds lines: a cuckoo or a counting filter logs a line in at most slotBytes,
// if each changes a block of its own.
func addToSlots(
	w *kv.Writer, lines [][]byte, added []bool, least int, add func(w *kv.Writer, lines [][]byte, added []bool) (int, error),
) (n int, err error) {
	const (
		slotBytes = 416
		others    = 64 << 10 // a header, counters, and the record of dedup
	)
	n = min(max((w.Room()-others)/slotBytes, least, 0), len(lines))
	return add(w, lines[:n], added[:n])
}

// Facts are what load and dedup tell and check of a filter.
type Facts struct {
	Kind       string
	Asked      uint64 // the capacity it was made with
	Rate       float64
	NonScaling bool
	Hash       string // "keyed" or "xxh64"

	Window time.Duration      // after which it forgets lines, 0 for never
	Layout scalableext.Layout // of a Bloom filter

	Items, Capacity uint64
	Estimated       bool // Items is an estimate
	Layers          int
	Full            string // how full it is
	ExpectedRate    float64
}

// Of returns the filter under a key. Kind is its type if there is no filter. If the key cannot be read, the next use
// of the filter returns the error.
func Of(db *kv.DB, key []byte, kind string) Filter {
	if name, err := db.TypeOf(key); err == nil {
		if stored, ok := KindOf(name); ok {
			kind = stored
		}
	}
	return New(db, key, kind)
}

// KindOf returns the name that --type takes for a type that the command TYPE answers. It is not ok if that is no
// filter.
func KindOf(typeName string) (kind string, ok bool) {
	for i, name := range Types() {
		if name == typeName {
			return []string{Bloom, Cuckoo, Counting}[i], true
		}
	}
	return "", false
}

// Types returns the types of filter as the command TYPE answers them, for Bloom, Cuckoo and Counting.
func Types() (names []string) {
	for _, m := range []module.Module{bloomext.Module(), cuckooext.Module(), countingext.Module()} {
		names = append(names, m.Types[0].Name)
	}
	return names
}

// New returns the filter of a type under a key, which need not exist.
func New(db *kv.DB, key []byte, kind string) Filter {
	switch kind {
	case Cuckoo:
		return cuckooLines{cuckooext.New(db, string(key))}
	case Counting:
		return countingLines{countingext.New(db, string(key))}
	}
	return bloomLines{bloomext.New(db, string(key))}
}

type bloomLines struct{ *bloomext.Filter }

func (l bloomLines) ReserveStaged(w *kv.Writer, f *Flags, ttl time.Duration) error {
	c := f.bloomConfig()
	c.TTL = ttl
	return l.Filter.ReserveStaged(w, c)
}

func (l bloomLines) Facts() (Facts, error) {
	info, err := l.Info()
	if err != nil {
		return Facts{}, err
	}
	return bloomFacts(info), nil
}

// forgets says when the filter forgets lines.
func (f Facts) forgets() string {
	if f.Window == 0 {
		return "no --window"
	}
	return fmt.Sprintf("--window %v", f.Window)
}

func bloomFacts(info bloomext.Info) Facts {
	return Facts{
		Kind: Bloom, Layout: info.Layout, Asked: info.Asked, Window: info.Window, Rate: info.ErrorRate, NonScaling: info.Expansion == 0, Hash: info.Hash.String(),
		Items: info.Items, Capacity: info.Capacity, Estimated: info.ItemsEstimated, Layers: len(info.Layers),
		Full: fmt.Sprintf("%.2f %% of its bits set (counted)", 100*info.Fill), ExpectedRate: info.ExpectedRate,
	}
}

type cuckooLines struct{ *cuckooext.Filter }

func (l cuckooLines) ReserveStaged(w *kv.Writer, f *Flags, ttl time.Duration) error {
	c := f.cuckooConfig()
	c.TTL = ttl
	return l.Filter.ReserveStaged(w, c)
}

// AddFitting adds a line that comes several times once, so that repeating a run changes nothing.
func (l cuckooLines) AddFitting(w *kv.Writer, lines [][]byte, added []bool, least int) (int, error) {
	return addToSlots(w, lines, added, least, l.AddIfAbsentStaged)
}

func (l cuckooLines) Facts() (Facts, error) {
	info, err := l.Info()
	if err != nil {
		return Facts{}, err
	}
	return cuckooFacts(info), nil
}

func cuckooFacts(info cuckooext.Info) Facts {
	return Facts{
		Kind: Cuckoo, Asked: info.Asked, Rate: info.ErrorRate, NonScaling: info.Expansion == 0, Hash: info.Hash.String(),
		Items: info.Items, Capacity: info.Capacity, Layers: len(info.Layers),
		Full: fmt.Sprintf("%.2f %% of its slots taken", 100*SlotsTaken(info)), ExpectedRate: info.ExpectedRate,
	}
}

// SlotsTaken returns the share of slots taken in all layers together.
func SlotsTaken(info cuckooext.Info) float64 {
	return float64(info.Items) * float64(info.FingerprintBits) / (8 * float64(info.Bytes))
}

type countingLines struct{ *countingext.Filter }

func (l countingLines) ReserveStaged(w *kv.Writer, f *Flags, ttl time.Duration) error {
	c := f.countingConfig()
	c.TTL = ttl
	return l.Filter.ReserveStaged(w, c)
}

// AddFitting counts a line that comes several times once, so that repeating a run changes nothing.
func (l countingLines) AddFitting(w *kv.Writer, lines [][]byte, added []bool, least int) (int, error) {
	return addToSlots(w, lines, added, least, l.AddIfAbsentStaged)
}

func (l countingLines) Facts() (Facts, error) {
	info, err := l.Info()
	if err != nil {
		return Facts{}, err
	}
	return countingFacts(info), nil
}

func countingFacts(info countingext.Info) Facts {
	return Facts{
		Kind: Counting, Asked: info.Layers[0].Capacity, Rate: info.ErrorRate, NonScaling: info.Expansion == 0, Hash: info.Hash.String(),
		Items: info.Items, Capacity: info.Capacity, Layers: len(info.Layers),
		Full: fmt.Sprintf("%.2f %% of its counters above 0", 100*info.Fill), ExpectedRate: info.ExpectedRate,
	}
}

// HasNoRoom reports whether an error says that a filter had no room for a line: it is full and does not grow, or has
// grown as far as it can.
func HasNoRoom(err error) bool {
	return errors.Is(err, scalableext.ErrFull) || errors.Is(err, scalableext.ErrCannotGrow)
}

// Summary returns the last lines of a summary, about the filter and the store.
func Summary(f Facts, disk uint64) string {
	made := fmt.Sprintf("%d of %d lines", f.Items, f.Capacity)
	if f.Layers > 1 {
		made += fmt.Sprintf(" in %d layers", f.Layers)
	}
	if f.Estimated {
		made = "about " + made
	}
	return fmt.Sprintf(`filter               %s, %s
false-positive rate  %.2g expected now, at most %g asked for
on disk              %d bytes
`,
		made, f.Full, f.ExpectedRate, f.Rate, disk)
}
