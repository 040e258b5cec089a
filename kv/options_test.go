package kv

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/internal/format"
)

// typedModules are modules that have nothing but types.
type typedModules map[string][]*Type

func (m typedModules) Types() (map[string][]*Type, error) { return m, nil }
func (typedModules) Attach(*DB) Running                   { return nil }

func TestOptions_types(t *testing.T) {
	open := func(*Object) (any, error) { return nil, nil }
	long := string(bytes.Repeat([]byte("n"), 65))
	for _, tt := range []struct {
		modules typedModules
		want    string
	}{
		{typedModules{"m": {{Name: "t", Open: open}, {Name: "t", Open: open}}}, `type "t" is registered twice`},
		{typedModules{"m": {{Name: "t", Open: open}}, "n": {{Name: "t", Open: open}}}, `type "t" is registered twice`},
		{typedModules{"m": {{Name: "t"}}}, `type "t": needs an Open`},
		{typedModules{"m": {{Name: format.StringType, Open: open, Value: func(Reader, *Object) ([]byte, error) { return nil, nil }}}}, `a Value and a Describe`},
		{typedModules{"m": {{Name: format.StringType, Open: open}}}, `a Value and a Describe`},
		{typedModules{"m": {{Open: open}}}, `type name ""`},
		{typedModules{"m": {{Name: long, Open: open}}}, `type name "nnn`},
		{typedModules{"": {{Name: "t", Open: open}}}, `module name ""`},
		{typedModules{long: {{Name: "t", Open: open}}}, `module name "nnn`},
	} {
		if _, err := Open("", &Options{InMemory: true, Modules: tt.modules}); !errors.Is(err, ErrOptions) || !bytes.Contains([]byte(err.Error()), []byte(tt.want)) {
			t.Errorf("Open = %v, want ErrOptions with %s", err, tt.want)
		}
	}
}

func TestOptions_allProblemsAtOnce(t *testing.T) {
	_, err := Open("unused", &Options{InMemory: true, CacheSize: 1, MemTableSize: 1, MaxFilterBytes: 1 << 63, Durability: 9, Modules: typedModules{"m": {{Name: "t"}}}})
	if !errors.Is(err, ErrOptions) {
		t.Fatalf("Open = %v, want ErrOptions", err)
	}
	for _, part := range []string{"CacheSize 1", "MemTableSize 1", "MaxFilterBytes 9223372036854775808", "Durability 9", `type "t": needs an Open`} {
		if !bytes.Contains([]byte(err.Error()), []byte(part)) {
			t.Errorf("error %q does not name %q", err, part)
		}
	}
}

// TestOptions_ranges has each option at both ends of its range and just beyond. Stores of such sizes are not opened.
func TestOptions_ranges(t *testing.T) {
	const kib, mib, gib, tib, pib = 1 << 10, 1 << 20, 1 << 30, 1 << 40, 1 << 50
	for _, c := range []struct {
		name      string
		low, high int64
		least     bool // nothing is below low
		set       func(o *Options, n int64)
	}{
		{"Memory", 16 * mib, tib, false, func(o *Options, n int64) { o.Memory = n }},
		{"CacheSize", 8 * kib, tib, false, func(o *Options, n int64) { o.CacheSize = n }},
		{"TableCacheSize", mib, tib, false, func(o *Options, n int64) { o.TableCacheSize = n }},
		{"MemTableSize", 256 * kib, gib, false, func(o *Options, n int64) { o.MemTableSize = int(n) }},
		{"BallastSize", math.MinInt64, pib, true, func(o *Options, n int64) { o.BallastSize = n }},
		{"MinFreeSpace", math.MinInt64, pib, true, func(o *Options, n int64) { o.MinFreeSpace = n }},
		{"FreeSpaceInterval", int64(time.Millisecond), int64(time.Hour), false, func(o *Options, n int64) { o.FreeSpaceInterval = time.Duration(n) }},
		{"MaxFilterBytes", 1, pib, true, func(o *Options, n int64) { o.MaxFilterBytes = uint64(n) }},
		{"Durability", 0, int64(NoSync), true, func(o *Options, n int64) { o.Durability = Durability(n) }},
	} {
		refused := func(n int64) error {
			o := &Options{}
			c.set(o, n)
			_, err := o.withDefaults()
			if err != nil && (!errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), fmt.Sprint(c.name, " "))) {
				t.Errorf("%s %d: %v", c.name, n, err)
			}
			return err
		}
		for _, n := range []int64{c.low, c.high} {
			if err := refused(n); err != nil {
				t.Errorf("%s %d: %v", c.name, n, err)
			}
		}
		if refused(c.high+1) == nil || !c.least && (refused(c.low-1) == nil || refused(-1) == nil) {
			t.Errorf("%s: a value out of range is taken", c.name)
		}
	}
	for cache, want := range map[int64]int64{
		0: 32 * mib, minCacheSize: 8 * mib, 16 * mib: 8 * mib, 40 * mib: 20 * mib, 64 * mib: 32 * mib, 256 * mib: 32 * mib, 512 * mib: 64 * mib,
	} {
		if o, err := (&Options{CacheSize: cache}).withDefaults(); err != nil || o.TableCacheSize != want {
			t.Errorf("with CacheSize %d, TableCacheSize is %d, %v, want %d", cache, o.TableCacheSize, err, want)
		}
	}
}

// TestOptions_memory has what budgets come of Memory: together they are it, and one that is given stays.
func TestOptions_memory(t *testing.T) {
	const mib = 1 << 20
	for memory := int64(minMemory); memory <= maxMemory; memory = memory*3/2 + 1 {
		o, err := (&Options{Memory: memory}).withDefaults()
		if err != nil {
			t.Fatalf("%d: %v", memory, err)
		}
		if got := o.Budget(); got > memory || got < memory-16 {
			t.Errorf("%d: the budgets come to %d", memory, got)
		}
		if o.MemTableSize > defaultMemTableSize || o.MemTableSize < 2*mib || o.CacheSize < 6*o.StringCacheSize {
			t.Errorf("%d: %+v", memory, o)
		}
	}
	for name, o := range map[string]Options{
		"all":     {Memory: 64 * mib, CacheSize: mib, TableCacheSize: 2 * mib, StringCacheSize: 3 * mib, MemTableSize: 4 * mib},
		"strings": {Memory: 64 * mib, StringCacheSize: -1},
	} {
		got, err := o.withDefaults()
		if err != nil || o.CacheSize != 0 && got.CacheSize != o.CacheSize || o.TableCacheSize != 0 && got.TableCacheSize != o.TableCacheSize ||
			got.StringCacheSize != o.StringCacheSize || o.MemTableSize != 0 && got.MemTableSize != o.MemTableSize {
			t.Errorf("%s: %+v of %+v, %v", name, got, o, err)
		}
	}
	o, err := (&Options{}).withDefaults()
	if err != nil || o.Budget() != (256+32+64+3*32)*mib || (Options{}).Budget() != o.Budget() {
		t.Errorf("defaults come to %d, %v", o.Budget(), err)
	}
}
