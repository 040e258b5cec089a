package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/cliflags"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/serve"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
	"github.com/sievekv/sievekv/kv"
)

func (sh *shell) serveCommand() *cobra.Command {
	var f serve.Flags
	var file string
	var config *serve.Config // nil without a file
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serves the store to clients of Redis",
		Long:  serveHelp,
		Args:  exactArgs(0),
		PersistentPreRunE: func(cmd *cobra.Command, args []string) (err error) {
			if file != "" {
				if config, err = serve.ReadConfig(cmd.Context(), cmd.Flags(), file); err != nil {
					return err
				}
			}
			return config.Explain(cmd.Root().PersistentPreRunE(cmd, args))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return config.Explain(sh.serve(cmd.Context(), &f)) },
	}
	cmd.Flags().SortFlags = false
	cliflags.FileVar(cmd.Flags(), &file, serve.ConfigFlag, "`FILE` with flags, one a line, without their dashes; those of the command line come first")
	f.Register(cmd.Flags())
	cmd.Flags().StringVar(&sh.log.format, "log-format", "text", "the form of the log's lines: text, or json for programs")
	cmd.Flags().StringVar(&sh.log.level, "log-level", "info", "the least important lines of the log: debug, info, warn or error")
	return cmd
}

// logFlags say how serve logs.
type logFlags struct{ format, level string }

// handler returns the log's handler.
func (f *logFlags) handler(out *tty.Messages) (slog.Handler, error) {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[f.level]
	if !ok {
		return nil, exit.Usagef("serve: --log-level %s: must be debug, info, warn or error", f.level)
	}
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: brief}
	switch f.format {
	case "text":
		return slog.NewTextHandler(out, o), nil
	case "json":
		return slog.NewJSONHandler(out.JSON(), o), nil
	}
	return nil, exit.Usagef("serve: --log-format %s: must be text or json", f.format)
}

const serveHelp = `serve serves the store over the protocol of Redis, until SIGTERM, Ctrl-C or the command SHUTDOWN. redis-cli,
kvshell -h, and clients made for Redis with RedisBloom can use it.

When the server is told to end, running commands have ten seconds to end; then everything is synced, and the exit code is
0. If a command or the disk takes longer, the process ends four seconds later without closing the store, with exit code 6.
No write that was acknowledged at --sync always is lost by that. A second SIGTERM or Ctrl-C ends the process at once.

A client gets the reply to a write when the write is as durable as --sync says. Commands that a client sends without
waiting for replies are made durable together.

Without a password (--requirepass-file) or users (--acl-file) only clients on this machine are served. Whoever has the
password can read, change and delete everything, and end the server. Users of the ACL file can do what that file allows.
With --tls-client-ca clients need a certificate, too; it does not replace the login.

The FILE of --config has flags, one a line: NAME VALUE, as in addr 0.0.0.0:6380. Lines that begin with # are comments. A flag
of the command line takes the place of one in the file.

SIGHUP makes the server read the password, the users and the files of TLS again, and never ends it. Connections that exist go
on, but for those of users that are gone. If a file is bad, the server keeps what it read before.

CONFIG GET * lists the settings. CONFIG SET changes one until the server ends; --set changes one from the start.

All that the server tells is a line of its log, on standard error.

`

// serve serves the store until SIGTERM, Ctrl-C or the command SHUTDOWN.
func (sh *shell) serve(ctx context.Context, f *serve.Flags) (err error) {
	if sh.serveLog, err = sh.log.handler(sh.stderr); err != nil {
		return err
	}
	f.ClientsMemory = sharesOf(int64(sh.memory)).clients
	sh.member = f.Member()
	s, err := serve.New(ctx, f, sh.table(), sh.logger())
	if err != nil {
		return err
	}
	defer s.Close()
	db, closeDB, err := sh.openToServe(ctx, s, f)
	if err != nil {
		return err
	}
	defer closeDB(&err)
	if err := f.Set(db); err != nil {
		return err
	}
	sh.compareMemory(db.Options(), serve.ClientsMemory(db))
	if sh.memory == 0 {
		serve.LimitMemory(db)
	}
	return s.Serve(ctx, db)
}

// openToServe opens the store and begins to listen. A store is made only when all addresses are free. One that exists
// is opened first: if another process serves it, the error says at which address, and not that the address is taken.
func (sh *shell) openToServe(ctx context.Context, s *serve.Service, f *serve.Flags) (db *kv.DB, closeDB func(*error), err error) {
	if sh.member {
		return sh.openMember(ctx, s, f)
	}
	db, err = sh.openAlone(s)
	return db, func(err *error) { sh.closeStore(db, err) }, err
}

// openMember opens a store of a group.
func (sh *shell) openMember(ctx context.Context, s *serve.Service, f *serve.Flags) (*kv.DB, func(*error), error) {
	dir, err := sh.dir()
	if err != nil {
		return nil, nil, err
	}
	if err := s.Listen(); err != nil {
		return nil, nil, err
	}
	n, err := f.OpenMember(ctx, dir, sh.options(dir, false), sh.logger())
	if err != nil {
		return nil, nil, err
	}
	sh.node.Store(n)
	s.InGroup(n)
	return n.DB.Store(), func(err *error) { *err = errors.Join(*err, n.Close()) }, nil
}

func (sh *shell) openAlone(s *serve.Service) (db *kv.DB, err error) {
	db, err = sh.openExisting()
	missing := errors.Is(err, kv.ErrNotExist)
	if err != nil && !missing {
		return nil, err
	}
	if err = s.Listen(); err != nil {
		if !missing {
			sh.closeStore(db, &err)
		}
		return nil, err
	}
	if missing {
		return sh.openOrCreate()
	}
	return db, nil
}
