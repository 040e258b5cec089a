// Package rediscache keeps the entries of a guard in Redis, for guard.Options.Cache.
//
// # The contract of a cache
//
// It is an example of a [guard.Cache], and keeps what each must promise:
//
//   - Get returns what the last Set of the key has set, or nil. It never returns an older entry: not from a replica that
//     lags behind, nor from a copy in this process. A missing key is nil without an error; an error means that nothing is
//     known, and the guard then loads the value.
//   - Set with a nil entry has removed the key when it returns without an error. Put and Remove rest on it: if they cannot
//     remove the entry, they fail, and change nothing.
//   - A Set that has returned an error has no effect later. Here that depends on Redis: a command that a connection had sent
//     before it broke may run later. So an old value may come back, and be served until its TTL and MaxStale are over.
//   - Both return soon after their context ends, and may be called by any number of goroutines. With go-redis set
//     redis.Options.ContextTimeoutEnabled, or its timeouts alone bound a call.
//   - Nobody else writes the keys, and two guards do not share a Prefix and a name. Entries may go away at any time: Redis
//     may evict them, at their TTL and before.
package rediscache

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sievekv/sievekv/guard"
)

// Cache is a guard.Cache in Redis, or in a server with its protocol. A client's timeouts bound its calls.
type Cache struct {
	Client redis.Cmdable
	Prefix string // of all keys
}

var _ guard.Cache = Cache{}

// Get implements guard.Cache.
func (c Cache) Get(ctx context.Context, key string) ([]byte, error) {
	entry, err := c.Client.Get(ctx, c.Prefix+key).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return entry, err
}

// Set implements guard.Cache.
func (c Cache) Set(ctx context.Context, key string, entry []byte, ttl time.Duration) error {
	if entry == nil {
		return c.Client.Del(ctx, c.Prefix+key).Err()
	}
	return c.Client.Set(ctx, c.Prefix+key, entry, ttl).Err()
}
