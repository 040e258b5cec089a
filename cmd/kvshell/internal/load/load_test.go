package load

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/crashpoint"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/input"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/progress"
	"github.com/sievekv/sievekv/internal/kvtest"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
)

// loadWorld is a disk with a store on it, and an input of lines 1 to lines.
type loadWorld struct {
	disk   *kvtest.Disk
	synced *kvtest.Disk // what of it was on stable storage when the last run had ended, before the store was closed
	level  kv.Durability
	input  string
}

func newLoadWorld(t *testing.T, lines int, level kv.Durability) *loadWorld {
	t.Helper()
	list := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(list, []byte(numberLines(1, lines)), 0o666); err != nil {
		t.Fatal(err)
	}
	return &loadWorld{disk: kvtest.NewDisk(), level: level, input: list}
}

// numberLines returns lines that are the numbers from one to another.
func numberLines(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

func (w *loadWorld) open(t *testing.T) *kv.DB {
	t.Helper()
	db, err := kv.Open("store", &kv.Options{
		FS: w.disk, BallastSize: -1, MinFreeSpace: -1, MemTableSize: 256 << 10,
		Logger: slog.New(slog.DiscardHandler), Modules: module.New(sievekv.Modules()...),
	})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// run loads the input into the key "seen" and returns the run, which is over, and its error as it is told.
func (w *loadWorld) run(t *testing.T, ctx context.Context, f Flags) (l *Loading, err error) {
	t.Helper()
	w.use(t, func(db *kv.DB) {
		f.Rate, f.Capacity = 1e-6, 1000
		in, openErr := input.Open(t.Context(), w.input, nil, f.Batch)
		if openErr != nil {
			t.Fatal(openErr)
		}
		l = New(db, []byte("seen"), in, f)
		l.Level = w.level
		err = l.explain(l.run(ctx))
		w.synced = w.disk.CrashClone(vfs.CrashCloneCfg{})
		if closed := in.Close(); closed != nil {
			t.Error(closed)
		}
	})
	return l, err
}

func (w *loadWorld) use(t *testing.T, do func(*kv.DB)) {
	t.Helper()
	db := w.open(t)
	do(db)
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// loaded returns up to which line the filter under the key "seen" has the input, and fails if that is not all it has.
func (w *loadWorld) loaded(t *testing.T) (n int) {
	t.Helper()
	w.use(t, func(db *kv.DB) {
		f := bloomext.New(db, "seen")
		info, err := f.Info()
		if errors.Is(err, kv.ErrNotFound) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		n = int(info.Items)
		for i := 1; i <= n; i++ {
			if present, err := f.MayContain([]byte(fmt.Sprint(i))); err != nil || !present {
				t.Fatalf("of %d lines, line %d is not there: %v", n, i, err)
			}
		}
	})
	return n
}

func (w *loadWorld) keys(t *testing.T) (n uint64) {
	t.Helper()
	w.use(t, func(db *kv.DB) {
		var err error
		if n, err = db.Size(); err != nil {
			t.Fatal(err)
		}
	})
	return n
}

// atPoint has something done when a run reaches a point for the n-th time.
func atPoint(t *testing.T, where string, n int, do func()) {
	t.Helper()
	crashpoint.Reached = func(point string) {
		if point == where {
			if n--; n == 0 {
				do()
			}
		}
	}
	t.Cleanup(func() { crashpoint.Reached = func(string) {} })
}

// A loss of power leaves the lines of whole commits, from the beginning on; the same run again adds the rest. What a
// run counted as done when it ended is there.
func TestLoading_powerLoss(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const lines, batch = 95, 10
	for _, level := range []kv.Durability{kv.Always, kv.EverySec, kv.NoSync} {
		for n := 1; n <= lines/batch+1; n += 3 {
			t.Run(fmt.Sprintf("%s, commit %d", level, n), func(t *testing.T) {
				w := newLoadWorld(t, lines, level)
				var crashed *kvtest.Disk
				atPoint(t, "loaded", n, func() {
					crashed = w.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
				})
				if _, err := w.run(t, context.Background(), Flags{Batch: batch}); err != nil {
					t.Fatal(err)
				}
				ended := w.synced
				w.disk = crashed
				got := w.loaded(t)
				if got > min(n*batch, lines) || got%batch != 0 && got != lines || level == kv.Always && got < min(n*batch, lines) {
					t.Errorf("%d lines after a crash behind commit %d", got, n)
				}
				if _, err := w.run(t, context.Background(), Flags{Batch: batch}); err != nil {
					t.Fatal(err)
				}
				if got := w.loaded(t); got != lines {
					t.Errorf("%d lines in the end, want %d", got, lines)
				}
				w.disk = ended
				if got := w.loaded(t); got != lines {
					t.Errorf("%d lines after a crash behind the end, want %d", got, lines)
				}
			})
		}
	}
}

// An interrupted run says from where to go on, and what is before that is on stable storage.
func TestLoading_interrupted(t *testing.T) {
	w := newLoadWorld(t, 95, kv.NoSync)
	for _, skip := range []int{0, 30} {
		ctx, cancel := context.WithCancel(context.Background())
		atPoint(t, "loaded", 3, cancel)
		_, err := w.run(t, ctx, Flags{Batch: 10, skip: uint64(skip)})
		want := fmt.Sprintf(`interrupted; "seen" has the lines up to line %d, 30 of them new; `+
			`to go on, add --skip %[1]d to the same command`, skip+30)
		if err == nil || err.Error() != want || exit.Code(err) != exit.Interrupted {
			t.Fatalf("error %v, exit code %d, want %s", err, exit.Code(err), want)
		}
		w.disk = w.synced
		if got := w.loaded(t); got != skip+30 {
			t.Errorf("%d lines, want %d", got, skip+30)
		}
	}
	l, err := w.run(t, context.Background(), Flags{Batch: 10, skip: 60})
	if err != nil || l.done != (progress.Counts{Lines: 35, New: 35}) {
		t.Errorf("the rest: %+v, %v", l.done, err)
	}
	if got := w.loaded(t); got != 95 {
		t.Errorf("%d lines in the end", got)
	}
}

// Whatever happens to a run with --replace, the key has the old filter or the whole new one, and the next run with
// --replace leaves nothing else.
func TestLoading_replace_powerLoss(t *testing.T) {
	tests := []struct {
		point string
		n     int
		want  int // lines under the key afterwards
	}{
		{"loaded", 1, 40}, {"loaded", 10, 40}, {"complete", 1, 40}, {"replaced", 1, 95},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s %d", tt.point, tt.n), func(t *testing.T) {
			w := replaceWorld(t)
			var crashed *kvtest.Disk
			atPoint(t, tt.point, tt.n, func() {
				crashed = w.disk.CrashClone(vfs.CrashCloneCfg{})
			})
			if _, err := w.run(t, context.Background(), Flags{Batch: 10, Replace: true}); err != nil {
				t.Fatal(err)
			}
			if got := w.loaded(t); got != 95 {
				t.Errorf("%d lines, want 95", got)
			}
			w.disk = crashed
			if got := w.loaded(t); got != tt.want {
				t.Errorf("%d lines after a crash, want %d", got, tt.want)
			}
			if left := w.keys(t) > 1; left != (tt.want == 40) {
				t.Errorf("left-over: %t", left)
			}
			if _, err := w.run(t, context.Background(), Flags{Batch: 10, Replace: true}); err != nil {
				t.Fatal(err)
			}
			if got := w.loaded(t); got != 95 || w.keys(t) != 1 {
				t.Errorf("%d lines and %d keys in the end, want 95 and 1", got, w.keys(t))
			}
		})
	}
}

// replaceWorld has the lines 1 to 40 under the key, in an input of 95.
func replaceWorld(t *testing.T) *loadWorld {
	t.Helper()
	w := newLoadWorld(t, 95, kv.Always) // so that a crash leaves what there is
	w.use(t, func(db *kv.DB) {
		f := bloomext.New(db, "seen")
		if err := f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 1e-6}); err != nil {
			t.Fatal(err)
		}
		items := strings.Fields(numberLines(1, 40))
		if _, err := f.AddMany(scalableext.BytesOfAll(items), make([]bool, len(items))); err != nil {
			t.Fatal(err)
		}
	})
	return w
}

// Ctrl-C and errors leave the old filter, and nothing else.
func TestLoading_replace_givenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	w := replaceWorld(t)
	atPoint(t, "loaded", 3, cancel)
	_, err := w.run(t, ctx, Flags{Batch: 10, Replace: true})
	const want = `interrupted; the new filter is given up after line 30, and "seen" is as it was`
	if err == nil || err.Error() != want || exit.Code(err) != exit.Interrupted {
		t.Errorf("error %v, exit code %d, want %s", err, exit.Code(err), want)
	}
	if got := w.loaded(t); got != 40 || w.keys(t) != 1 {
		t.Errorf("%d lines and %d keys, want 40 and 1", got, w.keys(t))
	}

	if err := os.WriteFile(w.input, compressed(t, numberLines(1, 95))[:60], 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = w.run(t, context.Background(), Flags{Batch: 10, Replace: true})
	if err == nil || !strings.Contains(err.Error(), "it is cut off in the middle of compressed data; the new filter is given up after line ") || exit.Code(err) != exit.Local {
		t.Errorf("error %v, exit code %d", err, exit.Code(err))
	}
	if got := w.loaded(t); got != 40 || w.keys(t) != 1 {
		t.Errorf("%d lines and %d keys, want 40 and 1", got, w.keys(t))
	}
}

// A key that only looks like the left-over of a killed run is not removed.
func TestLoading_replace_inTheWay(t *testing.T) {
	w := replaceWorld(t)
	w.use(t, func(db *kv.DB) {
		if err := bloomext.New(db, "seen"+ReplaceSuffix).Reserve(bloomext.Config{Capacity: 1, ErrorRate: 0.1}); err != nil {
			t.Fatal(err)
		}
	})
	_, err := w.run(t, context.Background(), Flags{Batch: 10, Replace: true})
	if err == nil || !strings.Contains(err.Error(), `the key "seen#kvshell-load", which --replace needs`) || exit.Code(err) != exit.Refused {
		t.Errorf("error %v, exit code %d", err, exit.Code(err))
	}
	if n := w.keys(t); n != 2 {
		t.Errorf("%d keys, want 2", n)
	}
	// Nor is a filter removed that a run has renamed to KEY, and a user has renamed back.
	w.use(t, func(db *kv.DB) { _, err = db.Delete(kv.Always, []byte("seen"+ReplaceSuffix)) })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.run(t, context.Background(), Flags{Batch: 10, Replace: true}); err != nil {
		t.Fatal(err)
	}
	w.use(t, func(db *kv.DB) { err = db.Rename(kv.Always, []byte("seen"), []byte("seen"+ReplaceSuffix)) })
	if err != nil {
		t.Fatal(err)
	}
	if _, err = w.run(t, context.Background(), Flags{Batch: 10, Replace: true}); exit.Code(err) != exit.Refused {
		t.Errorf("error %v, exit code %d", err, exit.Code(err))
	}
}

func compressed(t *testing.T, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
