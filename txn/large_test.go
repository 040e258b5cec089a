package txn_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// Commands on strings; V stands for the value. Some commands copy only a part of a large string.
const largeScript = `
SET k V
GET k
STRLEN k
GETRANGE k 0 3
GETRANGE k -3 -1
GETRANGE k 5 2
EXISTS k k x
TYPE k
MGET k x k
GETSET k V
SET k V GET
SET k V NX
SET k V XX KEEPTTL
APPEND k V
STRLEN k
EXPIRE k 1000
PERSIST k
TTL k
COPY k l
RENAME l m
GET m
STRLEN m
GET k
DEL m
GET m
EXISTS k m
COPY k m
DEL m k
MSET k V l V m V
MGET k l m
DEL k x l
MGET k l m
SETNX m V
GETEX m EX 1000
GETDEL m
GET m
SET m V
BF.INFO m
INCR m
SET m 1
GET m
MSETNX m V x V
SET m V
SETRANGE m 1 xx
GETRANGE m 0 4
KEYS *
SET m V
TOUCH m k
GETEX m PERSIST
RENAMENX m k
STRLEN k
UNLINK k
DBSIZE
`

// Commands answer the same for large strings as for small ones.
func TestLargeStrings(t *testing.T) {
	const small = "some text."
	large := strings.Repeat(small, 5000)
	for _, multi := range []bool{false, true} {
		want, got := runLarge(t, small, multi), runLarge(t, large, multi)
		for i, line := range strings.Split(strings.TrimSpace(largeScript), "\n") {
			if want[i] != got[i] {
				t.Errorf("in a transaction %t: %s answers %.200s for a large string, %.200s for a small one", multi, line, got[i], want[i])
			}
		}
		if i := slices.Index(want, `"V"`+"\n"); i < 0 {
			t.Errorf("no reply is the string: %q", want)
		}
	}
}

// runLarge runs the script with a value, in one transaction or none, and returns the replies. In them V stands for
// the value and L for its length.
func runLarge(t *testing.T, value string, multi bool) (replies []string) {
	t.Helper()
	session := module.NewSession(open(t, kv.Options{}))
	do := func(line string) reply.Reply {
		var words [][]byte
		for word := range strings.FieldsSeq(line) {
			if word == "V" {
				word = value
			}
			words = append(words, []byte(word))
		}
		return session.Do(t.Context(), words)
	}
	show := func(r reply.Reply) {
		text := strings.ReplaceAll(string(reply.AppendText(nil, r)), value, "V")
		text = strings.ReplaceAll(text, strconv.Itoa(2*len(value)), "2L")
		replies = append(replies, strings.ReplaceAll(text, strconv.Itoa(len(value)), "L"))
	}
	if multi {
		do("MULTI")
	}
	for line := range strings.SplitSeq(strings.TrimSpace(largeScript), "\n") {
		r := do(line)
		if !multi {
			show(r)
		}
	}
	if multi {
		for _, r := range do("EXEC").Elems() {
			show(r)
		}
	}
	return replies
}

// A deletion that is undone in a transaction leaves everything as it was.
func TestLargeString_deletionTakenBack(t *testing.T) {
	db := open(t, kv.Options{})
	value := strings.Repeat("text", 20_000)
	_, err := db.Set(kv.NoSync, []byte("k"), []byte(value), kv.SetOptions{})
	must(t, err)
	tx, err := db.BeginExclusive(context.Background(), kv.NoSync)
	must(t, err)
	defer tx.Rollback()
	refused := errors.New("refused")
	err = tx.Write(func(w *kv.Writer) error {
		if there, err := w.Delete([]byte("k")); !there || err != nil {
			t.Errorf("Delete = %t, %v", there, err)
		}
		return refused
	})
	if !errors.Is(err, refused) {
		t.Fatal(err)
	}
	must(t, tx.Read(func(r kv.Reader) error {
		got, err := r.Get([]byte("k"))
		if string(got) != value {
			t.Errorf("%d bytes are left, want %d", len(got), len(value))
		}
		return err
	}))
	must(t, tx.Write(func(w *kv.Writer) error { return w.Rename([]byte("k"), []byte("l")) }))
	must(t, tx.Commit())
	got, err := db.Get([]byte("l"))
	if string(got) != value || err != nil {
		t.Errorf("%d bytes are under the new key, want %d, %v", len(got), len(value), err)
	}
}

// The memory of a large string counts before the copy is made: a command without room is refused, and one that needs
// no copy is not.
func TestLargeString_charged(t *testing.T) {
	db := open(t, kv.Options{})
	_, err := db.Set(kv.NoSync, []byte("k"), make([]byte, 100_000), kv.SetOptions{})
	must(t, err)
	session := module.NewSession(db)
	full := errors.New("no room")
	charged := 0
	session.Charge = func(n int) error {
		if charged += n; charged > 50_000 {
			return full
		}
		return nil
	}
	for _, tt := range []struct {
		line    string
		refused bool
	}{
		{"GET k", true}, {"MGET k", true}, {"MGET k x", true}, {"GETSET k v", true}, {"SET k v GET", true}, {"GETDEL k", true},
		{"GETEX k EX 10", true}, {"STRLEN k", false}, {"GETRANGE k 0 10", false}, {"EXISTS k k", false}, {"TYPE k", false}, {"TTL k", false},
		{"EXPIRE k 1000", false}, {"PERSIST k", false}, {"BF.INFO k", false}, {"RENAME k l", false}, {"COPY l k", false}, {"DEL k l", false},
	} {
		charged = 0
		var words [][]byte
		for word := range strings.FieldsSeq(tt.line) {
			words = append(words, []byte(word))
		}
		r := session.Do(t.Context(), words)
		if refused := r.IsError() && strings.HasSuffix(string(r.Bytes()), "no room"); refused != tt.refused {
			t.Errorf("%s is refused: %t, want %t: %v", tt.line, refused, tt.refused, r)
		}
	}
}
