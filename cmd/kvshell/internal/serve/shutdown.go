package serve

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/server"
)

// DrainTime is how long commands that run may take after SIGTERM. Tests have more.
var DrainTime = 10 * time.Second

// lastTime is how long the process has to end after that. Then it ends itself, though a command still runs or the disk
// does not answer.
const lastTime = 4 * time.Second

// drain ends the server, and then the pages and the metrics, by stops. Commands that run have DrainTime to end.
func (s *Service) drain(ctx context.Context, db *kv.DB, srv *server.Server, stops ...func(context.Context)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), DrainTime)
	defer cancel()
	// The metrics end last: their clients must not take from the time that commands have, and /readyz answers meanwhile
	// that the server is shutting down.
	err := srv.Shutdown(ctx)
	for _, stop := range stops {
		stop(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		// Clients of the commands given up were told nothing. What other clients were told is made durable.
		s.log.Warn("sievekv: commands were given up", "ran_for_longer_than", DrainTime)
		if !errors.Is(err, server.ErrStuck) {
			err = db.Sync()
		}
	}
	return err
}

// lastResort ends the process, with exit, when a time has passed after the first call of begin, unless stop was called
// before. All that was acknowledged is then as safe as if the process had been killed: with --sync always it is on
// stable storage.
type lastResort struct {
	after time.Duration
	log   *slog.Logger
	exit  func(code int)

	mu    sync.Mutex
	timer *time.Timer // nil until begin; guarded by mu
}

func (l *lastResort) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		return
	}
	l.timer = time.AfterFunc(l.after, func() {
		l.log.Error("sievekv: the store was not closed in time, as a command or the disk does not end: the process ends without that", "after", l.after)
		l.exit(exit.Local)
	})
}

func (l *lastResort) stop() {
	l.begin() // so that a later begin does nothing
	l.timer.Stop()
}
