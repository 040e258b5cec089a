package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/sievekv/sievekv"
)

// Filter is a type of filter.
type Filter string

// The types of filters. See the package comment for what they cost.
const (
	Bloom    Filter = "bloom"    // for ids that only come
	Cuckoo   Filter = "cuckoo"   // also for ids that go away
	Counting Filter = "counting" // also for ids that go away; four times as large as Bloom
)

// Options configure a Guard. Times are rounded down to milliseconds, and are at least one, unless a field says otherwise.
type Options struct {
	// Load returns the value of an id from the source, or an error that is ErrNotFound if the id is absent there. Any
	// other error, a panic, and runtime.Goexit are failures of the source, also sievekv.ErrNotFound and sql.ErrNoRows. A
	// nil value without an error is an empty value. Load must return soon after its context ends.
	Load func(ctx context.Context, id string) ([]byte, error)

	// LoadMany returns the values of several different ids, at most the ids of one GetMany. An id that is not in the
	// map is absent. Without LoadMany, GetMany calls Load for each id; without Load, Get calls LoadMany. One of the two
	// is required.
	LoadMany func(ctx context.Context, ids []string) (map[string][]byte, error)

	// LoadTimeout ends the context of a load, and bounds the time that a load waits for its turn, and for Cache. Default 10
	// seconds.
	LoadTimeout time.Duration

	// Filter is the type of the filter of ids. Default Bloom. If a store has this guard with another type, New drops that
	// filter, and the guard lets everything through until the next Rebuild.
	Filter Filter

	// Capacity is the number of ids expected, 1 to 2^40. Default 1,000,000. The filter grows beyond it, but not for ever: a
	// cuckoo filter for few ids has room for some hundred thousand. A Put for which there is no room drops the filter,
	// so that every lookup is let through, and a Rebuild fails. Capacity and ErrorRate are for filters made from now on:
	// New does not change one that exists, but Rebuild does.
	Capacity uint64

	// ErrorRate is the highest share of absent ids that the filter lets through, below 1. Default 0.01.
	ErrorRate float64

	// Empty says that the source has no ids when the guard is made in a store, so that the filter can begin empty. Default
	// false: the first Rebuild makes the filter, and until then all lookups are let through.
	//
	// New believes it whenever the store does not have the guard, which is also so after FLUSHALL, or after the store's
	// directory was lost: then an empty filter refuses all ids that are there, until a Rebuild. So set it to what the
	// source says at the moment, or only in the program that makes the source, but not to true for ever. New tells the
	// log when it makes an empty filter.
	Empty bool

	// TTL is the longest time for which a value is served without asking the source for it again. Default 10 minutes.
	TTL time.Duration

	// SoftTTL is the age from which a value is still served, but one load refreshes it. At most TTL; TTL means that
	// values are not refreshed before they expire. Default four fifths of TTL.
	SoftTTL time.Duration

	// MaxStale is for how long after TTL a value is served if the source fails, its breaker is open, or no load is free, and
	// while another call loads it with others by LoadMany. Default TTL; negative means never.
	MaxStale time.Duration

	// NullTTL is the longest time for which an id that the source does not have is remembered as absent. Default one
	// minute; negative means that nothing is remembered.
	NullTTL time.Duration

	// Jitter is the share of TTL, SoftTTL and NullTTL that is random, 0 to 1: each entry lives for a part of them between
	// 1-Jitter and 1, so that entries written together do not expire together. 0 means the default, 0.5: then no second
	// has twice the mean of the loads, however many values came in one second. Negative means none.
	Jitter float64

	// MaxLoads is the number of loads at once. One call of LoadMany is one. Default 64.
	MaxLoads int

	// LoadsPerSecond is the number of loads a second, in bursts of up to a tenth of it. Default 0: no limit.
	LoadsPerSecond float64

	// BreakerFailures is the number of loads that must fail in a row to open the breaker: then no load begins for
	// BreakerPause. After it one load tries the source, and closes the breaker if it succeeds. Default 5; negative means
	// that there is no breaker.
	BreakerFailures int

	// BreakerPause is how long the breaker stays open. Default 5 seconds.
	BreakerPause time.Duration

	// RefuseUnfiltered makes Get fail with ErrUnfiltered if the filter is missing or cannot be read. Default false: such
	// lookups go on to the cache and the source.
	RefuseUnfiltered bool

	// FailedIsAbsent makes a load that fails count as one that found the id absent, also in the cache. Then Get may return
	// ErrNotFound for an id that is there. Default false: Get returns the error, and nothing is remembered.
	FailedIsAbsent bool

	// Cache keeps the entries elsewhere. Default nil: they are strings of the store.
	Cache Cache

	// Logger receives what an operator should know. Default slog.Default().
	Logger *slog.Logger
}

// Cache is a cache outside the store, for Options.Cache. What the guard writes there is not part of a commit. So Put and
// Remove first take the entry away, and fail if that fails, then change row and filter, and then set the new entry. After
// a crash between these steps the entry is missing. The guard's guarantees hold if nobody else writes the guard's keys, and
// if a Set that has returned an error has no effect later; otherwise an old value may be served until its TTL and MaxStale
// are over. An implementation may drop entries at any time. If rows are in the store, and its level of durability lets a
// crash take commits back, the cache may have what they wrote: clear it after such a crash, or write at sievekv.Always.
type Cache interface {
	// Get returns what was set under a key, nil if there is nothing. The guard does not change the slice.
	Get(ctx context.Context, key string) ([]byte, error)

	// Set sets what is under a key for at most ttl. With a nil entry it removes the key.
	Set(ctx context.Context, key string, entry []byte, ttl time.Duration) error
}

// withDefaults returns a copy with every default filled in, or an error that lists all problems.
func (o Options) withDefaults(name string) (Options, error) {
	o.LoadTimeout = cmp.Or(o.LoadTimeout, 10*time.Second)
	o.Filter = cmp.Or(o.Filter, Bloom)
	o.Capacity = cmp.Or(o.Capacity, defaultCapacity)
	o.ErrorRate = cmp.Or(o.ErrorRate, defaultErrorRate)
	o.TTL = cmp.Or(o.TTL, 10*time.Minute)
	ttl := min(max(o.TTL, time.Millisecond), maxTime) // if TTL is wrong, the error is to name TTL alone
	o.SoftTTL = cmp.Or(o.SoftTTL, max(ttl/5*4, time.Millisecond))
	o.MaxStale = max(0, cmp.Or(o.MaxStale, ttl))
	o.NullTTL = max(0, cmp.Or(o.NullTTL, time.Minute))
	o.Jitter = max(0, cmp.Or(o.Jitter, 0.5))
	o.MaxLoads = cmp.Or(o.MaxLoads, 64)
	o.BreakerFailures = cmp.Or(o.BreakerFailures, 5)
	o.BreakerPause = cmp.Or(o.BreakerPause, 5*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return o, o.validate(name)
}

const (
	defaultCapacity  = 1_000_000
	defaultErrorRate = 0.01
)

// maxTime is the longest time of an option: with it, sums of times and moments stay within 64 bits.
const maxTime = 100 * 365 * 24 * time.Hour

func (o *Options) validate(name string) error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	between := func(name string, d, low time.Duration) bool {
		ok := d >= low && d <= maxTime
		check(ok, "%s is %v: %v to %v", name, d, low, maxTime)
		return ok
	}
	check(name != "" && len(name) <= 200 && !strings.Contains(name, ":"), "the name is %q: 1 to 200 bytes, without a colon", name)
	check(o.Load != nil || o.LoadMany != nil, "neither Load nor LoadMany is set")
	check(o.Filter == Bloom || o.Filter == Cuckoo || o.Filter == Counting, "Filter is %q: %q, %q or %q", o.Filter, Bloom, Cuckoo, Counting)
	between("LoadTimeout", o.LoadTimeout, time.Millisecond)
	known := between("TTL", o.TTL, time.Millisecond)
	if between("SoftTTL", o.SoftTTL, time.Millisecond) && known {
		check(o.SoftTTL <= o.TTL, "SoftTTL is %v: at most TTL, %v", o.SoftTTL, o.TTL)
	}
	between("MaxStale", o.MaxStale, 0)
	between("NullTTL", o.NullTTL, 0)
	between("BreakerPause", o.BreakerPause, 1)
	check(o.Jitter <= 1, "Jitter is %v: 0 to 1", o.Jitter)
	check(o.MaxLoads > 0, "MaxLoads is %d: at least 1", o.MaxLoads)
	check(o.LoadsPerSecond >= 0, "LoadsPerSecond is %v: above 0, or 0 for no limit", o.LoadsPerSecond)
	errs = append(errs, o.checkFilter()...)
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: guard: %w", sievekv.ErrOptions, errors.Join(errs...))
}

// checkFilter returns what is wrong with Capacity and ErrorRate, each alone or else together. Without it only Rebuild would
// find out.
func (o *Options) checkFilter() (errs []error) {
	check := func(name string, capacity uint64, rate float64) {
		if err := o.planned(capacity, rate); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	check("Capacity", o.Capacity, defaultErrorRate)
	check("ErrorRate", 1, o.ErrorRate)
	if len(errs) == 0 {
		check("Capacity and ErrorRate", o.Capacity, o.ErrorRate)
	}
	return errs
}

// planned returns an error if there can be no filter of a capacity and an error rate.
func (o *Options) planned(capacity uint64, rate float64) (err error) {
	switch o.Filter {
	case Cuckoo:
		_, err = sievekv.CuckooConfig{}.Planned(sievekv.Capacity(capacity, rate), 1)
	case Counting:
		_, err = sievekv.CountingConfig{}.Planned(sievekv.Capacity(capacity, rate), 1)
	default: // also if there is no such type of filter: the limits of Capacity and ErrorRate are about the same for all
		_, err = sievekv.BloomConfig{}.Planned(sievekv.Capacity(capacity, rate), 1)
	}
	return err
}
