package scalableext

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

// ItemError is the error of adding or deleting many items: it has the index of the item that failed, and wraps its
// error.
type ItemError struct {
	Item int // its index
	Err  error
}

func (e *ItemError) Error() string { return fmt.Sprintf("item %d: %v", e.Item, e.Err) }

func (e *ItemError) Unwrap() error { return e.Err }

// EachBatch calls change until all items are done, each time with those that are left, at most size of them, and
// returns how many of the answers are true. answers may be nil if they are not wanted; otherwise it is as long as
// items. change makes one commit, and returns how many of the items it did: at least one, if it returns no error. A
// failure ends EachBatch with an *ItemError.
func EachBatch[T any](items []T, answers []bool, size int, change func(items []T, answers []bool) (done int, err error)) (n int, err error) {
	if answers != nil {
		if err := SameLength(len(items), answers); err != nil {
			return 0, err
		}
	}
	var own []bool
	for start := 0; start < len(items); {
		batch := items[start:min(start+size, len(items))]
		var set []bool
		if answers != nil {
			set = answers[start : start+len(batch)]
		} else {
			if own == nil {
				own = make([]bool, len(batch))
			}
			set = own[:len(batch)]
		}
		done, err := change(batch, set)
		for _, yes := range set[:done] {
			if yes {
				n++
			}
		}
		if err != nil {
			if answers != nil {
				clear(answers[start+done:])
			}
			return n, &ItemError{start + done, err}
		}
		start += done
	}
	return n, nil
}

// SameLength returns ErrLength unless there is one answer for each item.
func SameLength(items int, answers []bool) error {
	if len(answers) != items {
		return fmt.Errorf("%w: %d answers for %d items", ErrLength, len(answers), items)
	}
	return nil
}

// BytesOf returns the bytes of a string. The caller must not change them.
func BytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// BytesOfAll returns the bytes of strings. The caller must not change them.
func BytesOfAll(items []string) [][]byte {
	list := make([][]byte, len(items))
	for i, item := range items {
		list[i] = BytesOf(item)
	}
	return list
}

// Uint64 returns the item that stands for an integer: its 8 bytes, the lowest first.
func Uint64(v uint64) []byte { return binary.LittleEndian.AppendUint64(make([]byte, 0, 8), v) }

// Uint64s is Uint64 for many integers.
func Uint64s(values ...uint64) [][]byte {
	all, list := make([]byte, 0, 8*len(values)), make([][]byte, len(values))
	for i, v := range values {
		all = binary.LittleEndian.AppendUint64(all, v)
		list[i] = all[8*i : 8*i+8]
	}
	return list
}
