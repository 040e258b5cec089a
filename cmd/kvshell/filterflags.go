package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/cliflags"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv/hash"
)

// filterFlags are the flags of the words that add lines to a filter: what it is made with if it is missing.
type filterFlags struct {
	kind       string
	rate       float64
	capacity   uint64
	nonScaling bool
	ttl        uint64 // seconds, 0 for none
	hash       string // "keyed" or "xxh64", "" for the default

	kindGiven, rateGiven, capacityGiven, nonScalingGiven, ttlGiven bool

	asked float64 // rate as it was given, above rate if that was lowered

	room uint64 // lines that a filter that is made takes before it grows or is full; 0 if that is not known yet
}

// maxTTL is the longest life of a filter, in seconds: that of BF.RESERVE.
const maxTTL = 100 * 366 * 24 * 60 * 60

func (f *filterFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.kind, "type", bloomKind, kindUsage)
	flags.Float64Var(&f.rate, "error", 0.000001, "false-positive `RATE` of a filter that is made: the share of new lines taken for known ones")
	cliflags.CountVar(flags, &f.capacity, "capacity", 1000000, "different `LINES`, such as 64k, 1M or 1e6, that a filter that is made has room for before it grows")
	flags.BoolVar(&f.nonScaling, "non-scaling", false, "make a filter that never grows: when it is full, the run ends")
	cliflags.CountVar(flags, &f.ttl, "ttl", 0, "`SECONDS` that a filter that is made lives, from its making (default for ever)")
	flags.StringVar(&f.hash, "hash", "", "hash of a filter that is made, `keyed|xxh64`; with xxh64, for one that is built alike elsewhere, lines can be chosen that collide (default keyed)")
}

// note remembers which flags were given: only they are compared with a filter that is there.
func (f *filterFlags) note(flags *pflag.FlagSet) {
	f.kindGiven = flags.Changed("type")
	f.rateGiven, f.capacityGiven = flags.Changed("error"), flags.Changed("capacity")
	f.nonScalingGiven, f.ttlGiven = flags.Changed("non-scaling"), flags.Changed("ttl")
}

// check returns a usage error for a filter that cannot be, before a store is made for it.
func (f *filterFlags) check() error {
	if f.ttlGiven && (f.ttl < 1 || f.ttl > maxTTL) {
		return exit.Usagef("--ttl %d: must be 1 to %d seconds", f.ttl, uint64(maxTTL))
	}
	if err := checkKind(f.kind); err != nil {
		return err
	}
	if _, ok := hash.ParseKind(f.hash); !ok && f.hash != "" {
		return exit.Usagef("--hash %s: must be keyed or xxh64", f.hash)
	}
	if f.kind == cuckooKind && f.rate == 0 {
		return exit.Usagef("--capacity %d --error 0: the error rate must be above 0 and below 1", f.capacity)
	}
	planned, err := f.planned()
	if err != nil {
		return err
	}
	f.asked, f.rate, f.room = f.rate, planned.rate, planned.capacity // the rate is lowered if it is higher than any filter's
	return nil
}

// hashKind is the hash that --hash asks for, the default if it is not given.
func (f *filterFlags) hashKind() hash.Kind {
	kind, _ := hash.ParseKind(f.hash)
	return kind
}

// bloomConfig is the Bloom filter that the flags ask for, but for its life.
func (f *filterFlags) bloomConfig() bloomext.Config {
	return bloomext.Config{Capacity: f.capacity, ErrorRate: f.rate, NonScaling: f.nonScaling, Hash: f.hashKind()}
}

// cuckooConfig is the cuckoo filter that the flags ask for, but for its life.
func (f *filterFlags) cuckooConfig() cuckooext.Config {
	return cuckooext.Config{Capacity: f.capacity, ErrorRate: f.rate, NonScaling: f.nonScaling, Hash: f.hashKind()}
}

// countingConfig is the counting Bloom filter that the flags ask for, but for its life.
func (f *filterFlags) countingConfig() countingext.Config {
	return countingext.Config{Capacity: f.capacity, ErrorRate: f.rate, NonScaling: f.nonScaling, Hash: f.hashKind()}
}

// life is how long a filter that is made lives, 0 for ever.
func (f *filterFlags) life() time.Duration { return time.Duration(f.ttl) * time.Second }

// planned returns what a filter made by the flags is, or why there can be none.
func (f *filterFlags) planned() (facts filterFacts, err error) {
	db, err := openScratch()
	if err != nil {
		return facts, err
	}
	defer closeStore(db, &err)
	switch f.kind {
	case cuckooKind:
		info, err := reserveScratchCuckoo(db, f.cuckooConfig())
		if err != nil {
			return facts, err
		}
		return cuckooFacts(info), nil
	case countingKind:
		info, err := reserveScratchCounting(db, f.countingConfig())
		if err != nil {
			return facts, err
		}
		return countingFacts(info), nil
	}
	info, err := reserveScratch(db, f.bloomConfig())
	if err != nil {
		return facts, err
	}
	return bloomFacts(info), nil
}

// fits returns an error if the flags ask for another filter than the one there is. A TTL counts from the making and is
// not compared.
func (f *filterFlags) fits(key []byte, made filterFacts) error {
	if f.kindGiven && f.kind != made.kind {
		return exit.Refusef("the filter %q was made with --type %s, and keeps it: leave it out, or use another KEY", key, made.kind)
	}
	if f.rateGiven && f.rate != made.rate || f.capacityGiven && f.capacity != made.asked ||
		f.nonScalingGiven && f.nonScaling != made.nonScaling {
		return exit.Refusef("the filter %q was made with --capacity %d --error %g --non-scaling=%t, and keeps them: leave them out, or use another KEY",
			key, made.asked, made.rate, made.nonScaling)
	}
	if f.hash != "" && f.hash != made.hash {
		return exit.Refusef("the filter %q was made with --hash %s, and keeps it: leave it out, or use another KEY", key, made.hash)
	}
	return nil
}

// tell notes that a TTL does not change a filter that is there.
func (f *filterFlags) tell(notes io.Writer, key []byte) {
	if f.ttlGiven {
		fmt.Fprintf(notes, "note: the filter %q is there already and keeps its time to live: --ttl is for one that is made\n", key)
	}
}

// tellLowered notes that a filter that is made has a lower rate than the one asked for.
func (f *filterFlags) tellLowered(notes io.Writer) {
	if f.asked > f.rate {
		fmt.Fprintf(notes, "note: --error %g is lowered to %g, the highest rate of a filter\n", f.asked, f.rate)
	}
}
