package main

// filters are what filling, merging and the rates of filters rest on.
var filters = []mutation{
	{name: "the rate of an empty filter has a sign", pkg: "./scalableext", tests: "^TestChainRate$", edits: []edit{{"scalableext/growth.go",
		"return 0 - math.Expm1(absent)", "return -math.Expm1(absent)"}}},
	{name: "a Bloom layer is full by its items alone", pkg: "./bloomext", tests: "^TestFilter_fullRate$", edits: []edit{{"bloomext/filter.go",
		">= l.capacity || s.w.Counter(l.table, onesCounter) >= l.fullSet",
		">= l.capacity"}}},
	{name: "a batch that fills a Bloom layer by its bits is added in another order", pkg: "./bloomext", tests: "^TestFilter_fullRate$", edits: []edit{{"bloomext/filter.go",
		"> l.capacity ||\n		s.w.Counter(l.table, onesCounter)+uint64(l.layout.Hashes)*items > l.fullSet",
		"> l.capacity"}}},
	{name: "the rate of a Bloom filter is that of its counted items", pkg: "./bloomext", tests: "^TestFilter_fullRate$", edits: []edit{{"bloomext/info.go",
		"l.layout.SetRate(li.Ones)", "l.layout.ExpectedRate(li.Items)"}}},
	{name: "a check expects the bits of counted items", pkg: "./bloomext", tests: "^TestFilter_fullRate$", edits: []edit{{"bloomext/filter.go",
		"tried := l.layout.TriedItems(items)", "tried := float64(items)"}}},
	inCounting("a counting layer is full by its fill alone", "^TestFilter_fullRate$", edit{"countingext/filter.go",
		">= l.capacity || s.w.Counter(l.table, aboveCounter) >= l.fullSet",
		">= l.capacity"}),
	inCounting("a batch that fills a counting layer by its counters is added in another order", "^TestFilter_fullRate$", edit{"countingext/filter.go",
		">= l.capacity ||\n		s.w.Counter(l.table, aboveCounter)+uint64(l.layout.Hashes)*items >= l.fullSet",
		">= l.capacity"}),
	{name: "a layer is sized for its capacity, not for when it is full", pkg: "./kv/probe", tests: "^TestFullRate$", edits: []edit{{"kv/probe/size.go",
		"l.FullRate(r.capacity) <= r.rate", "l.ExpectedRate(r.capacity) <= r.rate"}}},
	{name: "a layer is full when the mean of its bits is set", pkg: "./kv/probe", tests: "^TestFullRate$", edits: []edit{{"kv/probe/distinct.go",
		"mean + fullDeviations*deviation", "mean + 0*deviation"}}},
}
