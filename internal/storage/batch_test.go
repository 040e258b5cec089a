package storage

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
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

// A batch that a record was loaded into makes the same record. What is no record of the engine is refused.
func TestBatch_load(t *testing.T) {
	var b Batch
	b.SetCounters(1, 2, [format.NumCounters]uint64{7})
	b.SetSlots(1, 2, 300, block.FamilySlots12, []block.Slot{{Index: 3, Value: 9}})
	b.Set(format.AppendHeaderKey(nil, 5, []byte("key")), []byte("header"))
	b.Set(format.AppendAttributeKey(nil, 1, "name"), nil)
	b.Delete(format.AppendKeyCountKey(nil, 3))
	b.DeleteRange(format.AppendObjectKey(nil, 1), format.AppendObjectKey(nil, 2))
	b.DeleteRange([]byte{format.TagHeader}, []byte{format.TagHeader + 1})
	b.Merge(format.AppendBlockKey(nil, 1, 2, 3), []byte("operand"))
	record := func(b *Batch) []byte {
		to := new(pebble.Batch)
		b.addTo(to)
		return to.Repr()
	}
	var again Batch
	if err := again.Load(record(&b)); err != nil || !bytes.Equal(record(&again), record(&b)) || again.Count() != b.Count() {
		t.Errorf("%v, and %x, want %x", err, record(&again), record(&b))
	}
	for i := range b.Count() {
		if one, other := b.Change(i), again.Change(i); one.Part != other.Part || one.Kind != other.Kind {
			t.Errorf("change %d is %+v, want %+v", i, other, one)
		}
	}
	whole := record(&b)
	for n := range len(whole) {
		if err := again.Load(whole[:n]); err == nil || !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("the first %d bytes of a record: %v, want ErrCorrupt", n, err)
		}
	}
	for name, change := range map[string]func(b *pebble.Batch) error{
		"the identity": func(b *pebble.Batch) error { return b.Set(format.AppendMetaKey(nil, format.MetaStore), nil, nil) },
		"no group":     func(b *pebble.Batch) error { return b.Set(format.AppendMetaKey(nil, format.MetaKeys), nil, nil) },
		"no metadata": func(b *pebble.Batch) error {
			return b.DeleteRange([]byte{format.TagMeta}, []byte{format.TagMeta + 1}, nil)
		},
		"keys of two kinds": func(b *pebble.Batch) error {
			return b.DeleteRange(format.AppendMetaKey(nil, format.MetaKeys), []byte{format.TagMeta + 2}, nil)
		},
		"an empty key":            func(b *pebble.Batch) error { return b.Set(nil, nil, nil) },
		"a header of nothing":     func(b *pebble.Batch) error { return b.Delete([]byte{format.TagHeader}, nil) },
		"an object of nothing":    func(b *pebble.Batch) error { return b.Set(format.AppendObjectKey(nil, 7), nil, nil) },
		"an operand of a counter": func(b *pebble.Batch) error { return b.Merge(format.AppendCountersKey(nil, 1, 2), nil, nil) },
		"an operand of a header":  func(b *pebble.Batch) error { return b.Merge(format.AppendHeaderKey(nil, 1, nil), nil, nil) },
		"items that are not stored so": func(b *pebble.Batch) error { // with a layout of no blocks
			return b.Merge(format.AppendBlockKey(nil, 1, 2, 3), []byte{0xff, 0, 0, 0, 0}, nil)
		},
		"a kind that nobody writes": func(b *pebble.Batch) error { return b.SingleDelete([]byte{format.TagExpiry, 1}, nil) },
	} {
		forged := new(pebble.Batch)
		if err := change(forged); err != nil {
			t.Fatal(err)
		}
		if err := again.Load(forged.Repr()); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
}
