package dump

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"testing"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

var dumpedType = &kv.Type{Name: "MBbloom--", Version: 1}

var dumpedID = []byte{7, 0, 0, 0, 0, 0, 0, 0}

// dumpOf returns the header of a dump of what a key maps to, with other bytes in place of counters.
func dumpOf(h *format.Header, counters []byte) []byte {
	stored := format.AppendHeader(nil, h)
	b := binary.AppendUvarint(append(append([]byte(dumpMagic), dumpVersion), dumpedID...), uint64(len(stored)))
	b = append(append(b, stored...), counters...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func dumpedObject() *format.Header {
	return &format.Header{
		TypeName: "MBbloom--", Module: "bf", TypeVersion: 1, ID: 1, Family: block.FamilyBits, Params: []byte("params"),
		Layers: []kv.LayerSpec{{Blocks: 1, Lines: 2, Params: []byte("one")}, {Number: 3, Blocks: 4, Lines: 128}},
	}
}

// Headers of dumps are taken apart as they were put together, and what is none is refused.
func TestDecodeDumpHeader(t *testing.T) {
	counters := func(first uint64) []byte {
		one := format.AppendCounters(nil, [format.NumCounters]uint64{first, 2, 3})
		b := append([]byte{byte(len(one))}, one...)
		return append(b, b...)
	}
	good := dumpOf(dumpedObject(), counters(1))
	d, err := decodeDumpHeader(good, dumpedType, false)
	if err != nil || !bytes.Equal(d.counters, counters(1)) || len(d.spec.Layers) != 2 ||
		d.spec.Layers[1].Number != 3 || string(d.spec.Params) != "params" || d.spec.Family != block.FamilyBits || d.spec.Type.Name != dumpedType.Name {
		t.Errorf("decoded %+v, %v", d, err)
	}
	other, _ := decodeDumpHeader(dumpOf(dumpedObject(), counters(9)), dumpedType, false)
	if other.mark != d.mark {
		t.Error("dumps of a filter whose counters grow have different marks")
	}
	moving, _ := decodeDumpHeader(good, dumpedType, true)
	other, _ = decodeDumpHeader(dumpOf(dumpedObject(), counters(9)), dumpedType, true)
	if other.mark == moving.mark {
		t.Error("dumps of a filter whose entries move have the same mark after a change")
	}
	again := bytes.Clone(good[:len(good)-dumpSumLen])
	again[len(dumpMagic)+1]++
	if other, err := decodeDumpHeader(resummed(again), dumpedType, false); err != nil || other.mark == d.mark {
		t.Errorf("dumps of two filters have the same mark: %v", err)
	}
	with := func(change func(h *format.Header)) []byte {
		h := dumpedObject()
		change(h)
		return dumpOf(h, counters(1))
	}
	for name, bad := range map[string][]byte{
		"another type":           with(func(h *format.Header) { h.TypeName = "MBbloomCF" }),
		"a newer type":           with(func(h *format.Header) { h.TypeVersion = 2 }),
		"an id":                  with(func(h *format.Header) { h.ID = 2 }),
		"an expiry":              with(func(h *format.Header) { h.Expiry = 1 }),
		"hidden":                 with(func(h *format.Header) { h.Hidden, h.Expiry = true, 1 }),
		"no layers":              with(func(h *format.Header) { h.Layers = nil }),
		"a compatible layer":     with(func(h *format.Header) { h.Layers[1].Layout = kv.LayoutCompatible }),
		"counters of one layer":  dumpOf(dumpedObject(), counters(1)[:4]),
		"counters of none":       dumpOf(dumpedObject(), nil),
		"counters of three":      dumpOf(dumpedObject(), append(counters(1), counters(1)[:4]...)),
		"counters cut short":     dumpOf(dumpedObject(), counters(1)[:7]),
		"counters that are none": dumpOf(dumpedObject(), []byte{1, 0x80, 1, 0x80}),
		"no layers, no counters": dumpOf(func() *format.Header { h := dumpedObject(); h.Layers = nil; return h }(), nil),
		"a log":                  with(func(h *format.Header) { h.Layers[1].Layout = kv.LayoutLog }),
		"another magic":          resummed(append([]byte{good[0] ^ 1}, good[1:len(good)-dumpSumLen]...)),
		"another checksum":       append(bytes.Clone(good[:len(good)-1]), good[len(good)-1]^1),
		"version 0":              resummed(append(append([]byte(dumpMagic), 0), good[len(dumpMagic)+1+dumpIDLen:len(good)-dumpSumLen]...)),
		"version 3":              resummed(append(append([]byte(dumpMagic), 3), good[len(dumpMagic)+1:len(good)-dumpSumLen]...)),
		"a length without end":   resummed(append(good[:len(dumpMagic)+1+dumpIDLen:len(dumpMagic)+1+dumpIDLen], bytes.Repeat([]byte{0xff}, 12)...)),
		"nothing":                nil,
		"the magic alone":        []byte(dumpMagic),
		"a version alone":        good[:len(dumpMagic)+1],
		"another version":        append([]byte(dumpMagic), 3, 0, 0, 0, 0),
		"an id cut short":        resummed(good[:len(dumpMagic)+1+5]),
		"a long field":           dumpOfField(1 << 40),
		"a field without end":    dumpOfField(1 << 63),
	} {
		if d, err := decodeDumpHeader(bad, dumpedType, false); err == nil {
			t.Errorf("%s is taken: %+v", name, d)
		}
	}
}

// What is newer than this program is said to be so, not to be bad data.
func TestDecodeDumpHeader_newer(t *testing.T) {
	stored := format.AppendHeader(nil, dumpedObject())
	stored[0]++
	b := binary.AppendUvarint(append(append([]byte(dumpMagic), dumpVersion), dumpedID...), uint64(len(stored)))
	if _, err := decodeDumpHeader(resummed(append(b, stored...)), dumpedType, false); !errors.Is(err, kv.ErrUnsupportedVersion) {
		t.Errorf("a header: %v", err)
	}
	d := dumpedHeader{spec: kv.Spec{Type: dumpedType, Params: []byte{math.MaxUint8}}} // the version of parameters, far above any
	typ := *dumpedType
	typ.Open = func(o *kv.Object) (any, error) {
		_, err := scalableext.Open(o, func(scalableext.Params, *kv.Layer) (int, error) { return 0, nil })
		return nil, err
	}
	if err := d.check(&typ); !errors.Is(err, kv.ErrUnsupportedVersion) || errors.Is(err, ErrBadData) {
		t.Errorf("parameters: %v", err)
	}
	d.spec.Params = nil
	if err := d.check(&typ); !errors.Is(err, ErrBadData) {
		t.Errorf("no parameters: %v", err)
	}
}

// Counters that end too early are no counters, whatever is behind them in memory.
func TestDecodeCounters(t *testing.T) {
	one := format.AppendCounters(nil, [format.NumCounters]uint64{1, 2, 3})
	all := append([]byte{byte(len(one))}, one...)
	for n := range all {
		if got, err := decodeCounters(all[:n], 1); !errors.Is(err, ErrBadData) {
			t.Errorf("%d of %d bytes: %v, %v", n, len(all), got, err)
		}
	}
	if got, err := decodeCounters(all, 1); err != nil || got[0][2] != 3 {
		t.Errorf("%v, %v", got, err)
	}
}

// What is compared of two dumps is all but their ids and checksums.
func TestDumpContent(t *testing.T) {
	good := dumpOf(dumpedObject(), nil)
	at := len(dumpMagic) + 1
	body := good[:len(good)-dumpSumLen]
	first := append(append([]byte(dumpMagic), 1), body[at:]...)
	for _, tt := range []struct {
		name   string
		chunk  []byte
		header bool
		want   []byte
	}{
		{"a header", good, true, append(bytes.Clone(body[:at]), body[at+dumpIDLen:]...)},
		{"a header of version 1", resummed(first), true, first},
		{"data that looks like a header", good, false, body},
		{"a short header", resummed(body[:at+1]), true, body[:at+1]},
		{"less than a checksum", good[:2], true, nil},
	} {
		if got := DumpContent(tt.chunk, tt.header); !bytes.Equal(got, tt.want) {
			t.Errorf("%s: %x, want %x", tt.name, got, tt.want)
		}
	}
}

// resummed returns a header with a checksum behind it.
func resummed(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b[:len(b):len(b)], crc32.Checksum(b, castagnoli))
}

// dumpOfField returns a header whose first field claims a length, and has none.
func dumpOfField(n uint64) []byte {
	b := binary.AppendUvarint(append(append([]byte(dumpMagic), dumpVersion), dumpedID...), n)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// No header makes the program fail, and what is taken is what its own encoding gives.
func FuzzDumpHeader(f *testing.F) {
	one := format.AppendCounters(nil, [format.NumCounters]uint64{1})
	one = append([]byte{byte(len(one))}, one...)
	f.Add(format.AppendHeader(nil, dumpedObject()), append(one, one...))
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, stored, rest []byte) {
		b := binary.AppendUvarint(append(append([]byte(dumpMagic), dumpVersion), dumpedID...), uint64(len(stored)))
		b = append(append(b, stored...), rest...)
		d, err := decodeDumpHeader(binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), dumpedType, true)
		if err != nil {
			return
		}
		if all, err := decodeCounters(d.counters, len(d.spec.Layers)); err != nil || len(all) == 0 || bytes.Contains(stored, []byte("MBbloomCF")) && !bytes.Contains(stored, []byte("MBbloom--")) {
			t.Errorf("%x is taken as %+v", stored, d)
		}
	})
}
