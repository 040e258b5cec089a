package main

import (
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
)

// serveFilters serves a store with two filters and a string.
func serveFilters(t *testing.T) (s *served, port string) {
	t.Helper()
	s = serveStore(t, filepath.Join(t.TempDir(), "store"), 1, "--addr", "127.0.0.1:0")
	ask(t, dial(t, "tcp", s.addrs[0]), "BF.RESERVE half 0.01 4 NONSCALING", "BF.MADD half a b", "CF.RESERVE bare 1000", "CF.ADD bare a", "SET s hello")
	_, port, err := net.SplitHostPort(s.addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	return s, port
}

// top shows a screen that fits the terminal, also when that gets another size, and looks again when it is asked to.
func TestTop(t *testing.T) {
	s, port := serveFilters(t)
	p := at(t, []string{"NO_COLOR=", "LANG=C.UTF-8", "LC_ALL="}, "-p", port, "top")
	p.sees("keys: 3")
	p.sees("filters: 2, of which 0 full")
	p.sees("█████░░░░░")
	p.sees("q ends it")
	if err := pty.Setsize(p.tty, &pty.Winsize{Rows: 6, Cols: 40}); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for len(lines) != 6 {
		p.sees("\x1b[H")
		lines = strings.Split(regexp.MustCompile(`\x1b\[.`).ReplaceAllString(p.sees("\x1b[J"), ""), "\n")
	}
	if lines[5] != "space looks again, q ends it" {
		t.Errorf("the last line is %q", lines[5])
	}
	for _, line := range lines {
		if utf8.RuneCountInString(line) > 40 {
			t.Errorf("%q is wider than the screen", line)
		}
	}
	ask(t, dial(t, "tcp", s.addrs[0]), "BF.MADD half c d")
	p.types(" ")
	p.sees("filters: 2, of which 1 full")
	p.types("q")
	p.ends(exit.OK)
	s.stop(t, syscall.SIGTERM)
}

// In a pipe top prints once, of a server and of a store, and so do the flags in place of a command.
func TestTop_pipe(t *testing.T) {
	s, port := serveFilters(t)
	dir := filepath.Join(t.TempDir(), "store")
	if output, err := exec.Command("kvshell", "-d", dir, "BF.ADD", "seen", "a").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for args, want := range map[string]string{
		"-p " + port + " top":                           `(?s)^127.0.0.1:\d+  keys: 3.*filters: 2.*50\.0 % #####-----.* "half"\n.*0\.1 % #---------.* "bare"\n$`,
		"-d " + dir + " top":                            `(?s)^.*store  keys: 1.*filters: 1.* "seen"\n$`,
		"-p " + port + " --stat -r 2 -i 0.001":          `^ +keys .*\n +3 .*\n +3 .*\(\+\d+\) .*\n$`,
		"-p " + port + " --latency -r 3 -i 0.001":       `^min: [\d.]+, max: [\d.]+, avg: [\d.]+, p99: [\d.]+ ms \(3 samples\)\n$`,
		"-p " + port + " --bigkeys":                     `(?s)MBbloomCF +1 .*string +1 .*bytes +type +key\n.* MBbloomCF  "bare"\n.* "s"\n$`,
		"-d " + dir + " --bigkeys --json":               `^\{"types":\{"MBbloom--":\{"keys":1,.*"key":"seen".*\}\n$`,
		"-d " + dir + " --latency":                      `about a server`,
		"-p " + port + " --stat --latency":              `exclude each other`,
		"-p " + port + " --stat GET s":                  `in place of a command`,
		"-d " + dir + " stats seen":                     `error rate\n +0 .*\n$`,
		"plan --capacity 1M --error 0.01 --non-scaling": `layers .*\n$`,
	} {
		output, _ := exec.Command("kvshell", strings.Fields(args)...).CombinedOutput() // some are refused
		if !regexp.MustCompile(want).Match(output) {
			t.Errorf("kvshell %s prints\n%s\nwant %s", args, output, want)
		}
	}
	s.stop(t, syscall.SIGTERM)
}

// On a terminal stats and plan end with a chart, in plain characters if these are asked for, and MONITOR and --latency end by Ctrl-C.
func TestTop_charts(t *testing.T) {
	s, port := serveFilters(t)
	for _, tt := range []struct {
		env  []string
		args string
		want string
	}{
		{nil, "-p " + port + " stats half", "items  ####################-------------------- 50.00 %\n"},
		{[]string{"NO_COLOR=", "LC_ALL=C.UTF-8"}, "-p " + port + " stats half", "items  ████████████████████░░░░░░░░░░░░░░░░░░░░ 50.00 %\n"},
		{[]string{"NO_COLOR=", "LC_ALL=C.UTF-8", "TERM=dumb"}, "-p " + port + " stats half", "####-"},
		{[]string{"NO_COLOR=", "LC_ALL=C"}, "plan --capacity 1000 --error 0.01", "rate, from empty to capacity  ____"},
		{[]string{"NO_COLOR=", "LC_ALL=en_US.utf8"}, "plan --capacity 1000 --error 0.01", "▆▇█\n"},
	} {
		if shown := at(t, tt.env, strings.Fields(tt.args)...).ends(exit.OK); !strings.Contains(shown, tt.want) {
			t.Errorf("%v %s shows\n%s\nwant %s", tt.env, tt.args, shown, tt.want)
		}
	}
	p := at(t, nil, "-p", port, "MONITOR")
	p.sees("OK\n")
	ask(t, dial(t, "tcp", s.addrs[0]), "SET s hello")
	p.sees(`"SET" "s" "hello"`)
	p.types(ctrlC)
	p.ends(exit.Interrupted)
	p = at(t, nil, "-p", port, "--latency")
	p.sees("avg: ")
	p.types(ctrlC)
	p.sees(" samples)\n")
	p.ends(exit.OK)
	s.stop(t, syscall.SIGTERM)
}
