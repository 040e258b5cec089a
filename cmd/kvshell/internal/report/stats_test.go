package report

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/cmdline"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

func statsStore(t *testing.T) *kv.DB {
	t.Helper()
	db, err := kv.Open(t.TempDir(), &kv.Options{
		BallastSize: -1, Logger: slog.New(slog.DiscardHandler), Modules: module.New(sievekv.Modules()...),
	})
	return closedAtTheEnd(t, db, err)
}

// The figures are the store's, and in JSON all of them are numbers.
func TestStoreStats(t *testing.T) {
	db := statsStore(t)
	f := bloomext.New(db, "seen")
	if err := f.Reserve(bloomext.Config{Capacity: 1e6, ErrorRate: 0.01}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Add([]byte("x")); err != nil {
		t.Fatal(err)
	}
	var s *storeStats
	for s == nil || s.Cache.UsedBytes == 0 { // the cache counts some time after it has taken a block, if it does
		if _, err := f.MayContain([]byte("x")); err != nil {
			t.Fatal(err)
		}
		s = statsOf(t, db).(*storeStats)
	}
	if s.Keys != 1 || s.Durability != "always" || s.Commits < 2 || s.Syncs < 2 || s.DiskBytes == 0 || s.Pebble.LogBytesWritten == 0 ||
		s.Cache.BudgetBytes != 256<<20 || s.Pebble.MemtableBytes == 0 {
		t.Errorf("%+v", s)
	}
	var object map[string]any
	if err := json.Unmarshal(reply.AppendJSON(nil, replyTo(t, db, "SIEVE.STATS")), &object); err != nil {
		t.Fatal(err)
	}
	checkNumbers(t, "", object)
}

// statsOf returns figures of the store, or of a key.
func statsOf(t *testing.T, db *kv.DB, key ...string) Result {
	t.Helper()
	r := replyTo(t, db, strings.Join(append([]string{"SIEVE.STATS"}, key...), " "))
	if len(key) > 0 {
		r = r.Elems()[0]
	}
	stats, err := Stats(r, len(key) > 0)
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

func checkNumbers(t *testing.T, path string, object map[string]any) {
	t.Helper()
	for name, value := range object {
		switch value := value.(type) {
		case map[string]any:
			checkNumbers(t, path+name+".", value)
		case float64:
		default:
			if path != "" || name != "directory" && name != "durability" {
				t.Errorf("%s%s is %v", path, name, value)
			}
		}
	}
}

// The layers of a filter add up to what is said of the whole.
func TestKeyStats(t *testing.T) {
	db := statsStore(t)
	f := bloomext.New(db, "seen")
	if err := f.Reserve(bloomext.Config{Capacity: 10, ErrorRate: 0.01, GrowthLog: -1}); err != nil {
		t.Fatal(err)
	}
	items := make([]string, 100)
	for i := range items {
		items[i] = fmt.Sprint(i + 1)
	}
	if _, err := f.AddMany(scalableext.BytesOfAll(items), make([]bool, len(items))); err != nil {
		t.Fatal(err)
	}
	if _, err := f.MayContain([]byte("absent")); err != nil { // brings blocks into memory
		t.Fatal(err)
	}
	s := statsOf(t, db, "seen").(*keyStats)
	var capacity, added, bits uint64
	var ones, rate float64
	for _, l := range s.bloom.Layers {
		capacity, added, bits = capacity+l.Capacity, added+l.Items, bits+l.Bits
		ones, rate = ones+l.Fill*float64(l.Bits), rate+l.ErrorRate
	}
	if len(s.bloom.Layers) != 4 || capacity != s.bloom.Capacity || added != s.bloom.Items || bits != 8*s.Bytes || rate > s.bloom.ErrorRate ||
		ones/float64(bits)-s.bloom.Fill > 1e-9 || s.bloom.Fill-ones/float64(bits) > 1e-9 {
		t.Errorf("%+v of %+v", s.bloom, s)
	}
	if s.ResidentBytes == 0 || s.bloom.ExpectedRate <= 0 || s.bloom.ExpectedRate > s.bloom.ErrorRate || s.Type != "MBbloom--" {
		t.Errorf("%+v", s)
	}
	if _, err := Stats(reply.Map(reply.Field("keys", reply.BulkString("x"))), false); err == nil {
		t.Error("a figure that is no number is taken")
	}
}

// An empty filter has an error rate of 0, without a sign.
func TestKeyStats_empty(t *testing.T) {
	db := statsStore(t)
	for _, line := range []string{"BF.RESERVE b 0.01 100", "CF.RESERVE c 100", "CBF.RESERVE n 0.01 100"} {
		replyTo(t, db, line)
		key := strings.Fields(line)[1]
		text := statsOf(t, db, key).Text()
		if !strings.Contains(text, " 0 expected now") {
			t.Errorf("stats of %s: %s", key, text)
		}
		data := string(reply.AppendJSON(nil, replyTo(t, db, "SIEVE.STATS "+key)))
		if !strings.Contains(data, `"expected_rate":0,`) {
			t.Errorf("stats of %s: %s", key, data)
		}
	}
}

func replyTo(t *testing.T, db *kv.DB, line string) reply.Reply {
	t.Helper()
	r := module.NewSession(db).Do(context.Background(), cmdline.Words(strings.Fields(line)...))
	if r.IsError() {
		t.Fatalf("%s: %s", line, r)
	}
	return r
}
