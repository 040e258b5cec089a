package main

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress is the bar on a terminal; a nil one shows nothing. What goes wrong in showing it is passed over:
// it is not worth the end of a run.
type progress struct {
	bar  *progressbar.ProgressBar
	size int64
}

// newProgress returns a bar for size bytes, or, if size is -1, one that only shows that something goes on.
func newProgress(out *os.File, size int64) *progress {
	if size == 0 {
		return nil // done before it could be shown
	}
	return &progress{size: size, bar: progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(out),
		progressbar.OptionSetWidth(20),
		progressbar.OptionShowBytes(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)}
}

// show moves the bar to a position in the input and says beside it what was done. A file that grows has more than its
// size.
func (p *progress) show(bytesRead int64, format string, args ...any) {
	if p == nil {
		return
	}
	if p.size > 0 {
		bytesRead = min(bytesRead, p.size)
	}
	p.bar.Describe(fmt.Sprintf(format, args...))
	_ = p.bar.Set64(bytesRead)
}

// clear takes the bar off the screen.
func (p *progress) clear() {
	if p != nil {
		_ = p.bar.Clear()
	}
}
