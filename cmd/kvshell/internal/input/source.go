package input

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/pflag"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/text"
)

// ErrUnreadable is in the error about an input that can be read up to some place, and no further, however often it is
// read: what was compressed is damaged or cut off, or something else follows it, or a line is too long.
var ErrUnreadable = errors.New("cannot be read any further")

// StopAtDamageVar adds the flag for StopAtDamage to a command.
func StopAtDamageVar(flags *pflag.FlagSet, stop *bool) {
	flags.BoolVar(stop, "stop-at-damage", false, "where FILE is damaged or cut off, take the lines before that place for all of it")
}

// WayOut says what helps with an error that has ErrUnreadable.
const WayOut = "--stop-at-damage takes the lines before that place for all of it"

// bufferSize is the size of the buffers between the file and the lines.
const bufferSize = 256 << 10

// maxWindow is how far back a file compressed by zstd may point: what zstd itself allows without --long.
const maxWindow = 128 << 20

// begin is open. With StopAtDamage, an input that is unreadable from the beginning is empty.
func (in *Input) begin() error {
	err := in.settle(in.open())
	if errors.Is(err, io.EOF) {
		in.r, err = bufio.NewReader(strings.NewReader("")), nil
	}
	return err
}

// open finds out what the input is by its first bytes, and sets r to its text.
func (in *Input) open() error {
	r, by, err := decompress(bufio.NewReaderSize(counting{in}, bufferSize), in.settle)
	if err != nil {
		return err
	}
	if err := in.refuse(r, by); err != nil {
		return err
	}
	in.r, in.encoding, err = text.Decode(r)
	return err
}

// compression is a way to compress a file that is read.
type compression struct{ name, magic, class, command string }

// The magic of zstd begins data, or a frame to skip, with which some programs begin.
var (
	byGzip = compression{"gzip", "\x1f\x8b\x08", "", "gzip -dc FILE"}
	byZstd = compression{"zstd", "\x28\xb5\x2f\xfd", "", "zstd -dc FILE"}
	byPzst = compression{"zstd", "\x50\x2a\x4d\x18", "s===", "zstd -dc FILE"}
)

// compressionOf returns how what r reads is compressed, nil if it is in no way that is read.
func compressionOf(r *bufio.Reader) (*compression, error) {
	for _, c := range []*compression{&byGzip, &byZstd, &byPzst} {
		if is, err := text.Begins(r, c.magic, c.class); err != nil || is {
			return c, err
		}
	}
	return nil, nil
}

// Decompress returns a reader of what a file is compressed from, and how it is compressed; of its bytes and "" if it is not
// compressed in a way that is read.
func Decompress(file io.Reader) (r io.Reader, by string, err error) {
	r, c, err := decompress(bufio.NewReaderSize(file, bufferSize), func(err error) error { return err })
	if c != nil {
		by = c.name
	}
	return r, by, err
}

// decompress returns a reader of what raw is compressed from, and how it is compressed; of raw itself and nil if it is
// not. Settle is as in gunzip.
func decompress(raw *bufio.Reader, settle func(error) error) (*bufio.Reader, *compression, error) {
	by, err := compressionOf(raw)
	if err != nil || by == nil {
		return raw, nil, err
	}
	var r io.Reader = &gunzip{in: raw, settle: settle}
	if by.name == byZstd.name {
		// With one at a time it starts no goroutines, so that nobody has to close it.
		r, err = zstd.NewReader(raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	}
	return bufio.NewReaderSize(r, bufferSize), by, err
}

// refuse returns an error if what r reads is no text. By tells how it was compressed.
func (in *Input) refuse(r *bufio.Reader, by *compression) error {
	kind, err := kindOf(r, by)
	switch {
	case err != nil || kind == nil:
		return err
	case by == nil:
		return exit.Refusef("%s is %s, and not lines of text: %s", in, kind.Name, advice(kind.Lines))
	}
	// The command reads FILE, or what is given to it.
	lines := kind.Lines
	if lines != "" {
		lines = by.command + " | " + strings.Replace(lines, " FILE", " -", 1)
	}
	return exit.Refusef("%s is compressed by %s, and what was compressed is %s, and not lines of text: %s", in, by.name, kind.Name, advice(lines))
}

// kindOf returns what the file is that r reads, nil if it may be a text. By tells how it was compressed.
func kindOf(r *bufio.Reader, by *compression) (*text.Kind, error) {
	if by != nil {
		again, err := compressionOf(r)
		if err != nil {
			return nil, err
		}
		if again != nil {
			return &text.Kind{Name: "compressed by " + again.name + " once more", Lines: again.command}, nil
		}
	}
	return text.KindOf(r)
}

// NotAppendable returns what a file is to which lines of text cannot be appended, "" for one that is a text or empty. It
// reads the first bytes.
func NotAppendable(file io.Reader) (string, error) {
	r := bufio.NewReader(file)
	by, err := compressionOf(r)
	if err != nil {
		return "", err
	}
	if by != nil {
		return "compressed by " + by.name, nil
	}
	kind, err := text.KindOf(r)
	if err != nil {
		return "", err
	}
	if kind != nil {
		return kind.Name, nil
	}
	_, encoding, err := text.Decode(r)
	if encoding != text.UTF16 {
		return "", err
	}
	return "in UTF-16", err
}

// advice says how to get at lines.
func advice(lines string) string {
	if lines == "" {
		return "write the lines that it has to a file of their own first"
	}
	return fmt.Sprintf("give its lines, as in: %s | kvshell ... -", lines)
}

// gunzip reads what gzip has compressed, one member or several. Zeros after a member are padding: tapes, and some
// programs, fill up blocks.
type gunzip struct {
	in     *bufio.Reader
	settle func(error) error // see Input: whether other bytes after a member are an error, or the end
	z      *gzip.Reader
	ended  error
}

func (g *gunzip) Read(p []byte) (n int, err error) {
	for g.ended == nil {
		if g.z == nil {
			g.ended = g.next()
			continue
		}
		n, err = g.z.Read(p)
		if errors.Is(err, io.EOF) {
			g.z = nil // the checksum was right
			err = nil
		}
		if g.ended = err; n > 0 {
			return n, nil
		}
	}
	return 0, g.ended
}

// next begins the next member. It returns io.EOF if there is none.
func (g *gunzip) next() (err error) {
	for {
		c, err := g.in.ReadByte()
		if err != nil {
			return err
		}
		if c != 0 {
			break
		}
	}
	if err := g.in.UnreadByte(); err != nil {
		return err
	}
	switch is, err := text.Begins(g.in, byGzip.magic[:2], ""); {
	case err != nil:
		return err
	case !is:
		return g.settle(errors.New("bytes that gzip has not written follow what it has"))
	}
	if g.z, err = gzip.NewReader(g.in); err != nil {
		return err
	}
	g.z.Multistream(false)
	return nil
}

// unreadable tells an error of the input's bytes from the end, from one of reading the file, and from a refusal.
func (in *Input) unreadable(err error) error {
	var own *exit.Error
	switch {
	case err == nil, in.failed != nil, errors.Is(err, io.EOF), errors.Is(err, errStopped), errors.As(err, &own):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("it is cut off in the middle of compressed data")
	}
	return exit.WithCode(exit.Local, fmt.Errorf("%s %w: %w", in, ErrUnreadable, err))
}
