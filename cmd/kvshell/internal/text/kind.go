package text

import (
	"bufio"
	"errors"
	"io"
)

// Kind is a kind of file whose bytes are not the lines of a text.
type Kind struct {
	Name  string // goes on after "FILE is"
	Lines string // a command that prints the lines of FILE, "" if none does for all files of the kind

	magic string // how such a file begins
	class string // of each byte of the magic, see isOf; "" if all are as they stand in it
}

// kinds are the kinds that are known by their first bytes. Each magic is so long that a list of names, numbers or
// addresses does not begin so by chance.
var kinds = []*Kind{
	{"compressed by xz", "xz -dc FILE", "\xfd7zXZ\x00", ""},
	{"compressed by lzma", "xz --format=lzma -dc FILE", "]\x00\x00..\xff\xff\xff\xff\xff\xff\xff\xff", "===**========"},
	{"compressed by bzip2", "bzip2 -dc FILE", "BZh.1AY&SY", "===9======"}, // the digit stands for the size of blocks
	{"compressed by bzip2", "bzip2 -dc FILE", "BZh.\x17\x72\x45\x38\x50\x90", "===9======"},
	{"compressed by lz4", "lz4 -dc FILE", "\x04\x22\x4d\x18", ""},
	{"compressed by lz4", "lz4 -dc FILE", "\x02\x21\x4c\x18", ""},
	{"compressed by lzip", "lzip -dc FILE", "LZIP\x01", ""},
	{"compressed by lzop", "lzop -dc FILE", "\x89LZO\x00\r\n\x1a\n", ""},
	{"compressed by compress", "gzip -dc FILE", "\x1f\x9d.", "==z"},
	{"compressed by snappy", "", "\xff\x06\x00\x00sNaPpY", ""},
	{"a zip archive", "unzip -p FILE", "PK\x03\x04", ""},
	{"a zip archive", "unzip -p FILE", "PK\x05\x06", ""},
	{"a 7-Zip archive", "7z e -so FILE", "7z\xbc\xaf\x27\x1c", ""},
	{"a RAR archive", "unrar p -inul FILE", "Rar!\x1a\x07", ""},
	{"a SQLite database", "sqlite3 FILE 'SELECT ... FROM ...'", "SQLite format 3\x00", ""},
	{"a PDF document", "pdftotext FILE -", "%PDF-.....", "=====9.dn*"},
	{"an RTF document", "", `{\rtf1\`, ""},
	{"an Office document", "", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", ""},
	{"a Parquet file", "", "PAR1\x15", ""},
	{"an Avro file", "", "Obj\x01", ""},
	{"an Arrow file", "", "ARROW1\x00\x00", ""},
	{"an array of NumPy", "", "\x93NUMPY", ""},
	{"a serialized Java object", "", "\xac\xed\x00\x05", ""},
	{"an archive of pg_dump", "pg_restore -f - FILE", "PGDMP\x01", ""},
	{"a program", "", "\x7fELF", ""},
	{"a program", "", "MZ\x90\x00\x03\x00\x00\x00", ""},
	{"an RDB file", "", "REDIS00...", "=======ddo"},
	{"an RDB file", "", "VALKEY....", "======dddo"},
	{"a file that kvshell export has written", "", "\x89SVKF\r\n\x1a", ""},
	{"text in UTF-32", "iconv -f UTF-32 -t UTF-8 FILE", "\xff\xfe\x00\x00", ""},
	{"text in UTF-32", "iconv -f UTF-32 -t UTF-8 FILE", "\x00\x00\xfe\xff", ""},
}

// archive is a tar archive, which begins with the name of a file. See isTar.
var archive = &Kind{Name: "a tar archive", Lines: "tar -xOf FILE"}

// KindOf returns what the file is that r reads, nil if its first bytes tell of no kind: then it may be a text. It reads
// no further than the first bytes which differ from all kinds: a pipe may have sent a short line.
func KindOf(r *bufio.Reader) (*Kind, error) {
	for _, k := range kinds {
		if is, err := Begins(r, k.magic, k.class); err != nil || is {
			return k, err
		}
	}
	if is, err := isTar(r); err != nil || is {
		return archive, err
	}
	return nil, nil
}

// Begins reports whether r begins with magic. The class is as in Kind.
func Begins(r *bufio.Reader, magic, class string) (bool, error) {
	for i := range len(magic) {
		c, ok, err := at(r, i)
		if !ok || class == "" && c != magic[i] || class != "" && !isOf(c, magic[i], class[i]) {
			return false, err
		}
	}
	return true, nil
}

// at returns the byte at a place. It is not ok after the end, or after an error of reading.
func at(r *bufio.Reader, place int) (c byte, ok bool, err error) {
	first, err := r.Peek(place + 1)
	if len(first) > place {
		return first[place], true, nil
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return 0, false, err
}

// isOf reports whether a byte of a file is of a class.
func isOf(c, magic, class byte) bool {
	switch class {
	case '*':
		return true
	case '9':
		return c >= '1' && c <= '9'
	case 'd':
		return c >= '0' && c <= '9'
	case '.':
		return c == '.'
	case 'n': // the end of a line
		return c == '\r' || c == '\n'
	case 'o': // the first part of an RDB file
		return c >= 0xf0
	case 's': // a frame that zstd passes over
		return c&0xf0 == magic
	case 'z': // compress: 9 to 16 bits, and the flag that all versions since 1985 set
		return c >= 0x80|9 && c <= 0x80|16
	}
	return c == magic
}

// The header of a file in a tar archive, as POSIX has it: the name, five numbers in octal digits, the checksum of the header
// among them, and more.
const (
	tarName     = 100 // bytes, filled up with zeros
	tarChecksum = 148 // where it is
	tarNumbers  = 156 // the end of the numbers
	tarHeader   = 512
)

// isTar reports whether r begins as a tar archive does. The checksum decides. Archives from before POSIX have no magic.
func isTar(r *bufio.Reader) (bool, error) {
	last := byte(' ')
	for i := range tarNumbers {
		c, ok, err := at(r, i)
		if !ok || !fitsTar(i, c, last) {
			return false, err
		}
		last = c
	}
	header, err := r.Peek(tarHeader)
	if len(header) < tarHeader {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return false, err
	}
	sum, stored, digits := uint64(0), uint64(0), 0
	for i, c := range header {
		switch {
		case i < tarChecksum || i >= tarChecksum+8:
			sum += uint64(c)
		case c >= '0' && c <= '7':
			sum, stored, digits = sum+' ', stored<<3|uint64(c-'0'), digits+1
		case c == ' ' || c == 0:
			sum += ' '
		default:
			return false, nil
		}
	}
	return digits > 0 && sum == stored, nil
}

// fitsTar reports whether a byte may be at a place before the numbers end, after another byte. A line of a text ends
// earlier, or has other bytes there.
func fitsTar(place int, c, before byte) bool {
	switch {
	case c == '\n':
		return false
	case place == 0:
		return c >= ' '
	case place < tarName:
		return c == 0 || c >= ' ' && before != 0
	case place < tarName+8:
		return isOctal(c)
	}
	return true
}

// isOctal reports whether a byte may be in a number of a tar archive.
func isOctal(c byte) bool { return c >= '0' && c <= '7' || c == ' ' || c == 0 }
