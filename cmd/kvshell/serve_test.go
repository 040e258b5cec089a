package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
)

// The process ends though the store does not close, and says so.
func TestLastResort(t *testing.T) {
	var said bytes.Buffer
	code := make(chan int)
	l := &lastResort{after: time.Millisecond, stderr: &said, exit: func(c int) { code <- c }}
	l.begin()
	l.begin() // SHUTDOWN after SIGTERM
	if got := <-code; got != exit.Local || !strings.Contains(said.String(), "could not be closed within 1ms") {
		t.Errorf("ended with %d, saying %q", got, said.String())
	}
	l.stop()
	// One that was stopped does not begin any more.
	ended := &lastResort{after: time.Hour, stderr: &said, exit: func(int) { t.Error("ended") }}
	ended.stop()
	ended.begin()
	if ended.timer.Stop() {
		t.Error("begins after stop")
	}
}
