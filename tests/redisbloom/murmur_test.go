package redisbloom

import (
	"encoding/binary"
	"math"
	"testing"
)

// TestMurmur_verification computes the verification value that SMHasher, the test suite of MurmurHash's author, has
// for MurmurHash64A: the hash of the hashes of keys of 0 to 255 bytes.
func TestMurmur_verification(t *testing.T) {
	var key, hashes []byte
	for i := range 256 {
		hashes = binary.LittleEndian.AppendUint64(hashes, murmur64A(key, uint64(256-i)))
		key = append(key, byte(i))
	}
	if got := uint32(murmur64A(hashes, 0)); got != 0x1F0D3804 {
		t.Errorf("verification value %#08x, want 0x1F0D3804", got)
	}
}

func TestLogarithm(t *testing.T) {
	for _, tt := range []struct{ x, want float64 }{
		{1, 0},
		{0.5, -math.Ln2},
		{0.125, -2.07944154167983592825169636437452970422650040308077},
		{0.25, -1.38629436111989061883446424291635313615100026872051},
		{0.01, -4.6051701859880909}, // math.Log has ...918: the float64 next to 0.01 is above it
		{math.SmallestNonzeroFloat64, -744.4400719213812},
	} {
		if got := logarithm(tt.x); got != tt.want {
			t.Errorf("logarithm(%g) = %.17g, want %.17g", tt.x, got, tt.want)
		}
	}
	for x := 1e-9; x < 1; x *= 1.01 {
		if got, want := logarithm(x), math.Log(x); math.Abs(got-want) > 1e-15*math.Abs(want) {
			t.Errorf("logarithm(%g) = %.17g, math.Log has %.17g", x, got, want)
		}
	}
}
