package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// usage is what a program took.
type usage struct {
	elapsed time.Duration
	peak    float64 // memory in MiB, 0 if the system does not tell
}

// runProgram runs a program to its end, with its output in a file, or nowhere. Text is compared byte by byte.
func (b *bench) runProgram(out string, name string, args ...string) (u usage, err error) {
	cmd := exec.CommandContext(b.ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var errors bytes.Buffer
	cmd.Stderr = &errors
	if out != "" {
		f, err := os.Create(out)
		if err != nil {
			return u, err
		}
		defer func() { _ = f.Close() }() // another program wrote it
		cmd.Stdout = f
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return u, err
	}
	done := make(chan struct{})
	var watched sync.WaitGroup
	watched.Go(func() { u.peak = watchMemory(cmd.Process.Pid, done) })
	err = cmd.Wait()
	u.elapsed = time.Since(begin)
	close(done)
	watched.Wait()
	if err != nil {
		return u, fmt.Errorf("%s: %w: %s", name, err, errors.String())
	}
	return u, nil
}

// watchMemory returns the most memory, in MiB, that a process had until done. The system's own report at the end of a
// process cannot be used: it counts the memory of the program that started it.
func watchMemory(pid int, done <-chan struct{}) (peak float64) {
	for {
		text := field(fmt.Sprintf("/proc/%d/status", pid), "VmHWM")
		if kib, err := strconv.ParseFloat(strings.TrimSuffix(text, " kB"), 64); err == nil {
			peak = max(peak, kib/1024)
		}
		select {
		case <-done:
			return peak
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// written returns how many bytes this process has written to files so far, in all write calls. ok is false on systems
// that do not tell.
func written() (n float64, ok bool) {
	n, err := strconv.ParseFloat(field("/proc/self/io", "wchar"), 64)
	return n, err == nil
}

// processorTime returns how long processors have worked for this process and those that it has waited for.
func processorTime() (all time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			all += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return all
}
