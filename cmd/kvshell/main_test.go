package main

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/client"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/serve"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/servertest"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// urlList is a list of 59,206 lines, 30,072 of them different.
var urlList = filepath.Join("..", "..", "examples", "crawl-urls.txt.gz")

// mutationVariable chooses a mutation of tests/mutate in the test binary, also where that is the program.
const mutationVariable = "SIEVEKV_MUTATION"

// The test binary, called kvshell, is the program: testscript.Main puts it on the PATH. So tests run real
// processes, which can be killed.
func TestMain(m *testing.M) {
	serve.DrainTime, client.TabTimeout, client.TableTimeout = time.Hour, time.Hour, time.Hour
	serve.MetricsTimes.Header, serve.MetricsTimes.Write, serve.MetricsTimes.Idle = time.Hour, time.Hour, time.Hour
	testscript.Main(m, map[string]func(){"kvshell": func() {
		ballastSize = -1
		crashWhere(os.Getenv(crashVariable))
		hangWhere(os.Getenv(hangVariable))
		crowdAt(os.Getenv(crowdVariable))
		main()
	}})
}

func TestScript(t *testing.T) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("PID", strconv.Itoa(os.Getpid()))
			env.Setenv(mutationVariable, os.Getenv(mutationVariable))
			env.Setenv("LIST", filepath.Join(dir, urlList))
			env.Setenv("FOREIGN", filepath.Join(dir, "..", "..", "bloomext", "testdata"))
			env.Values[heldStores{}] = new(*kv.DB)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":    expectCode,
			"chomp":   chompFile,
			"hold":    holdStore,
			"release": releaseStore,
			"foreign": makeForeign,
			"cut":     cutPipe,
			"flip":    flipBit,
			"serve":   serveScript,
		},
	})
}

// code N PROGRAM ARGS... runs a program that must exit with the code N, which is not 0.
func expectCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N program [args...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		got = failed.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// cut PROGRAM ARGS... runs a program whose standard output is a pipe that nobody reads. It must fail, and not be killed.
func cutPipe(ts *testscript.TestScript, _ bool, args []string) {
	r, w, err := os.Pipe()
	ts.Check(err)
	ts.Check(r.Close())
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Stdout = ts.MkAbs("."), w
	err = cmd.Run()
	ts.Check(w.Close())
	if failed := (*exec.ExitError)(nil); !errors.As(err, &failed) || !failed.Exited() {
		ts.Fatalf("%v, want an exit code", err)
	}
}

// chomp FILE... takes the line break off the end of files.
func chompFile(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		text := strings.TrimSuffix(ts.ReadFile(name), "\n")
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o666))
	}
}

// heldStores is where hold keeps a script's store.
type heldStores struct{}

// hold DIR opens a store in the process of the test, so that the program finds it in use until release.
func holdStore(ts *testscript.TestScript, _ bool, args []string) {
	*ts.Value(heldStores{}).(**kv.DB) = openStore(ts, args[0])
}

func releaseStore(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check((*ts.Value(heldStores{}).(**kv.DB)).Close())
}

// foreign DIR KEY makes a key of a type that the program does not know.
func makeForeign(ts *testscript.TestScript, _ bool, args []string) {
	shape := &kv.Type{Name: "test-shape", Version: 1, Open: func(*kv.Object) (any, error) { return nil, nil }}
	db := openStore(ts, args[0], module.Module{Name: "test", Types: []*kv.Type{shape}})
	key := []byte(args[1])
	ts.Check(db.Write(kv.DurabilityDefault, [][]byte{key}, func(w *kv.Writer) error {
		_, err := w.Create(key, kv.Spec{Type: shape})
		return err
	}))
	ts.Check(db.Close())
}

func openStore(ts *testscript.TestScript, dir string, more ...module.Module) *kv.DB {
	db, err := kv.Open(ts.MkAbs(dir), &kv.Options{
		BallastSize: -1, Logger: slog.New(slog.DiscardHandler), Modules: module.New(append(sievekv.Modules(), more...)...),
	})
	ts.Check(err)
	return db
}

// flip PATTERN flips a bit in the middle of the largest file that matches.
func flipBit(ts *testscript.TestScript, _ bool, args []string) {
	names, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	var largest string
	var bytes []byte
	for _, name := range names {
		b, err := os.ReadFile(name)
		ts.Check(err)
		if len(b) > len(bytes) {
			largest, bytes = name, b
		}
	}
	if largest == "" {
		ts.Fatalf("no file matches %s", args[0])
	}
	bytes[len(bytes)/2] ^= 1
	ts.Check(os.WriteFile(largest, bytes, 0o666))
}

// serve VARIABLE [PASSWORD] starts a server for a script, whose port goes to a variable. With a name that ends in
// .sock it is on a Unix socket of this name, with TLS as a variable it has a certificate, in cert.pem.
func serveScript(ts *testscript.TestScript, _ bool, args []string) {
	network, address, password := "tcp", "127.0.0.1:0", ""
	if len(args) > 1 {
		password = args[1]
	}
	if strings.HasSuffix(args[0], ".sock") {
		network, address = "unix", ts.MkAbs(args[0])
	}
	var config *tls.Config
	if args[0] == "TLS" {
		var cert []byte
		var err error
		config, cert, err = servertest.Certificate()
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs("cert.pem"), cert, 0o666))
	}
	s, err := servertest.Start(network, address, password, config)
	ts.Check(err)
	ts.Defer(func() { ts.Check(s.Stop()) })
	if network == "tcp" {
		ts.Setenv(args[0], s.Port())
	}
}
