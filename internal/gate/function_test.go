package gate

import "testing"

// The goroutine that runs a function is inside of it, however deep its stack is. Another is not, and none is that runs
// none.
func TestGate_inside(t *testing.T) {
	if Inside() {
		t.Error("inside of no function")
	}
	var deep func(n int) bool
	deep = func(n int) bool {
		if n == 0 {
			return Inside()
		}
		return deep(n - 1)
	}
	_ = Run(func() error {
		for _, n := range []int{0, 1, 50, 60, 61, 62, 63, 64, 65, 66, 300} {
			if !deep(n) {
				t.Errorf("not inside, %d calls below the function", n)
			}
		}
		other := make(chan bool)
		go func() { other <- Inside() }()
		if <-other {
			t.Error("a goroutine is inside of the function that another runs")
		}
		return nil
	})
	if Inside() {
		t.Error("inside of a function that has returned")
	}
}

// While several functions run, nobody knows in which a goroutine is; a panic ends a function, too.
func TestGate_insideOneOfSeveral(t *testing.T) {
	_ = Run(func() error {
		func() {
			defer func() { _ = recover() }()
			_ = Run(func() error {
				if Inside() {
					t.Error("inside of one of two functions")
				}
				panic("the function's")
			})
		}()
		if !Inside() {
			t.Error("not inside once the other function has ended")
		}
		return nil
	})
}
