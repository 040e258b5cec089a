package replica

import (
	"bytes"
	"encoding/hex"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

var exampleMembers = members{
	state: &pb.ConfState{Voters: []uint64{0x0102030405060708, 2}, Learners: []uint64{3}, AutoLeave: new(false)},
	infos: map[uint64]Info{
		2:                  {2, "b", "10.0.0.2:7380", "10.0.0.2:6380"},
		0x0102030405060708: {0x0102030405060708, "a", "10.0.0.1:7380", ""},
		3:                  {3, "", "10.0.0.3:7380", ""},
	},
}

// The store of each member has these bytes.
const goldenMembers = "01" + "10" + "0888 8e98a8c0e08081 01 0802 1003 2800" + "03" +
	"0200000000000000" + "01 62" + "0d 31302e302e302e323a37333830" + "0d 31302e302e302e323a36333830" +
	"0300000000000000" + "00" + "0d 31302e302e302e333a37333830" + "00" +
	"0807060504030201" + "01 61" + "0d 31302e302e302e313a37333830" + "00"

func TestMembers_golden(t *testing.T) {
	got, err := exampleMembers.encode()
	if err != nil {
		t.Fatal(err)
	}
	want := string(bytes.ReplaceAll([]byte(goldenMembers), []byte(" "), nil))
	if hex.EncodeToString(got) != want {
		t.Errorf("got  %x\nwant %s", got, want)
	}
	m, err := decodeMembers(got)
	if err != nil {
		t.Fatal(err)
	}
	again, err := m.encode()
	if err != nil || !bytes.Equal(again, got) {
		t.Errorf("decoded and encoded: %x, %v", again, err)
	}
	for i := 1; i < len(got); i++ {
		if _, err := decodeMembers(got[:i]); err == nil {
			t.Errorf("cut after %d bytes: no error", i)
		}
	}
	if _, err := decodeMembers(append(got, 0)); err == nil {
		t.Error("a byte too many: no error")
	}
	if _, err := decodeMembers(append([]byte{2}, got[1:]...)); err == nil {
		t.Error("another version: no error")
	}
}

func FuzzDecodeMembers(f *testing.F) {
	b, _ := exampleMembers.encode()
	f.Add(b)
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decodeMembers(data)
		if err != nil {
			return
		}
		again, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if same, err := decodeMembers(again); err != nil || len(same.infos) != len(m.infos) {
			t.Errorf("%x: encoded again %x: %v", data, again, err)
		}
	})
}

func FuzzParseToken(f *testing.F) {
	t := Token{group: [16]byte{1}, self: Info{1, "a", "b:1", "c:2"}, peers: []Info{{2, "x", "y:1", ""}}}
	f.Add(t.String())
	f.Fuzz(func(t *testing.T, s string) {
		if token, err := ParseToken(s); err == nil {
			if again, err := ParseToken(token.String()); err != nil || again.String() != token.String() {
				t.Errorf("%s: again %s, %v", s, again, err)
			}
		}
	})
}
