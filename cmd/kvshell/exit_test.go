package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/reply"
	"github.com/sievekv/sievekv/scalableext"
)

func TestExitCode(t *testing.T) {
	tests := []struct {
		err  error
		want int
	}{
		{nil, exitOK},
		{kv.ErrOptions, exitUsage},
		{kv.ErrLocked, exitLocked},
		{kv.ErrCorrupt, exitCorrupt},
		{kv.ErrNotExist, exitOpen},
		{kv.ErrUnsupportedVersion, exitOpen},
		{kv.ErrFailed, exitLocal},
		{kv.ErrNoSpace, exitLocal},
		{kv.ErrWrongType, exitError},
		{kv.ErrNoModule, exitError},
		{kv.ErrTooLarge, exitError},
		{scalableext.ErrFull, exitError},
		{scalableext.ErrCannotGrow, exitError},
		{context.Canceled, exitInterrupted},
		{fs.ErrPermission, exitLocal},
		{usagef("wrong"), exitUsage},
		{refusef("refused: %w", kv.ErrCorrupt), exitError},
		{openError("dir", fs.ErrPermission), exitOpen},
		{openError("dir", kv.ErrFailed), exitLocal},
		{openError("dir", kv.ErrCorrupt), exitCorrupt},
		{openError("dir", kv.ErrUnsupportedVersion), exitOpen},
	}
	for _, tt := range tests {
		if got := exitCode(tt.err); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.want)
		}
		if tt.err == nil {
			continue
		}
		wrapped := errors.Join(fmt.Errorf("while it ran: %w", tt.err), fs.ErrClosed)
		if got := exitCode(wrapped); got != tt.want {
			t.Errorf("wrapped %v: %d, want %d", tt.err, got, tt.want)
		}
	}
}

func TestReplyCode(t *testing.T) {
	failed := kv.ErrorReply(fmt.Errorf("%w: disk", kv.ErrFailed))
	tests := []struct {
		reply reply.Reply
		want  int
	}{
		{reply.OK, exitOK},
		{reply.Array(reply.Int(1), reply.Nil), exitOK},
		{reply.Error("ERR no such key"), exitError},
		{kv.WrongType, exitError},
		{reply.Array(reply.Int(1), reply.Error("ERR non scaling filter is full")), exitError},
		{failed, exitLocal},
		{kv.ErrorReply(kv.ErrNoSpace), exitLocal},
		{kv.ErrorReply(fmt.Errorf("block 1: %w", kv.ErrCorrupt)), exitCorrupt},
		{reply.Error("ERR unknown command 'kv: corrupt data', with args beginning with: "), exitError},
		{reply.Error("ERR Unsupported option CORRUPT corrupt data"), exitError},
		{reply.BulkString("CORRUPT corrupt data"), exitOK},
		{reply.Map(reply.Field("a", reply.Array(failed, reply.Error("ERR"))), reply.Field("b", reply.Nil)), exitLocal},
	}
	for _, tt := range tests {
		if got := replyCode(tt.reply); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.reply, got, tt.want)
		}
	}
}
