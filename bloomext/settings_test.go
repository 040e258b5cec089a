package bloomext_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// A program chooses the log of the filters of a store when it opens it.
func TestModuleWith(t *testing.T) {
	for asked, want := range map[int64]uint64{0: 64 << 20, -1: 0, 1000: 1000} {
		db := open(t, "", &kv.Options{InMemory: true, Modules: coreext.With(bloomext.ModuleWith(bloomext.Options{GrowthLog: asked}))})
		for _, own := range []int64{0, -1, 5000} {
			c := bloomext.Config{Capacity: 100, ErrorRate: 0.01, GrowthLog: own}
			f := bloomext.New(db, fmt.Sprint(own))
			if err := f.Reserve(c); err != nil {
				t.Fatal(err)
			}
			should := want
			if own != 0 {
				should = uint64(max(0, own))
			}
			if info, err := f.Info(); err != nil || info.GrowthLog != should {
				t.Errorf("store with %d, filter with %d: a log of %d bytes, want %d: %v", asked, own, info.GrowthLog, should, err)
			}
		}
		layered := bloomext.New(db, "layered")
		if err := layered.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.01, Expansion: 2}); err != nil {
			t.Fatal(err)
		}
		if info, err := layered.Info(); err != nil || info.GrowthLog != 0 {
			t.Errorf("a filter with an expansion has a log of %d bytes: %v", info.GrowthLog, err)
		}
		closeDB(t, db)
	}
	c := bloomext.Config{Capacity: 100, ErrorRate: 0.01, GrowthLog: scalableext.MaxLogBytes + 1}
	db := open(t, "", nil)
	defer closeDB(t, db)
	if err := bloomext.New(db, "f").Reserve(c); !errors.Is(err, scalableext.ErrConfig) {
		t.Errorf("Reserve = %v", err)
	}
}

// Filters that a command makes have the settings' parameters, unless the command gives others.
func TestSettings(t *testing.T) {
	for name, script := range map[string]string{
		"as opened": `
CONFIG GET bf-* => ["bf-error-rate" "0.01" "bf-expansion-factor" "2" "bf-group" "" "bf-initial-size" "100" "bf-layout" "native"]
  | {"bf-error-rate" "0.01" "bf-expansion-factor" "2" "bf-group" "" "bf-initial-size" "100" "bf-layout" "native"}
BF.ADD f x => :1 | #t
BF.INFO f => [+Capacity :100 ... +Expansion rate :2] | {+Capacity :100 ... +Expansion rate :2}
BF.DEBUG f => ["size:1" "... capacity:100 ... ratio:0.009"]`,
		"capacity": `
CONFIG SET BF-INITIAL-SIZE 500 => +OK
BF.ADD a x => :1 | #t
BF.MADD b x => [:1] | [#t]
BF.INSERT c ITEMS x => [:1] | [#t]
BF.INSERT d CAPACITY 7 ITEMS x => [:1] | [#t]
BF.RESERVE e 0.01 9 => +OK
BF.INFO a CAPACITY => [:500] | {+Capacity :500}
BF.INFO b CAPACITY => [:500] | {+Capacity :500}
BF.INFO c CAPACITY => [:500] | {+Capacity :500}
BF.INFO d CAPACITY => [:7] | {+Capacity :7}
BF.INFO e CAPACITY => [:9] | {+Capacity :9}`,
		"capacity out of range": `
CONFIG SET bf-initial-size 0
  => -ERR CONFIG SET failed (possibly related to argument 'bf-initial-size') - argument must be between 1 and 1073741824 inclusive
CONFIG SET bf-initial-size 1073741825
  => -ERR CONFIG SET failed (possibly related to argument 'bf-initial-size') - argument must be between 1 and 1073741824 inclusive
CONFIG SET bf-initial-size 1e3
  => -ERR CONFIG SET failed (possibly related to argument 'bf-initial-size') - argument couldn't be parsed into an integer
CONFIG SET bf-initial-size 1073741824 => +OK
BF.ADD f x => :1 | #t
BF.INFO f CAPACITY => [:1073741824] | {+Capacity :1073741824}`,
		"error rate": `
CONFIG SET bf-error-rate 0.2 bf-expansion-factor 0 => +OK
BF.ADD a x => :1 | #t
BF.MADD b x => [:1] | [#t]
BF.INSERT c ITEMS x => [:1] | [#t]
BF.INSERT d ERROR 0.125 ITEMS x => [:1] | [#t]
BF.DEBUG a => ["size:1" "... ratio:0.2"]
BF.DEBUG b => ["size:1" "... ratio:0.2"]
BF.DEBUG c => ["size:1" "... ratio:0.2"]
BF.DEBUG d => ["size:1" "... ratio:0.125"]`,
		"error rate is capped": `
CONFIG SET bf-error-rate 0.9 bf-expansion-factor 0 => +OK
CONFIG GET bf-error-rate => ["bf-error-rate" "0.25"] | {"bf-error-rate" "0.25"}
BF.ADD a x => :1 | #t
BF.DEBUG a => ["size:1" "... ratio:0.25"]`,
		"error rate out of range": `
CONFIG SET bf-error-rate 0
  => -ERR CONFIG SET failed (possibly related to argument 'bf-error-rate') - argument must be above 0 and below 1
CONFIG SET bf-error-rate 1
  => -ERR CONFIG SET failed (possibly related to argument 'bf-error-rate') - argument must be above 0 and below 1
CONFIG SET bf-error-rate x
  => -ERR CONFIG SET failed (possibly related to argument 'bf-error-rate') - argument couldn't be parsed into a number
CONFIG GET bf-error-rate => ["bf-error-rate" "0.01"] | {"bf-error-rate" "0.01"}`,
		"expansion": `
CONFIG SET bf-expansion-factor 7 => +OK
BF.ADD a x => :1 | #t
BF.INSERT b ITEMS x => [:1] | [#t]
BF.RESERVE c 0.01 100 => +OK
BF.RESERVE d 0.01 100 EXPANSION 3 => +OK
BF.RESERVE e 0.01 100 NONSCALING => +OK
BF.INSERT g EXPANSION 3 ITEMS x => [:1] | [#t]
BF.INSERT h NONSCALING ITEMS x => [:1] | [#t]
BF.INFO a EXPANSION => [:7] | {+Expansion rate :7}
BF.INFO b EXPANSION => [:7] | {+Expansion rate :7}
BF.INFO c EXPANSION => [:7] | {+Expansion rate :7}
BF.INFO d EXPANSION => [:3] | {+Expansion rate :3}
BF.INFO e EXPANSION => [_] | {+Expansion rate _}
BF.INFO g EXPANSION => [:3] | {+Expansion rate :3}
BF.INFO h EXPANSION => [_] | {+Expansion rate _}`,
		"no expansion": `
CONFIG SET bf-expansion-factor 0 => +OK
BF.ADD a x => :1 | #t
BF.INSERT b ITEMS x => [:1] | [#t]
BF.RESERVE c 0.01 100 => +OK
BF.RESERVE d 0.01 100 EXPANSION 3 => +OK
BF.RESERVE e 0.01 100 NONSCALING => +OK
BF.INSERT g EXPANSION 3 ITEMS x => [:1] | [#t]
BF.INSERT h EXPANSION 3 NONSCALING ITEMS x => [:1] | [#t]
BF.INFO a EXPANSION => [_] | {+Expansion rate _}
BF.INFO b EXPANSION => [_] | {+Expansion rate _}
BF.INFO c EXPANSION => [_] | {+Expansion rate _}
BF.INFO d EXPANSION => [:3] | {+Expansion rate :3}
BF.INFO e EXPANSION => [_] | {+Expansion rate _}
BF.INFO g EXPANSION => [:3] | {+Expansion rate :3}
BF.INFO h EXPANSION => [_] | {+Expansion rate _}
BF.RESERVE i 0.01 100 GROWTHLOG 1000 => +OK
BF.RESERVE j 0.01 100 WINDOW 60 => +OK
BF.RESERVE k 0.01 100 LAST 100 => +OK
BF.RESERVE l 0.01 100 GROWTHLOG 0 => +OK
BF.INFO i EXPANSION => [:2] | {+Expansion rate :2}
BF.INFO j EXPANSION => [:2] | {+Expansion rate :2}
BF.INFO k EXPANSION => [_] | {+Expansion rate _}
BF.INFO l EXPANSION => [_] | {+Expansion rate _}`,
		"expansion out of range": `
CONFIG SET bf-expansion-factor -1
  => -ERR CONFIG SET failed (possibly related to argument 'bf-expansion-factor') - argument must be between 0 and 32768 inclusive
CONFIG SET bf-expansion-factor 32769
  => -ERR CONFIG SET failed (possibly related to argument 'bf-expansion-factor') - argument must be between 0 and 32768 inclusive
CONFIG SET bf-expansion-factor 32768 => +OK`,
		"module": `MODULE LIST => [["name" "bf" "ver" :20800 "path" "" "args" []]] | [{"name" "bf" "ver" :20800 "path" "" "args" []}]`,
	} {
		t.Run(name, func(t *testing.T) { newWorld(t, kv.Options{}).Script(script) })
	}
}
