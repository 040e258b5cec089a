package cliflags

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"
)

// Seconds is a flag that takes a number of seconds, which may have decimals.
type Seconds time.Duration

func (s *Seconds) String() string {
	return strconv.FormatFloat(time.Duration(*s).Seconds(), 'f', -1, 64)
}

func (s *Seconds) Type() string { return "SECONDS" }

func (s *Seconds) Set(text string) error {
	const most = 1e9
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= most) {
		return fmt.Errorf("must be 0 to %.0f seconds", most)
	}
	*s = Seconds(n * float64(time.Second))
	return nil
}

// fileValue is a flag that takes the name of a file.
type fileValue struct{ name *string }

// FileVar makes a flag that takes the name of a file. It refuses an empty name: it may come from a variable that is not
// set, and the thing that the file protects would be open to all.
func FileVar(flags *pflag.FlagSet, name *string, flag, usage string) {
	flags.Var(fileValue{name}, flag, usage)
}

func (f fileValue) String() string {
	if f.name == nil { // pflag makes a zero value, to compare defaults with
		return ""
	}
	return *f.name
}

func (f fileValue) Type() string { return "string" }

func (f fileValue) Set(text string) error {
	if text == "" {
		return errors.New("must be the name of a file, and it is empty")
	}
	*f.name = text
	return nil
}

// Bytes is a flag that takes a number of bytes, which may have a unit.
type Bytes int64

func (b *Bytes) String() string {
	if *b == 0 {
		return ""
	}
	return humanize.IBytes(uint64(*b))
}

func (b *Bytes) Type() string { return "BYTES" }

func (b *Bytes) Set(text string) error {
	n, err := humanize.ParseBytes(text)
	if err != nil || n < 1 || n > 1<<62 {
		return errors.New("must be a number of bytes, 1 or more, such as 64MiB")
	}
	*b = Bytes(n)
	return nil
}

// Span is a flag that takes a time in whole seconds: a number with the unit s, m, h, d or w, or without one for seconds.
type Span time.Duration

// units are the units of a Span, the longest first.
var units = []struct {
	name string
	long time.Duration
}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}

func (s *Span) String() string {
	if *s == 0 {
		return ""
	}
	for _, u := range units {
		if time.Duration(*s)%u.long == 0 {
			return strconv.FormatInt(int64(time.Duration(*s)/u.long), 10) + u.name
		}
	}
	return time.Duration(*s).String()
}

func (s *Span) Type() string { return "TIME" }

func (s *Span) Set(text string) error {
	const most = 100 * 366 * 24 * time.Hour
	number, long := text, time.Second
	for _, u := range units {
		if left, found := strings.CutSuffix(text, u.name); found {
			number, long = left, u.long
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil || n < 1 || n > uint64(most/long) {
		return errors.New("must be a time of 1s to 36600d, such as 90s, 30m, 24h, 7d or 2w")
	}
	*s = Span(time.Duration(n) * long)
	return nil
}
