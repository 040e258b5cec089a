package tests_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/txn"
)

// No command panics or damages the store, whatever its words are. The input is a script,
// a command on each line, its words between blanks.
func FuzzCommands(f *testing.F) {
	opts := tinyOptions(vfs.NewMem())
	opts.Modules = coreext.With(bloomext.Module(), countingext.Module(), cuckooext.Module(), txn.Module())
	opts.Durability, opts.MaxFilterBytes = kv.NoSync, 1<<24
	db, err := kv.Open(storeDir, opts)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := db.Close(); err != nil {
			f.Error(err)
		}
	})
	for _, cmd := range module.Of(db).Commands() {
		f.Add([]byte(cmd.Example))
		f.Add([]byte(fmt.Sprintf("SET seen v\n%s\nBF.ADD user:1 x\nCF.ADD sessions x\nCBF.ADD online x\n%s", cmd.Example, cmd.Example)))
		f.Add([]byte(fmt.Sprintf("MULTI\n%s\n%s\nEXEC", cmd.Example, cmd.Example)))
	}
	f.Add([]byte("BF.RESERVE a 0x1p-3 9223372036854775807 EXPANSION 32768\nBF.INSERT a CAPACITY -1 ITEMS "))
	f.Add([]byte("SETRANGE a 536870911 x\nEXPIRE a 9223372036854775807\nGETRANGE a -3 9223372036854775807\nAPPEND a x\nSETRANGE a 536870912 x"))
	f.Add([]byte("SETBIT a 70000 1\nSETBIT a 4294967296 1\nBITFIELD a OVERFLOW SAT INCRBY i64 65530 -9223372036854775808 SET u63 #1040 -1 GET u1 65536\n" +
		"BITCOUNT a -9223372036854775808 9223372036854775807 BIT\nBITPOS a 0 -1 -9223372036854775808\nSIEVE.STREAK a 69999"))
	f.Add([]byte("SETBIT a 8191 1\nMULTI\nAPPEND a x\nSETBIT a 0 1\nSETBIT b 70000 1\nBITOP NOT a a b\nBITOP ONE a a b\nRENAME a b\nCOPY b a\n" +
		"EXEC\nBITOP DIFF1 a b a\nSIEVE.BITCOUNTOP XOR a b a\nGETDEL a\nINCR b"))
	f.Add([]byte("MULTI\nBF.MADD f a b c\nBF.MERGE g f\nRENAME g f\nCOPY f h\nFLUSHALL\nMSET a 1 b 2\nMULTI\nEXEC\nSCAN 18446744073709551615"))
	f.Add([]byte("CF.RESERVE a 2 BUCKETSIZE 1 EXPANSION 32768 MAXITERATIONS 65535 ERROR 1e-9\nCF.INSERT a ITEMS x x x x\nCF.COMPACT a"))
	f.Add([]byte("MULTI\nCF.RESERVE a 600 BUCKETSIZE 1 EXPANSION 1\nCF.INSERT a ITEMS x x y z\nCF.DEL a x\nCF.COMPACT a\nCOPY a b\nEXEC\nCF.COUNT b x"))
	f.Add([]byte("CF.RESERVE a 1099511627776 ERROR 0x1p-1\nCF.INSERTNX a CAPACITY 9223372036854775807 ITEMS \nCF.MEXISTS a  x\nCF.DEBUG a\nCF.INFO a ERROR"))
	f.Add([]byte("CBF.RESERVE a 0x1p-40 1 EXPANSION 32768 TTL 9\nCBF.INSERT a NOCREATE ITEMS x x y  z\nCBF.MDEL a x y y q\nCBF.COUNT a x"))
	f.Add([]byte("MULTI\nCBF.RESERVE a 0.25 1 NONSCALING\nCBF.MADD a x y\nCBF.DEL a x\nCBF.MERGE b a a\nCOPY a c\nEXEC\nCBF.INFO c STUCK"))
	f.Add([]byte("CBF.INSERT a CAPACITY 1099511627776 ERROR 1e-300 ITEMS \nCBF.MADD f x" + strings.Repeat(" x", 20) +
		"\nCBF.MDEL f" + strings.Repeat(" x", 20) + "\nCBF.INFO f\nCBF.DEBUG f\nCBF.CARD f\nCBF.MEXISTS f  x"))
	f.Add([]byte("CONFIG SET bf-error-rate 0x1p-3 bf-initial-size 1073741824 bf-expansion-factor 32768\nBF.ADD a x\nMEMORY USAGE a SAMPLES 0"))
	f.Add([]byte("CONFIG SET cf-initial-size 510 cf-bucket-size 255 cf-max-iterations 1 cf-expansion-factor 0 cf-max-expansions 1\n" +
		"CF.INSERT a ITEMS x y z\nMULTI\nMEMORY USAGE a SAMPLES 1\nOBJECT ENCODING a\nSIEVE.STATS a LIMIT\nSIEVE.STATS LIMIT 2\nEXEC"))
	f.Add([]byte("COMMAND GETKEYS COMMAND GETKEYS MSET a\nCOMMAND GETKEYS BF.MERGE a b\nCOMMAND LIST FILTERBY PATTERN [\nCOMMAND DOCS |\nCONFIG GET [a-\\"))
	back := [][]byte{[]byte("CONFIG"), []byte("SET")}
	for _, s := range module.Of(db).Settings() {
		if s.Check != nil {
			back = append(back, []byte(s.Name), []byte(s.Default))
		}
	}
	inputs := 0
	f.Fuzz(func(t *testing.T, script []byte) {
		s := module.NewSession(db)
		for line := range bytes.Lines(script) {
			s.Do(t.Context(), bytes.Split(bytes.TrimSuffix(line, []byte("\n")), []byte(" ")))
		}
		for _, line := range []string{"DISCARD", "UNWATCH"} {
			s.Do(t.Context(), [][]byte{[]byte(line)})
		}
		if r := s.Do(t.Context(), back); r.IsError() { // an input finds the settings as they are
			t.Error(r)
		}
		if inputs++; inputs%100 != 1 {
			return
		}
		report, err := db.Check(context.Background())
		if err != nil || len(report.Problems) > 0 {
			t.Errorf("Check = %v, %v", report.Problems, err)
		}
		if err := db.DeleteAll(kv.NoSync); err != nil {
			t.Error(err)
		}
	})
}
