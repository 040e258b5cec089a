// Package kvtest has what tests of filters need: a disk that can crash while a store works on it, and items that a hash
// does not tell apart.
package kvtest
