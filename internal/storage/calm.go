package storage

import (
	"context"
	"log/slog"
)

// CalmLogger returns a logger that recovers every panic of l. The store logs in the middle of work that must go on,
// such as its own failure: a panic there would cut that work short.
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
