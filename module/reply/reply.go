// Package reply has the replies of commands: a command builds a reply once, and it can be shown in several forms.
//
// # Terminology
//
//	reply     one answer; a tree, because arrays, sets and maps hold replies
//	kind      what a reply is: status, error, integer, bulk string, ...
//	RESP2     the older wire protocol. It has only nil, status, error, integer, bulk string and array
//	RESP3     the newer one. It adds booleans, doubles, maps, sets and verbatim strings
//	bulk      a string of any bytes
//	verbatim  a text to be shown as it is, such as INFO's
//
// # How it works
//
// A command answers with the richest kind that fits: true rather than 1, a map rather than a flat list. The method
// RESP2 gives the simpler form for older clients, and for redis-cli by default. If the protocols need replies of
// different shapes, the command gives both with Either: BF.INFO with one field answers an array of one element in
// RESP2 and a map of one entry in RESP3.
//
// AppendText, AppendRaw and AppendCSV show the RESP2 form, AppendJSON the RESP3 form, because redis-cli uses these
// protocols in these modes. All four append complete lines.
//
// # Concurrency
//
// A Reply never changes after it is built, and many goroutines may read it. It shares the slices of bytes and replies
// that it was made from, so the caller must not change these any more.
package reply

import (
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
)

// Kind says what a reply is.
type Kind uint8

// The kinds of replies. A zero Reply is KindNil.
const (
	KindNil      Kind = iota // no value
	KindStatus               // a short text such as OK
	KindError                // a command's failure
	KindInt                  // a signed 64-bit integer
	KindBulk                 // a string of any bytes
	KindArray                // replies in order
	KindBool                 // true or false; 1 or 0 in RESP2
	KindDouble               // a 64-bit floating point number; a bulk string in RESP2
	KindMap                  // pairs in order; in RESP2 an array of alternating keys and values
	KindSet                  // different replies in any order; an array in RESP2
	KindVerbatim             // a text to be shown as it is; a bulk string in RESP2
	KindEither               // one form for RESP2 and another for RESP3, see Either
)

var kindNames = [...]string{
	"nil", "status", "error", "integer", "bulk string", "array",
	"boolean", "double", "map", "set", "verbatim string", "either",
}

// String returns the name of the kind, for messages.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// Reply is the answer of a command. The zero value is Nil.
//
// Empty strings and lists are nil slices inside, so that reflect.DeepEqual compares two replies, and their marks.
type Reply struct {
	kind    Kind
	atLeast bool    // KindInt: see AtLeast
	bools   bool    // KindArray: of booleans, which data has instead of elems, 1 or 0 for each
	full    bool    // see Full
	num     int64   // KindInt: the value; KindBool: 0 or 1; KindDouble: its IEEE 754 bits
	data    []byte  // KindStatus, KindError, KindBulk, KindVerbatim
	elems   []Reply // KindArray, KindSet; KindMap: key, value, key, ...; KindEither: RESP2, RESP3
}

// Nil says that there is no value: a missing key, or a part of a result that does not apply.
var Nil = Reply{}

// OK is the status OK.
var OK = Status("OK")

// Status returns a short text, such as OK or PONG. Line breaks in s become spaces, because on the wire they would end
// the reply.
func Status(s string) Reply {
	return Reply{kind: KindStatus, data: oneLine(s)}
}

// Error returns an error. The text is what follows the '-' on the wire. It usually begins with a code in capitals
// ("ERR not found", "WRONGTYPE Operation ..."); the errors of some commands have none ("Filter is full"). Line breaks
// become spaces, as in Status.
func Error(text string) Reply {
	return Reply{kind: KindError, data: oneLine(text)}
}

// Errorf is Error with a text formatted as by fmt.Sprintf.
func Errorf(format string, args ...any) Reply {
	return Error(fmt.Sprintf(format, args...))
}

// Int returns an integer.
func Int(n int64) Reply {
	return Reply{kind: KindInt, num: n}
}

// AtLeast returns an integer that means "n or more", for a count that stops at n. Only AppendText shows the
// difference; on the wire and in the forms for programs it is the integer.
func AtLeast(n int64) Reply {
	return Reply{kind: KindInt, num: n, atLeast: true}
}

// Bool returns a boolean.
func Bool(b bool) Reply {
	if b {
		return Reply{kind: KindBool, num: 1}
	}
	return Reply{kind: KindBool}
}

// Double returns a floating point number; infinities and NaN are allowed.
func Double(f float64) Reply {
	return Reply{kind: KindDouble, num: int64(math.Float64bits(f))}
}

// Bulk returns a string of any bytes. It keeps b, which the caller must not change any more. Bulk(nil) is the empty
// string; the reply for a missing value is Nil.
func Bulk(b []byte) Reply {
	return Reply{kind: KindBulk, data: nilIfEmpty(b)}
}

// BulkString returns a bulk string with the bytes of s.
func BulkString(s string) Reply {
	return Bulk([]byte(s))
}

// Verbatim returns a text of one or more lines that is shown without quotes.
func Verbatim(text string) Reply {
	return Reply{kind: KindVerbatim, data: nilIfEmpty([]byte(text))}
}

// Array returns a list. Elements may be of any kind, including errors: a command with many items answers each one. It
// keeps elems, which the caller must not change any more.
func Array(elems ...Reply) Reply {
	return Reply{kind: KindArray, elems: nilIfEmpty(elems)}
}

// Bools returns an array of booleans. It takes a byte for each: the answer to a command with many items is made and sent
// without a Reply for each.
func Bools(values []bool) Reply {
	if len(values) == 0 {
		return Array()
	}
	data := make([]byte, len(values))
	for i, yes := range values {
		if yes {
			data[i] = 1
		}
	}
	return Reply{kind: KindArray, bools: true, data: data}
}

// AsBools returns the elements of an array that Bools has made, 1 or 0 for each; ok is false for any other reply. The
// caller must not change them.
func (r Reply) AsBools() (values []byte, ok bool) {
	if !r.bools {
		return nil, false
	}
	return r.data, true
}

// Set returns a collection without order. It keeps elems, which the caller must not change any more, and which must
// differ from each other.
func Set(elems ...Reply) Reply {
	return Reply{kind: KindSet, elems: nilIfEmpty(elems)}
}

// Pair is an entry of a map.
type Pair struct {
	Key, Value Reply
}

// Field returns a map entry whose key is the bulk string name.
func Field(name string, value Reply) Pair {
	return Pair{Key: BulkString(name), Value: value}
}

// Label returns a map entry whose key is the status name, as RedisBloom's INFO commands name their fields.
func Label(name string, value Reply) Pair {
	return Pair{Key: Status(name), Value: value}
}

// IntField returns a map entry whose value is an integer.
func IntField[N ~int | ~int64 | ~uint32 | ~uint64](name string, n N) Pair {
	return Field(name, Int(int64(n)))
}

// DoubleField returns a map entry whose value is a floating point number.
func DoubleField(name string, f float64) Pair { return Field(name, Double(f)) }

// Map returns a map that keeps the order of its pairs. The keys must differ.
func Map(pairs ...Pair) Reply {
	if len(pairs) == 0 {
		return Reply{kind: KindMap}
	}
	elems := make([]Reply, 0, 2*len(pairs))
	for _, p := range pairs {
		elems = append(elems, p.Key, p.Value)
	}
	return Reply{kind: KindMap, elems: elems}
}

// Either returns a reply with a form for each protocol, for answers that differ in more than their kind.
func Either(resp2, resp3 Reply) Reply {
	return Reply{kind: KindEither, elems: []Reply{resp2, resp3}}
}

// RESP2 returns the reply in the form for a RESP2 client: nil, status, error, integer, bulk string or array. It does
// not convert the elements of an array: call RESP2 on each.
func (r Reply) RESP2() Reply {
	r = r.form(0)
	switch r.kind {
	case KindBool:
		return Int(r.num)
	case KindDouble:
		return Bulk(appendDouble(nil, r.Double()))
	case KindMap, KindSet:
		return Array(r.elems...)
	case KindVerbatim:
		return Bulk(r.data)
	default:
		return r
	}
}

// RESP3 returns the reply in the form for a RESP3 client: any kind except KindEither. It does not convert the
// elements of arrays, sets and maps: call RESP3 on each.
func (r Reply) RESP3() Reply {
	return r.form(1)
}

// form returns form i of an Either, also of nested ones: 0 for RESP2, 1 for RESP3.
func (r Reply) form(i int) Reply {
	for r.kind == KindEither {
		r = r.elems[i]
	}
	return r
}

// Kind returns the kind of the reply.
func (r Reply) Kind() Kind { return r.kind }

// Int returns the value of an integer, 1 or 0 for a boolean, and 0 for other kinds.
func (r Reply) Int() int64 {
	if r.kind == KindInt || r.kind == KindBool {
		return r.num
	}
	return 0
}

// Double returns the value of a double, and 0 for other kinds.
func (r Reply) Double() float64 {
	if r.kind == KindDouble {
		return math.Float64frombits(uint64(r.num))
	}
	return 0
}

// Bytes returns the text of a status or an error, or the bytes of a bulk or verbatim string. It returns nil if there
// are none, and for other kinds. The caller must not change the bytes.
func (r Reply) Bytes() []byte {
	if r.bools {
		return nil
	}
	return r.data
}

// Elems returns the elements of an array or a set, the alternating keys and values of a map, the RESP2 and the RESP3
// form of an Either, and nil for other kinds. The caller must not change them.
func (r Reply) Elems() []Reply {
	if !r.bools {
		return r.elems
	}
	elems := make([]Reply, len(r.data))
	for i, value := range r.data {
		elems[i] = Bool(value != 0)
	}
	return elems
}

// Size returns roughly how much memory the reply takes.
func (r Reply) Size() int {
	const own = 64
	n := own + len(r.data)
	if r.bools {
		n = own + len(":1\r\n")*len(r.data) // as it is sent
	}
	for _, elem := range r.elems {
		n += elem.Size()
	}
	return n
}

// IsError reports whether the reply is an error. An array that contains an error is not one.
func (r Reply) IsError() bool { return r.kind == KindError }

// Full marks a reply that says that an item had no room in a filter. Commands say it in different words, and some by a
// number or a boolean among the answers for other items. Errors tells them all.
func Full(r Reply) Reply {
	r.full = true
	return r
}

// IsFull reports whether the reply was marked by Full.
func (r Reply) IsFull() bool { return r.full }

// errFull stands for a number or a boolean that Full has marked.
var errFull = Full(Error("Filter is full"))

// Errors returns the errors in a reply, in order: itself if it is one, and errors among its elements, at any depth. For
// a reply that is no error but was marked by Full, it returns an error that says the same.
func (r Reply) Errors() iter.Seq[Reply] {
	return func(yield func(Reply) bool) { r.eachError(yield) }
}

// eachError calls yield for each error, until that returns false, and reports whether it never did.
func (r Reply) eachError(yield func(Reply) bool) bool {
	switch {
	case r.kind == KindError:
		return yield(r)
	case r.full:
		return yield(errFull)
	}
	for _, elem := range r.form(0).elems {
		if !elem.eachError(yield) {
			return false
		}
	}
	return true
}

// TextError is an error reply as a Go error, with the text that was given to Error. Two of them are equal, also for
// errors.Is, if their texts are equal.
type TextError string

// Error returns the text.
func (e TextError) Error() string { return string(e) }

// Err returns an error reply as a TextError, and nil for other kinds.
func (r Reply) Err() error {
	if !r.IsError() {
		return nil
	}
	return TextError(r.data)
}

// String returns what AppendText appends, without the line break at the end.
func (r Reply) String() string {
	return strings.TrimSuffix(string(AppendText(nil, r)), "\n")
}

func oneLine(s string) []byte {
	b := []byte(s)
	for i, c := range b {
		if c == '\r' || c == '\n' {
			b[i] = ' '
		}
	}
	return nilIfEmpty(b)
}

func nilIfEmpty[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return s
}
