// Package guard keeps lookups away from a database that need not reach it. It stands before a source, which is a
// database or the store itself, and has a filter of all ids, a cache of values, and limits on loads, in one sievekv store.
//
//	users, err := guard.New(db, "users", guard.Options{Load: loadUser})
//	...
//	err = users.Rebuild(ctx, allUserIDs) // once: fills the filter
//	...
//	row, err := users.Get(ctx, "17") // guard.ErrNotFound if there is no user 17
//
// It answers three failures of a cache before a database:
//
//   - Penetration: lookups of ids that do not exist miss every cache. The filter refuses them. The few that it lets
//     through are remembered as absent for Options.NullTTL.
//   - Breakdown: a value that many ask for expires, and all of them load it. Here one load of an id runs at a time, and its
//     callers share the result. A value past its soft TTL is served while one load refreshes it.
//   - Avalanche: many values expire at once, or the source is slow or down. Here every value lives for a random part of
//     its TTL, loads are limited, and a breaker keeps them from a source that fails. Old values are served meanwhile.
//
// # Terminology
//
//   - id: the name of a row of the source: any bytes. Ids above about 65,000 bytes are loaded each time, as no key of the
//     store can be so long, and Put returns sievekv.ErrTooLarge for them.
//   - row: what the source has under an id. value: what Load makes of it, and what Get returns.
//   - source: where Load reads. It is right by definition.
//   - entry: what the cache has for an id: a value, or that the id is absent.
//   - fresh, soft, stale: an entry is fresh until its soft TTL, then soft until its TTL, then stale for Options.MaxStale.
//
// # Writing rows
//
// The guard must know of every row that comes into being, or the filter refuses it. There are two ways.
//
// If the rows are in the same store, Put and Remove change row, entry and filter in one commit: a function given to them
// changes the row in the guard's transaction. After a crash all three have changed, or none.
//
// If the rows are elsewhere, there is no common commit. PutVia and RemoveVia order the steps so that a crash at any
// moment leaves a filter that has every id whose row is there, and no old value in the cache. Do not write a row first and
// call Put then: between the two the filter refuses an id that is there.
//
// # Guarantees
//
// As long as every row is written as said above, and Load returns ErrNotFound only for ids that are absent:
//
//   - Get returns ErrNotFound only if the id was absent at some moment of the call, or was seen absent by a load at most
//     NullTTL before the call, and no Put of it has ended since. Without writes past the guard the first case remains.
//   - Get returns a value that the source had at some moment of the call, or at most Options.TTL + Options.MaxStale before
//     it. A Get that begins after a Put or Remove has returned never answers with what was there before.
//   - A load that fails is never remembered as absent, unless Options.FailedIsAbsent says so.
//   - A filter that is missing or cannot be read refuses nothing, unless Options.RefuseUnfiltered says so.
//
// A new guard has no filter until the first Rebuild ends, unless Options.Empty says that there are no ids at the moment.
// Options.Empty must not say so if there are: they would be refused. After an older backup of the store was restored while
// the rows are elsewhere, Rebuild before Get: the filter refuses the ids that came since.
//
// With Options.Cache, the entries are in another program, and change in steps beside the store's commit: see Cache.
//
// # Filters
//
// A Bloom filter is the smallest, but forgets nothing: ids that Remove takes away are refused only after the next
// Rebuild, and until then are remembered as absent. Cuckoo and counting filters forget ids at once. For that the guard
// keeps a record of each id in the store, a few bytes beside its key, because deleting an id that a filter never had
// could take away another.
//
// # Concurrency
//
// All methods may be called by any number of goroutines. A load runs in a goroutine of its own, with the values of its
// first caller's context. It goes on when callers give up, until it ends or Options.LoadTimeout is over, so that the next
// caller finds its result. Close ends loads and waits for them. Of each name, one Guard at a time can be open in a store.
package guard
