package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/crashpoint"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/input"
)

// crashVariable makes a process crash: with "POINT:N", when it reaches POINT for the N-th time.
const crashVariable = "KVSHELL_TEST_CRASH"

// crashWhere arranges for this process to be killed, as kill -9 does, at a point.
func crashWhere(spec string) {
	if spec == "" {
		return
	}
	where, number, _ := strings.Cut(spec, ":")
	left, err := strconv.Atoi(number)
	if err != nil {
		panic(fmt.Sprintf("%s=%s", crashVariable, spec))
	}
	crashpoint.Reached = func(point string) {
		if point != where {
			return
		}
		if left--; left > 0 {
			return
		}
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		if err != nil {
			panic(err)
		}
		select {} // until it has
	}
}

// dedupRun is a run of dedup to a file, in a process of its own.
type dedupRun struct {
	dir   string // of the store and OUT
	input string // "-" for stdin
	stdin []byte
	flags []string
}

func (r *dedupRun) out() string { return filepath.Join(r.dir, "out") }

func (r *dedupRun) command(crash string) *exec.Cmd {
	args := append([]string{"-d", filepath.Join(r.dir, "store"), "dedup", "seen", r.input, "-o", r.out()}, r.flags...)
	cmd := exec.Command("kvshell", args...)
	cmd.Env = append(os.Environ(), crashVariable+"="+crash)
	cmd.Stdin = bytes.NewReader(r.stdin)
	return cmd
}

// finish runs it to its end and returns what it printed.
func (r *dedupRun) finish(t *testing.T) string {
	t.Helper()
	output, err := r.command("").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return string(output)
}

// crash runs it up to a point, where it dies.
func (r *dedupRun) crash(t *testing.T, where string) {
	t.Helper()
	cmd := r.command(where)
	output, err := cmd.CombinedOutput()
	if !wasKilled(err) {
		t.Fatalf("not killed at %s: %v\n%s", where, err, output)
	}
}

// wasKilled tells from the error of exec.Cmd.Wait whether the process was killed rather than exited.
func wasKilled(err error) bool {
	var failed *exec.ExitError
	killedCode := -1 // of a signal
	if runtime.GOOS == "windows" {
		killedCode = 1
	}
	return errors.As(err, &failed) && failed.ExitCode() == killedCode
}

// firstOccurrences returns the lines of a text that are not a repeat, in order.
func firstOccurrences(text string) string {
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

func readList(t *testing.T) (compressed []byte, text string) {
	t.Helper()
	compressed, err := os.ReadFile(urlList)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return compressed, string(b)
}

func (r *dedupRun) checkOut(t *testing.T, want string) {
	t.Helper()
	got, err := os.ReadFile(r.out())
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Fatalf("OUT has %d lines, %d bytes, want %d, %d; the first %d bytes agree",
			bytes.Count(got, []byte("\n")), len(got), strings.Count(want, "\n"), len(want), agreeing(string(got), want))
	}
}

func agreeing(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func TestDedup_list(t *testing.T) {
	_, text := readList(t)
	run := &dedupRun{dir: t.TempDir(), input: urlList}
	for _, want := range []string{"new                  30072\n", "new                  0\n"} {
		if output := run.finish(t); !strings.Contains(output, "lines read           59206\n"+want) {
			t.Errorf("printed\n%s\nwant a line\n%s", output, want)
		}
		run.checkOut(t, firstOccurrences(text))
	}
}

// A run that is killed several times at random moments, and started again each time, leaves the same OUT as a run that is
// not killed. With --sync no, a kill also takes back the last commits.
func TestDedup_kill(t *testing.T) {
	t.Parallel() // it mostly waits for syncs
	const kills = 12
	compressed, text := readList(t)
	want := firstOccurrences(text)
	tests := []struct {
		name string
		run  dedupRun
	}{
		{"always, from a file", dedupRun{input: urlList, flags: []string{"--seed=7", "--batch=64"}}},
		{"always, with a window", dedupRun{input: urlList, flags: []string{"--seed=7", "--batch=64", "--window=7d"}}},
		{"no, from standard input", dedupRun{input: input.Stdin, stdin: compressed, flags: []string{"--seed=7", "--batch=64", "--sync=no"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			alone := tt.run
			alone.dir = t.TempDir()
			alone.finish(t)
			alone.checkOut(t, want)

			run := tt.run
			run.dir = t.TempDir()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			k := killer{run: &run, rng: rand.New(rand.NewPCG(seed, 0)), stride: int64(len(want)) / (kills + 5)}
			for hits := 0; hits < kills; {
				if k.kill(t, hits%4 == 3) {
					hits++
					continue
				}
				run.checkOut(t, want) // it had ended before the kill came
				run.dir = t.TempDir()
			}
			run.finish(t)
			run.checkOut(t, want)
			if output := run.finish(t); !strings.Contains(output, "\nnew                  0\n") {
				t.Errorf("once more, it printed\n%s", output)
			}
		})
	}
}

// killer kills runs at random moments.
type killer struct {
	run    *dedupRun
	rng    *rand.Rand
	stride int64 // bytes that OUT grows by in a run, at most, before the kill
}

// kill starts the command and kills it: at any time after its start, or when OUT has grown by a random number of
// bytes. It reports whether the process was still alive. Where in a batch it is hit is up to chance and a last pause.
func (k *killer) kill(t *testing.T, anyTime bool) bool {
	t.Helper()
	target := k.outSize(t) + k.rng.Int64N(k.stride)
	cmd := k.run.command("")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if anyTime {
		time.Sleep(time.Duration(k.rng.Int64N(int64(100 * time.Millisecond))))
	} else {
		k.awaitOut(t, target, ended)
		time.Sleep(time.Duration(k.rng.Int64N(int64(2 * time.Millisecond))))
	}
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	err := <-ended
	switch {
	case wasKilled(err):
		return true
	case err != nil:
		t.Fatalf("%v\n%s", err, output.String())
	}
	return false
}

// awaitOut returns when OUT has a size, or the process has ended.
func (k *killer) awaitOut(t *testing.T, size int64, ended chan error) {
	t.Helper()
	for k.outSize(t) < size {
		select {
		case err := <-ended:
			ended <- err
			return
		case <-time.After(100 * time.Microsecond):
		}
	}
}

func (k *killer) outSize(t *testing.T) int64 {
	t.Helper()
	info, err := os.Stat(k.run.out())
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// Crashes at each point, alone and one after the other, with whatever a power failure may leave at the end of OUT.
func TestDedup_crashPoints(t *testing.T) {
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "line %d\n", i*i%37)
	}
	const before = "was here\n"
	want := before + firstOccurrences(text.String())
	crashes := [][]string{
		{"begun:1"},
		{"synced:1"}, {"synced:3"},
		{"committed:1"}, {"committed:3"}, {"committed:10"},
		{"written:1"}, {"written:3"}, {"written:10"},
		{"finishing:1"}, {"finished:1"},
		{"begun:1", "repeating:1"}, {"begun:1", "synced:1"},
		{"committed:2", "repeating:1"}, {"committed:2", "synced:1"}, {"committed:2", "committed:1"},
		{"written:2", "written:1", "repeating:1", "synced:2"},
		{"finishing:1", "repeating:1", "finishing:1", "finished:1"},
	}
	for i, points := range crashes {
		// With no, a kill takes back commits, as far as Pebble has not written them yet.
		level := []string{"always", "no"}[i%2]
		t.Run(strings.Join(points, ",")+" "+level, func(t *testing.T) {
			t.Parallel()
			run := &dedupRun{dir: t.TempDir(), input: input.Stdin, stdin: []byte(text.String()), flags: []string{"--batch=10", "--sync=" + level}}
			if err := os.WriteFile(run.out(), []byte(before), 0o666); err != nil {
				t.Fatal(err)
			}
			for _, point := range points {
				run.crash(t, point)
				if point != "finished:1" { // then all of OUT is the user's
					tearOut(t, run.out())
				}
			}
			run.finish(t)
			run.checkOut(t, want)
			run.finish(t)
			run.checkOut(t, want)
		})
	}
}

// tearOut appends what a file system may show of writes that were not synced: zeros, or part of a line.
func tearOut(t *testing.T, name string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("\x00\x00\x00line 1\nli"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// A loss of power takes back what was written to OUT since its last sync: the lines of the last batch.
func TestDedup_powerLoss(t *testing.T) {
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "line %d\n", i%60)
	}
	for _, kept := range []int{3 * 10, 3*10 + 1, 4*10 - 1} {
		run := &dedupRun{dir: t.TempDir(), input: input.Stdin, stdin: []byte(text.String()), flags: []string{"--batch=10"}}
		run.crash(t, "written:4")
		lines := strings.SplitAfter(text.String(), "\n")
		if err := os.Truncate(run.out(), int64(len(strings.Join(lines[:kept], "")))); err != nil {
			t.Fatal(err)
		}
		run.finish(t)
		run.checkOut(t, firstOccurrences(text.String()))
	}
}
