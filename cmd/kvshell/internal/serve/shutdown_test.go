package serve

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
)

// The process ends though the store does not close, and says so.
func TestLastResort(t *testing.T) {
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	code := make(chan int)
	l := &lastResort{after: time.Millisecond, log: log, exit: func(c int) { code <- c }}
	l.begin()
	l.begin() // SHUTDOWN after SIGTERM
	if got := <-code; got != exit.Local || !strings.Contains(said.String(), "was not closed in time") {
		t.Errorf("ended with %d, saying %q", got, said.String())
	}
	l.stop()
	// One that was stopped does not begin any more.
	ended := &lastResort{after: time.Hour, log: log, exit: func(int) { t.Error("ended") }}
	ended.stop()
	ended.begin()
	if ended.timer.Stop() {
		t.Error("begins after stop")
	}
}
