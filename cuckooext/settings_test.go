package cuckooext_test

import (
	"testing"

	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
)

// Filters that a command makes have the settings' parameters, unless the command gives others.
func TestSettings(t *testing.T) {
	for name, script := range map[string]string{
		"as opened": `
CONFIG GET cf-* => ["cf-bucket-size" "4" "cf-expansion-factor" "2" "cf-initial-size" "1024" "cf-layout" "native" "cf-max-expansions" "32" "cf-max-iterations" "20"]
  | {"cf-bucket-size" "4" "cf-expansion-factor" "2" "cf-initial-size" "1024" "cf-layout" "native" "cf-max-expansions" "32" "cf-max-iterations" "20"}
CF.ADD f x => :1 | #t
CF.DEBUG f => "bktsize:4 buckets:455 items:1 deletes:0 filters:1 max_iterations:20 expansion:2"`,
		"bucket size": `
CONFIG SET cf-bucket-size 8 => +OK
CF.ADD a x => :1 | #t
CF.ADDNX b x => :1 | #t
CF.INSERT c ITEMS x => [:1] | [#t]
CF.INSERTNX d ITEMS x => [:1]
CF.RESERVE e 100 => +OK
CF.RESERVE f 100 BUCKETSIZE 2 => +OK
CF.DEBUG a => "bktsize:8 ..."
CF.DEBUG b => "bktsize:8 ..."
CF.DEBUG c => "bktsize:8 ..."
CF.DEBUG d => "bktsize:8 ..."
CF.DEBUG e => "bktsize:8 ..."
CF.DEBUG f => "bktsize:2 ..."`,
		"bucket size out of range": `
CONFIG SET cf-bucket-size 0
  => -ERR CONFIG SET failed (possibly related to argument 'cf-bucket-size') - argument must be between 1 and 255 inclusive
CONFIG SET cf-bucket-size 256
  => -ERR CONFIG SET failed (possibly related to argument 'cf-bucket-size') - argument must be between 1 and 255 inclusive
CONFIG SET cf-bucket-size 255 => +OK`,
		"least capacity": `
CF.RESERVE a 3 => -Capacity must be in the range [2 * BUCKETSIZE, 1099511627776]
CONFIG SET cf-bucket-size 8 => +OK
CF.RESERVE a 15 => -Capacity must be in the range [2 * BUCKETSIZE, 1099511627776]
CF.INSERT a CAPACITY 15 ITEMS x => -Capacity must be in the range [cf-bucket-size * 2, 1099511627776]
CF.RESERVE a 16 => +OK
CF.RESERVE b 15 BUCKETSIZE 7 => +OK
CF.INSERT c CAPACITY 16 ITEMS x => [:1] | [#t]`,
		"capacity": `
CONFIG SET cf-initial-size 20000 => +OK
CF.ADD a x => :1 | #t
CF.ADDNX b x => :1 | #t
CF.INSERT c ITEMS x => [:1] | [#t]
CF.INSERTNX d ITEMS x => [:1]
CF.INSERT e CAPACITY 1000 ITEMS x => [:1] | [#t]
CF.DEBUG a => "bktsize:4 buckets:5600 ..."
CF.DEBUG b => "bktsize:4 buckets:5600 ..."
CF.DEBUG c => "bktsize:4 buckets:5600 ..."
CF.DEBUG d => "bktsize:4 buckets:5600 ..."
CF.DEBUG e => "bktsize:4 buckets:455 ..."`,
		"capacity out of range": `
CONFIG SET cf-initial-size 1073741825
  => -ERR CONFIG SET failed (possibly related to argument 'cf-initial-size') - argument must be between 1 and 1073741824 inclusive
CONFIG SET cf-initial-size 3
  => -ERR CONFIG SET failed (possibly related to argument 'cf-initial-size')
  - cf-initial-size must be between 4 and 1073741824 inclusive with a cf-bucket-size of 4
CONFIG SET cf-bucket-size 8 cf-initial-size 15
  => -ERR CONFIG SET failed (possibly related to argument 'cf-bucket-size')
  - cf-initial-size must be between 16 and 1073741824 inclusive with a cf-bucket-size of 8
CONFIG SET cf-bucket-size 8 cf-initial-size 16 => +OK
CONFIG SET cf-bucket-size 9
  => -ERR CONFIG SET failed (possibly related to argument 'cf-bucket-size')
  - cf-initial-size must be between 18 and 1073741824 inclusive with a cf-bucket-size of 9
CONFIG SET cf-initial-size 1073741824 => +OK`,
		"iterations": `
CONFIG SET cf-max-iterations 7 => +OK
CF.ADD a x => :1 | #t
CF.INSERT b ITEMS x => [:1] | [#t]
CF.RESERVE c 100 => +OK
CF.RESERVE d 100 MAXITERATIONS 5 => +OK
CF.DEBUG a => "... max_iterations:7 ..."
CF.DEBUG b => "... max_iterations:7 ..."
CF.DEBUG c => "... max_iterations:7 ..."
CF.DEBUG d => "... max_iterations:5 ..."
CONFIG SET cf-max-iterations 0
  => -ERR CONFIG SET failed (possibly related to argument 'cf-max-iterations') - argument must be between 1 and 65535 inclusive
CONFIG SET cf-max-iterations 65536
  => -ERR CONFIG SET failed (possibly related to argument 'cf-max-iterations') - argument must be between 1 and 65535 inclusive
CONFIG SET cf-max-iterations 65535 => +OK`,
		"expansion": `
CONFIG SET cf-expansion-factor 5 => +OK
CF.ADD a x => :1 | #t
CF.RESERVE b 100 => +OK
CF.RESERVE c 100 EXPANSION 4 => +OK
CF.DEBUG a => "... expansion:8"
CF.DEBUG b => "... expansion:8"
CF.DEBUG c => "... expansion:4"
CONFIG SET cf-expansion-factor 0 => +OK
CF.ADD d x => :1 | #t
CF.RESERVE e 100 => +OK
CF.RESERVE f 100 EXPANSION 4 => +OK
CF.DEBUG d => "... expansion:0"
CF.DEBUG e => "... expansion:0"
CF.DEBUG f => "... expansion:4"
CONFIG SET cf-expansion-factor -1
  => -ERR CONFIG SET failed (possibly related to argument 'cf-expansion-factor') - argument must be between 0 and 32768 inclusive
CONFIG SET cf-expansion-factor 32769
  => -ERR CONFIG SET failed (possibly related to argument 'cf-expansion-factor') - argument must be between 0 and 32768 inclusive`,
		"sub-filters out of range": `
CONFIG SET cf-max-expansions 0
  => -ERR CONFIG SET failed (possibly related to argument 'cf-max-expansions') - argument must be between 1 and 65536 inclusive
CONFIG SET cf-max-expansions 65537
  => -ERR CONFIG SET failed (possibly related to argument 'cf-max-expansions') - argument must be between 1 and 65536 inclusive
CONFIG SET cf-max-expansions 65536 => +OK`,
	} {
		t.Run(name, func(t *testing.T) { newWorld(t, kv.Options{}).Script(script) })
	}
}

// Growth ends at the setting, also for existing filters, and goes on when the setting is raised.
func TestSettings_layers(t *testing.T) {
	w := newWorld(t, kv.Options{})
	w.Script(`
CF.RESERVE f 1000 EXPANSION 1 => +OK
CONFIG SET cf-max-expansions 2 => +OK`)
	fillUp(w, "f")
	if info := infoOf(t, cuckooext.New(w.DB, "f")); len(info.Layers) != 2 || info.MaxLayers != 2 {
		t.Errorf("%d layers, at most %d, want 2 and 2", len(info.Layers), info.MaxLayers)
	}
	w.Script(`
CF.ADD f new => -Maximum expansions reached
CF.ADDNX f i1 => :0 | #f
CF.INSERT f ITEMS new => [:-1] | [#f]
CONFIG SET cf-max-expansions 3 => +OK
CF.ADD f new => :1 | #t`)
	if info := infoOf(t, cuckooext.New(w.DB, "f")); len(info.Layers) != 3 || info.MaxLayers != 3 {
		t.Errorf("%d layers, at most %d, want 3 and 3", len(info.Layers), info.MaxLayers)
	}
}
