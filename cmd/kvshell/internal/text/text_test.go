package text_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/text"
)

// tarOf returns a tar archive with one file.
func tarOf(t *testing.T, format tar.Format, name, content string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Format: format})
	if err == nil {
		_, err = io.WriteString(w, content)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// v7 returns an archive as tar made it before POSIX: it has no magic.
func v7(archive string) string {
	b := []byte(archive)
	clear(b[257:512])
	copy(b[148:], "        ")
	sum := 0
	for _, c := range b[:512] {
		sum += int(c)
	}
	for i := range 6 {
		b[148+5-i] = '0' + byte(sum&7)
		sum >>= 3
	}
	b[154] = 0
	return string(b)
}

func TestKindOf(t *testing.T) {
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		program = []byte("\x7fELF\x02\x01\x01")
	}
	archive := tarOf(t, tar.FormatUSTAR, "urls.txt", "http://a\n")
	for _, tt := range []struct{ name, content, want string }{
		{"xz", "\xfd7zXZ\x00\x00\x04", "compressed by xz"},
		{"lzma", "]\x00\x00\x80\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00", "compressed by lzma"},
		{"bzip2", "BZh91AY&SY\xd9\x72", "compressed by bzip2"},
		{"bzip2 of nothing", "BZh9\x17\x72\x45\x38\x50\x90\x00\x00\x00\x00", "compressed by bzip2"},
		{"lz4", "\x04\x22\x4d\x18\x64", "compressed by lz4"},
		{"compress", "\x1f\x9d\x90ab", "compressed by compress"},
		{"compress of 12 bits", "\x1f\x9d\x8cab", "compressed by compress"},
		{"zip", "PK\x03\x04\x14\x00", "a zip archive"},
		{"7z", "7z\xbc\xaf\x27\x1c\x00", "a 7-Zip archive"},
		{"rar", "Rar!\x1a\x07\x01\x00", "a RAR archive"},
		{"tar", archive, "a tar archive"},
		{"tar by GNU", tarOf(t, tar.FormatGNU, strings.Repeat("d/", 80)+"urls.txt", "x"), "a tar archive"},
		{"tar by POSIX", tarOf(t, tar.FormatPAX, strings.Repeat("d", 150), "x"), "a tar archive"},
		{"tar with a name as long as the field", tarOf(t, tar.FormatUSTAR, strings.Repeat("n", 100), "x"), "a tar archive"},
		{"tar before POSIX", v7(archive), "a tar archive"},
		{"SQLite", "SQLite format 3\x00\x10\x00", "a SQLite database"},
		{"program", string(program[:64]), "a program"},
		{"PDF", "%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "a PDF document"},
		{"RTF", `{\rtf1\ansi`, "an RTF document"},
		{"xls", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00", "an Office document"},
		{"Parquet", "PAR1\x15\x04\x15", "a Parquet file"},
		{"RDB", "REDIS0012\xfa\x09redis-ver", "an RDB file"},
		{"RDB of Valkey", "VALKEY080\xfa\x0avalkey-ver", "an RDB file"},
		{"export", "\x89SVKF\r\n\x1a\x01", "a file that kvshell export has written"},
		{"UTF-32", "\xff\xfe\x00\x00a\x00\x00\x00", "text in UTF-32"},

		{"nothing", "", ""},
		{"text", "http://a\nhttp://b\n", ""},
		{"text like bzip2", "BZh9\nBZh91AY\n", ""},
		{"text like RDB", "REDIS0001\nREDIS0002\n", ""},
		{"text like Valkey", "VALKEY080\n", ""},
		{"text like PDF", "%PDF-readme\n", ""},
		{"text like Parquet", "PAR1\nPAR2\n", ""},
		{"text like zip", "PK\nPK-3\n", ""},
		{"text like MZ", "MZ\nMZ900\n", ""},
		{"text like tar", strings.Repeat("0", 600) + "\n", ""},
		{"text with ustar", strings.Repeat("1", 257) + "ustar\x0000" + strings.Repeat("1", 300), ""},
		{"zeros", strings.Repeat("\x00", 600), ""},
		{"tar with another checksum", archive[:149] + "7" + archive[150:], ""},
		{"tar that ends", archive[:511], ""},
	} {
		for how, r := range map[string]io.Reader{
			"": strings.NewReader(tt.content), "byte by byte": iotest.OneByteReader(strings.NewReader(tt.content)),
		} {
			in := bufio.NewReader(r)
			got, err := text.KindOf(in)
			if err != nil || (got == nil) != (tt.want == "") || got != nil && got.Name != tt.want {
				t.Errorf("%s %s: %+v, %v, want %q", tt.name, how, got, err, tt.want)
			}
			if all, err := io.ReadAll(in); err != nil || string(all) != tt.content {
				t.Errorf("%s %s: then %.50q, %v", tt.name, how, all, err)
			}
		}
	}
}

// A short line of a pipe is enough to see that it is a line.
func TestKindOf_waits(t *testing.T) {
	for _, line := range []string{"a\n", "\n", "P\n", "REDIS00\n", "%PDF-\n", strings.Repeat("long", 50) + "\n"} {
		r := bufio.NewReader(io.MultiReader(strings.NewReader(line), iotest.ErrReader(errors.New("waits"))))
		if kind, err := text.KindOf(r); kind != nil || err != nil {
			t.Errorf("%q: %v, %v", line, kind, err)
		}
		if _, _, err := text.Decode(r); err != nil {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// in16 returns a text in UTF-16 with a mark; high is where the higher byte of a unit is.
func in16(s string, high int) string {
	var b []byte
	for _, u := range utf16.Encode([]rune("\ufeff" + s)) {
		pair := [2]byte{byte(u), byte(u)}
		pair[high] = byte(u >> 8)
		b = append(b, pair[:]...)
	}
	return string(b)
}

func TestDecode(t *testing.T) {
	const s = "a\r\nßé\n日本\n😀\x00\n\ufeff"
	long := strings.Repeat("0123456789€😀", 20000)
	for _, tt := range []struct {
		content, want string
		encoding      text.Encoding
	}{
		{"", "", text.Plain},
		{s, s, text.Plain},
		{"\xff\x00\xff", "\xff\x00\xff", text.Plain},
		{"\xef\xbba", "\xef\xbba", text.Plain},
		{"\xef\xbb\xbf" + s, s, text.Marked},
		{"\xef\xbb\xbf\xef\xbb\xbfa", "\ufeffa", text.Marked},
		{"\xef\xbb\xbf", "", text.Marked},
		{in16(s, 1), s, text.UTF16},
		{in16(s, 0), s, text.UTF16},
		{in16("", 1), "", text.UTF16},
		{in16(long, 1), long, text.UTF16},
	} {
		for how, r := range map[string]io.Reader{
			"": strings.NewReader(tt.content), "byte by byte": iotest.OneByteReader(strings.NewReader(tt.content)),
		} {
			d, encoding, err := text.Decode(bufio.NewReader(r))
			if err != nil || encoding != tt.encoding {
				t.Fatalf("%.50q %s: %q, %v", tt.content, how, encoding, err)
			}
			if got, err := io.ReadAll(d); err != nil || string(got) != tt.want {
				t.Errorf("%.50q %s: %.50q, %v", tt.content, how, got, err)
			}
		}
		if got, err := text.DecodeAll([]byte(tt.content)); err != nil || string(got) != tt.want {
			t.Errorf("%.50q: %.50q, %v", tt.content, got, err)
		}
	}
}

// Characters are given when they are there: a pipe may wait after a line.
func TestDecode_waits(t *testing.T) {
	d, _, err := text.Decode(bufio.NewReader(io.MultiReader(strings.NewReader(in16("line\n", 1)), iotest.ErrReader(errors.New("waits")))))
	if err != nil {
		t.Fatal(err)
	}
	if line, err := d.ReadString('\n'); err != nil || line != "line\n" {
		t.Errorf("%q, %v", line, err)
	}
}

func TestDecode_bad(t *testing.T) {
	for _, content := range []string{
		"\xff\xfea\x00b",                  // half a unit
		"\xff\xfea\x00\x00\xd8",           // ends in a pair
		"\xff\xfea\x00\x00\xd8b\x00c\x00", // half a pair
		"\xff\xfea\x00\x00\xdcb\x00c\x00", // the other half
		"\xfe\xff\xd8\x00\xd8\x00\x00a",
	} {
		d, _, err := text.Decode(bufio.NewReader(strings.NewReader(content)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(d); !errors.Is(err, text.ErrUTF16) || len(got) > 1 {
			t.Errorf("%q: %q, %v", content, got, err)
		}
		if _, err := text.DecodeAll([]byte(content)); !errors.Is(err, text.ErrUTF16) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

// FuzzDecode reads any bytes: nothing panics, nothing is lost of what is no text in UTF-16, and reading in pieces gives the
// same.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{"a\n", "\xef\xbb\xbfa\n", in16("a😀\n", 0), in16("a😀\n", 1), "REDIS0012\xfa", "\xff\xfe\x00\xd8"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := text.KindOf(bufio.NewReader(bytes.NewReader(b))); err != nil {
			t.Fatal(err)
		}
		whole, failed := text.DecodeAll(b)
		d, encoding, err := text.Decode(bufio.NewReader(iotest.OneByteReader(bytes.NewReader(b))))
		if err != nil {
			t.Fatal(err)
		}
		pieces, err := io.ReadAll(d)
		if (err == nil) != (failed == nil) || !bytes.Equal(pieces, whole) {
			t.Errorf("%q, %v in one piece; %q, %v byte by byte", whole, failed, pieces, err)
		}
		if encoding == text.Plain && !bytes.Equal(whole, b) || encoding == text.Marked && string(b) != "\xef\xbb\xbf"+string(whole) {
			t.Errorf("%q is read as %q", b, whole)
		}
	})
}
