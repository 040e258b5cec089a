// Package progress shows on a terminal how far a run has come.
package progress

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Bar is a progress bar on a terminal. A nil Bar shows nothing. Errors of writing it are ignored: a run goes on
// without its bar.
type Bar struct {
	bar  *progressbar.ProgressBar
	size int64
}

// New returns a bar for size bytes. If size is -1, for unknown, the bar only shows that the run goes on.
func New(out *os.File, size int64) *Bar {
	if size == 0 {
		return nil // the run ends before a bar could be seen
	}
	return newBar(out, size, func() int {
		width, _, _ := term.GetSize(int(out.Fd())) // 0 if it is not known
		return width
	})
}

func newBar(out io.Writer, size int64, width func() int) *Bar {
	return &Bar{size: size, bar: progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(&fitted{out: out, width: width}),
		progressbar.OptionSetWidth(20),
		progressbar.OptionShowBytes(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)}
}

// Show moves the bar to a position in the input, and writes a text beside it. A file that grows may be read beyond
// its size.
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

// Counts are how many lines were read, and how many of these were new.
type Counts struct {
	Lines, New uint64
}

// PerSecond returns a rate.
func PerSecond(n uint64, took time.Duration) float64 { return float64(n) / max(took.Seconds(), 1e-9) }
