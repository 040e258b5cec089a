package remains

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/record"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/freeze"
)

// batchHead is the length of the head of a log's record: a sequence, 8 bytes, and the number of changes, 4.
const batchHead = 12

// logs reads the logs that the store needs, in order, up to the first damage. It returns the next sequence. The store
// lacks everything behind the damage.
func (e *examination) logs(v *version) (next uint64, err error) {
	var numbers []uint64
	for n := range e.found[".log"] {
		if n >= v.minLog {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	e.logless = len(numbers) == 0
	if v.flushed > 0 {
		next = v.flushed + 1
	}
	e.latest = max(v.loggedBy+1, FirstSequence)
	for i, n := range numbers {
		before := next
		name := e.found[".log"][n]
		good, end, err := e.log(name, n, &next, i == len(numbers)-1)
		if err != nil {
			return 0, err
		}
		if end == "" {
			e.fs.pass(name)
			continue
		}
		e.damage(name, end+": this commit and all later ones are left out")
		for _, later := range numbers[i+1:] {
			e.damage(e.found[".log"][later], "comes after a damaged log: its commits are left out")
		}
		e.tail = true
		if err := e.changedLater(numbers[i:], max(before, next)); err != nil {
			return 0, err
		}
		return next, e.fs.add(name, good)
	}
	return next, nil
}

// log reads a log. It returns what is wrong with it, "" for nothing, and what comes before the damage.
func (e *examination) log(name string, number uint64, next *uint64, last bool) (good []byte, end string, err error) {
	data, err := e.read(name)
	if err != nil {
		return nil, "", err
	}
	r := newReader(record.NewReader, data, number)
	for {
		at := r.Offset()
		rec, err := r.Next()
		var batch []byte
		if err == nil {
			batch, err = io.ReadAll(rec)
		}
		switch {
		case err == io.EOF:
			return nil, "", nil
		case errors.Is(err, record.ErrUnexpectedEOF) && last:
			return e.torn(name, data, number, at)
		case err != nil:
			return data[:at], fmt.Sprintf("is damaged at offset %d: %s", at, plain(err)), nil
		case len(batch) < batchHead:
			return data[:at], fmt.Sprintf("has no commit at offset %d", at), nil
		}
		seq, count := binary.LittleEndian.Uint64(batch), uint64(binary.LittleEndian.Uint32(batch[8:]))
		if *next != 0 && seq != *next || *next == 0 && !e.guessed && seq > e.latest {
			return data[:at], fmt.Sprintf("goes on at sequence %d, but commits before that are missing", seq), nil
		}
		*next = seq + count
	}
}

// changedLater finds out what the commits of logs have changed, from a sequence on, as far as they can be read.
func (e *examination) changedLater(logs []uint64, from uint64) error {
	for _, n := range logs {
		data, err := e.read(e.found[".log"][n])
		if err != nil {
			return err
		}
		freeze.EachRecord(data, n, func(batch []byte) {
			if len(batch) >= batchHead && binary.LittleEndian.Uint64(batch) >= from {
				e.later.add(batch)
			}
		})
	}
	return nil
}

// Changes are what commits have changed.
type Changes struct {
	Keys    map[string]bool // whose headers were written or removed
	Objects map[uint64]bool
}

// add adds what a commit has changed, up to what does not decode.
func (c *Changes) add(batch []byte) {
	if c.Keys == nil {
		c.Keys, c.Objects = make(map[string]bool), make(map[uint64]bool)
	}
	r := batchrepr.Read(batch)
	for {
		_, key, _, ok, err := r.Next()
		if !ok || err != nil {
			return
		}
		if _, user, err := format.DecodeHeaderKey(key); err == nil {
			c.Keys[string(user)] = true
		} else if k, err := format.DecodeObjectKey(key); err == nil {
			c.Objects[k.Object] = true
		}
	}
}

// torn tells the end that a crash leaves from damage.
func (e *examination) torn(name string, data []byte, number uint64, at int64) (good []byte, end string, err error) {
	f, err := e.base.Open(e.base.PathJoin(e.dir, name))
	if err != nil {
		return nil, "", err
	}
	damaged := freeze.CheckLog(f, number)
	if err := f.Close(); err != nil {
		return nil, "", err
	}
	if damaged == nil {
		return nil, "", nil
	}
	return data[:at], fmt.Sprintf("is damaged at offset %d", at), nil
}

// newReader calls record.NewReader, one of whose types cannot be named here.
func newReader[N ~uint64](open func(io.Reader, N) *record.Reader, data []byte, number uint64) *record.Reader {
	return open(bytes.NewReader(data), N(number))
}
