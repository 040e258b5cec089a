package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// The registers are the words of one layer: register i is word i%1024 of block i/1024. The parameters of a counter
// are the seed of its hashes, 8 bytes, little-endian. Stored: a change needs another version in counterType.
const (
	numBlocks     = numRegisters / kv.BlockWords
	linesPerBlock = kv.BlockLines
	paramsLen     = 8
)

var counterType = &kv.Type{
	Name: "hyperloglog", Version: 1, Open: openCounter,
	Verify: func(*kv.Object) kv.Verifier { return verifier{} },
}

// hllModule returns the type and its commands, for coreext.With.
func hllModule() module.Module {
	return module.Module{Name: "hll", Types: []*kv.Type{counterType}, Commands: []module.Command{{
		Name: "HLL.ADD", Arity: -3, Flags: module.Write | module.DenyOOM | module.ModuleFlag,
		FirstKey: 1, LastKey: 1, KeyStep: 1, Group: "hyperloglog",
		Summary: "Adds items in one commit, making the counter if there is none; answers 1 if that changed it, else 0.",
		Syntax:  "key item [item ...]", Complexity: "O(N) for N items", Example: "HLL.ADD visitors alice bob",
		Handler: add,
	}, {
		Name: "HLL.COUNT", Arity: 2, Flags: module.ReadOnly | module.Fast | module.ModuleFlag,
		FirstKey: 1, LastKey: 1, KeyStep: 1, Group: "hyperloglog",
		Summary: "Estimates how many different items were added, with a standard error of 1.6 %; 0 for a missing key.",
		Syntax:  "key", Complexity: "O(1)", Example: "HLL.COUNT visitors",
		Handler: count,
	}, {
		Name: "HLL.MERGE", Arity: -3, Flags: module.Write | module.DenyOOM | module.ModuleFlag,
		FirstKey: 1, LastKey: -1, KeyStep: 1, Group: "hyperloglog",
		Summary: "Adds to dest all that was added to the other counters; a missing one is empty.",
		Syntax:  "dest src [src ...]", Complexity: "O(N) for N counters", Example: "HLL.MERGE week monday tuesday",
		Handler: merge,
	}}}
}

// counter is what an open object of the type is to this module. It never changes.
type counter struct {
	object *kv.Object
	table  *kv.Layer
	seed   uint64
}

func openCounter(o *kv.Object) (any, error) {
	params, layers := o.Params(), o.Layers()
	if len(params) != paramsLen || len(layers) != 1 || o.Family() != kv.FamilyBits {
		return nil, fmt.Errorf("%w: counter of %d layers of %v with parameters %x",
			kv.ErrCorrupt, len(layers), o.Family(), params)
	}
	if s := layers[0].Spec(); s.Layout != kv.LayoutNative || s.Blocks != numBlocks || s.Lines != linesPerBlock {
		return nil, fmt.Errorf("%w: counter in %d blocks of %d lines, layout %d", kv.ErrCorrupt, s.Blocks, s.Lines, s.Layout)
	}
	return &counter{object: o, table: layers[0], seed: binary.LittleEndian.Uint64(params)}, nil
}

// staged returns the counter under a key as w has left it, made if there is none.
func staged(w *kv.Writer, key []byte, seed uint64) (*counter, error) {
	o, err := w.Object(key)
	if err == nil && o == nil {
		o, err = w.Create(key, kv.Spec{
			Type: counterType, Family: kv.FamilyBits, Params: binary.LittleEndian.AppendUint64(nil, seed),
			Layers: []kv.LayerSpec{{Layout: kv.LayoutNative, Blocks: numBlocks, Lines: linesPerBlock}},
		})
	}
	if err != nil {
		return nil, err
	}
	return kv.As[*counter](key, o)
}

// add stages the adding of an item and reports whether that changes the counter:
// an item whose bit is set costs nothing, another an operand of a few bytes.
func (h *counter) add(w *kv.Writer, item []byte) (bool, error) {
	digest := xxhash.NewWithSeed(h.seed)
	_, _ = digest.Write(item) // it never fails
	register, rank := place(digest.Sum64())
	position := uint16(register%kv.BlockWords*64) + uint16(rank)
	n, err := w.SetBits(h.object, h.table, register/kv.BlockWords, []uint16{position})
	return n > 0, err
}

// unite stages the adding of all that was added to another counter.
func (h *counter) unite(w *kv.Writer, other *counter) error {
	if h.seed != other.seed {
		return fmt.Errorf("hll: counters cannot be merged: seed of hashes of %q is %d, of %q %d",
			h.object.Key(), h.seed, other.object.Key(), other.seed)
	}
	words := make([]uint64, kv.BlockWords)
	var positions []uint16
	for blk := range uint64(numBlocks) {
		if err := w.ReadBlock(other.object, other.table, blk, words); err != nil {
			return err
		}
		positions = positions[:0]
		for i, word := range words {
			for ; word != 0; word &= word - 1 {
				positions = append(positions, uint16(i*64+bits.TrailingZeros64(word)))
			}
		}
		if _, err := w.SetBits(h.object, h.table, blk, positions); err != nil {
			return err
		}
	}
	return nil
}

// load reads the registers.
func (h *counter) load(r kv.Reader) ([]uint64, error) {
	registers := make([]uint64, 0, numRegisters)
	for blk := range uint64(numBlocks) {
		first, err := r.Load(h.object, h.table, blk)
		if err != nil {
			return nil, err
		}
		words := h.table.Words(first) // commits may be setting bits meanwhile
		for i := range words {
			registers = append(registers, atomic.LoadUint64(&words[i]))
		}
	}
	return registers, nil
}

// verifier finds bits that no item can set.
type verifier struct{}

func (verifier) Block(_ *kv.Layer, blk uint64, words []uint64) error {
	for i, word := range words {
		if word>>(maxRank+1) != 0 {
			return fmt.Errorf("%w: register %d is %#x, with bits above %d",
				kv.ErrCorrupt, blk*kv.BlockWords+uint64(i), word, maxRank)
		}
	}
	return nil
}

func (verifier) Done() (note string, err error) { return "", nil }

func add(c *module.Call) reply.Reply {
	return c.Update(c.Args[:1], func(w *kv.Writer) (reply.Reply, error) {
		h, err := staged(w, c.Args[0], c.DB.Seed())
		if err != nil {
			return reply.Nil, err
		}
		changed := int64(0)
		for _, item := range c.Args[1:] {
			did, err := h.add(w, item)
			if err != nil {
				return reply.Nil, err
			}
			if did {
				changed = 1
			}
		}
		return reply.Int(changed), nil
	})
}

func count(c *module.Call) reply.Reply {
	n := 0.0
	err := c.Read(func(r kv.Reader) error {
		n = 0
		o, err := r.Lookup(c.Args[0])
		if err != nil || o == nil {
			return err
		}
		h, err := kv.As[*counter](c.Args[0], o)
		if err != nil {
			return err
		}
		registers, err := h.load(r)
		if err == nil {
			n = estimate(registers)
		}
		return err
	})
	if err != nil {
		return module.ErrorReply(err)
	}
	return reply.Int(int64(math.Round(n)))
}

func merge(c *module.Call) reply.Reply {
	return c.Update(c.Args, func(w *kv.Writer) (reply.Reply, error) {
		var sources []*counter
		seed := c.DB.Seed()
		for _, key := range c.Args[1:] {
			o, err := w.Object(key)
			if err != nil {
				return reply.Nil, err
			}
			if o == nil {
				continue
			}
			h, err := kv.As[*counter](key, o)
			if err != nil {
				return reply.Nil, err
			}
			sources, seed = append(sources, h), h.seed
		}
		dest, err := staged(w, c.Args[0], seed)
		if err != nil {
			return reply.Nil, err
		}
		for _, source := range sources {
			if err := dest.unite(w, source); err != nil {
				return reply.Nil, err
			}
		}
		return reply.OK, nil
	})
}
