package main

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/client"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/cmdline"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/txn"
)

// executor runs commands: in a store that this process has open, or on a server.
type executor interface {
	// Do runs a command. The error says why there is no reply.
	Do(ctx context.Context, words [][]byte) (reply.Reply, error)

	// Follow shows the messages that come after the first reply to a command such as SUBSCRIBE, until ctx ends.
	Follow(ctx context.Context, words [][]byte, first reply.Reply, show func(reply.Reply) error) error

	// Name returns the name that the prompt shows.
	Name() string

	// InTransaction reports whether commands are queued, after MULTI.
	InTransaction() bool

	// Table returns the command table. It is empty if a server does not tell its commands.
	Table() *module.Table

	// KnownTable returns the command table if it is known without asking a server, otherwise nil.
	KnownTable() *module.Table

	// Aside runs a command that the user has not typed, also between MULTI and EXEC. An error reply is an error.
	Aside(ctx context.Context, words ...string) (reply.Reply, error)

	// Keys yields all keys that begin with a prefix. It may yield other keys too, and a key several times.
	Keys(prefix string) iter.Seq2[string, error]

	// IsMissing reports whether there is no such key.
	IsMissing(ctx context.Context, key []byte) bool

	// Close is for the end of a function: it adds its error to the function's own.
	Close(err *error)
}

// storeExecutor is a store in this process.
type storeExecutor struct {
	db      *kv.DB
	session *module.Session
	shell   *shell
	title   string
}

func (sh *shell) storeExecutor(db *kv.DB) *storeExecutor {
	return &storeExecutor{db: db, session: module.NewSession(db), shell: sh}
}

func (e *storeExecutor) Do(ctx context.Context, words [][]byte) (reply.Reply, error) {
	return e.session.Do(ctx, words), nil
}

// Follow has nothing to show: no command of a store asks for messages.
func (e *storeExecutor) Follow(context.Context, [][]byte, reply.Reply, func(reply.Reply) error) error {
	return nil
}

func (e *storeExecutor) Name() string { return e.title }

func (e *storeExecutor) InTransaction() bool {
	_, multi := txn.Queued(e.session)
	return multi
}

func (e *storeExecutor) Table() *module.Table { return module.Of(e.db).Table }

func (e *storeExecutor) KnownTable() *module.Table { return e.Table() }

func (e *storeExecutor) Aside(ctx context.Context, words ...string) (reply.Reply, error) {
	r := module.NewSession(e.db).Do(ctx, cmdline.Words(words...))
	return r, r.Err()
}

// Keys yields all keys, whatever the prefix. With a pattern the caller could not limit how many keys the scan looks
// at, and some characters of the prefix would have to be quoted.
func (e *storeExecutor) Keys(string) iter.Seq2[string, error] {
	return e.db.Scan(context.Background(), kv.ScanOptions{})
}

// IsMissing asks in a session of its own: between MULTI and EXEC the shell's session would queue the command.
func (e *storeExecutor) IsMissing(ctx context.Context, key []byte) bool {
	r := module.NewSession(e.db).Do(ctx, [][]byte{[]byte("EXISTS"), key})
	return r.Kind() == reply.KindInt && r.Int() == 0
}

func (e *storeExecutor) Close(err *error) { e.shell.closeStore(e.db, err) }

// storelessExecutor stands in where there is no store, for a command that every new store refuses.
type storelessExecutor struct {
	table   *module.Table
	refusal reply.Reply
}

func (e *storelessExecutor) Do(context.Context, [][]byte) (reply.Reply, error) { return e.refusal, nil }

func (e *storelessExecutor) Follow(context.Context, [][]byte, reply.Reply, func(reply.Reply) error) error {
	return nil
}

func (e *storelessExecutor) Name() string              { return "" }
func (e *storelessExecutor) InTransaction() bool       { return false }
func (e *storelessExecutor) Table() *module.Table      { return e.table }
func (e *storelessExecutor) KnownTable() *module.Table { return e.table }
func (e *storelessExecutor) Aside(context.Context, ...string) (reply.Reply, error) {
	return e.refusal, e.refusal.Err()
}
func (e *storelessExecutor) Keys(string) iter.Seq2[string, error] {
	return func(func(string, error) bool) {}
}
func (e *storelessExecutor) IsMissing(context.Context, []byte) bool { return false }
func (e *storelessExecutor) Close(*error)                           {}

// executorOfAll returns the executor for own words about a whole store, such as check. The store must exist. Replies
// have the types of RESP3.
func (sh *shell) executorOfAll() (executor, error) {
	if sh.address != nil {
		return client.New(sh.address.InRESP3(), nil, sh.stderr), nil
	}
	db, err := sh.openExisting()
	if err != nil {
		return nil, err
	}
	return sh.storeExecutor(db), nil
}

// target names what an executor works on, for messages.
func (sh *shell) target(exec executor) string {
	if store, ok := exec.(*storeExecutor); ok {
		return store.db.Dir()
	}
	return sh.address.Endpoint
}

// answer runs a command and returns its reply. An error reply is an error.
func answer(ctx context.Context, exec executor, words ...string) (reply.Reply, error) {
	r, err := exec.Do(ctx, cmdline.Words(words...))
	switch {
	case err != nil:
		return r, err
	case ctx.Err() != nil:
		return r, ctx.Err()
	case r.IsError() && bytes.HasPrefix(r.Bytes(), []byte("ERR unknown command")):
		return r, exit.Refusef("%s: the server has no such command: it does not serve a store of sievekv", words[0])
	case r.IsError():
		return r, exit.WithCode(exit.ReplyCode(r), fmt.Errorf("%s", r.Bytes()))
	}
	return r, nil
}
