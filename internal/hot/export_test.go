package hot

// Stored tells a new cache that Pebble has n more keys whose hashes begin as this one does, in the bits that choose a
// shard.
func (c *Cache) Stored(hash, keys uint64) {
	if c != nil {
		c.shardOf(hash).total += int64(keys)
	}
}
