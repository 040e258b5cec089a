// Package client runs commands on a server, which may be a Redis.
//
// The file address.go has the flags that name the server, connection.go sends and receives, client.go keeps the state
// of the connection and connects again when it is lost, and fields.go reads replies that are maps.
package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/cmdline"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// Times that tests lengthen.
var (
	// TabTimeout is how long the prompt waits for keys that Tab offers.
	TabTimeout = time.Second

	// TableTimeout is how long it waits for the server's command table. That of a Redis is about 200 KiB.
	TableTimeout = 5 * time.Second
)

// Client runs commands on a server. It connects when there is a command to run, also after the connection was lost.
// It never sends a command twice, because the server may have run it. A transaction and its watched keys are lost
// with the connection: then the next command gets an error, as it must not run outside of the transaction.
type Client struct {
	address *Address
	notes   io.Writer
	resp3   func() bool // whether to speak RESP3 if the user has not chosen a protocol; nil for no

	conn     *connection // nil while there is none
	protocol int         // of conn
	chosen   int         // the protocol that the user's HELLO chose, 0 for none
	noRESP3  bool        // the server does not speak RESP3
	database uint
	multi    bool // between MULTI and EXEC
	watching bool

	helper *Client // for the client's own questions: this connection may be in a transaction
	table  *module.Table

	learned  atomic.Pointer[module.Table] // what a goroutine was told that has asked for the table
	learning *connection                  // for which it was asked: once for each
}

// New returns a client without a connection. Resp3, if it is not nil, reports whether to speak RESP3 if the user has
// not chosen a protocol. Notes for the user are written to notes.
func New(a *Address, resp3 func() bool, notes io.Writer) *Client {
	return &Client{address: a, resp3: resp3, notes: notes, database: a.database}
}

// Open connects, unless there is a connection. It is an error if a connection was lost in a transaction.
func (c *Client) Open(ctx context.Context) error {
	if c.conn != nil {
		lost := c.conn.lost()
		if lost == nil {
			return c.speak(ctx)
		}
		bound := c.multi || c.watching
		c.disconnect()
		if bound {
			return c.failed(fmt.Errorf("%w; with it went the transaction, and what was watched: the command was not sent",
				connectionError(lost)))
		}
	}
	setUp, cancel := ctx, context.CancelFunc(func() {})
	if c.address.timeout > 0 {
		setUp, cancel = context.WithTimeout(ctx, c.address.timeout)
	}
	defer cancel()
	conn, err := c.address.dial(setUp)
	if err == nil {
		c.conn, c.protocol = conn, 2
		err = c.introduce(setUp)
	}
	if err != nil {
		c.disconnect()
		return c.cannotConnect(ctx, err)
	}
	return nil
}

// introduce logs in on a new connection, and chooses the database and the protocol.
func (c *Client) introduce(ctx context.Context) error {
	if err := c.authenticate(ctx); err != nil {
		return err
	}
	if c.database > 0 {
		r, err := c.conn.ask(ctx, cmdline.Words("SELECT", strconv.FormatUint(uint64(c.database), 10)))
		if err != nil {
			return err
		}
		if r.IsError() {
			return fmt.Errorf("SELECT %d failed: %s", c.database, r.Bytes())
		}
	}
	return c.speak(ctx)
}

// authenticate sends the password. It is no error if the server needs none.
func (c *Client) authenticate(ctx context.Context) error {
	a := c.address
	if a.password == "" && a.user == "" {
		return nil
	}
	words := []string{"AUTH", a.password}
	if a.user != "" {
		words = []string{"AUTH", a.user, a.password}
	}
	r, err := c.conn.ask(ctx, cmdline.Words(words...))
	switch {
	case err != nil:
		return err
	case r.IsError() && strings.HasPrefix(string(r.Bytes()), "ERR AUTH <password> called without any password"):
		fmt.Fprintf(c.notes, "AUTH failed: %s\n", r.Bytes())
		return nil
	case r.IsError():
		return fmt.Errorf("AUTH failed: %s", r.Bytes())
	}
	return nil
}

// speak changes the protocol if another is wanted.
func (c *Client) speak(ctx context.Context) error {
	protocol := c.address.protocol
	if c.chosen != 0 {
		protocol = c.chosen
	}
	if protocol == 0 {
		if protocol = 2; c.resp3 != nil && c.resp3() {
			protocol = 3
		}
	}
	if protocol == c.protocol || protocol == 3 && c.noRESP3 || c.multi {
		return nil
	}
	r, err := c.conn.ask(ctx, cmdline.Words("HELLO", strconv.Itoa(protocol)))
	switch {
	case err != nil:
		return err
	case !r.IsError():
		c.protocol = protocol
		return nil
	case strings.HasPrefix(string(r.Bytes()), "NOAUTH"):
		return nil // the reply to the command will have this error
	}
	c.noRESP3 = true
	if c.address.protocol == 3 {
		fmt.Fprintf(c.notes, "HELLO 3 failed: %s\n", r.Bytes())
	}
	return nil
}

func (c *Client) disconnect() {
	if c.conn != nil {
		c.conn.close()
	}
	c.conn, c.multi, c.watching, c.chosen = nil, false, false, 0
}

func (c *Client) cannotConnect(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return exit.WithCode(exit.Open, &connectError{c.address.Endpoint, connectionError(err)})
}

// connectError has the text that redis-cli prints.
type connectError struct {
	endpoint string
	err      error
}

func (e *connectError) Error() string {
	return "Could not connect to " + e.endpoint + ": " + e.err.Error()
}

func (e *connectError) Unwrap() error { return e.err }

func (c *Client) failed(err error) error {
	return exit.WithCode(exit.Open, fmt.Errorf("%s: %w", c.address.Endpoint, err))
}

// ErrNoReply is returned for SHUTDOWN, which has no reply when it is run.
var ErrNoReply = errors.New("no reply")

// Do runs a command. The error says why there is no reply.
func (c *Client) Do(ctx context.Context, words [][]byte) (reply.Reply, error) {
	if err := c.Open(ctx); err != nil {
		return reply.Nil, err
	}
	r, err := c.conn.ask(ctx, words)
	if errors.Is(err, io.EOF) && strings.EqualFold(string(words[0]), "SHUTDOWN") {
		c.disconnect()
		return reply.Nil, ErrNoReply
	}
	if err != nil {
		return reply.Nil, c.broken(ctx, err)
	}
	c.note(words, r)
	if c.protocol == 2 && r.Kind() == reply.KindBulk && isText(words) {
		r = reply.Verbatim(string(r.Bytes()))
	}
	return r, nil
}

// Send sends a command without waiting for its reply, which Receive returns. So several commands can be on their way.
func (c *Client) Send(ctx context.Context, words [][]byte) error {
	if c.conn == nil { // a new connection would not have the replies that are still missing
		return c.failed(errors.New("not connected"))
	}
	if err := c.conn.send(ctx, words); err != nil {
		if last, ok := c.conn.farewell(ctx); ok {
			err = errors.New(string(last.Bytes()))
		}
		return c.broken(ctx, err)
	}
	return nil
}

// Receive returns the next reply: that to the oldest command that was sent and has none yet.
func (c *Client) Receive(ctx context.Context) (reply.Reply, error) {
	for {
		in, err := c.conn.receive(ctx, c.conn.silence)
		if err != nil {
			return reply.Nil, c.broken(ctx, err)
		}
		if !in.push {
			return in.reply, nil
		}
	}
}

// broken ends a connection on which a reply is missing.
func (c *Client) broken(ctx context.Context, err error) error {
	c.disconnect()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return c.failed(fmt.Errorf("%w; whether the command was carried out is not known", connectionError(err)))
}

// Follow shows the messages that follow the reply to a command such as SUBSCRIBE, until ctx ends. The connection ends
// with it.
func (c *Client) Follow(ctx context.Context, words [][]byte, first reply.Reply, show func(reply.Reply) error) error {
	if !subscribes(words) || first.IsError() || c.multi {
		return nil
	}
	for {
		in, err := c.conn.receive(ctx, 0)
		if err != nil {
			return c.broken(ctx, err)
		}
		if err := show(in.reply); err != nil {
			return err
		}
	}
}

// note updates the state of the connection by the reply to a command.
func (c *Client) note(words [][]byte, r reply.Reply) {
	name, isOK := strings.ToUpper(string(words[0])), r.Kind() == reply.KindStatus && string(r.Bytes()) == "OK"
	switch {
	case name == "MULTI" && isOK:
		c.multi = true
	case name == "WATCH" && isOK:
		c.watching = true
	case name == "EXEC" && len(words) == 1, name == "DISCARD" && isOK:
		c.multi, c.watching = false, false
	case name == "UNWATCH" && isOK:
		c.watching = false
	case name == "SELECT" && isOK:
		if n, err := strconv.ParseUint(string(words[1]), 10, 31); err == nil {
			c.database = uint(n)
		}
	case name == "RESET" && !r.IsError():
		c.multi, c.watching, c.database, c.protocol, c.chosen = false, false, 0, 2, 0
	case name == "HELLO" && !r.IsError() && len(words) > 1:
		if n, err := strconv.Atoi(string(words[1])); err == nil {
			c.protocol, c.chosen = n, n
		}
	}
}

// isText reports whether the reply to a command is text to be shown as it is. RESP3 would tell; in RESP2 the command
// decides, as in redis-cli.
func isText(words [][]byte) bool {
	var name []string
	for _, word := range words[:min(len(words), 2)] {
		name = append(name, strings.ToUpper(string(word)))
	}
	switch strings.Join(name, " ") {
	case "MEMORY DOCTOR", "MEMORY MALLOC-STATS", "CLUSTER NODES", "CLUSTER INFO", "CLIENT LIST", "CLIENT INFO",
		"LATENCY DOCTOR", "LATENCY GRAPH", "LATENCY HISTOGRAM", "PROXY INFO", "DEBUG HTSTATS", "DEBUG HTSTATS-KEY":
		return true
	}
	return name[0] == "INFO" || name[0] == "LOLWUT"
}

// InTransaction reports whether commands are queued, after MULTI.
func (c *Client) InTransaction() bool { return c.multi }

// Close ends the connection.
func (c *Client) Close(*error) {
	c.disconnect() // Tab may be using the helper, which ends with the process
}

// help runs a command of the client's own, beside those that the user typed.
func (c *Client) help(ctx context.Context, words ...string) (reply.Reply, error) {
	if c.helper == nil {
		c.helper = New(c.address, nil, io.Discard)
	}
	c.helper.database = c.database
	r, err := c.helper.Do(ctx, cmdline.Words(words...))
	if err == nil {
		err = r.Err()
	}
	return r, err
}

// Keys yields keys that begin with a prefix, some perhaps several times. It gives up after TabTimeout.
func (c *Client) Keys(prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		ctx, cancel := context.WithTimeout(context.Background(), TabTimeout)
		defer cancel()
		for cursor := "0"; ; {
			r, err := c.help(ctx, "SCAN", cursor, "MATCH", escapePattern(prefix)+"*", "COUNT", "1000")
			elems := r.Elems()
			if err == nil && len(elems) != 2 {
				err = errors.New("the reply to SCAN is not a cursor and keys")
			}
			if err != nil {
				yield("", err)
				return
			}
			for _, key := range elems[1].Elems() {
				if !yield(string(key.Bytes()), nil) {
					return
				}
			}
			if cursor = string(elems[0].Bytes()); cursor == "0" {
				return
			}
		}
	}
}

// escapePattern returns the pattern that only text itself matches.
func escapePattern(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if strings.IndexByte(`*?[]^\-`, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// IsMissing reports whether there is no such key.
func (c *Client) IsMissing(ctx context.Context, key []byte) bool {
	ctx, cancel := context.WithTimeout(ctx, TabTimeout)
	defer cancel()
	r, err := c.help(ctx, "EXISTS", string(key))
	return err == nil && r.Kind() == reply.KindInt && r.Int() == 0
}

// Aside runs a command beside those that the user typed, also between MULTI and EXEC. An error reply is an error.
func (c *Client) Aside(ctx context.Context, words ...string) (reply.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, TabTimeout)
	defer cancel()
	return c.help(ctx, words...)
}

// Table returns the command table of the server. It is empty if the server does not tell its commands.
func (c *Client) Table() *module.Table {
	if known := c.KnownTable(); known != nil {
		return known
	}
	ctx, cancel := context.WithTimeout(context.Background(), TableTimeout)
	defer cancel()
	commands, err := c.help(ctx, "COMMAND")
	if err != nil {
		return module.New()
	}
	docs, err := c.help(ctx, "COMMAND", "DOCS")
	if err != nil {
		docs = reply.Nil // a Redis before 7.0 has no COMMAND DOCS
	}
	c.table = module.ReadTable(commands, docs)
	return c.table
}

// KnownTable returns the command table if the server has told it, otherwise nil. It does not wait for the server.
func (c *Client) KnownTable() *module.Table {
	if c.table == nil {
		c.table = c.learned.Load()
	}
	return c.table
}

// Learn asks for the command table over another connection, for KnownTable, and does not wait for it. It does nothing while the
// client is not connected, and asks once for each connection: the user may not be allowed to know the table.
func (c *Client) Learn() {
	if c.conn == nil || c.learning == c.conn || c.KnownTable() != nil {
		return
	}
	c.learning = c.conn
	other := New(c.address, nil, io.Discard)
	go func() {
		if table := other.Table(); len(table.Commands()) > 0 {
			c.learned.Store(table)
		}
		if other.helper != nil {
			other.helper.disconnect()
		}
	}()
}

// Name returns the name that the prompt shows.
func (c *Client) Name() string {
	switch {
	case c.conn == nil:
		return "not connected"
	case c.database > 0:
		return fmt.Sprintf("%s[%d]", c.address.Endpoint, c.database)
	}
	return c.address.Endpoint
}
