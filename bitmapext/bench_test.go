package bitmapext_test

import (
	"encoding/binary"
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/sievekv/sievekv/bitmapext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
)

// BenchmarkStore combines seven bitmaps of ten million users into an eighth, in a store on disk. Half of the bits are
// set, or one in a thousand.
func BenchmarkStore(b *testing.B) {
	const users = 10_000_000
	db, err := kv.Open(b.TempDir(), &kv.Options{
		Modules: coreext.With(), Durability: kv.EverySec, BallastSize: -1, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	write := func(b *testing.B, keys [][]byte, change func(*kv.Writer) error) {
		if err := db.Write(kv.EverySec, keys, change); err != nil {
			b.Fatal(err)
		}
	}
	random, result := rand.New(rand.NewPCG(1, 2)), []byte("result")
	for _, kind := range []string{"dense", "sparse"} {
		var keys [][]byte
		for i := range 7 {
			bits := make([]byte, users/8)
			for j := 0; kind == "dense" && j < len(bits); j += 8 {
				binary.LittleEndian.PutUint64(bits[j:], random.Uint64())
			}
			for j := 0; kind == "sparse" && j < users/1000; j++ {
				n := random.IntN(users)
				bits[n/8] |= 1 << (n % 8)
			}
			key := append([]byte(kind), byte('0'+i))
			keys = append(keys, key)
			write(b, keys[i:], func(w *kv.Writer) error {
				if _, err := w.Set(key, bits, kv.SetOptions{}); err != nil {
					return err
				}
				_, err := bitmapext.Store(b.Context(), w, bitmapext.Or, key, key)
				return err
			})
		}
		for _, op := range []bitmapext.Op{bitmapext.And, bitmapext.Or, bitmapext.One} {
			b.Run(op.String()+"/"+kind, func(b *testing.B) {
				for b.Loop() {
					write(b, append(keys[:7:7], result), func(w *kv.Writer) error {
						_, err := bitmapext.Store(b.Context(), w, op, result, keys...)
						return err
					})
				}
			})
		}
	}
}
