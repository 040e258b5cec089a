package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/servertest"
	"github.com/sievekv/sievekv/internal/migrate/rdb/rdbtest"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/tests/redisbloom"
)

// runs runs kvshell, and returns what it prints, and its exit code.
func runs(t *testing.T, env []string, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.Command("kvshell", args...)
	cmd.Env = append(os.Environ(), env...)
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, code := runs(t, nil, args...)
	if code != exit.OK {
		t.Fatalf("%q: code %d\n%s", args, code, out)
	}
	return out
}

func cuckooDump(t *testing.T, n int) []redisbloom.Chunk {
	t.Helper()
	c, err := redisbloom.NewCuckoo(64, 2, 20, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := c.Add(fmt.Appendf(nil, "item:%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	return c.Dump()
}

func TestImportRDB(t *testing.T) {
	dir := t.TempDir()
	store, name := filepath.Join(dir, "store"), filepath.Join(dir, "dump.rdb")
	write := func(file []byte) {
		if err := os.WriteFile(name, file, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := rdbtest.New(11).Aux("redis-ver", "7.4.1").
		Set("row", "value").Key(0, "number").Raw(0xc0, 7).
		ExpireAt(time.Now().Add(1000*time.Hour).UnixMilli()).Set("lives", "x").
		ExpireAt(1).Set("expired", "x").
		Key(1, "list").Raw(1).Text("a").
		Filter("bag", "MBbloomCF", cuckooDump(t, 300)).
		Bytes()
	damaged := append(file[:len(file):len(file)], 0)
	damaged[len(damaged)-2] ^= 1
	write(damaged)
	if out, code := runs(t, nil, "-d", store, "import-rdb", name); code != exit.Corrupt {
		t.Errorf("a damaged file: code %d, %s", code, out)
	}
	if _, err := os.Stat(store); err == nil {
		t.Error("a damaged file makes a store")
	}
	write(file)
	const list = `string "row" 5 bytes
string "number" 1 bytes
string "lives" 1 bytes
MBbloomCF "bag" 300 items, 448 bytes
would be copied      4
expired              1
left out             1 of type list
`
	if got := mustRun(t, "-d", store, "import-rdb", name, "--dry-run"); got != list {
		t.Errorf("%s", got)
	}
	if _, err := os.Stat(store); err == nil {
		t.Error("a dry run makes a store")
	}
	for _, want := range []string{"strings copied       3\nfilters copied       1\nequal already        0\n", "strings copied       0\nfilters copied       0\nequal already        4\n"} {
		if got := mustRun(t, "-d", store, "import-rdb", name); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := mustRun(t, "-d", store, "MGET", "row", "number", "lives", "expired"); got != "value\n7\nx\n\n" {
		t.Errorf("%q", got)
	}
	if got := mustRun(t, "-d", store, "CF.MEXISTS", "bag", "item:0", "item:299"); got != "1\n1\n" {
		t.Errorf("%q", got)
	}
	if got := mustRun(t, "-d", store, "TTL", "lives"); len(got) < 7 {
		t.Errorf("TTL %q", got)
	}
	if out, code := runs(t, nil, "-d", store, "import-rdb", "-"); code != exit.Corrupt {
		t.Errorf("an empty standard input: code %d, %s", code, out)
	}
	mustRun(t, "-d", store, "SET", "row", "other")
	if out, code := runs(t, nil, "-d", store, "import-rdb", name); code != exit.Refused || !strings.Contains(out, `"row" exists with another value`) {
		t.Errorf("code %d, %s", code, out)
	}
	mustRun(t, "-d", store, "import-rdb", name, "--on-conflict", "replace")
	if got := mustRun(t, "-d", store, "GET", "row"); got != "value\n" {
		t.Errorf("%q", got)
	}
}

// serverOf serves a store in memory with RedisBloom's layout, and returns its address as a URI.
func serverOf(t *testing.T, commands ...[]string) (s *servertest.Server, uri string) {
	t.Helper()
	s, err := servertest.Start("tcp", "127.0.0.1:0", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	session := module.NewSession(s.DB)
	for _, words := range append([][]string{{"CONFIG", "SET", "bf-layout", "compatible", "cf-layout", "compatible"}}, commands...) {
		var b [][]byte
		for _, word := range words {
			b = append(b, []byte(word))
		}
		if r := session.Do(t.Context(), b); r.IsError() {
			t.Fatalf("%q: %s", words, r)
		}
	}
	return s, "redis://" + s.Addr()
}

// filled are the commands that fill a server.
func filled() (commands [][]string) {
	for i := range 600 {
		commands = append(commands, []string{"SET", fmt.Sprint("s", i), fmt.Sprint("value ", i)})
	}
	bag := []string{"CF.INSERT", "bag", "CAPACITY", "64", "ITEMS"}
	for i := range 300 {
		bag = append(bag, fmt.Sprint("item:", i))
	}
	return append(commands, []string{"SET", "lives", "x", "EX", "1000000"}, bag, []string{"CF.RESERVE", "empty", "100"},
		[]string{"CF.ADD", "lives too", "x"}, []string{"EXPIRE", "lives too", "1000000"})
}

// dumps returns the dumps of the cuckoo filters of a server, whose keys have a prefix.
func dumps(t *testing.T, s *servertest.Server, prefix string) (all string) {
	t.Helper()
	for _, key := range []string{prefix + "bag", prefix + "lives too"} {
		for _, iter := range []string{"0", "1"} {
			r := module.NewSession(s.DB).Do(t.Context(), [][]byte{[]byte("CF.SCANDUMP"), []byte(key), []byte(iter)})
			all += fmt.Sprint(r)
		}
	}
	return all
}

func TestPull(t *testing.T) {
	from, uri := serverOf(t, filled()...)
	to, back := serverOf(t)
	store := filepath.Join(t.TempDir(), "store")
	const all = "strings copied       601\nfilters copied       3\nequal already        0\n"
	if got := mustRun(t, "-d", store, "pull", "--from", uri); !strings.HasSuffix(got, all) {
		t.Errorf("%s", got)
	}
	if got := mustRun(t, "-d", store, "pull", "--from", uri); got != "strings copied       0\nfilters copied       0\nequal already        604\n" {
		t.Errorf("%s", got)
	}
	if got := mustRun(t, "-d", store, "push", "--to", back); got != all {
		t.Errorf("%s", got)
	}
	if got, want := dumps(t, to, ""), dumps(t, from, ""); got != want {
		t.Error("the dumps differ")
	}
	for _, key := range []string{"lives", "lives too"} {
		if got := mustRun(t, "-u", back, "TTL", key); len(got) < 6 {
			t.Errorf("TTL of %q: %s", key, got)
		}
	}
	if got := mustRun(t, "-u", back, "CF.INFO", "empty"); !strings.Contains(got, "Bucket size\n2\n") {
		t.Errorf("%s", got)
	}
	mustRun(t, "-d", store, "SET", "lives", "other")
	if out, code := runs(t, nil, "-d", store, "pull", "--from", uri); code != exit.Refused || strings.Contains(out, "again") {
		t.Errorf("another value: code %d, %s", code, out)
	}
	if out, code := runs(t, nil, "-d", store, "pull", "--from", "redis://127.0.0.1:1"); code != exit.Open {
		t.Errorf("no server: code %d, %s", code, out)
	}
	for _, args := range [][]string{{"pull"}, {"pull", "--from", "http://x"}, {"pull", "--from", uri, "--on-conflict", "x"}, {"pull", "--from", uri, "more"}} {
		if out, code := runs(t, nil, append([]string{"-d", store}, args...)...); code != exit.Usage {
			t.Errorf("%q: code %d, %s", args, code, out)
		}
	}
}

// TestPull_bloom copies Bloom filters.
func TestPull_bloom(t *testing.T) {
	b, err := redisbloom.NewBloom(100, 0.01, 2, false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		if _, err := b.Add(fmt.Appendf(nil, "item:%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	store, name := filepath.Join(dir, "store"), filepath.Join(dir, "dump.rdb")
	if err := os.WriteFile(name, rdbtest.New(11).Filter("seen", "MBbloom--", b.Dump()).Set("row", "x").Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code := runs(t, nil, "-d", store, "import-rdb", name)
	if code != exit.OK {
		t.Fatalf("code %d, %s", code, out)
	}
	to, back := serverOf(t)
	mustRun(t, "-d", store, "push", "--to", back)
	for iter := int64(0); ; {
		want := b.Scan(iter)
		r := module.NewSession(to.DB).Do(t.Context(), [][]byte{[]byte("BF.SCANDUMP"), []byte("seen"), fmt.Append(nil, iter)}).RESP2()
		if got := r.Elems(); len(got) != 2 || got[0].Int() != want.Iter || !bytes.Equal(got[1].Bytes(), want.Data) {
			t.Errorf("iter %d: %.200s", iter, r)
		}
		if iter = want.Iter; iter == 0 {
			break
		}
	}
	if got := mustRun(t, "-d", store, "import-rdb", name); !strings.Contains(got, "equal already        2\n") {
		t.Errorf("%s", got)
	}
}

// TestPull_long pulls and pushes a bitmap that is longer than what SET takes.
func TestPull_long(t *testing.T) {
	const last = "134217727" // of 16 MiB
	from, uri := serverOf(t, []string{"SETBIT", "long", last, "1"}, []string{"SETBIT", "long", "1000", "1"}, []string{"SET", "short", "x"})
	to, back := serverOf(t)
	store := filepath.Join(t.TempDir(), "store")
	const all = "strings copied       2\nfilters copied       0\nequal already        0\n"
	if got := mustRun(t, "-d", store, "pull", "--from", uri); !strings.HasSuffix(got, all) {
		t.Errorf("%s", got)
	}
	if got := mustRun(t, "-d", store, "push", "--to", back); got != all {
		t.Errorf("%s", got)
	}
	get := func(s *servertest.Server) []byte {
		return module.NewSession(s.DB).Do(t.Context(), [][]byte{[]byte("GET"), []byte("long")}).Bytes()
	}
	if len(get(from)) != 16<<20 || !bytes.Equal(get(to), get(from)) {
		t.Error("the bitmaps differ")
	}
	if got := mustRun(t, "-u", back, "DBSIZE"); got != "2\n" {
		t.Errorf("%s keys", got)
	}
}

var redisBloom = flag.String("redisbloom", "", "`URI` of a Redis with RedisBloom, on which keys that begin with sievekv-test: are made")

// TestPull_redisBloom copies to a real RedisBloom, and back. Without the address of one, a server of another store stands
// for it.
func TestPull_redisBloom(t *testing.T) {
	const prefix = "sievekv-test:"
	bloom := *redisBloom
	if bloom == "" {
		_, bloom = serverOf(t)
	}
	from, uri := serverOf(t, filled()...)
	to, back := serverOf(t)
	dir := t.TempDir()
	there, again := filepath.Join(dir, "there"), filepath.Join(dir, "again")
	mustRun(t, "-d", there, "pull", "--from", uri)
	mustRun(t, "-d", there, "push", "--to", bloom, "--prefix", prefix, "--on-conflict", "replace")
	mustRun(t, "-d", again, "pull", "--from", bloom, "--match", prefix+"*")
	mustRun(t, "-d", again, "push", "--to", back)
	if got, want := dumps(t, to, prefix), dumps(t, from, ""); got != want {
		t.Error("the dumps differ")
	}
}

// TestPull_native pushes filters with the native layout to another store, and pulls them from there.
func TestPull_native(t *testing.T) {
	_, uri := serverOf(t)
	dir := t.TempDir()
	store, again := filepath.Join(dir, "store"), filepath.Join(dir, "again")
	mustRun(t, "-d", store, "CF.ADD", "cuckoo", "x")
	mustRun(t, "-d", store, "BF.ADD", "bloom", "x")
	mustRun(t, "-d", store, "push", "--to", uri)
	mustRun(t, "-d", again, "pull", "--from", uri)
	for _, c := range []string{"CF.EXISTS cuckoo", "BF.EXISTS bloom"} {
		words := strings.Fields(c)
		if got := mustRun(t, "-d", again, words[0], words[1], "x"); got != "1\n" {
			t.Errorf("%s x answers %q", c, got)
		}
	}
	// Dumps have the ids of objects, and no log: so of what a Bloom filter is, its layers are compared.
	for _, c := range []string{"CF.DEBUG cuckoo", "CF.INFO cuckoo", "BF.DEBUG bloom"} {
		words := strings.Fields(c)
		if got, want := mustRun(t, append([]string{"-d", again}, words...)...), mustRun(t, append([]string{"-d", store}, words...)...); got != want {
			t.Errorf("%s answers %q, want %q", c, got, want)
		}
	}
}

// TestPull_crash kills pulls at every kind of step. The next pull completes.
func TestPull_crash(t *testing.T) {
	from, uri := serverOf(t, filled()...)
	for _, at := range []string{"strings:1", "strings:3", "chunk:1", "chunk:3", "loaded:1", "filter:1"} {
		store := filepath.Join(t.TempDir(), "store")
		if out, code := runs(t, []string{crashVariable + "=" + at}, "-d", store, "pull", "--from", uri); code == exit.OK {
			t.Errorf("%s: not killed: %s", at, out)
		}
		mustRun(t, "-d", store, "pull", "--from", uri)
		if got := mustRun(t, "-d", store, "DBSIZE"); got != "604\n" {
			t.Errorf("%s: %s keys", at, got)
		}
		to, back := serverOf(t)
		mustRun(t, "-d", store, "push", "--to", back)
		if got, want := dumps(t, to, ""), dumps(t, from, ""); got != want {
			t.Errorf("%s: the dumps differ", at)
		}
	}
}

// TestPush_crash kills pushes at every kind of step. The next push completes, and leaves nothing behind.
func TestPush_crash(t *testing.T) {
	from, uri := serverOf(t, filled()...)
	store := filepath.Join(t.TempDir(), "store")
	mustRun(t, "-d", store, "pull", "--from", uri)
	for _, at := range []string{"strings:1", "strings:3", "chunk:1", "chunk:3", "loaded:1", "filter:1"} {
		to, back := serverOf(t)
		if out, code := runs(t, []string{crashVariable + "=" + at}, "-d", store, "push", "--to", back); code == exit.OK {
			t.Errorf("%s: not killed: %s", at, out)
		}
		mustRun(t, "-d", store, "push", "--to", back)
		if got := mustRun(t, "-u", back, "DBSIZE"); got != "604\n" {
			t.Errorf("%s: %s keys", at, got)
		}
		if got, want := dumps(t, to, ""), dumps(t, from, ""); got != want {
			t.Errorf("%s: the dumps differ", at)
		}
	}
}

// What docs/MIGRATING.md shows works, with a server in place of the one that it names.
func TestDocs_migrating(t *testing.T) {
	_, uri := serverOf(t, filled()...)
	dir := t.TempDir()
	file := rdbtest.New(11).Set("row of a file", "value").Filter("bag of a file", "MBbloomCF", cuckooDump(t, 300)).Bytes()
	files := map[string][]byte{"dump.rdb": file, "items.txt": []byte("a\nb\n")}
	for name, from := range map[string]string{"users.bloom": "guava64", "urls.bloom": "bits-and-blooms", "sessions.bits": "redisson"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "bloomext", "testdata", from+".bloom"))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = data
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for line := range strings.Lines(readDoc(t, "docs/MIGRATING.md")) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "kvshell ") {
			continue
		}
		n++
		cmd := exec.Command("sh", "-c", strings.ReplaceAll(line, "redis://127.0.0.1:6379", uri))
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	if n != 13 {
		t.Errorf("%d commands, want 13", n)
	}
}

// A compressed file is decompressed on the way; one that is cut off is refused. No copy is left.
func TestImportRDB_compressed(t *testing.T) {
	dir, temporary := t.TempDir(), t.TempDir()
	file, store := filepath.Join(dir, "dump.rdb.gz"), filepath.Join(dir, "store")
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(rdbtest.New(13).Set("k", "v").Bytes())
	if err := errors.Join(err, z.Close(), os.WriteFile(file, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	if out, code := runs(t, []string{"TMPDIR=" + temporary}, "-d", store, "import-rdb", file); code != exit.OK || !strings.Contains(out, "strings copied       1\n") {
		t.Errorf("code %d, %s", code, out)
	}
	if err := os.WriteFile(file, b.Bytes()[:b.Len()-9], 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := runs(t, []string{"TMPDIR=" + temporary}, "-d", store, "import-rdb", file); code != exit.Local || !strings.Contains(out, "what gzip has compressed: ") {
		t.Errorf("cut off: code %d, %s", code, out)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A server that wants a password leaves no store behind.
func TestPull_noStore(t *testing.T) {
	s, err := servertest.Start("tcp", "127.0.0.1:0", "secret", nil)
	if err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(t.TempDir(), "store")
	if out, code := runs(t, nil, "-d", store, "pull", "--from", "redis://"+s.Addr()); code == exit.OK || !strings.Contains(out, "NOAUTH") {
		t.Errorf("code %d, %s", code, out)
	}
	if _, err := os.Stat(store); !os.IsNotExist(err) {
		t.Errorf("there is a store: %v", err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

// A server that listens and says nothing is given up in the end, and so is one that announces more than a value may be.
func TestPull_hostile(t *testing.T) {
	for said, want := range map[string]string{
		"": "the server has said nothing for 50ms", "$9000000000\r\n": "Protocol error, a string of 9000000000 bytes, at most 536870912",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if c, err := l.Accept(); err == nil {
				_, _ = c.Read(make([]byte, 1))
				_, _ = io.WriteString(c, said)
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			}
		}()
		store := filepath.Join(t.TempDir(), "store")
		out, code := runs(t, nil, "-d", store, "pull", "--from", "redis://"+l.Addr().String(), "--reply-timeout", "0.05")
		if code != exit.Open || !strings.Contains(out, want) {
			t.Errorf("code %d, %s", code, out)
		}
		_ = l.Close()
		<-ended
	}
}
