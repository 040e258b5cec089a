package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// machine is what figures depend on.
type machine struct {
	mode        string
	begin       time.Time
	took        time.Duration
	processor   string
	memory      string
	system      string
	tools       []string // versions of other programs
	modules     []string // versions of libraries
	commit      string
	load, after string // the load before and after
}

// peers are the modules whose versions are printed.
var peers = []string{
	"github.com/cockroachdb/pebble/v2", "github.com/greatroar/blobloom", "github.com/bits-and-blooms/bloom/v3",
	"github.com/linvon/cuckoo-filter", "github.com/seiflotfy/cuckoofilter", "github.com/tylertreat/BoomFilters", "go.etcd.io/bbolt",
}

func describeMachine(b *bench) *machine {
	m := &machine{
		mode: pick(b, "--quick", "no flag", "--full"), begin: time.Now(),
		processor: fmt.Sprintf("%s, %d in use", field("/proc/cpuinfo", "model name"), runtime.GOMAXPROCS(0)),
		memory:    field("/proc/meminfo", "MemTotal"),
		system:    fmt.Sprintf("%s/%s %s", runtime.GOOS, runtime.GOARCH, strings.TrimSpace(read("/proc/sys/kernel/osrelease"))),
		tools:     []string{runtime.Version()},
		commit:    output("git", "rev-parse", "--short=12", "HEAD"),
		load:      loadAverage(),
	}
	if output("git", "status", "--porcelain", "--untracked-files=no") != "" {
		m.commit += " with changes"
	}
	for _, tool := range [][]string{{"awk", "-W", "version"}, {"sort", "--version"}, {"redis-server", "--version"}} {
		if line, _, _ := strings.Cut(output(tool[0], tool[1:]...), "\n"); line != "" {
			m.tools = append(m.tools, line)
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if slices.Contains(peers, dep.Path) {
				m.modules = append(m.modules, dep.Path+" "+dep.Version)
			}
		}
	}
	return m
}

// busy reports whether something else kept half of a processor or more busy before the run.
func (m *machine) busy() bool {
	first, _, _ := strings.Cut(m.load, " ")
	load, err := strconv.ParseFloat(first, 64)
	return err == nil && load >= 0.5
}

// end notes the load and the time at the end.
func (m *machine) end() { m.took, m.after = time.Since(m.begin), loadAverage() }

// lines are facts and what they are.
func (m *machine) lines() [][2]string {
	lines := [][2]string{
		{"date", m.begin.Format(time.DateOnly)},
		{"mode", m.mode},
		{"commit", m.commit},
		{"processor", m.processor},
		{"memory", m.memory},
		{"system", m.system},
		{"programs", strings.Join(m.tools, "; ")},
		{"libraries", strings.Join(m.modules, ", ")},
		{"load before", m.load},
	}
	if m.took > 0 {
		lines = append(lines, [2]string{"load after", m.after}, [2]string{"took", m.took.Round(time.Second).String()})
	}
	return lines
}

func (m *machine) text() string {
	var out strings.Builder
	for _, line := range m.lines() {
		fmt.Fprintf(&out, "%-12s %s\n", line[0], line[1])
	}
	return out.String()
}

func loadAverage() string {
	fields := strings.Fields(read("/proc/loadavg"))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

// field returns the value after a name and a colon, in the first line that has it.
func field(path, name string) string {
	for line := range strings.SplitSeq(read(path), "\n") {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// read returns what is in a file, or nothing: not every system has it.
func read(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

// output returns what a program prints, or nothing if it is not there.
func output(name string, args ...string) string {
	out, _ := exec.Command(name, args...).Output()
	return strings.TrimSpace(string(out))
}
