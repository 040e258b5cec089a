// Package serve is one run of the word serve: a store that is served until the process is told to end.
//
// A run is a Service. New checks the flags and reads the files that they name, before there is a store; Listen takes
// the addresses; Serve serves the store, sees to the signals, and ends the server. Everything that a run tells is a
// line of the log.
//
//	flags.go     the flags, and what they must not be
//	config.go    flags in a file
//	secrets.go   the password and the users, from files, read at the start and at each SIGHUP
//	tls.go       certificates and keys, read at the start and at each SIGHUP
//	listen.go    the addresses of the clients and of the metrics
//	address.go   the file in the store's directory that says where the store is served
//	metrics.go   the metrics over HTTP
//	ui.go        the dashboard over HTTP
//	shutdown.go  how long the end may take
package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/mdlayher/sdnotify"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/server"
)

// Service is one run of serve.
type Service struct {
	flags   *Flags
	log     *slog.Logger
	options *server.Options

	hangups chan os.Signal // SIGHUP
	at      addresses
	last    *lastResort
	unwatch func() bool // ends the watch for the end of New's context
}

// New checks the flags, and reads the files that they name. The table is the table of the store to serve. From the end
// of ctx to the call of Close, the process has DrainTime and a little more to end; then it ends itself.
//
// From here on SIGHUP does not end the process, also after Close.
func New(ctx context.Context, f *Flags, table *module.Table, log *slog.Logger) (*Service, error) {
	s := &Service{flags: f, log: log, hangups: make(chan os.Signal, 1)}
	signal.Notify(s.hangups, syscall.SIGHUP)
	if err := s.prepare(ctx, table); err != nil {
		signal.Stop(s.hangups)
		return nil, err
	}
	s.last = &lastResort{after: DrainTime + lastTime, log: log, exit: os.Exit}
	s.unwatch = context.AfterFunc(ctx, s.last.begin)
	return s, nil
}

// Close ends listening. It is called after the store was closed.
func (s *Service) Close() {
	s.at.close()
	s.unwatch()
	s.last.stop()
}

func (s *Service) prepare(ctx context.Context, table *module.Table) (err error) {
	if err := s.flags.check(); err != nil {
		return err
	}
	if err := s.readSecrets(ctx, table); err != nil {
		return err
	}
	for _, files := range s.flags.tlsFiles() {
		warnings, err := files.read(ctx)
		if err != nil {
			return exit.WithCode(exit.Local, fmt.Errorf("serve: %w", err))
		}
		for _, text := range warnings {
			s.log.Warn(text)
		}
	}
	if err := s.flags.checkSettings(table); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		s.log.Warn("running as root: serve needs none of its rights; a user of its own is safer")
	}
	return nil
}

// Serve serves a store until SIGTERM, Ctrl-C, which both end ctx, or the command SHUTDOWN. Then it syncs the store,
// which the caller closes. Listen was called before, and the settings of the flags were made, see Flags.Set.
func (s *Service) Serve(ctx context.Context, db *kv.DB) error {
	srv, err := server.New(db, s.options)
	if err != nil {
		return exit.WithCode(exit.Local, fmt.Errorf("serve: %w", err))
	}
	// Programs that read below that the store is served look for the address in its directory.
	if err := s.leaveAddress(db.Dir()); err != nil {
		return err
	}
	failed := make(chan error, len(s.at.clients)+2)
	stopUI, err := s.serveUI(db, srv, failed)
	if err != nil {
		return err
	}
	for _, l := range s.at.clients {
		go func() { failed <- l.serve(srv) }()
		s.log.Info("sievekv: serving", "dir", db.Dir(), "addr", l.Addr().String())
	}
	stopMetrics := s.serveMetrics(srv, failed)
	systemd, err := sdnotify.New() // nil, which does nothing, if systemd has not started the process
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("sievekv: systemd cannot be told", "error", err)
	}
	s.notify(systemd, sdnotify.Ready)
	err = s.await(ctx, srv, failed)
	s.notify(systemd, sdnotify.Stopping)
	_ = systemd.Close() // nothing more is told
	s.last.begin()
	s.log.Info("sievekv: shutting down")
	removeAddress(db.Dir())
	return errors.Join(err, s.drain(ctx, db, srv, stopUI, stopMetrics))
}

// notify tells systemd a state of the process.
func (s *Service) notify(systemd *sdnotify.Notifier, state string) {
	if err := systemd.Notify(state); err != nil {
		s.log.Warn("sievekv: systemd cannot be told", "state", state, "error", err)
	}
}

// await returns when the server is to end, with an error if it cannot go on. At SIGHUP files are read again.
func (s *Service) await(ctx context.Context, srv *server.Server, failed <-chan error) error {
	for {
		select {
		case <-ctx.Done(): // SIGTERM is how a server is ended, and no error
			return nil
		case <-srv.ShutdownAsked():
			return nil
		case err := <-failed:
			return err
		case <-s.hangups:
			s.readAgain(ctx, srv)
		}
	}
}

// readAgain reads the password, the users and the files of TLS again. What is bad stays as it was, and does not keep the
// rest from being read. Connections that exist keep the certificates that they began with.
func (s *Service) readAgain(ctx context.Context, srv *server.Server) {
	none := !s.secretsAgain(ctx, srv)
	for _, files := range s.flags.tlsFiles() {
		if files.cert == "" {
			continue
		}
		none = false
		warnings, err := files.read(ctx)
		if err != nil {
			s.log.Warn(fmt.Sprintf("SIGHUP: %v; --%s goes on with what was read before", err, files.address))
			continue
		}
		for _, text := range warnings {
			s.log.Warn("SIGHUP: " + text)
		}
		s.log.Info(fmt.Sprintf("SIGHUP: --%s has a certificate that is good until %s", files.address, inUTC(files.leaf().NotAfter)))
	}
	if none {
		s.log.Info("SIGHUP: there is no file to read again")
	}
}

// LimitMemory has the garbage collector run more often as the process comes near to the memory that it is to take: the
// caches, the buffers of clients, and 128 MiB for memtables and all the rest. Without it garbage may take as much again.
// With $GOMEMLIMIT set, that is the limit.
func LimitMemory(db *kv.DB) {
	if os.Getenv("GOMEMLIMIT") == "" {
		o := db.Options()
		debug.SetMemoryLimit(o.CacheSize + max(0, o.StringCacheSize) + ClientsMemory(db) + 128<<20)
	}
}

// ClientsMemory returns the memory, in bytes, that the clients of a store may take.
func ClientsMemory(db *kv.DB) int64 { return module.Of(db).SettingInt(clientsMemorySetting) }
