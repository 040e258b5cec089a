package main

import (
	"os"
	"path/filepath"
	"strconv"
)

const loadAbout = `Lines a second of ` + "`kvshell load`" + ` with the numbers from 1 in random order, from the start of the
process to its end: into a filter that was made for them, and into one that grows from the default of a million.`

// load measures kvshell load.
func load(b *bench) error {
	n := pick(b, 500_000, 10_000_000, 10_000_000)
	numbers := filepath.Join(b.dir, "numbers.txt")
	if err := writeNumbers(numbers, n); err != nil {
		return err
	}
	defer func() { _ = os.Remove(numbers) }()
	kvshell, err := b.kvshell()
	if err != nil {
		return err
	}
	run := func(args ...string) func() (float64, error) {
		return func() (float64, error) {
			dir, err := b.temp("load")
			if err != nil {
				return 0, err
			}
			defer func() { _ = os.RemoveAll(dir) }()
			u, err := b.runProgram("", kvshell, append([]string{"-d", filepath.Join(dir, "store"), "load", "seen", numbers}, args...)...)
			return perSecond(n, u.elapsed), err
		}
	}
	growing := []string{}
	if b.mode == quickMode {
		growing = []string{"--capacity", "100000"} // as often as ten million from a million
	}
	s, err := b.interleave(pick(b, 1, 3, 5),
		side{"fitting", run("--capacity", strconv.Itoa(n))}, side{"growing", run(growing...)})
	if err != nil {
		return err
	}
	what, reduced := format(float64(n))+" lines into a filter that ", n < 10_000_000
	b.row(row{what: what + "fits", unit: "lines/s", ours: s[0], must: figureAtLeast(2e6), reduced: reduced})
	b.row(row{what: what + "grows", unit: "lines/s", ours: s[1], must: figureAtLeast(1e6), reduced: reduced})
	return nil
}
