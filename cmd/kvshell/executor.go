package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/sievekv/sievekv/module"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/txn"
)

// executor is what carries out commands: a store that this process has open, or a server.
type executor interface {
	// do runs a command. The error says why there is no reply.
	do(ctx context.Context, words [][]byte) (reply.Reply, error)

	// follow shows what comes after the reply to a command that asks for messages, until ctx ends.
	follow(ctx context.Context, words [][]byte, first reply.Reply, show func(reply.Reply) error) error

	// name is what stands in the prompt.
	name() string

	// inTransaction reports whether commands are queued, after MULTI.
	inTransaction() bool

	// commands returns the command table, nil if it cannot be had.
	commands() []*module.Command

	// keys returns, sorted, keys that begin with a prefix, as many as Tab offers.
	keys(prefix string) []string

	// isMissing reports whether there is no such key.
	isMissing(ctx context.Context, key []byte) bool

	// close ends it at the end of a function, whose error is kept.
	close(err *error)
}

// storeExecutor is a store in this process.
type storeExecutor struct {
	db      *kv.DB
	session *module.Session
	title   string
}

func newStoreExecutor(db *kv.DB) *storeExecutor {
	return &storeExecutor{db: db, session: module.NewSession(db)}
}

func (e *storeExecutor) do(ctx context.Context, words [][]byte) (reply.Reply, error) {
	return e.session.Do(ctx, words), nil
}

// follow has nothing to show: no command of a store asks for messages.
func (e *storeExecutor) follow(context.Context, [][]byte, reply.Reply, func(reply.Reply) error) error {
	return nil
}

func (e *storeExecutor) name() string { return e.title }

func (e *storeExecutor) inTransaction() bool {
	_, multi := txn.Queued(e.session)
	return multi
}

func (e *storeExecutor) commands() []*module.Command { return module.Of(e.db).Commands() }

// keys compares the prefix here rather than as a pattern of the scan, so that the keys looked at can be counted, and
// none of its characters has a meaning.
func (e *storeExecutor) keys(prefix string) []string {
	return firstKeys(e.db.Scan(context.Background(), kv.ScanOptions{}), prefix)
}

// isMissing asks in a session of its own: one that is in the midst of a transaction would queue it.
func (e *storeExecutor) isMissing(ctx context.Context, key []byte) bool {
	return isZero(module.NewSession(e.db).Do(ctx, [][]byte{[]byte("EXISTS"), key}))
}

func (e *storeExecutor) close(err *error) { closeStore(e.db, err) }

func isZero(r reply.Reply) bool { return r.Kind() == reply.KindInt && r.Int() == 0 }

// executorOfAll returns what carries out commands about all of a store that is there, or of a server: SIEVE.CHECK and
// the like. The replies are as in RESP3.
func (sh *shell) executorOfAll() (executor, error) {
	if sh.address != nil {
		a := *sh.address
		a.protocol = 3
		return newClient(&a, &sh.show, sh.stderr), nil
	}
	db, err := sh.openExisting()
	if err != nil {
		return nil, err
	}
	return newStoreExecutor(db), nil
}

// target names what an executor works on, for messages.
func (sh *shell) target(exec executor) string {
	if store, ok := exec.(*storeExecutor); ok {
		return store.db.Dir()
	}
	return sh.address.endpoint
}

// figures runs a command for its figures: an error reply is an error.
func figures(ctx context.Context, exec executor, words ...string) (reply.Reply, error) {
	r, err := exec.do(ctx, commandWords(words...))
	switch {
	case err != nil:
		return r, err
	case ctx.Err() != nil:
		return r, ctx.Err()
	case r.IsError() && bytes.HasPrefix(r.Bytes(), []byte("ERR unknown command")):
		return r, exit.Refusef("%s: the server has no such command: it is none of sievekv", words[0])
	case r.IsError():
		return r, exit.WithCode(exit.ReplyCode(r), fmt.Errorf("%s", r.Bytes()))
	}
	return r, nil
}
