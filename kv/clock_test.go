package kv_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// A board without a battery starts with a clock that is wrong. While that tells a time before 1970 no key has
// expired, none is stored in a form that cannot be read, and a sweep comes to an end.
func TestClock_before1970(t *testing.T) {
	now := time.UnixMilli(-5_000_000)
	o := &kv.Options{
		FS: vfs.NewMem(), BallastSize: -1, Durability: kv.NoSync, Modules: coreext.With(bloomext.Module()),
		Clock: func() time.Time { return now },
	}
	db, err := kv.Open("store", eitherWay(o))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	user := module.NewSession(db)
	run := func(script string) {
		t.Helper()
		for line := range strings.Lines(script) {
			command, want, _ := strings.Cut(strings.TrimSpace(line), " => ")
			var words [][]byte
			for _, word := range strings.Fields(command) {
				words = append(words, []byte(word))
			}
			if got := string(bytes.TrimSpace(reply.AppendJSON(nil, user.Do(context.Background(), words)))); got != want {
				t.Errorf("%s: %s, want %s", command, got, want)
			}
		}
	}
	run(`SET until v PXAT 60000 => "OK"
SET for v PX 5000 => "OK"
BF.RESERVE seen 0.01 100 => "OK"
PEXPIREAT seen 60000 => 1
BF.ADD seen a => true
BF.EXISTS seen a => true
GET until => "v"
GET for => "v"
EXISTS until for seen => 3
PTTL until => 60000
PTTL for => 5000
SET gone v PXAT 1 => "OK"
PEXPIREAT until 0 => 1
PEXPIRE for -1 => 1
EXISTS until for => 0`)
	if more, err := db.Sweep(context.Background()); more || err != nil {
		t.Errorf("a sweep with nothing to remove: more %t, error %v", more, err)
	}
	report, err := db.Check(context.Background())
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("check: %v, %v", report.Problems, err)
	}
	now = time.UnixMilli(60_000)
	run("EXISTS seen gone => 0")
	sweepAll(t, db)
	if n := db.ExpiredKeys(); n != 2 {
		t.Errorf("%d keys were removed, want 2", n)
	}
}
