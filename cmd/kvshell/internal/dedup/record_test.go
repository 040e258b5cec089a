package dedup

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/input"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/system"
	"github.com/sievekv/sievekv/kv"
)

// goldenRecord is what testdata/record-v2.hex holds.
func goldenRecord() *record {
	r := goldenRecord1()
	r.version = 2
	r.run, r.tailSum = 0x4142434445464748, 0x5152535455565758
	r.file = system.FileID{Device: 0x6162636465666768, Inode: 0x7172737475767778}
	return r
}

// goldenRecord1 is what testdata/record-v1.hex holds, as the version before wrote it.
func goldenRecord1() *record {
	return &record{
		version: 1,
		start:   0x0102030405060708, end: 0x0102030405060738, sum: 0x1112131415161718,
		outLength: 0x2122232425262728, lines: 0x3132333435363738, newLines: 0x3132333435363737,
		answers: []bool{true, false, false, true, true, false, true, false, false, true},
		input:   "/data/list.gz", out: "/data/new",
	}
}

func goldenBytes(t testing.TB) []byte { return readGolden(t, "record-v2.hex") }

func readGolden(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRecord_golden(t *testing.T) {
	want := goldenBytes(t)
	if got := appendRecord(nil, goldenRecord()); !bytes.Equal(got, want) {
		t.Errorf("encoded as\n%x, want\n%x", got, want)
	}
	got, err := decodeRecord(want)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, goldenRecord()) {
		t.Errorf("decoded as %+v, want %+v", got, goldenRecord())
	}
}

// A run that an earlier version of the program began can be finished.
func TestRecord_version1(t *testing.T) {
	got, err := decodeRecord(readGolden(t, "record-v1.hex"))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, goldenRecord1()) {
		t.Errorf("decoded as %+v, want %+v", got, goldenRecord1())
	}
	for n := range readGolden(t, "record-v1.hex") {
		if _, err := decodeRecord(readGolden(t, "record-v1.hex")[:n]); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("cut to %d bytes: error %v, want %v", n, err, kv.ErrCorrupt)
		}
	}
}

func TestRecord_roundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 4096} {
		want := &record{version: 2, end: 1 << 40, answers: make([]bool, n), input: input.Stdin, out: "/o"}
		for i := range want.answers {
			want.answers[i] = i%3 == 0
		}
		got, err := decodeRecord(appendRecord(nil, want))
		if err != nil {
			t.Fatalf("%d lines: %v", n, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d lines: %+v, want %+v", n, got, want)
		}
	}
}

func TestRecord_bad(t *testing.T) {
	tests := []struct {
		name   string
		change func(b []byte) []byte
		want   error
	}{
		{"empty", func(b []byte) []byte { return nil }, kv.ErrCorrupt},
		{"magic", func(b []byte) []byte { b[0] = 'x'; return b }, kv.ErrCorrupt},
		{"version 0", func(b []byte) []byte { b[4] = 0; return b }, kv.ErrCorrupt},
		{"later version", func(b []byte) []byte { b[4] = 3; return b }, kv.ErrUnsupportedVersion},
		{"later version, shorter", func(b []byte) []byte { b[4] = 3; return b[:8] }, kv.ErrUnsupportedVersion},
		{"unknown flag", func(b []byte) []byte { b[6] = 1; return b }, kv.ErrUnsupportedVersion},
		{"version 1 with a flag", func(b []byte) []byte { b[4], b[6] = 1, 1; return b }, kv.ErrUnsupportedVersion},
		{"only the fixed part", func(b []byte) []byte { return b[:recordFixed] }, kv.ErrCorrupt},
		{"less than the fixed part", func(b []byte) []byte { return b[:recordFixed-1] }, kv.ErrCorrupt},
		{"one byte short", func(b []byte) []byte { return b[:len(b)-1] }, kv.ErrCorrupt},
		{"one byte more", func(b []byte) []byte { return append(b, 0) }, kv.ErrCorrupt},
		{"bit behind the last answer", func(b []byte) []byte { b[recordFixed+1] |= 0x80; return b }, kv.ErrCorrupt},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := decodeRecord(tt.change(goldenBytes(t))); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
	ranges := []struct {
		name   string
		change func(r *record)
	}{
		{"end before start", func(r *record) { r.end = r.start - 1 }},
		{"fewer bytes than lines", func(r *record) { r.end = r.start + 9 }},
		{"end above 2^63-1", func(r *record) { r.end = math.MaxInt64 + 1 }},
		{"OUT longer than 2^63-1", func(r *record) { r.outLength = math.MaxInt64 + 1 }},
		{"more new lines than lines", func(r *record) { r.newLines = r.lines + 1 }},
		{"no input", func(r *record) { r.input = "" }},
		{"no OUT", func(r *record) { r.out = "" }},
	}
	for _, tt := range ranges {
		t.Run(tt.name, func(t *testing.T) {
			r := goldenRecord()
			tt.change(r)
			if _, err := decodeRecord(appendRecord(nil, r)); !errors.Is(err, kv.ErrCorrupt) {
				t.Errorf("error %v, want %v", err, kv.ErrCorrupt)
			}
		})
	}
}

// Whatever decodes is encoded as the same bytes again: there is one form only, of each version.
func FuzzRecord(f *testing.F) {
	f.Add(goldenBytes(f))
	f.Add(readGolden(f, "record-v1.hex"))
	f.Add(appendRecord(nil, &record{input: input.Stdin, out: "/o"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRecord(b)
		if err != nil {
			if !errors.Is(err, kv.ErrCorrupt) && !errors.Is(err, kv.ErrUnsupportedVersion) {
				t.Errorf("error %v of neither kind", err)
			}
			return
		}
		again := appendRecord(nil, r)
		if r.version == 1 {
			again = slices.Delete(again, recordFixed1, recordFixed)
			again[4] = 1
		}
		if !bytes.Equal(again, b) {
			t.Errorf("%x is encoded as %x", b, again)
		}
	})
}
