package migrate

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/sievekv/sievekv/internal/dump"
	"github.com/sievekv/sievekv/internal/migrate/rdb"
	"github.com/sievekv/sievekv/module/reply"
)

// scanCount is how many keys one SCAN asks for.
const scanCount = 256

// most is how many bytes of strings are in memory at a time, if no string is longer.
const most = 32 << 20

// Knock returns an error if a server does not let this user look for keys.
func Knock(ctx context.Context, from Doer) error {
	_, err := do(ctx, from, command("SCAN", []byte("0"), []byte("COUNT"), number(1)))
	return err
}

// Copy copies from one server, or store, to another.
func Copy(ctx context.Context, from, to Doer, o Options) (Report, error) {
	r := newRun(to, o)
	for cursor := "0"; ; {
		words := command("SCAN", []byte(cursor), []byte("COUNT"), number(scanCount))
		if o.Match != "" {
			words = append(words, []byte("MATCH"), []byte(o.Match))
		}
		got, err := do(ctx, from, words)
		if err != nil {
			return r.report, err
		}
		elems := got.Elems()
		if len(elems) != 2 {
			return r.report, refuse("the reply to SCAN is not a cursor and keys")
		}
		var keys [][]byte
		for _, key := range elems[1].Elems() {
			if isCopy(key.Bytes()) {
				r.report.Copies++
				continue
			}
			keys = append(keys, key.Bytes())
		}
		if err := r.copyKeys(ctx, from, keys); err != nil {
			return r.report, err
		}
		r.show()
		if cursor = string(elems[0].Bytes()); cursor == "0" {
			return r.report, nil
		}
	}
}

// about are the replies to a command about each of several keys.
func about(ctx context.Context, from Doer, name string, keys [][]byte) ([]reply.Reply, error) {
	var commands [][][]byte
	for _, key := range keys {
		commands = append(commands, command(name, key))
	}
	replies, err := doAll(ctx, from, commands)
	for i, r := range replies {
		if err != nil {
			break
		}
		if isWrongType(r) { // a string was replaced meanwhile
			continue
		}
		if err = replyError(commands[i], r); err != nil {
			err = fmt.Errorf("%s: %w", shown(keys[i]), err)
		}
	}
	return replies, err
}

// copyKeys copies the values of some keys.
func (r *run) copyKeys(ctx context.Context, from Doer, keys [][]byte) error {
	r.report.seenKeys += len(keys)
	types, err := about(ctx, from, "TYPE", keys)
	if err != nil {
		return err
	}
	lives, err := about(ctx, from, "PTTL", keys)
	if err != nil {
		return err
	}
	now := r.Now()
	var texts []item
	for n, key := range keys {
		i := item{key: key, expires: expiry(now, lives[n])}
		name := string(types[n].Bytes())
		switch {
		case name == "none" || lives[n].Int() == -2: // gone
			continue
		case name != "string" && words(name) == "":
			r.report.leaveOut(name)
			continue
		case r.DryRun:
			if err := r.list(name, key, ""); err != nil {
				return err
			}
			continue
		case name == "string":
			texts = append(texts, i)
			continue
		}
		i.filter = &serverFilter{from: from, key: key, name: words(name)}
		if err := r.putFilter(ctx, i); err != nil {
			return err
		}
		r.show()
	}
	return r.copyStrings(ctx, from, texts)
}

// expiry converts a PTTL reply received at `now` to a time; zero means never. A time.Duration ends after 292 years,
// which a time to live need not.
func expiry(now time.Time, life reply.Reply) (at time.Time) {
	if n := life.Int(); n >= 0 {
		seconds := min(n/1000, latest/1000-now.Unix())
		at = time.Unix(now.Unix()+seconds, int64(now.Nanosecond())).Add(time.Duration(n%1000) * time.Millisecond)
	}
	return at
}

// sameTime reports whether two keys expire at about the same time, or never.
func sameTime(a, b time.Time) bool {
	return a.IsZero() == b.IsZero() && a.Sub(b).Abs() <= sameExpiry
}

// askAgain makes a filter expire when it does at the source now: copying it may have taken long. There is false if the
// source has it no more.
func (r *run) askAgain(ctx context.Context, i *item) (there bool, err error) {
	f, ok := i.filter.(*serverFilter)
	if !ok {
		return true, nil
	}
	life, err := do(ctx, f.from, command("PTTL", f.key))
	if err != nil {
		return false, err
	}
	i.expires = expiry(r.Now(), life)
	return life.Int() != -2, nil
}

func keysOf(items []item) (keys [][]byte) {
	for _, i := range items {
		keys = append(keys, i.key)
	}
	return keys
}

// copyStrings copies strings, as many at a time as most allows.
func (r *run) copyStrings(ctx context.Context, from Doer, items []item) error {
	lengths, err := about(ctx, from, "STRLEN", keysOf(items))
	if err != nil {
		return err
	}
	for begin := 0; begin < len(items); {
		end, total := begin, int64(0)
		for end < len(items) && (end == begin || total+lengths[end].Int() <= most) {
			total += lengths[end].Int()
			end++
		}
		if err := r.copyPart(ctx, from, items[begin:end]); err != nil {
			return err
		}
		begin = end
	}
	return nil
}

// copyPart copies some strings. It asks once more when they expire: the time that a key had before its value was read
// may belong to another value.
func (r *run) copyPart(ctx context.Context, from Doer, items []item) error {
	for range attempts {
		keys := keysOf(items)
		values, err := about(ctx, from, "GET", keys)
		if err != nil {
			return err
		}
		lives, err := about(ctx, from, "PTTL", keys)
		if err != nil {
			return err
		}
		now := r.Now()
		var part, again []item
		for n, i := range items {
			before := i.expires
			i.value, i.expires = values[n].Bytes(), expiry(now, lives[n])
			switch {
			case values[n].IsError() || isNone(values[n]) || lives[n].Int() == -2: // it was replaced, or removed
			case sameTime(before, i.expires):
				part = append(part, i)
			default:
				again = append(again, i)
			}
		}
		if err := r.putStrings(ctx, part); err != nil {
			return err
		}
		if items = again; len(items) == 0 {
			return nil
		}
	}
	for _, i := range items {
		if err := r.failing(ctx, i, errChanges); err != nil {
			return err
		}
	}
	return nil
}

// serverFilter is a filter on a server, or in a store.
type serverFilter struct {
	from   Doer
	key    []byte
	name   string // BF or CF
	header []byte // that chunks gave
	read   []byte // digest of what chunks gave
	dump   []byte // what DUMP has returned, if SCANDUMP is not allowed
}

func (f *serverFilter) words() string { return f.name }

// scan answers SCANDUMP.
func (f *serverFilter) scan(ctx context.Context, iter int64) (c rdb.Chunk, err error) {
	got, err := do(ctx, f.from, command(f.name+".SCANDUMP", f.key, number(iter)))
	if err != nil {
		return c, err
	}
	elems := got.Elems()
	if len(elems) != 2 {
		return c, &itemError{f.name + ".SCANDUMP: the reply is not a number and bytes"}
	}
	return rdb.Chunk{Iter: elems[0].Int(), Data: elems[1].Bytes()}, nil
}

func (f *serverFilter) chunks(ctx context.Context, give func(rdb.Chunk) error) error {
	c, err := f.scan(ctx, 0)
	switch {
	case isRefusal(err):
		return f.dumped(ctx, err, give)
	case err != nil:
		return err
	case c.Iter == 0:
		return f.empty(ctx, give)
	}
	f.header, f.read = bytes.Clone(c.Data), nil
	read := newDigest()
	for c.Iter != 0 {
		read.add(c)
		if err := give(c); err != nil {
			return err
		}
		next, err := f.scan(ctx, c.Iter)
		if err != nil {
			return err
		}
		if next.Iter != 0 && next.Iter <= c.Iter {
			return &itemError{f.name + ".SCANDUMP goes in circles"}
		}
		c = next
	}
	f.read = read.sum()
	return nil
}

// dumped gives the chunks of what DUMP returns. Refused is why SCANDUMP is not used.
func (f *serverFilter) dumped(ctx context.Context, refused error, give func(rdb.Chunk) error) error {
	got, err := do(ctx, f.from, command("DUMP", f.key))
	if err != nil {
		if isRefusal(err) {
			return refused
		}
		return err
	}
	f.dump = got.Bytes()
	r, key, err := rdb.OpenDump(f.dump)
	if err == nil && !key.IsFilter() {
		err = errors.New("it is of another version")
	}
	var parsed *rdb.Filter
	if err == nil {
		parsed, err = r.Filter()
	}
	if err != nil {
		return &itemError{"DUMP: " + err.Error()}
	}
	return (&fileFilter{parsed, bytes.NewReader(f.dump)}).chunks(ctx, give)
}

// empty gives the chunks of a cuckoo filter without items, for which CF.SCANDUMP has none.
func (f *serverFilter) empty(ctx context.Context, give func(rdb.Chunk) error) error {
	got, err := do(ctx, f.from, command(f.name+".INFO", f.key))
	if err != nil {
		return err
	}
	info := map[string]uint64{}
	elems := got.Elems()
	for n := 0; n+1 < len(elems); n += 2 {
		info[string(elems[n].Bytes())] = uint64(elems[n+1].Int())
	}
	buckets, filters := info["Number of buckets"], info["Number of filters"]
	size, expansion := info["Bucket size"], info["Expansion rate"]
	if buckets == 0 || size == 0 || filters == 0 { // a Bloom filter has none
		return &itemError{f.name + ".SCANDUMP has nothing"}
	}
	le := binary.LittleEndian
	var h []byte
	for _, n := range []uint64{info["Number of items inserted"], buckets, info["Number of items deleted"], filters} {
		h = le.AppendUint64(h, n)
	}
	for _, n := range []uint64{size, info["Max iterations"], expansion} {
		h = le.AppendUint16(h, uint16(n))
	}
	f.header = nil
	if err := give(rdb.Chunk{Iter: 1, Data: h}); err != nil {
		return err
	}
	iter := int64(1)
	for range filters {
		for left := buckets * size; left > 0; {
			zeros := make([]byte, min(left, chunkSize))
			iter += int64(len(zeros))
			if err := give(rdb.Chunk{Iter: iter, Data: zeros}); err != nil {
				return err
			}
			left -= uint64(len(zeros))
		}
		buckets *= expansion
	}
	return nil
}

// changed reports whether the filter has changed since chunks. The header tells which filter it is, and counts what was
// added and deleted, or moved, if the layout is native. It does not if the layout is RedisBloom's: a compaction moves
// entries from a chunk to another, and a filter made again may count the same. So all chunks are read once more. A DUMP
// is as of one moment.
func (f *serverFilter) changed(ctx context.Context) (bool, error) {
	if f.dump != nil {
		return false, nil
	}
	c, err := f.scan(ctx, 0)
	if err != nil || !bytes.Equal(c.Data, f.header) || dump.IsNativeDump(c.Data) {
		return !bytes.Equal(c.Data, f.header), err
	}
	again := &serverFilter{from: f.from, key: f.key, name: f.name}
	err = again.chunks(ctx, func(rdb.Chunk) error { return nil })
	return !bytes.Equal(again.read, f.read), err
}
