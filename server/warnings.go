package server

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// warnings tells an operator what clients do. Clients decide how often that happens. So the first message of a kind is
// logged at once, and of the messages in the second after a line only the last, when that second is over, with the
// number of messages left out. Each message is logged or counted, also if no other comes after it.
type warnings struct {
	logger *slog.Logger
	mu     sync.Mutex
	recent map[string]*recent // kinds that have a line of less than a second ago, by message and kind; guarded by mu
	ended  bool               // nothing is held back any more; guarded by mu
}

// recent is the messages since the last line of a kind.
type recent struct {
	last  func(attributes ...any) // logs the last message, nil if none came
	count int
	timer *time.Timer // ends the second
}

const warningEvery = time.Second

// warn logs a message, one of a few, with attributes as in slog.
func (w *warnings) warn(message string, attributes ...any) {
	w.tell(slog.LevelWarn, "", message, attributes...)
}

// tell is warn at any level. Messages are limited by their text and of, the kind: a command, a user, or both.
func (w *warnings) tell(level slog.Level, of, message string, attributes ...any) {
	log := func(more ...any) {
		w.logger.Log(context.Background(), level, message, append(attributes[:len(attributes):len(attributes)], more...)...)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	kind := message + of
	if r := w.recent[kind]; r != nil {
		r.last, r.count = log, r.count+1
		return
	}
	log()
	if !w.ended {
		w.recent[kind] = &recent{timer: time.AfterFunc(warningEvery, func() { w.release(kind) })}
	}
}

// release ends the second after a line of a kind.
func (w *warnings) release(kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.recent[kind]
	if r == nil {
		return
	}
	if r.count == 0 {
		delete(w.recent, kind)
		return
	}
	r.log()
	r.timer.Reset(warningEvery)
}

// log logs the messages that came, if any did.
func (r *recent) log() {
	switch {
	case r.count > 1:
		r.last("omitted", r.count-1)
	case r.count == 1:
		r.last()
	}
	r.last, r.count = nil, 0
}

// end logs messages that were held back. Later messages are logged at once.
func (w *warnings) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for kind, r := range w.recent {
		r.timer.Stop()
		r.log()
		delete(w.recent, kind)
	}
}
