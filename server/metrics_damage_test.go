package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv"
)

// flipTables flips a bit in the middle of each table of a store.
func flipTables(t *testing.T, disk vfs.FS) {
	t.Helper()
	names, err := disk.List("store")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		f, err := disk.OpenReadWrite("store/"+name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(f)
		data[len(data)/2] ^= 1
		_, werr := f.WriteAt(data, 0)
		if err := errors.Join(err, werr, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// A store in which damage was met takes reads and writes all the same. /readyz, the metrics and INFO say what was met.
func TestMetrics_damage(t *testing.T) {
	disk := vfs.NewMem()
	o := kv.Options{FS: disk, BallastSize: -1, StringCacheSize: -1, Logger: slog.New(slog.DiscardHandler)}
	db, err := kv.Open("store", &o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if _, err := db.Set(kv.NoSync, fmt.Append(nil, i), bytes.Repeat([]byte{'v'}, 500), kv.SetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.CompactTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	flipTables(t, disk)
	w := serveStore(t, o, nil)
	get := func(path string) string {
		r := httptest.NewRecorder()
		w.server.MetricsHandler(nil).ServeHTTP(r, httptest.NewRequest("GET", "http://localhost"+path, nil))
		if r.Code != 200 {
			t.Errorf("%s: %d", path, r.Code)
		}
		return r.Body.String()
	}
	if got := get("/readyz"); got != "ok\n" {
		t.Errorf("/readyz before damage is met: %q", got)
	}
	failed := 0
	for i := range 200 {
		if _, err := w.db.Get(fmt.Sprint(i)); err != nil {
			failed++
		}
	}
	if got := get("/readyz"); failed == 0 || !strings.HasPrefix(got, "ok, but damaged: reads of 1 block") {
		t.Errorf("%d reads have failed, /readyz: %q", failed, got)
	}
	reads := fmt.Sprint(failed)
	if a, b := w.client().info("pebble", "damaged_blocks"), w.client().info("pebble", "damaged_reads"); a != "1" || b != reads {
		t.Errorf("%s reads have failed, INFO: %q blocks, %q reads", reads, a, b)
	}
	if got := get("/metrics"); !strings.Contains(got, "\nsievekv_damaged_blocks 1\n") || !strings.Contains(got, "\nsievekv_damaged_reads_total "+reads+"\n") {
		t.Errorf("%s reads have failed:\n%s", reads, got)
	}
}
