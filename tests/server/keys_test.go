package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestStrings(t *testing.T) {
	inBoth(t, func(t *testing.T, c *redis.Client) {
		ctx := t.Context()
		missing := redis.Nil.Error()
		is(t, c.Set(ctx, "k", "v", 0), "OK")
		is(t, c.Get(ctx, "k"), "v")
		fails(t, c.Get(ctx, "missing"), missing)
		binary := string([]byte{0, 1, '\r', '\n', 0xff, '$', '*'})
		is(t, c.Set(ctx, binary, binary, 0), "OK")
		is(t, c.Get(ctx, binary), binary)
		is(t, c.Set(ctx, "empty", "", 0), "OK")
		is(t, c.Get(ctx, "empty"), "")
		large := strings.Repeat("large ", 1<<19)
		is(t, c.Set(ctx, "large", large, 0), "OK")
		is(t, c.Get(ctx, "large"), large)
		is(t, c.SetNX(ctx, "k", "w", 0), false)
		is(t, c.SetNX(ctx, "new", "w", time.Hour), true)
		is(t, c.SetXX(ctx, "k", "x", 0), true)
		is(t, c.SetXX(ctx, "missing", "x", 0), false)
		is[any](t, c.Do(ctx, "SETEX", "timed", 3600, "v"), "OK")
		is(t, c.SetArgs(ctx, "k", "y", redis.SetArgs{Get: true, TTL: time.Hour}), "x")
		fails(t, c.SetArgs(ctx, "missing", "y", redis.SetArgs{Mode: "XX"}), missing)
		is(t, c.Set(ctx, "k", "z", redis.KeepTTL), "OK")
		if ttl := result(t, c.TTL(ctx, "k")); ttl < 59*time.Minute || ttl > time.Hour {
			t.Errorf("TTL = %v, want an hour", ttl)
		}
		is[any](t, c.Do(ctx, "GETSET", "k", "v"), "z")
		fails(t, c.Do(ctx, "GETSET", "made", "v"), missing)
		is(t, c.GetEx(ctx, "k", time.Hour), "v")
		is(t, c.GetDel(ctx, "made"), "v")
		fails(t, c.GetDel(ctx, "made"), missing)
		is(t, c.Append(ctx, "log", "one"), 3)
		is(t, c.Append(ctx, "log", ",two"), 7)
		is(t, c.StrLen(ctx, "log"), 7)
		is(t, c.GetRange(ctx, "log", -3, -1), "two")
		is(t, c.SetRange(ctx, "log", 10, "x"), 11)
		is(t, c.Get(ctx, "log"), "one,two\x00\x00\x00x")
		is(t, c.Incr(ctx, "n"), 1)
		is(t, c.IncrBy(ctx, "n", 41), 42)
		is(t, c.Decr(ctx, "n"), 41)
		is(t, c.DecrBy(ctx, "n", 50), -9)
		is(t, c.IncrByFloat(ctx, "n", 0.5), -8.5)
		fails(t, c.Incr(ctx, "n"), "ERR value is not an integer or out of range")
		is(t, c.MSet(ctx, "a", "1", "b", 2, "c", 2.5), "OK")
		is(t, c.MGet(ctx, "a", "missing", "b", "c"), []any{"1", nil, "2", "2.5"})
		is(t, c.MSetNX(ctx, "a", "1", "d", "1"), false)
		is(t, c.MSetNX(ctx, "e", "1", "d", "1"), true)
		is(t, c.BFAdd(ctx, "f", "x"), true)
		fails(t, c.Get(ctx, "f"), wrongType)
		is(t, c.MGet(ctx, "f", "a"), []any{nil, "1"})
	})
}

func TestKeys(t *testing.T) {
	inBoth(t, func(t *testing.T, c *redis.Client) {
		ctx := t.Context()
		is(t, c.MSet(ctx, "a", 1, "b", 2, "c", 3), "OK")
		is(t, c.BFAdd(ctx, "f", "x"), true)
		is(t, c.Exists(ctx, "a", "b", "a", "missing", "f"), 4)
		is(t, c.DBSize(ctx), 4)
		is(t, c.Touch(ctx, "a", "missing"), 1)
		is(t, c.Type(ctx, "a"), "string")
		is(t, c.Type(ctx, "missing"), "none")
		is(t, c.Del(ctx, "a", "missing"), 1)
		is(t, c.Unlink(ctx, "b", "c"), 2)
		is(t, c.Rename(ctx, "f", "g"), "OK")
		fails(t, c.Rename(ctx, "f", "g"), "ERR no such key")
		is(t, c.BFExists(ctx, "g", "x"), true)
		is(t, c.Set(ctx, "a", 1, 0), "OK")
		is(t, c.RenameNX(ctx, "a", "g"), false)
		is(t, c.RenameNX(ctx, "a", "b"), true)
		is(t, c.Copy(ctx, "b", "a", 0, false), 1)
		is(t, c.Copy(ctx, "b", "a", 0, false), 0)
		is(t, c.Copy(ctx, "b", "a", 0, true), 1)
		is(t, c.Copy(ctx, "g", "copy", 0, false), 1)
		is(t, c.BFExists(ctx, "copy", "x"), true)
		is(t, c.Expire(ctx, "a", time.Hour), true)
		is(t, c.Expire(ctx, "missing", time.Hour), false)
		is(t, c.ExpireNX(ctx, "a", time.Hour), false)
		is(t, c.ExpireGT(ctx, "a", 2*time.Hour), true)
		is(t, c.TTL(ctx, "b"), -1)
		is(t, c.TTL(ctx, "missing"), -2)
		if ttl := result(t, c.PTTL(ctx, "a")); ttl < 119*time.Minute || ttl > 2*time.Hour {
			t.Errorf("PTTL = %v, want two hours", ttl)
		}
		is(t, c.Persist(ctx, "a"), true)
		is(t, c.Persist(ctx, "a"), false)
		at := time.Unix(4_102_444_800, 0)
		is(t, c.ExpireAt(ctx, "g", at), true)
		is(t, c.ExpireTime(ctx, "g"), time.Duration(at.Unix())*time.Second)
		is(t, c.PExpireTime(ctx, "g"), time.Duration(at.UnixMilli())*time.Millisecond)
		is(t, c.PExpireAt(ctx, "g", time.Unix(1, 0)), true)
		is(t, c.Exists(ctx, "g"), 0)
		keys := result(t, c.Keys(ctx, "*"))
		slices.Sort(keys)
		if !slices.Equal(keys, []string{"a", "b", "copy"}) {
			t.Errorf("KEYS = %q", keys)
		}
		if key := result(t, c.RandomKey(ctx)); !slices.Contains(keys, key) {
			t.Errorf("RANDOMKEY = %q", key)
		}
		is(t, c.FlushAll(ctx), "OK")
		fails(t, c.RandomKey(ctx), redis.Nil.Error())
		is(t, c.Keys(ctx, "*"), []string{})
		is(t, c.FlushDBAsync(ctx), "OK")
	})
}

func TestScan(t *testing.T) {
	inBoth(t, func(t *testing.T, c *redis.Client) {
		ctx := t.Context()
		const keys = 1000
		pipe := c.Pipeline()
		for i := range keys {
			pipe.Set(ctx, fmt.Sprintf("key:%d", i), i, 0)
		}
		pipe.BFAdd(ctx, "filter:1", "x")
		pipe.CFAdd(ctx, "filter:2", "x")
		if _, err := pipe.Exec(ctx); err != nil {
			t.Fatal(err)
		}
		collect := func(it *redis.ScanIterator) map[string]bool {
			found := make(map[string]bool)
			for it.Next(ctx) {
				found[it.Val()] = true
			}
			if err := it.Err(); err != nil {
				t.Fatal(err)
			}
			return found
		}
		if found := collect(c.Scan(ctx, 0, "", 0).Iterator()); len(found) != keys+2 {
			t.Errorf("SCAN found %d keys, want %d", len(found), keys+2)
		}
		if found := collect(c.Scan(ctx, 0, "key:99*", 7).Iterator()); len(found) != 11 || !found["key:99"] || !found["key:990"] {
			t.Errorf("SCAN MATCH key:99* found %v", found)
		}
		if found := collect(c.ScanType(ctx, 0, "", 100, "MBbloom--").Iterator()); len(found) != 1 || !found["filter:1"] {
			t.Errorf("SCAN TYPE MBbloom-- found %v", found)
		}
	})
}
