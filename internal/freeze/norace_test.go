//go:build !race

package freeze_test

// thinning is by how much the faults are thinned out: not at all.
const thinning = 1
