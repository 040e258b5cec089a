package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// mode says how much is measured.
type mode int

const (
	normalMode mode = iota
	quickMode
	fullMode
)

// pick returns the value for the mode.
func pick[T any](b *bench, quick, normal, full T) T {
	return map[mode]T{quickMode: quick, normalMode: normal, fullMode: full}[b.mode]
}

// bench is one run of the program.
type bench struct {
	ctx  context.Context
	mode mode
	root string // the directory for dir
	dir  string // everything that is made is in it

	missed int // MB

	kvshellPath string // once it was built

	topic   string    // which runs now
	told    time.Time // when progress was last printed
	results []result
}

// result is what a topic has found.
type result struct {
	topic topic
	rows  []row
	plots []picture
	notes []string // what was left out, and the like
	err   error
	took  time.Duration
	cpu   time.Duration // of the processors, for this program and those that it has run to their ends
}

func (b *bench) current() *result { return &b.results[len(b.results)-1] }

// row adds a row to the table of the topic.
func (b *bench) row(r row) { b.current().rows = append(b.current().rows, r) }

// plot adds a plot to the topic.
func (b *bench) plot(p picture) { b.current().plots = append(b.current().plots, p) }

// note adds a sentence below the table of the topic.
func (b *bench) note(format string, args ...any) {
	b.current().notes = append(b.current().notes, fmt.Sprintf(format, args...))
}

// progress tells on standard error what is measured, not more than once a second.
func (b *bench) progress(format string, args ...any) {
	if now := time.Now(); now.Sub(b.told) >= time.Second {
		b.told = now
		fmt.Fprintf(os.Stderr, "%s  %s: %s\n", now.Format(time.TimeOnly), b.topic, fmt.Sprintf(format, args...))
	}
}

// runAll runs topics, prints their tables, and writes the page if that is asked for. A topic that fails does not keep
// the others from running.
func (b *bench) runAll(chosen []topic, write bool) (err error) {
	if b.dir, err = os.MkdirTemp(b.root, "sievekv-bench"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	about := describeMachine(b)
	fmt.Println(about.text())
	for _, t := range chosen {
		b.topic, b.told = t.name, time.Time{}
		b.progress("begins")
		b.results = append(b.results, result{topic: t})
		begin, cpu := time.Now(), processorTime()
		failed := t.run(b)
		if b.ctx.Err() != nil {
			return errors.New("interrupted")
		}
		r := b.current()
		r.err, r.took, r.cpu = failed, time.Since(begin), processorTime()-cpu
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", t.name, failed))
		}
		fmt.Print(r.text())
	}
	about.end()
	fmt.Print(verdict(b.results))
	if write && err == nil {
		err = writePage(filepath.Join("..", "docs"), about, b.results)
	}
	return err
}

// temp returns the path of a new directory, which the caller may remove early.
func (b *bench) temp(name string) (string, error) { return os.MkdirTemp(b.dir, name) }

// kvshell returns the path of kvshell. The first call builds it.
func (b *bench) kvshell() (string, error) {
	if b.kvshellPath != "" {
		return b.kvshellPath, nil
	}
	b.progress("building kvshell")
	path := filepath.Join(b.dir, "kvshell")
	cmd := exec.CommandContext(b.ctx, "go", "build", "-o", path, "./cmd/kvshell")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	b.kvshellPath = path
	return path, nil
}
