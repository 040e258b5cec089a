package scalableext_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/filtercmd"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

// tagsType is the stored type: its name and version are never used for anything else.
var tagsType = &kv.Type{Name: "example-tags", Version: 1, Open: openTags}

// tags is the Go value of an open filter. It never changes: growing makes another one.
type tags struct {
	object *kv.Object
	chain  *scalableext.Chain[layer]
}

// layer is a filter of fixed size.
type layer struct {
	layout probe.Layout
	table  *kv.Layer
}

// items is the number of the counter that has a layer's number of items.
const items = 0

// cells describes the bits of the layers. The bounds of the parameters, and the shares of the error rate, are the same
// for all filters.
var cells = scalableext.Cells{
	Package: "tags", Name: "bits", Count: (*probe.Layout).Bits, Size: probe.Size, From: probe.FromBits,
	Layer: func(l probe.Layout, _ uint64, _ float64) kv.LayerSpec {
		return kv.LayerSpec{Layout: kv.LayoutNative, Blocks: l.Blocks, Lines: l.Lines, Params: []byte{l.Hashes, l.LinesPerItem}}
	},
}

// small describes a filter that is made by adding to a missing key: it has room for a hundred items, and grows.
func small(db *kv.DB) (kv.Spec, error) {
	asked := scalableext.Asked{Capacity: 100, ErrorRate: 0.001}
	return cells.Spec(db, asked, 0, 0, kv.Spec{Type: tagsType, Family: block.FamilyBits})
}

func openTags(o *kv.Object) (any, error) {
	chain, err := scalableext.Open(o, func(_ scalableext.Params, l *kv.Layer) (layer, error) {
		s := l.Spec()
		if len(s.Params) != 2 {
			return layer{}, fmt.Errorf("%w: tags with the parameters %x", kv.ErrCorrupt, s.Params)
		}
		layout, err := probe.NewLayout(s.Blocks, uint64(s.Lines), uint64(s.Params[0]), uint64(s.Params[1]))
		return layer{layout, l}, err
	})
	return &tags{o, chain}, err
}

// add stages an item, and reports whether it is new.
func (t *tags) add(w *kv.Writer, item []byte) (bool, error) {
	sum := t.chain.Params.Hash.Sum(item)
	for _, l := range t.chain.NewestFirst() {
		blk, _ := l.layout.Block(sum)
		present, err := w.HasBits(t.object, l.table, blk, l.layout.AppendPositions(nil, sum))
		if present || err != nil {
			return false, err
		}
	}
	newest := t.chain.Newest()
	capacity, _, err := t.chain.Params.Layer(len(t.chain.NewestFirst()) - 1)
	if err != nil {
		return false, err
	}
	if w.Counter(newest.table, items) >= capacity {
		grown, err := t.chain.Grow(w, t.object, func(capacity uint64, rate float64) (kv.LayerSpec, error) {
			layout, err := probe.Size(capacity, rate)
			return cells.Layer(layout, capacity, rate), err
		})
		if err != nil {
			return false, err // scalableext.ErrCannotGrow
		}
		if t, err = kv.As[*tags]([]byte(grown.Key()), grown); err != nil {
			return false, err
		}
		newest = t.chain.Newest()
	}
	w.SetCounter(newest.table, items, w.Counter(newest.table, items)+1)
	blk, _ := newest.layout.Block(sum)
	_, err = w.SetBits(t.object, newest.table, blk, newest.layout.AppendPositions(nil, sum))
	return true, err
}

// mayContain looks at one block of each layer.
func (t *tags) mayContain(r kv.Reader, item []byte) (bool, error) {
	sum := t.chain.Params.Hash.Sum(item)
	for _, l := range t.chain.NewestFirst() {
		blk, rest := l.layout.Block(sum)
		first, err := r.Load(t.object, l.table, blk)
		if err != nil || l.layout.Test(first, rest, sum) {
			return true, err
		}
	}
	return false, nil
}

// noTags is the filter of a new handle.
var noTags = &tags{object: kv.EndedObject()}

func addCommand(c *module.Call) reply.Reply {
	h := scalableext.HandleFor(c, c.Args[0], noTags)
	return filtercmd.Bool(h.Change(c.Level(), small, func(w *kv.Writer, t *tags) (bool, error) { return t.add(w, c.Args[1]) }))
}

func existsCommand(c *module.Call) reply.Reply {
	h := scalableext.HandleFor(c, c.Args[0], noTags)
	var present bool
	err := h.Look(func(r kv.Reader, t *tags) (err error) {
		present, err = t.mayContain(r, c.Args[1])
		return err
	})
	if filtercmd.Absent(err) {
		present, err = false, nil
	}
	return filtercmd.Bool(present, err)
}

// A program's own type of filter, a Bloom filter that grows, with two commands. The handle finds the filter under a
// key, makes it, and repeats lookups; the chain opens its layers and adds new ones.
func Example() {
	tagsModule := module.Module{Name: "tags", Types: []*kv.Type{tagsType}, Commands: filtercmd.Commands("tags", []module.Command{
		{
			Name: "TAG.ADD", Arity: 3, Flags: module.Write | module.DenyOOM | module.ModuleFlag, Syntax: "key item",
			Summary:    "Adds an item; answers 1 if it is new, else 0.",
			Complexity: "O(1)", Example: "TAG.ADD post:1 go", Handler: addCommand,
		},
		{
			Name: "TAG.EXISTS", Arity: 3, Flags: module.ReadOnly | module.Fast | module.ModuleFlag, Syntax: "key item",
			Summary:    "Answers 1 if the item may have been added, else 0.",
			Complexity: "O(1)", Example: "TAG.EXISTS post:1 go", Handler: existsCommand,
		},
	})}
	db, err := kv.Open("", &kv.Options{InMemory: true, Seed: 1, Modules: coreext.With(tagsModule)})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	session := module.NewSession(db)
	do := func(words ...string) reply.Reply {
		args := make([][]byte, len(words))
		for i, word := range words {
			args[i] = []byte(word)
		}
		return session.Do(context.Background(), args)
	}
	fmt.Println(do("TAG.ADD", "post:1", "go"))
	fmt.Println(do("TAG.ADD", "post:1", "go"))
	fmt.Println(do("TAG.EXISTS", "post:1", "go"))
	fmt.Println(do("TAG.EXISTS", "post:1", "rust"))
	fmt.Println(do("TAG.EXISTS", "post:2", "go"))

	for i := range 1000 { // ten times the capacity
		if r := do("TAG.ADD", "post:1", fmt.Sprint("tag ", i)); r.IsError() {
			log.Fatal(r)
		}
	}
	layers, err := scalableext.Ask(scalableext.NewHandle(db, []byte("post:1"), nil, noTags), func(t *tags, _ kv.Reader) int {
		return len(t.chain.NewestFirst())
	})
	fmt.Println(layers, "layers", err)
	fmt.Println(do("TAG.EXISTS", "post:1", "go"))
	// Output:
	// (integer) 1
	// (integer) 0
	// (integer) 1
	// (integer) 0
	// (integer) 0
	// 4 layers <nil>
	// (integer) 1
}
