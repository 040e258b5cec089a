package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// client writes to keys of its own, which nobody else changes, so that it knows what is there, except the write that
// the kill met, which is there whole or not at all.
type client struct {
	id           string
	random       *rand.Rand
	acknowledged int

	next    int            // number of the next item or key
	added   []string       // items of the Bloom filter
	entries map[string]int // of the cuckoo filter: how many copies
	values  map[string]string
	counter int64
	pairs   []string // of transactions: a string and an item of the Bloom filter
	bits    []byte   // of the bitmap

	doubt doubt
}

// doubt is the write that was under way when the server was killed.
type doubt struct {
	counter    bool
	key, value string // of SET
	pair       string // of a transaction
	entry      string // of the cuckoo filter
	bits       []byte // of the bitmap, as they are if the write was made
}

// bitmapBits is how many bits a bitmap has at most: enough that it is kept in blocks.
const bitmapBits = 200_000

// silent drops what go-redis logs: that a server that was killed cannot be reached.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func newClient(id int, random *rand.Rand) *client {
	return &client{id: strconv.Itoa(id), random: random, entries: make(map[string]int), values: make(map[string]string)}
}

func (c *client) name(kind string) string { return kind + ":" + c.id }

func (c *client) fresh() string {
	c.next++
	return c.id + ":" + strconv.Itoa(c.next)
}

// connect makes a client that tries nothing twice: a write that was not answered would be made twice then.
func connect(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
}

// write writes until the server has gone.
func (c *client) write(ctx context.Context, addr string) error {
	r := connect(addr)
	defer func() { _ = r.Close() }() // the server has gone
	for {
		err := c.step(ctx, r)
		var reply redis.Error
		switch {
		case err == nil:
			c.acknowledged++
			c.doubt = doubt{}
		case errors.As(err, &reply):
			return fmt.Errorf("the server answers %w", err)
		default:
			return nil
		}
	}
}

// step makes one write. What it is told of is noted once that is acknowledged.
func (c *client) step(ctx context.Context, r *redis.Client) error {
	switch c.random.IntN(8) {
	case 0:
		item := c.fresh()
		if err := r.BFAdd(ctx, c.name("bf"), item).Err(); err != nil {
			return err
		}
		c.added = append(c.added, item)
	case 1:
		items := []any{c.fresh(), c.fresh(), c.fresh()}
		if err := r.BFMAdd(ctx, c.name("bf"), items...).Err(); err != nil {
			return err
		}
		for _, item := range items {
			c.added = append(c.added, item.(string))
		}
	case 2:
		item := c.id + ":" + strconv.Itoa(c.random.IntN(200))
		c.doubt.entry = item
		if err := r.CFAdd(ctx, c.name("cf"), item).Err(); err != nil {
			return err
		}
		c.entries[item]++
	case 3:
		for item, n := range c.entries {
			if n == 0 {
				continue
			}
			// In doubt there is one copy fewer.
			c.entries[item]--
			return r.CFDel(ctx, c.name("cf"), item).Err()
		}
	case 4:
		key, value := c.name("s"+strconv.Itoa(c.random.IntN(20))), c.fresh()
		c.doubt.key, c.doubt.value = key, value
		if err := r.Set(ctx, key, value, 0).Err(); err != nil {
			return err
		}
		c.values[key] = value
	case 5:
		c.doubt.counter = true
		if err := r.Incr(ctx, c.name("n")).Err(); err != nil {
			return err
		}
		c.counter++
	case 6:
		n := c.random.IntN(bitmapBits)
		changed := append(slices.Clone(c.bits), make([]byte, max(0, n/8+1-len(c.bits)))...)
		changed[n/8] ^= 0x80 >> (n % 8)
		c.doubt.bits = changed
		if err := r.SetBit(ctx, c.name("bits"), int64(n), int(changed[n/8]>>(7-n%8)&1)).Err(); err != nil {
			return err
		}
		c.bits = changed
	default:
		pair := c.fresh()
		c.doubt.pair = pair
		_, err := r.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, "tx:"+pair, "v", 0)
			p.CFAdd(ctx, c.name("txcf"), pair)
			return nil
		})
		if err != nil {
			return err
		}
		c.pairs = append(c.pairs, pair)
	}
	return nil
}

// verify compares what is there with what was acknowledged, and takes on what the kill left.
func (c *client) verify(ctx context.Context, addr string) (findings []string, err error) {
	r := connect(addr)
	defer func() { _ = r.Close() }() // it was only read from
	report := func(format string, args ...any) { findings = append(findings, fmt.Sprintf(format, args...)) }
	if err := c.verifyItems(ctx, r, report); err != nil {
		return nil, err
	}
	n, err := r.Get(ctx, c.name("n")).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	if n != c.counter && !(c.doubt.counter && n == c.counter+1) {
		report("%s is %d, want %d", c.name("n"), n, c.counter)
	}
	c.counter = n
	bits, err := r.Get(ctx, c.name("bits")).Bytes()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	if !bytes.Equal(bits, c.bits) && (c.doubt.bits == nil || !bytes.Equal(bits, c.doubt.bits)) {
		report("%s is not the bitmap that was acknowledged", c.name("bits"))
	}
	c.bits = bits
	for key, want := range c.values {
		got, err := r.Get(ctx, key).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		if got != want && !(key == c.doubt.key && got == c.doubt.value) {
			report("%s is %q, want %q", key, got, want)
		}
		c.values[key] = got
	}
	if err := c.verifyPairs(ctx, r, report); err != nil {
		return nil, err
	}
	c.doubt = doubt{}
	return findings, nil
}

func (c *client) verifyItems(ctx context.Context, r *redis.Client, report func(string, ...any)) error {
	for at := 0; at < len(c.added); at += 500 {
		batch := c.added[at:min(at+500, len(c.added))]
		items := make([]any, len(batch))
		for i, item := range batch {
			items[i] = item
		}
		present, err := r.BFMExists(ctx, c.name("bf"), items...).Result()
		if err != nil {
			return err
		}
		for i, p := range present {
			if !p {
				report("%s has lost %s", c.name("bf"), batch[i])
			}
		}
	}
	for item, want := range c.entries {
		// Other items' fingerprints count too: there may be more, never fewer.
		got, err := r.CFCount(ctx, c.name("cf"), item).Result()
		if err != nil {
			return err
		}
		if got < int64(want) {
			report("%s has %d copies of %s, want %d", c.name("cf"), got, item, want)
		}
	}
	return nil
}

// verifyPairs checks that transactions are there whole, that in doubt too, if at all.
func (c *client) verifyPairs(ctx context.Context, r *redis.Client, report func(string, ...any)) error {
	pairs := c.pairs
	if c.doubt.pair != "" {
		pairs = append(pairs[:len(pairs):len(pairs)], c.doubt.pair)
	}
	for _, pair := range pairs {
		n, err := r.Exists(ctx, "tx:"+pair).Result()
		if err != nil {
			return err
		}
		present, err := r.CFExists(ctx, c.name("txcf"), pair).Result()
		if err != nil {
			return err
		}
		acknowledged := pair != c.doubt.pair
		switch {
		case acknowledged && (n == 0 || !present):
			report("of the transaction of %s there are %d strings, and the item: %v", pair, n, present)
		case n == 1 && !present:
			report("of the transaction of %s, not acknowledged, there is a half", pair)
		case n == 1 && !acknowledged:
			c.pairs = append(c.pairs, pair)
		}
	}
	return nil
}
