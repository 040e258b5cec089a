package storage

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/format"
)

// The keys of a range are deleted one by one if they are few, and all at once if they are many or the batch is large.
func TestDeleteAll(t *testing.T) {
	const object = 7
	for _, tt := range []struct {
		name           string
		blocks, before int
		pending        bool
		want           []Kind
	}{
		{name: "nothing"},
		{name: "one", blocks: 1, want: []Kind{KindDelete}},
		{name: "pending", pending: true, want: []Kind{KindDelete}},
		{name: "as many as are few", blocks: fewKeys, want: slices.Repeat([]Kind{KindDelete}, fewKeys)},
		{name: "many", blocks: fewKeys + 1, want: []Kind{KindRangeDelete}},
		{name: "few after little", blocks: 1, before: manyChanges - 1, want: []Kind{KindDelete}},
		{name: "few after much", blocks: 1, before: manyChanges, want: []Kind{KindRangeDelete}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openNumbered(t, vfs.NewMem(), "store")
			defer s.close()
			set := func(object, blk uint64) {
				b := s.NewBatch()
				must(b.Set(format.AppendBlockKey(nil, object, 0, blk), []byte("x"), nil))
				if _, err := s.Commit(b, false); err != nil {
					t.Fatal(err)
				}
				must(b.Close())
			}
			for blk := range tt.blocks {
				set(object, uint64(blk))
			}
			set(object-1, 0)
			set(object+1, 0)
			if tt.pending {
				var bits block.BitSet
				bits.Add(1)
				small := &SmallCommit{Blocks: []BlockBits{{Layer{object, 0}, 3, &bits}}}
				if ok, _ := s.Append(small, new(atomic.Uint64)); !ok {
					t.Fatal("not pending")
				}
			}

			b := s.NewBatch()
			defer func() { must(b.Close()) }()
			for range tt.before {
				must(b.Delete([]byte{format.TagHeader}, nil))
			}
			DeleteAll(s.Store, b, format.AppendObjectKey(nil, object), format.AppendObjectKey(nil, object+1))
			var got []Kind
			EachChange(b, func(kind Kind, _, _ []byte) bool {
				got = append(got, kind)
				return true
			})
			if !slices.Equal(got[tt.before:], tt.want) {
				t.Errorf("changes %v, want %v", got[tt.before:], tt.want)
			}
			if _, err := s.Commit(b, false); err != nil {
				t.Fatal(err)
			}
			it, err := s.NewIterWithContext(context.Background(), &IterOptions{LowerBound: []byte{format.TagObject}})
			if err != nil {
				t.Fatal(err)
			}
			var left []uint64
			for ok := it.First(); ok; ok = it.Next() {
				object, _ := format.DecodeOrdered(it.Key()[1:])
				left = append(left, object)
			}
			must(it.Close())
			if want := []uint64{object - 1, object + 1}; !slices.Equal(left, want) {
				t.Errorf("objects %v are left, want %v", left, want)
			}
		})
	}
}
