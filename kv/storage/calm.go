package storage

import (
	"context"
	"log/slog"
)

// CalmLogger returns a logger whose panics are kept: it is told of things in the middle of what must
// go on, such as a store that fails.
func CalmLogger(l *slog.Logger) *slog.Logger { return slog.New(calmHandler{l.Handler()}) }

type calmHandler struct{ slog.Handler }

func (h calmHandler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	defer ignorePanic()
	return h.Handler.Enabled(ctx, level)
}

func (h calmHandler) Handle(ctx context.Context, r slog.Record) error {
	defer ignorePanic()
	return h.Handler.Handle(ctx, r)
}

func (h calmHandler) WithAttrs(attrs []slog.Attr) (with slog.Handler) {
	with = h
	defer ignorePanic()
	return calmHandler{h.Handler.WithAttrs(attrs)}
}

func (h calmHandler) WithGroup(name string) (with slog.Handler) {
	with = h
	defer ignorePanic()
	return calmHandler{h.Handler.WithGroup(name)}
}

func ignorePanic() { _ = recover() }
