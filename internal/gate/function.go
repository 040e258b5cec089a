package gate

import (
	"reflect"
	"runtime"
	"sync/atomic"
)

// functions is the number of calls of Run that have not returned, in the whole program.
var functions atomic.Int64

// Run calls a function during which the caller has a gate alone. A goroutine that asks Inside in it gets true. Run needs a
// stack frame of its own, by which Inside recognises it.
//
//go:noinline
func Run(f func() error) error {
	functions.Add(1)
	defer functions.Add(-1)
	return f()
}

var runEntry = reflect.ValueOf(Run).Pointer()

// Inside reports whether this goroutine is inside Run: it would wait for itself at the gate. Inside does not recognise
// other goroutines that work for the function. Nor does it know, while several functions run, which of them this is, as
// each may have the gate of another store: then it returns false.
func Inside() bool { return functions.Load() == 1 && runIsOnStack() }

func runIsOnStack() bool {
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:n] {
			if f := runtime.FuncForPC(pc - 1); f != nil && f.Entry() == runEntry {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}
