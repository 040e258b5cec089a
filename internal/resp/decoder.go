package resp

import (
	"bytes"
	"io"
	"slices"
)

const (
	minBuffer  = 16 << 10 // size of a Decoder's first buffer, which is what Redis reads at once
	restBuffer = 512      // size of the buffer after Rest
)

// minSpans is how many words a Decoder makes room for at first, unless the command has fewer.
const minSpans = 8

// Decoder finds commands in what a client sent. Fill reads bytes into its buffer, Next takes commands out of it:
//
//	for {
//		words, ok, err := d.Next()
//		switch {
//		case err != nil: // tell the client and close
//		case ok: // run the command
//		default:
//			if _, err := d.Fill(conn); err != nil { // the client is gone
//		}
//	}
//
// The buffer doubles when it is full, up to Limits.Buffer. The Decoder remembers how far it has parsed an incomplete
// command, so that it looks at each byte once.
//
// Commands are read as Redis 7.0 reads them. The byte after the CR of a line with a length, and the two bytes after a
// word, are skipped whatever they are. An inline line ends in LF, with or without a CR before it. One difference:
// Redis never completes an inline line with a zero byte; here a zero byte is like any other.
type Decoder struct {
	next   Limits // for the next commands
	limits Limits // for the command at start

	buf   []byte // buf[start:] was received and not yet returned by Next
	start int    // where the next command begins
	pos   int    // how far that command is parsed
	seen  int    // buf[pos:seen] has no line end

	missing int    // words that are still missing, 0 before their number is known
	bulk    int    // length of the word at pos, -1 before it is known
	size    int64  // bytes of the words so far
	spans   []span // the words so far
	words   [][]byte
	err     error
}

// span is where a word is, counted from the start of its command, because the buffer may move before the command is
// complete. The limits keep commands below 4 GiB.
type span struct{ from, to uint32 }

// NewDecoder returns a decoder with these limits.
func NewDecoder(l Limits) *Decoder {
	d := &Decoder{}
	d.SetLimits(l)
	d.begin()
	return d
}

// SetLimits sets the limits for the following commands. A command that Next has seen in part keeps its limits.
func (d *Decoder) SetLimits(l Limits) { d.next = l.orDefaults() }

// Buffered returns the number of bytes that were received and not yet returned by Next.
func (d *Decoder) Buffered() int { return len(d.buf) - d.start }

// Partial reports whether bytes are left. If Next found no command, they are the beginning of one.
func (d *Decoder) Partial() bool { return d.Buffered() > 0 }

// Size returns how much memory the Decoder holds once more is read: at first one buffer, later at most four times the
// bytes received, and up to 64 bytes for each word, but at least 256 if there are any words.
func (d *Decoder) Size() int {
	const spanSize, wordSize = 8, 24
	return d.room() + spanSize*cap(d.spans) + wordSize*cap(d.words)
}

// Shrink frees the memory of large commands and a buffer larger than Limits.Buffer, if no bytes are left. The words
// of the last command are not valid after it.
func (d *Decoder) Shrink() {
	if d.Buffered() > 0 || d.Size() <= 2*minBuffer && cap(d.buf) <= d.next.Buffer {
		return
	}
	d.buf, d.spans, d.words = nil, nil, nil
	d.start = 0
	d.begin()
}

// Rest frees most of the memory of a Decoder without bytes, for a client that has been silent for a while. The next
// Fill reads few bytes; when it has filled the small buffer, the next one reads as many as usual. Rest reports
// whether it freed anything.
func (d *Decoder) Rest() bool {
	if d.Buffered() > 0 || cap(d.buf) <= restBuffer {
		return false
	}
	d.buf, d.spans, d.words = make([]byte, 0, restBuffer), nil, nil
	d.start = 0
	d.begin()
	return true
}

// Fill reads once from r, and returns what r.Read returns.
func (d *Decoder) Fill(r io.Reader) (int, error) {
	d.makeRoom()
	n, err := r.Read(d.buf[len(d.buf):cap(d.buf)])
	d.buf = d.buf[:len(d.buf)+n]
	return n, err
}

// makeRoom makes sure that at least a quarter of the buffer is free. It doubles the buffer only if more than half of
// it is in use, and moves the bytes only if that makes half of the buffer free. So it moves each byte less than
// twice, and the buffer is less than four times as large as its content. It replaces the small buffer of Rest once
// that is full.
func (d *Decoder) makeRoom() {
	used, free := d.Buffered(), cap(d.buf)-len(d.buf)
	if n := d.room(); n > cap(d.buf) {
		d.move(make([]byte, used, n))
	} else if used == 0 || free <= n/4 {
		d.move(d.buf[:used])
	}
}

// room returns the size that makeRoom gives the buffer.
func (d *Decoder) room() int {
	used, free := d.Buffered(), cap(d.buf)-len(d.buf)
	switch {
	case cap(d.buf) >= d.next.Buffer:
		return cap(d.buf)
	case cap(d.buf) == 0 && d.next.Buffer < minBuffer: // a buffer with a small limit starts as small as after Rest
		return min(restBuffer, d.next.Buffer)
	case free == 0 && cap(d.buf) < minBuffer:
		return min(minBuffer, d.next.Buffer)
	case used > cap(d.buf)/2 && free <= cap(d.buf)/4:
		return min(2*cap(d.buf), d.next.Buffer)
	}
	return cap(d.buf)
}

// move moves the bytes in use to the start of dst.
func (d *Decoder) move(dst []byte) {
	copy(dst, d.buf[d.start:])
	d.buf = dst
	d.pos -= d.start
	d.seen -= d.start
	d.start = 0
}

// Next returns the words of the next command, at least one. It is not ok if it needs more bytes. It skips commands
// without words: a blank line, or *0. The words are valid until the next call of Next, Fill or Shrink. An error is a
// ProtocolError; all later calls return it too.
func (d *Decoder) Next() (words [][]byte, ok bool, err error) {
	for d.err == nil && d.start < len(d.buf) {
		if d.pos == d.start {
			d.limits = d.next
		}
		words, ok, d.err = d.command()
		if d.err == nil && !ok && d.Buffered() >= d.limits.Buffer {
			d.err = errBuffer(d.limits.Buffer)
		}
		if d.err != nil || !ok {
			return nil, false, d.err
		}
		d.start = d.pos
		d.begin()
		if len(words) > 0 {
			return words, true, nil
		}
	}
	return nil, false, d.err
}

// begin prepares for parsing the next command.
func (d *Decoder) begin() {
	d.pos, d.seen = d.start, d.start
	d.missing, d.bulk, d.size = 0, -1, 0
	d.spans = d.spans[:0]
}

// command goes on parsing the command at start, and returns its words if it is complete. There may be no words.
func (d *Decoder) command() (words [][]byte, ok bool, err error) {
	if d.buf[d.start] != '*' {
		return d.inline()
	}
	if d.missing == 0 {
		if ok, err := d.count(); !ok || d.missing == 0 {
			return nil, ok, err
		}
	}
	for d.missing > 0 {
		if ok, err := d.word(); !ok {
			return nil, false, err
		}
	}
	d.words = d.words[:0]
	for _, s := range d.spans {
		from, to := d.start+int(s.from), d.start+int(s.to)
		d.words = append(d.words, d.buf[from:to:to])
	}
	return d.words, true, nil
}

// inline parses an inline command.
func (d *Decoder) inline() ([][]byte, bool, error) {
	line, ok, err := d.line('\n', errInline)
	if !ok {
		return nil, false, err
	}
	d.pos += len(line) + len("\n")
	words, err := Split(bytes.TrimSuffix(line, []byte("\r")))
	if err != nil {
		return nil, false, errQuotes
	}
	return words, true, nil
}

// count parses the line with the number of words. It leaves missing at 0 if there are no words.
func (d *Decoder) count() (ok bool, err error) {
	line, ok, err := d.lengthLine(errArgsLine)
	if !ok {
		return false, err
	}
	n, ok := parseInt(line[1:])
	if !ok {
		return false, errArgs
	}
	if err := d.limits.checkArgs(n); err != nil {
		return false, err
	}
	d.missing = int(max(n, 0))
	return true, nil
}

// word parses the line with a word's length, and the word.
func (d *Decoder) word() (ok bool, err error) {
	if d.bulk < 0 {
		if ok, err := d.length(); !ok {
			return false, err
		}
	}
	if len(d.buf)-d.pos < d.bulk+len("\r\n") {
		return false, nil
	}
	from := d.pos - d.start
	if len(d.spans) == cap(d.spans) {
		// append would grow a long slice by a quarter, which makes five times as much garbage.
		d.spans = slices.Grow(d.spans, min(max(len(d.spans), minSpans), d.missing))
		// command fills words at the end. Making room for them now lets Size count their memory early.
		d.words = slices.Grow(d.words[:0], cap(d.spans))
	}
	d.spans = append(d.spans, span{uint32(from), uint32(from + d.bulk)})
	d.pos += d.bulk + len("\r\n")
	d.seen = d.pos
	d.bulk = -1
	d.missing--
	return true, nil
}

// length parses the line with the length of a word.
func (d *Decoder) length() (ok bool, err error) {
	line, ok, err := d.lengthLine(errBulkLine)
	switch {
	case !ok:
		return false, err
	case len(line) == 0: // the line begins with the CR that ends it
		return false, errExpectedBulk('\r')
	case line[0] != '$':
		return false, errExpectedBulk(line[0])
	}
	n, ok := parseInt(line[1:])
	if !ok {
		return false, errBulk
	}
	if err := d.limits.checkBulk(n, d.size); err != nil {
		return false, err
	}
	d.bulk = int(n)
	d.size += n
	return true, nil
}

// lengthLine returns a line with a length, and moves behind it.
func (d *Decoder) lengthLine(tooLong error) (line []byte, ok bool, err error) {
	line, ok, err = d.line('\r', tooLong)
	if !ok || len(d.buf)-d.pos < len(line)+len("\r\n") {
		return nil, false, err
	}
	d.pos += len(line) + len("\r\n")
	d.seen = d.pos
	return line, true, nil
}

// line returns the bytes from pos up to the first end byte.
func (d *Decoder) line(end byte, tooLong error) (line []byte, ok bool, err error) {
	n := bytes.IndexByte(d.buf[d.seen:], end)
	if n >= 0 {
		d.seen += n
	} else {
		d.seen = len(d.buf)
	}
	if d.seen-d.pos > d.limits.Inline {
		return nil, false, tooLong
	}
	return d.buf[d.pos:d.seen], n >= 0, nil
}

// parseInt parses a decimal number as Redis does: no plus sign, leading zeros or blanks, and at most 64 bits.
func parseInt(text []byte) (n int64, ok bool) {
	digits, negative := bytes.CutPrefix(text, []byte("-"))
	if len(digits) == 0 || len(digits) > len("9223372036854775808") {
		return 0, false
	}
	if digits[0] == '0' {
		return 0, len(text) == 1
	}
	var u uint64 // 19 digits fit
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		u = 10*u + uint64(c-'0')
	}
	switch {
	case negative && u <= 1<<63:
		return -int64(u), true
	case !negative && u < 1<<63:
		return int64(u), true
	default:
		return 0, false
	}
}
