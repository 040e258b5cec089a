package kv

import (
	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/memory"
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

// layerID names a layer in all incarnations of its object.
type layerID struct{ object, number uint64 }

func idOf(l *Layer) layerID { return layerID{l.Object(), l.Number()} }
