package bitmapext

import "bytes"

// source is a key that an operation reads.
type source struct {
	key   []byte
	times int // as which it counts
}

// sourcesOf returns the keys of an operation, each once, and as how many it counts: a bitmap that is named twice is read
// once. What is set in it is set in two, so for XOR it counts as none, and for ONE as two however often it is named; AND
// and OR with itself are the bitmap. The first key of DIFF, DIFF1 and ANDOR is no other.
func (op Op) sourcesOf(keys [][]byte) []source {
	var list []source
	if op == Diff || op == Diff1 || op == AndOr {
		list, keys = append(list, source{keys[0], 1}), keys[1:]
	}
	if len(keys) == 2 && !bytes.Equal(keys[0], keys[1]) || len(keys) == 1 { // a map would take longer
		for _, key := range keys {
			list = append(list, source{key, 1})
		}
		return list
	}
	place := make(map[string]int, len(keys))
	for _, key := range keys {
		i, named := place[string(key)]
		if !named {
			place[string(key)] = len(list)
			list = append(list, source{key, 1})
			continue
		}
		switch op {
		case Xor:
			list[i].times ^= 1
		case One:
			list[i].times = 2
		}
	}
	return list
}
