// Package seeds makes the random seeds of a store's hashes.
package seeds

import (
	"crypto/rand"
	"io"
	"sync/atomic"
)

var fixed atomic.Bool

// Fix says whether every seed from now on is the same. It is for tests.
func Fix(all bool) { fixed.Store(all) }

// Read fills b with a seed: random bytes, unless seeds are fixed.
func Read(b []byte) error {
	if !fixed.Load() {
		_, err := io.ReadFull(rand.Reader, b)
		return err
	}
	for i := range b {
		b[i] = byte(0x9e + 0x51*i)
	}
	return nil
}
