package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/kvtest"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// Every store a test opens it closes: no goroutine may be left.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a store on fs with a seed of hashes, which makes estimates repeatable.
func open(t *testing.T, fs vfs.FS, seed uint64) *kv.DB {
	t.Helper()
	db, err := kv.Open("store", &kv.Options{
		FS: fs, Seed: seed, BallastSize: -1, MinFreeSpace: -1, Logger: slog.New(slog.DiscardHandler),
		Modules: coreext.With(bloomext.Module(), compaction.Module(), hllModule()),
	})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func closeDB(t *testing.T, db *kv.DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// items returns items from to to-1 of a sequence of different ones.
func items(from, to int) []string {
	list := make([]string, 0, to-from)
	for i := from; i < to; i++ {
		list = append(list, fmt.Sprintf("item%d", i))
	}
	return list
}

func addItems(t *testing.T, s *module.Session, key string, items []string) (changed bool) {
	t.Helper()
	r := do(s, append([]string{"HLL.ADD", key}, items...)...)
	if r.Kind() != reply.KindInt {
		t.Fatalf("HLL.ADD of %d items answers %s", len(items), r)
	}
	return r.Int() == 1
}

func countOf(t *testing.T, s *module.Session, key string) int64 {
	t.Helper()
	r := do(s, "HLL.COUNT", key)
	if r.Kind() != reply.KindInt {
		t.Fatalf("HLL.COUNT answers %s", r)
	}
	return r.Int()
}

func logBytes(t *testing.T, db *kv.DB) uint64 {
	t.Helper()
	n, err := db.LogBytesWritten()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func wantReply(t *testing.T, s *module.Session, command, want string) {
	t.Helper()
	if got := do(s, strings.Fields(command)...).String(); got != want {
		t.Errorf("%s\n got %s\nwant %s", command, got, want)
	}
}

// The seed is fixed, as a right estimate too is now and then off by more than that: of random seeds, one in some
// hundred at 100 and at 1,000,000 items, and one in 25 at 10,000, where the estimate is biased.
func TestCount(t *testing.T) {
	db := open(t, vfs.NewMem(), 1)
	defer closeDB(t, db)
	s := module.NewSession(db)
	if n := countOf(t, s, "n"); n != 0 {
		t.Errorf("a missing key counts %d", n)
	}
	added := 0
	for _, n := range []int{1, 100, 10_000, 1_000_000} {
		for added < n {
			next := min(n, added+1000)
			addItems(t, s, "n", items(added, next))
			added = next
		}
		got := countOf(t, s, "n")
		deviation := float64(got)/float64(n) - 1
		t.Logf("%d items: %d, %+.1f standard errors", n, got, deviation/standardError)
		if math.Abs(deviation) > 3*standardError {
			t.Errorf("%d items: estimate is %d, off by %.1f %%", n, got, 100*deviation)
		}
	}
}

func TestAdd_repeated(t *testing.T) {
	db := open(t, vfs.NewMem(), 1)
	defer closeDB(t, db)
	s := module.NewSession(db)
	start := logBytes(t, db)
	if !addItems(t, s, "n", items(0, 5000)) {
		t.Error("new items change nothing")
	}
	before := logBytes(t, db)
	if before == start {
		t.Error("new items write nothing")
	}
	for range 3 {
		if addItems(t, s, "n", items(0, 5000)) {
			t.Error("items added before change the counter")
		}
	}
	if after := logBytes(t, db); after != before {
		t.Errorf("items added before write %d bytes", after-before)
	}
}

// The counter keeps the seed it was made with.
func TestReopen(t *testing.T) {
	fs := vfs.NewMem()
	db := open(t, fs, 1)
	addItems(t, module.NewSession(db), "n", items(0, 5000))
	want := countOf(t, module.NewSession(db), "n")
	closeDB(t, db)

	db = open(t, fs, 2)
	defer closeDB(t, db)
	if got := countOf(t, module.NewSession(db), "n"); got != want {
		t.Errorf("counts %d, before it was opened again %d", got, want)
	}
	if addItems(t, module.NewSession(db), "n", items(0, 5000)) {
		t.Error("items added before change the counter")
	}
}

// The disk crashes at moments between and during adds. Adding again what was
// acknowledged changes a counter that lacks any of it.
func TestCrash(t *testing.T) {
	const seed, n, every = 1, 300, 10
	disk := kvtest.NewDisk()
	db := open(t, disk, seed)
	defer closeDB(t, db)
	acked := make(chan int)
	go func() {
		defer close(acked)
		s := module.NewSession(db)
		for i := range n {
			if r := do(s, "HLL.ADD", "n", items(i, i+1)[0]); r.IsError() {
				t.Error(r)
				return
			}
			acked <- i + 1
		}
	}()
	rng := rand.New(rand.NewPCG(seed, 0))
	for acked := range acked {
		if acked%every != 0 {
			continue
		}
		unsynced := rng.IntN(3) * 50
		clone := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rng})
		crashed := open(t, clone, seed)
		if addItems(t, module.NewSession(crashed), "n", items(0, acked)) {
			t.Errorf("crash after add %d, keeping %d %% of what was not synced: adds are lost", acked, unsynced)
		}
		closeDB(t, crashed)
	}
}

func TestMerge(t *testing.T) {
	db := open(t, vfs.NewMem(), 1)
	defer closeDB(t, db)
	s := module.NewSession(db)
	a, b, c := items(0, 6000), items(4000, 12_000), items(12_000, 12_500)
	addItems(t, s, "a", a)
	addItems(t, s, "b", b)
	addItems(t, s, "c", c)
	addItems(t, s, "union", items(0, 12_500))
	wantReply(t, s, "HLL.MERGE ab a missing b", "OK") // makes it
	wantReply(t, s, "HLL.MERGE ab ab c", "OK")        // adds to it
	wantReply(t, s, "EXISTS missing", "(integer) 0")
	if got, want := countOf(t, s, "ab"), countOf(t, s, "union"); got != want {
		t.Errorf("the merged counter counts %d, one with all items %d", got, want)
	}
	for _, source := range [][]string{a, b, c} {
		if addItems(t, s, "ab", source) {
			t.Error("items of a source change the merged counter")
		}
	}
	if !addItems(t, s, "ab", items(12_500, 14_000)) {
		t.Error("the merged counter has items of no source")
	}
	wantReply(t, s, "HLL.MERGE none missing", "OK")
	wantReply(t, s, "HLL.COUNT none", "(integer) 0")
	before := logBytes(t, db)
	wantReply(t, s, "HLL.MERGE union a b c", "OK")
	if after := logBytes(t, db); after != before {
		t.Errorf("a merge of what was there writes %d bytes", after-before)
	}
}

func TestMerge_seeds(t *testing.T) {
	fs := vfs.NewMem()
	db := open(t, fs, 1)
	addItems(t, module.NewSession(db), "a", items(0, 10))
	closeDB(t, db)
	db = open(t, fs, 2)
	defer closeDB(t, db)
	s := module.NewSession(db)
	addItems(t, s, "b", items(0, 10))
	wantReply(t, s, "HLL.MERGE dest b a",
		`(error) ERR counters cannot be merged: seed of hashes of "dest" is 1, of "b" 2`)
	wantReply(t, s, "EXISTS dest", "(integer) 0")
}

func TestErrors(t *testing.T) {
	db := open(t, vfs.NewMem(), 1)
	defer closeDB(t, db)
	s := module.NewSession(db)
	wantReply(t, s, "BF.RESERVE filter 0.01 100 NONSCALING", "OK")
	wantReply(t, s, "HLL.ADD counter a", "(integer) 1")
	wrongType := "(error) " + string(module.WrongType.Bytes())
	for _, command := range []string{
		"HLL.ADD filter a", "HLL.COUNT filter", "HLL.MERGE filter counter", "HLL.MERGE counter filter", "BF.ADD counter a",
	} {
		wantReply(t, s, command, wrongType)
	}
	wantReply(t, s, "HLL.COUNT counter", "(integer) 1")
	wantReply(t, s, "hll.add counter", "(error) ERR wrong number of arguments for 'hll.add' command")
	if docs := do(s, "COMMAND", "DOCS", "hll.merge").String(); !strings.Contains(docs, "HLL.MERGE dest src [src ...]") {
		t.Errorf("COMMAND DOCS has no syntax: %s", docs)
	}
}

func TestVerify(t *testing.T) {
	db := open(t, vfs.NewMem(), 1)
	defer closeDB(t, db)
	addItems(t, module.NewSession(db), "n", items(0, 5000))
	report, err := db.Check(context.Background())
	if err != nil || len(report.Problems)+len(report.Notes) > 0 {
		t.Fatalf("check: %v, %v, %v", report.Problems, report.Notes, err)
	}
	err = db.Write(kv.Always, [][]byte{[]byte("n")}, func(w *kv.Writer) error {
		h, err := staged(w, []byte("n"), 1)
		if err == nil {
			_, err = w.SetBits(h.object, h.table, 2, []uint16{5*64 + maxRank + 1})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	report, err = db.Check(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(report.Problems); n != 1 || !strings.Contains(report.Problems[0].Error(), "register 2053 ") {
		t.Errorf("check of a counter with a bit that no item sets finds %v", report.Problems)
	}
}

// The program, with the module and then without it. Of a single word the count is certain.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	if err := run(&out, dir, false, strings.NewReader("a a\n a")); err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.String(), "> HLL.COUNT words", "(integer) 1", "HLL.ADD key item [item ...]")
	out.Reset()
	if err := run(&out, dir, true, nil); err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.String(),
		`kv.As: kv: module not registered: "words" holds a hyperloglog of module "hll"`,
		"check: 1 keys, 1 blocks, 0 problems",
		`check: key "words": module "hll" is not registered, what it alone knows was not checked`,
		"> DBSIZE", "(integer) 1",
		"> TYPE words", "hyperloglog",
		"> HLL.COUNT words", "(error) ERR unknown command 'HLL.COUNT', with args beginning with: 'words' ",
		"> RENAME words words:old", "OK",
		"> TYPE words:old", "hyperloglog",
		"> DEL words:old", "(integer) 1",
		"> DBSIZE", "(integer) 0",
	)
	if err := run(&out, dir, true, nil); err == nil {
		t.Error("no error for a store without the key")
	}
}

// wantLines fails the test unless out has the lines, in this order.
func wantLines(t *testing.T, out string, lines ...string) {
	t.Helper()
	rest := "\n" + out
	for _, line := range lines {
		_, after, found := strings.Cut(rest, "\n"+line+"\n")
		if !found {
			t.Fatalf("no line %q where it belongs in\n%s", line, out)
		}
		rest = "\n" + after
	}
}

func TestEstimate_empty(t *testing.T) {
	if n := estimate(make([]uint64, numRegisters)); n != 0 {
		t.Errorf("no items: estimate is %v", n)
	}
}
