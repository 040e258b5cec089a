package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/cmdline"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/filters"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/servertest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// runAt runs kvshell on a server.
func runAt(endpoint string, args ...string) (stdout, stderr string, code int) {
	host, port, _ := net.SplitHostPort(endpoint)
	cmd := exec.Command("kvshell", append([]string{"-h", host, "-p", port}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		code = -1
		if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
			code = failed.ExitCode()
		}
	}
	return out.String(), errs.String(), code
}

func writeLines(t *testing.T, lines ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	return name
}

func mustReply(t *testing.T, db *kv.DB, line string) reply.Reply {
	t.Helper()
	r := module.NewSession(db).Do(context.Background(), cmdline.Words(strings.Fields(line)...))
	if r.IsError() {
		t.Fatalf("%s: %s", line, r)
	}
	return r
}

// For each type of filter: every line of the list is there afterwards, and adding it again changes nothing.
func TestLoad_server(t *testing.T) {
	db, endpoint := servertest.ServeStore(t)
	for kind, words := range map[string]struct{ card, name string }{
		filters.Bloom: {"BF.CARD bloom", "MBbloom--"}, filters.Cuckoo: {"", "MBbloomCF"},
		filters.Counting: {"CBF.CARD counting", "CBloom---"},
	} {
		t.Run(kind, func(t *testing.T) {
			for i, want := range []string{
				"added                30072\nknown before         29134\n",
				"added                0\nknown before         59206\n",
			} {
				stdout, stderr, code := runAt(endpoint, "load", kind, urlList, "--type", kind, "--batch", "1000")
				if code != 0 || stderr != "" || !strings.HasPrefix(stdout, "lines read           59206\n"+want) ||
					!strings.Contains(stdout, "\nfilter               30072 lines in 1 layers, ") {
					t.Errorf("run %d: code %d, %s%s", i+1, code, stdout, stderr)
				}
			}
			if got := string(mustReply(t, db, "TYPE "+kind).Bytes()); got != words.name {
				t.Errorf("TYPE is %s", got)
			}
			if words.card != "" {
				if got := mustReply(t, db, words.card).Int(); got != 30072 {
					t.Errorf("%s: %d", words.card, got)
				}
			}
		})
	}
}

// Each command to a server has so few lines that they fit into a commit, even if each is in another block.
func TestLoad_serverMany(t *testing.T) {
	_, endpoint := servertest.ServeStore(t)
	stdout, stderr, code := runAt(endpoint, "load", "large", urlList, "--capacity", "100M")
	if code != 0 || !strings.Contains(stdout, "\nadded                30072\n") {
		t.Errorf("code %d, %s%s", code, stdout, stderr)
	}
	stats, _, _ := runAt(endpoint, "INFO", "commandstats")
	if want := "cmdstat_bf.insert:calls=4,"; !strings.Contains(stats, want) { // of 59,206 lines, at most 16,384 each
		t.Errorf("INFO lacks %s:\n%s", want, stats)
	}
}

// A server makes a filter that forgets as the flags say.
func TestLoad_serverWindow(t *testing.T) {
	db, endpoint := servertest.ServeStore(t)
	stdout, stderr, code := runAt(endpoint, "load", "weekly", writeLines(t, "a", "b"), "--window", "7d", "--slices", "24")
	if code != 0 || !strings.Contains(stdout, "\nadded                2\n") {
		t.Errorf("code %d, %s%s", code, stdout, stderr)
	}
	info, err := bloomext.New(db, "weekly").Info()
	if err != nil || info.Window != 7*24*time.Hour || len(info.Slices) != 1 || info.Slices[0].ExpiresAt.Sub(info.Slices[0].Begun) != 7*25*time.Hour {
		t.Errorf("%v, %+v, %v", info.Window, info.Slices, err)
	}
	_, stderr, code = runAt(endpoint, "load", "weekly", writeLines(t, "c"), "--window", "6d")
	if code != 0 || !strings.HasPrefix(stderr, `note: the filter "weekly" is there already and keeps what it was made with`) {
		t.Errorf("code %d, %s", code, stderr)
	}
}

func TestLoad_serverFlags(t *testing.T) {
	db, endpoint := servertest.ServeStore(t)
	lines := writeLines(t, "a", "b", "", "a", "c")
	stdout, stderr, code := runAt(endpoint, "load", "k", lines, "--ttl", "1000", "--skip", "1")
	if code != 0 || !strings.HasPrefix(stdout, "lines read           4 (after 1 skipped)\nadded                4\n") {
		t.Errorf("code %d, %s%s", code, stdout, stderr)
	}
	if ttl := mustReply(t, db, "TTL k").Int(); ttl < 900 || ttl > 1000 {
		t.Errorf("lives %d seconds", ttl)
	}
	_, stderr, code = runAt(endpoint, "load", "k", lines, "--error", "0.1")
	if code != 0 || !strings.HasPrefix(stderr, `note: the filter "k" is there already and keeps what it was made with`) {
		t.Errorf("code %d, %s", code, stderr)
	}
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--type", "cuckoo"}, exit.Refused, `the filter "k" was made with --type bloom, and keeps it`},
		{[]string{"--skip", "9"}, exit.Refused, `--skip 9: ` + lines + ` has only 5 lines`},
		{[]string{"--replace"}, exit.Usage, "load --replace needs the store in a directory"},
		{[]string{"--ttl", "0"}, exit.Usage, "--ttl 0: must be 1 to"},
	} {
		if _, stderr, code := runAt(endpoint, append([]string{"load", "k", lines}, tt.args...)...); code != tt.code ||
			!strings.Contains(stderr, tt.want) {
			t.Errorf("%q: code %d, %s", tt.args, code, stderr)
		}
	}
	mustReply(t, db, "SET text x")
	if _, stderr, code := runAt(endpoint, "load", "text", lines); code != exit.Refused ||
		!strings.Contains(stderr, `the key "text" holds no filter, but a value of type string`) {
		t.Errorf("code %d, %s", code, stderr)
	}
	if _, stderr, code := runAt(endpoint, "load", "other", filepath.Join(t.TempDir(), "nosuch")); code != exit.Local {
		t.Errorf("code %d, %s", code, stderr)
	}
	if n := mustReply(t, db, "EXISTS other").Int(); n != 0 {
		t.Error("a filter was made for no lines")
	}
}

// A filter that is full says how far it got; each line before that is there.
func TestLoad_serverFull(t *testing.T) {
	for _, kind := range []string{filters.Bloom, filters.Cuckoo, filters.Counting} {
		t.Run(kind, func(t *testing.T) {
			db, endpoint := servertest.ServeStore(t)
			var list []string
			for i := range 5000 {
				list = append(list, fmt.Sprint(i), "0") // what is there already is so before and behind what has no room
			}
			lines := writeLines(t, list...)
			_, stderr, code := runAt(endpoint, "load", "k", lines, "--type", kind,
				"--non-scaling", "--capacity", "100", "--error", "0.001", "--batch", "10")
			if code != exit.Refused || !strings.Contains(stderr, "full") {
				t.Fatalf("code %d, %s", code, stderr)
			}
			var line, added int
			if _, told, _ := strings.Cut(stderr, "; "); told != "" {
				_, err := fmt.Sscanf(told, `"k" has the lines up to line %d, %d of them new; to go on`, &line, &added)
				if err != nil {
					t.Fatalf("%s: %v", stderr, err)
				}
			}
			if line < 100 || line == len(list) || added > line {
				t.Errorf("%d lines, %d new", line, added)
			}
			exists := map[string]string{filters.Bloom: "BF.EXISTS", filters.Cuckoo: "CF.EXISTS", filters.Counting: "CBF.EXISTS"}[kind]
			for _, item := range list[:line] {
				if mustReply(t, db, exists+" k "+item).Int() != 1 {
					t.Fatalf("%s is not there", item)
				}
			}
			// Cuckoo filters may have taken others meanwhile, which the next line may seem to be.
			if kind != filters.Cuckoo && mustReply(t, db, exists+" k "+list[line]).Int() != 0 {
				t.Errorf("%s, the next line, is there", list[line])
			}
		})
	}
}

// When the connection is lost, load tells how many lines were acknowledged.
func TestLoad_serverLost(t *testing.T) {
	s := servertest.Serve(t, "")
	s.DropAt("BF.INSERT", 3)
	var list []string
	for i := range 100 {
		list = append(list, fmt.Sprint(i))
	}
	lines := writeLines(t, list...)
	_, stderr, code := runAt(s.Addr(), "load", "k", lines, "--batch", "10")
	const want = `"k" has the lines up to line 20, 20 of them new; to go on, add --skip 20 to the same command`
	if code != exit.Open || !strings.Contains(stderr, want) {
		t.Fatalf("code %d, %s", code, stderr)
	}
	s.DropAt("", 0)
	stdout, stderr, code := runAt(s.Addr(), "load", "k", lines, "--skip", "20")
	if code != 0 || !strings.Contains(stdout, "filter               100 lines in 1 layers") {
		t.Errorf("code %d, %s%s", code, stdout, stderr)
	}
}
