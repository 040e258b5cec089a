package bitmapext_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/bitmapext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/coretest"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/txn"
)

func newWorld(t *testing.T) *coretest.World {
	return coretest.NewWorld(t, kv.Options{Modules: coreext.With(txn.Module(), coretest.OtherModule())})
}

func TestCommands_arity(t *testing.T) {
	w := newWorld(t)
	for _, c := range bitmapext.Commands() {
		want := "ERR wrong number of arguments for '" + strings.ToLower(c.Name) + "' command"
		for n := range 12 {
			bad := c.Arity > 0 && n+1 != c.Arity || n+1 < -c.Arity
			got := string(w.Do(append([]string{c.Name}, strings.Fields(strings.Repeat("1 ", n))...)...).Bytes())
			if (got == want) != bad {
				t.Errorf("%s with %d words answers %q", c.Name, n, got)
			}
		}
	}
}

// No command changes or reads a key of another type, and none makes one.
func TestCommands_wrongType(t *testing.T) {
	w := newWorld(t)
	w.Script(`
		OTHER.NEW o => +OK
		SET s x => +OK`)
	for _, line := range []string{
		"SETBIT o 0 1", "GETBIT o 0", "BITCOUNT o", "BITCOUNT o 0 0 BIT", "BITPOS o 1", "BITOP AND d o", "BITOP OR d s o", "BITOP NOT d o",
		"BITFIELD o", "BITFIELD o GET u8 0", "BITFIELD o SET u8 0 1", "BITFIELD_RO o GET u8 0", "SIEVE.STREAK o 0", "SIEVE.BITCOUNTOP OR s o",
		"APPEND o x", "APPEND o \"\"", "SETRANGE o 0 x", "SETRANGE o 0 \"\"", "GETRANGE o 0 0", "STRLEN o",
	} {
		w.Script(line + " => -WRONGTYPE Operation against a key holding the wrong kind of value")
	}
	w.Script(`
		EXISTS d => :0
		TYPE o => +other
		BITOP OR o s => :1
		TYPE o => +string`)
}

func TestSetBit(t *testing.T) {
	newWorld(t).Script(`
		GETBIT k 0 => :0
		SETBIT k 7 1 => :0
		GET k => "\x01"
		SETBIT k 7 1 => :1
		SETBIT k 0 1 => :0
		GET k => "\x81"
		SETBIT k 8 0 => :0
		GET k => "\x81\x00"
		SETBIT k 7 0 => :1
		SETBIT k 7 0 => :0
		GET k => "\x80\x00"
		GETBIT k 0 => :1
		GETBIT k 1 => :0
		GETBIT k 16 => :0
		GETBIT k 4294967295 => :0
		GETBIT k 4294967296 => -ERR bit offset is not an integer or out of range
		GETBIT k -1 => -ERR bit offset is not an integer or out of range
		GETBIT k x => -ERR bit offset is not an integer or out of range
		GETBIT k 01 => -ERR bit offset is not an integer or out of range
		SETBIT k -1 1 => -ERR bit offset is not an integer or out of range
		SETBIT k 4294967296 1 => -ERR bit offset is not an integer or out of range
		SETBIT k x 2 => -ERR bit offset is not an integer or out of range
		SETBIT k 0 2 => -ERR bit is not an integer or out of range
		SETBIT k 0 -1 => -ERR bit is not an integer or out of range
		SETBIT k 0 on => -ERR bit is not an integer or out of range
		SETBIT missing 0 2 => -ERR bit is not an integer or out of range
		EXISTS missing => :0
		SETBIT zero 3 0 => :0
		GET zero => "\x00"
		SETBIT far 4294967295 0 => :0
		STRLEN far => :536870912
		BITCOUNT far => :0
		SETBIT far 4294967295 1 => :0
		GETBIT far 4294967295 => :1
		BITCOUNT far => :1
		BITPOS far 1 => :4294967295
		GETRANGE far -2 -1 => "\x00\x01"
		SIEVE.STREAK far 4294967295 => :1
		BITFIELD far GET u8 4294967290 => [:4]
		BITFIELD far SET u8 4294967295 255 => [:128]
		STRLEN far => :536870913
		GETRANGE far -2 -1 => "\x01\xfe"
		BITCOUNT far => :8`)
}

func TestBitCount(t *testing.T) {
	newWorld(t).Script(`
		SET k foobar => +OK
		BITCOUNT k => :26
		BITCOUNT k 0 0 => :4
		BITCOUNT k 1 1 => :6
		BITCOUNT k 1 1 BYTE => :6
		BITCOUNT k 5 30 BIT => :17
		BITCOUNT k 0 -5 bit => :25
		BITCOUNT k -1 -1 => :4
		BITCOUNT k -1 -1 BIT => :0
		BITCOUNT k -100 -1 => :26
		BITCOUNT k 0 100 => :26
		BITCOUNT k 3 2 => :0
		BITCOUNT k -1 -2 => :0
		BITCOUNT k 6 7 => :0
		BITCOUNT k 0 => -ERR syntax error
		BITCOUNT k 0 0 x => -ERR syntax error
		BITCOUNT k 0 0 BIT x => -ERR syntax error
		BITCOUNT k a 0 => -ERR value is not an integer or out of range
		BITCOUNT k 0 1.5 => -ERR value is not an integer or out of range
		BITCOUNT missing => :0
		BITCOUNT missing 0 5 => :0`)
}

func TestBitPos(t *testing.T) {
	newWorld(t).Script(`
		SET k "\xff\xf0\x00" => +OK
		BITPOS k 0 => :12
		BITPOS k 1 => :0
		BITPOS k 1 2 => :-1
		BITPOS k 0 2 => :16
		BITPOS k 1 1 => :8
		BITPOS k 1 -2 -1 => :8
		BITPOS k 1 13 20 BIT => :-1
		BITPOS k 0 9 20 bit => :12
		BITPOS k 1 9 9 BIT => :9
		BITPOS k 0 9 9 BIT => :-1
		BITPOS k 0 -8 -1 BIT => :16
		BITPOS k 1 3 => :-1
		BITPOS k 0 3 => :-1
		BITPOS k 0 2 1 => :-1
		BITPOS k 2 => -ERR The bit argument must be 1 or 0.
		BITPOS k x => -ERR value is not an integer or out of range
		BITPOS k 1 x => -ERR value is not an integer or out of range
		BITPOS k 1 0 x => -ERR value is not an integer or out of range
		BITPOS k 1 0 1 x => -ERR syntax error
		BITPOS k 1 0 1 BIT x => -ERR syntax error
		SET ones "\xff\xff" => +OK
		BITPOS ones 0 => :16
		BITPOS ones 0 0 => :16
		BITPOS ones 0 0 -1 => :-1
		BITPOS ones 0 0 1 BYTE => :-1
		BITPOS missing 0 => :0
		BITPOS missing 1 => :-1
		BITPOS missing 0 5 => :0
		SETBIT sparse 16777215 1 => :0
		BITPOS sparse 1 => :16777215
		BITPOS sparse 0 70000 => :560000
		BITPOS sparse 0 700000 => :5600000
		BITPOS sparse 1 70000 80000 => :-1
		BITPOS sparse 0 -1 => :16777208
		BITPOS sparse 0 16777215 16777215 BIT => :-1`)
}

func TestBitOp(t *testing.T) {
	newWorld(t).Script(`
		MSET a "\xf0\x0f\x01" b "\xcc\xff" c "\xaa" => +OK
		BITOP AND d a b => :3
		GET d => "\xc0\x0f\x00"
		BITOP OR d a b c => :3
		GET d => "\xfe\xff\x01"
		BITOP xor d a b c => :3
		GET d => "\x96\xf0\x01"
		BITOP NOT d b => :2
		GET d => "3\x00"
		BITOP DIFF d a b c => :3
		GET d => "\x10\x00\x01"
		BITOP DIFF1 d a b c => :3
		GET d => "\x0e\xf0\x00"
		BITOP ANDOR d a b c => :3
		GET d => "\xe0\x0f\x00"
		BITOP ONE d a b c => :3
		GET d => "\x16\xf0\x01"
		BITOP ONE d a => :3
		GET d => "\xf0\x0f\x01"
		BITOP AND a a missing => :3
		GET a => "\x00\x00\x00"
		BITOP OR d missing => :0
		EXISTS d => :0
		BITOP NOT d a b => -ERR BITOP NOT must be called with a single source key.
		BITOP DIFF d a => -ERR BITOP DIFF must be called with at least two source keys.
		BITOP diff1 d a => -ERR BITOP DIFF1 must be called with at least two source keys.
		BITOP ANDOR d a => -ERR BITOP ANDOR must be called with at least two source keys.
		BITOP NAND d a b => -ERR syntax error
		SIEVE.BITCOUNTOP OR b c => :14
		SIEVE.BITCOUNTOP AND b c => :2
		SIEVE.BITCOUNTOP NOT c => :4
		SIEVE.BITCOUNTOP XOR c missing => :4
		SIEVE.BITCOUNTOP XOR c c => :0
		SIEVE.BITCOUNTOP DIFF c b => :2
		SIEVE.BITCOUNTOP NOT b c => -ERR BITOP NOT must be called with a single source key.
		SIEVE.BITCOUNTOP DIFF b => -ERR BITOP DIFF must be called with at least two source keys.
		SIEVE.BITCOUNTOP x b => -ERR syntax error
		EXISTS d => :0
		SETBIT sparse 16777215 1 => :0
		SIEVE.BITCOUNTOP NOT sparse => :16777215
		SIEVE.BITCOUNTOP XOR sparse a => :1
		SIEVE.BITCOUNTOP DIFF1 b sparse => :1
		BITOP NOT d sparse => :2097152
		BITCOUNT d => :16777215
		BITPOS d 0 => :16777215`)
}

// Combinations take a bitmap that has expired for a missing one, from that moment on, and what they store does not expire,
// whatever form the bitmaps have and whether or not the result is one of them.
func TestBitOp_expiry(t *testing.T) {
	for form, bit := range map[string]int{"header": 100, "blocks": 100_000} {
		t.Run(form, func(t *testing.T) {
			w := newWorld(t)
			w.Script(strings.NewReplacer("<bit>", strconv.Itoa(bit), "<length>", strconv.Itoa(bit/8+1)).Replace(`
				SETBIT lasting <bit> 1 => :0
				SETBIT lasting 3 1 => :0
				SETBIT passing <bit> 1 => :0
				SETBIT passing 7 1 => :0
				SETBIT dst 5 1 => :0
				PEXPIRE passing 1000 => :1
				PEXPIRE dst 1000 => :1
				@pass 999ms
				BITOP AND dst lasting passing => :<length>
				BITCOUNT dst => :1
				PTTL dst => :-1
				BITOP DIFF dst passing lasting => :<length>
				BITCOUNT dst => :1
				SIEVE.BITCOUNTOP OR lasting passing => :3
				PTTL passing => :1
				@pass 1ms
				SIEVE.BITCOUNTOP OR lasting passing => :2
				BITOP OR dst passing lasting => :<length>
				BITCOUNT dst => :2
				BITOP AND dst lasting passing => :<length>
				BITCOUNT dst => :0
				BITOP NOT dst passing => :0
				EXISTS dst => :0
				PEXPIRE lasting 1000 => :1
				BITOP OR lasting lasting passing => :<length>
				PTTL lasting => :-1
				SETBIT passing 7 1 => :0
				STRLEN passing => :1
				SIEVE.BITCOUNTOP OR lasting passing => :3`))
		})
	}
}

// A bitmap that is named several times counts as if each were a copy, whatever the operation.
func TestBitOp_repeated(t *testing.T) {
	w := newWorld(t)
	for i, key := range []string{"a", "b", "c"} {
		for n := range 40 {
			w.Line(fmt.Sprintf("SETBIT %s %d 1", key, (n*(i+3)*7919)%(70_000*(i+1))))
		}
		for copied := range 3 {
			w.Line(fmt.Sprintf("COPY %s %s%d", key, key, copied))
		}
	}
	for _, op := range []string{"AND", "OR", "XOR", "DIFF", "DIFF1", "ANDOR", "ONE"} {
		for _, keys := range []string{"a a", "a a a", "a b a", "b a a", "c c a b c", "a b b c c c", "missing a missing a", "b b"} {
			var copies []string
			for i, key := range strings.Fields(keys) {
				if key != "missing" {
					key = fmt.Sprintf("%s%d", key, i%3)
				}
				copies = append(copies, key)
			}
			if len(copies) > 4 {
				copies[4] = copies[4][:1] // the fifth is the key itself
			}
			apart := strings.Join(copies, " ")
			if got, want := w.Line("BITOP "+op+" got "+keys), w.Line("BITOP "+op+" want "+apart); got.String() != want.String() {
				t.Errorf("BITOP %s of %s: %v, of copies %v", op, keys, got, want)
			}
			if got, want := w.Line("GET got"), w.Line("GET want"); got.String() != want.String() {
				t.Errorf("BITOP %s of %s makes another string than of copies", op, keys)
			}
			if got, want := w.Line("SIEVE.BITCOUNTOP "+op+" "+keys), w.Line("SIEVE.BITCOUNTOP "+op+" "+apart); got.String() != want.String() {
				t.Errorf("SIEVE.BITCOUNTOP %s of %s: %v, of copies %v", op, keys, got, want)
			}
		}
	}
}

// SIEVE.BITCOUNTOP and BITOP count the memory that they take for each key, and give it back.
func TestBitCountOp_memory(t *testing.T) {
	w := newWorld(t)
	const keys = 5000
	named := func(key string) string {
		var line strings.Builder
		for i := range keys {
			fmt.Fprintf(&line, " %s%d", key, i)
		}
		return line.String()
	}
	for i := range keys {
		w.Script(fmt.Sprintf("SETBIT blocks%d 100000 1 => :0\nSETBIT header%d 0 1 => :0", i, i))
	}
	s := module.NewSession(w.DB)
	used, most, limit := 0, 0, 1<<30
	s.Charge = func(n int) error {
		used += n
		most = max(most, used)
		if used > limit {
			return errors.New("no memory")
		}
		return nil
	}
	for _, line := range []string{"SIEVE.BITCOUNTOP OR", "BITOP OR result"} {
		for _, key := range []string{"blocks", "header", "missing"} {
			most, limit = 0, 1<<30
			if r := s.Do(t.Context(), words(line+named(key))); r.IsError() || used != 0 || most < 100*keys || most > 2000*keys {
				t.Errorf("%s of %d keys %s: %v, %d bytes at most, %d at the end", line, keys, key, r, most, used)
			}
			limit = most / 2
			if r := s.Do(t.Context(), words(line+named(key))); string(r.Bytes()) != "ERR no memory" || used != 0 {
				t.Errorf("%s of %d keys %s with half of the memory: %v, %d bytes at the end", line, keys, key, r, used)
			}
		}
	}
}

func TestStreak(t *testing.T) {
	newWorld(t).Script(`
		SET k "\x07\xff\xfd" => +OK
		SIEVE.STREAK k 23 => :1
		SIEVE.STREAK k 22 => :0
		SIEVE.STREAK k 21 => :17
		SIEVE.STREAK k 8 => :4
		SIEVE.STREAK k 5 => :1
		SIEVE.STREAK k 4 => :0
		SIEVE.STREAK k 24 => :0
		SIEVE.STREAK missing 0 => :0
		SIEVE.STREAK k -1 => -ERR bit offset is not an integer or out of range
		SIEVE.STREAK k 4294967296 => -ERR bit offset is not an integer or out of range
		SETRANGE long 0 "` + strings.Repeat(`\xff`, 70_000) + `" => :70000
		SIEVE.STREAK long 559999 => :560000
		SETBIT long 65535 0 => :1
		SIEVE.STREAK long 559999 => :494464
		SIEVE.STREAK long 65535 => :0
		SIEVE.STREAK long 65534 => :65535`)
}

func TestBitField(t *testing.T) {
	newWorld(t).Script(`
		BITFIELD k => []
		BITFIELD k GET u8 0 => [:0]
		EXISTS k => :0
		BITFIELD k SET u8 0 255 GET u8 0 GET i8 0 => [:0 :255 :-1]
		BITFIELD k INCRBY u8 0 10 => [:9]
		BITFIELD k SET i5 100 -3 INCRBY i5 100 1 => [:0 :-2]
		STRLEN k => :14
		BITFIELD k SET u4 #3 9 GET u4 12 => [:0 :9]
		BITFIELD k SET i64 1 -9223372036854775808 GET i64 1 => [...
		BITFIELD w SET u8 0 250 OVERFLOW SAT INCRBY u8 0 10 OVERFLOW WRAP INCRBY u8 0 10 => [:0 :255 :9]
		BITFIELD w OVERFLOW FAIL INCRBY u8 0 -10 GET u8 0 overflow sat incrby u8 0 -10 => [_ :9 :0]
		BITFIELD s SET i8 0 120 INCRBY i8 0 10 => [:0 :-126]
		BITFIELD s OVERFLOW SAT INCRBY i8 0 -10 INCRBY i8 0 1000 => [:-128 :127]
		BITFIELD s OVERFLOW FAIL SET i8 0 128 SET i8 0 -129 SET i8 0 -128 => [_ _ :127]
		BITFIELD s OVERFLOW SAT SET u8 8 300 GET u8 8 => [:0 :255]
		BITFIELD s SET u8 8 300 GET u8 8 => [:255 :44]
		BITFIELD big SET u63 1 9223372036854775807 INCRBY u63 1 1 => [:0 :0]
		BITFIELD big OVERFLOW SAT SET i64 0 9223372036854775807 INCRBY i64 0 1 => [:0 :9223372036854775807]
		BITFIELD big OVERFLOW FAIL INCRBY i64 0 1 => [_]
		BITFIELD big INCRBY i64 0 1 => [:-9223372036854775808]
		BITFIELD grown OVERFLOW FAIL INCRBY u2 8 4 => [_]
		STRLEN grown => :2
		BITFIELD k GET u64 0 => -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
		BITFIELD k GET i65 0 => -ERR Invalid bitfield type...
		BITFIELD k GET u0 0 => -ERR Invalid bitfield type...
		BITFIELD k GET U8 0 => -ERR Invalid bitfield type...
		BITFIELD k GET 8 0 => -ERR Invalid bitfield type...
		BITFIELD k GET u8 -1 => -ERR bit offset is not an integer or out of range
		BITFIELD k GET u8 4294967296 => -ERR bit offset is not an integer or out of range
		BITFIELD k GET u8 #536870912 => -ERR bit offset is not an integer or out of range
		BITFIELD k GET u8 #536870911 => [:0]
		BITFIELD k GET u8 #2305843009213693952 => -ERR bit offset is not an integer or out of range
		BITFIELD k GET u8 #x => -ERR bit offset is not an integer or out of range
		BITFIELD k GET u8 #9223372036854775807 => -ERR bit offset is not an integer or out of range
		BITFIELD k SET u8 0 x => -ERR value is not an integer or out of range
		BITFIELD k GET u8 => -ERR syntax error
		BITFIELD k SET u8 0 => -ERR syntax error
		BITFIELD k PUT u8 0 1 => -ERR syntax error
		BITFIELD k OVERFLOW => -ERR syntax error
		BITFIELD k OVERFLOW x => -ERR Invalid OVERFLOW type specified
		BITFIELD new SET u8 0 1 SET u8 0 x => -ERR value is not an integer or out of range
		EXISTS new => :0
		BITFIELD_RO w GET u4 4 GET i4 4 => [:0 :0]
		BITFIELD_RO w => []
		BITFIELD_RO missing GET u8 0 => [:0]
		BITFIELD_RO w SET u8 0 1 => -ERR BITFIELD_RO only supports the GET subcommand
		BITFIELD_RO w INCRBY u8 0 1 => -ERR BITFIELD_RO only supports the GET subcommand
		BITFIELD last SET i64 4294967295 -1 GET i64 4294967295 => [:0 :-1]
		STRLEN last => :536870920
		BITFIELD_RO last GET u63 4294967295 GET u1 4294967294 => [:9223372036854775807 :0]
		BITCOUNT last => :64`)
}

// A string beyond 512 MiB is refused, and nothing is made on the way.
func TestSetRange_tooLong(t *testing.T) {
	w := newWorld(t)
	w.Script(`
		SETBIT k 4294967295 1 => :0
		APPEND k x => -ERR string exceeds maximum allowed size (proto-max-bulk-len)
		APPEND k "" => :536870912
		BITFIELD last SET u8 4294967295 1 => [:0]
		APPEND last "" => -ERR string exceeds maximum allowed size (proto-max-bulk-len)
		SETRANGE last 536870913 "" => :536870913
		SETRANGE k 536870912 x => -ERR string exceeds maximum allowed size (proto-max-bulk-len)
		SETRANGE k 536870911 xy => -ERR string exceeds maximum allowed size (proto-max-bulk-len)
		SETRANGE k 9223372036854775807 x => -ERR string exceeds maximum allowed size (proto-max-bulk-len)
		SETRANGE k 536870911 x => :536870912
		SETRANGE k 9223372036854775807 "" => :536870912
		SETRANGE new 536870912 x => -ERR string exceeds maximum allowed size (proto-max-bulk-len)
		SETRANGE new 536870912 "" => :0
		EXISTS new => :0
		SETRANGE k -1 x => -ERR offset is out of range
		GETRANGE k -1 -1 => "x"`)
	for _, offset := range []uint64{math.MaxUint64, math.MaxUint64 - 1} {
		err := w.DB.Write(kv.NoSync, [][]byte{[]byte("k")}, func(w *kv.Writer) error {
			_, err := bitmapext.SetRange(t.Context(), w, []byte("k"), offset, []byte("xyz"))
			return err
		})
		if !errors.Is(err, kv.ErrStringTooLong) {
			t.Errorf("SetRange at %d = %v", offset, err)
		}
	}
	n := testing.AllocsPerRun(10, func() { w.Line("SETRANGE new 536870912 x") })
	if n > 200 {
		t.Errorf("a refused SETRANGE allocates %.0f times", n)
	}
}

// isInBlocks reports whether a string is in blocks.
func isInBlocks(t *testing.T, db *kv.DB, key string) (in bool) {
	t.Helper()
	err := db.Read(func(r kv.Reader) error {
		_, o, err := r.String([]byte(key))
		in = o != nil
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// Each change that makes a string of 1,025 bytes or more has it in blocks; shorter ones stay in the header.
func TestForms(t *testing.T) {
	w := newWorld(t)
	for _, n := range []int{1023, 1024, 1025, 1026} {
		old := strings.Repeat("a", 1000)
		for what, line := range map[string]string{
			"SETBIT": fmt.Sprintf("SETBIT k %d 1", 8*n-1), "SETRANGE": fmt.Sprintf("SETRANGE k %d x", n-1), "APPEND": "APPEND k " + strings.Repeat("b", n-1000),
			"BITFIELD": fmt.Sprintf("BITFIELD k SET u8 %d 1", 8*n-8), "BITOP": "BITOP OR k k src", "SET": "SET k " + strings.Repeat("b", n),
		} {
			for _, begin := range []string{"", "MULTI", "undone"} {
				w.Script("DEL k src => ...")
				w.Script("SET k " + old + " PX 5000 => +OK")
				w.Script(fmt.Sprintf("SETRANGE src %d x => :%d", n-1, n))
				if begin == "" {
					w.Line(line)
				} else {
					if begin == "undone" {
						w.Script("GET k => ...")
					}
					w.Line("MULTI")
					w.Line(line)
					w.Line("STRLEN k")
					if begin == "undone" {
						w.Line("DISCARD")
						w.Script("GET k => \"" + old + "\"\nPTTL k => :5000")
						continue
					}
					w.Script(fmt.Sprintf("EXEC => [... :%d]", n))
				}
				w.Script(fmt.Sprintf("STRLEN k => :%d\nTYPE k => +string", n))
				if want := what != "SET" && n > bitmapext.MaxInline; isInBlocks(t, w.DB, "k") != want {
					t.Errorf("%s to %d bytes %s: in blocks is %v, want %v", what, n, begin, !want, want)
				}
				if what == "BITOP" || what == "SET" {
					w.Script("PTTL k => :-1")
				} else {
					w.Script("PTTL k => :5000\n@pass 4999ms\nEXISTS k => :1\n@pass 1ms\nEXISTS k => :0")
				}
			}
		}
	}
}

// The limit of the size of filters does not hold for strings in blocks, because few of their blocks are stored.
func TestForms_maxFilterBytes(t *testing.T) {
	w := coretest.NewWorld(t, kv.Options{MaxFilterBytes: 1 << 20})
	w.Script("SETBIT k 5 1 => :0\nSETBIT k 4294967295 1 => :0\nSETBIT new 4294967295 1 => :0\nBITCOUNT k => :2\nCOPY k copy => :1\nBITCOUNT copy => :2")
}

// A string that SET wrote is in blocks after its first change, whatever its length, and one in blocks stays there.
func TestForms_longInHeader(t *testing.T) {
	w := newWorld(t)
	for _, n := range []int{2000, 8192, 65536, 65537, 100_000, 600_000} {
		value := strings.Repeat("ab", n/2+1)[:n]
		w.Script("SET k " + value + " PX 5000 => +OK")
		if isInBlocks(t, w.DB, "k") {
			t.Errorf("SET writes %d bytes to blocks", n)
		}
		w.Script(fmt.Sprintf("SETBIT k 1 1 => :1\nSETBIT k %d 1 => :0\nSTRLEN k => :%d", 8*n+7, n+1))
		if !isInBlocks(t, w.DB, "k") {
			t.Errorf("SETBIT leaves %d bytes in the header", n)
		}
		if got := string(w.Line("GET k").Bytes()); got != value+"\x01" {
			t.Errorf("%d bytes differ after SETBIT", n)
		}
		w.Script("PTTL k => :5000\nSETRANGE k 0 x => ...\nPTTL k => :5000")
		w.Script("SETRANGE k 3 " + strings.Repeat("c", 70_000) + " => ...\nPTTL k => :5000\nGETRANGE k 0 3 => \"xbac\"\nGETRANGE k 70002 70003 => ...")
		if !isInBlocks(t, w.DB, "k") {
			t.Error("SETRANGE moves a string back into its header")
		}
	}
}

// The commands on strings and keys, for a string in blocks.
func TestInBlocks(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("\x00", 1999) + "x"
	quoted := `"` + strings.Repeat(`\x00`, 1999) + `x"`
	begin := func() {
		t.Helper()
		w.Script("FLUSHALL => +OK\nSETRANGE k 1999 x => :2000\nPEXPIRE k 5000 => :1\nSET other y => +OK")
		if !isInBlocks(t, w.DB, "k") {
			t.Fatal("not in blocks")
		}
	}
	for _, script := range []string{
		"GET k => " + quoted + "\nSTRLEN k => :2000\nOBJECT ENCODING k => \"raw\"\nTYPE k => +string",
		"MGET k other missing => [" + quoted + ` "y" _]`,
		"GETDEL k => " + quoted + "\nEXISTS k => :0\nGETDEL k => _",
		"GETEX k PX 100 => " + quoted + "\nPTTL k => :100\nGETEX k PERSIST => " + quoted + "\nPTTL k => :-1\nGETEX k PXAT 1 => " + quoted + "\nEXISTS k => :0",
		"SET k new GET => " + quoted + "\nGET k => \"new\"\nPTTL k => :-1",
		"SET k new KEEPTTL => +OK\nPTTL k => :5000\nGET k => \"new\"",
		"SET k new NX => _\nSETNX k new => :0\nGETSET k new => " + quoted + "\nGET k => \"new\"",
		"SET k new NX GET => " + quoted + "\nSTRLEN k => :2000",
		"MSETNX other2 1 k 2 => :0\nEXISTS other2 => :0\nMSET k 1 other 2 => +OK\nMGET k other => [\"1\" \"2\"]",
		"COPY k other => :0\nCOPY k other REPLACE => :1\nPTTL other => :5000\nSETBIT k 0 1 => :0\nGET other => " + quoted,
		"COPY other k REPLACE => :1\nGET k => \"y\"\nPTTL k => :-1",
		"RENAME k other => +OK\nEXISTS k => :0\nPTTL other => :5000\nGET other => " + quoted + "\nRENAME other other => +OK\nSTRLEN other => :2000",
		"RENAME other k => +OK\nGET k => \"y\"\nRENAMENX k k => :0",
		"INCR k => -ERR value is not an integer or out of range\nINCRBYFLOAT k 1 => -ERR value is not a valid float\nSTRLEN k => :2000",
		"PERSIST k => :1\nSETBIT k 0 1 => :0\nPTTL k => :-1",
		"SETBIT k 0 1 => :0\nPTTL k => :5000\nAPPEND k z => :2001\nSETRANGE k 3000 z => :3001\nBITFIELD k SET u8 0 1 => [:128]\nPTTL k => :5000",
		"BITOP OR k other => :1\nPTTL k => :-1\nGET k => \"y\"",
		"BITOP OR k k => :2000\nPTTL k => :-1\nGET k => " + quoted,
		"BITOP OR k missing => :0\nEXISTS k => :0",
		"@pass 4999ms\nSTRLEN k => :2000\n@pass 1ms\nSTRLEN k => :0\nSETBIT k 9 1 => :0\nPTTL k => :-1\nGET k => \"\\x00@\"",
		"DEL k => :1\nAPPEND k x => :1\nGET k => \"x\"",
		"GETRANGE k 1998 -1 => \"\\x00x\"\nGETRANGE k -1 5000 => \"x\"\nGETRANGE k 5 3 => \"\"",
		"SETRANGE k 0 \"\" => :2000\nAPPEND k \"\" => :2000\nAPPEND empty \"\" => :0\nEXISTS empty => :1",
		"MULTI => +OK\nSETBIT k 0 1 => +QUEUED\nSETBIT k x 1 => +QUEUED\nBITCOUNT k => +QUEUED\nEXEC => [:0 -ERR bit offset is not an integer or out of range :5]",
		"MULTI => +OK\nDEL k => +QUEUED\nSETBIT k 9000 1 => +QUEUED\nRENAME k other => +QUEUED\nGETBIT other 9000 => +QUEUED\nSTRLEN k => +QUEUED\nEXEC => [:1 :0 +OK :1 :0]",
	} {
		begin()
		w.Script(script)
	}
	if got := string(w.Line("GET missing").Bytes()); got != "" || len(long) != 2000 {
		t.Error(got)
	}
}

// A write makes EXEC fail for those that watch the key, in each form of the string. As in Redis, SETBIT and BITFIELD
// that leave the bits as they are do not, others do even if they write what was there. Unlike in Redis, a BITFIELD that
// makes the string longer does, though it refuses all values.
func TestWatch(t *testing.T) {
	w := newWorld(t)
	other := module.NewSession(w.DB)
	for _, long := range []string{"SETBIT k 100 1", "SETBIT k 100000 1", "SET k " + strings.Repeat("\x00", 2000)} {
		for line, fails := range map[string]bool{
			"SETBIT k 5 1": true, "SETBIT k 100000000 0": true, "APPEND k x": true, "SETRANGE k 0 x": true, "BITFIELD k SET u8 0 7": true, "BITOP NOT k k": true,
			"SETRANGE k 0 \x00": true, "APPEND k ": true, "BITFIELD k SET u8 0 5 SET u8 0 0": true, "BITFIELD k SET u8 100000000 0": true,
			"BITFIELD k OVERFLOW FAIL INCRBY u2 100000000 9": true, "BITFIELD k OVERFLOW FAIL INCRBY u2 0 9": false,
			"BITFIELD k SET u8 0 0": false, "BITFIELD k INCRBY i8 0 0": false, "SETRANGE k 9 ": false,
			"SETBIT k 5 0": false, "GETBIT k 5": false, "BITFIELD k GET u8 0": false, "SETBIT other 5 1": false,
		} {
			w.Script("FLUSHALL => +OK")
			other.Do(t.Context(), bytes.Split([]byte(long), []byte(" ")))
			w.Script("WATCH k => +OK")
			other.Do(t.Context(), bytes.Split([]byte(line), []byte(" ")))
			w.Script("MULTI => +OK\nPING => +QUEUED")
			if got := w.Line("EXEC"); (got.Kind() == reply.KindNil) != fails {
				t.Errorf("%.20q; WATCH k; %q: EXEC answers %v", long, line, got)
			}
		}
	}
}

// A bit far away takes one block on disk and in memory.
func TestSparse(t *testing.T) {
	w := newWorld(t)
	stats := func() (s *kv.KeyStats) {
		t.Helper()
		if _, err := w.DB.Fold(t.Context(), 1<<20); err != nil {
			t.Fatal(err)
		}
		err := w.DB.Read(func(r kv.Reader) (err error) {
			s, err = r.Stats([]byte("k"))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	w.Script("SETBIT k 4000000000 1 => :0\nGETBIT k 4000000000 => :1\nGETBIT k 3000000000 => :0")
	if s := stats(); s.Type != "string" || s.Resident > 2*8192 || s.Disk > 8192 || s.Bytes != 500_000_001 {
		t.Errorf("%+v", s)
	}
	if n := w.Line("MEMORY USAGE k").Int(); n <= 0 || n > 3*8192 {
		t.Errorf("MEMORY USAGE answers %d", n)
	}
	w.Script("BITCOUNT k => :1\nBITPOS k 1 => :4000000000\nSTRLEN k => :500000001")
	if s := stats(); s.Resident > 200*8192 {
		t.Errorf("%+v", s)
	}
}
