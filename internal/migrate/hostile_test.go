package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/module/reply"
)

// flood is a server that answers commands sent side by side with what it likes.
type flood struct {
	*fake
	answer reply.Reply
	given  int
}

func (f *flood) Open(context.Context) error { return nil }

func (f *flood) Send(context.Context, [][]byte) error { return nil }

func (f *flood) Receive(context.Context) (reply.Reply, error) {
	f.given++
	return f.answer, nil
}

// A server that answers questions about many keys with long replies is not read to the end.
func TestCopy_flood(t *testing.T) {
	defer func(before int64) { mostReplies = before }(mostReplies)
	mostReplies = 1 << 18
	for name, answer := range map[string]reply.Reply{
		"a string": reply.BulkString(strings.Repeat("a", 100<<10)),
		"an array": reply.Array(make([]reply.Reply, 1<<12)...),
	} {
		from := &flood{fake: newFake(), answer: answer}
		for i := range 200 {
			from.keys[fmt.Sprint(i)] = &value{text: "x"}
		}
		_, err := Copy(t.Context(), from, newFake(), options())
		if err == nil || !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "commands, such as TYPE, take more than 262144 bytes") || from.given > 20 {
			t.Errorf("%s: %d replies were read, %v", name, from.given, err)
		}
	}
}

// A report is no longer than it may be, whatever a server says. It still counts everything.
func TestReport_bounded(t *testing.T) {
	r := Report{Others: map[string]int{}}
	long := strings.Repeat("x", 10_000)
	for i := range 5000 {
		r.fail(fmt.Appendf(nil, "%d", i), long)
		r.leaveOut(fmt.Sprint(i) + long)
	}
	text := r.Text(false)
	if len(text) > 1<<20 || !strings.Contains(text, "not copied, others   4000\n") || !strings.Contains(text, "left out             4000 of type (other types)\n") {
		t.Errorf("%d bytes: %.500s", len(text), text)
	}
	if err := r.Err(); err == nil || !strings.HasPrefix(err.Error(), "5000 keys ") {
		t.Error(err)
	}
}
