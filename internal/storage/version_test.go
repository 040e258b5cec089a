package storage

import (
	"testing"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/freeze"
)

// The seal has the version of the store, and is read first.
func TestSealVersion(t *testing.T) {
	if freeze.SealVersion != format.StoreVersion {
		t.Errorf("the seal has version %d, the store %d", freeze.SealVersion, format.StoreVersion)
	}
}
