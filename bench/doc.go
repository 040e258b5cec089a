// Package bench compares filters with those of other libraries, which keep theirs in memory only. It is a module of
// its own, so that programs that use sievekv do not get these libraries.
//
//	go -C bench test -run - -bench .
package bench
