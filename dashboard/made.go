package dashboard

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/scalableext"
)

// made says how the same filter is made, without items.
type made struct {
	Before  string // a command that has to come first, "" for none
	Command string // for kvshell's prompt and redis-cli
	Go      string
	Inexact bool // the filter was made otherwise, such as by an import, and this one is only like it

	bloom    bloomext.Config
	cuckoo   cuckooext.Config
	counting countingext.Config
}

// arguments are the words of a command.
type arguments []string

func (a *arguments) add(words ...any) {
	for _, w := range words {
		*a = append(*a, fmt.Sprint(w))
	}
}

// goFields are the fields of a Config in Go.
type goFields []string

func (g *goFields) add(name string, value any) { *g = append(*g, fmt.Sprintf("%s: %v", name, value)) }

func float(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func goCapacity(items uint64, rate float64) string {
	return fmt.Sprintf("sievekv.Capacity(%d, %s)", items, float(rate))
}

// madeBloom returns how a Bloom filter is made, where filters have a log of at most usual bytes unless they ask for another.
func madeBloom(i bloomext.Info, usual uint64) made {
	m := made{bloom: bloomext.Config{Capacity: i.Asked, ErrorRate: i.ErrorRate, Expansion: i.Expansion, NonScaling: i.Expansion == 0 && i.Window == 0 && i.Last == 0, Layout: i.Layout, Window: i.Window, Last: i.Last}}
	c := &m.bloom
	if i.Layout == scalableext.LayoutForeign || c.ErrorRate <= 0 || c.ErrorRate >= 1 || c.Capacity == 0 {
		m.Inexact = true
		return m
	}
	words := arguments{"BF.RESERVE", keyPlace, float(c.ErrorRate), fmt.Sprint(c.Capacity)}
	size, fields := goCapacity(c.Capacity, c.ErrorRate), goFields{}
	switch slices := slicesOf(i); {
	case i.Window != 0 || i.Last != 0:
		c.Expansion, c.Slices = 0, slices
		if i.Window != 0 {
			words.add("WINDOW", float(i.Window.Seconds()))
			size = fmt.Sprintf("sievekv.Window(%s, %d, %s)", goDuration(i.Window), c.Capacity, float(c.ErrorRate))
		} else {
			words.add("LAST", i.Last)
			size = fmt.Sprintf("sievekv.Last(%d, %s)", i.Last, float(c.ErrorRate))
		}
		if slices != 0 {
			words.add("SLICES", slices)
			fields.add("Slices", slices)
		}
	case c.NonScaling:
		words.add("NONSCALING")
		fields.add("NonScaling", true)
	case i.GrowthLog != 0:
		c.Expansion, c.GrowthLog = 0, int64(i.GrowthLog)
		if i.GrowthLog != usual {
			words.add("GROWTHLOG", i.GrowthLog)
			fields.add("GrowthLog", i.GrowthLog)
		}
	default:
		words.add("EXPANSION", i.Expansion)
		fields.add("Expansion", i.Expansion)
	}
	m.finish(words, size, fields, "bf-layout", "Bloom", i.Hash, i.Layout)
	return m
}

// slicesOf returns into how many slices a window is divided, 0 for the default and if it is not known.
func slicesOf(i bloomext.Info) (n int) {
	switch {
	case i.Window != 0 && len(i.Slices) > 0:
		turn := i.Slices[0].ExpiresAt.Sub(i.Slices[0].Begun) - i.Window
		n = int(math.Round(float64(i.Window) / float64(max(turn, 1))))
	case i.Last != 0 && len(i.Layers) > 0:
		n = int(math.Round(float64(i.Last) / float64(i.Layers[0].Capacity)))
	}
	if n == scalableext.DefaultSlices || n < scalableext.MinSlices || n > scalableext.MaxSlices {
		return 0
	}
	return n
}

func madeCuckoo(i cuckooext.Info) made {
	m := made{cuckoo: cuckooext.Config{Capacity: i.Asked, BucketSize: i.BucketSize, MaxIterations: i.MaxIterations, Expansion: i.Expansion, NonScaling: i.Expansion == 0, Layout: i.Layout}}
	words := arguments{"CF.RESERVE", keyPlace, fmt.Sprint(i.Asked)}
	words.add("BUCKETSIZE", i.BucketSize, "MAXITERATIONS", i.MaxIterations, "EXPANSION", i.Expansion)
	fields := goFields{}
	fields.add("BucketSize", i.BucketSize)
	fields.add("MaxIterations", i.MaxIterations)
	if i.Expansion == 0 {
		fields.add("NonScaling", true)
	} else {
		fields.add("Expansion", i.Expansion)
	}
	// Without a rate asked for the fingerprints have 12 bits, and the rate is the rate of 32 layers.
	if unrated, err := m.cuckoo.Planned(1); i.Layout == scalableext.LayoutNative && (err != nil || unrated.ErrorRate != i.ErrorRate || unrated.FingerprintBits != i.FingerprintBits) {
		m.cuckoo.ErrorRate = i.ErrorRate
		words.add("ERROR", float(i.ErrorRate))
	}
	m.finish(words, goCapacity(i.Asked, m.cuckoo.ErrorRate), fields, "cf-layout", "Cuckoo", i.Hash, i.Layout)
	return m
}

func madeCounting(i countingext.Info) made {
	capacity := uint64(0)
	if len(i.Layers) > 0 {
		capacity = i.Layers[0].Capacity
	}
	m := made{counting: countingext.Config{Capacity: capacity, ErrorRate: i.ErrorRate, Expansion: i.Expansion, NonScaling: i.Expansion == 0}}
	words := arguments{"CBF.RESERVE", keyPlace, float(i.ErrorRate), fmt.Sprint(capacity)}
	fields := goFields{}
	if i.Expansion == 0 {
		words.add("NONSCALING")
		fields.add("NonScaling", true)
	} else {
		words.add("EXPANSION", i.Expansion)
		fields.add("Expansion", i.Expansion)
	}
	m.finish(words, goCapacity(capacity, i.ErrorRate), fields, "", "Counting", i.Hash, scalableext.LayoutNative)
	return m
}

// keyPlace stands for the key, which only a page knows.
const keyPlace = "\x00"

func (m *made) finish(words arguments, size string, fields goFields, setting, handle string, kind hash.Kind, layout scalableext.Layout) {
	if kind == hash.XXH64 {
		words.add("HASH", "XXH64")
		fields.add("Hash", "sievekv.HashXXH64")
		m.bloom.Hash, m.cuckoo.Hash, m.counting.Hash = kind, kind, kind
	}
	if layout == scalableext.LayoutCompatible {
		m.Before = "CONFIG SET " + setting + " compatible"
		fields.add("Layout", "sievekv.LayoutCompatible")
	}
	m.Command = strings.Join(words, " ")
	config := "nil"
	if len(fields) > 0 {
		config = fmt.Sprintf("&sievekv.%sConfig{\n\t%s,\n}", handle, strings.Join(fields, ",\n\t"))
	}
	m.Go = fmt.Sprintf("err := db.%s(%s).OpenOrReserve(%s, %s)", handle, keyPlace, size, config)
}

// named returns how the filter is made under a key.
func (m made) named(key string) made {
	m.Command = strings.Replace(m.Command, keyPlace, word(key), 1)
	m.Go = strings.Replace(m.Go, keyPlace, strconv.Quote(key), 1)
	return m
}

// goDuration shows a duration as Go code.
func goDuration(d time.Duration) string {
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{time.Hour, "time.Hour"}, {time.Minute, "time.Minute"}, {time.Second, "time.Second"}} {
		if d%unit.of == 0 {
			return fmt.Sprintf("%d*%s", d/unit.of, unit.name)
		}
	}
	return fmt.Sprintf("%d*time.Millisecond", d.Milliseconds())
}
