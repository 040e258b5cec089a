package tests_test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const modulePath = "github.com/sievekv/sievekv"

const (
	pebble     = "github.com/cockroachdb/pebble"
	pebbleVFS  = pebble + "/v2/vfs" // the file system of Options.FS
	prometheus = "github.com/prometheus/client_golang"
	ristretto  = "github.com/dgraph-io/ristretto"
	roaring    = "github.com/RoaringBitmap/roaring"
	xxhash     = "github.com/cespare/xxhash"
	gobreaker  = "github.com/sony/gobreaker"
	raft       = "go.etcd.io/raft"
	protobuf   = "google.golang.org/protobuf" // of raft's messages
)

// rule says what the packages that match a pattern may import besides the standard library. Patterns are
// relative to the module: "." is the root package, "kv" that package alone, "kv/..." also the packages
// below, "..." all. The first rule that matches a package holds.
type rule struct {
	packages string
	ours     []string // patterns of packages of this module
	others   []string // modules, without their major version; "..." is any but Pebble and ristretto
	storage  bool     // may import Pebble and ristretto even if others names neither
}

// engine is the engine with the leaves that filters and modules use.
var engine = []string{"kv", "internal/block", "internal/check", "internal/format", "internal/glob", "internal/hash", "internal/memory", "internal/probe", "internal/radix", "internal/residency", "internal/text", "internal/use"}

// engineAnd returns the engine and other packages.
func engineAnd(names ...string) []string { return slices.Concat(engine, names) }

// extension is what a filter type needs: the engine, modules, and growth.
var extension = engineAnd("module/...", "scalableext", "internal/filtercmd", "internal/dump")

// flagModules are for the command line.
var flagModules = []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/dustin/go-humanize"}

// kinds are the types of filter, and runs what a run of kvshell over the lines of an input needs.
var (
	kinds = engineAnd("module/...", "scalableext", "internal/filtercmd", "internal/dump", "bloomext", "cuckooext", "countingext")
	runs  = append(shell("input", "filters", "progress", "exit", "cliflags"), "kv", "module/reply", "scalableext")
)

// shell returns packages of kvshell.
func shell(names ...string) (packages []string) {
	for _, name := range names {
		packages = append(packages, "cmd/kvshell/internal/"+name)
	}
	return packages
}

// public are the packages that programs of users build on.
var public = []string{".", "kv", "module/...", "coreext", "bitmapext", "bloomext", "cuckooext", "countingext", "scalableext", "compaction", "backup", "portable", "salvage", "txn", "metrics", "guard", "server", "dashboard"}

// rules is the plan of the packages, from the bottom up: arrows point down only. Extensions know neither
// transactions nor each other, so that a store may have any of them. Pebble is used by internal/storage alone, and
// ristretto by internal/residency alone, so that either can be replaced or upgraded there; tests may use them to crash a store. Raft's log
// is a Pebble of its own: it has other keys, other options and other promises than a store, so it shares with internal/storage what keeps
// Pebble from a failing disk (internal/freeze), and no more.
var rules = []rule{
	{packages: "internal/probe", others: []string{xxhash}},
	{packages: "internal/seeds"},
	{packages: "internal/hash", ours: []string{"internal/probe", "internal/seeds"}},
	{packages: "internal/block", ours: []string{"internal/probe"}, others: []string{roaring}},
	{packages: "internal/glob"},
	{packages: "internal/text"},
	{packages: "internal/queue"},
	{packages: "internal/lastchange"},
	{packages: "internal/radix"},
	{packages: "internal/gate"},
	{packages: "internal/freeze", others: []string{pebbleVFS}},
	{packages: "internal/format", ours: []string{"internal/block"}},
	{packages: "internal/expiry", ours: []string{"internal/format"}},
	{packages: "internal/hot"},
	{packages: "internal/watch"},
	{packages: "internal/use"},
	{packages: "internal/dirsync", others: []string{pebbleVFS}},
	{packages: "internal/residency", others: []string{ristretto}},
	{packages: "internal/storage/files", ours: []string{"internal/format", "internal/freeze"}, others: []string{pebbleVFS}},
	{packages: "internal/storage/remains", ours: []string{"internal/block", "internal/format", "internal/freeze", "internal/text", "internal/storage/files"}, others: []string{pebble}},
	{packages: "internal/storage/image", ours: []string{"internal/block", "internal/format"}, others: []string{pebble}},
	{packages: "internal/storage", ours: []string{"internal/storage/image", "internal/block", "internal/dirsync", "internal/format", "internal/freeze", "internal/probe", "internal/radix", "internal/text", "internal/seeds", "internal/storage/files", "internal/storage/remains"}, others: []string{pebble}},
	{packages: "internal/check", ours: []string{"internal/format", "internal/storage", "internal/storage/remains"}},
	{packages: "internal/memory", ours: []string{"internal/block", "internal/format", "internal/lastchange", "internal/residency"}},
	{packages: "kv", ours: []string{"internal/block", "internal/check", "internal/format", "internal/memory", "internal/storage", "internal/storage/image", "internal/storage/remains", "internal/queue", "internal/gate", "internal/expiry", "internal/hot", "internal/watch", "internal/residency", "internal/probe", "internal/hash", "internal/glob", "internal/text", "internal/use"}, others: []string{pebbleVFS, xxhash}},
	{packages: "internal/kvtest", others: []string{pebbleVFS}},
	{packages: "internal/kvtest/seeded", ours: []string{"internal/seeds"}},
	{packages: "module/reply"},
	{packages: "module", ours: []string{"kv", "internal/text", "module/reply"}},
	{packages: "bitmapext", ours: engineAnd("module/..."), others: []string{roaring}},
	{packages: "backup", ours: []string{"kv", "internal/dirsync", "internal/storage/files"}, others: []string{pebbleVFS}},
	{packages: "salvage", ours: []string{"kv", "internal/block", "internal/check", "internal/dirsync", "internal/format", "internal/storage", "internal/storage/remains"}, others: []string{pebbleVFS}},
	{packages: "coreext", ours: []string{"kv", "internal/check", "internal/glob", "internal/text", "module/...", "bitmapext", "backup"}},
	{packages: "internal/coretest", ours: engineAnd("module/...", "coreext")},
	{packages: "scalableext", ours: engineAnd("module/...")},
	{packages: "internal/filtercmd", ours: engineAnd("module/...", "scalableext")},
	{packages: "internal/dump", ours: engineAnd("module/...", "scalableext", "internal/filtercmd")},
	{packages: "bloomext", ours: extension},
	{packages: "cuckooext", ours: extension},
	{packages: "countingext", ours: extension},
	{packages: "portable", ours: engineAnd("module", "bitmapext", "scalableext", "bloomext", "cuckooext", "countingext")},
	{packages: "txn", ours: engineAnd("module/...")},
	{packages: "internal/txntest", ours: []string{"kv"}},
	{packages: "compaction", ours: engineAnd("module")},
	{packages: "metrics", ours: []string{"kv"}, others: []string{prometheus}},
	{packages: ".", ours: engineAnd("bitmapext", "bloomext", "cuckooext", "countingext", "scalableext", "txn", "compaction", "backup", "portable", "salvage", "metrics", "module", "coreext"), others: []string{prometheus, roaring}},
	{packages: "guard", ours: []string{".", "kv"}, others: []string{prometheus, gobreaker, "golang.org/x/sync", "golang.org/x/time"}},
	{packages: "internal/live"},
	{packages: "dashboard", ours: []string{"kv", "internal/block", "internal/hash", "internal/text", "internal/use", "module", "scalableext", "bloomext", "cuckooext", "countingext", "internal/live"}},
	{packages: "internal/resp", ours: []string{"module/reply"}},
	{packages: "internal/acl", ours: []string{"internal/glob", "internal/text", "module"}},
	{packages: "internal/cluster", ours: []string{"module/reply"}},
	{packages: "server", ours: engineAnd("internal/dirsync", "module/...", "txn", "metrics", "internal/resp", "internal/acl", "internal/cluster", "internal/live"), others: []string{prometheus, "github.com/dustin/go-humanize"}},
	{packages: "internal/entry", ours: []string{"internal/format"}},
	{packages: "internal/member", ours: []string{"internal/format", "internal/entry"}, others: []string{raft, protobuf}},
	{packages: "internal/wire", others: []string{raft, protobuf}},
	{packages: "internal/raftlog", ours: []string{"internal/dirsync", "internal/freeze", "internal/text"}, others: []string{pebble, raft, protobuf}},
	{packages: "replica", ours: []string{".", "kv", "internal/dirsync", "internal/format", "internal/storage", "internal/storage/files", "internal/storage/image", "internal/entry", "internal/member", "internal/raftlog", "internal/wire", "internal/cluster"}, others: []string{raft, protobuf, pebbleVFS}},
	{packages: "replica/admin", ours: []string{"kv", "internal/text", "module/...", "replica"}},
	{packages: "internal/migrate/rdb"},
	{packages: "internal/migrate/rdb/rdbtest", ours: []string{"tests/redisbloom"}},
	{packages: "internal/migrate", ours: []string{"internal/migrate/rdb", "module/reply", "internal/dump"}},
	{packages: "cmd/kvshell/internal/crashpoint"},
	{packages: "cmd/kvshell/internal/system"},
	{packages: "cmd/kvshell/internal/suggest"},
	{packages: "cmd/kvshell/internal/progress", others: []string{"github.com/schollz/progressbar", "golang.org/x/term"}},
	{packages: "cmd/kvshell/internal/exit", ours: []string{"kv", "module/reply", "scalableext", "internal/migrate", "internal/migrate/rdb"}},
	{packages: "cmd/kvshell/internal/cliflags", ours: shell("exit", "suggest"), others: flagModules},
	{packages: "cmd/kvshell/internal/cmdline", ours: []string{"module/reply", "internal/resp"}},
	{packages: "cmd/kvshell/internal/text"},
	{packages: "cmd/kvshell/internal/input", ours: shell("exit", "system", "text"), others: append([]string{xxhash, "github.com/klauspost/compress"}, flagModules...)},
	{packages: "cmd/kvshell/internal/filters", ours: slices.Concat(shell("exit", "cliflags"), kinds), others: flagModules},
	{packages: "cmd/kvshell/internal/dedup", ours: slices.Concat(runs, shell("crashpoint", "cmdline", "system", "tty"), []string{"internal/dirsync"}), others: slices.Concat(flagModules, []string{xxhash})},
	{packages: "cmd/kvshell/internal/report", ours: slices.Concat(shell("exit", "filters"), kinds, []string{"portable"})},
	{packages: "cmd/kvshell/internal/bench", ours: []string{"bloomext", "kv", "scalableext"}},
	{packages: "cmd/kvshell/internal/tty", ours: append(shell("exit"), "module/reply"), others: []string{"golang.org/x/term"}},
	{packages: "cmd/kvshell/internal/edit", others: []string{"github.com/rivo/uniseg", "golang.org/x/sys", "golang.org/x/term"}},
	{packages: "cmd/kvshell/internal/edit/screentest", others: []string{"github.com/rivo/uniseg"}},
	{packages: "cmd/kvshell/internal/prompt", ours: append(shell("edit", "exit", "cmdline", "suggest", "system"), "module", "module/reply", "internal/resp"), others: flagModules},
	{packages: "cmd/kvshell/internal/client", ours: append(shell("exit", "cliflags", "cmdline", "system", "text"), "module/...", "internal/resp"), others: flagModules},
	{packages: "cmd/kvshell/internal/load", ours: slices.Concat(runs, shell("crashpoint", "cmdline", "client")), others: flagModules},
	{packages: "cmd/kvshell/internal/serve", ours: append(shell("cliflags", "exit", "system", "text", "suggest"), "kv", "module", "server", "internal/resp", "internal/acl", "internal/cluster", "dashboard", "replica", "replica/admin", "internal/member"), others: append([]string{"github.com/mdlayher/sdnotify"}, flagModules...)},
	{packages: "cmd/kvshell/internal/reference", ours: []string{"replica", "replica/admin", ".", "kv", "module/...", "server", "internal/cluster", "internal/resp"}},
	{packages: "cmd/kvshell/internal/servertest", ours: append(shell("cmdline"), ".", "kv", "module/...", "server", "internal/resp")},
	{packages: "cmd/kvshell", ours: []string{"..."}, others: []string{"..."}},
	{packages: "examples/...", ours: append(public, "examples/..."), others: []string{xxhash}},
	{packages: "bench/...", ours: append(public, "internal/...")},
	{packages: "tests/...", ours: []string{"..."}, others: []string{"..."}, storage: true},
}

// forbidden returns what is wrong with the imports of a package, a line for each.
func forbidden(pkg string, imports []string) []string {
	i := slices.IndexFunc(rules, func(r rule) bool { return matches(r.packages, relative(pkg)) })
	if i < 0 {
		return []string{pkg + " is in no rule: say what it may import"}
	}
	var wrong []string
	for _, imported := range imports {
		if !rules[i].allows(imported) {
			wrong = append(wrong, pkg+" must not import "+imported)
		}
	}
	return wrong
}

func (r rule) allows(imported string) bool {
	within := func(module string) bool { return matches(module+"/...", imported) }
	switch first, _, _ := strings.Cut(imported, "/"); {
	case matches(modulePath+"/...", imported):
		return slices.ContainsFunc(r.ours, func(p string) bool { return matches(p, relative(imported)) })
	case !strings.Contains(first, "."): // the standard library
		return true
	case slices.ContainsFunc(r.others, within):
		return true
	case within(pebble), within(ristretto):
		return r.storage
	default:
		return slices.Contains(r.others, "...")
	}
}

// relative returns the path of a package within this module, "." for the root.
func relative(pkg string) string {
	if pkg == modulePath {
		return "."
	}
	return strings.TrimPrefix(pkg, modulePath+"/")
}

func matches(pattern, pkg string) bool {
	if pattern == "..." {
		return true
	}
	if dir, below := strings.CutSuffix(pattern, "/..."); below {
		return pkg == dir || strings.HasPrefix(pkg, dir+"/")
	}
	return pkg == pattern
}

// Files for other systems import too, so the packages are listed for each.
func TestArrows(t *testing.T) {
	visitDirectories(t)
	for _, system := range []string{"linux", "darwin", "windows"} {
		t.Run(system, func(t *testing.T) {
			packages := listPackages(t, system)
			if _, ok := packages[modulePath+"/tests"]; !ok {
				t.Errorf("go list does not list the package of this test, but %d others", len(packages))
			}
			for name, p := range packages {
				for _, wrong := range forbidden(name, p.Imports) {
					t.Error(wrong)
				}
			}
		})
	}
}

// No test that makes stores depends on their seeds, except tests that kill processes: their seeds must be found again.
func TestArrows_seeded(t *testing.T) {
	visitDirectories(t)
	for name, p := range listPackages(t, "linux") {
		imports := slices.Concat(p.TestImports, p.XTestImports)
		makesStores := slices.Contains(imports, modulePath+"/kv") || slices.Contains(imports, modulePath)
		if makesStores && relative(name) != "tests/crash" && !slices.Contains(imports, modulePath+"/internal/kvtest/seeded") {
			t.Errorf("the tests of %s must import internal/kvtest/seeded", name)
		}
	}
}

// visitDirectories reads the directories of the module. The go command caches the results of tests, and
// watches for that what a test process itself reads, not what a go list that it starts does: without
// this, a new import would be found only once something else has changed.
func visitDirectories(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != ".." {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// pkg has the imports of a package, of its tests within the package, and of those outside of it.
type pkg struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

// listPackages returns the packages of the module by their paths.
func listPackages(t *testing.T, system string) map[string]pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = ".." // the root of the module
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	packages := make(map[string]pkg)
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
}

func TestArrows_rules(t *testing.T) {
	const own = modulePath + "/"
	tests := []struct {
		pkg, imported string
		allowed       bool
	}{
		{"kv", "sync/atomic", true},
		{"kv", own + "internal/block", true},
		{"kv", pebble + "/v2/vfs", true},
		{"kv", ristretto + "/v2", false},
		{"internal/residency", ristretto + "/v2", true},
		{"internal/residency", own + "internal/block", false},
		{"kv", roaring + "/v2", false},
		{"kv", own + "kv/unlisted", false},
		{"kv", own + "txn", false},
		{"kv", modulePath, false},
		{"internal/block", roaring + "/v2", true},
		{"internal/block", pebble + "/v2", false},
		{"internal/block", own + "kv", false},
		{"internal/probe", xxhash + "/v2", true},
		{"internal/probe", own + "internal/block", false},
		{"module/reply", own + "kv", false},
		{"module/reply", xxhash + "/v2", false},
		{"internal/freeze", pebble + "/v2/vfs", true},
		{"internal/freeze", "github.com/cockroachdb/pebble-tools", false},
		{"internal/raftlog", pebble + "/v2", true},
		{"internal/raftlog", own + "internal/storage", false},
		{"internal/raftlog", own + "internal/member", false},
		{"internal/member", pebble + "/v2", false},
		{"internal/storage", raft + "/v3", false},
		{"scalableext", own + "kv", true},
		{"scalableext", own + "bloomext", false},
		{"bloomext", own + "scalableext", true},
		{"bloomext", own + "module/reply", true},
		{"bloomext", own + "cuckooext", false},
		{"bloomext", own + "txn", false},
		{"bloomext", pebble + "/v2", false},
		{"txn", own + "bloomext", false},
		{"compaction", own + "kv", true},
		{"compaction", own + "scalableext", false},
		{".", own + "txn", true},
		{".", own + "server", false},
		{".", own + "guard", false},
		{"guard", modulePath, true},
		{"guard", gobreaker + "/v2", true},
		{"guard", own + "bloomext", false},
		{".", ristretto + "/v2", false},
		{"server", own + "txn", true},
		{"server", own + "internal/live", true},
		{"server", own + "dashboard", false},
		{"dashboard", own + "server", false},
		{"dashboard", own + "bloomext", true},
		{"server", modulePath, false},
		{"internal/acl", own + "module", true},
		{"kv", own + "module", false},
		{"kv", own + "module/reply", false},
		{"module", own + "coreext", false},
		{"coreext", own + "bloomext", false},
		{"internal/acl", own + "server", false},
		{"cmd/kvshell", modulePath, true},
		{"cmd/kvshell", own + "server", true},
		{"cmd/kvshell", "github.com/spf13/cobra", true},
		{"cmd/kvshell", pebble + "/v2", false},
		{"cmd/kvshell/internal/exit", own + "cmd/kvshell", false},
		{"examples/guard", modulePath, true},
		{"examples/guard", own + "cmd/kvshell", false},
		{"examples/guard", pebble + "/v2", false},
		{"bench", own + "bloomext", true},
		{"tests", own + "kv", true},
		{"tests/torture", pebble + "/v2/vfs/errorfs", true},
		{"unlisted", "fmt", false},
		{"kv/unlisted", "fmt", false},
		{"kvx", "fmt", false},
	}
	for _, tt := range tests {
		pkg := own + tt.pkg
		if tt.pkg == "." {
			pkg = modulePath
		}
		wrong := forbidden(pkg, []string{"fmt", tt.imported})
		if (len(wrong) == 0) != tt.allowed {
			t.Errorf("%s importing %s: %q", tt.pkg, tt.imported, wrong)
		}
		for _, line := range wrong {
			if !strings.Contains(line, pkg) {
				t.Errorf("%q does not name %s", line, pkg)
			}
		}
	}
}
