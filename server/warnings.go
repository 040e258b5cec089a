package server

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// warnings tell an operator what clients do. As it is others who decide how often that is, there is a line
// of each kind a second at most, with how many were left out since the one before.
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

// warn logs a message, which is one of a few, with attributes as slog takes them.
func (w *warnings) warn(message string, attributes ...any) {
	w.tell(slog.LevelWarn, "", message, attributes...)
}

// tell is warn at another level. What is of another kind, one of a few, has lines of its own.
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
