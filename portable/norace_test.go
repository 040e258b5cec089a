//go:build !race

package portable_test

const race = false
