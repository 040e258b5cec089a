// Package rdb reads what a Redis stores: the keys of an RDB file, or one value as DUMP returns it. Of the values it
// reads strings, and RedisBloom's Bloom and cuckoo filters. All others are passed over.
//
// # Terminology
//
//	opcode   the byte before each part of a file: above 240 for what is no key, below that the type of a value
//	length   a number in 1, 2, 5 or 9 bytes
//	string   a length and bytes; or a number of up to 32 bits; or bytes that are compressed by LZF
//	array    the bits of a Bloom filter's sub-filter, or the slots of a cuckoo filter's
//
// # Files from anywhere
//
// A file may have any bytes. Nothing in memory is larger than the bytes read from the file, except bytes that LZF has
// compressed: they may be 88 times as long. Only values are in memory as a whole, up to MaxString bytes of one, and not
// values that are only checked. Arrays never are.
//
// # Where the format is described
//
// The opcodes, types and lengths are as in src/rdb.h of Redis and of Valkey. The function rdbLoadObject of their
// src/rdb.c has the form of a value. The functions BFRdbSave and CFRdbSave of RedisBloom's src/rebloom.c have the form
// of a filter.
//
// Up to version 11 the two have one format. From then on Redis counts on from 12, and Valkey from 80, and they give some
// numbers of types and opcodes two meanings. A file of a newer version than is known here is read as long as it has
// nothing else than what is known: types are added, and those that exist have kept their form since version 9.
package rdb

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"strconv"
	"strings"
	"sync"
)

// ErrDamaged is in the error about a file that is no RDB file, is cut, or was changed.
var ErrDamaged = errors.New("damaged RDB")

// ErrUnsupported is in the error about a file that a newer server has written, or that is part of an append-only file.
var ErrUnsupported = errors.New("unsupported RDB")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// The versions of files.
const (
	magic       = "REDIS"
	magicValkey = "VALKEY"
	minVersion  = 1
	maxRedis    = 15 // the newest known version: Redis 8.10's
	firstValkey = 80
	maxValkey   = 80 // of Valkey 9
	firstSummed = 5  // files from this version on end in a checksum
	sumLength   = 8
	dumpFooter  = 2 + sumLength
)

// maxTemplates is how many templates of hashes are kept in memory.
const maxTemplates = 1 << 20

// MaxName is how many bytes of a key's name are kept. No store takes longer ones.
const MaxName = 64 << 10

// MaxString is the length of the longest string that String and Next return. A Redis has no longer ones.
const MaxString = 512 << 20

// The opcodes of parts that are no keys.
const (
	opTemplate       = 242 // of Redis: the names of fields that many hashes have
	opCommand        = 242 // of Valkey: a write that came while the file was saved
	opKeyMeta        = 243 // of Redis: what modules keep beside the next key
	opSlotImport     = 243 // of Valkey
	opSlotInfo       = 244
	opFunction       = 245
	opFunctionOld    = 246
	opModuleAux      = 247
	opIdle           = 248
	opFrequency      = 249
	opAux            = 250
	opResize         = 251
	opExpireMillis   = 252
	opExpireSeconds  = 253
	opSelectDatabase = 254
	opEnd            = 255
)

// jones is the polynomial of the checksum. Redis computes it without inverting anything: see checksum.
var jones = sync.OnceValue(func() *crc64.Table { return crc64.MakeTable(0x95ac9329ac4bc9b5) })

// checksum adds p to the checksum of what comes before it.
func checksum(sum uint64, p []byte) uint64 { return ^crc64.Update(^sum, jones(), p) }

// Reader reads a file from the beginning to the end.
type Reader struct {
	in       *bufio.Reader
	version  int
	offset   int64 // of the next byte
	sum      uint64
	database uint64
	key      Key
	ended    bool // the checksum was read
	unread   bool // nothing was read yet of the value of key

	templates map[uint64]uint64 // of hashes, by number: how many fields
}

// Key is a key, and what is known of its value before that is read.
type Key struct {
	Database uint64
	Name     []byte // the first MaxName bytes of it
	Length   uint64 // of the name
	Expires  bool
	ExpireAt int64 // if Expires, the time in milliseconds since 1970

	// Type is the word that TYPE answers: string, list, or for a module's value the name of the module's type, such as
	// MBbloom--.
	Type string

	kind    byte // the opcode
	version int  // of a module's value
}

// NewReader returns a reader of a file. It reads the file's first bytes.
func NewReader(r io.Reader) (*Reader, error) {
	f := newReader(r)
	head := make([]byte, len(magic)+4)
	if err := f.read(head); errors.Is(err, ErrDamaged) {
		return nil, damaged("it is shorter than the first words of an RDB file")
	} else if err != nil {
		return nil, err
	}
	digits, isValkey := bytes.CutPrefix(head, []byte(magicValkey))
	isRedis := false
	if !isValkey {
		digits, isRedis = bytes.CutPrefix(head, []byte(magic))
	}
	version, err := strconv.ParseUint(string(digits), 10, 16)
	if !isRedis && !isValkey || err != nil || version < minVersion || isValkey != (version >= firstValkey) {
		return nil, damaged("no RDB file begins with %q", head)
	}
	f.version = int(version)
	return f, nil
}

// isValkey reports whether types and opcodes have Valkey's meaning where it differs.
func (r *Reader) isValkey() bool { return r.version >= firstValkey }

// isNewer reports whether the version is newer than those that are known.
func (r *Reader) isNewer() bool {
	return r.version > maxValkey || r.version > maxRedis && !r.isValkey()
}

// explain adds to an error of a file, or a dump, that the version may be why.
func (r *Reader) explain(err error) error {
	if !r.isNewer() || !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnsupported) || errors.Is(err, errChecksum) {
		return err
	}
	return fmt.Errorf("%w (it is of RDB version %d, which may be why: known are 1 to %d, and %d to %d)", err, r.version, maxRedis, firstValkey, maxValkey)
}

func newReader(r io.Reader) *Reader { return &Reader{in: bufio.NewReaderSize(r, 1<<16)} }

// OpenDump returns a reader that has read the key of a value that DUMP has returned, and the key. It has no name.
func OpenDump(dump []byte) (*Reader, Key, error) {
	if len(dump) < 1+dumpFooter {
		return nil, Key{}, damaged("a dump of %d bytes", len(dump))
	}
	body, footer := dump[:len(dump)-8], dump[len(dump)-8:]
	if sum := binary.LittleEndian.Uint64(footer); sum != 0 && sum != checksum(0, body) {
		return nil, Key{}, damaged("the checksum of the dump is wrong")
	}
	body, footer = body[:len(body)-2], body[len(body)-2:]
	f := newReader(bytes.NewReader(body))
	f.version = int(binary.LittleEndian.Uint16(footer))
	kind, err := f.byte()
	for err == nil && kind == opKeyMeta && !f.isValkey() {
		if err = f.part(kind); err == nil {
			kind, err = f.byte()
		}
	}
	if err == nil {
		err = f.begin(Key{kind: kind})
	}
	return f, f.key, f.explain(err)
}

// Version returns the version of the file.
func (r *Reader) Version() int { return r.version }

// Offset returns how many bytes were read.
func (r *Reader) Offset() int64 { return r.offset }

// Next returns the next key. What was not read of the last one's value is passed over. The error is io.EOF at the end
// of the file, when the checksum was right.
func (r *Reader) Next() (Key, error) {
	key, err := r.next()
	if errors.Is(err, ErrUnsupported) && !r.ended {
		err = r.verify(err)
	}
	return key, r.explain(err)
}

func (r *Reader) next() (Key, error) {
	if err := r.pass(); err != nil {
		return Key{}, err
	}
	var key Key
	for {
		op, err := r.byte()
		if err != nil {
			return Key{}, err
		}
		switch op {
		case opEnd:
			return Key{}, r.end()
		case opExpireMillis, opExpireSeconds:
			key.Expires = true
			key.ExpireAt, err = r.expiry(op)
		default:
			if op < opTemplate {
				if key.Name, key.Length, err = r.beginning(MaxName); err != nil {
					return Key{}, err
				}
				key.kind, key.Database = op, r.database
				err = r.begin(key)
				return r.key, err
			}
			err = r.part(op)
		}
		if err != nil {
			return Key{}, err
		}
	}
}

// begin begins the value of a key: it reads what tells the type.
func (r *Reader) begin(key Key) (err error) {
	if key.kind == typeModule2 {
		id, err := r.length()
		if err != nil {
			return err
		}
		key.Type, key.version = moduleType(id)
	} else if key.Type, err = r.typeName(key.kind); err != nil {
		return err
	}
	r.key, r.unread = key, true
	return nil
}

// moduleType returns the name of a module's type, and the version of its values: 9 characters of 6 bits, and 10 bits.
func moduleType(id uint64) (name string, version int) {
	const characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for shift := 58; shift >= 10; shift -= 6 {
		name += string(characters[id>>shift&63])
	}
	return name, int(id & 1023)
}

func (r *Reader) expiry(op byte) (millis int64, err error) {
	if op == opExpireSeconds {
		var b [4]byte
		err = r.read(b[:])
		return 1000 * int64(int32(binary.LittleEndian.Uint32(b[:]))), err
	}
	var b [8]byte
	err = r.read(b[:])
	return int64(binary.LittleEndian.Uint64(b[:])), err
}

// part reads a part that is no key.
func (r *Reader) part(op byte) (err error) {
	switch op {
	case opSelectDatabase:
		r.database, err = r.length()
		return err
	case opFrequency:
		return r.skip(1)
	case opIdle:
		return r.lengths(1)
	case opResize:
		return r.lengths(2)
	case opSlotInfo:
		return r.lengths(3)
	case opTemplate:
		if r.isValkey() {
			return fmt.Errorf("%w: the file has writes that the server got while it was saved, which are not read: let the server SAVE", ErrUnsupported)
		}
		return r.template()
	case opKeyMeta:
		if r.isValkey() {
			return first(r.strings(1), func() error { return r.repeated(func() error { return r.lengths(2) }) })
		}
		return r.repeated(func() error { return first(r.skip(4), r.fields) })
	case opAux:
		return r.aux()
	case opFunction:
		return r.strings(1)
	case opModuleAux:
		if err := r.lengths(1); err != nil { // the module's type
			return err
		}
		return r.fields()
	case opFunctionOld:
		return fmt.Errorf("%w: the file has functions as a release candidate of Redis 7.0 wrote them", ErrUnsupported)
	}
	panic("part: no opcode")
}

// template reads the number of a template of hashes, and passes over the names of its fields.
func (r *Reader) template() error {
	id, err := r.length()
	if err != nil {
		return err
	}
	fields, err := r.length()
	if err != nil {
		return err
	}
	if r.templates == nil {
		r.templates = make(map[uint64]uint64)
	}
	if r.templates[id] = fields; len(r.templates) > maxTemplates {
		return fmt.Errorf("%w: the file has more than %d templates of hashes", ErrUnsupported, maxTemplates)
	}
	return r.strings(fields)
}

// aux reads a name and a value that a server has written about the file.
func (r *Reader) aux() error {
	const enough = 1 << 10 // for the only one that matters
	name, _, err := r.beginning(enough)
	if err != nil {
		return err
	}
	value, _, err := r.beginning(enough)
	if err == nil && string(name) == "aof-base" && string(value) != "0" {
		return fmt.Errorf("%w: the file is the base of an append-only file: what was written later is in the other files of its "+
			"directory; import what the server makes by SAVE or BGSAVE, or pull from the server", ErrUnsupported)
	}
	return err
}

// end checks the checksum, and that nothing follows.
func (r *Reader) end() error {
	if err := r.checksum(); err != nil {
		return err
	}
	r.ended = true
	_, err := r.in.Peek(1)
	if err == nil {
		return fmt.Errorf("%w: more follows its end, as in an append-only file, whose commands are not read: let the server SAVE", ErrUnsupported)
	}
	return err // io.EOF, if all is well
}

var errChecksum = damaged("its checksum is wrong")

// checksum reads the checksum, which ends a file, and checks it.
func (r *Reader) checksum() error {
	if r.version < firstSummed {
		return nil
	}
	sum := r.sum
	var b [sumLength]byte
	if err := r.read(b[:]); err != nil {
		return err
	}
	if stored := binary.LittleEndian.Uint64(b[:]); stored != 0 && stored != sum { // 0: the server had checksums off
		return errChecksum
	}
	return nil
}

// verify reads all that is left of a file that seems to be unsupported, and returns an error if it is rather damaged.
func (r *Reader) verify(unsupported error) error {
	for more := true; more; {
		p, err := r.in.Peek(r.in.Size())
		if err != nil && err != io.EOF {
			return err
		}
		more = err == nil
		n := max(0, len(p)-sumLength)
		r.took(p[:n])
		if _, err := r.in.Discard(n); err != nil {
			return err
		}
	}
	switch err := r.checksum(); {
	case err == errChecksum:
		text, _ := strings.CutPrefix(unsupported.Error(), ErrUnsupported.Error()+": ")
		return fmt.Errorf("%w; %s", err, text)
	case err != nil:
		return err
	}
	return unsupported
}

// String returns the value of a key of the type string.
func (r *Reader) String() ([]byte, error) {
	r.unread = false
	value, err := r.string()
	return value, r.explain(err)
}

// CheckString reads the value of a key of the type string, keeps nothing of it, and returns its length.
func (r *Reader) CheckString() (length uint64, err error) {
	r.unread = false
	_, length, err = r.beginning(0)
	if err == nil && length > MaxString {
		err = damaged("a string of %d bytes", length)
	}
	return length, r.explain(err)
}

// The functions below read bytes, and return ErrDamaged where the file ends.

func (r *Reader) byte() (byte, error) {
	var b [1]byte
	err := r.read(b[:])
	return b[0], err
}

func (r *Reader) read(p []byte) error {
	n, err := io.ReadFull(r.in, p)
	r.took(p[:n])
	return cut(err)
}

func (r *Reader) took(p []byte) {
	r.offset += int64(len(p))
	r.sum = checksum(r.sum, p)
}

func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged("it ends in the middle")
	}
	return err
}

func (r *Reader) skip(n uint64) error {
	for n > 0 {
		p, err := r.in.Peek(int(min(n, uint64(max(r.in.Buffered(), 1)))))
		if err != nil {
			return cut(err)
		}
		r.took(p)
		if _, err := r.in.Discard(len(p)); err != nil {
			return err
		}
		n -= uint64(len(p))
	}
	return nil
}

// number reads a length. If it is special, it is no length, but says how a string is encoded.
func (r *Reader) number() (n uint64, special bool, err error) {
	first, err := r.byte()
	if err != nil {
		return 0, false, err
	}
	var b [8]byte
	switch {
	case first < 0x40:
		return uint64(first), false, nil
	case first < 0x80:
		second, err := r.byte()
		return uint64(first&0x3f)<<8 | uint64(second), false, err
	case first == 0x80:
		err = r.read(b[4:])
	case first == 0x81:
		err = r.read(b[:])
	case first >= 0xc0:
		return uint64(first & 0x3f), true, nil
	default:
		return 0, false, damaged("a length begins with %#x", first)
	}
	return binary.BigEndian.Uint64(b[:]), false, err
}

func (r *Reader) length() (uint64, error) {
	n, special, err := r.number()
	if err == nil && special {
		return 0, damaged("a string is where a length must be")
	}
	return n, err
}

// lengths passes over n lengths.
func (r *Reader) lengths(n uint64) error {
	for range n {
		if _, err := r.length(); err != nil {
			return err
		}
	}
	return nil
}

// strings passes over n strings.
func (r *Reader) strings(n uint64) error {
	for range n {
		if err := r.skipString(); err != nil {
			return err
		}
	}
	return nil
}
