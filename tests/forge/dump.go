package forge

import (
	"encoding/binary"
	"hash/crc32"
	"strconv"
	"testing"

	"github.com/sievekv/sievekv/internal/format"
)

// Chunk is a chunk of a dump, and the number that LOADCHUNK takes with it.
type Chunk struct {
	Iter int64
	Data []byte
}

// Dump returns the chunks of SCANDUMP of the key "f".
func (s *Store) Dump(family string) (chunks []Chunk) {
	s.t.Helper()
	for iter := int64(0); ; {
		r := s.Do(family+".SCANDUMP", "f", strconv.FormatInt(iter, 10)).Elems()
		if len(r) != 2 || r[0].Int() == 0 {
			return chunks
		}
		iter = r[0].Int()
		chunks = append(chunks, Chunk{iter, r[1].Bytes()})
	}
}

// Load loads chunks under the key "f".
func (s *Store) Load(family string, chunks []Chunk) {
	s.t.Helper()
	for _, c := range chunks {
		s.Do(family+".LOADCHUNK", "f", strconv.FormatInt(c.Iter, 10), string(c.Data))
	}
}

// Dump changes the header of a dump. For a filter with the native layout all checksums are right then. Moves says that its
// entries move, see dump.NewDump.
func (f *Forger) Dump(t testing.TB, chunks []Chunk, native, moves bool) []Chunk {
	t.Helper()
	forged := append([]Chunk{}, chunks...)
	if !native {
		header := append([]byte{}, chunks[0].Data...)
		for range 1 + f.r.IntN(3) {
			header = f.Bytes(header)
		}
		forged[0].Data = header
		return forged
	}
	const fixed = 8 + 1 + 8 // magic, version, id
	old := chunks[0].Data
	n, size := binary.Uvarint(old[fixed:])
	counted := fixed + size + int(n)
	h, err := format.DecodeHeader(old[fixed+size : counted])
	if err != nil {
		t.Fatal(err)
	}
	h, counters := f.Header(h, decodeCounters(t, old[counted:len(old)-4], len(h.Layers)))
	stored := format.AppendHeader(nil, h)
	b := append(binary.AppendUvarint(append([]byte{}, old[:fixed]...), uint64(len(stored))), stored...)
	marked := len(b)
	for _, c := range counters {
		stored := format.AppendCounters(nil, c)
		b = append(append(b, byte(len(stored))), stored...)
	}
	if moves {
		marked = len(b)
	}
	mark := crc32.Checksum(b[:marked], castagnoli)
	forged[0].Data = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	for i, c := range forged[1:] {
		data := c.Data[: len(c.Data)-4 : len(c.Data)-4]
		place := binary.LittleEndian.AppendUint32(nil, mark)
		place = binary.LittleEndian.AppendUint64(place, uint64(c.Iter-1)-uint64(len(data)))
		sum := crc32.Update(crc32.Checksum(place, castagnoli), castagnoli, data)
		forged[1+i].Data = binary.LittleEndian.AppendUint32(data, sum)
	}
	return forged
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func decodeCounters(t testing.TB, b []byte, layers int) (all Counters) {
	t.Helper()
	for range layers {
		c, err := format.DecodeCounters(b[1:][:b[0]])
		if err != nil {
			t.Fatal(err)
		}
		all, b = append(all, c), b[1+b[0]:]
	}
	return all
}
