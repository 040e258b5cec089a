package replica

import (
	"context"
	"fmt"
	"log/slog"
)

// raftLogger passes on raft's messages. It panics at a fatal one, which ends the member.
type raftLogger struct{ to *slog.Logger }

func (l raftLogger) log(level slog.Level, text string) {
	if l.to.Enabled(context.Background(), level) {
		l.to.Log(context.Background(), level, "raft: "+text)
	}
}

func (l raftLogger) Debug(v ...any)               { l.log(slog.LevelDebug, fmt.Sprint(v...)) }
func (l raftLogger) Debugf(form string, v ...any) { l.debugf(form, v) }
func (l raftLogger) Info(v ...any)                { l.log(slog.LevelDebug, fmt.Sprint(v...)) }
func (l raftLogger) Infof(form string, v ...any)  { l.debugf(form, v) }
func (l raftLogger) Warning(v ...any)             { l.log(slog.LevelWarn, fmt.Sprint(v...)) }
func (l raftLogger) Warningf(f string, v ...any)  { l.log(slog.LevelWarn, fmt.Sprintf(f, v...)) }
func (l raftLogger) Error(v ...any)               { l.log(slog.LevelError, fmt.Sprint(v...)) }
func (l raftLogger) Errorf(form string, v ...any) { l.log(slog.LevelError, fmt.Sprintf(form, v...)) }
func (l raftLogger) Fatal(v ...any)               { panic(fmt.Sprint(v...)) }
func (l raftLogger) Fatalf(form string, v ...any) { panic(fmt.Sprintf(form, v...)) }
func (l raftLogger) Panic(v ...any)               { panic(fmt.Sprint(v...)) }
func (l raftLogger) Panicf(form string, v ...any) { panic(fmt.Sprintf(form, v...)) }

func (l raftLogger) debugf(form string, v []any) {
	if l.to.Enabled(context.Background(), slog.LevelDebug) {
		l.log(slog.LevelDebug, fmt.Sprintf(form, v...))
	}
}
