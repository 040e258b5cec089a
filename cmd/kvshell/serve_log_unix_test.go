//go:build unix

package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A server's log has lines of its level and above, each in the form that was asked for.
func TestServe_log(t *testing.T) {
	for _, tt := range []struct {
		level string
		has   []string
	}{
		{"debug", []string{"DEBUG", "INFO", "WARN"}},
		{"info", []string{"INFO", "WARN"}},
		{"warn", []string{"WARN"}},
		{"error", nil},
	} {
		for format, parse := range map[string]func(line string) (level string, ok bool){"text": parseTextLine, "json": parseJSONLine} {
			t.Run(tt.level+" "+format, func(t *testing.T) {
				said := serveAndLogIn(t, "--log-level", tt.level, "--log-format", format)
				var has []string
				for line := range strings.Lines(said) {
					level, ok := parse(line)
					if !ok {
						t.Errorf("it says %q", line)
					}
					has = append(has, level)
				}
				slices.Sort(has)
				if has = slices.Compact(has); !slices.Equal(has, tt.has) {
					t.Errorf("lines of %q, want %q:\n%s", has, tt.has, said)
				}
			})
		}
	}
}

// serveAndLogIn serves a new store, and logs in with a wrong and a right password. It returns what the server says.
func serveAndLogIn(t *testing.T, flags ...string) string {
	t.Helper()
	t.Chdir(t.TempDir()) // the path of a socket must be short
	if err := os.WriteFile("password", []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveStore(t, filepath.Join(t.TempDir(), "store"), 0, append(flags, "--addr", "", "--unixsocket", "s", "--requirepass-file", "password")...)
	c, err := net.Dial("unix", "s")
	for err != nil { // it need not say that it serves
		select {
		case ended := <-s.ended:
			t.Fatalf("kvshell serve ended: %v\n%s", ended, s.output())
		case <-time.After(time.Millisecond):
		}
		c, err = net.Dial("unix", "s")
	}
	defer c.Close()
	ask(t, c, "AUTH wrong", "AUTH secret")
	s.stop(t, syscall.SIGTERM)
	return strings.TrimSpace(s.output())
}

func parseJSONLine(line string) (level string, ok bool) {
	var of struct {
		Time       time.Time
		Level, Msg string
	}
	err := json.Unmarshal([]byte(line), &of)
	return of.Level, err == nil && !of.Time.IsZero() && of.Msg != ""
}

var textLine = regexp.MustCompile(`^time=\S+ level=(DEBUG|INFO|WARN|ERROR) msg=\S`)

func parseTextLine(line string) (level string, ok bool) {
	found := textLine.FindStringSubmatch(line)
	if found == nil {
		return "", false
	}
	return found[1], true
}
