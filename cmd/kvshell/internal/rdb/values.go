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
)

// typeNames are the words that TYPE answers.
var typeNames = map[byte]string{
	typeString: "string",
	typeList:   "list", typeListZiplist: "list", typeQuicklist: "list", typeQuicklist2: "list",
	typeSet: "set", typeSetIntset: "set", typeSetListpack: "set",
	typeSortedSet: "zset", typeSortedSet2: "zset", typeZsetZiplist: "zset", typeZsetListpack: "zset",
	typeHash: "hash", typeHashZipmap: "hash", typeHashZiplist: "hash", typeHashListpack: "hash",
	typeHashFieldsOld: "hash", typeHashPackedOld: "hash", typeHashFields: "hash", typeHashPacked: "hash",
	typeStream: "stream", typeStream2: "stream", typeStream3: "stream",
}

func typeName(kind byte) (string, error) {
	if name, ok := typeNames[kind]; ok {
		return name, nil
	}
	return "", fmt.Errorf("%w: a value has the type %d, which is not known", ErrUnsupported, kind)
}

// pass passes over what is left of the value, if nothing of it was read.
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
	case typeStream, typeStream2, typeStream3:
		return r.stream(kind)
	case typeHashFields:
		return first(r.skip(8), r.fieldsThatExpire)
	case typeHashFieldsOld:
		return r.fieldsThatExpire()
	case typeHashPacked:
		return first(r.skip(8), r.skipString)
	}
	return r.skipString()
}

// first returns err, or if it is nil that of then.
func first(err error, then func() error) error {
	if err != nil {
		return err
	}
	return then()
}

// repeated reads a length, and so many elements. Each has a byte at least, so that a wrong length ends with the file.
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

// stream passes over a stream: nodes, numbers, and groups with their pending entries and consumers.
func (r *Reader) stream(kind byte) error {
	numbers, ofGroup, timesOfConsumer := uint64(3), uint64(2), uint64(8)
	if kind >= typeStream2 {
		numbers, ofGroup = 8, 3
	}
	if kind >= typeStream3 {
		timesOfConsumer = 16
	}
	pending := func() error { return first(r.skip(16+8), func() error { return r.lengths(1) }) }
	consumer := func() error {
		err := first(r.strings(1), func() error { return r.skip(timesOfConsumer) })
		return first(err, func() error { return r.repeated(func() error { return r.skip(16) }) })
	}
	group := func() error {
		err := first(r.strings(1), func() error { return r.lengths(ofGroup) })
		err = first(err, func() error { return r.repeated(pending) })
		return first(err, func() error { return r.repeated(consumer) })
	}
	err := r.repeated(func() error { return r.strings(2) })
	err = first(err, func() error { return r.lengths(numbers) })
	return first(err, func() error { return r.repeated(group) })
}
