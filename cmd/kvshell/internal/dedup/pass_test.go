package dedup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/crashpoint"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/filters"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/input"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
	"github.com/sievekv/sievekv/internal/kvtest"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// A loss of power at any of the points takes back any part of what was not synced, of the store and of OUT.
// Whatever is lost, the runs that follow leave the same OUT as a run without a crash.
func TestPass_powerLoss(t *testing.T) {
	const trials = 150
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	defer func() { crashpoint.Reached = func(string) {} }()
	survived := make(map[string]int) // crashes, by the point they were at
	missed := func() bool {          // there is a point at which none was
		points := []string{"begun", "synced", "committed", "written", "repeating", "finishing", "finished"}
		return slices.ContainsFunc(points, func(point string) bool { return survived[point] == 0 })
	}
	for trial := 0; trial < trials || missed(); trial++ {
		w := newWorld(t, rng, []kv.Durability{kv.Always, kv.EverySec, kv.NoSync}[trial%3])
		for range 1 + rng.IntN(4) {
			if point := w.runAndCrash(t); point != "" {
				survived[point]++
			}
		}
		w.run(t)
		got, err := os.ReadFile(w.out)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != w.want {
			t.Fatalf("trial %d, durability %s: OUT is\n%s\nwant\n%s\nafter %s", trial, w.level, got, w.want, strings.Join(w.log, ", "))
		}
		if cut, err := os.ReadFile(w.out + ".cut"); err == nil {
			t.Fatalf("trial %d, durability %s: %q were taken for somebody else's after %s", trial, w.level, cut, strings.Join(w.log, ", "))
		}
	}
}

// world is the disk: a store, an input, and OUT.
type world struct {
	rng        *rand.Rand
	level      kv.Durability
	capacity   uint64 // of the filter before it grows
	store      *kvtest.Disk
	input, out string
	want       string   // what OUT has in the end
	log        []string // what happened
}

func newWorld(t *testing.T, rng *rand.Rand, level kv.Durability) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{
		rng: rng, level: level, capacity: []uint64{7, 1000}[rng.IntN(2)], store: kvtest.NewDisk(),
		input: filepath.Join(dir, "input"), out: filepath.Join(dir, "out"),
	}
	var text strings.Builder
	for range rng.IntN(60) {
		fmt.Fprintf(&text, "line %d\n", rng.IntN(40))
	}
	before := strings.Repeat("was here\n", rng.IntN(3))
	w.want = before + firstLines(text.String())
	for name, content := range map[string]string{w.input: text.String(), w.out: before} {
		if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// runAndCrash runs dedup and replaces the disk by what a crash at a random point leaves of it. It returns
// the point, "" if the run was over before.
func (w *world) runAndCrash(t *testing.T) (point string) {
	t.Helper()
	left := w.rng.IntN(30)
	return w.runAndCrashWhen(t, func(string) bool { left--; return left == 0 })
}

// runAndCrashWhen is runAndCrash with the point where a function first says so.
func (w *world) runAndCrashWhen(t *testing.T, is func(point string) bool) (point string) {
	t.Helper()
	var store *kvtest.Disk
	var out []byte
	p, closePass := w.open(t)
	crashpoint.Reached = func(at string) {
		if point == "" && is(at) {
			point, store, out = at, w.crashStore(), w.crashOut(t, p.out, at)
		}
	}
	w.finish(t, p, closePass)
	crashpoint.Reached = func(string) {}
	w.log = append(w.log, "crash at "+point)
	if point == "" {
		return ""
	}
	w.store = store
	if err := os.WriteFile(w.out, out, 0o666); err != nil {
		t.Fatal(err)
	}
	return point
}

func (w *world) crashStore() *kvtest.Disk {
	percent := []int{0, 50, 100}[w.rng.IntN(3)]
	return w.store.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: w.rng})
}

// crashOut returns what a crash leaves of OUT: what is synced, some of the rest, and, while the record says
// where OUT ends, perhaps bytes nobody wrote.
func (w *world) crashOut(t *testing.T, o *outFile, point string) []byte {
	t.Helper()
	content, err := os.ReadFile(o.path)
	if err != nil {
		t.Fatal(err)
	}
	content = content[:o.synced+w.rng.Int64N(int64(len(content))-o.synced+1)]
	if point != "finished" {
		content = append(content, make([]byte, w.rng.IntN(20))...)
	}
	return content
}

func (w *world) run(t *testing.T) {
	t.Helper()
	p, closePass := w.open(t)
	w.finish(t, p, closePass)
}

func (w *world) finish(t *testing.T, p *Pass, closePass func()) {
	t.Helper()
	if err := p.run(context.Background()); err != nil {
		t.Fatalf("%v after %s", err, strings.Join(w.log, ", "))
	}
	closePass()
}

// open opens what a run needs; the function returned closes it.
func (w *world) open(t *testing.T) (*Pass, func()) {
	t.Helper()
	batch := 1 + w.rng.IntN(8)
	in, err := input.Open(t.Context(), w.input, nil, batch)
	if err != nil {
		t.Fatal(err)
	}
	out, err := openOutFile(w.out)
	if err != nil {
		t.Fatal(err)
	}
	db, err := kv.Open("store", &kv.Options{
		FS: w.store, Durability: w.level, BallastSize: -1, MinFreeSpace: -1, MemTableSize: 256 << 10,
		Logger: slog.New(slog.DiscardHandler), Modules: module.New(sievekv.Modules()...),
	})
	if err != nil {
		t.Fatalf("%v after %s", err, strings.Join(w.log, ", "))
	}
	p := &Pass{
		db: db, filter: filters.New(db, []byte("seen"), filters.Bloom), key: []byte("seen"), in: in, out: out, notes: io.Discard,
		flags: Flags{Flags: filters.Flags{Rate: 1e-6, Capacity: w.capacity}, batch: batch},
	}
	return p, func() {
		for _, err := range []error{in.Close(), out.close(), db.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// A filter that can grow no further ends the run with what it took in OUT, and with words of its own.
func TestPass_cannotGrow(t *testing.T) {
	dir := t.TempDir()
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	list := filepath.Join(dir, "input")
	if err := os.WriteFile(list, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	in, err := input.Open(t.Context(), list, nil, 16)
	if err != nil {
		t.Fatal(err)
	}
	out, err := openOutFile(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := kv.Open("", &kv.Options{
		InMemory: true, MaxFilterBytes: 1 << 10, Logger: slog.New(slog.DiscardHandler), Modules: module.New(sievekv.Modules()...),
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &Pass{
		db: db, filter: filters.New(db, []byte("seen"), filters.Bloom), key: []byte("seen"), in: in, out: out, notes: io.Discard,
		flags: Flags{Flags: filters.Flags{Rate: 1e-6, Capacity: 20}, batch: 16},
	}
	err = p.explain(p.run(context.Background()))
	info, infoErr := p.filter.Facts()
	if infoErr != nil {
		t.Fatal(infoErr)
	}
	for _, err := range []error{in.Close(), out.close(), db.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
	if info.Layers < 2 || info.Items != info.Capacity || info.Items >= 1000 {
		t.Errorf("the filter has %d layers and %d of %d lines", info.Layers, info.Items, info.Capacity)
	}
	want := fmt.Sprintf(`the filter "seen" has grown as far as it can. Of %s %d lines are done, %[2]d of them new; `,
		list, info.Items)
	if err == nil || !strings.HasPrefix(err.Error(), want) || exit.Code(err) != exit.Refused {
		t.Errorf("error is %v, exit code %d, want %s..., %d", err, exit.Code(err), want, exit.Refused)
	}
	content, err := os.ReadFile(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	lines := uint64(strings.Count(string(content), "\n"))
	if lines != info.Items || !strings.HasPrefix(text.String(), string(content)) {
		t.Errorf("OUT has %d lines, want the first %d of the input", lines, info.Items)
	}
}

// A filter whose time to live ends during a run ends the run with an error.
func TestPass_filterGone(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	db, err := kv.Open("", &kv.Options{InMemory: true, Modules: module.New(sievekv.Modules()...), Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	f := bloomext.New(db, "k")
	if err := f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.01, TTL: time.Second}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	p := &Pass{db: db, filter: filters.New(db, []byte("k"), filters.Bloom), key: []byte("k"), in: &input.Input{Name: "list"}, out: &outFile{path: "x"}, begun: true, started: 7}
	err = p.commit(kv.DurabilityDefault, func(w *kv.Writer) error { return p.setRecord(w, nil) })
	if !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("error is %v, want ErrNotFound", err)
	}
	if err := p.explain(err); !strings.Contains(err.Error(), "cut it to these (truncate -s 7 x)") {
		t.Errorf("the advice is %v", err)
	}
	if err := p.finish(); err != nil {
		t.Errorf("all was written, and the run ends with %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// A run that the version before began, without a claim on OUT, is finished, and claims OUT.
func TestPass_version1(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	defer func() { crashpoint.Reached = func(string) {} }()
	w := newWorld(t, rng, kv.Always)
	text := ""
	for i := range 60 {
		text += fmt.Sprintf("line %d\n", i%40)
	}
	before, err := os.ReadFile(w.out)
	if err == nil {
		err = os.WriteFile(w.input, []byte(text), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.want = string(before) + firstLines(text)
	crash := func() { // after a commit that is on stable storage
		committed := false
		is := func(at string) bool {
			committed = committed || at == "committed"
			return committed && at == "synced"
		}
		if w.runAndCrashWhen(t, is) == "" {
			t.Fatal("the run committed less than two batches")
		}
	}
	crash()
	claims := func(rewrite bool) (n int) {
		p, closePass := w.open(t)
		defer closePass()
		b, err := storedRecord(p.db, p.key)
		if err != nil {
			t.Fatal(err)
		}
		if rewrite {
			b = slices.Delete(b, recordFixed1, recordFixed)
			b[4] = 1
			err = p.commit(kv.Always, func(writer *kv.Writer) error {
				o, err := writer.Object(p.key)
				if err != nil {
					return err
				}
				writer.SetAttribute(o, recordAttribute, b)
				return dropClaim(writer, p.out.path)
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		n, err = p.db.Exists(claimKey(p.out.path))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := claims(true); n != 0 {
		t.Fatalf("%d claims are left", n)
	}
	crash()
	if n := claims(false); n != 1 {
		t.Errorf("%d claims on OUT, want 1", n)
	}
	w.run(t)
	got, err := os.ReadFile(w.out)
	if err != nil || string(got) != w.want {
		t.Errorf("OUT is\n%s\nwant\n%s, %v", got, w.want, err)
	}
}

// firstLines returns the lines of a text that are not a repeat, in order.
func firstLines(text string) string {
	var b strings.Builder
	seen := make(map[string]bool)
	for line := range strings.Lines(text) {
		if !seen[line] {
			b.WriteString(line)
		}
		seen[line] = true
	}
	return b.String()
}

// opened returns a run of a list to OUT that has its store in memory.
func opened(t *testing.T, lines, out string) (*Pass, *kv.DB) {
	t.Helper()
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte(lines), 0o666); err != nil {
		t.Fatal(err)
	}
	f := Flags{Flags: filters.Flags{Rate: 1e-6, Capacity: 20}, batch: 16, out: out}
	p, err := Open(t.Context(), "seen", list, nil, os.Stdout, tty.NewMessages(os.Stderr), f)
	if err != nil {
		t.Fatal(err)
	}
	db, err := kv.Open("", &kv.Options{InMemory: true, Logger: slog.New(slog.DiscardHandler), Modules: module.New(sievekv.Modules()...)})
	if err != nil {
		t.Fatal(err)
	}
	p.notes = io.Discard
	t.Cleanup(func() {
		if err := errors.Join(p.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return p, db
}

// A run that has waited for its store appends to what OUT has by then, and to the file that has its name by then.
func TestPass_waited(t *testing.T) {
	for name, change := range map[string]func(out string) error{
		"appended": func(out string) error { return os.WriteFile(out, []byte("first\nsecond\n"), 0o666) },
		"replaced": func(out string) error {
			return errors.Join(os.Rename(out, out+".1"), os.WriteFile(out, []byte("first\nsecond\n"), 0o666))
		},
	} {
		out := filepath.Join(t.TempDir(), "out")
		if err := os.WriteFile(out, []byte("first\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		p, db := opened(t, "third\n", out)
		if err := change(out); err != nil {
			t.Fatal(err)
		}
		if err := p.Run(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(out); string(got) != "first\nsecond\nthird\n" || err != nil {
			t.Errorf("%s: OUT is %q, %v", name, got, err)
		}
	}
}

// Two runs of two stores do not write to one OUT at a time, whether it was there or not.
func TestPass_twoStores(t *testing.T) {
	defer func() { crashpoint.Reached = func(string) {} }()
	for _, there := range []bool{false, true} {
		out := filepath.Join(t.TempDir(), "out")
		if there {
			if err := os.WriteFile(out, nil, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		first, firstDB := opened(t, "first\n", out)
		second, secondDB := opened(t, "second\n", out)
		var refused error
		crashpoint.Reached = func(point string) {
			if point == "begun" {
				crashpoint.Reached = func(string) {}
				refused = second.Run(t.Context(), secondDB)
			}
		}
		if err := first.Run(t.Context(), firstDB); err != nil {
			t.Fatal(err)
		}
		if exit.Code(refused) != exit.Local {
			t.Errorf("a second run to OUT: %v", refused)
		}
		if got, err := os.ReadFile(out); string(got) != "first\n" || err != nil {
			t.Errorf("OUT is %q, %v", got, err)
		}
	}
}
