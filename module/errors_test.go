package module_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// Error replies have a code and no package names at the start; the rest of the text stays.
func TestErrorReply(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("%w: key of 70000 bytes, at most 65536", kv.ErrTooLarge), "ERR too large: key of 70000 bytes, at most 65536"},
		{fmt.Errorf("%w: capacity is 0, want 1 to 10", probe.ErrParams), "ERR parameter out of range: capacity is 0, want 1 to 10"},
		{errors.New("hll2: seed of \"kv: a\" is 1: want 2"), "ERR seed of \"kv: a\" is 1: want 2"},
		{fmt.Errorf("key \"kv: \": %w", kv.ErrTooLarge), "ERR key \"kv: \": too large"},
		{fmt.Errorf("%w: block 7", kv.ErrCorrupt), "CORRUPT corrupt data: block 7"},
		{kv.ErrNoSpace, "MISCONF disk is full, writes are refused"},
		{fmt.Errorf("key \"k\": %w", kv.ErrNotInteger), "ERR value is not an integer or out of range"},
		{kv.ErrWrongType, "WRONGTYPE Operation against a key holding the wrong kind of value"},
		{reply.TextError("kv: as it is"), "kv: as it is"},
		{context.Canceled, "ERR context canceled"},
	} {
		if got := module.ErrorReply(tt.err); string(got.Bytes()) != tt.want || !got.IsError() {
			t.Errorf("ErrorReply(%v) = %v, want the error %s", tt.err, got, tt.want)
		}
	}
}
