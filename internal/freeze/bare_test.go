package freeze_test

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// TestPebbleAlone shows what FS is for. It runs Pebble on the faulty file system itself, in a process of its own.
// Pebble dies when a log cannot be created.
//
// Measured with every call of TestTorture whose error freezes the directory, 354 runs, each in a process of its own
// with one failing call and a logger whose Fatalf returns (Pebble 2.1.7, 2 cores, Linux, November 2026): 153 panicked,
// 52 lost acknowledged writes, 49 more called Fatalf, which by default exits, 3 hung, and 97 ended well.
func TestPebbleAlone(t *testing.T) {
	const marker = "SIEVEKV_TEST_PEBBLE_ALONE"
	if os.Getenv(marker) != "" {
		runPebbleAlone(&fault{site: site{"create", "log"}, nth: 2})
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestPebbleAlone$")
	cmd.Env = append(os.Environ(), marker+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("panic: ")) || !bytes.Contains(out, []byte("rotateWAL")) {
		t.Fatalf("Pebble has learned to survive: %v\n%s", err, out)
	}
}

func runPebbleAlone(f *fault) {
	r := newRun()
	db, err := pebble.Open(dir, smallOptions(&faultFS{FS: r.disk, dir: dir, fault: f}, &listener{}))
	if err != nil {
		panic("not reached: " + err.Error())
	}
	for i := range sessions[0] {
		if err := db.Set(keysOf(i)[0], make([]byte, 2000), pebble.Sync); err != nil {
			return
		}
	}
}
