package main

// filters are what filling, merging and the rates of filters rest on.
var filters = []mutation{
	{name: "the rate of an empty filter has a sign", pkg: "./scalableext", tests: "^TestChainRate$", edits: []edit{{"scalableext/growth.go",
		"return 0 - math.Expm1(absent)", "return -math.Expm1(absent)"}}},
}
