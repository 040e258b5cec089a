package filtercmd

import (
	"fmt"
	"testing"

	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// A batch that meets a filter without room goes on behind each item that is refused. It does not look at all the others again
// for each.
func TestAnswersOf_refused(t *testing.T) {
	const n = 3000
	items := make([][]byte, n)
	for i := range items {
		items[i] = fmt.Append(nil, i)
	}
	looked, next := 0, 0
	answer, err := answersOf(nil, items, func(_ *kv.Writer, items [][]byte, added []bool) (int, error) {
		looked += len(items)
		for i := range items {
			if next++; next%10 != 1 {
				return i, fmt.Errorf("%w: too large", scalableext.ErrCannotGrow)
			}
			added[i] = next%20 == 1
		}
		return len(items), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	list := answer.RESP2().Elems()
	if len(list) != n {
		t.Fatalf("%d answers, want %d", len(list), n)
	}
	for i, one := range list {
		if i%10 != 0 != one.IsError() || !one.IsError() && (one.Int() == 1) != (i%20 == 0) {
			t.Fatalf("answer %d is %v", i, one)
		}
	}
	if looked > 3*n {
		t.Errorf("%d items were looked at for %d", looked, n)
	}
}
