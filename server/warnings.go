package server

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// warnings tells an operator what clients do. Clients decide how often that happens, so each kind of message is
// logged at most once a second, with the number of messages that were omitted since the last one.
type warnings struct {
	logger *slog.Logger
	mu     sync.Mutex
	kinds  map[string]*warning // by message and kind; guarded by mu
}

type warning struct {
	last    time.Time
	omitted int
}

const warningEvery = time.Second

// warn logs a message, one of a few, with attributes as in slog.
func (w *warnings) warn(message string, attributes ...any) {
	w.tell(slog.LevelWarn, "", message, attributes...)
}

// tell is warn at any level. Messages are limited by their text and of, the kind, one of a few.
func (w *warnings) tell(level slog.Level, of, message string, attributes ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kind := w.kinds[message+of]
	if kind == nil {
		kind = &warning{}
		w.kinds[message+of] = kind
	}
	now := time.Now()
	if now.Sub(kind.last) < warningEvery {
		kind.omitted++
		return
	}
	if kind.omitted > 0 {
		attributes = append(attributes, "omitted", kind.omitted)
	}
	w.logger.Log(context.Background(), level, message, attributes...)
	kind.last, kind.omitted = now, 0
}
