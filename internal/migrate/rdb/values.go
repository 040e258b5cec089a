package rdb

import "fmt"

// The types of values.
const (
	typeString        = 0
	typeList          = 1
	typeSet           = 2
	typeSortedSet     = 3
	typeHash          = 4
	typeSortedSet2    = 5
	typeModule        = 6
	typeModule2       = 7
	typeHashZipmap    = 9
	typeListZiplist   = 10
	typeSetIntset     = 11
	typeZsetZiplist   = 12
	typeHashZiplist   = 13
	typeQuicklist     = 14
	typeStream        = 15
	typeHashListpack  = 16
	typeZsetListpack  = 17
	typeQuicklist2    = 18
	typeStream2       = 19
	typeSetListpack   = 20
	typeStream3       = 21
	typeHashFieldsOld = 22
	typeHashPackedOld = 23
	typeHashFields    = 24 // hashes whose fields expire
	typeHashPacked    = 25
	typeStream4       = 26
	typeStream5       = 27
	typeArray         = 28
	typeHashTemplate  = 30 // hashes of a template, in one string
	typeHashTemplate2 = 32 // and each value by itself

	typeHashValkey = 22 // of Valkey: hashes whose fields expire
)

// typeNames are the words that TYPE answers.
var typeNames = map[byte]string{
	typeString: "string",
	typeList:   "list", typeListZiplist: "list", typeQuicklist: "list", typeQuicklist2: "list",
	typeSet: "set", typeSetIntset: "set", typeSetListpack: "set",
	typeSortedSet: "zset", typeSortedSet2: "zset", typeZsetZiplist: "zset", typeZsetListpack: "zset",
	typeHash: "hash", typeHashZipmap: "hash", typeHashZiplist: "hash", typeHashListpack: "hash",
	typeHashFieldsOld: "hash", typeHashPackedOld: "hash", typeHashFields: "hash", typeHashPacked: "hash",
	typeStream: "stream", typeStream2: "stream", typeStream3: "stream", typeStream4: "stream", typeStream5: "stream",
	typeArray: "array", typeHashTemplate: "hash", typeHashTemplate2: "hash",
}

func (r *Reader) typeName(kind byte) (string, error) {
	if name, ok := typeNames[kind]; ok && (!r.isValkey() || kind <= typeHashValkey) {
		return name, nil
	}
	return "", fmt.Errorf("%w: a value has the type %d, which is not known", ErrUnsupported, kind)
}

// pass skips the rest of the value, if nothing of it was read.
func (r *Reader) pass() error {
	if !r.unread {
		return nil
	}
	r.unread = false
	switch kind := r.key.kind; kind {
	case typeList, typeSet, typeQuicklist:
		return r.repeated(func() error { return r.strings(1) })
	case typeHash:
		return r.repeated(func() error { return r.strings(2) })
	case typeSortedSet:
		return r.repeated(func() error { return first(r.strings(1), r.score) })
	case typeSortedSet2:
		return r.repeated(func() error { return first(r.strings(1), func() error { return r.skip(8) }) })
	case typeQuicklist2:
		return r.repeated(func() error { return first(r.lengths(1), r.skipString) })
	case typeModule2:
		return r.fields()
	case typeStream, typeStream2, typeStream3, typeStream4, typeStream5:
		return r.stream(kind)
	case typeArray:
		return r.array()
	case typeHashTemplate2:
		return r.ofTemplate()
	case typeHashFields:
		return first(r.skip(8), r.fieldsThatExpire)
	case typeHashFieldsOld:
		if r.isValkey() {
			return r.repeated(func() error { return first(r.strings(2), func() error { return r.skip(8) }) })
		}
		return r.fieldsThatExpire()
	case typeHashPacked:
		return first(r.skip(8), r.skipString)
	}
	return r.skipString()
}

// first returns err if it is not nil, else then().
func first(err error, then func() error) error {
	if err != nil {
		return err
	}
	return then()
}

// repeated reads a length, and that number of elements. Each has a byte at least, so that a wrong length ends with the
// file.
func (r *Reader) repeated(element func() error) error {
	n, err := r.length()
	for i := uint64(0); i < n && err == nil; i++ {
		err = element()
	}
	return err
}

// score passes over a number as text: a byte with its length, from 253 on without a text.
func (r *Reader) score() error {
	n, err := r.byte()
	if err != nil || n >= 253 {
		return err
	}
	return r.skip(uint64(n))
}

// fieldsThatExpire passes over fields: each has a time, a name and a value.
func (r *Reader) fieldsThatExpire() error {
	return r.repeated(func() error { return first(r.lengths(1), func() error { return r.strings(2) }) })
}

// ofTemplate passes over a hash of a template: the number of the template, and a value for each of its fields.
func (r *Reader) ofTemplate() error {
	id, err := r.length()
	if err != nil {
		return err
	}
	fields, ok := r.templates[id]
	if !ok {
		return damaged("a hash has the template %d, which the file does not have", id)
	}
	return r.strings(fields)
}

// The elements of arrays.
const (
	elementString = 0
	elementInt    = 1
	elementFloat  = 2
	elementShort  = 3
)

// array passes over an array: the number of its elements, whether it has a place where the next one goes, and that place;
// and for each element its place and its value.
func (r *Reader) array() error {
	n, err := r.length()
	if err != nil {
		return err
	}
	if next, err := r.length(); err != nil {
		return err
	} else if next > 1 {
		return damaged("an array has the flag %d", next)
	} else if err := r.lengths(next); err != nil {
		return err
	}
	for i := uint64(0); i < n && err == nil; i++ {
		err = first(r.lengths(1), r.element)
	}
	return err
}

func (r *Reader) element() error {
	kind, err := r.length()
	if err != nil {
		return err
	}
	switch kind {
	case elementString, elementShort:
		return r.skipString()
	case elementInt, elementFloat:
		return r.skip(8)
	}
	return damaged("an array has an element of the unknown kind %d", kind)
}

// stream passes over a stream: nodes, numbers, and groups with their pending entries and consumers. From the fourth form on
// the messages follow that producers have numbered; in the fifth, groups have entries of no consumer.
func (r *Reader) stream(kind byte) error {
	s := streamForm{r: r, numbers: 3, ofGroup: 2, timesOfConsumer: 8}
	if kind >= typeStream2 {
		s.numbers, s.ofGroup = 8, 3
	}
	if kind >= typeStream3 {
		s.timesOfConsumer = 16
	}
	s.given = kind >= typeStream5
	err := r.repeated(func() error { return r.strings(2) })
	err = first(err, func() error { return r.lengths(s.numbers) })
	err = first(err, func() error { return r.repeated(s.group) })
	if kind >= typeStream4 {
		err = first(err, s.producers)
	}
	return err
}

// streamForm is what differs between the forms of streams.
type streamForm struct {
	r                                 *Reader
	numbers, ofGroup, timesOfConsumer uint64
	given                             bool // entries that a consumer has given back follow
}

func (s *streamForm) group() error {
	r := s.r
	id := func() error { return r.skip(16) }
	err := first(r.strings(1), func() error { return r.lengths(s.ofGroup) })
	err = first(err, func() error {
		return r.repeated(func() error { return first(r.skip(16+8), func() error { return r.lengths(1) }) })
	})
	err = first(err, func() error {
		return r.repeated(func() error {
			err := first(r.strings(1), func() error { return r.skip(s.timesOfConsumer) })
			return first(err, func() error { return r.repeated(id) })
		})
	})
	if s.given {
		err = first(err, func() error { return r.repeated(id) })
	}
	return err
}

// producers passes over two limits, the messages that each producer has numbered, and two counters.
func (s *streamForm) producers() error {
	r := s.r
	message := func() error { return first(r.strings(1), func() error { return r.lengths(2) }) }
	err := first(r.lengths(2), func() error {
		return r.repeated(func() error { return first(r.strings(1), func() error { return r.repeated(message) }) })
	})
	return first(err, func() error { return r.lengths(2) })
}
