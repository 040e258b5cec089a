// Package wire is a client that sees every byte a server sends, for tests of exactly that. It shares no
// code with the server.
//
// # Notation
//
// Replies are shown as text, different bytes as different text:
//
//	+OK  -ERR text  :1  ,0.5  #t  (123    as on the wire, without the line's end
//	"bulk"  ="txt:verbatim"               strings, as Go writes them
//	$-1 *-1 _ the nils of RESP2 and RESP3
//	[:1 :0]  ~[+a +b]  {"key" :1}  >[+p]  arrays, sets, maps and pushes
//
// with four or more equal elements in a row as 4*:1. Bytes that a strict reader would not take are an
// error: a length with a sign or leading zeros, a line that ends in LF alone, another kind of reply.
package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Conn is a connection to a server.
type Conn struct {
	net.Conn
	in    *bufio.Reader
	raw   []byte   // of the reply that is read
	elems []string // of the reply that was read, if it has any
}

// New returns a client on a connection.
func New(c net.Conn) *Conn { return &Conn{Conn: c, in: bufio.NewReader(c)} }

// Dial connects to a server.
func Dial(network, address string) (*Conn, error) {
	c, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return New(c), nil
}

// Command returns a command as clients send it.
func Command(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// wait is for a server that hangs: no other comes near it. It is also when a test is given up.
const wait = 10 * time.Minute

// Send sends bytes.
func (c *Conn) Send(bytes string) error {
	_ = c.SetWriteDeadline(time.Now().Add(wait)) // what is wrong with the connection, the write says
	_, err := io.WriteString(c.Conn, bytes)
	return err
}

// Do sends a command and returns the reply as it is shown.
func (c *Conn) Do(words ...string) (string, error) {
	if err := c.Send(Command(words...)); err != nil {
		return "", err
	}
	return c.Reply()
}

// Reply returns the next reply, or push, as it is shown; io.EOF if the server has closed the connection.
func (c *Conn) Reply() (string, error) {
	shown, _, err := c.ReplyBytes()
	return shown, err
}

// ReplyBytes returns the next reply as it is shown, and its bytes, which are valid until the next call.
func (c *Conn) ReplyBytes() (shown string, raw []byte, err error) {
	_ = c.SetReadDeadline(time.Now().Add(wait)) // a connection that has ended may have replies left
	c.raw, c.elems = c.raw[:0], nil
	if _, err := c.in.Peek(1); err != nil {
		return "", nil, err
	}
	shown, err = c.reply()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return "", c.raw, fmt.Errorf("after %q: %w", c.raw, err)
	}
	return shown, c.raw, nil
}

// Elems returns the elements of the last reply, as they are shown; a map's are its keys and values.
func (c *Conn) Elems() []string { return c.elems }

// Rest returns all that the server sends until it closes the connection.
func (c *Conn) Rest() (string, error) {
	_ = c.SetReadDeadline(time.Now().Add(wait)) // as in ReplyBytes
	b, err := io.ReadAll(c.in)
	return string(b), err
}

func (c *Conn) reply() (string, error) {
	line, err := c.line()
	if err != nil {
		return "", err
	}
	switch text := line[1:]; line[0] {
	case '+', '-':
		return line, nil
	case ':', '(':
		return line, strict(text, line[0] == ':')
	case ',':
		_, err := strconv.ParseFloat(text, 64)
		return line, err
	case '#', '_':
		if line == "#t" || line == "#f" || line == "_" {
			return line, nil
		}
	case '$', '=':
		return c.bulk(line)
	case '*', '~', '%', '>':
		return c.elements(line)
	}
	return "", fmt.Errorf("line %q is no beginning of a reply", line)
}

// line returns a line, at least one byte long, without its CRLF.
func (c *Conn) line() (string, error) {
	line, err := c.in.ReadString('\n')
	c.raw = append(c.raw, line...)
	if err != nil {
		return "", err
	}
	text, ok := strings.CutSuffix(line, "\r\n")
	if !ok || text == "" || strings.Contains(text, "\r") {
		return "", fmt.Errorf("line %q is not ended by CRLF alone, or empty", line)
	}
	return text, nil
}

// strict returns an error if a number is not written in the one way there is.
func strict(text string, small bool) error {
	digits := strings.TrimPrefix(text, "-")
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case small && err != nil:
		return err
	case small && strconv.FormatInt(n, 10) != text, digits == "", strings.Trim(digits, "0123456789") != "":
		return fmt.Errorf("number %q is not written as numbers are", text)
	}
	return nil
}

// length returns the length in a line, -1 for nil.
func length(line string) (int, error) {
	if err := strict(line[1:], true); err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(line[1:])
	if err == nil && (n < -1 || n == -1 && line[0] != '$' && line[0] != '*') {
		err = fmt.Errorf("length %q", line)
	}
	return n, err
}

func (c *Conn) bulk(line string) (string, error) {
	n, err := length(line)
	if n < 0 || err != nil {
		return line, err
	}
	text := make([]byte, n+len("\r\n"))
	read, err := io.ReadFull(c.in, text)
	c.raw = append(c.raw, text[:read]...)
	switch {
	case err != nil:
		return "", err
	case string(text[n:]) != "\r\n":
		return "", fmt.Errorf("string %q is not followed by CRLF", text[:n])
	case line[0] == '=' && (n < 4 || text[3] != ':'):
		return "", fmt.Errorf("verbatim string %q has no format", text[:n])
	}
	return strings.TrimPrefix(line[:1], "$") + strconv.Quote(string(text[:n])), nil
}

func (c *Conn) elements(line string) (string, error) {
	n, err := length(line)
	if n < 0 || err != nil {
		return line, err
	}
	open, end := strings.TrimPrefix(line[:1], "*")+"[", "]"
	if line[0] == '%' {
		open, end, n = "{", "}", 2*n
	}
	var elems []string
	for range n {
		e, err := c.reply()
		if err != nil {
			return "", err
		}
		elems = append(elems, e)
	}
	c.elems = elems // the outermost's are the last to be set
	return open + runs(elems) + end, nil
}

// runs joins elements, with a count in place of repeats.
func runs(elems []string) string {
	var runs []string
	for len(elems) > 0 {
		n := slices.IndexFunc(elems, func(e string) bool { return e != elems[0] })
		if n < 0 {
			n = len(elems)
		}
		if n >= 4 {
			runs = append(runs, fmt.Sprintf("%d*%s", n, elems[0]))
		} else {
			runs = append(runs, elems[:n]...)
		}
		elems = elems[n:]
	}
	return strings.Join(runs, " ")
}
