// Package kvtest makes items that a hash does not tell apart, for tests that show that filters do.
package kvtest
