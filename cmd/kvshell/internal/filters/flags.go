package filters

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
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/scalableext"
)

// Flags are flags of load and dedup: they say how the filter is made if it is missing.
type Flags struct {
	Kind       string
	Rate       float64
	Capacity   uint64
	NonScaling bool
	TTL        uint64        // seconds, 0 for none
	Hash       string        // "keyed" or "xxh64", "" for the default
	Group      string        // of filters that can be merged, "" for none
	Window     time.Duration // after which a filter forgets lines, 0 for never
	Slices     int           // into which Window is divided, 0 for the default
	MaxBytes   uint64        // the most bytes of a filter, 0 for the default; a flag of the program
	Layouts    Layouts       // flags of the program

	KindGiven, RateGiven, CapacityGiven, NonScalingGiven, TTLGiven, SlicesGiven bool

	asked float64 // the rate as it was given; Rate is lower if no filter has so high a rate

	Room uint64 // how many lines a new filter takes before it grows or is full; 0 before Check
}

// The flags of the program for the layouts of filters that are made, which have the names of the settings.
const (
	BloomLayoutFlag  = "bf-layout"
	CuckooLayoutFlag = "cf-layout"
)

// Layouts are the layouts of Bloom and cuckoo filters that are made.
type Layouts struct{ Bloom, Cuckoo scalableext.Layout }

// Check returns a usage error for the layout of cuckoo filters without an error rate, if that is the type.
func (l Layouts) Check(kind string) error {
	if kind == Cuckoo && l.Cuckoo != scalableext.LayoutNative {
		return exit.Usagef("--%s %v --type %s: must be native, the layout of the cuckoo filters of load and dedup", CuckooLayoutFlag, l.Cuckoo, kind)
	}
	return nil
}

// compatible reports whether the flags make a Bloom filter with the compatible layout.
func (f *Flags) compatible() bool {
	return f.Kind == Bloom && f.Layouts.Bloom == scalableext.LayoutCompatible
}

// Register adds the flags to a command.
func (f *Flags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.Kind, "type", Bloom, kindUsage)
	flags.Float64Var(&f.Rate, "error", 0.000001, "false-positive `RATE` of a filter that is made: the share of new lines taken for known ones")
	cliflags.CountVar(flags, &f.Capacity, "capacity", 1000000, "different `LINES`, such as 64k, 1M or 1e6, that a filter that is made has room for before it grows")
	flags.BoolVar(&f.NonScaling, "non-scaling", false, "make a filter that never grows: when it is full, the run ends")
	flags.StringVar(&f.Group, "group", "", "`NAME` of the group of a filter that is made: filters of one group can be merged (default none: it has a hash of its own)")
	cliflags.CountVar(flags, &f.TTL, "ttl", 0, "`SECONDS` that a filter that is made lives, from its making (default for ever)")
	flags.StringVar(&f.Hash, "hash", "", "hash of a filter that is made, `keyed|xxh64`; with xxh64 the filter can be built alike elsewhere, but lines can be chosen that collide (default keyed)")
	flags.Var((*cliflags.Span)(&f.Window), "window", "`TIME`, such as 24h or 7d, or in seconds without a unit, after which a filter that is made forgets lines that did not come again; --capacity is then for the lines of one TIME")
	cliflags.RangeVar(flags, &f.Slices, "slices", scalableext.MinSlices, scalableext.MaxSlices, fmt.Sprintf("`NUMBER` of slices of the --window, %d to %d: a line is forgotten at most TIME/NUMBER late (default %d)",
		scalableext.MinSlices, scalableext.MaxSlices, scalableext.DefaultSlices))
}

// Note remembers which flags were given. Only these are compared with a filter that exists.
func (f *Flags) Note(flags *pflag.FlagSet) {
	f.KindGiven = flags.Changed("type")
	f.RateGiven, f.CapacityGiven = flags.Changed("error"), flags.Changed("capacity")
	f.NonScalingGiven, f.TTLGiven, f.SlicesGiven = flags.Changed("non-scaling"), flags.Changed("ttl"), flags.Changed("slices")
}

// Check returns a usage error if no filter can be made by the flags. It needs no store.
func (f *Flags) Check() error {
	if f.TTLGiven && (f.TTL < 1 || f.TTL > scalableext.MaxTTL) {
		return exit.Usagef("--ttl %d: must be 1 to %d seconds", f.TTL, uint64(scalableext.MaxTTL))
	}
	if err := CheckKind(f.Kind); err != nil {
		return err
	}
	if _, ok := hash.ParseKind(f.Hash); !ok && f.Hash != "" {
		return exit.Usagef("--hash %s: must be keyed or xxh64", f.Hash)
	}
	if err := f.Layouts.Check(f.Kind); err != nil {
		return err
	}
	switch {
	case f.compatible() && f.Hash != "":
		return exit.Usagef("--hash %s --%s compatible: that layout has a hash of its own; the layout must be native", f.Hash, BloomLayoutFlag)
	case f.Group != "" && (f.compatible() || f.Kind == Cuckoo || f.Hash == hash.XXH64.String()):
		return exit.Usagef("--group %q: it is for Bloom filters of the native layout and counting Bloom filters, with the keyed hash", f.Group)
	case len(f.Group) > scalableext.MaxGroup:
		return exit.Usagef("--group of %d bytes: must have at most %d", len(f.Group), scalableext.MaxGroup)
	case f.compatible() && f.Window != 0:
		return exit.Usagef("--window %v --%s compatible: a filter that forgets must have the native layout", f.Window, BloomLayoutFlag)
	case f.Window != 0 && f.Kind != Bloom:
		return exit.Usagef("--window %v --type %s: only a Bloom filter forgets", f.Window, f.Kind)
	case f.Window != 0 && f.NonScaling:
		return exit.Usagef("--window %v --non-scaling: a filter that forgets has to grow", f.Window)
	case f.SlicesGiven && f.Window == 0:
		return exit.Usagef("--slices %d: only a filter with a --window has slices", f.Slices)
	}
	if f.Kind == Cuckoo && f.Rate == 0 {
		return exit.Usagef("--capacity %d --error 0: the error rate must be above 0 and below 1", f.Capacity)
	}
	rate, room, err := f.planned()
	if err != nil {
		return err
	}
	f.asked, f.Rate, f.Room = f.Rate, rate, room // a rate that is higher than any filter's was lowered
	return nil
}

// hashKind returns the hash that --hash names, or the default.
func (f *Flags) hashKind() hash.Kind {
	kind, _ := hash.ParseKind(f.Hash)
	return kind
}

// bloomConfig returns the Config of a Bloom filter, without its TTL.
func (f *Flags) bloomConfig() bloomext.Config {
	c := bloomext.Config{
		Capacity: f.Capacity, ErrorRate: f.Rate, NonScaling: f.NonScaling, Hash: f.hashKind(), Group: f.Group, Window: f.Window, Slices: f.Slices,
		Layout: f.Layouts.Bloom,
	}
	if !f.CapacityGiven { // many lines grow a filter with layers several times faster than one with a log
		c.GrowthLog = -1
	}
	return c
}

// cuckooConfig returns the Config of a cuckoo filter, without its TTL.
func (f *Flags) cuckooConfig() cuckooext.Config {
	return cuckooext.Config{Capacity: f.Capacity, ErrorRate: f.Rate, NonScaling: f.NonScaling, Hash: f.hashKind()}
}

// countingConfig returns the Config of a counting Bloom filter, without its TTL.
func (f *Flags) countingConfig() countingext.Config {
	return countingext.Config{Capacity: f.Capacity, ErrorRate: f.Rate, NonScaling: f.NonScaling, Hash: f.hashKind(), Group: f.Group}
}

// Life returns the TTL of a filter that is made, 0 for none.
func (f *Flags) Life() time.Duration { return time.Duration(f.TTL) * time.Second }

// planned returns the rate of a filter that the flags make and how many lines it has room for, or why it cannot be
// made.
func (f *Flags) planned() (rate float64, room uint64, err error) {
	switch f.Kind {
	case Cuckoo:
		info, err := PlannedCuckoo(f.cuckooConfig(), f.MaxBytes)
		return info.ErrorRate, info.Capacity, err
	case Counting:
		info, err := PlannedCounting(f.countingConfig(), f.MaxBytes)
		return info.ErrorRate, info.Capacity, err
	}
	info, err := PlannedBloom(f.bloomConfig(), f.MaxBytes)
	return info.ErrorRate, info.Capacity, err
}

// Fits returns an error if the flags do not fit the filter that exists. It does not compare the TTL, which counts
// from when the filter was made.
func (f *Flags) Fits(key []byte, made Facts) error {
	if f.KindGiven && f.Kind != made.Kind {
		return exit.Refusef("the filter %q was made with --type %s, and keeps it: leave it out, or use another KEY", key, made.Kind)
	}
	if f.RateGiven && f.Rate != made.Rate || f.CapacityGiven && f.Capacity != made.Asked ||
		f.NonScalingGiven && f.NonScaling != made.NonScaling {
		return exit.Refusef("the filter %q was made with --capacity %d --error %g --non-scaling=%t, and keeps them: leave them out, or use another KEY",
			key, made.Asked, made.Rate, made.NonScaling)
	}
	if f.Window != 0 && f.Window != made.Window {
		return exit.Refusef("the filter %q was made with %s, and keeps it: leave out --window %v, or use another KEY", key, made.forgets(), f.Window)
	}
	if f.Hash != "" && f.Hash != made.Hash {
		return exit.Refusef("the filter %q was made with --hash %s, and keeps it: leave it out, or use another KEY", key, made.Hash)
	}
	return nil
}

// Tell notes that --ttl, --group, --slices and --bf-layout do not change a filter that exists.
func (f *Flags) Tell(notes io.Writer, key []byte, made Facts) {
	if f.Layouts.Bloom == scalableext.LayoutCompatible && made.Kind == Bloom && made.Layout != f.Layouts.Bloom {
		fmt.Fprintf(notes, "note: the filter %q is there already and keeps the layout %v: --%s is for one that is made\n", key, made.Layout, BloomLayoutFlag)
	}
	if f.Group != "" {
		fmt.Fprintf(notes, "note: the filter %q is there already and keeps its group: --group is for one that is made\n", key)
	}
	if f.TTLGiven {
		fmt.Fprintf(notes, "note: the filter %q is there already and keeps its time to live: --ttl is for one that is made\n", key)
	}
	if f.SlicesGiven {
		fmt.Fprintf(notes, "note: the filter %q is there already and keeps its slices: --slices is for one that is made\n", key)
	}
}

// TellLowered notes that the filter that is made has a lower rate than --error.
func (f *Flags) TellLowered(notes io.Writer) {
	if f.asked > f.Rate {
		fmt.Fprintf(notes, "note: --error %g is lowered to %g, the highest rate of a filter\n", f.asked, f.Rate)
	}
}
