package storage

import (
	"context"
	"slices"
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
				var b Batch
				b.Set(format.AppendBlockKey(nil, object, 0, blk), []byte("x"))
				if _, err := s.Commit(&b, Now); err != nil {
					t.Fatal(err)
				}
			}
			for blk := range tt.blocks {
				set(object, uint64(blk))
			}
			set(object-1, 0)
			set(object+1, 0)
			if tt.pending {
				var b Batch
				b.SetSlots(object, 0, 3, block.FamilySlots8, []block.Slot{{Index: 1, Value: 1}})
				if _, pending := s.pend(&b); !pending {
					t.Fatal("not pending")
				}
			}

			var b Batch
			for range tt.before {
				b.Delete([]byte{format.TagHeader})
			}
			DeleteAll(s.Store, &b, format.AppendObjectKey(nil, object), format.AppendObjectKey(nil, object+1))
			var got []Kind
			for i := range b.Count() {
				got = append(got, b.Change(i).Kind)
			}
			if !slices.Equal(got[tt.before:], tt.want) {
				t.Errorf("changes %v, want %v", got[tt.before:], tt.want)
			}
			if _, err := s.Commit(&b, Now); err != nil {
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
