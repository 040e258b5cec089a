package raftlog_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sievekv/sievekv/internal/raftlog"
)

func golden() raftlog.Encoded {
	first := entry(0x1234, 5, "one")
	second := entry(0x1235, 6, "")
	second.Type = pb.EntryConfChangeV2.Enum()
	return raftlog.Encode(first, second, "node", []byte{1, 2})
}

// The stored bytes never change.
func TestFormat_golden(t *testing.T) {
	got := golden()
	for _, tt := range []struct {
		name string
		got  []byte
		want string
	}{
		{"key of an entry", got.EntryKey, "65 0000000000001234"},
		{"entry", got.Entry, "631f8a83 04030201 0500000000000000 1902000000000000 00 6f6e65"},
		{"entry without data", got.NextEntry, "c41b4457 631f8a83 0600000000000000 3b02000000000000 02"},
		{"key of the state record", got.StateKey, "65 0000000000001235 0000000000000003"},
		{"state record", got.State, "5356524c 0100 0000 0300000000000000 3312000000000000 0500000000000000 f401000000000000 04030201 3512000000000000 0600000000000000 3b02000000000000 c41b4457 0600000000000000 bc0a000000000000 3412000000000000 0900000000000000 2211000000000000 92df70f8 05a37608"},
		{"mark", got.Mark, "ddbbcb7c 0102"},
		{"SYNCED", got.Synced, "53565253 0100 0000 2211000000000000 0300000000000000 9dbd173d"},
	} {
		if want := strings.ReplaceAll(tt.want, " ", ""); hex.EncodeToString(tt.got) != want {
			t.Errorf("%s: %x, want %s", tt.name, tt.got, want)
		}
	}
}

// Whatever is read is an error, or encodes to the same bytes again.
func FuzzDecode(f *testing.F) {
	g := golden()
	for _, b := range [][]byte{g.Entry, g.NextEntry, g.State, g.Mark, g.Synced} {
		f.Add(uint64(0x1234), b)
	}
	f.Fuzz(func(t *testing.T, index uint64, b []byte) {
		checkDecode(t, index, b)
		if len(b) > 4 {
			checkDecode(t, index, raftlog.WithCRC(b))
		}
	})
}

func checkDecode(t *testing.T, index uint64, b []byte) {
	t.Helper()
	entry, state, mark, synced, errs := raftlog.Decode(index, b)
	for _, again := range [][]byte{entry, state, mark, synced} {
		if again != nil && !bytes.Equal(again, b) {
			t.Errorf("%x of index %d is %x when it is written again", b, index, again)
		}
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, raftlog.ErrDamaged) && !errors.Is(err, raftlog.ErrVersion) {
			t.Errorf("%x of index %d: %v", b, index, err)
		}
	}
}

// A flipped bit in a record is noticed; one in a version is not taken for a newer version.
func TestFormat_flipped(t *testing.T) {
	g := golden()
	for which, b := range [][]byte{g.Entry, g.State, nil, g.Synced} {
		for bit := range 8 * len(b) {
			b[bit/8] ^= 1 << (bit % 8)
			if _, _, _, _, errs := raftlog.Decode(0x1234, b); !errors.Is(errs[which], raftlog.ErrDamaged) {
				t.Errorf("record %d, bit %d: %v", which, bit, errs[which])
			}
			b[bit/8] ^= 1 << (bit % 8)
		}
	}
	for which, b := range map[int][]byte{1: g.State, 3: g.Synced} {
		b[4]++
		if _, _, _, _, errs := raftlog.Decode(0, raftlog.WithCRC(b)); !errors.Is(errs[which], raftlog.ErrVersion) {
			t.Errorf("record %d of the next version: %v", which, errs[which])
		}
	}
}
