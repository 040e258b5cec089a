package wire_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/sievekv/sievekv/internal/wire"
)

func marshal(t *testing.T, m *pb.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	must(t, err)
	return b
}

// received is a snapshot as the handler saw it.
type received struct {
	index uint64
	data  []byte
	err   error
}

// snapshots returns a sender, and a receiver that answers with what answer returns.
func snapshots(t *testing.T, answer func(ctx context.Context) error) (a, b *member, got chan received) {
	t.Helper()
	ca := newAuthority(t)
	got = make(chan received, 10)
	b = newMember(t, 2, func(_ *member, o *wire.Options) {
		o.TLS = ca.config(t)
		o.HandleSnapshot = func(ctx context.Context, from uint64, m *pb.Message, r io.Reader) error {
			data, err := io.ReadAll(iotest.OneByteReader(io.LimitReader(r, 1000)))
			if err == nil {
				var rest []byte
				rest, err = io.ReadAll(r)
				data = append(data, rest...)
			}
			got <- received{m.GetIndex(), data, err}
			return errors.Join(err, answer(ctx))
		}
	})
	a = newMember(t, 1, withTLS(ca.config(t)))
	b.knows(t, a)
	a.knows(t, b)
	return a, b, got
}

func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

// A snapshot arrives whole, beside messages.
func TestSnapshot(t *testing.T) {
	a, b, got := snapshots(t, func(context.Context) error { return nil })
	for i, size := range []int{0, 1, 5<<20 + 7} {
		data := noise(size)
		must(t, a.SendSnapshot(t.Context(), 2, message(1, 2, uint64(i), 0), func(w io.Writer) error {
			reach(a, b, 99)
			_, err := io.Copy(w, bytes.NewReader(data))
			return err
		}))
		if r := <-got; r.index != uint64(i) || !bytes.Equal(r.data, data) || r.err != nil {
			t.Errorf("%d bytes: %d of snapshot %d, %v", size, len(r.data), r.index, r.err)
		}
	}
}

// A snapshot that ends before its end is an error on both sides.
func TestSnapshot_cut(t *testing.T) {
	a, _, got := snapshots(t, func(context.Context) error { return nil })
	broken := errors.New("the disk is broken")
	err := a.SendSnapshot(t.Context(), 2, message(1, 2, 1, 0), func(w io.Writer) error {
		_, err := w.Write(noise(1 << 20))
		must(t, err)
		return broken
	})
	if r := <-got; r.err == nil || !errors.Is(err, broken) {
		t.Errorf("%v, and at the receiver %v", err, r.err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = a.SendSnapshot(ctx, 2, message(1, 2, 1, 0), func(w io.Writer) error {
		_, err := w.Write(noise(1 << 20))
		must(t, err)
		cancel()
		for err == nil {
			_, err = w.Write(noise(1 << 20))
		}
		return err
	})
	if r := <-got; r.err == nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, and at the receiver %v", err, r.err)
	}
}

// The sender learns why a snapshot was not taken over, and that there is nobody to send it to.
func TestSnapshot_refused(t *testing.T) {
	a, b, _ := snapshots(t, func(context.Context) error { return errors.New("it is of another store") })
	nothing := func(io.Writer) error { return nil }
	if err := a.SendSnapshot(t.Context(), 2, message(1, 2, 1, 0), nothing); err == nil || !strings.Contains(err.Error(), "it is of another store") {
		t.Error(err)
	}
	if err := a.SendSnapshot(t.Context(), 3, message(1, 3, 1, 0), nothing); err == nil || !strings.Contains(err.Error(), "member 3 is not known") {
		t.Error(err)
	}
	if err := a.SendSnapshot(t.Context(), 2, message(1, 3, 1, 0), nothing); err == nil {
		t.Error("a snapshot for another was taken")
	}
	must(t, b.Close())
	if err := a.SendSnapshot(t.Context(), 2, message(1, 2, 1, 0), nothing); err == nil {
		t.Error("sent to nobody")
	}
}

// The sender learns why a snapshot was refused that it is still sending.
func TestSnapshot_early(t *testing.T) {
	a := newMember(t, 1, nil)
	b := newMember(t, 2, nil) // which takes no snapshots
	b.knows(t, a)
	a.knows(t, b)
	err := a.SendSnapshot(t.Context(), 2, message(1, 2, 1, 0), func(w io.Writer) (err error) {
		for err == nil {
			_, err = w.Write(noise(1000))
		}
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "no snapshots") {
		t.Error(err)
	}
}

// A second snapshot of a member ends the first, whose handler is told.
func TestSnapshot_replaced(t *testing.T) {
	begun, ended := make(chan uint64, 2), make(chan error, 2)
	b := newMember(t, 2, func(_ *member, o *wire.Options) {
		o.HandleSnapshot = func(_ context.Context, _ uint64, m *pb.Message, r io.Reader) error {
			begun <- m.GetIndex()
			_, err := io.Copy(io.Discard, r)
			ended <- err
			return err
		}
	})
	a := newMember(t, 1, nil)
	b.knows(t, a)
	a.knows(t, b)
	err := a.SendSnapshot(t.Context(), 2, message(1, 2, 1, 0), func(w io.Writer) error {
		<-begun
		must(t, a.SendSnapshot(t.Context(), 2, message(1, 2, 2, 0), func(io.Writer) error { return nil }))
		if first, second := <-ended, <-ended; (first == nil) == (second == nil) {
			t.Errorf("%v, %v", first, second)
		}
		return nil
	})
	if err == nil {
		t.Error("the first was sent all the same")
	}
}

// A handler that waits is told when the sender is gone.
func TestSnapshot_gone(t *testing.T) {
	told := make(chan struct{})
	a, b, _ := snapshots(t, func(ctx context.Context) error {
		<-ctx.Done()
		close(told)
		return ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan error)
	go func() {
		sent <- a.SendSnapshot(ctx, 2, message(1, 2, 1, 0), func(io.Writer) error { return nil })
	}()
	cancel()
	if err := <-sent; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	must(t, b.Close())
}
