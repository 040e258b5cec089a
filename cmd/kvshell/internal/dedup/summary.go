package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/filters"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/input"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/progress"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// explain adds to the error that ended a run how far the run came, and how to go on.
func (p *Pass) explain(err error) error {
	var own *exit.Error
	switch {
	case p.begun && errors.Is(err, input.ErrUnreadable):
		return exit.WithCode(exit.Code(err), fmt.Errorf("after %d lines: %w. The same command again ends here again, unless the file is mended: %s",
			p.done.Lines, err, p.wayOut()))
	case !p.begun, errors.As(err, &own) && own.Code == exit.Refused:
		return err
	case errors.Is(err, scalableext.ErrFull):
		return exit.Refusef("the filter %q is full: it holds the %d lines it was made for and does not grow. Of %s %d lines are done, %d of them new; for the next new one there is no room. Start over without --non-scaling or with a larger --capacity, and with a new KEY and OUT",
			p.key, p.capacity, p.in, p.done.Lines, p.done.New)
	case errors.Is(err, scalableext.ErrCannotGrow):
		return exit.Refusef("the filter %q has grown as far as it can. Of %s %d lines are done, %d of them new; for the next new one there is no room. Start over with a larger --capacity or a higher --error, and with a new KEY and OUT: %w",
			p.key, p.in, p.done.Lines, p.done.New, err)
	case errors.Is(err, kv.ErrNotFound) && p.out != nil:
		return exit.Refusef("the filter %q is gone: it expired, or was deleted. Of %s %d lines were done, %d of them new. %s",
			p.key, p.in, p.done.Lines, p.done.New, p.startOver(p.started))
	case errors.Is(err, kv.ErrNotFound):
		return exit.Refusef("the filter %q is gone: it expired, or was deleted. Of %s %d lines were done, %d of them new; the same command again makes a new filter and reads from the beginning",
			p.key, p.in, p.done.Lines, p.done.New)
	case errors.Is(err, context.Canceled):
		return exit.WithCode(exit.Interrupted, fmt.Errorf("interrupted after %d lines, %d of them new; %s", p.done.Lines, p.done.New, p.goOn()))
	}
	err = fmt.Errorf("after %d lines: %w", p.done.Lines, err)
	if code := exit.Code(err); code == exit.Local {
		return exit.WithCode(code, fmt.Errorf("%w; %s", err, p.goOn()))
	}
	return err
}

// wayOut says what to do about an input that cannot be read to its end.
func (p *Pass) wayOut() string {
	if p.out == nil {
		return input.WayOut
	}
	return input.WayOut + ", and finishes. Until then KEY and OUT take no other FILE, unless --restart forgets this one"
}

func (p *Pass) goOn() string {
	if p.out != nil {
		return "the same command again goes on from there"
	}
	if p.unconfirmed > 0 {
		return fmt.Sprintf("the same command again reads from the beginning and prints what is missing, and perhaps the last %d lines once more", p.unconfirmed)
	}
	return "the same command again reads from the beginning and prints what is missing"
}

// summary tells what a finished run did: on standard output, or on standard error if the lines went to standard output.
func (p *Pass) summary(took time.Duration) error {
	facts, err := p.filter.Facts()
	if err != nil {
		return err
	}
	disk, err := p.db.DiskBytes()
	if err != nil {
		return err
	}
	to := p.stdout
	if p.out == nil {
		to = p.notes
	}
	read := fmt.Sprint(p.done.Lines)
	if p.resumed.Lines > 0 {
		read += fmt.Sprintf(" (%d of them before the interruption)", p.resumed.Lines)
	}
	_, err = fmt.Fprintf(to, `lines read           %s
new                  %d
seen before          %d
rate                 %.0f lines/s
%s`,
		read, p.done.New, p.done.Lines-p.done.New, progress.PerSecond(p.done.Lines-p.resumed.Lines, took),
		filters.Summary(facts, disk))
	return exit.WithCode(exit.Local, err)
}
