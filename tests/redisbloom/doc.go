// Package redisbloom is a model of RedisBloom's Bloom and cuckoo filters: what they hold, answer and dump, from the
// formulas alone. It shares no code with the filters that tests compare with it. It is slow, keeps everything in
// memory, and is not for concurrent use.
//
// A filter is dumped as chunks, as BF.SCANDUMP and CF.SCANDUMP answer them: a header, then the arrays. Each chunk has
// the number that SCANDUMP returned with it, and that LOADCHUNK expects with it.
package redisbloom

// Chunk is one answer of SCANDUMP: Iter is 1 for the header, then 1 plus the bytes of arrays so far.
type Chunk struct {
	Iter int64
	Data []byte
}

// MaxChunk is the length of the longest chunk of an array.
const MaxChunk = 16 << 20

// maxBytes is the largest array that the model makes.
const maxBytes = 1 << 30

// Error is an error with the text that RedisBloom sends.
type Error string

func (e Error) Error() string { return string(e) }

// Errors of both types of filter.
const (
	ErrMemory   = Error("ERR Insufficient memory to create filter")
	ErrNotFound = Error("ERR not found") // of a load without a header
)

// load loads all chunks: header makes the filter, and part loads one chunk of its arrays.
func load[F any](chunks []Chunk, header func([]byte) (F, error), part func(F, Chunk) error) (f F, err error) {
	if len(chunks) == 0 || chunks[0].Iter != 1 {
		return f, ErrNotFound
	}
	if f, err = header(chunks[0].Data); err != nil {
		return f, err
	}
	for _, c := range chunks[1:] {
		if err := part(f, c); err != nil {
			return f, err
		}
	}
	return f, nil
}

// locate returns the array that has the byte at offset of the arrays laid end to end, and where in that array it is.
func locate(arrays [][]byte, offset int64) (array []byte, at int64, ok bool) {
	if offset < 0 {
		return nil, 0, false
	}
	for _, a := range arrays {
		if offset < int64(len(a)) {
			return a, offset, true
		}
		offset -= int64(len(a))
	}
	return nil, 0, false
}
