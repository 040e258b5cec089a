package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/storage/files"
	"github.com/sievekv/sievekv/internal/storage/remains"
)

// filesOf returns the files of a directory.
func filesOf(t *testing.T, fs vfs.FS, dir string) map[string][]byte {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]byte)
	for _, name := range names {
		f, err := fs.Open(fs.PathJoin(dir, name))
		if errors.Is(err, iofs.ErrNotExist) {
			continue // an open store removes old files
		}
		if err != nil {
			t.Fatal(err)
		}
		if all[name], err = io.ReadAll(f); err != nil {
			t.Fatal(err)
		}
		_ = f.Close() // it was read
	}
	return all
}

// judge returns why a file is a stray one, "" if it is none.
func judge(t *testing.T, name string, data []byte) string {
	t.Helper()
	fs := vfs.NewMem()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(bytes.Clone(data)); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	strays, err := files.Strays(fs, "", []string{name}, files.Known{Next: 30})
	if err != nil {
		t.Fatal(err)
	}
	if len(strays) == 0 {
		return ""
	}
	return strays[0].Why
}

// written returns files that stores and Pebble have written.
func written(t *testing.T) map[string][]byte {
	t.Helper()
	fs := vfs.NewMem()
	s := openNumbered(t, fs, "store")
	all := filesOf(t, fs, "store")
	s.close()
	for name, data := range filesOf(t, fs, "store") {
		all[name] = data
	}
	for format := pebble.FormatMinSupported; format <= pebble.FormatNewest; format++ {
		for name, data := range databaseOf(t, format) {
			all[fmt.Sprintf("%d/%s", format, name)] = data
		}
	}
	return all
}

// databaseOf makes a database with Pebble alone. One of its tables has nothing but a removed range.
func databaseOf(t *testing.T, format pebble.FormatMajorVersion) map[string][]byte {
	t.Helper()
	fs := vfs.NewMem()
	po := &pebble.Options{FS: fs, FormatMajorVersion: format, DisableAutomaticCompactions: true, Logger: noLogger{}}
	po.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone }) // as a store
	p, err := pebble.Open("p", po)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func() error{
		func() error { return p.Set([]byte("k"), bytes.Repeat([]byte("v"), 1000), pebble.Sync) },
		func() error { return p.DeleteRange([]byte("a"), []byte("z"), pebble.Sync) },
		func() error { return p.Merge([]byte("m"), []byte("v"), pebble.Sync) },
		func() error { return p.Delete([]byte("k"), pebble.Sync) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	all := filesOf(t, fs, "p")
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

type noLogger struct{}

func (noLogger) Infof(string, ...any)  {}
func (noLogger) Errorf(string, ...any) {}
func (noLogger) Fatalf(string, ...any) {}

// What a store writes is its own, wherever a crash cuts it off or leaves zeros, also in a log that begins as the older
// one whose file it has. One damaged byte is damage and makes no log a stray file.
func TestStrays_written(t *testing.T) {
	kinds := make(map[string]int)
	for path, data := range written(t) {
		name := path[strings.LastIndexByte(path, '/')+1:]
		kinds[strings.Trim(name, "0123456789-")]++
		for n := range min(len(data), 100) + 1 {
			if why := judge(t, name, data[:n]); why != "" {
				t.Fatalf("%s cut to %d bytes, %x, is taken for a stray file: %s", path, n, data[:n], why)
			}
		}
		if why := judge(t, name, make([]byte, len(data))); why != "" {
			t.Errorf("%s of which a crash has left zeros is taken for a stray file: %s", path, why)
		}
		number := 0
		if _, err := fmt.Sscanf(name, "%d.log", &number); err != nil || len(data) < 11 {
			continue
		}
		if why := judge(t, "000777.log", data); why != "" {
			t.Errorf("%s as 000777.log is taken for a stray file: %s", path, why)
		}
		if binary.LittleEndian.Uint32(data[7:]) != uint32(number) {
			continue // nothing was written to it yet
		}
		kinds["own log"]++
		for i := range min(len(data), 64) {
			flipped := bytes.Clone(data)
			flipped[i] ^= 0xff
			if why := judge(t, name, flipped); why != "" {
				t.Errorf("%s with byte %d damaged is taken for a stray file: %s", path, i, why)
			}
		}
	}
	for _, kind := range []string{".log", "own log", ".sst", "MANIFEST", "OPTIONS"} {
		if kinds[kind] == 0 {
			t.Errorf("no file %s was written", kind)
		}
	}
}

// Text is never taken for a file of a store.
func TestStrays_text(t *testing.T) {
	for _, text := range []string{
		"\n", "a\n", "hello\n", "123456\n123456\n", "1234567\n", "a\tb\tc\td\te\tf\n", "\n\n\n\n\n\n\n\n\n\n\n\n\n\n",
		"http://example.org/a\r\n", "[Version of mine]\n", strings.Repeat("leveldb.BytewiseComparator\n", 9), "żółć gęślą jaźń\n",
	} {
		for _, name := range []string{"000029.log", "000777.log", "20261126.log", "000777.sst", "20261126.sst", "MANIFEST-000777", "OPTIONS-000777", "temporary.000777.dbtmp"} {
			if judge(t, name, []byte(text)) == "" {
				t.Errorf("%q as %s is taken for a file of the store", text, name)
			}
		}
	}
}

// A table may have any number: while the disk is full, each attempt to write one takes another. A log may be far ahead
// only if it is one.
func TestStrays_numbers(t *testing.T) {
	tests := []struct {
		name  string
		stray bool
	}{
		{"20261126.sst", false}, {"281474976710656.sst", false}, {"281474976710657.sst", true},
		{"16777246.log", false}, {"16777247.log", true}, {"MANIFEST-16777247", true}, {"OPTIONS-16777246", false},
	}
	for _, tt := range tests {
		if got := judge(t, tt.name, nil) != ""; got != tt.stray {
			t.Errorf("empty %s: stray %t, want %t", tt.name, got, tt.stray)
		}
	}
	log := []byte("abcd\x01\x00\x09\x86\x29\x35\x01") // the number is 20261254
	if why := judge(t, "20261254.log", log); why != "" {
		t.Errorf("a log that says its number is taken for a stray file: %s", why)
	}
}

// Without a MANIFEST any file that could be one of the store's may be a damaged one.
func TestStrays_noManifest(t *testing.T) {
	fs := vfs.NewMem()
	for name, text := range map[string]string{"000012.log": "damaged", "000013.sst": "damaged", "1.log": "mine\n"} {
		f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.Write([]byte(text)) // to memory
		_ = f.Close()
	}
	strays, err := remains.Strays(fs, "")
	if err != nil || len(strays) != 1 || strays[0].Name != "1.log" {
		t.Errorf("strays are %v, %v", strays, err)
	}
}
