package scalableext

import (
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

// SameLength returns an error unless there is one answer for each item.
func SameLength(items int, answers []bool) error {
	if len(answers) != items {
		return fmt.Errorf("sievekv: %d answers for %d items: must be equal", len(answers), items)
	}
	return nil
}

// BytesOf returns the bytes of a string. The caller must not change them.
func BytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// LittleEndian returns the 8 bytes of a number that is an item.
func LittleEndian(v uint64) (b [8]byte) {
	for i := range b {
		b[i] = byte(v >> (8 * i))
	}
	return b
}
