package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// The types of filter that load, dedup and plan know, as --type has them.
const (
	bloomKind    = "bloom"
	cuckooKind   = "cuckoo"
	countingKind = "counting"
)

// kindUsage is the usage of --type. Tab completes the words in quotes.
const kindUsage = "type, `bloom|cuckoo|counting`, of a filter that is made; items can be deleted from the latter two"

func checkKind(kind string) error {
	switch kind {
	case bloomKind, cuckooKind, countingKind:
		return nil
	}
	return exit.Usagef("--type %q: must be bloom, cuckoo or counting", kind)
}

// lineFilter is a filter that lines are added to.
type lineFilter interface {
	// ReserveStaged makes it as the flags ask for, with a life of its own, 0 for none,
	// as part of a writer's commit.
	ReserveStaged(w *kv.Writer, f *filterFlags, ttl time.Duration) error

	// AddStaged adds those lines that are not there as part of a writer's commit, and tells
	// which it added. n is how many lines there are before the first without room.
	AddStaged(w *kv.Writer, lines [][]byte, added []bool) (n int, err error)

	Facts() (filterFacts, error)
}

// filterFacts are what load and dedup tell and check of a filter.
type filterFacts struct {
	kind       string
	asked      uint64 // the capacity it was made with
	rate       float64
	nonScaling bool
	hash       string // "keyed" or "xxh64"

	items, capacity uint64
	estimated       bool // items is
	layers          int
	full            string // how full it is
	expectedRate    float64
}

// linesOf returns the filter under a key: of the type it has, or, if there is none, of the given one. If the key cannot
// be read, the next use of the filter tells why.
func linesOf(db *kv.DB, key []byte, kind string) lineFilter {
	if name, err := db.TypeOf(key); err == nil {
		switch name {
		case bloomTypeName:
			kind = bloomKind
		case cuckooTypeName:
			kind = cuckooKind
		case countingTypeName:
			kind = countingKind
		}
	}
	return newLines(db, key, kind)
}

// The names that TYPE has for filters.
const (
	bloomTypeName    = "MBbloom--"
	cuckooTypeName   = "MBbloomCF"
	countingTypeName = "CBloom---"
)

func newLines(db *kv.DB, key []byte, kind string) lineFilter {
	switch kind {
	case cuckooKind:
		return cuckooLines{cuckooext.New(db, string(key))}
	case countingKind:
		return countingLines{countingext.New(db, string(key))}
	}
	return bloomLines{bloomext.New(db, string(key))}
}

type bloomLines struct{ *bloomext.Filter }

func (l bloomLines) ReserveStaged(w *kv.Writer, f *filterFlags, ttl time.Duration) error {
	c := f.bloomConfig()
	c.TTL = ttl
	return l.Filter.ReserveStaged(w, c)
}

func (l bloomLines) Facts() (filterFacts, error) {
	info, err := l.Info()
	if err != nil {
		return filterFacts{}, err
	}
	return bloomFacts(info), nil
}

func bloomFacts(info bloomext.Info) filterFacts {
	return filterFacts{
		kind: bloomKind, asked: info.Layers[0].Capacity, rate: info.ErrorRate, nonScaling: info.Expansion == 0, hash: info.Hash.String(),
		items: info.Items, capacity: info.Capacity, estimated: info.ItemsEstimated, layers: len(info.Layers),
		full: fmt.Sprintf("%.2f %% of its bits set (counted)", 100*info.Fill), expectedRate: info.ExpectedRate,
	}
}

type cuckooLines struct{ *cuckooext.Filter }

func (l cuckooLines) ReserveStaged(w *kv.Writer, f *filterFlags, ttl time.Duration) error {
	c := f.cuckooConfig()
	c.TTL = ttl
	return l.Filter.ReserveStaged(w, c)
}

// AddStaged adds a line once, however often it comes, so that a run that is repeated changes nothing.
func (l cuckooLines) AddStaged(w *kv.Writer, lines [][]byte, added []bool) (int, error) {
	return l.AddIfAbsentStaged(w, lines, added)
}

func (l cuckooLines) Facts() (filterFacts, error) {
	info, err := l.Info()
	if err != nil {
		return filterFacts{}, err
	}
	return cuckooFacts(info), nil
}

func cuckooFacts(info cuckooext.Info) filterFacts {
	return filterFacts{
		kind: cuckooKind, asked: info.Asked, rate: info.ErrorRate, nonScaling: info.Expansion == 0, hash: info.Hash.String(),
		items: info.Items, capacity: info.Capacity, layers: len(info.Layers),
		full: fmt.Sprintf("%.2f %% of its slots taken", 100*slotsTaken(info)), expectedRate: info.ExpectedRate,
	}
}

// slotsTaken returns the load of all layers together.
func slotsTaken(info cuckooext.Info) float64 {
	return float64(info.Items) * float64(info.FingerprintBits) / (8 * float64(info.Bytes))
}

type countingLines struct{ *countingext.Filter }

func (l countingLines) ReserveStaged(w *kv.Writer, f *filterFlags, ttl time.Duration) error {
	c := f.countingConfig()
	c.TTL = ttl
	return l.Filter.ReserveStaged(w, c)
}

// AddStaged counts a line once, however often it comes, so that a run that is repeated changes nothing.
func (l countingLines) AddStaged(w *kv.Writer, lines [][]byte, added []bool) (int, error) {
	return l.AddIfAbsentStaged(w, lines, added)
}

func (l countingLines) Facts() (filterFacts, error) {
	info, err := l.Info()
	if err != nil {
		return filterFacts{}, err
	}
	return countingFacts(info), nil
}

func countingFacts(info countingext.Info) filterFacts {
	return filterFacts{
		kind: countingKind, asked: info.Layers[0].Capacity, rate: info.ErrorRate, nonScaling: info.Expansion == 0, hash: info.Hash.String(),
		items: info.Items, capacity: info.Capacity, layers: len(info.Layers),
		full: fmt.Sprintf("%.2f %% of its counters above 0", 100*info.Fill), expectedRate: info.ExpectedRate,
	}
}

// hasNoRoom reports whether an error says that a line had no room in a filter: one that does not grow and is full, or one
// that has grown as far as it can.
func hasNoRoom(err error) bool {
	return errors.Is(err, scalableext.ErrFull) || errors.Is(err, scalableext.ErrCannotGrow)
}
