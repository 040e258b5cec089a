package entry

import (
	"bytes"
	"encoding/hex"
	"testing"
)

var example = Message{
	Flags: Whole | Group, Proposal: 0x0102030405060708, Millis: 1764300000000, Level: 3,
	Base: Hashed{Index: 77, Hash: Hash{0: 0xaa, 15: 0xbb}}, Record: []byte("record"),
}

// The bytes are in the logs of members, which read each other's and older programs' entries.
const golden = "01" + "03" + "0807060504030201" + "008b79c89a010000" + "03" + "4d00000000000000" + "aa0000000000000000000000000000bb" + "7265636f7264"

func TestMessage_golden(t *testing.T) {
	got := example.Append(nil)
	if hex.EncodeToString(got) != golden {
		t.Errorf("got  %x\nwant %s", got, golden)
	}
	if len(got) != example.Size() {
		t.Errorf("size %d, want %d", example.Size(), len(got))
	}
	m, err := Decode(got)
	if err != nil || !bytes.Equal(m.Append(nil), got) {
		t.Errorf("decoded %+v, %v", m, err)
	}
}

func TestDecode_refuses(t *testing.T) {
	whole := example.Append(nil)
	other := func(i int, b byte) []byte {
		data := bytes.Clone(whole)
		data[i] = b
		return data
	}
	for _, test := range []struct {
		name string
		data []byte
		want string
	}{
		{"nothing", nil, "message of 0 bytes, want at least 43"},
		{"cut", whole[:headerSize-1], "message of 42 bytes, want at least 43"},
		{"version", other(0, 2), "message of version 2, want 1: a newer sievekv has written it"},
		{"flags", other(1, 8), "message with flags 0x8, want at most 0x7: a newer sievekv has written it"},
	} {
		if _, err := Decode(test.data); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
}

func TestHash(t *testing.T) {
	first := First([16]byte{1})
	if got := hex.EncodeToString(first[:]); got != "077166e114abd052987f3538ca3d6047" {
		t.Errorf("first %s", got)
	}
	base := first.Next(5, 2, []byte("payload"))
	for name, other := range map[string]Hash{
		"index":   first.Next(6, 2, []byte("payload")),
		"term":    first.Next(5, 3, []byte("payload")),
		"payload": first.Next(5, 2, []byte("payloae")),
		"before":  First([16]byte{2}).Next(5, 2, []byte("payload")),
	} {
		if other == base {
			t.Errorf("another %s gives the same hash", name)
		}
	}
	if first.Next(5, 2, []byte("payload")) != base {
		t.Error("the same entry gives another hash")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(example.Append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := Decode(data); err == nil && !bytes.Equal(m.Append(nil), data) {
			t.Errorf("%x decodes to %+v", data, m)
		}
	})
}

// A control message that says to compare is refused by programs that do not know it, for its level; others stay as they were.
func TestCompare(t *testing.T) {
	if got := Compare(7); !bytes.Equal(got, []byte{1, 7}) {
		t.Errorf("it says %x", got)
	}
	if LevelFor(Control, Compare(7)) != 2 || LevelFor(Control, nil) != 1 || LevelFor(Group, Compare(7)) != 1 {
		t.Error("the levels are others")
	}
	for _, tt := range []struct {
		m    Message
		part uint8
		is   bool
		fits bool
	}{
		{Message{Flags: Control, Level: 2, Record: Compare(255)}, 255, true, true},
		{Message{Flags: Control, Level: 1}, 0, false, true},
		{Message{Flags: Whole, Level: 1, Record: Compare(9)}, 0, false, true},
		{Message{Flags: Control, Level: 2, Record: []byte{2, 9}}, 0, false, false},
		{Message{Flags: Control, Level: 2, Record: []byte{1}}, 0, false, false},
		{Message{Flags: Control, Level: 3, Record: []byte{2, 9}}, 0, false, true}, // its level is what refuses it
	} {
		m, err := Decode(tt.m.Append(nil))
		if (err == nil) != tt.fits {
			t.Errorf("%+v: %v", tt.m, err)
		}
		if part, is := m.Compares(); part != tt.part || is != tt.is {
			t.Errorf("%+v compares part %d, %t", tt.m, part, is)
		}
	}
}
