package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/coreext"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/crashpoint"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/kv"
)

// loadWorld is a disk with a store on it, and an input of lines 1 to lines.
type loadWorld struct {
	disk   *vfs.MemFS
	synced *vfs.MemFS // what of it was on stable storage when the last run had ended, before the store was closed
	level  kv.Durability
	input  string
}

func newLoadWorld(t *testing.T, lines int, level kv.Durability) *loadWorld {
	t.Helper()
	input := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(input, []byte(numbers(1, lines)), 0o666); err != nil {
		t.Fatal(err)
	}
	return &loadWorld{disk: vfs.NewCrashableMem(), level: level, input: input}
}

// numbers returns lines that are the numbers from one to another.
func numbers(from, to int) string {
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
		Logger: slog.New(slog.DiscardHandler), Modules: coreext.With(modules()...),
	})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// run loads the input into the key "seen" and returns the run, which is over, and its error as it is told.
func (w *loadWorld) run(t *testing.T, ctx context.Context, f loadFlags) (l *loading, err error) {
	t.Helper()
	w.use(t, func(db *kv.DB) {
		f.rate, f.capacity = 1e-6, 1000
		in, openErr := openInput(w.input, nil, f.batch)
		if openErr != nil {
			t.Fatal(openErr)
		}
		l = newLoading(db, []byte("seen"), in, f)
		l.level = w.level
		err = l.explain(l.run(ctx))
		w.synced = w.disk.CrashClone(vfs.CrashCloneCfg{})
		if closed := in.close(); closed != nil {
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
			if present, err := f.MayContainString(fmt.Sprint(i)); err != nil || !present {
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
				var crashed *vfs.MemFS
				atPoint(t, "loaded", n, func() {
					crashed = w.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
				})
				if _, err := w.run(t, context.Background(), loadFlags{batch: batch}); err != nil {
					t.Fatal(err)
				}
				ended := w.synced
				w.disk = crashed
				got := w.loaded(t)
				if got > min(n*batch, lines) || got%batch != 0 && got != lines || level == kv.Always && got < min(n*batch, lines) {
					t.Errorf("%d lines after a crash behind commit %d", got, n)
				}
				if _, err := w.run(t, context.Background(), loadFlags{batch: batch}); err != nil {
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
		_, err := w.run(t, ctx, loadFlags{batch: 10, skip: uint64(skip)})
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
	l, err := w.run(t, context.Background(), loadFlags{batch: 10, skip: 60})
	if err != nil || l.done != (counts{35, 35}) {
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
			var crashed *vfs.MemFS
			atPoint(t, tt.point, tt.n, func() {
				crashed = w.disk.CrashClone(vfs.CrashCloneCfg{})
			})
			if _, err := w.run(t, context.Background(), loadFlags{batch: 10, replace: true}); err != nil {
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
			if _, err := w.run(t, context.Background(), loadFlags{batch: 10, replace: true}); err != nil {
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
		items := strings.Fields(numbers(1, 40))
		if _, err := f.AddManyString(items, make([]bool, len(items))); err != nil {
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
	_, err := w.run(t, ctx, loadFlags{batch: 10, replace: true})
	const want = `interrupted; the new filter is given up after line 30, and "seen" is as it was`
	if err == nil || err.Error() != want || exit.Code(err) != exit.Interrupted {
		t.Errorf("error %v, exit code %d, want %s", err, exit.Code(err), want)
	}
	if got := w.loaded(t); got != 40 || w.keys(t) != 1 {
		t.Errorf("%d lines and %d keys, want 40 and 1", got, w.keys(t))
	}

	if err := os.WriteFile(w.input, gzipped(t, numbers(1, 95))[:60], 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = w.run(t, context.Background(), loadFlags{batch: 10, replace: true})
	if err == nil || !strings.Contains(err.Error(), "unexpected EOF; the new filter is given up after line ") || exit.Code(err) != exit.Local {
		t.Errorf("error %v, exit code %d", err, exit.Code(err))
	}
	if got := w.loaded(t); got != 40 || w.keys(t) != 1 {
		t.Errorf("%d lines and %d keys, want 40 and 1", got, w.keys(t))
	}
}

// A key that only looks like a left-over is somebody's.
func TestLoading_replace_inTheWay(t *testing.T) {
	w := replaceWorld(t)
	w.use(t, func(db *kv.DB) {
		if err := bloomext.New(db, "seen"+replaceSuffix).Reserve(bloomext.Config{Capacity: 1, ErrorRate: 0.1}); err != nil {
			t.Fatal(err)
		}
	})
	_, err := w.run(t, context.Background(), loadFlags{batch: 10, replace: true})
	if err == nil || !strings.Contains(err.Error(), `the key "seen#kvshell-load", which --replace needs`) || exit.Code(err) != exit.Refused {
		t.Errorf("error %v, exit code %d", err, exit.Code(err))
	}
	if n := w.keys(t); n != 2 {
		t.Errorf("%d keys, want 2", n)
	}
	// Nor is a filter a left-over that was put in its place and then renamed.
	w.use(t, func(db *kv.DB) { _, err = db.Delete(kv.Always, []byte("seen"+replaceSuffix)) })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.run(t, context.Background(), loadFlags{batch: 10, replace: true}); err != nil {
		t.Fatal(err)
	}
	w.use(t, func(db *kv.DB) { err = db.Rename(kv.Always, []byte("seen"), []byte("seen"+replaceSuffix)) })
	if err != nil {
		t.Fatal(err)
	}
	if _, err = w.run(t, context.Background(), loadFlags{batch: 10, replace: true}); exit.Code(err) != exit.Refused {
		t.Errorf("error %v, exit code %d", err, exit.Code(err))
	}
}

// From a pipe, what waits is one commit, of as many lines as a commit may have.
func TestLoading_take(t *testing.T) {
	lines := func(n int) *batch { return &batch{items: make([][]byte, n)} }
	tests := []struct {
		name    string
		limit   int
		waiting []int // lines of the batches that wait; 0 is the end
		want    []int // of the batches of each commit
	}{
		{"one", 10, []int{3, 0}, []int{1}},
		{"all that wait", 10, []int{3, 3, 3, 0}, []int{3}},
		{"no more than a commit takes", 10, []int{5, 5, 5, 5, 0}, []int{2, 2}},
		{"a batch that does not fit", 10, []int{5, 6, 4, 0}, []int{1, 2}},
		{"no more than leave some to read ahead", 10, []int{1, 1, 1, 1, 1, 0}, []int{4, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := &input{eager: true, full: make(chan *batch, 10)}
			for _, n := range tt.waiting {
				b := lines(n)
				if n == 0 {
					b.err = io.EOF
				}
				in.full <- b
			}
			l := &loading{in: in, flags: loadFlags{batch: tt.limit}}
			var got []int
			err := l.take(context.Background())
			for ; err == nil; err = l.take(context.Background()) {
				got = append(got, len(l.taken))
			}
			if !errors.Is(err, io.EOF) || !slices.Equal(got, tt.want) {
				t.Errorf("commits of %v batches, %v; want %v", got, err, tt.want)
			}
		})
	}
}

func TestInput_skip(t *testing.T) {
	long := strings.Repeat("x", 700<<10)
	tests := []struct {
		name    string
		content string
		skip    uint64
		want    string // the rest, or, without a line, the error
	}{
		{"none", "a\nb\n", 0, "a b"},
		{"some", "a\nb\r\nc\n", 2, "c"},
		{"empty lines", "\n\n\nd\n", 3, "d"},
		{"all", "a\nb\n", 2, ""},
		{"all, without a line break", "a\nb", 2, ""},
		{"long lines", long + "\n" + long + long + "\nz", 2, "z"},
		{"a long last line", "a\n" + long, 2, ""},
		{"more than there are", "a\nb\n", 3, "--skip 3: NAME has only 2 lines"},
		{"more than there are, without a line break", "a\nb", 3, "--skip 3: NAME has only 2 lines"},
		{"of nothing", "", 1, "--skip 1: NAME has only 0 lines"},
	}
	for _, tt := range tests {
		for _, content := range [][]byte{[]byte(tt.content), gzipped(t, tt.content)} {
			t.Run(tt.name, func(t *testing.T) {
				in := inputOf(t, content)
				in.skip = tt.skip
				lines, err := readAll(in)
				if exit.Code(err) == exit.Refused {
					lines = []string{strings.ReplaceAll(err.Error(), in.name, "NAME")}
				} else if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				if got := strings.Join(lines, " "); got != tt.want {
					t.Errorf("%.80q, want %q", got, tt.want)
				}
			})
		}
	}
}

// Killed behind a commit, a run leaves whole batches, and the same command again adds the rest.
func TestLoad_kill(t *testing.T) {
	const lines = 1000
	store := filepath.Join(t.TempDir(), "store")
	load := func(crash string, args ...string) (string, error) {
		cmd := exec.Command("kvshell", append([]string{"-d", store, "load", "seen", "-"}, args...)...)
		cmd.Env = append(os.Environ(), crashVariable+"="+crash)
		cmd.Stdin = strings.NewReader(numbers(1, lines))
		output, err := cmd.CombinedOutput()
		return string(output), err
	}
	card := func() (n int) {
		output, err := exec.Command("kvshell", "-d", store, "BF.CARD", "seen").Output()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(string(output), &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if output, err := load("loaded:3", "--batch=10", "--sync=always"); !wasKilled(err) {
		t.Fatalf("not killed: %v\n%s", err, output)
	}
	if n := card(); n != 30 {
		t.Errorf("killed behind three synced commits of 10 lines, it left %d lines", n)
	}
	if output, err := load("loaded:50", "--batch=10"); !wasKilled(err) {
		t.Fatalf("not killed: %v\n%s", err, output)
	}
	if n := card(); n%10 != 0 || n < 30 || n > 500 {
		t.Errorf("killed behind 50 commits of 10 lines, it left %d lines", n)
	}
	if output, err := load("", "--batch=10"); err != nil || !strings.Contains(output, "lines read           1000\n") {
		t.Errorf("the last run: %v\n%s", err, output)
	}
	if n := card(); n != lines {
		t.Errorf("%d lines in the end, want %d", n, lines)
	}
}

// BenchmarkLoad is seq 1 10000000 | kvshell load k -. Run it with -benchtime 1x.
func BenchmarkLoad(b *testing.B) {
	const lines = 10_000_000
	devNull, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer devNull.Close()
	for b.Loop() {
		r, w, err := os.Pipe()
		if err != nil {
			b.Fatal(err)
		}
		written := make(chan error, 1)
		go func() { written <- writeNumbers(w, lines) }()
		sh := &shell{stdin: r, stdout: devNull, stderr: devNull, directory: b.TempDir()}
		code := sh.run(context.Background(), []string{"-d", sh.directory, "load", "k", "-"})
		if err := errors.Join(<-written, r.Close()); code != exit.OK || err != nil {
			b.Fatalf("exit code %d, %v", code, err)
		}
	}
	b.ReportMetric(float64(lines)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

func writeNumbers(w io.WriteCloser, n int) error {
	buffered := bufio.NewWriterSize(w, 64<<10)
	for i := 1; i <= n; i++ {
		if _, err := fmt.Fprintln(buffered, i); err != nil {
			return err
		}
	}
	return errors.Join(buffered.Flush(), w.Close())
}
