package kv

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/kv/reply"
)

// objectCommands are the commands that tell how a value is kept.
func objectCommands() []Command {
	onKey := func(name, summary string, f handler) Command {
		return Command{
			Name: name, Arity: 3, Flags: ReadOnly, FirstKey: 2, LastKey: 2, KeyStep: 1, KeyFlags: []string{"RO"},
			Syntax: "key", Summary: summary, Handler: f,
		}
	}
	return []Command{{
		Name: "OBJECT", Arity: -2, Group: "generic", Summary: "Answers how what is under a key is kept.", Complexity: "O(1)",
		Example: "SET visits 42\nOBJECT ENCODING visits",
		Subcommands: []Command{
			onKey("ENCODING", "Answers int, embstr or raw, as the string is one to Redis; raw for all else.", objectEncoding),
			onKey("FREQ", "Refused, as keys are not evicted by how often they are used.", untracked(
				"ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching "+
					"between policies at runtime LRU and LFU data will take some time to adjust.")),
			onKey("IDLETIME", "Refused, as keys are not evicted by when they were used.", untracked(
				"ERR No maxmemory policy is selected, idle time not tracked.")),
			onKey("REFCOUNT", "Answers 1: nothing is shared between keys.", objectRefCount),
		},
	}, {
		Name: "MEMORY", Arity: -2, Group: "server", Summary: "Answers how many bytes a key takes.",
		Complexity: "O(N) for N blocks looked at", Example: "SET user:1 ann\nMEMORY USAGE user:1",
		Subcommands: []Command{{
			Name: "USAGE", Arity: -3, Flags: ReadOnly, FirstKey: 2, LastKey: 2, KeyStep: 1, KeyFlags: []string{"RO"}, Syntax: "key [SAMPLES count]",
			Summary: "Answers how many bytes a key takes in the store, nil if it is missing; 100 blocks of each layer, " +
				"or count, or all with 0, are measured, and stand for the rest.",
			Handler: memoryUsage,
		}},
	}}
}

func objectEncoding(c *Call) reply.Reply {
	return lookup(c, func(o *Object, _ int64) reply.Reply {
		if o == nil {
			return reply.Nil
		}
		value, err := stringIn(c.Args[0], o.header)
		if isWrongType(err) {
			return reply.BulkString("raw")
		}
		if err != nil {
			return ErrorReply(err)
		}
		return reply.BulkString(encodingOf(value))
	})
}

// encodingOf is how Redis keeps a string that was set.
func encodingOf(value []byte) string {
	const maxEmbedded = 44
	if _, ok := ParseInt(value); ok {
		return "int"
	}
	if len(value) <= maxEmbedded {
		return "embstr"
	}
	return "raw"
}

// untracked refuses what is not kept of any key.
func untracked(text string) handler {
	return func(c *Call) reply.Reply {
		return lookup(c, func(o *Object, _ int64) reply.Reply {
			if o == nil {
				return reply.Nil
			}
			return reply.Error(text)
		})
	}
}

func objectRefCount(c *Call) reply.Reply {
	return lookup(c, func(o *Object, _ int64) reply.Reply {
		if o == nil {
			return reply.Nil
		}
		return reply.Int(1)
	})
}

// defaultSamples is how many blocks of a layer are measured if nobody says.
const defaultSamples = 100

func memoryUsage(c *Call) reply.Reply {
	samples := int64(defaultSamples)
	for args := c.Args[1:]; len(args) > 0; args = args[2:] {
		if Fold(args[0]) != "SAMPLES" || len(args) == 1 {
			return errSyntax
		}
		n, ok := ParseInt(args[1])
		switch {
		case !ok:
			return ErrorReply(ErrNotInteger)
		case n < 0:
			return errSyntax
		}
		samples = n
	}
	answer := reply.Nil
	err := c.readLong(func(r Reader) error {
		o, err := r.lookup(c.Args[0])
		if err != nil || o == nil {
			return err
		}
		n, err := r.storedBytes(c.Context, o, samples)
		answer = reply.Int(int64(n))
		return err
	})
	if err != nil {
		return ErrorReply(err)
	}
	return answer
}

// readLong is Read of what takes its time: it is of one moment, and keeps nobody waiting.
func (c *Call) readLong(look func(Reader) error) error {
	if c.Transaction != nil {
		return c.Transaction.read(c.Session.large, look)
	}
	v, err := c.DB.newView()
	if err != nil {
		return err
	}
	defer v.close()
	return look(Reader{db: c.DB, view: v, large: c.Session.large})
}

// storedBytes returns the bytes of keys and values that are stored of what is under a key. Of
// each layer so many blocks are measured, all if it is 0, and stand for the rest: items are
// spread evenly. Of changes that a transaction has staged it knows the header alone.
func (r Reader) storedBytes(ctx context.Context, o *Object, samples int64) (total uint64, err error) {
	h, key := o.header, []byte(o.key)
	total = uint64(headerKeyPrefix + len(key) + len(appendHeader(nil, h)))
	if h.expiry != 0 {
		total += uint64(len(appendExpiryKey(nil, h.expiry, key)) + len(expiryNoteValue(h)))
	}
	if o.inline() {
		return total, nil
	}
	if err := r.db.enter(); err != nil {
		return 0, err
	}
	defer r.db.exit()
	from := appendObjectKey(nil, h.id)
	to := appendOrdered(appendObjectKey(nil, h.id), partLayers)
	rest, _, err := r.measure(ctx, o, from, to, 0)
	total += rest
	for _, l := range h.layers {
		if err != nil {
			return 0, err
		}
		from, to = to, appendOrdered(appendObjectKey(nil, h.id), l.Number+partLayers+1)
		var n, blocks uint64
		n, blocks, err = r.measure(ctx, o, from, to, samples)
		if blocks != 0 {
			n = uint64(float64(n) / float64(blocks) * float64(l.Blocks))
		}
		total += n
	}
	return total, err
}

// measure returns the bytes of what is stored of an object in a range of keys. It stops
// after so many entries, and returns then how many blocks of the layer are behind it.
func (r Reader) measure(ctx context.Context, o *Object, from, to []byte, most int64) (n, blocks uint64, err error) {
	it, err := r.stored().NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err == nil {
		n, blocks, err = measureEntries(ctx, it, most)
		err = errors.Join(err, it.Close())
	}
	if err != nil {
		return 0, 0, r.db.readError(err, "key %q: stored bytes", o.key)
	}
	return n, blocks, nil
}

func measureEntries(ctx context.Context, it *pebble.Iterator, most int64) (n, blocks uint64, err error) {
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err = errors.Join(err, ctx.Err()); err != nil {
			return 0, 0, err
		}
		n += uint64(len(it.Key()) + len(value))
		if most--; most == 0 {
			k, err := decodeObjectKey(it.Key())
			return n, k.rest + 1, err
		}
	}
	return n, 0, nil
}

// stored is what the Reader reads.
func (r Reader) stored() pebble.Reader {
	if r.view != nil {
		return r.view.snap
	}
	return r.db.pebble()
}
