package hash

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"unsafe"
)

// Kind is a hash without its key.
type Kind uint8

const (
	// Default is Keyed for a filter that is made, and any hash for one that is there.
	Default Kind = iota

	// Keyed has a key of 256 bits. Nobody who does not know it can choose items that collide.
	Keyed

	// XXH64 is for filters that are to be the same in several stores, or built by other
	// programs. Whoever chooses items can make them collide, whatever the seed.
	XXH64
)

// String returns the word that commands use: "keyed" or "xxh64", and "default".
func (k Kind) String() string {
	switch k {
	case Default:
		return "default"
	case Keyed:
		return "keyed"
	case XXH64:
		return "xxh64"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Valid reports whether there is such a hash.
func (k Kind) Valid() bool { return k <= XXH64 }

// ParseKind returns the hash of a word, keyed or xxh64.
func ParseKind(word string) (k Kind, ok bool) {
	for k := Keyed; k.Valid(); k++ {
		if word == k.String() {
			return k, true
		}
	}
	return Default, false
}

// SecretLen is the length of a Secret, in bytes.
const SecretLen = 32

// Secret is the key of a keyed hash. Who knows it can choose items that collide.
type Secret [SecretLen]byte

// Format prints the word secret, and nothing of it, so that no message has it by accident.
func (Secret) Format(to fmt.State, _ rune) { io.WriteString(to, "secret") }

// NewSecret returns a secret of random bytes.
func NewSecret() (s Secret, err error) {
	_, err = io.ReadFull(rand.Reader, s[:])
	return s, err
}

// SecretOf returns the secret that belongs to a seed, always the same one: the SHA-256 of
// "sievekv items" and the 8 bytes of the seed, the lowest first. It is no secret to those who
// know the seed, or can guess it.
func SecretOf(seed uint64) Secret {
	return sha256.Sum256(binary.LittleEndian.AppendUint64([]byte("sievekv items"), seed))
}

// Function is a hash with its key. The zero value is XXH64 of the seed 0. Functions are
// equal, by ==, if and only if they hash alike.
type Function struct {
	seed  uint64
	table *table // of a keyed hash, else nil
}

// NewKeyed returns the keyed hash of a secret.
func NewKeyed(s Secret) Function { return Function{table: tableOf(s)} }

// NewXXH64 returns XXH64 with a seed, as specified in
// https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md.
func NewXXH64(seed uint64) Function { return Function{seed: seed} }

// Kind returns the hash without its key, Keyed or XXH64.
func (f Function) Kind() Kind {
	if f.table != nil {
		return Keyed
	}
	return XXH64
}

// String returns the word of its kind, and nothing of its key.
func (f Function) String() string { return f.Kind().String() }

// Format prints String, whatever the verb.
func (f Function) Format(to fmt.State, _ rune) { io.WriteString(to, f.String()) }

// SumString is Sum of the bytes of s, which it does not copy.
func (f Function) SumString(s string) uint64 {
	return f.Sum(unsafe.Slice(unsafe.StringData(s), len(s)))
}

// SumUint64 is Sum of the 8 bytes of v, the lowest first.
func (f Function) SumUint64(v uint64) uint64 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	return f.Sum(b[:])
}

// The stored form of a Function is a byte for the hash, and then its key. Never reuse or
// renumber a value.
//
//	0  XXH64: the seed, 8 bytes, little-endian
//	1  keyed: the secret, 32 bytes
const (
	storedXXH64 = 0
	storedKeyed = 1
)

// Append appends the stored form, of which the key is part.
func (f Function) Append(dst []byte) []byte {
	if f.table != nil {
		return append(append(dst, storedKeyed), f.table.secret[:]...)
	}
	return binary.LittleEndian.AppendUint64(append(dst, storedXXH64), f.seed)
}

// Decode returns the Function at the start of b and the length of its stored form. A length
// of 0 means that b is too short, and a negative one that the hash, the first byte, is not known.
func Decode(b []byte) (f Function, n int) {
	switch {
	case len(b) == 0:
		return f, 0
	case b[0] == storedXXH64 && len(b) > 8:
		return NewXXH64(binary.LittleEndian.Uint64(b[1:])), 1 + 8
	case b[0] == storedKeyed && len(b) > SecretLen:
		return NewKeyed(Secret(b[1:])), 1 + SecretLen
	case b[0] > storedKeyed:
		return f, -1
	}
	return f, 0
}
