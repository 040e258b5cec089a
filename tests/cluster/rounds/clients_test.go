package rounds

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
)

// told is an error of a server.
type told string

func (e told) Error() string { return string(e) }
func (told) RedisError()     {}

var _ redis.Error = told("")

func TestOutcomeOf(t *testing.T) {
	for _, tt := range []struct {
		answer error
		want   outcome
		odd    bool
	}{
		{nil, acknowledged, false},
		{told("MOVED 1 127.0.0.1:1"), refused, false},
		{told("CLUSTERDOWN The cluster is down"), refused, false},
		{told("EXECABORT Transaction discarded"), refused, false},
		{told("UNKNOWN the outcome"), unknown, false},
		{told("READONLY You can't write against a read only replica."), unknown, true},
		{told("TRYAGAIN"), unknown, true},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, refused, false},
		{&net.OpError{Op: "read", Err: errors.New("connection reset")}, unknown, false},
		{io.EOF, unknown, false},
		{context.DeadlineExceeded, unknown, false},
	} {
		if got, _, err := outcomeOf(tt.answer); got != tt.want || (err != nil) != tt.odd {
			t.Errorf("%v: outcome %d, %v", tt.answer, got, err)
		}
	}
}

func TestCounter(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []int64 // replies; 0 for one that is unknown
		wrong bool
	}{
		{"in turn", []int64{1, 2, 3}, false},
		{"an unknown one was made", []int64{1, 0, 3}, false},
		{"it was not", []int64{1, 0, 2}, false},
		{"it is made later", []int64{1, 0, 2, 4}, false},
		{"doubled", []int64{1, 3}, true},
		{"twice the unknown one", []int64{1, 0, 4}, true},
		{"lost", []int64{1, 2, 2}, true},
	} {
		c, wrong := counter{}, false
		for _, n := range tt.steps {
			o := acknowledged
			if n == 0 {
				o = unknown
			}
			wrong = c.add(o, n) != nil || wrong
		}
		if wrong != tt.wrong {
			t.Errorf("%s: wrong %t", tt.name, wrong)
		}
	}
}

// A proxy holds up what goes over a link that is cut, and passes it on when the link is whole again.
func TestNetwork(t *testing.T) {
	member, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := newNetwork(nil)
	n.proxy(l, member.Addr().String())
	n.set(link{cut: true}, both(7, 8)...)
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	hello := make([]byte, helloLen+1)
	hello[helloIDs], hello[helloIDs+8] = 7, 8
	if _, err := c.Write(hello); err != nil {
		t.Fatal(err)
	}
	other := make([]byte, helloLen)
	other[helloIDs], other[helloIDs+8] = 8, 9
	d, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Write(other); err != nil {
		t.Fatal(err)
	}
	for i, want := range []byte{8, 7} { // the second connection comes first: the first waits
		if i == 1 {
			n.heal()
		}
		accepted, err := member.Accept()
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, helloLen)
		if _, err := io.ReadFull(accepted, got); err != nil || got[helloIDs] != want {
			t.Errorf("connection %d is of member %d, %v", i, got[helloIDs], err)
		}
		defer func() { _ = accepted.Close() }()
	}
	n.close()
	for _, c := range []net.Conn{c, d} {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a connection goes on after the end")
		}
	}
	_ = member.Close()
}
