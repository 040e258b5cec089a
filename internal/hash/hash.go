package hash

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/sievekv/sievekv/internal/seeds"
)

// Kind names a hash, without its key.
type Kind uint8

const (
	// Default is Keyed for a new filter. For a filter that exists it accepts any hash.
	Default Kind = iota

	// Keyed has a key of 256 bits. Without knowing the key, nobody can choose items that collide.
	Keyed

	// XXH64 is for filters that must be the same in several stores, or are built by other programs. Whatever the seed,
	// anyone who chooses items can make them collide.
	XXH64

	// Murmur64A is MurmurHash64A, which RedisBloom uses, for filters that are RedisBloom's bit for bit. Its seed is
	// public: anyone who chooses items can make them collide.
	Murmur64A

	// Murmur3 is MurmurHash3 x64 128, which Guava and bits-and-blooms use, for filters that come from there. Its seed is
	// 0: anyone who chooses items can make them collide.
	Murmur3

	// Highway is HighwayHash 128 with the key of Redisson, for filters that come from there. The key is public: anyone who
	// chooses items can make them collide.
	Highway
)

// String returns the word that commands use: "keyed", "xxh64", "murmur64a", "murmur3", "highwayhash" or
// "default".
func (k Kind) String() string {
	switch k {
	case Default:
		return "default"
	case Keyed:
		return "keyed"
	case XXH64:
		return "xxh64"
	case Murmur64A:
		return "murmur64a"
	case Murmur3:
		return "murmur3"
	case Highway:
		return "highwayhash"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Valid reports whether there is such a hash.
func (k Kind) Valid() bool { return k <= Highway }

// ParseKind returns the hash that a word names: keyed or xxh64. The others belong to a layout, and are not chosen by a
// word.
func ParseKind(word string) (k Kind, ok bool) {
	for k := Keyed; k <= XXH64; k++ {
		if word == k.String() {
			return k, true
		}
	}
	return Default, false
}

// SecretLen is the length of a Secret, in bytes.
const SecretLen = 32

// Secret is the key of a keyed hash. Anyone who knows it can choose items that collide.
type Secret [SecretLen]byte

// Format prints the word "secret" and nothing of the secret itself, so that no message has it by accident.
func (Secret) Format(to fmt.State, _ rune) { io.WriteString(to, "secret") }

// NewSecret returns a secret of random bytes.
func NewSecret() (s Secret, err error) {
	err = seeds.Read(s[:])
	return s, err
}

// SecretOf returns the secret that belongs to a seed. For one seed it is always the same: the SHA-256 of "sievekv
// items" and the 8 bytes of the seed, the lowest first. Anyone who knows or guesses the seed knows it.
func SecretOf(seed uint64) Secret {
	return sha256.Sum256(binary.LittleEndian.AppendUint64([]byte("sievekv items"), seed))
}

// For returns the secret that follows from this one for a purpose: HKDF-Expand with SHA-256 (RFC 5869), where info is
// "sievekv " and the purpose. For one purpose it is always the same. It reveals nothing about this secret, or about the
// secrets for other purposes.
func (s Secret) For(purpose string) (of Secret) {
	b, err := hkdf.Expand(sha256.New, s[:], "sievekv "+purpose, SecretLen)
	if err != nil {
		panic(fmt.Sprintf("hash: HKDF of %d bytes: %v", SecretLen, err)) // only of more than 255 times a SHA-256
	}
	return Secret(b)
}

// Function is a hash with its key. The zero value is XXH64 with seed 0. Two Functions are equal (==) if and only if
// they hash alike.
type Function struct {
	seed  uint64
	table *table // nil unless the hash is keyed
	other Kind   // Murmur64A, Murmur3 or Highway; Default for the others
}

// NewKeyed returns the keyed hash with a secret.
func NewKeyed(s Secret) Function { return Function{table: tableOf(s)} }

// NewXXH64 returns XXH64 with a seed, as specified in https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md.
func NewXXH64(seed uint64) Function { return Function{seed: seed} }

// NewMurmur64A returns MurmurHash64A with a seed.
func NewMurmur64A(seed uint64) Function { return Function{seed: seed, other: Murmur64A} }

// NewMurmur3 returns the first half of MurmurHash3 x64 128 with seed 0, see SumMurmur3.
func NewMurmur3() Function { return Function{other: Murmur3} }

// NewHighway returns the first half of HighwayHash 128 with RedissonKey, see SumHighway.
func NewHighway() Function { return Function{other: Highway} }

// Kind returns the hash without its key.
func (f Function) Kind() Kind {
	switch {
	case f.table != nil:
		return Keyed
	case f.other != Default:
		return f.other
	}
	return XXH64
}

// String returns the word for the kind of hash, and nothing of the key.
func (f Function) String() string { return f.Kind().String() }

// Format prints what String returns, whatever the verb.
func (f Function) Format(to fmt.State, _ rune) { io.WriteString(to, f.String()) }

// The stored form of a Function is a byte for the hash, and then its key. Never reuse or renumber a value.
//
//	0  XXH64: the seed, 8 bytes, little-endian
//	1  keyed: the secret, 32 bytes
//	2  MurmurHash64A: the seed, 8 bytes, little-endian
//	3  MurmurHash3 x64 128: the seed, 8 bytes, which is 0
//	4  HighwayHash 128 with the key of Redisson: 8 bytes, which are 0
const (
	storedXXH64     = 0
	storedKeyed     = 1
	storedMurmur64A = 2
	storedMurmur3   = 3
	storedHighway   = 4
)

// Append appends the stored form, which includes the key.
func (f Function) Append(dst []byte) []byte {
	if f.table != nil {
		return append(append(dst, storedKeyed), f.table.secret[:]...)
	}
	kind := byte(storedXXH64)
	switch f.other {
	case Murmur64A:
		kind = storedMurmur64A
	case Murmur3:
		kind = storedMurmur3
	case Highway:
		kind = storedHighway
	}
	return binary.LittleEndian.AppendUint64(append(dst, kind), f.seed)
}

// Decode returns the Function at the start of b, and the length of its stored form. The length is 0 if b is too
// short, and negative if the first byte names no hash that is known.
func Decode(b []byte) (f Function, n int) {
	switch {
	case len(b) == 0:
		return f, 0
	case b[0] == storedXXH64 && len(b) > 8:
		return NewXXH64(binary.LittleEndian.Uint64(b[1:])), 1 + 8
	case b[0] == storedKeyed && len(b) > SecretLen:
		return NewKeyed(Secret(b[1:])), 1 + SecretLen
	case b[0] == storedMurmur64A && len(b) > 8:
		return NewMurmur64A(binary.LittleEndian.Uint64(b[1:])), 1 + 8
	case b[0] == storedMurmur3 && len(b) > 8 && binary.LittleEndian.Uint64(b[1:]) == 0:
		return NewMurmur3(), 1 + 8
	case b[0] == storedHighway && len(b) > 8 && binary.LittleEndian.Uint64(b[1:]) == 0:
		return NewHighway(), 1 + 8
	case b[0] > storedHighway:
		return f, -1
	}
	return f, 0
}
