package cliflags

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
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
		return errors.New("must be a number of bytes, such as 64MiB")
	}
	*b = Bytes(n)
	return nil
}
