package bloomext_test

import (
	"strconv"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// BenchmarkLayout_commands measures BF.ADD of new items and BF.EXISTS, without a network, at level everysec.
func BenchmarkLayout_commands(b *testing.B) {
	for _, layout := range []string{"native", "compatible"} {
		db, err := kv.Open("", &kv.Options{InMemory: true, Durability: kv.EverySec, Modules: coreext.With(bloomext.Module())})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = db.Close() })
		s := module.NewSession(db)
		do := func(b *testing.B, words ...[]byte) {
			if r := s.Do(b.Context(), words); r.IsError() {
				b.Fatal(r)
			}
		}
		do(b, words("CONFIG SET bf-layout "+layout)...)
		do(b, words("BF.RESERVE f 0.01 1000000")...)
		i := int64(0)
		for _, command := range []string{"BF.ADD", "BF.EXISTS"} {
			b.Run(layout+"/"+command, func(b *testing.B) {
				name, key := []byte(command), []byte("f")
				for b.Loop() {
					i++
					do(b, name, key, strconv.AppendInt(nil, i, 10))
				}
			})
		}
	}
}
