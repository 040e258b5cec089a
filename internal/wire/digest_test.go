package wire_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/internal/wire"
)

// What is told is heard from the member that told it, and the answer comes back.
func TestTell(t *testing.T) {
	type heard struct {
		from uint64
		body string
	}
	all := make(chan heard, 10)
	a, b := newMember(t, 1, nil), newMember(t, 2, func(_ *member, o *wire.Options) {
		o.HandleDigest = func(from uint64, body []byte) error {
			all <- heard{from, string(body)}
			if len(body) == 0 {
				return errors.New("it is empty")
			}
			return nil
		}
	})
	b.knows(t, a)
	a.knows(t, b)
	if err := a.Tell(t.Context(), 2, []byte("digest")); err != nil {
		t.Fatal(err)
	}
	if got := <-all; got != (heard{1, "digest"}) {
		t.Errorf("heard %+v", got)
	}
	for what, tt := range map[string]struct {
		from *member
		to   uint64
		want string
		body []byte
	}{
		"an answer":            {a, 2, "it is empty", nil},
		"too much":             {a, 2, "EOF", make([]byte, 2000)},
		"who knows no digests": {b, 1, "no digests", nil},
		"a member of nobody's": {a, 3, "member 3 is not known", nil},
	} {
		if err := tt.from.Tell(t.Context(), tt.to, tt.body); err == nil || !strings.Contains(err.Error(), tt.want) && what != "too much" {
			t.Errorf("%s: %v, want %q", what, err, tt.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Tell(ctx, 2, []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context: %v", err)
	}
}

// A program of before refuses the hello, so whoever tells learns that it does not know digests.
func TestTell_older(t *testing.T) {
	l := listen(t, "127.0.0.1:0")
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if _, _, _, err := wire.ReadFrame(c, 1<<10); err == nil {
			_, _ = c.Write(wire.Frame(wire.Answer, append([]byte{1}, "not a frame of a group: a hello of 39 bytes for something else"...)))
		}
	}()
	a := newMember(t, 1, nil)
	must(t, a.SetPeers(map[uint64]string{2: l.Addr().String()}))
	if err := a.Tell(t.Context(), 2, nil); err == nil {
		t.Error("it is taken")
	}
	must(t, l.Close())
}
