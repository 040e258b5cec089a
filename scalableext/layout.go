package scalableext

import (
	"fmt"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// Layout says where the bits or slots of an item are in a new filter, and with which hash.
type Layout uint8

const (
	// LayoutNative: an item lies in one block. Its hash is keyed, unless another is asked for.
	LayoutNative Layout = kv.LayoutNative

	// LayoutCompatible: the filter is RedisBloom's, bit for bit, with MurmurHash64A under a public seed: anyone who
	// chooses items can make them collide.
	LayoutCompatible Layout = kv.LayoutCompatible

	numLayouts = 2 // that a new filter may have

	// LayoutForeign: the Bloom filter was imported from a file of another library, bit for bit, with that library's public
	// hash. New filters cannot have it. Stored on disk: do not renumber.
	LayoutForeign Layout = 2
)

// String returns the word of settings and flags: "native" or "compatible", and "foreign".
func (l Layout) String() string {
	switch l {
	case LayoutNative:
		return "native"
	case LayoutCompatible:
		return "compatible"
	case LayoutForeign:
		return "foreign"
	}
	return fmt.Sprintf("Layout(%d)", uint8(l))
}

// Valid reports whether a new filter may have the layout.
func (l Layout) Valid() bool { return l < numLayouts }

// ParseLayout returns the layout of new filters that a word names.
func ParseLayout(word string) (l Layout, ok bool) {
	for l := LayoutNative; l.Valid(); l++ {
		if word == l.String() {
			return l, true
		}
	}
	return LayoutNative, false
}

// LayoutSetting returns the setting of the layout of filters that commands make. Filters is what they are called.
func LayoutSetting(name, filters string) module.Setting {
	return module.Setting{
		Name: name, Default: LayoutNative.String(),
		Check:   module.WordSetting(LayoutNative.String(), LayoutCompatible.String()),
		Summary: "Layout of new " + filters + ": native, or compatible, which is RedisBloom's bit for bit, with a public hash.",
	}
}

// LayoutOf returns the layout that a setting of a store names.
func LayoutOf(db *kv.DB, name string) Layout {
	l, _ := ParseLayout(module.Of(db).Setting(name))
	return l
}
