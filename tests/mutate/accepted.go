package main

// Reasons for which several points are accepted.
const (
	onlyFaster = "it only saves time"
	onlyStays  = "it decides what stays in memory, which any choice may"
)

// accepted are the points at which no test notices a change, with the reason why none should.
var accepted = map[string]string{
	"kv/hash.(*table).sumPairs: always len(keys) >= 6":                                 "it is always so, and tells the compiler",
	"kv/hash.(*table).sumPairs: always len(keys) >= 4":                                 "it is always so, and tells the compiler",
	"kv/gate.runIsOnStack: always f != nil":                                            "every frame of a stack has a function",
	"kv/gate.(*Gate).RUnlock: never s != shut && s != recess":                          onlyFaster,
	"kv/radix.Sort: never len(keys) < few":                                             onlyFaster,
	"kv/radix.Sort: never differ>>shift&(1<<digit-1) == 0":                             onlyFaster,
	"kv/glob.(*Pattern).Match: never reached[last]&end&p.stars[last] != 0":             onlyFaster,
	"kv/glob.(*Pattern).Match: never any == 0":                                         onlyFaster,
	"kv/hot.(*Cache).End: never !known":                                                "the store has failed, and nothing is read any more",
	"kv/hot.(*Cache).End: never known && now.Keep && e.replace(now.Value, now.Expiry)": onlyFaster,
	"kv/hot.(*store).find: always x.tag() == tag":                                      onlyFaster,
	"kv/hot.(*store).evict: drop entry(s.ring[s.head:]).clear(touched)":                onlyStays,
	"kv/hot.(*store).evict: drop returns--":                                            "it bounds the time of a put",
	"kv/hot.(*store).evict: always returns > 0":                                        "it bounds the time of a put",
	"portable.(*blocks).load: never b.places != nil":                                   onlyFaster,
	"portable.readFilter: drop f.layers[i].index(f.header.Layers[i].Blocks)":           onlyFaster,
	"kv/storage/remains.(*rebuild).spansOf: drop defer it.Close()":                     "it only gives memory back",
	"salvage.(*left).changed: never len(l.Later.Keys)+len(l.Later.Objects) == 0":       onlyFaster,
	"salvage.Check: always !c.Deep":                                                    onlyFaster,
	"salvage.Check: always len(report.Problems) > 0":                                   onlyFaster,
	"salvage.look: always !deep":                                                       onlyFaster,

	"bloomext.(*ahead).add: drop to.layout.Touch((*kv.Line)(a.words[blk*size:]), rest)":                         onlyFaster,
	"bloomext.(*ahead).store: never a.items[a.next] == 0":                                                       onlyFaster,
	"bloomext.(*filter).asked: never !f.windowed":                                                               onlyFaster,
	"bloomext.(*filter).noted: never !present":                                                                  onlyFaster,
	"bloomext.(*filter).noted: never f.sure.has(h)":                                                             onlyFaster,
	"bloomext.(*filter).noted: never n == 0":                                                                    onlyFaster,
	"bloomext.(*stager).baseHas: always !found[0]":                                                              onlyFaster,
	"bloomext.(*stager).log: always f.chain.Filling == nil":                                                     onlyFaster,
	"bloomext.(*stager).log: always f.chain.Params.Log.Long(length+uint64(len(missing)), s.items(f.covered()))": onlyFaster,
	"bloomext.fill: always done == 0":                                                                           onlyFaster,
	"bloomext.fill: always filledAhead(to, length) > 0":                                                         onlyFaster,
	"bloomext.fill: always w.Counter(to.table, onesCounter) == 0":                                               onlyFaster,
	"bloomext.fill: never done == 0 && w.Counter(to.table, onesCounter) == 0 && filledAhead(to, length) > 0 && f.left.CompareAndSwap(false, true)": onlyFaster,
	"bloomext.logStaged: never s.c.chain.Log == nil":                                                                        onlyFaster,
	"bloomext.(*Filter).adding: never !more":                                                                                onlyFaster,
	"bloomext.(*Filter).adding: never f.h.Tx != nil":                                                                        "the store refuses a commit inside a transaction, which ends it at once",
	"bloomext.(*Filter).adding: never n < few":                                                                              onlyFaster,
	"bloomext.(*Filter).adding: never room >= uint64(n)":                                                                    onlyFaster,
	"bloomext.(*filter).capacity: drop sum += f.layers[i].capacity":                                                         "it decides how many hashes are remembered, which any number may be",
	"bloomext.(*stager).log: never len(missing) == 0":                                                                       onlyFaster,
	"bloomext.(*stager).replaceNewest: always filling.capacity < covered+more":                                              onlyFaster,
	"bloomext.(*stager).replaceNewest: drop slices.Sort(s.hashes)":                                                          onlyFaster,
	"bloomext.(*stager).replaceNewest: never f.newest.table.Counter(itemsCounter)*callerBytes > uint64(max(0, s.w.Room()))": onlyFaster,
	"bloomext.(*stager).smallFrom: never f.chain.Base == 0":                                                                 onlyFaster,
	"bloomext.(*stager).smallFrom: never s.w.Made(f.newest.table)":                                                          onlyFaster,
	"bloomext.fill: always done < length":                                                                                   onlyFaster,
	"bloomext.mayContainRecent: never known":                                                                                onlyFaster,
	"bloomext.prepare: always !o.Lossy()":                                                                                   onlyFaster,
	"bloomext.prepare: late err = db.ReadWith(kv.ReadOptions{Long: true}, func(r kv.Reader) error { o, err := r.Lookup([]byte(o.Key())) if err != nil || o == nil { return err } if f, ok := o.Body().(*filter); ok && f.chain.Filling != nil && !o.Lossy() { step, err = makeAhead(r, f, budget) } return err })": onlyFaster,
	"bloomext.widen: never s.room(len(items)) == len(items)": onlyFaster,

	"bloomext.(*stager).addAll: never start >= touched && uint64(len(items)) <= max(fewTouched, newest.layout.Blocks*fewPerBlock)": onlyFaster,
	"bloomext.(*stager).addAll: always uint64(len(items)) <= max(fewTouched, newest.layout.Blocks*fewPerBlock)":                    onlyFaster,
	"bloomext.(*stager).addAll: always start >= touched":                                                                           onlyFaster,
	"bloomext.(*stager).addAll: drop s.touchMemory(items[start:touched])":                                                          onlyFaster,
	"bloomext.(*stager).addFull: never s.room(few) >= few":                                                                         onlyFaster,

	"cuckooext.(*layer).grownFrom: always err == nil": "with an error the next layer has no blocks",
}
