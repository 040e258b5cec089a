//go:build race

package freeze_test

// thinning is by how much the faults are thinned out: with the race detector each takes ten times as long.
const thinning = 5
