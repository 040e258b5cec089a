package bloomext

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// ForeignFormat is the form of a file in which another library keeps a Bloom filter.
type ForeignFormat uint8

// The files of other libraries. All numbers have their highest byte first. Unless something else is said, bit i of a filter
// is bit i%64 of word i/64, the lowest bit being bit 0.
const (
	// Guava is BloomFilter.writeTo of Guava for Java, for the strategies MURMUR128_MITZ_32 (filters made by Guava 11 to 16)
	// and MURMUR128_MITZ_64 (by later versions):
	//
	//	size  field
	//	1     strategy: 0 MURMUR128_MITZ_32, 1 MURMUR128_MITZ_64
	//	1     k, bits of an item, 1 to 255
	//	4     words, 1 to 2^31-1
	//	rest  words, of 8 bytes
	//
	// An item here is what the filter's funnel made of it there: the bytes with Funnels.byteArrayFunnel, UTF-8 with
	// Funnels.stringFunnel(UTF_8), 8 bytes with the lowest first (sievekv.Uint64) with Funnels.longFunnel, 4 such bytes with
	// Funnels.integerFunnel, and UTF-16 with the lower byte first with Funnels.unencodedCharsFunnel.
	Guava ForeignFormat = 1

	// BitsAndBlooms is WriteTo of github.com/bits-and-blooms/bloom/v3 for Go, which MarshalBinary and GobEncode write, too:
	//
	//	size  field
	//	8     m, bits of the filter
	//	8     k, bits of an item
	//	8     n, the length of the bit set, mostly m. From and FromWithM make filters whose bit set has more bits, which are
	//	      never looked at, or fewer, when those that are missing are 0
	//	rest  words, of 8 bytes, for n bits; bits behind the end are 0
	//
	// It is the form of a program that has not called LittleEndian of package bitset. An item here is the bytes that it was
	// there.
	BitsAndBlooms ForeignFormat = 2

	// Redisson is the string that a RBloomFilter of Redisson 3.6.0 (2.11.0) or later keeps under its name in Redis. It has no
	// beginning: Bits and Hashes of the ForeignFile are what the hash {name}:config has as size and hashIterations. Bit i of
	// the filter is bit i%8 of byte i/8, the highest bit being bit 0. The string may be shorter than the filter; what is
	// missing is 0.
	//
	// An item here is what the filter's codec made of it there: UTF-8 with StringCodec, the bytes with ByteArrayCodec, the
	// decimal digits with LongCodec. A filter of RClusteredBloomFilter is in several strings, and is not taken.
	Redisson ForeignFormat = 3
)

var foreignWords = []string{"", "guava", "bits-and-blooms", "redisson"}

// String returns the word of flags: "guava", "bits-and-blooms" or "redisson".
func (f ForeignFormat) String() string {
	if f.Valid() {
		return foreignWords[f]
	}
	return fmt.Sprintf("ForeignFormat(%d)", uint8(f))
}

// Valid reports whether there is such a format.
func (f ForeignFormat) Valid() bool { return f > 0 && int(f) < len(foreignWords) }

// ParseForeignFormat returns the format that a word names.
func ParseForeignFormat(word string) (f ForeignFormat, ok bool) {
	i := slices.Index(foreignWords, word)
	return ForeignFormat(max(i, 0)), i > 0
}
func damaged(at int64, form string, args ...any) error {
	return fmt.Errorf("%w: at byte %d: %s", scalableext.ErrDamaged, at, fmt.Sprintf(form, args...))
}

// ForeignFile says how ImportForeign takes a file.
type ForeignFile struct {
	Format ForeignFormat

	// Bits and Hashes are the size and the hashIterations of a filter of Redisson: 1 to 2^32 bits, 1 to 1100 of an item. For
	// other formats they are 0.
	Bits   uint64
	Hashes int

	// Replace makes the file replace what is under the key, and removes its expiry. Otherwise a key that exists is an error.
	Replace bool
}

// ImportForeign makes the filter of a file of another library, in one commit. It answers as it did there, with the same
// false positives, and takes more items. The layout is scalableext.LayoutForeign: the filter does not grow, and is never
// full, and its hash is public. Info has an estimate of the items from the bits that are set. The capacity is the number of
// items that set half of the bits, and the error rate the one that is expected then. The filter does not expire.
//
// The file reaches from where in is to its end. First the length is compared with what the beginning of the file says. The
// rest is read block by block, while transactions and other writes to the key wait. Blocks are written ahead of the commit,
// and belong to no key until then: what a crash or an error leaves of them is reclaimed.
//
// The errors are ErrDamaged, ErrConfig for a ForeignFile out of range, kv.ErrExists, kv.ErrTooLarge for a filter above
// Options.MaxFilterBytes, and errors of reading and writing.
func (f *Filter) ImportForeign(ctx context.Context, in io.ReadSeeker, how ForeignFile) error {
	h := f.h
	if err := h.Outside(ctx); err != nil {
		return err
	}
	file, err := openForeignFile(in, how)
	if err != nil {
		return err
	}
	return h.Write(f.level, func(w *kv.Writer) error {
		old, err := w.Object(h.Key)
		if err != nil {
			return err
		}
		if old != nil && !how.Replace {
			return fmt.Errorf("%w: %q", kv.ErrExists, h.Key)
		}
		p := scalableext.Params{Capacity: file.capacity, ErrorRate: file.rate, Growth: scalableext.Native, Hash: file.scheme.hash()}
		s := kv.Spec{Type: bloomType, Family: block.FamilyBits, Params: p.Append(nil), Layers: []kv.LayerSpec{file.spec()}}
		_, err = w.Build(ctx, h.Key, s, func(b *kv.Builder) error { return file.copyTo(w, b) })
		return err
	})
}

// ForeignHead is the number of bytes at the beginning of a file that tell how long the file is.
const ForeignHead = 24

// Size returns how many bytes a file has that begins with first: its first ForeignHead bytes, or all of them if it is shorter.
// A file of Redisson may be shorter than that. The errors are ErrDamaged, and ErrConfig for a ForeignFile out of range.
func (how ForeignFile) Size(first []byte) (int64, error) {
	if err := how.valid(); err != nil {
		return 0, err
	}
	f := &foreignFile{}
	err := f.begin(bytes.NewReader(first), how)
	return f.head + int64(f.bytes()), err
}

// Check checks the beginning of a file, and that its length is what that says. Then in is where it was. The errors are
// the errors of ImportForeign.
func (how ForeignFile) Check(in io.ReadSeeker) error {
	file, err := openForeignFile(in, how)
	if err != nil {
		return err
	}
	_, err = in.Seek(file.start, io.SeekStart)
	return err
}

// foreignFile is a file whose beginning was read.
type foreignFile struct {
	flatParams
	in     io.ReadSeeker
	start  int64  // where the file begins
	size   int64  // bytes of the file
	head   int64  // bytes before the array
	stored uint64 // bits of the array
}

// openForeignFile reads the beginning of a file, and checks its length. If the file is something else that is known, the
// error says so.
func openForeignFile(in io.ReadSeeker, how ForeignFile) (f *foreignFile, err error) {
	if err := how.valid(); err != nil {
		return nil, err
	}
	start, err := in.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, err
	}
	f, err = readForeignFile(in, start, how)
	if errors.Is(err, scalableext.ErrDamaged) {
		return nil, namedForeign(in, start, how.Format, err)
	}
	return f, err
}

// readForeignFile is openForeignFile for a file that begins at start.
func readForeignFile(in io.ReadSeeker, start int64, how ForeignFile) (f *foreignFile, err error) {
	f = &foreignFile{in: in, start: start}
	end, err := in.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	if _, err := in.Seek(f.start, io.SeekStart); err != nil {
		return nil, err
	}
	f.size = end - f.start
	if err := f.begin(in, how); err != nil {
		return nil, err
	}
	switch want := f.head + int64(f.bytes()); {
	case f.size < want && f.scheme != schemeRedisson:
		return nil, damaged(f.size, "the file ends here, want %d bytes for %d bits", want, f.stored)
	case f.size > want:
		return nil, damaged(want, "more follows the last of %d bits", f.stored)
	}
	return f, nil
}

// begin reads what stands before the array.
func (f *foreignFile) begin(in io.Reader, how ForeignFile) (err error) {
	var decode func(head []byte) (p flatParams, stored uint64, err error)
	switch how.Format {
	case Guava:
		f.head, decode = 6, decodeGuava
	case BitsAndBlooms:
		f.head, decode = ForeignHead, decodeBitsAndBlooms
	case Redisson:
		decode = func([]byte) (flatParams, uint64, error) {
			return newForeign(schemeRedisson, how.Bits, uint64(how.Hashes)), how.Bits, nil
		}
	}
	head := make([]byte, f.head)
	if err := readPart(in, 0, head); err != nil {
		return err
	}
	f.flatParams, f.stored, err = decode(head)
	return err
}

func decodeGuava(head []byte) (p flatParams, stored uint64, err error) {
	words := int32(binary.BigEndian.Uint32(head[2:]))
	switch {
	case head[0] > 1:
		return p, 0, damaged(0, "the strategy is %d, want 0 or 1", head[0])
	case head[1] == 0:
		return p, 0, damaged(1, "the number of hash functions is 0, want 1 to 255")
	case words <= 0:
		return p, 0, damaged(2, "the number of longs is %d, want at least 1", words)
	}
	stored = 64 * uint64(words)
	return newForeign(schemeGuava32+scheme(head[0]), stored, uint64(head[1])), stored, nil
}

func decodeBitsAndBlooms(head []byte) (p flatParams, stored uint64, err error) {
	m, k, length := binary.BigEndian.Uint64(head), binary.BigEndian.Uint64(head[8:]), binary.BigEndian.Uint64(head[16:])
	switch {
	case m < 1 || m > maxForeignBits:
		return p, 0, damaged(0, "the number of bits is %d, want 1 to %d", m, uint64(maxForeignBits))
	case k < 1 || k > maxFlatHashes:
		return p, 0, damaged(8, "the number of hash functions is %d, want 1 to %d", k, maxFlatHashes)
	case length > maxForeignBits:
		return p, 0, damaged(16, "the bit set has %d bits, want at most %d", length, uint64(maxForeignBits))
	}
	return newForeign(schemeBitsAndBlooms, m, k), length, nil
}

// valid returns ErrConfig unless the values are in range.
func (how ForeignFile) valid() error {
	bad := func(form string, args ...any) error { return scalableext.BadConfig(form, args...) }
	switch redisson := how.Format == Redisson; {
	case !how.Format.Valid():
		return bad("format is %v, want guava, bits-and-blooms or redisson", how.Format)
	case !redisson && (how.Bits != 0 || how.Hashes != 0):
		return bad("bits are %d and hashes %d for a file of %v, want 0: the file has them", how.Bits, how.Hashes, how.Format)
	case redisson && (how.Bits < 1 || how.Bits > maxRedissonBits):
		return bad("bits are %d for a file of redisson, want 1 to %d, the size in its config", how.Bits, uint64(maxRedissonBits))
	case redisson && (how.Hashes < 1 || how.Hashes > maxFlatHashes):
		return bad("hashes are %d for a file of redisson, want 1 to %d, the hashIterations in its config", how.Hashes, maxFlatHashes)
	}
	return nil
}

// maxRedissonBits is how many bits a string of Redis may have.
const maxRedissonBits = 1 << 32

// bytes returns the number of bytes of the array in the file. One of Redisson may have fewer.
func (f *foreignFile) bytes() uint64 {
	if f.scheme == schemeRedisson {
		return (f.bits + 7) / 8
	}
	return (f.stored + 63) / 64 * 8
}

// readPart reads the bytes of a file that begin at a place.
func readPart(in io.Reader, at int64, b []byte) error {
	n, err := io.ReadFull(in, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return damaged(at+int64(n), "the file ends here")
	}
	return err
}

// copyTo puts the words into a filter that is being built, and counts.
func (f *foreignFile) copyTo(w *kv.Writer, b *kv.Builder) error {
	if _, err := f.in.Seek(f.start+f.head, io.SeekStart); err != nil {
		return err
	}
	in := bufio.NewReaderSize(f.in, 64<<10)
	c, err := kv.As[*filter](nil, b.Object())
	if err != nil {
		return err
	}
	l := c.newest.flat
	words := make([]uint64, l.table.Spec().Lines*block.LineWords)
	bytes := make([]byte, 8*len(words))
	var ones uint64
	for blk, at := uint64(0), f.head; blk < l.table.Spec().Blocks; blk++ {
		n := min(f.size-at, int64(len(bytes))) // 0 if the array ends before the filter
		if err := readPart(in, at, bytes[:n]); err != nil {
			return err
		}
		clear(bytes[n:])
		for i := range words {
			words[i] = binary.BigEndian.Uint64(bytes[8*i:])
			if f.scheme == schemeRedisson {
				words[i] = bits.Reverse64(words[i])
			}
		}
		if f.stored > f.bits {
			clearBits(words, f.bits-min(f.bits, 64*uint64(len(words))*blk))
		}
		if at += n; l.checkEnd(blk, words) != nil {
			return damaged(at-1, "bits behind the end of %d are set", f.bits)
		}
		ones += uint64(block.Count(words))
		if err := b.Put(l.table, blk, words); err != nil {
			return err
		}
	}
	w.SetCounter(l.table, itemsCounter, uint64(l.distinctItems(ones, l.length)+0.5))
	w.SetCounter(l.table, onesCounter, ones)
	w.SetCounter(l.table, flagsCounter, flagEstimated)
	return nil
}

// clearBits clears the bits from a place on.
func clearBits(words []uint64, from uint64) {
	if from >= 64*uint64(len(words)) {
		return
	}
	words[from/64] &= 1<<(from%64) - 1
	clear(words[from/64+1:])
}

// otherFiles are what people take for a file of a library, and how it begins.
var otherFiles = []struct{ begin, name, instead string }{
	{"\x1f\x8b", "compressed by gzip", "give what gzip -dc makes of it"},
	{"\x28\xb5\x2f\xfd", "compressed by zstd", "give what zstd -dc makes of it"},
	{"\xac\xed\x00\x05", "a serialized Java object", "in Java, read it and give what writeTo writes"},
	{"{", "JSON", "read it with its library and give what WriteTo writes"},
	{"\x89SVKF", "a file of export", "import it without a format of another library"},
}

// namedForeign returns the error about a file that is not in its format: what it is, if that is known, and otherwise err.
func namedForeign(in io.ReadSeeker, start int64, format ForeignFormat, err error) error {
	first := make([]byte, 16)
	if _, err := in.Seek(start, io.SeekStart); err != nil {
		return err
	}
	n, failed := io.ReadFull(in, first)
	if failed != nil && failed != io.EOF && failed != io.ErrUnexpectedEOF {
		return failed
	}
	for _, other := range otherFiles {
		if strings.HasPrefix(string(first[:n]), other.begin) {
			return damaged(0, "it is %s, and no file of %v: %s", other.name, format, other.instead)
		}
	}
	if isGob(first[:n]) {
		return damaged(0, "it is a gob, and no file of %v: decode it in Go, and give what WriteTo writes", format)
	}
	return err
}

// isGob reports whether a file begins as a stream of encoding/gob does: with the length of a message, and the number of a
// type that the message defines, which is negative and at most -64.
func isGob(first []byte) bool {
	switch {
	case len(first) < 4 || first[0] < 4 || first[0] > 0x7f:
		return false
	case first[1] == 0x7f: // -64
		return true
	}
	return first[1] == 0xff && first[2] >= 0x81 && first[2]&1 == 1
}
