// Package migrate copies strings, and Bloom and cuckoo filters, from an RDB file or a server, to a store or a server. The
// words pull, push and import-rdb of kvshell run it.
//
// It is a tree of its own, beside the shell: package rdb below reads what a Redis stores. That parser is ours because no
// module for Go that is maintained reads RDB files with the filters of RedisBloom in them, and bounds the memory that a file
// with any bytes takes.
//
// # How a key is copied
//
// A string is one SET. A filter is loaded by LOADCHUNK under another key, its own with Suffix. Its dump is read back
// and compared with what was sent. Then it gets its time to live, and is renamed. A string that the target does not take
// by one SET is written in the same way, by several APPENDs. So under a key that was missing
// there is nothing, or all of the value; and under one that existed the old value, or the new one. A run that ends
// early is run again: it passes over what is equal already.
//
// The file source.go reads a server, file.go reads an RDB file, target.go writes.
package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sievekv/sievekv/internal/migrate/rdb"
	"github.com/sievekv/sievekv/module/reply"
)

// Suffix is what is added to a key for the key under which its filter is loaded.
const Suffix = "#kvshell-copy"

// Doer runs commands: in a store, or on a server.
type Doer interface {
	Do(ctx context.Context, words [][]byte) (reply.Reply, error)
}

// Conflict says what is done about a key that holds another value at the target.
type Conflict string

// The answers to a conflict.
const (
	Fail    Conflict = "fail"
	Skip    Conflict = "skip"
	Replace Conflict = "replace"
)

// Set sets the answer that a word names.
func (c *Conflict) Set(word string) error {
	switch Conflict(word) {
	case Fail, Skip, Replace:
		*c = Conflict(word)
		return nil
	}
	return errors.New("must be fail, skip or replace")
}

func (c *Conflict) String() string { return string(*c) }

// Type returns what help shows for the flag's value.
func (c *Conflict) Type() string { return "WHAT" }

// Options are what a run is asked to do.
type Options struct {
	OnConflict Conflict // "" is Fail
	DryRun     bool
	Match      string // a pattern, "" for all keys; of a server
	Prefix     string // put before the keys at the target
	Database   uint64 // of a file

	List     io.Writer         // gets a line for each key of a dry run
	ListMost int               // if not 0, it gets no more lines than this, and the number of the others
	Progress func(Report)      // if it is not nil, called after each step
	Now      func() time.Time  // for tests
	Step     func(name string) // for tests, called between steps
}

// Report is what a run did.
type Report struct {
	Strings, Filters  int // copied
	Unchanged         int // equal already
	Skipped           int // hold another value
	Expired           int
	OfOtherDatabases  int
	Copies            int            // keys with Suffix
	Others            map[string]int // values that are neither, by type
	Failed            []string       // keys that could not be copied, and why; no more than listed
	failed            int            // how many these are
	BytesRead         int64          // of the file
	wouldBe, seenKeys int
	unlisted          int // of wouldBe
}

// What a report lists of what a server says is bounded, or the server could fill the memory.
const (
	listed      = 1000 // keys, and types
	listedBytes = 300  // of why a key could not be copied, and of the name of a type
	otherTypes  = "(other types)"
)

// fail reports that a key could not be copied.
func (r *Report) fail(key []byte, why string) {
	if r.failed++; len(r.Failed) < listed {
		r.Failed = append(r.Failed, shown(key)+": "+why[:min(len(why), listedBytes)])
	}
}

// leaveOut counts a value that is not copied because of its type.
func (r *Report) leaveOut(typeName string) {
	typeName = typeName[:min(len(typeName), listedBytes)]
	if r.Others[typeName] == 0 && len(r.Others) >= listed {
		typeName = otherTypes
	}
	r.Others[typeName]++
}

// Keys returns how many keys were looked at.
func (r *Report) Keys() int { return r.seenKeys }

// Text returns the report for a person.
func (r *Report) Text(dry bool) string {
	var b strings.Builder
	line := func(name string, n int) { fmt.Fprintf(&b, "%-20s %d\n", name, n) }
	if dry {
		if r.unlisted > 0 {
			line("not listed", r.unlisted)
		}
		line("would be copied", r.wouldBe)
	} else {
		line("strings copied", r.Strings)
		line("filters copied", r.Filters)
		line("equal already", r.Unchanged)
	}
	for _, optional := range []struct {
		name string
		n    int
	}{{"skipped", r.Skipped}, {"expired", r.Expired}, {"of other databases", r.OfOtherDatabases}} {
		if optional.n > 0 {
			line(optional.name, optional.n)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Others)) {
		fmt.Fprintf(&b, "%-20s %d of type %s\n", "left out", r.Others[name], name)
	}
	if r.Copies > 0 {
		fmt.Fprintf(&b, "%-20s %d with %s behind the key, which another run has not finished\n", "left out", r.Copies, Suffix)
	}
	for _, failed := range r.Failed {
		fmt.Fprintf(&b, "%-20s %s\n", "not copied", failed)
	}
	if more := r.failed - len(r.Failed); more > 0 {
		line("not copied, others", more)
	}
	return reply.Printable(b.String()) // servers say what is in it
}

// Err returns an error if keys could not be copied.
func (r *Report) Err() error {
	if r.failed > 0 {
		return refuse("%d keys could not be copied", r.failed)
	}
	return nil
}

// run is one run.
type run struct {
	Options
	to     Doer
	report Report
}

func newRun(to Doer, o Options) *run {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Step == nil {
		o.Step = func(string) {}
	}
	return &run{Options: o, to: to, report: Report{Others: map[string]int{}}}
}

func (r *run) show() {
	if r.Progress != nil {
		r.Progress(r.report)
	}
}

// item is a key that is being copied.
type item struct {
	key     []byte    // at the source
	expires time.Time // zero for never
	value   []byte    // of a string
	filter  filter    // nil for a string
}

// filter is a filter at the source.
type filter interface {
	// words returns BF or CF.
	words() string

	// chunks gives the chunks of a dump, the header first. The data of a chunk is valid until give returns.
	chunks(ctx context.Context, give func(rdb.Chunk) error) error

	// changed reports whether items were added or deleted since chunks gave the header.
	changed(ctx context.Context) (bool, error)
}

// words returns the first words of a filter's commands, "" for another type.
func words(typeName string) string {
	switch typeName {
	case rdb.Bloom:
		return "BF"
	case rdb.Cuckoo:
		return "CF"
	}
	return ""
}

// target returns the key at the target.
func (r *run) target(key []byte) []byte { return append([]byte(r.Prefix), key...) }

// list writes the line of a dry run.
func (r *run) list(typeName string, key []byte, more string) error {
	r.report.wouldBe++
	if r.ListMost > 0 && r.report.wouldBe > r.ListMost {
		r.report.unlisted++
		return nil
	}
	_, err := io.WriteString(r.List, reply.Printable(fmt.Sprintf("%s %s%s\n", typeName, shown(r.target(key)), more)))
	return err
}

// command returns the words of a command.
func command(first string, more ...[]byte) [][]byte { return append([][]byte{[]byte(first)}, more...) }

// do runs a command. An error reply is an error.
func do(ctx context.Context, d Doer, words [][]byte) (reply.Reply, error) {
	replies, err := doAll(ctx, d, [][][]byte{words})
	if err != nil {
		return reply.Nil, err
	}
	return replies[0], replyError(words, replies[0])
}

// ErrRefused is in the error of a run that cannot go on because of what a server answers, or of what a key holds.
var ErrRefused = errors.New("refused")

// Refusal is an error reply. It is an ErrRefused.
type Refusal struct {
	Command string
	Reply   reply.Reply
}

func (e *Refusal) Error() string { return e.Command + ": " + string(e.Reply.Bytes()) }

// Is reports whether target is ErrRefused.
func (e *Refusal) Is(target error) bool { return target == ErrRefused }

// startsWith reports whether the text of the reply starts with one of the words, as that of an error does with its kind.
func (e *Refusal) startsWith(words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return bytes.HasPrefix(e.Reply.Bytes(), []byte(word)) })
}

// refused is an ErrRefused with a text of its own.
type refused string

func (e refused) Error() string { return string(e) }

func (e refused) Is(target error) bool { return target == ErrRefused }

func refuse(format string, args ...any) error { return refused(fmt.Sprintf(format, args...)) }

func replyError(words [][]byte, r reply.Reply) error {
	if !r.IsError() {
		return nil
	}
	return &Refusal{string(words[0]), r}
}

// isRefusal reports whether a command was answered with an error that concerns one key, or one command.
func isRefusal(err error) bool {
	own, ok := errors.AsType[*Refusal](err)
	return ok && !own.startsWith("MISCONF ", "OOM ", "CORRUPT ")
}

// isDenied reports whether a server does not let this user run a command.
func isDenied(err error) bool {
	own, ok := errors.AsType[*Refusal](err)
	return ok && own.startsWith("NOPERM ")
}

// isTooLarge reports whether a store has refused a value, or a key, for its length.
func isTooLarge(err error) bool {
	own, ok := errors.AsType[*Refusal](err)
	return ok && own.startsWith("ERR too large: ")
}

// sender is a server, which takes several commands at a time.
type sender interface {
	Open(ctx context.Context) error
	Send(ctx context.Context, words [][]byte) error
	Receive(ctx context.Context) (reply.Reply, error)
}

// MostReplies is the most bytes of replies that are in memory at a time: the longest string, and as much as is asked for at a
// time. A server that sends more tells its lengths wrong.
const MostReplies = rdb.MaxString + most

var mostReplies int64 = MostReplies // less in tests

// weigh returns about how many bytes of memory a reply takes.
func weigh(r reply.Reply) (n int64) {
	const each = 64
	for _, elem := range r.Elems() {
		n += weigh(elem)
	}
	return n + each + int64(len(r.Bytes()))
}

// inFlight is how many commands are sent before their replies are read. A connection keeps that many replies.
const inFlight = 16

// doAll runs commands and returns their replies.
func doAll(ctx context.Context, d Doer, commands [][][]byte) (replies []reply.Reply, err error) {
	s, ok := d.(sender)
	if !ok || len(commands) == 1 {
		for _, words := range commands {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			r, err := d.Do(ctx, words)
			if err != nil {
				return nil, err
			}
			replies = append(replies, r.RESP2())
		}
		return replies, nil
	}
	weight := int64(0)
	for part := range slices.Chunk(commands, inFlight) {
		if err := s.Open(ctx); err != nil {
			return nil, err
		}
		for _, words := range part {
			if err := s.Send(ctx, words); err != nil {
				return nil, err
			}
		}
		for range part {
			r, err := s.Receive(ctx)
			if err != nil {
				return nil, err
			}
			if weight += weigh(r); weight > mostReplies {
				return nil, refuse("the replies to %d commands, such as %s, take more than %d bytes", len(commands), commands[0][0], mostReplies)
			}
			replies = append(replies, r.RESP2())
		}
	}
	return replies, nil
}

// isWrongType reports whether a command was answered that the value is of another type.
func isWrongType(r reply.Reply) bool {
	return r.IsError() && bytes.HasPrefix(r.Bytes(), []byte("WRONGTYPE "))
}

// isNone reports whether a reply says that there is no value.
func isNone(r reply.Reply) bool { return r.Kind() == reply.KindNil }

// shownBytes is how many bytes of a key messages show.
const shownBytes = 100

// shown returns a key for messages, without the end of a long one.
func shown(key []byte) string {
	rest := key[min(len(key), shownBytes):]
	text := strings.TrimSuffix(string(reply.AppendText(nil, reply.Bulk(key[:len(key)-len(rest)]))), "\n")
	if len(rest) == 0 {
		return text
	}
	return fmt.Sprintf("%s and %d bytes more", text, len(rest))
}

func isCopy(key []byte) bool { return bytes.HasSuffix(key, []byte(Suffix)) }
