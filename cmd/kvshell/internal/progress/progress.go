// Package progress shows on a terminal how far a run has come.
package progress

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Bar is a bar on a terminal; a nil one shows nothing. Errors of showing it are ignored: they are no reason to end a run.
type Bar struct {
	bar  *progressbar.ProgressBar
	size int64
}

// New returns a bar for size bytes, or, if size is -1, one that only shows that something goes on.
func New(out *os.File, size int64) *Bar {
	if size == 0 {
		return nil // done before it could be shown
	}
	return &Bar{size: size, bar: progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(out),
		progressbar.OptionSetWidth(20),
		progressbar.OptionShowBytes(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)}
}

// Show moves the bar to a position in the input and says beside it what was done. A file that grows has more than its
// size.
func (p *Bar) Show(bytesRead int64, format string, args ...any) {
	if p == nil {
		return
	}
	if p.size > 0 {
		bytesRead = min(bytesRead, p.size)
	}
	p.bar.Describe(fmt.Sprintf(format, args...))
	_ = p.bar.Set64(bytesRead)
}

// Clear takes the bar off the screen.
func (p *Bar) Clear() {
	if p != nil {
		_ = p.bar.Clear()
	}
}

// Counts are how many lines were read, and how many of those were new.
type Counts struct {
	Lines, New uint64
}

// PerSecond returns a rate.
func PerSecond(n uint64, took time.Duration) float64 { return float64(n) / max(took.Seconds(), 1e-9) }
