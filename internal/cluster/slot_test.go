package cluster_test

import (
	"testing"

	"github.com/sievekv/sievekv/internal/cluster"
)

// The slots that Redis has for these keys.
func TestSlot(t *testing.T) {
	for key, want := range map[string]int{
		"123456789": 12739, // the check value of CRC-16/XMODEM, 0x31C3
		"foo":       12182, "bar": 5061, "hello": 866, "": 0,
		"{user1000}.following": 3443, "{user1000}.followers": 3443, "user1000": 3443,
		"foo{}{bar}":    8363, // an empty tag is none
		"foo{{bar}}zap": 4015, // the tag is "{bar"
		"foo{bar}{zap}": 5061, // the first tag counts
	} {
		if got := cluster.Slot([]byte(key)); got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
	}
	if got, want := cluster.Slot([]byte("foo{{bar}}zap")), cluster.Slot([]byte("{bar")); got != want {
		t.Errorf("the tag of foo{{bar}}zap: slot %d, want that of {bar, %d", got, want)
	}
}

// A slot follows from the checksum, computed bit by bit, of the part of the key that counts.
func FuzzSlot(f *testing.F) {
	for _, key := range []string{"", "foo", "{user1000}.following", "foo{}{bar}", "a{b", "a}b{c}", "\xff\x00{\x80}"} {
		f.Add([]byte(key))
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		if got, want := cluster.Slot(key), slowly(tag(key))%cluster.NumSlots; got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
		braced := append(append([]byte("{"), key...), "}.more"...)
		if tagged := tag(braced); string(tagged) == string(key) && cluster.Slot(braced) != slowly(key)%cluster.NumSlots {
			t.Errorf("Slot(%q) is not that of %q", braced, key)
		}
	})
}

// tag returns the part of a key that counts.
func tag(key []byte) []byte {
	for i, b := range key {
		if b != '{' {
			continue
		}
		for j := i + 1; j < len(key); j++ {
			if key[j] == '}' && j > i+1 {
				return key[i+1 : j]
			}
			if key[j] == '}' {
				return key
			}
		}
		return key
	}
	return key
}

// slowly is CRC-16/XMODEM by its definition: the remainder of a division of polynomials.
func slowly(p []byte) int {
	sum := 0
	for _, b := range append(append([]byte{}, p...), 0, 0) {
		for bit := 7; bit >= 0; bit-- {
			sum = sum<<1 | int(b>>bit&1)
			if sum&0x10000 != 0 {
				sum ^= 0x11021
			}
		}
	}
	return sum
}
