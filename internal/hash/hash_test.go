package hash_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/probe"
)

// secretAt returns secret number i of the tests.
func secretAt(i byte) hash.Secret { return hash.Secret{0: i, 7: 0xA5, 31: ^i} }

// reference is the keyed hash as the package comment describes it, with numbers of any size.
type reference struct {
	f       [2]*big.Int
	offsets [19]*big.Int
	middle  uint64
	point   *big.Int
	pairs   [128]uint64
}

func power(n uint) *big.Int { return new(big.Int).Lsh(big.NewInt(1), n) }

func number(words ...uint64) *big.Int {
	x := new(big.Int)
	for _, w := range words {
		x.Or(x.Lsh(x, 64), new(big.Int).SetUint64(w))
	}
	return x
}

func newReference(s hash.Secret) *reference {
	stream := rand.NewChaCha8(s)
	wide := func() *big.Int { return number(stream.Uint64(), stream.Uint64()) }
	r := &reference{f: [2]*big.Int{wide(), wide()}}
	for i := range r.offsets {
		r.offsets[i] = wide()
	}
	r.middle = stream.Uint64()
	r.point = wide()
	r.point.Mod(r.point, power(127))
	for i := range r.pairs {
		r.pairs[i] = stream.Uint64()
	}
	return r
}

// nh is NH of 16-byte pairs.
func (r *reference) nh(pairs [][]byte) *big.Int {
	sum := new(big.Int)
	for i, p := range pairs {
		x := binary.LittleEndian.Uint64(p) + r.pairs[2*i]
		y := binary.LittleEndian.Uint64(p[8:]) + r.pairs[2*i+1]
		sum.Add(sum, new(big.Int).Mul(number(x), number(y)))
	}
	return sum.Mod(sum, power(128))
}

// cut returns the 16-byte pairs of an item, in blocks of 64; the last pair is the end of the item.
func cut(b []byte) (blocks [][][]byte) {
	for i := 0; i < len(b); i += 16 {
		if i%1024 == 0 {
			blocks = append(blocks, nil)
		}
		last := &blocks[len(blocks)-1]
		*last = append(*last, b[min(i, len(b)-16):][:16])
	}
	return blocks
}

func (r *reference) sum(b []byte) uint64 {
	n := int64(len(b))
	var x *big.Int // the two words, w first
	class := n
	switch {
	case n == 0:
		x = new(big.Int)
	case n < 4:
		x = number(uint64(b[n-1])<<16 | uint64(b[n/2])<<8 | uint64(b[0]))
	case n < 8:
		x = number(uint64(binary.LittleEndian.Uint32(b[n-4:])), uint64(binary.LittleEndian.Uint32(b)))
	case n <= 16:
		x = number(binary.LittleEndian.Uint64(b[n-8:]), binary.LittleEndian.Uint64(b))
	case n <= 1024:
		x, class = r.nh(cut(b)[0]), 17
		x.Mod(x.Add(x, big.NewInt(n)), power(128))
	default:
		x, class = new(big.Int), 18
		prime := new(big.Int).Sub(power(127), big.NewInt(1))
		step := func(coefficient *big.Int) {
			x.Mod(x.Add(x.Mul(x, r.point), coefficient), prime)
		}
		for _, block := range cut(b) {
			step(r.nh(block))
		}
		step(big.NewInt(n))
	}
	v, w := new(big.Int).Mod(x, power(64)), new(big.Int).Rsh(x, 64)
	product := new(big.Int).Mul(v.Add(v, r.f[0]), w.Add(w, r.f[1]))
	product.Mod(product.Add(product, r.offsets[class]), power(128))
	h := product.Rsh(product, 64).Uint64()
	h = (h^h>>30)*0xBF58476D1CE4E5B9 ^ r.middle
	h = (h ^ h>>27) * 0x94D049BB133111EB
	return h ^ h>>31
}

func TestKeyed_reference(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 3*1024+40)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	for i := range byte(3) {
		r, f := newReference(secretAt(i)), hash.NewKeyed(secretAt(i))
		for n := range len(b) + 1 {
			if n > 1100 && n%1024 > 40 && n%97 != 0 {
				continue
			}
			for _, part := range [][]byte{b[:n], b[len(b)-n:], make([]byte, n), bytes.Repeat([]byte{0xFF}, n)} {
				if got, want := f.Sum(part), r.sum(part); got != want {
					t.Fatalf("secret %d, %d bytes %.20x: got %#x, want %#x", i, n, part, got, want)
				}
			}
		}
	}
}

// Arithmetic modulo 2^127-1 is right at the ends of the range, too. There the items choose NH, as words of the table
// can be subtracted.
func TestKeyed_referenceEnds(t *testing.T) {
	r, f := newReference(secretAt(0)), hash.NewKeyed(secretAt(0))
	const ones = ^uint64(0)
	for _, first := range []uint64{0, 1, ones, ones - 1, 1 << 63, 1<<63 - 1} {
		for _, second := range []uint64{0, 1, ones, 1 << 63, 1<<63 + 1} {
			b := make([]byte, 1024+16)
			for i := range r.pairs {
				factor := []uint64{0, 0, first, second}[i/2%2*2+i%2]
				binary.LittleEndian.PutUint64(b[8*i:], factor-r.pairs[i])
			}
			binary.LittleEndian.PutUint64(b[1024:], second-r.pairs[0])
			binary.LittleEndian.PutUint64(b[1032:], first-r.pairs[1])
			if got, want := f.Sum(b), r.sum(b); got != want {
				t.Errorf("factors %#x and %#x: got %#x, want %#x", first, second, got, want)
			}
		}
	}
}

const goldenSecret = "ab6fce4ad7bad30c2403f7d874174e99ac3c24db06270e9c4954d04b7b17bc9c"

// goldenSums are hashes that stored filters rely on. They must never change.
var goldenSums = []struct {
	item string
	want uint64
}{}

func golden(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return string(b)
}

func TestKeyed_golden(t *testing.T) {
	f := hash.NewKeyed(hash.SecretOf(7))
	if got, want := hex.EncodeToString(f.Append(nil)), "01"+goldenSecret; got != want {
		t.Errorf("stored form of the secret of seed 7 is %s, want %s", got, want)
	}
	for _, tt := range goldenSums {
		if got := f.Sum([]byte(tt.item)); got != tt.want {
			t.Errorf("%d bytes: got %#x, want %#x", len(tt.item), got, tt.want)
		}
	}
}

// Filters stored with XXH64 use the hash that the library computes, see package probe.
func TestXXH64(t *testing.T) {
	b := []byte(golden(100))
	f := hash.NewXXH64(77)
	for n := range len(b) + 1 {
		if got, want := f.Sum(b[:n]), probe.Sum64Seed(b[:n], 77); got != want {
			t.Errorf("%d bytes: got %#x, want %#x", n, got, want)
		}
	}
}

// MurmurHash64A is the published one: this is the verification of its author's test suite, SMHasher, with the value that
// the suite expects.
func TestMurmur64A(t *testing.T) {
	var key [256]byte
	var sums []byte
	for i := range key {
		key[i] = byte(i)
		sums = binary.LittleEndian.AppendUint64(sums, hash.NewMurmur64A(uint64(256-i)).Sum(key[:i]))
	}
	if got := uint32(hash.NewMurmur64A(0).Sum(sums)); got != 0x1F0D3804 {
		t.Errorf("verification value is %#x, want 0x1F0D3804", got)
	}
}

func FuzzFunction_Sum(f *testing.F) {
	f.Add([]byte(nil), uint64(0))
	for _, n := range []int{1, 3, 4, 7, 8, 9, 16, 17, 32, 33, 48, 1024, 1025, 1040, 2048, 2049} {
		f.Add([]byte(golden(n)), uint64(n))
	}
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		secret := hash.SecretOf(seed)
		if got, want := hash.NewKeyed(secret).Sum(b), newReference(secret).sum(b); got != want {
			t.Errorf("keyed: got %#x, want %#x", got, want)
		}
	})
}

// MurmurHash3 of texts for which other implementations have the same values, and of all lengths of the rest.
func TestMurmur3(t *testing.T) {
	for text, want := range map[string][2]uint64{
		"":                          {0, 0},
		"hello":                     {0xcbd8a7b341bd9b02, 0x5b1e906a48ae1d19},
		"hello, world":              {0x342fac623a5ebc8e, 0x4cdcbc079642414d},
		"19 Jan 2038 at 3:14:07 AM": {0xb89e5988b737affc, 0x664fc2950231b2cb},
		"The quick brown fox jumps over the lazy dog.": {0xcd99481f9ee902c9, 0x695da1a38987b6e7},
	} {
		a, b := hash.SumMurmur3([]byte(text))
		if got := [2]uint64{a, b}; got != want || hash.NewMurmur3().Sum([]byte(text)) != want[0] {
			t.Errorf("%q: %x, want %x", text, got, want)
		}
	}
	item := []byte(golden(70))
	for n := range item {
		a, b := hash.SumMurmur3(item[:n])
		c, d := hash.SumMurmur3(append(item[:n:n], 1))
		e, f, g, h := hash.SumMurmur3Twice(item[:n])
		if e != a || f != b || g != c || h != d {
			t.Errorf("%d bytes: SumMurmur3Twice = %x %x %x %x, want %x %x %x %x", n, e, f, g, h, a, b, c, d)
		}
	}
	if n := testing.AllocsPerRun(100, func() { hash.SumMurmur3Twice(item) }); n != 0 {
		t.Errorf("SumMurmur3Twice allocates %v times", n)
	}
}

// HighwayHash of the bytes 0, 1, 2 and so on with a key of such bytes: values that its authors have published.
func TestHighway(t *testing.T) {
	var item [65]byte
	for i := range item {
		item[i] = byte(i)
	}
	key := [4]uint64{0x0706050403020100, 0x0f0e0d0c0b0a0908, 0x1716151413121110, 0x1f1e1d1c1b1a1918}
	for n, want := range map[int]string{
		0: "c7fe8f9d8f26ed0f6f3e097f765e5633", 1: "a8e7813689a8b0d6b4dc9cebf91d29dc", 2: "04da165a26ad153d68e832dc38560878",
		3: "eb0b5f291b62070679ddced90f9ae6bf", 4: "9ee4ac6db49e392608923139d02a922e", 5: "d82ed186c3bd50323ac2636c90103819",
		15: "54afc42ba5372214d7bc266e0b6c79e0", 16: "ad01a4d5ff604441c8189f01d5a39e02", 17: "62991cc5964b2ac5a05e9b16b178b8ec",
		31: "297ca5e865b4e70646d4f5073a5e4152", 32: "aa4a43c166df8419b9e4b3f95819fc16", 33: "6cc3c6e0af7816119d84a2e59db558f9",
		63: "f03e2f021870bd74cb4b5fada894ea3a", 64: "f2c4d498711fbb98c88f91de7105bce0",
	} {
		a, b := hash.SumHighway(key, item[:n])
		if got := fmt.Sprintf("%x", binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, a), b)); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
	}
	a, _ := hash.SumHighway(hash.RedissonKey(), item[:])
	if got := hash.NewHighway().Sum(item[:]); got != a {
		t.Errorf("the function's hash is %x, want %x", got, a)
	}
	if n := testing.AllocsPerRun(100, func() { hash.SumHighway(key, item[:]) }); n != 0 {
		t.Errorf("SumHighway allocates %v times", n)
	}
}

func TestFunction_Append(t *testing.T) {
	tests := []struct {
		f    hash.Function
		want string
	}{
		{hash.NewXXH64(7), "000700000000000000"},
		{hash.NewXXH64(1 << 63), "000000000000000080"},
		{hash.NewMurmur64A(7), "020700000000000000"},
		{hash.NewMurmur3(), "030000000000000000"},
		{hash.NewHighway(), "040000000000000000"},
		{hash.NewKeyed(hash.Secret{1, 31: 2}), "0101" + strings.Repeat("00", 30) + "02"},
	}
	for _, tt := range tests {
		b := tt.f.Append(nil)
		if got := hex.EncodeToString(b); got != tt.want {
			t.Errorf("stored form is %s, want %s", got, tt.want)
		}
		for _, behind := range []string{"", "more"} {
			if got, n := hash.Decode(append(b[:len(b):len(b)], behind...)); got != tt.f || n != len(b) {
				t.Errorf("Decode = %v, %d, want %v, %d", got, n, tt.f, len(b))
			}
		}
		for i := range b {
			if _, n := hash.Decode(b[:i]); n != 0 {
				t.Errorf("Decode of %d of %d bytes has length %d, want 0", i, len(b), n)
			}
		}
	}
	for first := 5; first < 256; first++ {
		b := make([]byte, 100)
		b[0] = byte(first)
		if _, n := hash.Decode(b); n >= 0 {
			t.Errorf("Decode of hash %d has length %d, want a negative one", first, n)
		}
	}
}

// These hashes have no seed: a stored one is damage.
func TestDecode_seed(t *testing.T) {
	for _, f := range []hash.Function{hash.NewMurmur3(), hash.NewHighway()} {
		b := f.Append(nil)
		b[1] = 1
		if got, n := hash.Decode(b); n != 0 {
			t.Errorf("Decode(%x) = %v, %d, want 0 bytes", b, got, n)
		}
	}
}

// All functions of a secret are equal, also after a garbage collection in between.
func TestFunction_equal(t *testing.T) {
	a, b := hash.NewKeyed(secretAt(1)), hash.NewKeyed(secretAt(1))
	if a != b {
		t.Error("two functions of one secret differ")
	}
	for _, other := range []hash.Function{hash.NewKeyed(secretAt(2)), hash.NewXXH64(0), hash.NewXXH64(1), hash.NewMurmur64A(0)} {
		if a == other {
			t.Errorf("%v is equal to a keyed function", other)
		}
	}
	again := hash.NewXXH64(1)
	if hash.NewXXH64(1) != again || again == hash.NewXXH64(2) {
		t.Error("functions of XXH64 are not compared by their seed")
	}
	murmur3, highway := hash.NewMurmur3(), hash.NewHighway()
	if hash.NewMurmur3() != murmur3 || murmur3 == hash.NewMurmur64A(0) || murmur3 == hash.NewXXH64(0) {
		t.Error("functions of MurmurHash3 are not compared by their hash")
	}
	if hash.NewHighway() != highway || highway == murmur3 {
		t.Error("functions of HighwayHash are not compared by their hash")
	}
	murmur := hash.NewMurmur64A(1)
	if hash.NewMurmur64A(1) != murmur || murmur == hash.NewMurmur64A(2) || murmur == again {
		t.Error("functions of MurmurHash64A are not compared by their hash and their seed")
	}
}

// However a function or a secret is printed, nothing of the key is shown.
func TestFunction_printed(t *testing.T) {
	s := secretAt(9)
	key := fmt.Sprintf("%x", s[:])
	type holder struct {
		F hash.Function
		S hash.Secret
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "%q", "%d"} {
		for _, v := range []any{hash.NewKeyed(s), s, holder{hash.NewKeyed(s), s}, &holder{hash.NewKeyed(s), s}} {
			text := strings.ToLower(fmt.Sprintf(verb, v))
			if strings.Contains(text, key) || strings.Contains(text, "165") || strings.Contains(text, "a5") {
				t.Errorf("%s of %T is %s", verb, v, text)
			}
		}
	}
	if got := fmt.Sprint(hash.NewKeyed(s), hash.NewXXH64(5), hash.NewMurmur64A(5), hash.NewMurmur3(), hash.NewHighway()); got != "keyed xxh64 murmur64a murmur3 highwayhash" {
		t.Errorf("functions print as %q", got)
	}
}

func TestParseKind(t *testing.T) {
	for _, k := range []hash.Kind{hash.Keyed, hash.XXH64} {
		if got, ok := hash.ParseKind(k.String()); got != k || !ok {
			t.Errorf("ParseKind(%q) = %v, %t", k.String(), got, ok)
		}
	}
	for _, word := range []string{"", "Keyed", "xxh", "default", "murmur64a", "murmur3", "highwayhash", "Kind(6)"} {
		if got, ok := hash.ParseKind(word); ok {
			t.Errorf("ParseKind(%q) = %v", word, got)
		}
	}
	if !hash.Default.Valid() || !hash.Highway.Valid() || hash.Kind(6).Valid() {
		t.Error("the default or HighwayHash is not valid, or kind 6 is")
	}
}

func TestNewSecret(t *testing.T) {
	seen := make(map[hash.Secret]bool)
	for range 100 {
		s, err := hash.NewSecret()
		if err != nil {
			t.Fatal(err)
		}
		if seen[s] || s == (hash.Secret{}) {
			t.Fatal("a secret came twice, or is zero")
		}
		seen[s] = true
	}
}

func TestFunction_Sum_allocs(t *testing.T) {
	b := []byte(golden(3000))
	for _, f := range []hash.Function{hash.NewKeyed(secretAt(1)), hash.NewXXH64(1), hash.NewMurmur64A(1)} {
		if n := testing.AllocsPerRun(100, func() {
			sink += f.Sum(b) + f.Sum(b[:20])
		}); n != 0 {
			t.Errorf("%v: %v allocations", f, n)
		}
	}
}
