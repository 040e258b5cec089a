package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/reply"
)

func statsStore(t *testing.T) *kv.DB {
	t.Helper()
	db, err := kv.Open(t.TempDir(), &kv.Options{
		BallastSize: -1, Logger: slog.New(slog.DiscardHandler), Modules: modules(),
	})
	return closedAtEnd(t, db, err)
}

// The figures are those of the store, and in JSON all of them are numbers.
func TestStoreStats(t *testing.T) {
	db := statsStore(t)
	f := bloomext.New(db, "seen")
	if err := f.Reserve(bloomext.Config{Capacity: 1e6, ErrorRate: 0.01}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.AddString("x"); err != nil {
		t.Fatal(err)
	}
	s := new(storeStats)
	for s.Cache.UsedBytes == 0 { // the cache counts some time after it has taken a block, if it does
		if _, err := f.MayContainString("x"); err != nil {
			t.Fatal(err)
		}
		var err error
		if s, err = storeStatsOf(context.Background(), db); err != nil {
			t.Fatal(err)
		}
	}
	if s.Keys != 1 || s.Durability != "always" || s.Commits < 2 || s.Syncs < 2 || s.DiskBytes == 0 || s.Pebble.LogBytesWritten == 0 ||
		s.Cache.BudgetBytes != 256<<20 || s.Pebble.MemtableBytes == 0 {
		t.Errorf("%+v", s)
	}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(b, &object); err != nil {
		t.Fatal(err)
	}
	checkNumbers(t, "", object)
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

// A field that INFO does not have, or has otherwise, is an error and not a zero.
func TestStoreStats_info(t *testing.T) {
	db := statsStore(t)
	full := string(db.NewSession().Do(context.Background(), [][]byte{[]byte("INFO")}).Bytes())
	if err := (&storeStats{}).addInfo(reply.Verbatim(full)); err != nil {
		t.Error(err)
	}
	for _, r := range []reply.Reply{
		reply.Verbatim(strings.Replace(full, "\r\ncommits:", "\r\nother:", 1)),
		reply.Verbatim(strings.Replace(full, "\r\ncommits:", "\r\ncommits:x", 1)),
	} {
		if err := (&storeStats{}).addInfo(r); err == nil || !strings.Contains(err.Error(), "field commits") {
			t.Errorf("error %v", err)
		}
	}
	if err := (&storeStats{}).addInfo(reply.Error("ERR gone")); err == nil || err.Error() != "ERR gone" {
		t.Errorf("error %v", err)
	}
}

// The layers of a filter add up to what is said of the whole.
func TestKeyStats(t *testing.T) {
	db := statsStore(t)
	f := bloomext.New(db, "seen")
	if err := f.Reserve(bloomext.Config{Capacity: 10, ErrorRate: 0.01}); err != nil {
		t.Fatal(err)
	}
	items := strings.Fields(numbers(1, 100))
	if _, err := f.AddManyString(items, make([]bool, len(items))); err != nil {
		t.Fatal(err)
	}
	if _, err := f.MayContainString("absent"); err != nil { // brings blocks into memory
		t.Fatal(err)
	}
	s, err := keyStatsOf(db, "seen")
	if err != nil {
		t.Fatal(err)
	}
	var capacity, added, bits uint64
	var ones, rate float64
	for _, l := range s.Layers {
		capacity, added, bits = capacity+l.Capacity, added+l.Items, bits+l.Bits
		ones, rate = ones+l.Fill*float64(l.Bits), rate+l.ErrorRate
	}
	if len(s.Layers) != 4 || capacity != s.Capacity || added != s.Items || bits != 8*s.Bytes || rate > s.ErrorRate ||
		ones/float64(bits)-s.Fill > 1e-9 || s.Fill-ones/float64(bits) > 1e-9 {
		t.Errorf("%+v of %+v", s.filterStats, s)
	}
	if s.ResidentBytes == 0 || s.ExpectedRate <= 0 || s.ExpectedRate > s.ErrorRate || s.Type != "MBbloom--" {
		t.Errorf("%+v", s)
	}
	if _, err := keyStatsOf(db, "absent"); exitCode(err) != exitError || !strings.Contains(err.Error(), `"absent"`) {
		t.Errorf("error %v", err)
	}
}
