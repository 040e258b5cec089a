package wire_test

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/sievekv/sievekv/internal/wire"
)

// What members say to each other, byte by byte.
func TestFrame_golden(t *testing.T) {
	for _, tt := range []struct {
		got  []byte
		want string
	}{
		{wire.Frame(wire.Data, []byte("abc")), "03000000dd98617a04616263"},
		{wire.HelloOf(wire.ForSnapshot, [16]byte{15: 0xff}, 0x0102, 3), "53564b57010002000000000000000000000000000000ff02010000000000000300000000000000"},
	} {
		if got := hex.EncodeToString(tt.got); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}

// A length that is only announced takes no memory.
func TestFrame_announced(t *testing.T) {
	b := wire.Frame(wire.Message, make([]byte, 100))
	b[3] = wire.MaxMessage>>24 - 1
	_, _, kept, err := wire.ReadFrame(bytes.NewReader(b), wire.MaxMessage)
	if err == nil || kept > 10000 {
		t.Errorf("%d bytes, %v", kept, err)
	}
}

// Whatever is read is an error, or the same when it is written again.
func FuzzReadFrame(f *testing.F) {
	f.Add(wire.Frame(wire.Hello, wire.HelloOf(wire.ForMessages, cluster, 1, 2)))
	f.Add(append(wire.Frame(wire.Ping, nil), wire.Frame(wire.Data, []byte("abc"))...))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		for done := 0; ; done = len(b) - r.Len() {
			kind, body, _, err := wire.ReadFrame(r, 1<<20)
			if err != nil {
				return
			}
			if again := wire.Frame(kind, body); !bytes.Equal(again, b[done:done+len(again)]) {
				t.Fatalf("%x, and written again %x", b[done:], again)
			}
			if h, err := wire.AgainHello(body); err == nil && !bytes.Equal(h, body) {
				t.Fatalf("hello %x, and written again %x", body, h)
			}
		}
	})
}
