package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/cmdline"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/servertest"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

func clientOf(t *testing.T, endpoint string) *Client {
	t.Helper()
	c := New(&Address{network: "tcp", Endpoint: endpoint}, nil, io.Discard)
	t.Cleanup(func() {
		c.Close(nil)
		if c.helper != nil {
			c.helper.Close(nil)
		}
	})
	return c
}

func (c *Client) mustDo(t *testing.T, line string) reply.Reply {
	t.Helper()
	r, err := c.Do(context.Background(), cmdline.Words(strings.Fields(line)...))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return r
}

// The command table that a server sends is the store's own.
func TestClient_commands(t *testing.T) {
	s := servertest.Serve(t, "")
	for _, protocol := range []int{2, 3} {
		c := clientOf(t, s.Addr())
		c.address.protocol = protocol
		checkTable(t, c.Table(), module.Of(s.DB).Commands())
	}
}

func checkTable(t *testing.T, table *module.Table, want []*module.Command) {
	t.Helper()
	if len(table.Commands()) != len(want) {
		t.Fatalf("%d commands, want %d", len(table.Commands()), len(want))
	}
	for _, cmd := range want {
		got := table.Command([]byte(cmd.Name))
		if got == nil {
			t.Errorf("no %s", cmd.Name)
			continue
		}
		if got.Syntax != cmd.Syntax || got.Summary != cmd.Summary || got.Group != cmd.Group || got.Complexity != cmd.Complexity ||
			got.Example != cmd.Example || got.Arity != cmd.Arity || got.Flags != cmd.Flags&^module.Brief || got.FirstKey != cmd.FirstKey ||
			got.LastKey != cmd.LastKey || got.KeyStep != cmd.KeyStep {
			t.Errorf("%s: %+v, want %+v", cmd.Name, got, cmd)
		}
	}
}

// Tab asks for keys on a connection of its own: the one of the prompt may be in a transaction.
func TestClient_keys(t *testing.T) {
	s := servertest.Serve(t, "")
	c := clientOf(t, s.Addr())
	for _, key := range []string{"a1", "a2", "ab*", "ab*c", "abc", `\x`, "b"} {
		c.mustDo(t, "SET "+key+" 1")
	}
	c.mustDo(t, "MULTI")
	for prefix, want := range map[string]string{"a": "a1 a2 ab* ab*c abc", "ab*": "ab* ab*c", `\`: `\x`, "c": ""} {
		if got := strings.Join(sorted(c.Keys(prefix)), " "); got != want {
			t.Errorf("%q: %s, want %s", prefix, got, want)
		}
	}
	if c.IsMissing(context.Background(), []byte("a1")) || !c.IsMissing(context.Background(), []byte("x")) {
		t.Error("a key that is there is missing, or the other way round")
	}
	if r := c.mustDo(t, "EXEC"); r.Kind() != reply.KindArray || len(r.Elems()) != 0 {
		t.Errorf("the transaction had %v", r)
	}
}

// The table is learned beside the commands that the user types, once there is a connection.
func TestClient_Learn(t *testing.T) {
	s := servertest.Serve(t, "")
	c := clientOf(t, s.Addr())
	c.Learn()
	if c.learning != nil || c.KnownTable() != nil {
		t.Error("the client learns without a connection")
	}
	c.mustDo(t, "PING")
	c.Learn()
	for c.KnownTable() == nil {
		time.Sleep(time.Millisecond)
	}
	if c.KnownTable().Command([]byte("BF.ADD")) == nil || c.Table() != c.KnownTable() {
		t.Error("the table that was learned is another one")
	}
}

// After a connection was lost, the next command connects again, unless a transaction or watched keys were lost with it.
func TestClient_lostConnection(t *testing.T) {
	s := servertest.Serve(t, "")
	c := clientOf(t, s.Addr())
	lose := func() {
		t.Helper()
		s.Drop()
		<-c.conn.ended
	}
	c.mustDo(t, "SET k 1")
	c.mustDo(t, "SELECT 3")
	lose()
	if r := c.mustDo(t, "GET k"); string(r.Bytes()) != "1" {
		t.Errorf("GET after the connection was lost: %v", r)
	}
	if log := s.Commands(); log[len(log)-2] != "SELECT 3" {
		t.Errorf("the database was not selected again: %q", log)
	}
	for _, before := range []string{"MULTI", "WATCH k"} {
		c.mustDo(t, before)
		lose()
		_, err := c.Do(context.Background(), cmdline.Words("SET", "k", "2"))
		const want = "the server closed the connection; with it went the transaction, and what was watched: " +
			"the command was not sent"
		if err == nil || !strings.HasSuffix(err.Error(), want) || exit.Code(err) != exit.Open {
			t.Errorf("after %s: %v", before, err)
		}
		if c.InTransaction() {
			t.Error("still in a transaction")
		}
		if r := c.mustDo(t, "GET k"); string(r.Bytes()) != "1" {
			t.Errorf("after %s: %v", before, r)
		}
	}
	for _, done := range []string{"EXEC", "DISCARD", "UNWATCH"} {
		c.mustDo(t, "WATCH k")
		if done != "UNWATCH" {
			c.mustDo(t, "MULTI")
		}
		c.mustDo(t, done)
		lose()
		c.mustDo(t, "PING")
	}
}

// A command whose reply does not come is not sent again.
func TestClient_noReply(t *testing.T) {
	s := servertest.Serve(t, "")
	c := clientOf(t, s.Addr())
	for command, want := range map[string]string{
		"CLOSE":   "the server closed the connection; whether the command was carried out is not known",
		"GARBAGE": `Protocol error, got "H" as reply type byte; whether the command was carried out is not known`,
	} {
		_, err := c.Do(context.Background(), cmdline.Words(command))
		if err == nil || !strings.HasSuffix(err.Error(), want) || exit.Code(err) != exit.Open {
			t.Errorf("%s: %v, want %s", command, err, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		_, err := c.Do(ctx, cmdline.Words("HANG"))
		ended <- err
	}()
	<-s.Hung
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("HANG: %v", err)
	}
	c.mustDo(t, "PING")
	for _, command := range []string{"CLOSE", "GARBAGE"} {
		n := 0
		for _, line := range s.Commands() {
			if line == command {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s was sent %d times", command, n)
		}
	}
}

func TestClient_subscribe(t *testing.T) {
	s := servertest.Serve(t, "")
	for _, protocol := range []int{2, 3} {
		c := clientOf(t, s.Addr())
		c.address.protocol = protocol
		words := cmdline.Words("SUBSCRIBE", "news")
		ctx, cancel := context.WithCancel(context.Background())
		r, err := c.Do(ctx, words)
		if err != nil || len(r.Elems()) != 3 {
			t.Fatalf("%v, %v", r, err)
		}
		var shown []string
		err = c.Follow(ctx, words, r, func(r reply.Reply) error {
			shown = append(shown, string(r.Elems()[2].Bytes()))
			cancel()
			return nil
		})
		if !errors.Is(err, context.Canceled) || len(shown) != 1 || shown[0] != "hello" {
			t.Errorf("RESP%d: %q, %v", protocol, shown, err)
		}
		if c.mustDo(t, "PING"); c.conn == nil {
			t.Error("not connected again")
		}
	}
}

// The replies are those that redis-server 7.0.15 has for these commands.
func TestCommandTable(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "redis-docs.resp"))
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
	r := resp.NewReader(bytes.NewReader(b)) // kept as lines of text
	commands, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	docs, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"CONFIG": "GET parameter [parameter ...] | HELP | RESETSTAT | REWRITE | SET parameter value [parameter value ...]",
		"DEL":    "key [key ...]",
		"GET":    "key",
		"SET": "key value [NX|XX] [GET] " +
			"[EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]",
		"SORT": "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC|DESC] [ALPHA] " +
			"[STORE destination]",
		"XADD": "key [NOMKSTREAM] [MAXLEN|MINID [=|~] threshold [LIMIT count]] *|id field value [field value ...]",
		"PING": "[message]",
	}
	table := module.ReadTable(commands, docs)
	for name, syntax := range want {
		cmd := table.Command([]byte(name))
		if cmd == nil {
			t.Errorf("no %s", name)
		} else if cmd.Syntax != syntax || cmd.Summary == "" || cmd.Group == "" {
			t.Errorf("%s: %q, %q, %q, want %q", name, cmd.Syntax, cmd.Summary, cmd.Group, syntax)
		}
	}
	get := table.Command([]byte("get"))
	if get.Flags != module.ReadOnly|module.Fast || get.Arity != 2 || get.FirstKey != 1 || get.LastKey != 1 || get.KeyStep != 1 {
		t.Errorf("GET is %+v", get)
	}
	// Before Redis 7.0 there are no docs.
	if table := module.ReadTable(commands, reply.Nil); len(table.Commands()) != len(want) || table.Command([]byte("GET")).Group != "other" {
		t.Errorf("without docs %v", table)
	}
	// What is not as expected is left out.
	odd := reply.Array(reply.Int(1), reply.Array(), reply.Array(repeated(reply.Nil, 6)...))
	if table := module.ReadTable(odd, odd).Commands(); len(table) != 1 || table[0].Name != "" {
		t.Errorf("of an odd reply %v", table)
	}
}

func repeated(r reply.Reply, n int) (elems []reply.Reply) {
	for range n {
		elems = append(elems, r)
	}
	return elems
}

// The command table that package server sends is its own.
func TestClient_commandsOfServer(t *testing.T) {
	db, endpoint := servertest.ServeStore(t)
	c := clientOf(t, endpoint)
	checkTable(t, c.Table(), module.Of(db).Commands())
}

// sorted returns keys in order.
func sorted(keys iter.Seq2[string, error]) (list []string) {
	for key, err := range keys {
		if err == nil {
			list = append(list, key)
		}
	}
	slices.Sort(list)
	return list
}
