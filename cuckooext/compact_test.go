package cuckooext_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
)

// spread opens a store with a filter whose full layers have room again, and whose last layer has few entries in each
// block, which can go to any older layer. The store's commits are small.
func spread(t *testing.T, full, perBlock int) (*kv.DB, *cuckooext.Filter) {
	t.Helper()
	o := kv.Options{FS: vfs.NewMem(), Durability: kv.NoSync, Seed: 1}
	db := open(t, o)
	f := cuckooext.New(db, "f")
	must(t, f.Reserve(cuckooext.Config{Capacity: 170_000, ErrorRate: 1e-7, Expansion: 1, BucketSize: 2}))
	first := infoOf(t, f).Layers[0]
	items := numbered(0, full*int(first.Capacity)+perBlock*int(first.Blocks))
	addAll(t, f, items)
	for i := 0; i < full*int(first.Capacity); i += 100 { // makes room in all older layers, for more than is moved
		if ok, err := f.Delete(items[i]); !ok || err != nil {
			t.Fatalf("Delete = %t, %v", ok, err)
		}
	}
	must(t, db.Close())
	o.MemTableSize = 256 << 10
	db = open(t, o)
	return db, cuckooext.New(db, "f")
}

// If the entries of a block spread over the older layers, each step still fits into a commit.
func TestFilter_Compact_commitSize(t *testing.T) {
	const full = 5
	db, f := spread(t, full, 6)
	before := infoOf(t, f)
	must(t, f.Compact())
	after := infoOf(t, f)
	moved := before.Layers[full].Items - after.Layers[full].Items
	if moved < before.Layers[full].Items*9/10 || after.Items != before.Items || after.Deletes != 0 {
		t.Errorf("%d entries were moved, want most:\n%+v\n%+v", moved, before, after)
	}
	for i, l := range after.Layers[:full] {
		if l.Items <= before.Layers[i].Items {
			t.Errorf("layer %d: %d entries, %d before, want more", i, l.Items, before.Layers[i].Items)
		}
	}
	check(t, db)
}

// patience is a context that ends after it was asked so many times.
type patience struct {
	context.Context
	left int
}

func (p *patience) Err() error {
	if p.left--; p.left < 0 {
		return context.Canceled
	}
	return nil
}

// CF.COMPACT ends with its context, and keeps what it has done by then.
func TestCompactCommand_canceled(t *testing.T) {
	db, f := spread(t, 2, 6)
	before := infoOf(t, f).Layers[2].Items
	ctx := &patience{t.Context(), 3}
	words := [][]byte{[]byte("CF.COMPACT"), []byte("f")}
	if r := module.NewSession(db).Do(ctx, words); r.String() != "(error) ERR context canceled" {
		t.Errorf("CF.COMPACT = %v", r)
	}
	part := infoOf(t, f).Layers[2].Items
	if r := module.NewSession(db).Do(t.Context(), words); r.IsError() {
		t.Errorf("CF.COMPACT = %v", r)
	}
	if after := infoOf(t, f).Layers[2].Items; part >= before || after >= part {
		t.Errorf("%d entries, %d when the command was canceled, %d at last, want fewer each time", before, part, after)
	}
	check(t, db)
}

// If no older layer has room, nothing is read.
func TestFilter_Compact_noRoom(t *testing.T) {
	o := kv.Options{FS: vfs.NewMem(), Durability: kv.NoSync, Seed: 1}
	db := open(t, o)
	f := cuckooext.New(db, "f")
	must(t, f.Reserve(cuckooext.Config{Capacity: 1000, Expansion: 64}))
	items := numbered(0, int(infoOf(t, f).Capacity)+2000)
	addAll(t, f, items)
	must(t, db.Close())
	db = open(t, o)
	f = cuckooext.New(db, "f")
	must(t, f.Compact())
	if n := infoNumber(t, db, "blocks_read"); n != 0 {
		t.Errorf("%d blocks were read, want none", n)
	}
	if info := infoOf(t, f); len(info.Layers) != 2 || info.Layers[1].Items != 2000 {
		t.Errorf("Info = %+v, want 2000 entries in the second layer", info)
	}
	check(t, db)
}

// If little can be moved, the filter is still compacted in steps, so that other writes go on. Each step continues
// where the one before stopped, even if the store, and so the filter, was closed in between.
func TestFilter_Compact_steps(t *testing.T) {
	const seed, budget = 1, 32 << 10
	o := kv.Options{FS: vfs.NewMem(), Durability: kv.NoSync, Seed: seed}
	db := open(t, o)
	f := cuckooext.New(db, "f")
	must(t, f.Reserve(cuckooext.Config{Capacity: 9000, Expansion: 512}))
	if n := infoOf(t, f).Layers[0].Blocks; n != 2 {
		t.Fatalf("%d blocks, want 2", n)
	}
	var items [][]byte // that take the room of one block, and none of the other
	for _, item := range numbered(0, 16_000) {
		if cuckooext.BlockOf(item, seed, 2) == 1 {
			items = append(items, item)
		}
	}
	addAll(t, f, items)
	before := infoOf(t, f).Layers
	if len(before) != 2 || before[0].Items >= before[0].Capacity*2/3 || before[1].Items < 1000 {
		t.Fatalf("%+v, want a layer with room for many items, in one of its blocks, and another", before)
	}
	steps := 0
	for more := true; more; steps++ {
		db.QueueCompact([]byte("f"))
		var err error
		more, err = db.CompactQueued(t.Context(), budget)
		must(t, err)
		must(t, db.Close())
		db = open(t, o)
	}
	f = cuckooext.New(db, "f")
	after := infoOf(t, f).Layers
	if steps < 4 || len(after) != 2 || after[1].Items >= before[1].Items {
		t.Errorf("%d steps, want several and fewer entries in the second layer:\n%+v\n%+v", steps, before, after)
	}
	// Each block that was read, and at most two for each entry that was moved.
	most := (2*512*256 + int(before[1].Items-after[1].Items)*(2*288+12)) / budget
	if steps > most+2 {
		t.Errorf("%d steps, want %d at most", steps, most+2)
	}
	for _, item := range items {
		if ok, err := f.MayContain(item); !ok || err != nil {
			t.Fatalf("MayContain = %t, %v", ok, err)
		}
	}
	check(t, db)
}

// addMany adds items, and returns how many had room.
func addMany(f *cuckooext.Filter, items [][]byte) (n int, err error) {
	before, err := f.Info()
	if err != nil {
		return 0, err
	}
	_, full := f.AddMany(items, nil)
	after, err := f.Info()
	return int(after.Items - before.Items), errors.Join(full, err)
}

func addAll(t *testing.T, f *cuckooext.Filter, items [][]byte) {
	t.Helper()
	if n, err := addMany(f, items); n != len(items) || err != nil {
		t.Fatalf("AddMany = %d, %v, want %d", n, err, len(items))
	}
}

// A compaction reads only blocks that are stored, however many its newest layer has.
func TestCompactCommand_sparse(t *testing.T) {
	for name, c := range map[string]cuckooext.Config{
		"native":     {Capacity: 10_000, Expansion: 32768},
		"compatible": {Capacity: 32768, Expansion: 32768, BucketSize: 4, Layout: scalableext.LayoutCompatible},
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t, kv.Options{FS: vfs.NewMem(), Durability: kv.NoSync, Seed: 1})
			f := cuckooext.New(db, "f")
			must(t, f.Reserve(c))
			n := 0
			for len(infoOf(t, f).Layers) == 1 {
				addAll(t, f, numbered(n, 500))
				n += 500
			}
			for _, item := range numbered(0, 2000) { // makes room in the oldest layer
				if ok, err := f.Delete(item); !ok || err != nil {
					t.Fatalf("Delete = %t, %v", ok, err)
				}
			}
			before := infoOf(t, f)
			if l := before.Layers; len(l) != 2 || l[1].Blocks < 90_000 || l[1].Items < 10 || l[1].Items > 500 {
				t.Fatalf("%+v, want a second layer of many blocks and few items", before)
			}
			ctx := &patience{t.Context(), 5}
			if r := module.NewSession(db).Do(ctx, [][]byte{[]byte("CF.COMPACT"), []byte("f")}); r.IsError() {
				t.Errorf("CF.COMPACT = %v", r)
			}
			if after := infoOf(t, f); after.Items != before.Items || after.Layers[0].Items <= before.Layers[0].Items {
				t.Errorf("%+v, want as many items as before, more of them in the first layer:\n%+v", after, before)
			}
			for _, item := range numbered(2000, n-2000) {
				if ok, err := f.MayContain(item); !ok || err != nil {
					t.Fatalf("MayContain = %t, %v", ok, err)
				}
			}
			check(t, db)
		})
	}
}
