package kv

import (
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/memory"
)

// Line is 512 bits, the unit a block is made of.
type Line = memory.Line

// Layer is one layer of an open object, and what is in memory of it.
type Layer = memory.Layer

// LayerSpec is the stored description of one layer.
type LayerSpec = format.LayerSpec

// LayoutNative is the layout of layers in which the hash of an item picks one block, and everything else about the
// item lies in that block. A layer in LayoutCompatible is an array as RedisBloom has it.
const (
	LayoutNative     = format.LayoutNative
	LayoutCompatible = format.LayoutCompatible
	LayoutLog        = format.LayoutLog
)

// Family says what the bits of an object's blocks mean: FamilyBits, or the width of a slot in bits, which is 4, 8, 10, 12, 14, 16,
// 18, 20, 24 or 32. It is stored.
type Family = block.Family

// FamilyBits is the family of blocks whose bits are only ever set.
const FamilyBits = block.FamilyBits

// The size of a block of full length.
const (
	BlockWords = block.MaxWords // words of 64 bits
	BlockLines = block.MaxLines // lines of 512 bits
)

// layerID names a layer in all incarnations of its object.
type layerID struct{ object, number uint64 }

func idOf(l *Layer) layerID { return layerID{l.Object(), l.Number()} }
