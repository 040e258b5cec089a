package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/block"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a store with the service.
func open(t *testing.T, dir string) *kv.DB {
	t.Helper()
	return openWith(t, dir, bloomext.Module(), compaction.Module())
}

func openWith(t *testing.T, dir string, modules ...module.Module) *kv.DB {
	t.Helper()
	db, err := kv.Open(dir, &kv.Options{BallastSize: -1, Durability: kv.NoSync, CacheSize: 256 << 10, Modules: coreext.With(modules...)})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// await waits for done; if it never comes, the test hangs.
func await(done func() bool) {
	for !done() {
		time.Sleep(10 * time.Millisecond)
	}
}

// A block with many operands is folded after it was read, and its content stays.
func TestService_folds(t *testing.T) {
	const adds = 500
	dir := t.TempDir()
	db := open(t, dir)
	f := bloomext.New(db, "f")
	if err := f.Reserve(bloomext.Config{Capacity: 1000, ErrorRate: 0.01, NonScaling: true}); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(adds) {
		if _, err := f.With(kv.Always).Add(scalableext.Uint64(i)); err != nil { // an operand each
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	db = open(t, dir)
	f = bloomext.New(db, "f")
	check := func() {
		t.Helper()
		for i := range uint64(adds) {
			if ok, err := f.MayContain(scalableext.Uint64(i)); !ok || err != nil {
				t.Fatalf("item %d: MayContain = %v, %v, want true", i, ok, err)
			}
		}
	}
	check()
	await(func() bool { m, err := db.Metrics(); return err == nil && m.Folds > 0 })
	check()
	report, err := db.Check(t.Context())
	if err != nil || len(report.Problems)+len(report.Notes) > 0 {
		t.Errorf("Check = %+v, %v", report, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// The space of dropped filters is reclaimed, even if the store was closed in between.
func TestService_reclaims(t *testing.T) {
	dir := t.TempDir()
	db := openWith(t, dir, bloomext.Module()) // nothing is reclaimed before the store is closed
	const filters = 3
	items, added := make([]uint64, 4096), make([]bool, 4096)
	for n := range filters {
		f := bloomext.New(db, fmt.Sprint(n))
		if err := f.Reserve(bloomext.Config{Capacity: 1e6, ErrorRate: 0.01, NonScaling: true}); err != nil {
			t.Fatal(err)
		}
		for i := 0; i < 50_000; i += len(items) {
			for j := range items {
				items[j] = uint64(i + j)
			}
			if _, err := f.AddMany(scalableext.Uint64s(items...), added); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.CompactTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	full, err := db.DiskBytes()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Delete(kv.Always, []byte("0"), []byte("1"), []byte("2")); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, dir)
	await(func() bool { m, err := db.Metrics(); return err == nil && m.Reclaimed == filters })
	// Pebble compacts by itself what was reclaimed, but in a store without other writes nobody can say when.
	if err := db.CompactTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(func() bool {
		now, err := db.DiskBytes()
		if err != nil {
			t.Fatal(err)
		}
		return now < full/2
	})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// holding is a log handler that blocks the goroutine that logs a failed compaction.
type holding struct {
	slog.Handler
	told, release chan struct{}
	once          *sync.Once
}

func (h holding) Enabled(context.Context, slog.Level) bool { return true }

func (h holding) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "sievekv: compaction" {
		h.once.Do(func() { close(h.told) })
		<-h.release
	}
	return nil
}

// Closing the store waits for the service, whatever the service is doing.
func TestService_Stop(t *testing.T) {
	failing := &kv.Type{
		Name: "failing", Version: 1, Open: func(o *kv.Object) (any, error) { return o, nil },
		Compact: func(*kv.Writer, *kv.Object, int) (bool, error) { return false, errors.New("no") },
	}
	log := holding{slog.DiscardHandler, make(chan struct{}), make(chan struct{}), &sync.Once{}}
	db, err := kv.Open("", &kv.Options{
		InMemory: true, Logger: slog.New(log), Modules: coreext.With(module.Module{Name: "failing", Types: []*kv.Type{failing}}, compaction.Module()),
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Write(kv.NoSync, [][]byte{[]byte("k")}, func(w *kv.Writer) error {
		_, err := w.Create([]byte("k"), kv.Spec{Type: failing, Family: block.FamilyBits, Layers: []kv.LayerSpec{{Blocks: 1, Lines: 1}}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	db.QueueCompact([]byte("k"))
	<-log.told
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	await(func() bool { return len(closed) > 0 || waitsInStop() })
	if len(closed) > 0 {
		t.Error("the store was closed while its service was at work")
	}
	close(log.release)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// waitsInStop reports whether a goroutine waits in Stop.
func waitsInStop() bool {
	buf := make([]byte, 1<<20)
	for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "compaction.(*service).Stop(") && strings.Contains(stack, "sync.(*WaitGroup).Wait(") {
			return true
		}
	}
	return false
}
