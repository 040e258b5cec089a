package resp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/sievekv/sievekv/module/reply"
)

const (
	// maxDepth is how deeply arrays, sets and maps may be nested, so that no reply exhausts the stack.
	maxDepth = 128
	// maxLine is the most bytes of a line. The longest lines are error texts.
	maxLine = 1 << 20
	// firstChunk is how many bytes of a string the Reader makes room for before any has come.
	firstChunk = 64 << 10
	// elementBytes is the memory of a reply besides its text, twice: its slice may have room for that number again.
	elementBytes = 128
	// defaultReply is the most memory of a reply, in bytes.
	defaultReply = 2 << 30
)

// MaxString is the most bytes of a string in a reply: no value is longer in Redis.
const MaxString = 512 << 20

// Reader reads the replies of a server, RESP2 or RESP3. A reply with a string of more than MaxString bytes, or that
// takes more memory than a reply may, is an error before there is room for it: announced bytes cost nothing until they
// have come.
type Reader struct {
	r    *bufio.Reader
	most int64 // bytes of a reply
	size int64 // of the last reply, or of what was read of the one that is being read
}

// NewReader returns a reader of replies from r, each of at most 2 GiB of memory. It reads ahead.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, minBuffer), most: defaultReply}
}

// LimitReply sets the most memory of a reply, in bytes.
func (r *Reader) LimitReply(most int64) { r.most = most }

// Size returns about how much memory the last reply takes, in bytes.
func (r *Reader) Size() int64 { return r.size }

// take counts memory of the reply that is being read.
func (r *Reader) take(n int64) error {
	if r.size += n; r.size > r.most {
		return ProtocolError(fmt.Sprintf("the reply takes more than %d bytes of memory: ask for less at a time", r.most))
	}
	return nil
}

// Buffered returns the number of bytes that were read from the server and not yet returned as replies.
func (r *Reader) Buffered() int { return r.r.Buffered() }

// Read returns the next reply. It skips pushes, and attributes, which describe a reply. The reply has the kind of the
// wire: in RESP2 a boolean is an integer. A big number becomes a string, and an error with a length an error, because
// package reply has no kinds for these.
//
// The error is a ProtocolError if the bytes are not a valid reply, io.EOF if the server closed the connection between
// replies, io.ErrUnexpectedEOF if it did so within one, otherwise the underlying reader's error. After an error the
// Reader cannot be used.
func (r *Reader) Read() (reply.Reply, error) {
	for {
		if answer, push, err := r.ReadAny(); !push || err != nil {
			return answer, err
		}
	}
}

// ReadAny is Read, but returns pushes too: push says that the reply, an array, is a push.
func (r *Reader) ReadAny() (answer reply.Reply, push bool, err error) {
	kind, err := r.r.ReadByte()
	if err != nil {
		return reply.Nil, false, err // io.EOF stays as it is here
	}
	r.size = 0
	if push = kind == '>'; push {
		kind = '*'
	}
	answer, err = r.of(kind, maxDepth)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return reply.Nil, false, err
	}
	return answer, push, nil
}

// element reads a reply nested in another.
func (r *Reader) element(depth int) (reply.Reply, error) {
	kind, err := r.r.ReadByte()
	if err != nil {
		return reply.Nil, err
	}
	return r.of(kind, depth)
}

// of reads the rest of a reply after its first byte, with arrays nested at most depth deep.
func (r *Reader) of(kind byte, depth int) (reply.Reply, error) {
	for kind == '|' { // attributes, a map; the reply follows
		if _, err := r.elements('%', depth); err != nil {
			return reply.Nil, err
		}
		var err error
		if kind, err = r.r.ReadByte(); err != nil {
			return reply.Nil, err
		}
	}
	if err := r.take(elementBytes); err != nil {
		return reply.Nil, err
	}
	switch kind {
	case '$', '!', '=':
		return r.bulk(kind)
	case '*', '~', '%':
		return r.elements(kind, depth)
	case '+', '-', ':', '_', '#', ',', '(':
		line, err := r.line()
		if err == nil {
			err = r.take(int64(len(line)))
		}
		if err != nil {
			return reply.Nil, err
		}
		return scalar(kind, line)
	default:
		return reply.Nil, ProtocolError(fmt.Sprintf("Protocol error, got %q as reply type byte", []byte{kind}))
	}
}

// scalar returns the reply in a line.
func scalar(kind byte, line []byte) (reply.Reply, error) {
	text := string(line)
	switch kind {
	case '+':
		return reply.Status(text), nil
	case '-':
		return reply.Error(text), nil
	case ':':
		if n, ok := parseInt(line); ok {
			return reply.Int(n), nil
		}
	case '_':
		if text == "" {
			return reply.Nil, nil
		}
	case '#':
		if text == "t" || text == "f" {
			return reply.Bool(text == "t"), nil
		}
	case ',':
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return reply.Double(f), nil
		}
	case '(':
		if isBigNumber(text) {
			return reply.BulkString(text), nil
		}
	}
	return reply.Nil, malformed(kind, line)
}

func isBigNumber(text string) bool {
	digits := bytes.TrimPrefix([]byte(text), []byte("-"))
	return len(digits) > 0 && !slices.ContainsFunc(digits, func(c byte) bool { return c < '0' || c > '9' })
}

// malformed is the error for a line that does not fit the type of its reply.
func malformed(kind byte, line []byte) error {
	const most = 64 // bytes of the line that the error shows
	return ProtocolError(fmt.Sprintf("Protocol error, got %q in a reply of type %q", line[:min(len(line), most)], kind))
}

// line returns the rest of the line without CRLF. It is valid until the next read.
func (r *Reader) line() ([]byte, error) {
	line, err := r.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = r.longLine(line)
	}
	if err != nil {
		return nil, err
	}
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok {
		return nil, ProtocolError("Protocol error, a line does not end in CRLF")
	}
	return text, nil
}

// longLine reads the rest of a line that does not fit into the buffer.
func (r *Reader) longLine(line []byte) ([]byte, error) {
	line = bytes.Clone(line)
	for {
		part, err := r.r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, ProtocolError(fmt.Sprintf("Protocol error, a line of more than %d bytes", maxLine))
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

// count reads the rest of a line with a length. It is not ok for -1, the nil of RESP2.
func (r *Reader) count(kind byte) (n int64, ok bool, err error) {
	line, err := r.line()
	if err != nil {
		return 0, false, err
	}
	n, ok = parseInt(line)
	if !ok || n < -1 || n == -1 && kind != '$' && kind != '*' {
		return 0, false, malformed(kind, line)
	}
	return n, n >= 0, nil
}

func (r *Reader) bulk(kind byte) (reply.Reply, error) {
	n, ok, err := r.count(kind)
	if !ok {
		return reply.Nil, err
	}
	if n > MaxString {
		return reply.Nil, ProtocolError(fmt.Sprintf("Protocol error, a string of %d bytes, at most %d", n, MaxString))
	}
	if err := r.take(n); err != nil {
		return reply.Nil, err
	}
	text, err := r.text(n)
	if err != nil {
		return reply.Nil, err
	}
	switch kind {
	case '!':
		return reply.Error(string(text)), nil
	case '=': // begins with the format, three letters, and a colon
		if len(text) < len("txt:") || text[3] != ':' {
			return reply.Nil, malformed(kind, text)
		}
		return reply.Verbatim(string(text[len("txt:"):])), nil
	default:
		return reply.Bulk(text), nil
	}
}

// text reads n bytes and the CRLF after them. It makes room for them as they come, four times as much each time.
func (r *Reader) text(n int64) ([]byte, error) {
	text := make([]byte, 0, min(n, firstChunk))
	for int64(len(text)) < n {
		if len(text) == cap(text) {
			text = append(make([]byte, 0, min(n, 4*int64(len(text)))), text...)
		}
		read, err := io.ReadFull(r.r, text[len(text):cap(text)])
		text = text[:len(text)+read]
		if err != nil {
			return nil, unexpected(err)
		}
	}
	var end [2]byte
	if _, err := io.ReadFull(r.r, end[:]); err != nil {
		return nil, unexpected(err)
	}
	if end != [2]byte{'\r', '\n'} {
		return nil, ProtocolError("Protocol error, a string is not followed by CRLF")
	}
	return text, nil
}

// unexpected turns io.EOF into io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// elements reads the elements of an array, a set or a map.
func (r *Reader) elements(kind byte, depth int) (reply.Reply, error) {
	if depth == 0 {
		return reply.Nil, ProtocolError(fmt.Sprintf("Protocol error, more than %d arrays within each other", maxDepth))
	}
	n, ok, err := r.count(kind)
	if !ok {
		return reply.Nil, err
	}
	if kind == '%' {
		return r.pairs(n, depth)
	}
	var elems []reply.Reply
	for range n {
		e, err := r.element(depth - 1)
		if err != nil {
			return reply.Nil, err
		}
		elems = append(elems, e)
	}
	if kind == '~' {
		return reply.Set(elems...), nil
	}
	return reply.Array(elems...), nil
}

func (r *Reader) pairs(n int64, depth int) (reply.Reply, error) {
	var pairs []reply.Pair
	for range n {
		key, err := r.element(depth - 1)
		if err != nil {
			return reply.Nil, err
		}
		value, err := r.element(depth - 1)
		if err != nil {
			return reply.Nil, err
		}
		pairs = append(pairs, reply.Pair{Key: key, Value: value})
	}
	return reply.Map(pairs...), nil
}
