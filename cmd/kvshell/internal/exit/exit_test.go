package exit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

func TestCode(t *testing.T) {
	tests := []struct {
		err  error
		want int
	}{
		{nil, OK},
		{kv.ErrOptions, Usage},
		{kv.ErrLocked, Locked},
		{kv.ErrCorrupt, Corrupt},
		{kv.ErrNotExist, Open},
		{kv.ErrUnsupportedVersion, Open},
		{kv.ErrFailed, Local},
		{kv.ErrNoSpace, Local},
		{kv.ErrWrongType, Refused},
		{kv.ErrNoModule, Refused},
		{kv.ErrTooLarge, Refused},
		{scalableext.ErrFull, Refused},
		{scalableext.ErrCannotGrow, Refused},
		{context.Canceled, Interrupted},
		{fs.ErrPermission, Local},
		{Usagef("wrong"), Usage},
		{Refusef("refused: %w", kv.ErrCorrupt), Refused},
	}
	for _, tt := range tests {
		if got := Code(tt.err); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.want)
		}
		if tt.err == nil {
			continue
		}
		wrapped := errors.Join(fmt.Errorf("while it ran: %w", tt.err), fs.ErrClosed)
		if got := Code(wrapped); got != tt.want {
			t.Errorf("wrapped %v: %d, want %d", tt.err, got, tt.want)
		}
	}
}

func TestReplyCode(t *testing.T) {
	failed := module.ErrorReply(fmt.Errorf("%w: disk", kv.ErrFailed))
	tests := []struct {
		reply reply.Reply
		want  int
	}{
		{reply.OK, OK},
		{reply.Array(reply.Int(1), reply.Nil), OK},
		{reply.Error("ERR no such key"), Refused},
		{module.WrongType, Refused},
		{reply.Array(reply.Int(1), reply.Error("ERR non scaling filter is full")), Refused},
		{failed, Local},
		{module.ErrorReply(kv.ErrNoSpace), Local},
		{module.ErrorReply(fmt.Errorf("block 1: %w", kv.ErrCorrupt)), Corrupt},
		{reply.Error("ERR unknown command 'kv: corrupt data', with args beginning with: "), Refused},
		{reply.Error("ERR Unsupported option CORRUPT corrupt data"), Refused},
		{reply.BulkString("CORRUPT corrupt data"), OK},
		{reply.Map(reply.Field("a", reply.Array(failed, reply.Error("ERR"))), reply.Field("b", reply.Nil)), Local},
	}
	for _, tt := range tests {
		if got := ReplyCode(tt.reply); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.reply, got, tt.want)
		}
	}
}
