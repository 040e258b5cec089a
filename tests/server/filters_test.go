package server_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
)

const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"

func TestBloom(t *testing.T) {
	inBoth(t, func(t *testing.T, c *redis.Client) {
		ctx := t.Context()
		is(t, c.BFReserve(ctx, "f", 0.001, 1000), "OK")
		fails(t, c.BFReserve(ctx, "f", 0.001, 1000), "ERR item exists")
		fails(t, c.BFReserve(ctx, "g", 2, 1000), "ERR error rate must be in the range (0.000000, 1.000000)")
		fails(t, c.BFReserve(ctx, "g", 0.01, 0), "ERR capacity must be in the range [1, 1099511627776]")
		is(t, c.BFReserveExpansion(ctx, "expands", 0.01, 10, 4), "OK")
		is(t, c.BFReserveNonScaling(ctx, "fixed", 0.0001, 3), "OK")
		is(t, c.BFReserveWithArgs(ctx, "args", &redis.BFReserveOptions{Capacity: 50, Error: 0.01, Expansion: 3}), "OK")
		is(t, c.BFReserveWithArgs(ctx, "args2", &redis.BFReserveOptions{Capacity: 50, Error: 0.01, NonScaling: true}), "OK")

		is(t, c.BFAdd(ctx, "f", "a"), true)
		is(t, c.BFAdd(ctx, "f", "a"), false)
		is(t, c.BFAdd(ctx, "f", 17), true)
		is(t, c.BFAdd(ctx, "f", []byte("\x00\xff\r\n")), true)
		is(t, c.BFAdd(ctx, "f", ""), true)
		is(t, c.BFMAdd(ctx, "f", "a", "b", "c", "b"), []bool{false, true, true, false})
		is(t, c.BFExists(ctx, "f", "a"), true)
		is(t, c.BFExists(ctx, "f", "nosuch"), false)
		is(t, c.BFExists(ctx, "missing", "a"), false)
		is(t, c.BFMExists(ctx, "f", "a", "nosuch", "b", 17, "", []byte("\x00\xff\r\n")), []bool{true, false, true, true, true, true})
		is(t, c.BFMExists(ctx, "missing", "a", "b"), []bool{false, false})
		is(t, c.BFCard(ctx, "f"), 6)
		is(t, c.BFCard(ctx, "missing"), 0)

		is(t, c.BFInsert(ctx, "new", &redis.BFInsertOptions{Capacity: 77, Error: 0.001, Expansion: 5}, "a", "b", "a"), []bool{true, true, false})
		is(t, c.BFInsert(ctx, "new", &redis.BFInsertOptions{NoCreate: true}, "a", "c"), []bool{false, true})
		fails(t, c.BFInsert(ctx, "missing", &redis.BFInsertOptions{NoCreate: true}, "a"), "ERR not found")

		info := result(t, c.BFInfo(ctx, "new"))
		if info.Size < 32+64 {
			t.Errorf("BF.INFO says %d bytes", info.Size)
		}
		is(t, c.BFInfo(ctx, "new"), redis.BFInfo{Capacity: 77, Size: info.Size, Filters: 1, ItemsInserted: 3, ExpansionRate: 5})
		is(t, c.BFInfoCapacity(ctx, "new"), redis.BFInfo{Capacity: 77})
		is(t, c.BFInfoSize(ctx, "new"), redis.BFInfo{Size: info.Size})
		is(t, c.BFInfoFilters(ctx, "new"), redis.BFInfo{Filters: 1})
		is(t, c.BFInfoItems(ctx, "new"), redis.BFInfo{ItemsInserted: 3})
		is(t, c.BFInfoExpansion(ctx, "new"), redis.BFInfo{ExpansionRate: 5})
		fails(t, c.BFInfo(ctx, "missing"), "ERR not found")
		fails(t, c.BFInfoItems(ctx, "missing"), "ERR not found")

		is(t, c.BFMAdd(ctx, "fixed", "a", "b", "c"), []bool{true, true, true})
		is(t, c.BFAdd(ctx, "fixed", "a"), false)
		fails(t, c.BFAdd(ctx, "fixed", "d"), "ERR non scaling filter is full")
		fails(t, c.BFMAdd(ctx, "fixed", "a", "d", "e"), "ERR non scaling filter is full")
		is(t, c.BFAdd(ctx, "f", "after"), true) // the connection is where it was

		is(t, c.Set(ctx, "string", "v", 0), "OK")
		fails(t, c.BFAdd(ctx, "string", "a"), wrongType)
		fails(t, c.BFMAdd(ctx, "string", "a"), wrongType)
		fails(t, c.BFCard(ctx, "string"), wrongType)
		is(t, c.BFExists(ctx, "string", "a"), false)
		is(t, c.Type(ctx, "f"), "MBbloom--")

		// A filter that grows has all it was given.
		var items []any
		for i := range 2000 {
			items = append(items, fmt.Sprint("item:", i))
		}
		result(t, c.BFMAdd(ctx, "expands", items...))
		for i, there := range result(t, c.BFMExists(ctx, "expands", items...)) {
			if !there {
				t.Errorf("%s was added and is not there", items[i])
			}
		}
	})
}

func TestCuckoo(t *testing.T) {
	inBoth(t, func(t *testing.T, c *redis.Client) {
		ctx := t.Context()
		is(t, c.CFReserve(ctx, "f", 1000), "OK")
		fails(t, c.CFReserve(ctx, "f", 1000), "ERR item exists")
		fails(t, c.CFReserve(ctx, "g", 1), "Capacity must be in the range [2 * BUCKETSIZE, 1099511627776]")
		is(t, c.CFReserveExpansion(ctx, "expands", 1000, 2), "OK")
		is(t, c.CFReserveBucketSize(ctx, "buckets", 1000, 8), "OK")
		is(t, c.CFReserveMaxIterations(ctx, "iterations", 1000, 100), "OK")
		is(t, c.CFReserveWithArgs(ctx, "args", &redis.CFReserveOptions{Capacity: 2000, BucketSize: 2, MaxIterations: 50, Expansion: 4}), "OK")

		is(t, c.CFAdd(ctx, "f", "a"), true)
		is(t, c.CFAdd(ctx, "f", "a"), true)
		is(t, c.CFAddNX(ctx, "f", "a"), false)
		is(t, c.CFAddNX(ctx, "f", "b"), true)
		is(t, c.CFCount(ctx, "f", "a"), 2)
		is(t, c.CFCount(ctx, "f", "nosuch"), 0)
		is(t, c.CFCount(ctx, "missing", "a"), 0)
		is(t, c.CFExists(ctx, "f", "a"), true)
		is(t, c.CFExists(ctx, "f", "nosuch"), false)
		is(t, c.CFMExists(ctx, "f", "a", "nosuch", "b"), []bool{true, false, true})
		is(t, c.CFMExists(ctx, "missing", "a"), []bool{false})
		is(t, c.CFDel(ctx, "f", "a"), true)
		is(t, c.CFDel(ctx, "f", "nosuch"), false)
		is(t, c.CFCount(ctx, "f", "a"), 1)
		fails(t, c.CFDel(ctx, "missing", "a"), "Not found")

		is(t, c.CFInsert(ctx, "new", &redis.CFInsertOptions{Capacity: 3000}, "a", "b", "a"), []bool{true, true, true})
		is(t, c.CFInsert(ctx, "new", &redis.CFInsertOptions{NoCreate: true}, "c"), []bool{true})
		is(t, c.CFInsertNX(ctx, "new", &redis.CFInsertOptions{}, "a", "d"), []int64{0, 1})
		fails(t, c.CFInsert(ctx, "missing", &redis.CFInsertOptions{NoCreate: true}, "a"), "ERR not found")
		fails(t, c.CFInsertNX(ctx, "missing", &redis.CFInsertOptions{NoCreate: true}, "a"), "ERR not found")

		is(t, c.CFInfo(ctx, "f"), redis.CFInfo{
			Size: 2786, NumBuckets: 455, NumFilters: 1, NumItemsInserted: 2, NumItemsDeleted: 1, BucketSize: 4, ExpansionRate: 2, MaxIteration: 20,
		})
		args := result(t, c.CFInfo(ctx, "args"))
		if args.BucketSize != 2 || args.MaxIteration != 50 || args.ExpansionRate != 4 {
			t.Errorf("CF.INFO = %+v", args)
		}
		fails(t, c.CFInfo(ctx, "missing"), "ERR not found")

		is(t, c.Set(ctx, "string", "v", 0), "OK")
		fails(t, c.CFAdd(ctx, "string", "a"), wrongType)
		fails(t, c.CFInfo(ctx, "string"), wrongType)
		is(t, c.CFExists(ctx, "string", "a"), false)
		is(t, c.Type(ctx, "f"), "MBbloomCF")

		// One that is full says so in its place.
		is[any](t, c.Do(ctx, "CF.RESERVE", "fixed", 1000, "EXPANSION", 0), "OK")
		same := make([]any, 9)
		for i := range same {
			same[i] = "x"
		}
		is(t, c.CFInsertNX(ctx, "fixed", &redis.CFInsertOptions{}, "x", "x"), []int64{1, 0})
		is(t, c.CFInsert(ctx, "fixed", &redis.CFInsertOptions{}, same[:7]...), []bool{true, true, true, true, true, true, true})
		fails(t, c.CFAdd(ctx, "fixed", "x"), "Filter is full")
		is(t, c.CFCount(ctx, "fixed", "x"), 8)
	})
}

// Counting filters, and other commands that go-redis has no methods for.
func TestCounting(t *testing.T) {
	inBoth(t, func(t *testing.T, c *redis.Client) {
		ctx := t.Context()
		flag := map[int][2]any{2: {int64(0), int64(1)}, 3: {false, true}}[c.Options().Protocol]
		is[any](t, c.Do(ctx, "CBF.RESERVE", "f", "0.001", "1000"), "OK")
		is[any](t, c.Do(ctx, "CBF.ADD", "f", "a"), flag[1])
		is[any](t, c.Do(ctx, "CBF.ADD", "f", "a"), flag[0])
		is[any](t, c.Do(ctx, "CBF.COUNT", "f", "a"), int64(2))
		is[any](t, c.Do(ctx, "CBF.DEL", "f", "a"), flag[1])
		is[any](t, c.Do(ctx, "CBF.MEXISTS", "f", "a", "b"), []any{flag[1], flag[0]})
		is[any](t, c.Do(ctx, "BF.ADD", "b", "a"), flag[1])
		is[any](t, c.Do(ctx, "BF.MERGE", "dest", "b"), "OK")
		is[any](t, c.Do(ctx, "BF.EXISTS", "dest", "a"), flag[1])
	})
}
