package main

// race is a scene in which an answer is wrong once a step of protection is left out.
type race struct {
	name    string
	without without
	scene   scene
}

// races are those that are known, one for each step.
var races = []race{
	{
		"a lookup finds nothing in the blocks of a filter that was deleted meanwhile",
		wordAtEnd, of("in memory", run{op: has}, run{op: has}, run{op: refill}, run{op: evictBlock}),
	},
	{
		"an add takes an item for known that was added to the key to which its filter was renamed",
		wordWhenKnown, of("in memory, without the item", run{op: has}, run{op: known}, run{op: addAway}, run{op: rename}),
	},
	{
		"a lookup finds the old filter after another has found the new one",
		busyBefore, of("in memory", run{op: has}, run{op: has}, run{op: refill}, run{op: evictBlock}),
	},
	{
		"a lookup finds the new filter, and a later one the old",
		releaseLast, of("in memory", run{op: has}, run{op: has}, run{op: refill}, run{op: evictBlock}),
	},
	{
		"a lookup finds that a key has expired, whose expiry was taken away in time",
		expiredAtEnd, of("expires, on disk", run{op: has}, run{op: has}, run{op: persist}, run{op: tick}),
	},
	{
		"a lookup uses an object that was closed, and misses what was added since",
		evictShuts, of("on disk", run{op: has}, run{op: has}, run{op: refill}, run{op: evictObject}),
	},
	{
		"an object is closed while a writer has it, and opened again without what is written",
		keyLock, of("in memory, without the item", run{op: has}, run{op: has}, run{op: add}, run{op: evictObject}),
	},
	{
		"a lookup answers from memory after the store has failed",
		failShuts, of("in memory", run{op: has}, run{op: has}, run{op: add}, run{op: fail}),
	},
	{
		"an object is opened while the store fails, and answers after that",
		openLooksAgain, of("closed", run{op: has}, run{op: known}, run{op: add}, run{op: fail}),
	},
	{
		"a commit makes an object while the store fails, and it answers after that",
		putLooksAgain, of("on disk", run{op: has}, run{op: has}, run{op: refill}, run{op: fail}),
	},
	{
		"a block is installed that lacks a commit, which has not cancelled its load",
		cancels, of("on disk, without the item", run{op: has}, run{op: has}, run{op: add}, run{op: evictBlock}),
	},
	{
		"a block is installed that lacks a commit, though its load was cancelled",
		onlyRegistered, of("on disk, without the item", run{op: has}, run{op: has}, run{op: add}, run{op: evictBlock}),
	},
	{
		"a lookup shares a load that was cancelled by a commit before the lookup began",
		sharesOnlyLive, of("on disk, without the item", run{op: has}, run{op: has}, run{op: add}, run{op: evictBlock}),
	},
	{
		"a load is registered for a block that has come meanwhile, and no commit cancels it",
		registersMissing, of("on disk, without the item", run{op: has}, run{op: has}, run{op: has}, run{op: add}, run{op: evictBlock}),
	},
	{
		"a block is installed after a commit has looked for it, and before it cancels the load",
		looksTwice, of("on disk, without the item", run{op: has}, run{op: has}, run{op: add}, run{op: evictBlock}),
	},
	{
		"a lookup sees a block of slots while an item is moved in it",
		oddBefore, of("slots in memory", run{op: has}, run{op: has}, run{op: move}, run{op: evictBlock}),
	},
	{
		"a lookup notes the version after a commit that it has seen half of",
		notedFirst, of("slots in memory", run{op: has}, run{op: has}, run{op: move}, run{op: evictBlock}),
	},
	{
		"a lookup does not see that slots have changed",
		versionsAtEnd, of("slots in memory", run{op: has}, run{op: has}, run{op: move}, run{op: evictBlock}),
	},
}

// of returns a scene with a kind of filter.
func of(kindName string, runs ...run) scene {
	for _, k := range kinds {
		if k.name == kindName {
			return scene{k, runs}
		}
	}
	panic("no kind of filter is " + kindName)
}
