package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

const dedupAbout = `Lines a second of programs that print each different line once, from the start of the process to its end.
The first list has the numbers from 1 in random order. ` + "`dedup -o`" + ` writes them to a file, keeps what it has seen on disk
and can be killed at any time; "again" is the same command once more on the same store, which finds nothing new. awk and
sort begin again each time and keep nothing; they also print nothing twice, while dedup may take a new line for a known one
(one in a million at most). The second list is examples/crawl-urls.txt.gz 100 times, each line after the number of its
round: half of its lines are different.`

// dedup compares dedup -o with awk and sort.
func dedup(b *bench) error {
	n := pick(b, 500_000, 10_000_000, 10_000_000)
	numbers := filepath.Join(b.dir, "numbers.txt")
	if err := writeNumbers(numbers, n); err != nil {
		return err
	}
	defer func() { _ = os.Remove(numbers) }()
	what := fmt.Sprintf("%s shuffled lines, --capacity %s", format(float64(n)), format(float64(n)))
	d := dedupRun{b: b, input: numbers, lines: n, capacity: strconv.Itoa(n)}
	if err := d.measure(pick(b, 1, 3, 5), true); err != nil {
		return err
	}
	reduced := n < 10_000_000
	d.rows(what+", fresh", d.fresh, figureAtLeast(1.5e6), reduced)
	b.row(row{
		what: what + ", peak memory", unit: "MiB", ours: d.memory, peer: "awk", theirs: d.awkMemory, must: figureAtMost(256),
		reduced: reduced,
	})
	d.rows(what+", again", d.again, figureAtLeast(4e6), reduced)
	b.note("Of %s different lines dedup printed %d.", format(float64(n)), d.printed)

	rounds := pick(b, 10, 100, 100)
	urls := filepath.Join(b.dir, "urls.txt")
	lines, err := writeURLs(urls, rounds)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(urls) }()
	what = fmt.Sprintf("the example list %d times", rounds)
	for _, capacity := range []string{"4000000", ""} {
		d := dedupRun{b: b, input: urls, lines: lines, capacity: capacity}
		if err := d.measure(pick(b, 1, 3, 5), false); err != nil {
			return err
		}
		if capacity == "" {
			d.rows(what+", default capacity", d.fresh, nil, false)
			continue
		}
		d.rows(what+", --capacity "+capacity, d.fresh, figureAtLeast(2e6), rounds < 100)
		b.note("The example list %d times has %s lines; dedup printed %d.", rounds, format(float64(lines)), d.printed)
	}
	return nil
}

// dedupRun is a comparison over one file.
type dedupRun struct {
	b        *bench
	input    string
	lines    int
	capacity string // "" for the default

	fresh, again, awk, sort series // lines a second
	memory, awkMemory       series // MiB
	printed                 int
}

// measure runs the programs in turn.
func (d *dedupRun) measure(reps int, withSort bool) error {
	kvshell, err := d.b.kvshell()
	if err != nil {
		return err
	}
	sides := []side{{"dedup", func() (float64, error) { return d.dedup(kvshell) }}}
	for _, program := range []struct {
		name string
		use  bool
		to   *series
		args []string
	}{
		{"awk", true, &d.awk, []string{"!s[$0]++", d.input}},
		{"sort", withSort, &d.sort, []string{"-u", d.input}},
	} {
		if !program.use {
			continue
		}
		if _, err := exec.LookPath(program.name); err != nil {
			d.b.note("%s is not installed: it is left out.", program.name)
			continue
		}
		sides = append(sides, side{program.name, func() (float64, error) {
			out := filepath.Join(d.b.dir, "peer-out.txt")
			u, err := d.b.runProgram(out, program.name, program.args...)
			if err != nil {
				return 0, err
			}
			if program.name == "awk" {
				d.awkMemory = append(d.awkMemory, u.peak)
			}
			speed := perSecond(d.lines, u.elapsed)
			*program.to = append(*program.to, speed)
			return speed, os.Remove(out)
		}})
	}
	_, err = d.b.interleave(reps, sides...)
	return err
}

// dedup runs kvshell dedup with a new store, and once more with the same.
func (d *dedupRun) dedup(kvshell string) (float64, error) {
	dir, err := d.b.temp("dedup")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "out.txt")
	args := []string{"-d", filepath.Join(dir, "store"), "dedup", "seen", d.input, "-o", out}
	if d.capacity != "" {
		args = append(args, "--capacity", d.capacity)
	}
	for _, speeds := range []*series{&d.fresh, &d.again} {
		u, err := d.b.runProgram("", kvshell, args...)
		if err != nil {
			return 0, err
		}
		*speeds = append(*speeds, perSecond(d.lines, u.elapsed))
		if speeds == &d.fresh {
			d.memory = append(d.memory, u.peak)
			if d.printed, err = countLines(out); err != nil {
				return 0, err
			}
		}
	}
	return 0, nil
}

// rows adds a row beside each peer. What must be reached is about the first.
func (d *dedupRun) rows(what string, ours series, m *must, reduced bool) {
	d.b.row(row{what: what, unit: "lines/s", ours: ours, peer: peerName("awk", d.awk), theirs: d.awk, must: m, reduced: reduced})
	if len(d.sort) > 0 {
		d.b.row(row{what: what, unit: "lines/s", ours: ours, peer: "sort -u", theirs: d.sort})
	}
}

// peerName is "" for a peer that is not installed.
func peerName(name string, figures series) string {
	if len(figures) == 0 {
		return ""
	}
	return name
}

// writeNumbers writes the numbers from 1 to n in random order, a line each.
func writeNumbers(path string, n int) error {
	order := rand.New(rand.NewPCG(1, 2)).Perm(n)
	return writeFile(path, func(w *bufio.Writer) error {
		var line []byte
		for _, i := range order {
			line = append(strconv.AppendInt(line[:0], int64(i)+1, 10), '\n')
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeURLs writes the example list the given number of times, each line after the number of its round, and returns the
// number of lines.
func writeURLs(path string, rounds int) (lines int, err error) {
	f, err := os.Open(filepath.Join("..", "examples", "crawl-urls.txt.gz"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // only read
	z, err := gzip.NewReader(f)
	if err != nil {
		return 0, err
	}
	list, err := io.ReadAll(z)
	if err != nil {
		return 0, err
	}
	return bytes.Count(list, []byte{'\n'}) * rounds, writeFile(path, func(w *bufio.Writer) error {
		for round := range rounds {
			for line := range bytes.Lines(list) {
				if _, err := fmt.Fprintf(w, "%d %s", round, line); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func writeFile(path string, write func(w *bufio.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	return errors.Join(write(w), w.Flush(), f.Close())
}

func countLines(path string) (n int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // only read
	buf := make([]byte, 1<<20)
	for {
		got, err := f.Read(buf)
		n += bytes.Count(buf[:got], []byte{'\n'})
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
