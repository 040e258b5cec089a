package rdb_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/internal/migrate/rdb"
	"github.com/sievekv/sievekv/internal/migrate/rdb/rdbtest"
	"github.com/sievekv/sievekv/tests/redisbloom"
)

// read reads a whole file. Each key is a line: database, name, expiry, type, and a string's value or a filter's items.
func read(file []byte) (lines []string, err error) {
	r, err := rdb.NewReader(bytes.NewReader(file))
	for err == nil {
		var key rdb.Key
		if key, err = r.Next(); err != nil {
			break
		}
		line := fmt.Sprintf("%d %q", key.Database, key.Name)
		if key.Expires {
			line += fmt.Sprintf(" at %d", key.ExpireAt)
		}
		line += " " + key.Type
		switch {
		case key.Type == "string":
			var value []byte
			value, err = r.String()
			line += fmt.Sprintf(" %q", value)
		case key.IsFilter():
			var f *rdb.Filter
			if f, err = r.Filter(); err == nil {
				line += fmt.Sprintf(" of %d", f.Items)
			}
		}
		lines = append(lines, line)
	}
	if err == io.EOF {
		err = nil
	}
	return lines, err
}

func expect(t *testing.T, file []byte, want ...string) {
	t.Helper()
	got, err := read(file)
	if err != nil || len(got) != len(want) {
		t.Errorf("%d keys, want %d: %v", len(got), len(want), err)
	}
	for i, line := range got[:min(len(got), len(want))] {
		if line != want[i] {
			t.Errorf("%.200s, want %.200s", line, want[i])
		}
	}
}

func TestChecksum(t *testing.T) {
	if got := rdbtest.Checksum([]byte("123456789")); got != 0xe9c6d914c4b8d9ca { // as crc64.c of Redis says
		t.Errorf("%#x", got)
	}
}

func TestReader_versions(t *testing.T) {
	for version := 1; version <= 20; version++ {
		expect(t, rdbtest.New(version).Set("k", "v").Bytes(), `0 "k" string "v"`)
	}
	for version := 80; version <= 90; version++ {
		expect(t, rdbtest.New(version).Set("k", "v").Bytes(), `0 "k" string "v"`)
	}
}

// What a newer version has that is not known is an error that names the version; damage of the bytes is not laid to it.
func TestReader_newer(t *testing.T) {
	for version, newer := range map[int]bool{12: false, 15: false, 16: true, 80: false, 81: true} {
		for _, tt := range []struct {
			file *rdbtest.File
			want error
		}{
			{rdbtest.New(version).Key(99, "k").Text("v"), rdb.ErrUnsupported},
			{rdbtest.New(version).Key(0, "k").Raw(0xc4), rdb.ErrDamaged},
		} {
			_, err := read(tt.file.Bytes())
			if !errors.Is(err, tt.want) || strings.Contains(err.Error(), fmt.Sprintf("it is of RDB version %d, which may be why: known are 1 to 15, and 80 to 80", version)) != newer {
				t.Errorf("version %d: %v", version, err)
			}
		}
		_, _, err := rdb.OpenDump(rdbtest.Dump(99, uint16(version), func(f *rdbtest.File) { f.Text("v") }))
		if !errors.Is(err, rdb.ErrUnsupported) || strings.Contains(err.Error(), "which may be why") != newer {
			t.Errorf("a dump of version %d: %v", version, err)
		}
		file := rdbtest.New(version).Set("k", "v").Bytes()
		file[len(file)-1] ^= 1
		if _, err := read(file); !errors.Is(err, rdb.ErrDamaged) || strings.Contains(err.Error(), "which may be why") {
			t.Errorf("version %d with a wrong checksum: %v", version, err)
		}
	}
}

// Redis and Valkey give some numbers two meanings.
func TestReader_valkey(t *testing.T) {
	time := make([]byte, 8)
	expect(t, rdbtest.New(80).
		Raw(243).Text("0123456789012345678901234567890123456789").Raw(2).Raw(0, 50).Length(200).Length(16383).
		Select(0).Raw(244, 1, 2, 3).
		Key(22, "hash").Raw(2).Texts("field", "value").Raw(time...).Texts("f", "v").Raw(255, 255, 255, 255, 255, 255, 255, 255).
		Set("last", "1").Bytes(),
		`0 "hash" hash`, `0 "last" string "1"`)
	for _, file := range []*rdbtest.File{
		rdbtest.New(80).Key(23, "k").Text("v"),
		rdbtest.New(80).Key(26, "k").Text("v"),
		rdbtest.New(81).Set("k", "v").Raw(242, 1).Text("FLUSHALL"), // a write during the save must not be passed over
	} {
		if _, err := read(file.Bytes()); !errors.Is(err, rdb.ErrUnsupported) {
			t.Error(err)
		}
	}
}

// What modules keep beside a key belongs to the next one, and leaves its time to live.
func TestReader_keyMeta(t *testing.T) {
	meta := []byte{243, 2, 'a', 'b', 'c', 'd', 2, 5, 0, 'e', 'f', 'g', 'h', 5, 1, 'x', 0}
	expect(t, rdbtest.New(13).ExpireAt(5).Raw(meta...).Set("k", "v").Set("l", "w").Bytes(),
		`0 "k" at 5 string "v"`, `0 "l" string "w"`)
	payload := rdbtest.Dump(meta[0], 13, func(f *rdbtest.File) { f.Raw(meta[1:]...).Raw(0).Text("value") })
	r, key, err := rdb.OpenDump(payload)
	if err != nil || key.Type != "string" {
		t.Fatalf("%+v, %v", key, err)
	}
	if value, err := r.String(); err != nil || string(value) != "value" {
		t.Errorf("%q, %v", value, err)
	}
}

func TestReader_strings(t *testing.T) {
	long := strings.Repeat("x", 70000)
	expect(t, rdbtest.New(9).
		Set("", "").
		Set("plain", "\x00\xff\r\n").
		Set("14 bits", long[:1000]).
		Set("32 bits", long).
		Key(0, "64 bits").Raw(0x81, 0, 0, 0, 0, 0, 0, 0, 3).Raw([]byte("abc")...).
		Key(0, "int8").Raw(0xc0, 0x85).
		Key(0, "int16").Raw(0xc1, 0x34, 0xf2).
		Key(0, "int32").Raw(0xc2, 0x78, 0x56, 0x34, 0x92).
		Key(0, "lzf").Raw(0xc3, 10, 12).Raw(2, 'a', 'b', 'c', 0x80, 2, 2, 'd', 'e', 'f').
		Key(0, "zeros").Zeros(3).
		Key(0, "long run").Raw(0xc3, 5, 20).Raw(0, 'z', 0xe0, 10, 0).
		Raw(0).Raw(0xc0, 7).Text("of the key 7").
		Bytes(),
		`0 "" string ""`,
		`0 "plain" string "\x00\xff\r\n"`,
		fmt.Sprintf("0 %q string %q", "14 bits", long[:1000]),
		fmt.Sprintf("0 %q string %q", "32 bits", long),
		`0 "64 bits" string "abc"`,
		`0 "int8" string "-123"`,
		`0 "int16" string "-3532"`,
		`0 "int32" string "-1842063752"`,
		`0 "lzf" string "abcabcabcdef"`,
		`0 "zeros" string "\x00\x00\x00"`,
		`0 "long run" string "zzzzzzzzzzzzzzzzzzzz"`,
		`0 "7" string "of the key 7"`,
	)
}

// TestReader_window reads a string that points back as far as LZF can, and is longer than what is kept.
func TestReader_window(t *testing.T) {
	var want, compressed []byte
	random := rand.New(rand.NewPCG(1, 2))
	for len(want) < 1<<18 {
		if len(want) >= 1<<13 && random.IntN(2) == 0 {
			back := 1 << 13
			if random.IntN(2) == 0 {
				back = 1 + random.IntN(back)
			}
			n := 9 + random.IntN(256)
			for range n {
				want = append(want, want[len(want)-back])
			}
			compressed = append(compressed, 7<<5|byte((back-1)>>8), byte(n-9), byte(back-1))
			continue
		}
		n := 1 + random.IntN(32)
		compressed = append(compressed, byte(n-1))
		for range n {
			c := byte(random.Uint32())
			want, compressed = append(want, c), append(compressed, c)
		}
	}
	expect(t, rdbtest.New(9).Key(0, "k").Raw(0xc3).Length(uint64(len(compressed))).Length(uint64(len(want))).Raw(compressed...).Bytes(),
		fmt.Sprintf(`0 "k" string %q`, want))
}

func TestReader_parts(t *testing.T) {
	expect(t, rdbtest.New(12).
		Aux("redis-ver", "7.4.1").
		Raw(250).Text("redis-bits").Raw(0xc0, 64).
		Raw(245).Text("#!lua name=mylib").
		Raw(247).Module("MBbloom--", 4).Raw(2, 2).Raw(1, 5, 2, 6, 3, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0).Length(5).Text("s").Raw(0).
		Select(0).Raw(251, 4, 2).
		Raw(244, 1, 2, 3).
		ExpireAt(1700000000123).Raw(248, 5).Set("a", "1").
		Raw(253, 0x00, 0xf1, 0x53, 0x65).Raw(249, 9).Set("b", "2").
		Set("c", "3").
		Select(700).Set("a", "4").
		Bytes(),
		`0 "a" at 1700000000123 string "1"`,
		`0 "b" at 1700000000000 string "2"`,
		`0 "c" string "3"`,
		`700 "a" string "4"`,
	)
}

// others are values of types that are passed over, and the words for them.
func others(f *rdbtest.File) (want []string) {
	add := func(kind byte, word string) *rdbtest.File {
		name := fmt.Sprint(kind)
		want = append(want, fmt.Sprintf("0 %q %s", name, word))
		return f.Key(kind, name)
	}
	id := make([]byte, 16)
	time := make([]byte, 8)
	add(1, "list").Raw(2).Texts("a", "b")
	add(2, "set").Raw(2).Text("a").Raw(0xc0, 5)
	add(3, "zset").Raw(4).Text("a").Raw(3).Raw([]byte("1.5")...).Text("b").Raw(253).Text("c").Raw(254).Text("d").Raw(255)
	add(4, "hash").Raw(1).Texts("field", "value")
	add(5, "zset").Raw(1).Text("a").Raw(time...)
	add(7, "json-test").Module("json-test", 3).Raw(5).Text("{}").Raw(2, 1, 0)
	add(7, "MBbloom--").Module("MBbloom--", 3).Raw(2, 1, 0) // of a version that is not read
	for _, packed := range []struct {
		kind byte
		word string
	}{{9, "hash"}, {10, "list"}, {11, "set"}, {12, "zset"}, {13, "hash"}, {16, "hash"}, {17, "zset"}, {20, "set"}, {23, "hash"}} {
		add(packed.kind, packed.word).Zeros(1000)
	}
	add(14, "list").Raw(2).Texts("ziplist", "ziplist")
	add(15, "stream").Raw(1).Texts(string(id), "listpack").Raw(1, 2, 3).
		Raw(1).Text("group").Raw(4, 5).Raw(1).Raw(id...).Raw(time...).Raw(6).Raw(1).Text("consumer").Raw(time...).Raw(1).Raw(id...)
	add(18, "list").Raw(2).Raw(1).Text("plain").Raw(2).Text("listpack")
	add(19, "stream").Raw(0).Raw(1, 2, 3, 4, 5, 6, 7, 8).
		Raw(1).Text("group").Raw(4, 5, 6).Raw(1).Raw(id...).Raw(time...).Raw(6).Raw(1).Text("consumer").Raw(time...).Raw(1).Raw(id...)
	add(21, "stream").Raw(0).Raw(1, 2, 3, 4, 5, 6, 7, 8).
		Raw(1).Text("group").Raw(4, 5, 6).Raw(0).Raw(1).Text("consumer").Raw(time...).Raw(time...).Raw(1).Raw(id...)
	add(22, "hash").Raw(1).Raw(5).Texts("field", "value")
	add(24, "hash").Raw(time...).Raw(1).Raw(5).Texts("field", "value")
	add(25, "hash").Raw(time...).Text("listpack")
	for _, kind := range []byte{26, 27} {
		add(kind, "stream").Raw(1).Texts(string(id), "listpack").Raw(1, 2, 3, 4, 5, 6, 7, 8).
			Raw(1).Text("group").Raw(4, 5, 6).Raw(1).Raw(id...).Raw(time...).Raw(6).Raw(1).Text("consumer").Raw(time...).Raw(time...).Raw(1).Raw(id...)
		if kind == 27 {
			f.Raw(2).Raw(id...).Raw(id...)
		}
		f.Length(100).Raw(7).Raw(1).Text("producer").Raw(2).Text("message").Raw(8, 9).Text("another").Raw(10, 11).Raw(12, 13)
	}
	add(28, "array").Raw(4, 1, 44).Raw(1, 0).Text("text").Raw(2, 1).Raw(time...).Raw(3, 2).Raw(time...).Raw(4, 3).Text("abc")
	add(28, "array").Raw(1, 0).Raw(1, 3).Text("abc")
	f.Raw(242, 7, 2).Texts("field", "another")
	add(30, "hash").Text("listpack")
	add(32, "hash").Raw(7).Texts("value", "of another")
	return want
}

func TestReader_otherTypes(t *testing.T) {
	f := rdbtest.New(14)
	want := others(f)
	expect(t, f.Set("last", "1").Bytes(), append(want, `0 "last" string "1"`)...)
}

func TestReader_damaged(t *testing.T) {
	f := rdbtest.New(12).ExpireAt(1).Aux("a", "b").Raw(247).Module("MBbloom--", 4).Raw(2, 2).Raw(0)
	others(f)
	file := addFilters(t, f.Set("k", "v")).Bytes()
	for cut := range file {
		if _, err := read(file[:cut]); !errors.Is(err, rdb.ErrDamaged) {
			t.Fatalf("cut after %d of %d bytes: %v", cut, len(file), err)
		}
	}
	for at := range file {
		changed := bytes.Clone(file)
		changed[at] ^= 0x10
		_, err := read(changed)
		if want := at >= len("REDIS0012"); err == nil || want && !errors.Is(err, rdb.ErrDamaged) {
			t.Fatalf("byte %d changed: %v", at, err)
		}
	}
}

func TestReader_noChecksum(t *testing.T) {
	file := rdbtest.New(9).Set("k", "v").Bytes()
	for i := range 8 {
		file[len(file)-8+i] = 0
	}
	expect(t, file, `0 "k" string "v"`)
}

func TestReader_bad(t *testing.T) {
	const noSum = "\x00\x00\x00\x00\x00\x00\x00\x00" // except for their first words these files are whole
	for _, tt := range []struct {
		file []byte
		want error
	}{
		{[]byte("VALKEY011\xff" + noSum), rdb.ErrDamaged},
		{[]byte("VALKEY080\xff" + noSum), nil},
		{[]byte("REDIS0080\xff" + noSum), rdb.ErrDamaged},
		{[]byte("REDIS0013\xff" + noSum), nil},
		{[]byte("REDIS0000\xff" + noSum), rdb.ErrDamaged},
		{[]byte("REDIS-001\xff" + noSum), rdb.ErrDamaged},
		{[]byte("MySQLdump\xff" + noSum), rdb.ErrDamaged},
		{[]byte("000000011\xff" + noSum), rdb.ErrDamaged},
		{append(rdbtest.New(9).Set("k", "v").Bytes(), "*2\r\n$3\r\nDEL\r\n"...), rdb.ErrUnsupported}, // an append-only file
		{rdbtest.New(9).Aux("aof-base", "1").Set("k", "v").Bytes(), rdb.ErrUnsupported},
		{rdbtest.New(9).Raw(250).Text("aof-base").Raw(0xc0, 1).Set("k", "v").Bytes(), rdb.ErrUnsupported}, // as Redis writes it
		{rdbtest.New(9).Raw(250).Text("aof-base").Raw(0xc0, 0).Set("k", "v").Bytes(), nil},
		{append(rdbtest.New(4).Set("k", "v").Bytes(), 0), rdb.ErrUnsupported},
		{rdbtest.New(9).Key(6, "k").Bytes(), rdb.ErrUnsupported},
		{rdbtest.New(9).Key(33, "k").Bytes(), rdb.ErrUnsupported},
		{rdbtest.New(14).Key(28, "k").Raw(1, 2, 0, 0, 0).Bytes(), rdb.ErrDamaged},     // a flag that there is not
		{rdbtest.New(14).Key(28, "k").Raw(0, 2, 0, 0).Bytes(), rdb.ErrDamaged},        // nor with what it would announce
		{rdbtest.New(14).Key(28, "k").Raw(1, 0, 0, 4, 0).Bytes(), rdb.ErrDamaged},     // an element of no kind
		{rdbtest.New(14).Key(28, "k").Length(math.MaxUint64).Bytes(), rdb.ErrDamaged}, // more than the file has
		{rdbtest.New(15).Key(32, "k").Raw(1).Text("v").Bytes(), rdb.ErrDamaged},       // of no template
		{rdbtest.New(15).Key(32, "k").Raw(1).Bytes(), rdb.ErrDamaged},                 // nor without values
		{rdbtest.New(9).Raw(246).Bytes(), rdb.ErrUnsupported},
		{rdbtest.New(9).Key(0, "k").Raw(0x82).Bytes(), rdb.ErrDamaged},
		{rdbtest.New(9).Key(0, "k").Raw(0xc4).Bytes(), rdb.ErrDamaged},
		{rdbtest.New(9).Key(0, "k").Length(math.MaxUint64).Bytes(), rdb.ErrDamaged},
		{rdbtest.New(9).Key(0, "k").Length(rdb.MaxString).Bytes(), rdb.ErrDamaged},
		{rdbtest.New(9).Key(1, "k").Length(math.MaxUint64).Bytes(), rdb.ErrDamaged},
		{rdbtest.New(9).Key(1, "k").Raw(0xc0).Bytes(), rdb.ErrDamaged},
		{rdbtest.New(9).Key(0, "k").Raw(0xc3, 3, 5).Raw(0, 'a', 0x20).Bytes(), rdb.ErrDamaged},             // ends in a run
		{rdbtest.New(9).Key(0, "k").Raw(0xc3, 4, 5).Raw(0, 'a', 0x40, 1).Bytes(), rdb.ErrDamaged},          // points too far back
		{rdbtest.New(9).Key(0, "k").Raw(0xc3, 4, 4).Raw(0, 'a', 0x40, 0).Bytes(), rdb.ErrDamaged},          // gives too much
		{rdbtest.New(9).Key(0, "k").Raw(0xc3, 4, 6).Raw(0, 'a', 0x40, 0).Bytes(), rdb.ErrDamaged},          // gives too little
		{rdbtest.New(9).Key(0, "k").Raw(0xc3, 7, 5).Raw(0, 'a', 0x40, 0, 0, 0, 0).Bytes(), rdb.ErrDamaged}, // goes on
		{rdbtest.New(9).Key(7, "k").Module("json-test", 1).Raw(6).Bytes(), rdb.ErrDamaged},
	} {
		if _, err := read(tt.file); !errors.Is(err, tt.want) {
			t.Errorf("%q: %v, want %v", tt.file, err, tt.want)
		}
	}
}

// TestReader_unsupported reads files with a value of a type that is not known, which may be what damage looks like.
func TestReader_unsupported(t *testing.T) {
	for _, long := range []int{0, 1 << 10, 1 << 16, 1<<16 + 20, 1 << 18} {
		file := rdbtest.New(12).Set("k", "v").Key(88, "x").Text(strings.Repeat("y", long)).Bytes()
		if _, err := read(file); !errors.Is(err, rdb.ErrUnsupported) {
			t.Errorf("%d: %v", long, err)
		}
		for _, at := range []int{10, len(file) - 10, len(file) - 9, len(file) - 8, len(file) - 1} {
			changed := bytes.Clone(file)
			changed[at] ^= 1
			if _, err := read(changed); !errors.Is(err, rdb.ErrDamaged) || errors.Is(err, rdb.ErrUnsupported) {
				t.Errorf("%d, byte %d changed: %v", long, at, err)
			}
		}
		if _, err := read(file[:len(file)-1]); !errors.Is(err, rdb.ErrDamaged) {
			t.Errorf("%d, cut: %v", long, err)
		}
		copy(file[len(file)-8:], make([]byte, 8)) // as a server with checksums off writes
		if _, err := read(file); !errors.Is(err, rdb.ErrUnsupported) {
			t.Errorf("%d, no checksum: %v", long, err)
		}
	}
}

// TestReader_memory reads files whose lengths promise more than they have.
func TestReader_memory(t *testing.T) {
	for _, file := range [][]byte{
		rdbtest.New(9).Key(0, "k").Length(rdb.MaxString).Bytes(),
		rdbtest.New(9).Key(0, "k").Raw(0xc3).Length(1 << 40).Length(rdb.MaxString).Bytes(),
		rdbtest.New(9).Key(4, "k").Length(1 << 40).Bytes(),
		rdbtest.New(9).Key(7, "k").Module(rdb.Bloom, 4).Raw(2, 0, 2).Length(math.MaxUint32).Bytes(),
		rdbtest.New(9).Key(7, "k").Module(rdb.Cuckoo, 4).Raw(2).Length(65535).Raw(2).Length(1 << 50).Bytes(),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := read(file); err == nil {
			t.Errorf("%.40q: no error", file)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%.40q: %d bytes allocated", file, n)
		}
	}
}

func items(i int) []byte { return fmt.Appendf(nil, "item:%d", i) }

// filters are dumps of filters of both types.
func filters(t *testing.T) map[string][]redisbloom.Chunk {
	t.Helper()
	dumps := map[string][]redisbloom.Chunk{}
	for _, n := range []int{0, 50, 500} {
		b, err := redisbloom.NewBloom(100, 0.01, 2, n == 50)
		if err != nil {
			t.Fatal(err)
		}
		c, err := redisbloom.NewCuckoo(64, 2, 20, 2)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if _, err := b.Add(items(i)); err != nil {
				t.Fatal(err)
			}
			if err := c.Add(items(i)); err != nil {
				t.Fatal(err)
			}
		}
		dumps[fmt.Sprint(rdb.Bloom, n)] = b.Dump()
		if n > 0 {
			dumps[fmt.Sprint(rdb.Cuckoo, n)] = c.Dump()
		}
	}
	return dumps
}

func addFilters(t *testing.T, f *rdbtest.File) *rdbtest.File {
	for name, dump := range filters(t) {
		f.Filter(name, name[:9], dump)
	}
	return f
}

func TestFilter(t *testing.T) {
	dumps := filters(t)
	file := addFilters(t, rdbtest.New(11)).Bytes()
	r, err := rdb.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	for range dumps {
		key, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		f, err := r.Filter()
		if err != nil {
			t.Fatal(err)
		}
		checkFilter(t, string(key.Name), f, bytes.NewReader(file), dumps[string(key.Name)])
	}
	if _, err := r.Next(); err != io.EOF {
		t.Error(err)
	}
}

// checkFilter compares a filter that was read with the dump that it was made from. Chunks of any length do.
func checkFilter(t *testing.T, name string, f *rdb.Filter, file io.ReaderAt, want []redisbloom.Chunk) {
	t.Helper()
	for _, most := range []int{7, 64, 1 << 20} {
		got := []redisbloom.Chunk{{Iter: 1, Data: f.Header}}
		if err := f.Chunks(file, most, func(c rdb.Chunk) error {
			got = append(got, redisbloom.Chunk{Iter: c.Iter, Data: bytes.Clone(c.Data)})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		var dump []redisbloom.Chunk
		if strings.HasPrefix(name, rdb.Bloom) {
			b, err := redisbloom.LoadBloom(got)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			dump = b.Dump()
		} else {
			c, err := redisbloom.LoadCuckoo(got)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			dump = c.Dump()
		}
		if !reflect.DeepEqual(dump, want) {
			t.Errorf("%s: the filter differs", name)
		}
	}
	var size uint64
	for _, c := range want[1:] {
		size += uint64(len(c.Data))
	}
	if f.Size() != size {
		t.Errorf("%s: size %d, want %d", name, f.Size(), size)
	}
}

func TestDump(t *testing.T) {
	for name, dump := range filters(t) {
		payload := rdbtest.Dump(7, 11, func(f *rdbtest.File) { f.FilterValue(name[:9], dump) })
		r, key, err := rdb.OpenDump(payload)
		if err != nil || !key.IsFilter() || key.Type != name[:9] {
			t.Fatalf("%s: %+v, %v", name, key, err)
		}
		f, err := r.Filter()
		if err != nil {
			t.Fatal(err)
		}
		checkFilter(t, name, f, bytes.NewReader(payload), dump)
		for at := range payload {
			changed := bytes.Clone(payload)
			changed[at] ^= 1
			if _, _, err := rdb.OpenDump(changed); err == nil {
				t.Fatalf("%s: byte %d changed: no error", name, at)
			}
		}
	}
	r, key, err := rdb.OpenDump(rdbtest.Dump(0, 9, func(f *rdbtest.File) { f.Text("value") }))
	if err != nil || key.Type != "string" {
		t.Fatalf("%+v, %v", key, err)
	}
	if value, err := r.String(); err != nil || string(value) != "value" {
		t.Errorf("%q, %v", value, err)
	}
	if _, _, err := rdb.OpenDump(nil); !errors.Is(err, rdb.ErrDamaged) {
		t.Error(err)
	}
	if _, key, err := rdb.OpenDump(rdbtest.Dump(0, 80, func(f *rdbtest.File) { f.Text("value") })); err != nil || key.Type != "string" {
		t.Error(key, err)
	}
}

func TestFilter_bad(t *testing.T) {
	begin := func(name string) *rdbtest.File { return rdbtest.New(9).Key(7, "k").Module(name, 4) }
	for name, file := range map[string]*rdbtest.File{
		"another kind of field": begin(rdb.Bloom).Raw(1, 0),
		"only another kind":     begin(rdb.Bloom).Raw(1, 0, 2, 0, 2, 5, 2, 2, 0),
		"growth too large":      begin(rdb.Bloom).Raw(2, 0, 2, 0, 2, 5, 2).Length(1 << 32).Raw(0),
		"too many sub-filters":  begin(rdb.Bloom).Raw(2, 0, 2).Length(1 << 32),
		"more fields":           begin(rdb.Bloom).Raw(2, 0, 2, 0, 2, 5, 2, 2, 2, 0),
		"too few fields":        begin(rdb.Bloom).Raw(2, 0, 2, 1, 2, 5, 2, 2, 0),
		"buckets of a sub":      begin(rdb.Cuckoo).Raw(2, 1, 2, 4, 2, 0, 2, 0, 2, 2, 2, 20, 2, 1, 2, 8).Raw(5).Text("12345678").Raw(0),
		"length of a sub":       begin(rdb.Cuckoo).Raw(2, 1, 2, 4, 2, 0, 2, 0, 2, 2, 2, 20, 2, 1, 2, 4).Raw(5).Text("1234567").Raw(0),
		"buckets of the second": begin(rdb.Cuckoo).Raw(2, 2, 2, 1, 2, 0, 2, 0, 2, 2, 2, 20, 2, 2, 2, 1).Raw(5).Text("12").Raw(2, 1, 5).Text("12").Raw(0),
		"bucket size 0":         begin(rdb.Cuckoo).Raw(2, 1, 2, 4, 2, 0, 2, 0, 2, 0, 2, 20, 2, 1, 2, 4).Raw(5).Text("12345678").Raw(0),
		"bucket size too large": begin(rdb.Cuckoo).Raw(2, 1, 2, 4, 2, 0, 2, 0, 2).Length(65536),
	} {
		if _, err := read(file.Bytes()); !errors.Is(err, rdb.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzReader(f *testing.F) {
	file := rdbtest.New(12).ExpireAt(5).Aux("a", "b")
	others(file)
	f.Add(file.Set("k", "v").Key(0, "z").Zeros(500).Bytes())
	for _, n := range []int{0, 20} {
		b, err := redisbloom.NewBloom(10, 0.01, 2, false)
		if err != nil {
			f.Fatal(err)
		}
		c, err := redisbloom.NewCuckoo(4, 2, 20, 2)
		if err != nil {
			f.Fatal(err)
		}
		for i := range n + 1 {
			if _, err := b.Add(items(i)); err != nil {
				f.Fatal(err)
			}
			if err := c.Add(items(i)); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(rdbtest.New(9).Filter("b", rdb.Bloom, b.Dump()).Filter("c", rdb.Cuckoo, c.Dump()).Bytes())
		f.Add(rdbtest.Dump(7, 9, func(f *rdbtest.File) { f.FilterValue(rdb.Bloom, b.Dump()) }))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		fuzzFile(t, file)
		if len(file) >= 8 { // most have a wrong checksum: make it right
			fuzzDump(t, append(bytes.Clone(file[:len(file)-8]), make([]byte, 8)...))
		}
	})
}

// fuzzFile reads a file. What a filter has is as long as its size says.
func fuzzFile(t *testing.T, file []byte) {
	r, err := rdb.NewReader(bytes.NewReader(file))
	if err != nil {
		return
	}
	for {
		key, err := r.Next()
		if err != nil {
			return
		}
		if !fuzzValue(t, r, key, file) {
			return
		}
	}
}

func fuzzDump(t *testing.T, dump []byte) {
	if r, key, err := rdb.OpenDump(dump); err == nil {
		fuzzValue(t, r, key, dump)
	}
}

func fuzzValue(t *testing.T, r *rdb.Reader, key rdb.Key, file []byte) bool {
	switch {
	case key.Type == "string":
		value, err := r.String()
		if len(value) > 100*len(file) {
			t.Fatalf("a value of %d bytes in a file of %d", len(value), len(file))
		}
		return err == nil
	case key.IsFilter():
		f, err := r.Filter()
		if err != nil {
			return false
		}
		iter := int64(1)
		err = f.Chunks(bytes.NewReader(file), 1<<16, func(c rdb.Chunk) error {
			iter += int64(len(c.Data))
			if c.Iter != iter {
				t.Fatalf("iter %d, want %d", c.Iter, iter)
			}
			return nil
		})
		if err != nil || uint64(iter) != 1+f.Size() {
			t.Fatalf("%d bytes of %d: %v", iter-1, f.Size(), err)
		}
	}
	return true
}

// TestReader_redis reads a file that redis-server 7.0.15 has saved, with values in most encodings, and a function.
func TestReader_redis(t *testing.T) {
	file, err := os.ReadFile("testdata/redis-7.0.15.rdb")
	if err != nil {
		t.Fatal(err)
	}
	got, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	want := []string{
		`0 "77" string "a number for a key"`,
		`0 "empty" string ""`,
		`0 "expires" at 4102444800123 string "v"`,
		`0 "hash" hash`,
		`0 "int16" string "12345"`,
		`0 "int32" string "-1234567890"`,
		`0 "int64" string "123456789012"`,
		`0 "int8" string "-5"`,
		`0 "intset" set`,
		`0 "list" list`,
		fmt.Sprintf(`0 "lzf" string %q`, strings.Repeat("abc", 1000)),
		`0 "plain" string "value"`,
		`0 "set" set`,
		`0 "small" hash`,
		`0 "stream" stream`,
		`0 "ziplist" zset`,
		`0 "zset" zset`,
		`3 "other" string "db"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What LZF has compressed is much longer than the file. A whole value takes its length and a third more, and what is not
// kept takes nothing.
func TestReader_compressedMemory(t *testing.T) {
	const long = 16 << 20
	file := func() *rdbtest.File { return rdbtest.New(9) }
	for name, c := range map[string]struct {
		file *rdbtest.File
		read func(r *rdb.Reader) error
		most uint64
	}{
		"a value": {file().Key(0, "k").Zeros(long), func(r *rdb.Reader) error {
			value, err := r.String()
			if len(value) != long {
				t.Errorf("%d bytes", len(value))
			}
			return err
		}, long + long/3 + 1<<20},
		"a value that is checked": {file().Key(0, "k").Zeros(long), func(r *rdb.Reader) error {
			n, err := r.CheckString()
			if n != long {
				t.Errorf("%d bytes are checked", n)
			}
			return err
		}, 1 << 20},
		"a name":    {file().Raw(0).Zeros(long).Text("v"), func(*rdb.Reader) error { return nil }, 1 << 20},
		"about it":  {file().Raw(250).Zeros(long).Zeros(long).Set("k", "v"), func(*rdb.Reader) error { return nil }, 1 << 20},
		"a command": {file().Raw(245).Zeros(long).Set("k", "v"), func(*rdb.Reader) error { return nil }, 1 << 20},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := rdb.NewReader(bytes.NewReader(c.file.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		key, err := r.Next()
		if err = errors.Join(err, c.read(r)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > c.most {
			t.Errorf("%s: %d bytes allocated, at most %d", name, n, c.most)
		}
		if len(key.Name) > rdb.MaxName || uint64(len(key.Name)) != min(key.Length, rdb.MaxName) {
			t.Errorf("%s: %d bytes of a name of %d", name, len(key.Name), key.Length)
		}
		if _, err := r.Next(); err != io.EOF {
			t.Errorf("%s: %v at the end", name, err)
		}
	}
}
