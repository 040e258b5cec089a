// Package rediscache keeps the entries of a guard in Redis, for guard.Options.Cache.
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
